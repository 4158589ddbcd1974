// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a word is a path, a host or a command, where that isn't stated.

use super::Host;
use crate::Situation;
use palisade_host::executable;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// What is to be explained.
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
    /// What is written like a host is one, unless it is a file here or a program. A word without a slash is a command if
    /// there is one of that name, as a shell has it; else it may be a file here.
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
