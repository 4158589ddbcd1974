// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reader: produces the events of a text.

use std::collections::VecDeque;
use std::ops::Range;

use crate::bracket::{Bracket, close};
use crate::event::{End, Event};
use crate::fault::{Fault, FaultKind};
use crate::frame::{Frame, Group, Stage};
use crate::{assignment, quote, scan};

/// The construct that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A command.
    Simple,
    /// After a group: only redirections may follow.
    Closed,
    /// `for`, before the variable.
    LoopVariable,
    /// Before `in`.
    LoopIn,
    /// The values.
    LoopItems,
    /// `case`, before its word.
    Subject,
    /// Before `in`.
    CaseIn,
    /// Patterns of `case`. The flag says whether there is one already.
    Pattern(bool),
    /// `function`, before the name.
    FunctionName,
    /// After the name.
    FunctionBody,
}

/// Reads a text: an iterator over its [`Event`]s. The time grows with the length of the text.
#[derive(Debug)]
pub struct Reader<'t> {
    pub(crate) text: &'t str,
    pub(crate) at: usize,
    /// The beginning of the line after the here-documents.
    pub(crate) resume: Option<usize>,
    ready: VecDeque<Event>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) kind: Kind,
    /// The command has at least one element.
    pub(crate) has_begun: bool,
    /// The command has at least one word.
    has_words: bool,
    /// An operator requires a command after it.
    pub(crate) is_wanted: bool,
    /// The number of bytes that may still be searched in vain for the end of a `((…))`.
    patience: usize,
    fault: Option<Fault>,
    has_ended: bool,
}

impl<'t> Reader<'t> {
    /// A reader of this text.
    #[must_use]
    pub fn new(text: &'t str) -> Self {
        Self {
            text,
            at: 0,
            resume: None,
            ready: VecDeque::new(),
            frames: Vec::new(),
            kind: Kind::Simple,
            has_begun: false,
            has_words: false,
            is_wanted: false,
            patience: text.len().saturating_mul(4).saturating_add(4096),
            fault: None,
            has_ended: false,
        }
    }

