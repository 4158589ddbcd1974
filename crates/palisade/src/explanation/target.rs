// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides whether a word is a path, a host or a command, if the user doesn't say so.

use super::Host;
use crate::Situation;
use palisade_host::executable;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// What to explain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A host.
    Host(Host),
    /// A command.
    Command,
    /// A path.
    Path,
}

impl Target {
    /// A word that is written like a host is a host, unless there is a file or a program of that name. A word without a
    /// slash is a command if a shell finds a program of that name. Otherwise it may be a file in the working directory.
    #[must_use]
    pub fn of(situation: &Situation, word: &OsStr) -> Self {
        let text = word.to_string_lossy();
        let is_file = || situation.facts.cwd.join(word).symlink_metadata().is_ok();
        // Whether a shell would find a program of that name.
        let is_program = || {
            let path = situation.facts.environment.get("PATH");
            executable::find(word, path, &situation.facts.cwd).exit_code().is_none()
        };
        if Host::is_plain(&text)
            && !is_file()
            && !is_program()
            && let Some(host) = Host::new(&text)
        {
            return Self::Host(host);
        }
        let bytes = word.as_bytes();
        let is_path = bytes.contains(&b'/') || matches!(bytes, b"." | b".." | b"~");
        if !is_path && (is_program() || !is_file()) { Self::Command } else { Self::Path }
    }
}
