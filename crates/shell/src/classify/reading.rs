// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the text of a line into commands, whatever the text is. An open quote or group ends with the line, invalid
//! parts are skipped, and the reading then records a doubt. The time grows with the line's length.
//!
//! `palisade-shell-syntax` parses the text. This module evaluates the parts from left to right, as the shell would run
//! them, and reads the texts that result from that in turn.

use std::collections::BTreeMap;
use std::ops::Range;

use palisade_shell_syntax::{self as syntax, Assignment, End, Event, FaultKind, Operator, Quoting};

use super::command::{Command, Direction, Doubt, Inside, Reading, Redirect, Way, Word};

/// How deep texts may be nested.
pub(super) const DEEPEST: usize = 12;
/// Longer values are cut to this many bytes.
pub(super) const MOST_TEXT: usize = 64 << 10;
/// At most this many commands are examined.
const MOST_COMMANDS: usize = 1024;
/// At most this many words of a command are examined.
const MOST_WORDS: usize = 16_384;

/// Where a text is in the line.
pub(super) enum Base {
    /// The text is part of the line and begins at this index.
    At(usize),
    /// The text was made from this range of the line.
    Fixed(Range<usize>),
}

/// A command while it is read.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) way: Way,
    pub(super) children: Vec<(Range<usize>, Inside)>,
    command: Command,
    start: usize,
    /// The variable of a loop, until the loop's values are known.
    variable: Option<String>,
}

/// A group of commands that isn't closed yet.
struct Frame {
    start: usize,
    upstream: Option<Range<usize>>,
}

/// Reads texts into one list of commands.
pub(super) struct Reader {
    reading: Reading,
    pub(super) variables: BTreeMap<String, String>,
    /// What the line writes to files.
    pub(super) files: BTreeMap<String, String>,
    budget: usize,
}

/// How the commands of one text feed each other.
struct Flow<'t> {
    text: &'t str,
    base: &'t Base,
    depth: usize,
    frames: Vec<Frame>,
    /// The commands of the last pipeline's last part.
    unit: Range<usize>,
    pending: Option<Range<usize>>,
    after_group: bool,
}

impl<'t> Flow<'t> {
    fn raw(&self, range: &Range<usize>) -> &'t str {
        self.text.get(range.clone()).unwrap_or_default()
    }
}

/// Reads a line. `root`: root's shell would run it.
pub(super) fn read(line: &str, root: bool) -> Reading {
    let mut reader = Reader {
        reading: Reading::default(),
        variables: BTreeMap::new(),
        files: BTreeMap::new(),
        // Every text within a text is read again.
        budget: line.len().saturating_mul(4) + (64 << 10),
    };
    reader.read(line, &Base::At(0), Way { root, ..Way::default() }, 0);
    reader.reading
}

impl Reader {
    /// Records a doubt; the gravest one is kept.
    pub(super) fn doubt(&mut self, doubt: Doubt) {
        self.reading.doubt = self.reading.doubt.max(Some(doubt));
    }

    pub(super) fn commands(&self) -> usize {
        self.reading.commands.len()
    }

    pub(super) fn reading(&mut self) -> &mut Reading {
        &mut self.reading
    }

    /// What the commands in `range` write together; `None` if this isn't constant.
    pub(super) fn output_of(&self, range: Range<usize>) -> Option<String> {
        let mut text = String::new();
        let mut any = false;
        for command in self.reading.commands.get(range)? {
            if command.piped || command.inside.is_some() || command.wrapper || command.words.is_empty() {
                continue;
            }
            text.push_str(command.output.as_deref()?);
            any = true;
            if text.len() > MOST_TEXT {
                return None;
            }
        }
        any.then_some(text)
    }

    /// Reads a text that was made from the part of the line at `span`: it was decoded, or it is given to another shell.
    pub(super) fn read_made(&mut self, text: &str, span: Range<usize>, way: Way, depth: usize) {
        self.read(text, &Base::Fixed(span), way, depth + 1);
    }

