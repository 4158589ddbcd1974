// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules about command lines. A sandbox sees programs, paths and connections, not the words of a command. A rule against
//! a single program is expressed: the program can't be executed by its name.

use super::Importer;
use super::rules::Item;
use crate::programs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const ALLOWED: &str = "every command may run: what it reaches is restricted, not its words";
const WORDS: &str =
    "Palisade doesn't refuse commands by their words: refuse the file or the host that the command needs";
const PROGRAM: &str = "the program can't be executed at its path; a copy of it could be";
const SHARED: &str = "this program isn't a file of its own: refusing it would refuse others, too";
const ABSENT: &str = "this host has no such program; one that is installed later isn't refused";

impl Importer<'_> {
    /// A command that is allowed.
    pub(super) fn command_allowed(&mut self, item: &Item) {
        self.draft.approximated(super::top(item), ALLOWED);
    }

    /// A command that is refused: the words at the beginning of a line, or a program alone.
    pub(super) fn command_refused(&mut self, item: &Item, command: &str) {
        let said = item.said("filesystem", "deny");
        let is_program = !command.is_empty()
            && command.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte))
            && !command.starts_with('-');
        if !is_program {
            return self.draft.not_kept(said, WORDS);
        }
        let found = programs::every(command);
        if found.is_empty() {
            return self.draft.not_kept(said, ABSENT);
        }
        let alone = |path: &String| {
            let metadata = Path::new(path).symlink_metadata();
            metadata.is_ok_and(|metadata| metadata.is_file() && metadata.nlink() == 1)
        };
        if !found.iter().all(alone) {
            return self.draft.not_kept(said, SHARED);
        }
        let mut could = true;
        for path in &found {
            could &= self.draft.push("filesystem", "deny", path);
        }
        let said = item.said("filesystem", "deny");
        if could { self.draft.approximated(said, PROGRAM) } else { self.draft.not_kept(said, WORDS) }
    }
}