    /// The first place so far at which a shell would refuse the text. After the last event it covers the whole text,
    /// but not the texts nested in its words.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    pub(crate) fn wrong(&mut self, kind: FaultKind, at: usize, words: &'static str) {
        self.fault.get_or_insert(Fault { kind, at, words });
    }

    pub(crate) fn tell(&mut self, event: Event) {
        self.ready.push_back(event);
    }

    pub(crate) fn bytes(&self) -> &'t [u8] {
        self.text.as_bytes()
    }

    pub(crate) fn byte(&self, ahead: usize) -> Option<u8> {
        self.bytes().get(self.at + ahead).copied()
    }

    fn step(&mut self) {
        let at = self.at;
        let Some(byte) = self.byte(0) else { return };
        match (byte, self.byte(1)) {
            _ if quote::is_blank(byte) => self.at += 1,
            (b'\\', Some(b'\n')) => self.at += 2,
            (b'\n', _) => self.line_end(),
            (b'#', _) => {
                let rest = self.bytes().get(at..).unwrap_or_default();
                self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            }
            (b';', Some(b';' | b'&')) => self.case_end(),
            (b';', _) => self.separate(End::Plain, 1),
            (b'&', Some(b'>')) => self.redirect(None),
            (b'&', Some(b'&')) => self.join(End::Plain, 2),
            (b'&', _) => self.separate(End::Background, 1),
            (b'|', _) if matches!(self.kind, Kind::Pattern(_)) => self.at += 1,
            (b'|', Some(b'|')) => self.join(End::Plain, 2),
            (b'|', Some(b'&')) => self.join(End::Pipe, 2),
            (b'|', _) => self.join(End::Pipe, 1),
            (b'(', _) => self.open_bracket(),
            (b')', _) => self.shut_bracket(),
            (b'<' | b'>', Some(b'(')) => self.word(),
            (b'<' | b'>', _) => self.redirect(None),
            (b'!', Some(b'(')) if self.is_at_name() && self.kind != Kind::Closed => self.at += 1,
            _ => match self.descriptor(byte) {
                Some((length, descriptor)) => {
                    self.at += length;
                    self.redirect(descriptor);
                }
                None => self.word(),
            },
        }
    }

    /// Whether a command's name, or a word that begins or ends a group, may come next.
    pub(crate) fn is_at_name(&self) -> bool {
        match self.kind {
            Kind::Simple => !self.has_begun,
            Kind::Closed | Kind::FunctionBody => true,
            _ => false,
        }
    }

    fn line_end(&mut self) {
        match self.kind {
            Kind::LoopIn | Kind::CaseIn | Kind::Pattern(_) | Kind::FunctionBody => {}
            Kind::Simple if !self.has_begun => {}
            _ => self.finish(End::Plain),
        }
        let after = self.at + 1;
        self.at = self.resume.take().filter(|resume| *resume > after).unwrap_or(after);
    }

    /// At `;` or `&`.
    fn separate(&mut self, end: End, length: usize) {
        self.check_left_side();
        self.finish(end);
        self.at += length;
    }

    /// At `&&`, `||` or `|`.
    fn join(&mut self, end: End, length: usize) {
        self.check_left_side();
        self.finish(end);
        self.is_wanted = true;
        self.at += length;
    }

    fn check_left_side(&mut self) {
        let is_missing = match self.kind {
            Kind::Simple => !self.has_begun,
            Kind::Closed | Kind::LoopIn | Kind::LoopItems => false,
            _ => true,
        };
        if is_missing {
            self.wrong(FaultKind::Stray, self.at, "an operator stands where a command is missing");
        }
    }

    /// At `;;`, `;&` or `;;&`.
    fn case_end(&mut self) {
        let at = self.at;
        self.at += if self.byte(1) == Some(b';') && self.byte(2) == Some(b'&') { 3 } else { 2 };
        self.check_complete(at);
        self.finish(End::Plain);
        match self.frames.last() {
            Some(frame) if frame.group == Group::Case && frame.stage == Stage::Body => {
                self.kind = Kind::Pattern(false);
            }
            _ => self.wrong(FaultKind::Stray, at, "`;;` stands outside of `case`"),
        }
    }

    /// An element of a command begins.
    pub(crate) fn begin(&mut self) {
        if self.kind == Kind::FunctionBody {
            self.wrong(FaultKind::Stray, self.at, "a function's body isn't a group of commands");
            self.kind = Kind::Simple;
        }
        self.has_begun = true;
        self.is_wanted = false;
        if let Some(frame) = self.frames.last_mut() {
            frame.is_filled = true;
        }
    }

    /// Ends the command that was read so far.
    pub(crate) fn finish(&mut self, end: End) {
        match self.kind {
            Kind::LoopVariable | Kind::Subject | Kind::CaseIn | Kind::Pattern(_) => {
                self.wrong(FaultKind::Stray, self.at, "`for` or `case` is incomplete");
            }
            Kind::FunctionName | Kind::FunctionBody => {
                self.wrong(FaultKind::Stray, self.at, "a function has no name or no body");
            }
            Kind::Simple | Kind::Closed | Kind::LoopIn | Kind::LoopItems => {}
        }
        self.kind = Kind::Simple;
        self.has_begun = false;
        self.has_words = false;
        self.tell(Event::End(end));
    }

    pub(crate) fn open(&mut self, group: Group, stage: Stage) {
        if self.kind == Kind::Closed {
            self.wrong(FaultKind::Stray, self.at, "a group begins directly after another group");
            self.finish(End::Plain);
        }
        self.kind = Kind::Simple;
        self.begin();
        self.has_begun = false;
        self.frames.push(Frame::new(group, stage));
        self.tell(Event::Open);
    }

    /// Checks that nothing is missing before a word or bracket that continues or ends a group.
    pub(crate) fn check_complete(&mut self, at: usize) {
        if self.is_wanted || self.frames.last().is_some_and(|frame| !frame.is_complete()) {
            self.wrong(FaultKind::Stray, at, "a command is missing in a group");
        }
        self.is_wanted = false;
    }

    /// Ends the innermost group with `word` at `at`.
    pub(crate) fn shut(&mut self, at: usize, word: &str) {
        self.check_complete(at);
        self.finish(End::Plain);
        match self.frames.pop() {
            Some(frame) => {
                if !frame.ends_with(word) {
                    self.wrong(FaultKind::Stray, at, "the end of a group doesn't match its beginning");
                }
                self.tell(Event::Shut);
                self.kind = Kind::Closed;
            }
            None => self.wrong(FaultKind::Stray, at, "the end of a group has no beginning"),
        }
    }

    /// At `(`: a group, a sum, or neither.
    fn open_bracket(&mut self) {
        let at = self.at;
        match self.kind {
            Kind::Pattern(false) => self.at += 1,
            Kind::LoopVariable => match self.sum() {
                Some(inner) => {
                    self.tell(Event::Sum(inner));
                    self.kind = Kind::LoopIn;
                }
                None => self.foreign(),
            },
            Kind::LoopIn => self.loop_list(),
            _ if self.is_at_name() => {
                let sum = if self.kind == Kind::Closed { None } else { self.sum() };
                if let Some(inner) = sum {
                    self.kind = Kind::Simple;
                    self.begin();
                    self.tell(Event::Sum(inner));
                    self.has_begun = false;
                    self.kind = Kind::Closed;
                } else {
                    self.open(Group::Paren, Stage::Body);
                    self.at = at + 1;
                }
            }
            _ => self.foreign(),
        }
    }

    /// The content of the `((…))` that begins here; `None` if none begins. Moves behind it.
    fn sum(&mut self) -> Option<Range<usize>> {
        let at = self.at;
        if self.byte(1) != Some(b'(') {
            return None;
        }
        if self.patience == 0 {
            self.wrong(FaultKind::Stray, at, "brackets are nested too deeply");
            return None;
        }
        let (end, closed) = close(self.bytes(), at + 2, Bracket::Sum);
        if closed && self.bytes().get(end) == Some(&b')') {
            self.at = end + 1;
            return Some(at + 2..(end - 1).max(at + 2));
        }
        self.patience = self.patience.saturating_sub(end - at);
        None
    }

    /// `for name (…)`, a form of zsh.
    fn loop_list(&mut self) {
        let at = self.at;
        let (end, closed) = close(self.bytes(), at + 1, Bracket::Words);
        self.wrong(FaultKind::Stray, at, "brackets stand where `in` should");
        let inner = at + 1..(end - usize::from(closed)).max(at + 1);
        for element in assignment::elements(self.text.get(inner).unwrap_or_default()) {
            self.tell(Event::Item(element.start + at + 1..element.end + at + 1));
        }
        self.at = end;
        self.finish(End::Plain);
    }

    /// `(…)` among words: a substitution in fish, a qualifier in zsh.
    fn foreign(&mut self) {
        let at = self.at;
        let (end, closed) = close(self.bytes(), at + 1, Bracket::Commands);
        self.wrong(
            if closed { FaultKind::Stray } else { FaultKind::Open },
            at,
            "a bracket stands among words",
        );
        if self.kind == Kind::Simple {
            self.begin();
            self.has_words = true;
        }
        self.tell(Event::Foreign(at + 1..(end - usize::from(closed)).max(at + 1)));
        self.at = end;
    }

    fn shut_bracket(&mut self) {
        let at = self.at;
        self.at += 1;
        if let Kind::Pattern(any) = self.kind {
            if !any {
                self.wrong(FaultKind::Stray, at, "a pattern of `case` is missing");
            }
            if let Some(frame) = self.frames.last_mut() {
                frame.stage = Stage::Body;
            }
            self.kind = Kind::Simple;
            return;
        }
        self.shut(at, ")");
    }

    fn word(&mut self) {
        let at = self.at;
        let (end, closed) = scan::word(self.bytes(), at);
        if !closed {
            self.wrong(FaultKind::Open, at, "a quote or bracket isn't closed");
        }
        // At least one character is taken, for example a byte without a meaning.
        let end = self.text.ceil_char_boundary(end.max(at + 1));
        self.at = end;
        let raw = self.text.get(at..end).unwrap_or_default();
        match self.kind {
            Kind::Simple | Kind::Closed | Kind::FunctionBody => self.command_word(raw, at..end),
            Kind::Pattern(false) if raw == "esac" => {
                self.kind = Kind::Simple;
                self.shut(at, raw);
            }
            Kind::Pattern(_) => {
                self.tell(Event::Pattern(at..end));
                self.kind = Kind::Pattern(true);
            }
            Kind::LoopVariable => {
                self.tell(Event::Variable(at..end));
                self.kind = Kind::LoopIn;
            }
            Kind::LoopIn if raw == "in" => self.kind = Kind::LoopItems,
            Kind::LoopIn => {
                if !matches!(raw, "do" | "{") {
                    self.wrong(FaultKind::Stray, at, "a word stands where `in` or `do` should");
                }
                self.finish(End::Plain);
                self.command_word(raw, at..end);
            }
            Kind::LoopItems => self.tell(Event::Item(at..end)),
            Kind::Subject => {
                self.tell(Event::Item(at..end));
                self.kind = Kind::CaseIn;
            }
            Kind::CaseIn => {
                if raw != "in" {
                    self.wrong(FaultKind::Stray, at, "a word stands where `in` should");
                }
                self.tell(Event::End(End::Plain));
                self.kind = Kind::Pattern(false);
            }
            Kind::FunctionName if raw == "{" => {
                self.kind = Kind::FunctionBody;
                self.command_word(raw, at..end);
            }
            Kind::FunctionName => self.function(at..end),
        }
    }

    /// The index after the `()` at this place, if there is one.
    fn after_brackets(&self) -> Option<usize> {
        let blanks = |at: usize| {
            let rest = self.bytes().get(at..).unwrap_or_default();
            at + rest.iter().take_while(|byte| quote::is_blank(**byte)).count()
        };
        let open = blanks(self.at);
        (self.bytes().get(open) == Some(&b'(')).then_some(())?;
        let shut = blanks(open + 1);
        (self.bytes().get(shut) == Some(&b')')).then_some(shut + 1)
    }

    fn function(&mut self, name: Range<usize>) {
        self.at = self.after_brackets().unwrap_or(self.at);
        self.tell(Event::Function(name));
        self.kind = Kind::FunctionBody;
    }

    /// A word of a command, or a word that begins, continues or ends a group.
    fn command_word(&mut self, raw: &str, range: Range<usize>) {
        if self.is_at_name() {
            if self.reserved(raw, range.clone()) {
                return;
            }
            if self.kind == Kind::Closed {
                self.wrong(FaultKind::Stray, range.start, "a word stands directly after a group");
                self.finish(End::Plain);
            }
            if self.after_brackets().is_some() {
                self.begin();
                self.has_begun = false;
                self.function(range);
                return;
            }
        }
        self.begin();
        if !self.has_words && crate::Assignment::of(raw).is_some() {
            self.tell(Event::Assignment(range));
        } else {
            self.has_words = true;
            self.tell(Event::Word(range));
        }
    }

    /// `[[ … ]]`. Its first word is at `range`.
    pub(crate) fn test(&mut self, range: Range<usize>) {
        let start = range.start;
        self.begin();
        self.tell(Event::Test(range));
        let bytes = self.bytes();
        let mut is_pattern = false;
        while let Some(byte) = self.byte(0) {
            if quote::is_blank(byte) || byte == b'\n' || byte == b'\\' && self.byte(1) == Some(b'\n') {
                self.at += 1 + usize::from(byte == b'\\');
                continue;
            }
            let at = self.at;
            let substitutes = matches!(byte, b'<' | b'>') && self.byte(1) == Some(b'(');
            let (end, closed) = if std::mem::take(&mut is_pattern) {
                scan::regular_expression(bytes, at)
            } else if quote::ends_word(byte) && !substitutes {
                self.at += 1;
                continue;
            } else {
                scan::word(bytes, at)
            };
            self.at = self.text.ceil_char_boundary(end.max(at + 1));
            if !closed {
                self.wrong(FaultKind::Open, at, "a quote or bracket isn't closed");
            }
            match self.text.get(at..self.at) {
                Some("]]") => {
                    self.has_begun = false;
                    self.kind = Kind::Closed;
                    return;
                }
                Some("=~") => is_pattern = true,
                _ => {}
            }
            self.tell(Event::Word(at..self.at));
        }
        self.wrong(FaultKind::Open, start, "`[[` isn't closed");
    }

    fn end(&mut self) {
        let at = self.text.len();
        let is_open =
            !self.frames.is_empty() || self.is_wanted || !matches!(self.kind, Kind::Simple | Kind::Closed);
        if is_open {
            self.wrong(FaultKind::Open, at, "the text ends in the middle of a command");
        }
        self.finish(End::Plain);
        self.has_ended = true;
    }
}

impl Iterator for Reader<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.has_ended {
                return None;
            }
            if self.at < self.text.len() { self.step() } else { self.end() }
        }
    }
}