    pub(super) fn read(&mut self, text: &str, base: &Base, way: Way, depth: usize) {
        if depth > DEEPEST {
            return self.doubt(Doubt::Deep);
        }
        match self.budget.checked_sub(text.len()) {
            Some(left) => self.budget = left,
            None => return self.doubt(Doubt::Long),
        }
        let start = self.commands();
        let mut flow = Flow {
            text,
            base,
            depth,
            frames: Vec::new(),
            unit: start..start,
            pending: None,
            after_group: false,
        };
        let mut draft = Draft { way, start, ..Draft::default() };
        let mut reader = syntax::Reader::new(text);
        for event in reader.by_ref() {
            if self.commands() >= MOST_COMMANDS {
                self.doubt(Doubt::Long);
                break;
            }
            self.step(event, &mut flow, &mut draft);
        }
        self.finish(&mut flow, &mut draft);
        match reader.fault().map(|fault| fault.kind) {
            Some(FaultKind::Open) => self.doubt(Doubt::Open),
            Some(FaultKind::Stray) => self.doubt(Doubt::Stray),
            None => {}
        }
    }

    fn step(&mut self, event: Event, flow: &mut Flow<'_>, draft: &mut Draft) {
        match event {
            Event::Word(range) => self.word(range, flow, draft),
            Event::Assignment(range) => {
                self.begin(draft, flow, &range);
                self.assign(range, flow, draft);
            }
            Event::Redirect(redirect) => self.redirect(redirect, flow, draft),
            Event::Foreign(range) => self.foreign(range, flow, draft),
            Event::Sum(range) => {
                let here = flow.base.inner(range.clone());
                self.expand_quoted(flow.raw(&range), &here, Quoting::Double, draft, flow.depth);
            }
            Event::Test(range) => {
                let word = Word { value: "[[".to_owned(), span: flow.base.span(range), ..Word::default() };
                draft.command.span = word.span.clone();
                draft.command.words.push(word);
            }
            Event::Variable(range) => draft.variable = Some(flow.raw(&range).to_owned()),
            Event::Item(range) => {
                let words = self.expand(flow.raw(&range), &flow.base.inner(range.clone()), draft, flow.depth);
                if draft.variable.is_some() && draft.command.words.len() < MOST_WORDS {
                    draft.command.words.extend(words);
                }
            }
            Event::Pattern(range) => {
                self.expand(flow.raw(&range), &flow.base.inner(range.clone()), draft, flow.depth);
                *draft = Draft { way: draft.way, start: self.commands(), ..Draft::default() };
            }
            Event::Function(range) => {
                let words = self.expand(flow.raw(&range), &flow.base.inner(range.clone()), draft, flow.depth);
                self.reading.functions.extend(words.into_iter().next().map(|word| word.value));
                *draft = Draft { way: draft.way, start: self.commands(), ..Draft::default() };
            }
            Event::Open => {
                flow.frames.push(Frame { start: self.commands(), upstream: flow.pending.take() });
            }
            Event::Shut => {
                if let Some(frame) = flow.frames.pop() {
                    flow.unit = frame.start..self.commands();
                    flow.after_group = true;
                }
            }
            Event::End(end) => {
                draft.command.background = end == End::Background;
                self.finish(flow, draft);
                if end == End::Pipe {
                    let unit = flow.unit.clone();
                    for command in self.reading.commands.get_mut(unit.clone()).into_iter().flatten() {
                        command.piped = true;
                    }
                    flow.pending = Some(unit);
                    flow.after_group = false;
                }
            }
        }
    }

    /// Sets the start of the command in `draft` to `range`, unless the command has begun before.
    fn begin(&self, draft: &mut Draft, flow: &Flow<'_>, range: &Range<usize>) {
        if draft.command.words.is_empty() {
            draft.command.span.start = flow.base.span(range.clone()).start;
        }
    }

