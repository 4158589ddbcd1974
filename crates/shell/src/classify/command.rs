// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of reading a line: its commands, each with its words as the shell would see them.

use std::ops::Range;

/// Stands in a value for a part that is known only when the line runs.
pub(super) const UNKNOWN: char = '\u{FFFC}';

/// A word after its quotes and its constant variables and substitutions are resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) value: String,
    /// Where it is in the line, in bytes.
    pub(super) span: Range<usize>,
    /// Part of it isn't constant.
    pub(super) dynamic: bool,
    /// Part of it was quoted.
    pub(super) quoted: bool,
    /// Plain letters with quotes, escapes or expansions between them.
    pub(super) broken: bool,
    /// It contains `*`, `?` or `[`, which the shell would match with files.
    pub(super) globbed: bool,
}

/// What a redirection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
    Append,
    Duplicate,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) direction: Direction,
    pub(super) descriptor: Option<u32>,
    pub(super) target: Word,
}

/// How the output of a command gets into the words of another command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    /// `$(…)` and backquotes.
    Substitution,
    /// `<(…)`
    Readable,
    /// `>(…)`
    Writable,
}

/// How a command is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Way {
    /// By `sudo`, `doas`, `pkexec`.
    pub(super) root: bool,
    /// Its text was decoded by another command.
    pub(super) decoded: bool,
    /// By another command: `env`, `xargs`, `sh -c`.
    pub(super) wrapped: bool,
    /// On another machine or in a container: `ssh`, `docker exec`.
    pub(super) elsewhere: bool,
    /// Once for each result of a search: `find -exec`, `xargs`.
    pub(super) each: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Command {
    /// The name and the arguments. Empty for assignments or redirections alone.
    pub(super) words: Vec<Word>,
    pub(super) assignments: Vec<(String, Word)>,
    pub(super) redirects: Vec<Redirect>,
    /// A here-document or here-string.
    pub(super) input: Option<Word>,
    /// The commands that write to its standard input.
    pub(super) upstream: Option<Range<usize>>,
    /// Another command reads its output.
    pub(super) piped: bool,
    pub(super) background: bool,
    /// The command whose words contain its output, and how.
    pub(super) inside: Option<(usize, Inside)>,
    pub(super) way: Way,
    /// What it writes to its standard output, as far as this is constant.
    pub(super) output: Option<String>,
    /// It runs the command that follows it in the list.
    pub(super) wrapper: bool,
    pub(super) span: Range<usize>,
}

impl Command {
    /// The last part of the command's path; empty if there is no name.
    pub(super) fn name(&self) -> &str {
        let name = self.words.first().map_or("", |word| word.value.as_str());
        base_name(name)
    }

    pub(super) fn arguments(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }
}

pub(super) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Why a line can't be fully parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doubt {
    /// A quote or bracket isn't closed.
    Open,
    /// A closing bracket, or a word that closes a group, without its beginning.
    Stray,
    /// The nesting is too deep.
    Deep,
    /// The line, or its expansion, is too long.
    Long,
}

/// A line after reading.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) commands: Vec<Command>,
    pub(super) functions: Vec<String>,
    pub(super) doubt: Option<Doubt>,
    /// Texts that were encoded in the line: their place, and the decoded text.
    pub(super) decoded: Vec<(Range<usize>, String)>,
}

impl Reading {
    /// Whether `such` holds for a command that feeds `command`, directly or through other commands.
    pub(super) fn is_fed(&self, command: usize, such: &dyn Fn(&Command) -> bool) -> bool {
        let mut patience = 64_usize;
        let mut waiting = vec![command];
        while let Some(index) = waiting.pop() {
            let Some(range) = self.commands.get(index).and_then(|command| command.upstream.clone()) else {
                continue;
            };
            for feeder in range.filter(|feeder| *feeder < index) {
                let Some(left) = patience.checked_sub(1) else { return false };
                patience = left;
                if self.commands.get(feeder).is_some_and(such) {
                    return true;
                }
                waiting.push(feeder);
            }
        }
        false
    }

    /// Whether the output of a command for which `such` holds ends up in the words of `command`.
    pub(super) fn holds(&self, command: usize, such: &dyn Fn(&Command, Inside) -> bool) -> bool {
        // A substituted command comes before the command whose words contain it.
        let before = self.commands.get(..command).unwrap_or_default();
        before.iter().enumerate().rev().take(256).any(|(index, other)| match other.inside {
            Some((owner, inside)) if owner == command => {
                such(other, inside) || self.is_fed(index, &|feeder| such(feeder, inside))
            }
            _ => false,
        })
    }
}
