// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Proposes options that permit what was refused. A hint never proposes what a lock forbids.

use palisade_text::quoted;
use serde::Serialize;
use std::path::{Path, PathBuf};

use crate::layer::{Layer, Origin, Strength};
use crate::pattern::PathPattern;
use crate::resolve::{Moved, Place, Placed, Resolved};
use crate::rule::{Access, Grant, PathRule};

/// How a refusal can be lifted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// Not necessary: the policy allows the access.
    Allowed,
    /// These words before `--` permit it. They are quoted for a shell where needed.
    Option(String),
    /// This lock forbids it.
    Locked(Box<PathRule>),
    /// No option permits it: this command line itself refuses it, or the path isn't UTF-8.
    Impossible,
}

/// The kind of access that a program wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    /// Read or list it.
    Read,
    /// Change it, or create names in it.
    Write,
    /// Execute it.
    Execute,
}

impl Wanted {
    /// `read`, `write` or `execute`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
        }
    }

    /// Whether a grant allows this access.
    #[must_use]
    pub const fn is_in(self, grant: Grant) -> bool {
        match (self, grant) {
            (Self::Read, Grant::Allowed { .. }) => true,
            (Self::Write, Grant::Allowed { write, .. }) => write,
            (Self::Execute, Grant::Allowed { execute, .. }) => execute,
            _ => false,
        }
    }
}

impl Resolved {
    /// The option that allows `wanted` at `path`.
    ///
    /// The option is tested before it is proposed: with it, the policy allows the access.
    #[must_use]
    pub fn hint(&self, path: &Path, wanted: Wanted) -> Hint {
        let now = self.decide(path);
        if wanted.is_in(now.grant) {
            return Hint::Allowed;
        }
        let host = self.source_at(path);
        let (Ok(pattern), Ok(inside)) = (PathPattern::exactly(&host), PathPattern::exactly(path)) else {
            return Hint::Impossible;
        };
        // If the path is writable now, it must stay writable.
        let write = wanted == Wanted::Write || Wanted::Write.is_in(now.grant);
        let mut added = vec![rule(&pattern, &host, path, Access::Execute)];
        if write {
            added.push(rule(&pattern, &host, path, Access::Write));
        }
        if wanted.is_in(self.grant_with(path, &added)) {
            let option = if write { "--rw" } else { "--ro" };
            // `exactly` escapes special characters. A path that isn't UTF-8 can't be shown as words to type.
            return match (pattern.as_str(), inside.as_str()) {
                (Some(text), _) if host == path => Hint::Option(format!("{option} {}", quoted(text))),
                (Some(text), Some(inside)) => {
                    Hint::Option(format!("{option} {}", quoted(&format!("{text}={inside}"))))
                }
                _ => Hint::Impossible,
            };
        }
        match now.lock {
            Some(lock) => Hint::Locked(Box::new(lock)),
            None => Hint::Impossible,
        }
    }
}

fn rule(pattern: &PathPattern, host: &Path, path: &Path, access: Access) -> Placed {
    Placed {
        rule: PathRule {
            pattern: pattern.clone(),
            destination: None,
            access,
            origin: Origin { layer: Layer::CommandLine, file: None, line: 0, column: 0 },
            strength: Strength::Set,
        },
        place: Place::Path(PathBuf::from(path)),
        moved: (host != path).then(|| Moved { from: host.to_owned(), to: path.to_owned() }),
        outer: false,
    }
}