    fn word(&mut self, range: Range<usize>, flow: &mut Flow<'_>, draft: &mut Draft) {
        let raw = flow.raw(&range);
        self.begin(draft, flow, &range);
        if draft.command.words.first().is_none_or(declares) && Assignment::of(raw).is_some() {
            return self.assign(range, flow, draft);
        }
        let words = self.expand(raw, &flow.base.inner(range.clone()), draft, flow.depth);
        if draft.command.words.len() < MOST_WORDS {
            draft.command.words.extend(words);
        } else {
            self.doubt(Doubt::Long);
        }
        draft.command.span.end = flow.base.span(range).end;
    }

    /// Reads `(…)` among words: a substitution in fish, a qualifier in zsh.
    fn foreign(&mut self, range: Range<usize>, flow: &mut Flow<'_>, draft: &mut Draft) {
        let start = self.commands();
        self.read(flow.raw(&range), &flow.base.inner(range.clone()), draft.way, flow.depth + 1);
        draft.children.push((start..self.commands(), Inside::Substitution));
        draft.command.words.push(Word {
            value: super::command::UNKNOWN.to_string(),
            span: flow.base.span(range.start.saturating_sub(1)..(range.end + 1).min(flow.text.len())),
            dynamic: true,
            ..Word::default()
        });
    }

    fn assign(&mut self, range: Range<usize>, flow: &Flow<'_>, draft: &mut Draft) {
        let raw = flow.raw(&range);
        let Some(assignment) = Assignment::of(raw) else { return };
        let (here, depth) = (flow.base.inner(range), flow.depth);
        let value = raw.get(assignment.value.clone()).unwrap_or_default();
        let mut word = if assignment.is_array {
            // Elements of an array, one after the other.
            let mut joined = Word { span: here.span(0..raw.len()), ..Word::default() };
            for element in syntax::elements(value) {
                let part = value.get(element).unwrap_or_default();
                let word = self.expand_one(part, &Base::Fixed(joined.span.clone()), draft, depth + 1);
                if !word.value.is_empty() && !joined.value.is_empty() {
                    joined.value.push(' ');
                }
                joined.value.push_str(&word.value);
                joined.dynamic |= word.dynamic;
            }
            joined
        } else {
            self.expand_one(value, &here.inner(assignment.value.clone()), draft, depth)
        };
        word.span = here.span(0..raw.len());
        let name = assignment.name;
        if word.dynamic {
            self.variables.remove(name);
        } else {
            let before = if assignment.appends {
                self.variables.remove(name).unwrap_or_default()
            } else {
                String::new()
            };
            let mut text = before + &word.value;
            if text.len() > MOST_TEXT {
                text.clear();
                self.doubt(Doubt::Long);
            }
            self.variables.insert(name.to_owned(), text);
        }
        draft.command.span.end = word.span.end;
        draft.command.assignments.push((name.to_owned(), word));
    }

    fn redirect(&mut self, redirect: syntax::Redirect, flow: &Flow<'_>, draft: &mut Draft) {
        let syntax::Redirect { operator, descriptor, target, document } = redirect;
        let (raw, depth) = (flow.raw(&target), flow.depth);
        let here = flow.base.inner(target.clone());
        draft.command.span.end = flow.base.span(target).end;
        if let Some(document) = document {
            let text = flow.raw(&document.body);
            let mut word = if document.is_expanded && text.contains(['$', '`', '\\']) {
                let place = flow.base.inner(document.body);
                self.expand_quoted(text, &place, Quoting::Document, draft, depth)
            } else {
                let span = flow.base.span(document.body);
                Word { value: text.to_owned(), span, quoted: true, ..Word::default() }
            };
            if document.without_tabs {
                let lines = word.value.lines().map(|line| line.trim_start_matches('\t'));
                word.value = lines.collect::<Vec<_>>().join("\n");
            }
            draft.command.input = Some(word);
            return;
        }
        let target = self.expand_one(raw, &here, draft, depth);
        let direction = match operator {
            Operator::Text | Operator::Document => {
                draft.command.input = Some(target);
                return;
            }
            Operator::Read | Operator::ReadWrite => Direction::Read,
            Operator::DuplicateInput => Direction::Duplicate,
            Operator::DuplicateOutput if raw == "-" || raw.bytes().all(|byte| byte.is_ascii_digit()) => {
                Direction::Duplicate
            }
            Operator::Append => Direction::Append,
            Operator::Write | Operator::DuplicateOutput => Direction::Write,
        };
        if operator == Operator::ReadWrite {
            let target = target.clone();
            draft.command.redirects.push(Redirect { direction: Direction::Write, descriptor, target });
        }
        draft.command.redirects.push(Redirect { direction, descriptor, target });
    }

