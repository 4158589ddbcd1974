// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that a file of Greywall or Fence builds on (`extends`). Lists of both add up. A single value of the file itself
//! counts before that of the file that it builds on.

use super::{Agent, Importer};
use crate::tree::Node;
use crate::{ImportError, source};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// How many files may build on each other, as both programs limit it.
const DEEPEST: usize = 10;

/// A file of a chain.
pub(super) struct Part {
    pub(super) path: PathBuf,
    /// Its name in reports. `None` for the file that is imported.
    pub(super) file: Option<Rc<str>>,
    pub(super) root: Node,
}

impl Importer<'_> {
    /// The file and those that it builds on: the one that is read first by the program is first.
    pub(super) fn chain(&mut self, root: &Node) -> Result<Vec<Part>, ImportError> {
        let mut parts = vec![Part { path: self.path.clone(), file: None, root: root.clone() }];
        let mut seen = vec![self.path.canonicalize().unwrap_or_else(|_gone| self.path.clone())];
        while let Some(next) = self.extended(&parts[parts.len() - 1])? {
            let Some(next) = next else { break };
            let refused = |why| ImportError::Extends { path: parts[0].path.clone(), name: next.clone(), why };
            let real = next.canonicalize().unwrap_or_else(|_gone| next.clone());
            if seen.contains(&real) {
                return Err(refused("it builds on itself"));
            }
            if parts.len() > DEEPEST {
                return Err(refused("more than 10 files build on each other"));
            }
            seen.push(real);
            let read = source::read(&next)?;
            self.draft.report.read(&next, read.owner, self.host.uid);
            let file = Some(Rc::from(next.to_string_lossy().as_ref()));
            (self.path, self.file) = (next.clone(), file.clone());
            let root = self.parse(&read.text)?;
            parts.push(Part { path: next, file, root });
        }
        parts.reverse();
        Ok(parts)
    }

    /// The file that a part builds on. `Some(None)`: the program's default settings, and the user has none.
    fn extended(&mut self, part: &Part) -> Result<Option<Option<PathBuf>>, ImportError> {
        let entries = self.table(&part.root, "the file")?;
        let Some((_key, node)) = entries.iter().find(|(key, _node)| key == "extends") else {
            return Ok(None);
        };
        let name = self.text(node, "extends")?;
        if name.is_empty() {
            return Ok(None);
        }
        if self.agent == Agent::Fence && name == "@base" {
            return Ok(Some(self.base()));
        }
        if !name.contains(['/', '\\']) && !name.starts_with('.') {
            return Err(ImportError::Template {
                path: part.path.clone(),
                name: name.to_owned(),
                launcher: self.agent.name(),
            });
        }
        let directory = part.path.parent().unwrap_or(Path::new(""));
        Ok(Some(Some(match name.strip_prefix("~/") {
            Some(below) => self.host.home.join(below),
            None => directory.join(name),
        })))
    }

    /// The user's own settings of Fence.
    fn base(&self) -> Option<PathBuf> {
        let own = self.host.config.join("fence");
        let places = [
            own.join("fence.jsonc"),
            own.join("fence.json"),
            self.host.home.join(".fence.jsonc"),
            self.host.home.join(".fence.json"),
        ];
        places.into_iter().find(|place| place.symlink_metadata().is_ok())
    }
}
