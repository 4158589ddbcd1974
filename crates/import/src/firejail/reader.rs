// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the lines of a profile and of the files that it includes.

use super::{Bus, Home, Profile, SYSTEM};
use crate::draft::Said;
use crate::report::At;
use crate::{ImportError, source};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The depth to which firejail follows includes.
const DEEPEST: usize = 16;
/// How many files one profile may include. A file counts each time it is included.
const MOST_FILES: usize = 256;
/// The most text of all files together.
const MOST_TEXT: usize = 8 << 20;
/// The longest line that firejail reads as one.
const LONGEST: usize = 8192;

struct Reader<'r, 'p, 'd> {
    /// The directories in which included files may lie.
    places: &'r [PathBuf],
    home: &'r Path,
    profile: &'p mut Profile<'d>,
    files: usize,
    text: usize,
    /// The files being read, outermost first.
    open: Vec<PathBuf>,
}

/// Reads a profile and everything that it includes.
pub(super) fn read(
    path: &Path,
    text: &str,
    places: &[PathBuf],
    home: &Path,
    profile: &mut Profile<'_>,
) -> Result<(), ImportError> {
    let real = path.canonicalize().unwrap_or_else(|_unreadable| path.to_owned());
    let description = text.lines().find_map(|line| line.strip_prefix("# Description:"));
    if let Some(description) = description.map(str::trim).filter(|text| !text.is_empty()) {
        profile.draft.table("").text("description", description);
    }
    Reader { places, home, profile, files: 0, text: text.len(), open: vec![real] }.lines(text, None)
}

impl Reader<'_, '_, '_> {
    fn lines(&mut self, text: &str, label: Option<&Rc<str>>) -> Result<(), ImportError> {
        for (index, line) in text.split('\n').enumerate() {
            let at = At { file: label.cloned(), line: index + 1 };
            // A comment ends the line, wherever the comment begins.
            let line = line.split('#').next().unwrap_or_default();
            let line = line.split([' ', '\t', '\r']).filter(|word| !word.is_empty());
            let line = line.collect::<Vec<_>>().join(" ");
            if line.len() > LONGEST {
                let said = Said { at: &at, statement: &line, section: "", key: "" };
                self.profile.draft.not_kept(said, "firejail accepts no lines of this length");
            } else if !line.is_empty() {
                self.line(&at, &line)?;
            }
        }
        Ok(())
    }

    fn line(&mut self, at: &At, line: &str) -> Result<(), ImportError> {
        let line = match line.strip_prefix('?') {
            Some(conditional) => match self.conditional(at, line, conditional) {
                Some(line) => line,
                None => return Ok(()),
            },
            None => line,
        };
        if self.profile.is_ignored(line) {
            self.profile.draft.taken();
            return Ok(());
        }
        if let Some(ignored) = line.strip_prefix("ignore ") {
            self.profile.ignored.push(ignored.to_owned());
            self.profile.draft.taken();
            return Ok(());
        }
        match line.strip_prefix("include ") {
            Some(name) => self.include(at, line, name),
            None => {
                self.profile.statement(at, line);
                Ok(())
            }
        }
    }

    /// The line after a condition, if the condition holds.
    fn conditional<'l>(&mut self, at: &At, whole: &str, conditional: &'l str) -> Option<&'l str> {
        const SWITCH: &str = "a switch of firejail's configuration, which is off unless it is set";
        let profile = &mut *self.profile;
        let said = Said { at, statement: whole, section: "", key: "" };
        let Some((name, line)) = conditional.split_once(':') else {
            profile.draft.unknown(at, whole);
            return None;
        };
        let line = line.trim_start();
        let buses = [profile.session, profile.system];
        let holds = match name.trim_end() {
            "HAS_APPIMAGE" => false,
            "HAS_NET" => profile.no_network,
            "HAS_NODBUS" => buses.iter().any(|bus| *bus != Bus::Unsaid),
            "HAS_NOSOUND" => profile.switches.contains("nosound"),
            "HAS_PRIVATE" => profile.home != Home::Real,
            "HAS_X11" => profile.switches.contains("x11"),
            "BROWSER_DISABLE_U2F" => true,
            "ALLOW_TRAY" | "BROWSER_ALLOW_DRM" => {
                profile.draft.left_out(said, SWITCH);
                return None;
            }
            _ => {
                profile.draft.unknown(at, whole);
                return None;
            }
        };
        if !holds {
            profile.draft.taken();
        }
        holds.then_some(line)
    }

    fn include(&mut self, at: &At, line: &str, name: &str) -> Result<(), ImportError> {
        let place = || format!("{at}: {line}");
        let Some(path) = self.find(name) else {
            // A file that the user could have added, and hasn't.
            if Path::new(name).extension().is_some_and(|extension| extension == "local") {
                self.profile.draft.taken();
                return Ok(());
            }
            let looked = self.places.iter().map(|place| place.display().to_string()).collect();
            return Err(ImportError::Missing { line: place(), name: name.to_owned(), looked });
        };
        let real = path.canonicalize().map_err(|source| ImportError::Read { path: path.clone(), source })?;
        let within = |place: &PathBuf| place.canonicalize().is_ok_and(|place| real.starts_with(place));
        if !self.places.iter().any(within) {
            return Err(ImportError::Outside { line: place(), path: real });
        }
        if self.open.contains(&real) {
            return Err(ImportError::Circle { line: place() });
        }
        self.files += 1;
        if self.open.len() > DEEPEST || self.files > MOST_FILES {
            return Err(ImportError::Includes { line: place() });
        }
        // `disable-devel.inc` is skipped with `allow-debuggers`.
        let base = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        self.profile.draft.taken();
        if base == "disable-devel.inc" && self.profile.switches.contains("allow-debuggers") {
            return Ok(());
        }
        let text = source::read(&real)?.text;
        self.text += text.len();
        if self.text > MOST_TEXT {
            return Err(ImportError::Includes { line: place() });
        }
        self.open.push(real);
        let done = self.lines(&text, Some(&Rc::from(base.as_str())));
        self.open.pop();
        done
    }

    /// The file that an include names, if it exists.
    fn find(&self, name: &str) -> Option<PathBuf> {
        let below = |directory: &Path, rest: &str| directory.join(rest.trim_start_matches('/'));
        let one = if let Some(rest) = name.strip_prefix("${HOME}").or_else(|| name.strip_prefix('~')) {
            below(self.home, rest)
        } else if let Some(rest) = name.strip_prefix("${CFG}") {
            below(Path::new(SYSTEM), rest)
        } else if name.contains('/') {
            PathBuf::from(name)
        } else {
            return self
                .places
                .iter()
                .map(|place| place.join(name))
                .find(|path| path.symlink_metadata().is_ok());
        };
        one.symlink_metadata().is_ok().then_some(one)
    }
}

impl Profile<'_> {
    /// Whether `ignore` names the line or its first words.
    pub(super) fn is_ignored(&self, line: &str) -> bool {
        let begins = |ignored: &String| {
            line.strip_prefix(ignored.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        self.ignored.iter().any(begins)
    }
}