    /// Adds the command that was read to the list.
    fn finish(&mut self, flow: &mut Flow<'_>, draft: &mut Draft) {
        let way = draft.way;
        let fresh = Draft { way, start: self.commands(), ..Draft::default() };
        let mut done = std::mem::replace(draft, fresh);
        if let Some(name) = done.variable {
            // `for x in a b c`
            let constant = !done.command.words.iter().any(|word| word.dynamic);
            if let Some(value) = done.command.words.into_iter().next().filter(|_| constant) {
                self.variables.insert(name, value.value);
            }
            return;
        }
        let empty = done.command.words.is_empty();
        let only_input = done.command.assignments.is_empty() && done.command.redirects.is_empty();
        if empty && only_input && done.command.input.is_none() {
            return;
        }
        let upstream = flow.pending.take();
        done.command.upstream =
            upstream.or_else(|| flow.frames.iter().rev().find_map(|frame| frame.upstream.clone()));
        done.command.way = way;
        let unit = if flow.after_group && empty { flow.unit.start } else { done.start };
        flow.after_group = false;
        self.take(done.command, &done.children, flow.depth);
        flow.unit = unit..self.commands();
        draft.start = self.commands();
    }

    /// Adds a command to the list, and after it the commands that it runs.
    pub(super) fn take(&mut self, mut command: Command, children: &[(Range<usize>, Inside)], depth: usize) {
        let index = self.commands();
        for (range, kind) in children {
            for child in self.reading.commands.get_mut(range.clone()).into_iter().flatten() {
                if child.inside.is_none() {
                    child.inside = Some((index, *kind));
                }
            }
        }
        self.name_by_pattern(&mut command);
        let input = self.input_of(&command);
        command.output = super::output::of(&command, input.as_deref());
        if let Some(text) = &command.output {
            let files = command.redirects.iter().filter(|redirect| {
                redirect.descriptor.is_none_or(|descriptor| descriptor == 1)
                    && matches!(redirect.direction, Direction::Write | Direction::Append)
            });
            let names: Vec<String> = files.map(|redirect| redirect.target.value.clone()).collect();
            if super::output::decodes(&command) {
                self.reading.decoded.push((command.span.clone(), text.clone()));
            }
            for name in names {
                self.files.insert(name, text.clone());
            }
        }
        self.reading.commands.push(command.clone());
        self.unwrap(index, &command, input.as_deref(), depth);
    }

    /// What a command reads from its input, if it is constant.
    fn input_of(&self, command: &Command) -> Option<String> {
        if let Some(input) = &command.input {
            return (!input.dynamic).then(|| input.value.clone());
        }
        let file = command.redirects.iter().find(|redirect| redirect.direction == Direction::Read);
        match file {
            Some(file) => self.files.get(&file.target.value).cloned(),
            None => self.output_of_feeders(command.upstream.clone()?),
        }
    }

    /// What the last commands of a group write.
    fn output_of_feeders(&self, range: Range<usize>) -> Option<String> {
        let commands = self.reading.commands.get(range.clone()).filter(|commands| commands.len() <= 64)?;
        let mut text = String::new();
        let mut any = false;
        for (index, command) in range.zip(commands) {
            let within = commands
                .iter()
                .any(|other| other.upstream.as_ref().is_some_and(|upstream| upstream.contains(&index)));
            if within || command.inside.is_some() || command.wrapper || command.words.is_empty() {
                continue;
            }
            text.push_str(command.output.as_deref()?);
            any = true;
            if text.len() > MOST_TEXT {
                return None;
            }
        }
        any.then_some(text)
    }
}

fn declares(word: &Word) -> bool {
    matches!(word.value.as_str(), "export" | "declare" | "local" | "typeset" | "readonly")
}
