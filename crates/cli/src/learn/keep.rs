// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shows a learned profile, and writes it if the user agrees.

use crate::{output, verb};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A profile that is to be written to a file.
pub(super) struct Keeping<'k> {
    pub(super) text: &'k str,
    pub(super) name: &'k str,
    /// The file to write, if it isn't one of the user's profiles; `-` is standard output.
    pub(super) file: Option<&'k Path>,
    /// The directory of the user's profiles.
    pub(super) profiles: &'k Path,
    /// Show the profile and write nothing.
    pub(super) show_only: bool,
    /// The user has agreed already: don't ask.
    pub(super) agreed: bool,
    pub(super) quiet: bool,
}

/// Why a profile isn't written.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeepError {
    /// The existing file can't be read. It isn't overwritten unseen.
    #[error("can't read {file:?}, which would be replaced: {source}")]
    Read { file: PathBuf, source: std::io::Error },
    /// It can't be written.
    #[error("can't write {file:?}: {source}")]
    Write { file: PathBuf, source: std::io::Error },
    /// Standard output can't be written.
    #[error("can't write the profile to standard output: {0}")]
    Output(std::io::Error),
}

impl Keeping<'_> {
    /// Shows what would change, and writes it if the user agrees. Returns whether the file has this content now.
    pub(super) fn propose(&self) -> Result<bool, KeepError> {
        if self.file == Some(Path::new("-")) {
            let mut out = std::io::stdout().lock();
            out.write_all(self.text.as_bytes()).and_then(|()| out.flush()).map_err(KeepError::Output)?;
            return Ok(false);
        }
        let file = match self.file {
            Some(file) => file.to_owned(),
            None => self.profiles.join(format!("{}.toml", self.name)),
        };
        let old = match std::fs::read_to_string(&file) {
            Ok(old) => old,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(KeepError::Read { file, source }),
        };
        let shown = palisade_text::harmless(&file.to_string_lossy());
        if statements(&old) == statements(self.text) {
            self.note(&format_args!("nothing new was learned: {shown} stays as it is"));
            return Ok(!self.show_only);
        }
        if !self.quiet {
            let before = if old.is_empty() { "/dev/null" } else { &shown };
            output::say(&format!("\n{}", difference(&old, self.text, before, &shown)));
        }
        if self.show_only {
            return Ok(false);
        }
        let question = format!("Write {shown}? [y/N] ");
        match if self.agreed { Some(true) } else { verb::confirmed(&question) } {
            Some(true) => {
                write(&file, self.text).map_err(|source| KeepError::Write { file: file.clone(), source })?;
                let by = if self.file.is_some() { &shown } else { self.name };
                self.note(&format_args!("{shown} is written: palisade run --profile {by} -- COMMAND…"));
                return Ok(true);
            }
            Some(false) => self.note(&format_args!("nothing is written")),
            None => output::note(&format_args!(
                "nothing is written, there is no terminal to ask on: palisade learn --yes … writes {shown}"
            )),
        }
        Ok(false)
    }

    fn note(&self, text: &dyn std::fmt::Display) {
        if !self.quiet {
            output::note(text);
        }
    }
}

/// The statements of a profile, without comments and without the time of learning.
fn statements(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with("description"))
        .collect()
}

/// What changes, as `diff -u` shows it. `before` and `file` are the names of the old and the new text.
pub(crate) fn difference(old: &str, new: &str, before: &str, file: &str) -> String {
    let mut out = format!("--- {before}\n+++ {file}\n");
    for hunk in palisade_text::diff::hunks(old, new) {
        out.push_str(&format!("{}\n", hunk.header()));
        for (sign, line) in &hunk.lines {
            out.push(sign.character());
            out.push_str(&palisade_text::harmless(line.trim_end_matches('\n')));
            out.push('\n');
        }
    }
    out
}

/// Replaces a file as a whole: at any moment either the old or the new file exists.
pub(crate) fn write(file: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    let directory = match file.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    // No other user may write the file: a launch wouldn't trust it then.
    let mode = std::fs::Permissions::from_mode(0o644);
    let mut new = tempfile::Builder::new().prefix(".learned").permissions(mode).tempfile_in(directory)?;
    new.write_all(text.as_bytes())?;
    new.as_file().sync_all()?;
    new.persist(file).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_dates_are_nothing_new() {
        let one = "# learned on Monday\nname = \"a\"\n[filesystem]\nread = [\".\"]\n";
        let other = "# learned on Tuesday\n\nname = \"a\"\n[filesystem]\n    # more\nread = [\".\"]\n";
        assert_eq!(statements(one), statements(other));
        assert_ne!(statements(one), statements("name = \"a\"\n[filesystem]\nwrite = [\".\"]\n"));
    }

    #[test]
    fn a_difference_cannot_steer_the_terminal() {
        let text = difference("", "name = \"\u{1b}[2J\"\n", "/dev/null", "f");
        assert_eq!(text, "--- /dev/null\n+++ f\n@@ -0,0 +1 @@\n+name = \"\\u{1b}[2J\"\n");
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("new/p.toml");
        write(&file, "one").unwrap();
        write(&file, "two").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "two");
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
    }
}
