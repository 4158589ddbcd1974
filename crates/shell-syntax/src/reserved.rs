// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Handles words that begin, continue or end a group of commands.

use std::ops::Range;

use crate::event::End;
use crate::fault::FaultKind;
use crate::frame::{Group, Stage};
use crate::reader::{Kind, Reader};

impl Reader<'_> {
    /// Handles `raw`, at `range`, where a command's name may stand. Returns whether it is a reserved word.
    pub(crate) fn reserved(&mut self, raw: &str, range: Range<usize>) -> bool {
        match raw {
            "if" => self.open(Group::If, Stage::Condition),
            "while" | "until" => self.open(Group::While, Stage::Condition),
            "for" | "foreach" | "select" => {
                self.open(Group::For, Stage::Header);
                self.kind = Kind::LoopVariable;
            }
            "case" => {
                self.open(Group::Case, Stage::Header);
                self.kind = Kind::Subject;
            }
            "{" => self.brace(),
            "then" | "do" | "else" | "elif" => self.advance(raw, range.start),
            "fi" | "done" | "esac" | "}" => self.shut(range.start, raw),
            "!" | "time" | "function" | "coproc" | "[[" => {
                match self.kind {
                    Kind::Closed => {
                        self.wrong(FaultKind::Stray, range.start, "a word stands directly after a group");
                        self.finish(End::Plain);
                    }
                    Kind::FunctionBody if raw != "[[" => self.begin(),
                    _ => {}
                }
                self.kind = Kind::Simple;
                self.prefix(raw, range);
            }
            _ => return false,
        }
        true
    }

    fn prefix(&mut self, raw: &str, range: Range<usize>) {
        match raw {
            "time" => {
                let rest = self.text.get(self.at..).unwrap_or_default();
                let behind = rest.trim_start_matches([' ', '\t']);
                if let Some(behind) = behind.strip_prefix("-p")
                    && behind.starts_with([' ', '\t'])
                {
                    self.at = self.text.len() - behind.len();
                }
            }
            "function" => {
                self.begin();
                self.has_begun = false;
                self.kind = Kind::FunctionName;
            }
            "coproc" => {
                self.is_wanted = true;
                self.at += name_of_group(self.text.get(self.at..).unwrap_or_default());
            }
            "[[" => self.test(range),
            _ => {}
        }
    }

    /// `{`: begins a group, or the body of a loop after its list.
    fn brace(&mut self) {
        if let Some(frame) = self.frames.last_mut()
            && frame.group == Group::For
            && frame.stage == Stage::Header
            && self.kind == Kind::Simple
        {
            frame.group = Group::Brace;
            frame.stage = Stage::Body;
            return;
        }
        self.open(Group::Brace, Stage::Body);
    }

    fn advance(&mut self, word: &str, at: usize) {
        self.check_complete(at);
        if self.kind != Kind::Simple {
            self.finish(End::Plain);
        }
        match self.frames.last_mut() {
            Some(frame) => match frame.after(word) {
                Some(stage) => {
                    frame.stage = stage;
                    frame.is_filled = false;
                }
                None => self.wrong(
                    FaultKind::Stray,
                    at,
                    "a word such as `then` or `do` stands in the wrong group",
                ),
            },
            None => {
                self.wrong(FaultKind::Stray, at, "a word such as `then` or `do` stands outside of a group")
            }
        }
    }
}

/// The end of a name before a group of commands: `coproc NAME {`.
fn name_of_group(text: &str) -> usize {
    let blank = |letter: char| letter == ' ' || letter == '\t';
    let begun = text.trim_start_matches(blank);
    let rest = begun.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
    let behind = rest.trim_start_matches(blank);
    let word = behind.split(|letter: char| blank(letter) || letter == ';').next().unwrap_or_default();
    let opens =
        matches!(word, "{" | "while" | "until" | "if" | "for" | "case" | "[[") || behind.starts_with('(');
    if opens && rest.len() < begun.len() && behind.len() < rest.len() { text.len() - rest.len() } else { 0 }
}
