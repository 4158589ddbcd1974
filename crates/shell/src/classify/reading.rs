// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the text of a line to its commands, whatever the line is: what isn't closed ends with the line, what makes no
//! sense is passed over, and the reading says that it is in doubt. In time that grows with the line's length.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::command::{Command, Direction, Doubt, Inside, Reading, Redirect, Way, Word};
use super::lexer;

/// How deep texts may lie in each other.
pub(super) const DEEPEST: usize = 12;
/// Longer values are cut, in bytes.
pub(super) const MOST_TEXT: usize = 64 << 10;
/// More commands than these aren't looked at.
const MOST_COMMANDS: usize = 1024;
/// More words of a command aren't looked at.
const MOST_WORDS: usize = 16_384;

/// Where a text is in the line.
pub(super) enum Base {
    /// It begins there.
    At(usize),
    /// It was made from what is there.
    Fixed(Range<usize>),
}

/// A command that is being read.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) way: Way,
    pub(super) children: Vec<(Range<usize>, Inside)>,
    command: Command,
    start: usize,
    began: bool,
    kind: Kind,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Kind {
    #[default]
    Simple,
    /// `for x in …`, `select`
    Loop,
    /// `case x in`
    Case,
    /// `function name`
    Function,
}

/// A group of commands that isn't closed yet.
struct Frame {
    start: usize,
    upstream: Option<Range<usize>>,
    case: bool,
}

/// Reads texts into one list of commands.
pub(super) struct Reader {
    reading: Reading,
    pub(super) variables: BTreeMap<String, String>,
    /// What was written to files within the line.
    pub(super) files: BTreeMap<String, String>,
    loops: BTreeSet<String>,
    budget: usize,
}

/// The position in one text.
struct Cursor<'t> {
    text: &'t str,
    at: usize,
    /// Where the line after here-documents begins.
    resume: Option<usize>,
    frames: Vec<Frame>,
    /// The commands of the last pipeline's last part.
    unit: Range<usize>,
    pending: Option<Range<usize>>,
    after_group: bool,
}

/// Reads a line; `root`: of root's shell.
pub(super) fn read(line: &str, root: bool) -> Reading {
    let mut reader = Reader {
        reading: Reading::default(),
        variables: BTreeMap::new(),
        files: BTreeMap::new(),
        loops: BTreeSet::new(),
        // Every text within a text is read again.
        budget: line.len().saturating_mul(4) + (64 << 10),
    };
    reader.read(line, &Base::At(0), Way { root, ..Way::default() }, 0);
    reader.reading
}

impl Reader {
    pub(super) fn doubt(&mut self, doubt: Doubt) {
        self.reading.doubt.get_or_insert(doubt);
    }

    pub(super) fn commands(&self) -> usize {
        self.reading.commands.len()
    }

    pub(super) fn reading(&mut self) -> &mut Reading {
        &mut self.reading
    }

    /// What the commands in `range` write, one after the other; `None` if that isn't constant.
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

    /// Reads a text that was made from what is at `span`: decoded, or given to another shell.
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
        let mut cursor = Cursor {
            text,
            at: 0,
            resume: None,
            frames: Vec::new(),
            unit: start..start,
            pending: None,
            after_group: false,
        };
        let mut draft = Draft { way, start, ..Draft::default() };
        while cursor.at < text.len() && self.commands() < MOST_COMMANDS {
            self.step(&mut cursor, base, &mut draft, depth);
        }
        if cursor.at < text.len() {
            self.doubt(Doubt::Long);
        }
        self.finish(&mut cursor, &mut draft, depth);
        if !cursor.frames.is_empty() {
            self.doubt(Doubt::Open);
        }
    }

    fn step(&mut self, cursor: &mut Cursor<'_>, base: &Base, draft: &mut Draft, depth: usize) {
        let bytes = cursor.text.as_bytes();
        let at = cursor.at;
        let Some(&byte) = bytes.get(at) else { return };
        let next = bytes.get(at + 1).copied();
        match (byte, next) {
            _ if lexer::is_blank(byte) => cursor.at += 1,
            (b'\\', Some(b'\n')) => cursor.at += 2,
            (b'\n', _) => {
                self.finish(cursor, draft, depth);
                cursor.at = cursor.resume.take().filter(|resume| *resume > at).unwrap_or(at + 1);
            }
            (b'#', _) => {
                let rest = bytes.get(at..).unwrap_or_default();
                cursor.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            }
            (b';', _) => {
                self.finish(cursor, draft, depth);
                cursor.at += 1;
            }
            (b'&', Some(b'>')) => self.redirect(cursor, base, draft, None, depth),
            (b'&', _) => {
                draft.command.background = next != Some(b'&');
                self.finish(cursor, draft, depth);
                cursor.at += 1 + usize::from(next == Some(b'&'));
            }
            (b'|', Some(b'|')) => {
                self.finish(cursor, draft, depth);
                cursor.at += 2;
            }
            (b'|', _) => {
                self.finish(cursor, draft, depth);
                let unit = cursor.unit.clone();
                for command in self.reading.commands.get_mut(unit.clone()).into_iter().flatten() {
                    command.piped = true;
                }
                cursor.pending = Some(unit);
                cursor.after_group = false;
                cursor.at += 1 + usize::from(next == Some(b'&'));
            }
            (b'(', _) => self.open(cursor, base, draft, depth),
            (b')', _) => {
                self.shut(cursor, draft, depth);
                cursor.at += 1;
            }
            (b'<' | b'>', Some(b'(')) => self.word(cursor, base, draft, depth),
            (b'<' | b'>', _) => self.redirect(cursor, base, draft, None, depth),
            _ => {
                let digits = bytes
                    .get(at..)
                    .unwrap_or_default()
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit())
                    .count();
                if (1..=3).contains(&digits) && matches!(bytes.get(at + digits), Some(b'<' | b'>')) {
                    let descriptor = cursor.text.get(at..at + digits).and_then(|text| text.parse().ok());
                    cursor.at += digits;
                    return self.redirect(cursor, base, draft, descriptor, depth);
                }
                self.word(cursor, base, draft, depth);
            }
        }
    }

    /// At `(`: a group, an arithmetic command, a function's brackets, or nothing known.
    fn open(&mut self, cursor: &mut Cursor<'_>, base: &Base, draft: &mut Draft, depth: usize) {
        let bytes = cursor.text.as_bytes();
        let at = cursor.at;
        if draft.kind == Kind::Loop || !draft.began && bytes.get(at + 1) == Some(&b'(') {
            // `((…))` and `for ((…))`
            let (end, closed) = lexer::close(bytes, at + 1, b')');
            let inner = cursor.text.get(at + 2..end.saturating_sub(2)).unwrap_or_default();
            if inner.contains("))") || !closed {
                self.doubt(Doubt::Open);
            }
            cursor.at = end;
        } else if !draft.began || draft.kind == Kind::Case {
            cursor.frames.push(Frame {
                start: self.commands(),
                upstream: cursor.pending.take(),
                case: false,
            });
            cursor.at += 1;
        } else if draft.command.words.len() == 1 && rest_after_blanks(cursor.text, at + 1).starts_with(')') {
            let name = draft.command.words.first().map(|word| word.value.clone());
            self.reading.functions.extend(name);
            *draft = Draft { way: draft.way, start: self.commands(), ..Draft::default() };
            let rest = rest_after_blanks(cursor.text, at + 1);
            cursor.at = cursor.text.len() - rest.len() + 1;
        } else if draft.kind == Kind::Function {
            let rest = rest_after_blanks(cursor.text, at + 1);
            cursor.at = if rest.starts_with(')') { cursor.text.len() - rest.len() + 1 } else { at + 1 };
        } else {
            // A substitution in fish, a qualifier in zsh.
            let (end, closed) = lexer::close(bytes, at + 1, b')');
            let range = at + 1..end - usize::from(closed);
            let inner = cursor.text.get(range.clone()).unwrap_or_default();
            let start = self.commands();
            self.read(inner, &base.inner(range), draft.way, depth + 1);
            draft.children.push((start..self.commands(), Inside::Substitution));
            draft.command.words.push(Word {
                value: super::command::UNKNOWN.to_string(),
                span: base.span(at..end),
                dynamic: true,
                ..Word::default()
            });
            self.doubt(if closed { Doubt::Stray } else { Doubt::Open });
            cursor.at = end;
        }
    }

    /// At `)` or a word that closes a group.
    fn shut(&mut self, cursor: &mut Cursor<'_>, draft: &mut Draft, depth: usize) {
        if draft.kind == Kind::Case || cursor.frames.last().is_some_and(|frame| frame.case) {
            // The end of a pattern.
            *draft = Draft { way: draft.way, start: self.commands(), ..Draft::default() };
            return;
        }
        self.finish(cursor, draft, depth);
        match cursor.frames.pop() {
            Some(frame) => {
                cursor.unit = frame.start..self.commands();
                cursor.after_group = true;
            }
            None => self.doubt(Doubt::Stray),
        }
    }

    fn word(&mut self, cursor: &mut Cursor<'_>, base: &Base, draft: &mut Draft, depth: usize) {
        let at = cursor.at;
        let (end, closed) = lexer::word(cursor.text.as_bytes(), at);
        if !closed {
            self.doubt(Doubt::Open);
        }
        // A byte that nothing else knows, for one.
        let end = end.max(at + 1);
        let raw = cursor.text.get(at..end).unwrap_or_default();
        cursor.at = end;
        let position = !draft.command.words.is_empty();
        if !position && draft.kind == Kind::Simple && self.reserved(raw, cursor, draft, depth) {
            return;
        }
        if draft.kind == Kind::Function && raw == "{" {
            let name = draft.command.words.get(1).map(|word| word.value.clone());
            self.reading.functions.extend(name);
            *draft = Draft { way: draft.way, start: self.commands(), ..Draft::default() };
            cursor.frames.push(Frame { start: self.commands(), upstream: None, case: false });
            return;
        }
        let here = base.inner(at..end);
        draft.began = true;
        if draft.command.words.is_empty() || draft.command.words.first().is_some_and(declares) {
            draft.command.span.start = match draft.command.words.first() {
                Some(_) => draft.command.span.start,
                None => base.span(at..end).start,
            };
            if let Some((name, length)) = lexer::assignment(raw) {
                self.assign(name, raw, length, &here, draft, depth);
                return;
            }
        }
        if raw == "[[" && draft.command.words.is_empty() {
            return self.test(cursor, base, draft, depth);
        }
        let words = self.expand(raw, &here, draft, depth);
        if draft.command.words.len() < MOST_WORDS {
            draft.command.words.extend(words);
        } else {
            self.doubt(Doubt::Long);
        }
        draft.command.span.end = base.span(at..end).end;
    }

    fn assign(&mut self, name: &str, raw: &str, length: usize, here: &Base, draft: &mut Draft, depth: usize) {
        let value = raw.get(length..).unwrap_or_default();
        let inner = value.strip_prefix('(').map(|value| value.strip_suffix(')').unwrap_or(value));
        let place = here.inner(length + usize::from(inner.is_some())..raw.len());
        let mut word = match inner {
            Some(elements) => {
                // Elements of an array, one after the other.
                let mut joined = Word { span: here.span(0..raw.len()), ..Word::default() };
                let mut at = 0;
                while at < elements.len() {
                    let end = lexer::word(elements.as_bytes(), at).0.max(at + 1);
                    let part = elements.get(at..end).unwrap_or_default();
                    let word =
                        self.expand_one(part.trim(), &Base::Fixed(joined.span.clone()), draft, depth + 1);
                    if !word.value.is_empty() && !joined.value.is_empty() {
                        joined.value.push(' ');
                    }
                    joined.value.push_str(&word.value);
                    joined.dynamic |= word.dynamic;
                    at = end;
                }
                joined
            }
            None => self.expand_one(value, &place, draft, depth),
        };
        word.span = here.span(0..raw.len());
        let appended = raw.get(..length).is_some_and(|head| head.ends_with("+="));
        if word.dynamic {
            self.variables.remove(name);
        } else {
            let before =
                if appended { self.variables.remove(name).unwrap_or_default() } else { String::new() };
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

    /// `[[ … ]]`: words, whatever stands between them.
    fn test(&mut self, cursor: &mut Cursor<'_>, base: &Base, draft: &mut Draft, depth: usize) {
        let start = cursor.at - 2;
        draft.command.words.push(Word {
            value: "[[".to_owned(),
            span: base.span(start..cursor.at),
            ..Word::default()
        });
        while let Some(&byte) = cursor.text.as_bytes().get(cursor.at) {
            let substituted =
                matches!(byte, b'<' | b'>') && cursor.text.as_bytes().get(cursor.at + 1) == Some(&b'(');
            if lexer::is_blank(byte) || byte == b'\n' || b"()<>&|;".contains(&byte) && !substituted {
                cursor.at += 1;
                continue;
            }
            let end = lexer::word(cursor.text.as_bytes(), cursor.at).0.max(cursor.at + 1);
            let range = cursor.at..end;
            let raw = cursor.text.get(range.clone()).unwrap_or_default();
            cursor.at = end;
            if raw == "]]" {
                draft.command.span.end = base.span(range).end;
                return;
            }
            let words = self.expand(raw, &base.inner(range), draft, depth);
            if draft.command.words.len() < MOST_WORDS {
                draft.command.words.extend(words);
            }
        }
        self.doubt(Doubt::Open);
    }

    /// Words that begin, go on with or end a group of commands.
    fn reserved(&mut self, raw: &str, cursor: &mut Cursor<'_>, draft: &mut Draft, depth: usize) -> bool {
        let opens = Frame { start: self.commands(), upstream: None, case: raw == "case" };
        match raw {
            "if" | "while" | "until" | "{" => {
                cursor.frames.push(Frame { upstream: cursor.pending.take(), ..opens });
            }
            "then" | "do" | "else" | "elif" | "!" | "time" if !draft.began => {}
            "coproc" if !draft.began => {
                cursor.at += name_of_group(cursor.text.get(cursor.at..).unwrap_or_default())
            }
            "for" | "foreach" | "select" | "case" => {
                cursor.frames.push(Frame { upstream: cursor.pending.take(), ..opens });
                draft.kind = if raw == "case" { Kind::Case } else { Kind::Loop };
                draft.began = true;
            }
            "function" => {
                draft.kind = Kind::Function;
                draft.began = true;
                draft.command.words.push(Word { value: raw.to_owned(), ..Word::default() });
            }
            "fi" | "done" | "esac" | "}" => {
                if let Some(frame) = cursor.frames.last_mut() {
                    frame.case = false;
                }
                self.shut(cursor, draft, depth);
            }
            _ => return false,
        }
        true
    }

    fn redirect(
        &mut self,
        cursor: &mut Cursor<'_>,
        base: &Base,
        draft: &mut Draft,
        descriptor: Option<u32>,
        depth: usize,
    ) {
        let rest = cursor.text.get(cursor.at..).unwrap_or_default();
        let operators = ["&>>", "&>", "<<<", "<<-", "<<", "<>", "<&", ">>", ">&", ">|", "<", ">"];
        let operator = operators.into_iter().find(|operator| rest.starts_with(operator)).unwrap_or(">");
        cursor.at += operator.len();
        while cursor.text.as_bytes().get(cursor.at).copied().is_some_and(lexer::is_blank) {
            cursor.at += 1;
        }
        let start = cursor.at;
        let (end, closed) = lexer::word(cursor.text.as_bytes(), start);
        let raw = cursor.text.get(start..end).unwrap_or_default();
        cursor.at = end;
        draft.began = true;
        if !closed || raw.is_empty() {
            self.doubt(Doubt::Open);
        }
        let here = base.inner(start..end);
        match operator {
            "<<" | "<<-" => {
                let quoted = raw.contains(['\'', '"', '\\']);
                let delimiter: String = raw.chars().filter(|letter| !"'\"\\".contains(*letter)).collect();
                let body = self.here_document(cursor, &delimiter, operator == "<<-");
                let text = cursor.text.get(body.clone()).unwrap_or_default();
                let mut word = if quoted || !text.contains(['$', '`', '\\']) {
                    Word { value: text.to_owned(), span: base.span(body), quoted: true, ..Word::default() }
                } else {
                    let place = base.inner(body);
                    self.expand_one(&format!("\"{}\"", text.replace('"', "\\\"")), &place, draft, depth)
                };
                if operator == "<<-" {
                    word.value = word
                        .value
                        .lines()
                        .map(|line| line.trim_start_matches('\t'))
                        .collect::<Vec<_>>()
                        .join("\n");
                }
                draft.command.input = Some(word);
            }
            "<<<" => draft.command.input = Some(self.expand_one(raw, &here, draft, depth)),
            _ => {
                let target = self.expand_one(raw, &here, draft, depth);
                let direction = match operator {
                    "<" | "<>" => Direction::Read,
                    "<&" => Direction::Duplicate,
                    ">&" if raw == "-" || raw.bytes().all(|byte| byte.is_ascii_digit()) => {
                        Direction::Duplicate
                    }
                    ">>" | "&>>" => Direction::Append,
                    _ => Direction::Write,
                };
                if operator == "<>" {
                    let target = target.clone();
                    let direction = Direction::Write;
                    draft.command.redirects.push(Redirect { direction, descriptor, target });
                }
                draft.command.redirects.push(Redirect { direction, descriptor, target });
            }
        }
        draft.command.span.end = base.span(start..end).end;
    }

    /// The lines after this one up to the delimiter.
    fn here_document(&mut self, cursor: &mut Cursor<'_>, delimiter: &str, tabs: bool) -> Range<usize> {
        let start = match cursor.resume {
            Some(resume) => resume,
            None => match cursor.text.get(cursor.at..).and_then(|rest| rest.find('\n')) {
                Some(length) => cursor.at + length + 1,
                None => {
                    self.doubt(Doubt::Open);
                    return cursor.text.len()..cursor.text.len();
                }
            },
        };
        let mut at = start;
        let rest = cursor.text.get(start..).unwrap_or_default();
        for line in rest.split_inclusive('\n') {
            let plain = line.trim_end_matches('\n');
            let plain = if tabs { plain.trim_start_matches('\t') } else { plain };
            if plain == delimiter {
                cursor.resume = Some(at + line.len());
                return start..at;
            }
            at += line.len();
        }
        self.doubt(Doubt::Open);
        cursor.resume = Some(cursor.text.len());
        start..cursor.text.len()
    }

    /// Takes the command that was read into the list.
    fn finish(&mut self, cursor: &mut Cursor<'_>, draft: &mut Draft, depth: usize) {
        let way = draft.way;
        let fresh = Draft { way, start: self.commands(), ..Draft::default() };
        let mut done = std::mem::replace(draft, fresh);
        match done.kind {
            Kind::Loop => {
                // `for x in a b c`
                let mut words = done.command.words.iter().map(|word| &word.value);
                let name = words.next().cloned().unwrap_or_default();
                let constant = !done.command.words.iter().any(|word| word.dynamic);
                let value = words.find(|word| *word != "in").filter(|_| constant).cloned();
                if let Some(value) = value {
                    self.loops.insert(name.clone());
                    self.variables.insert(name, value);
                }
                return;
            }
            Kind::Case | Kind::Function => return,
            Kind::Simple => {}
        }
        let empty = done.command.words.is_empty();
        let only_input = done.command.assignments.is_empty() && done.command.redirects.is_empty();
        if empty && only_input && done.command.input.is_none() {
            return;
        }
        let upstream = cursor.pending.take();
        done.command.upstream =
            upstream.or_else(|| cursor.frames.iter().rev().find_map(|frame| frame.upstream.clone()));
        done.command.way = way;
        let unit = if cursor.after_group && empty { cursor.unit.start } else { done.start };
        cursor.after_group = false;
        self.take(done.command, &done.children, depth);
        cursor.unit = unit..self.commands();
        draft.start = self.commands();
    }

    /// Puts a command into the list, and what it runs after it.
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

    /// What a command reads, if it's constant.
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

fn rest_after_blanks(text: &str, at: usize) -> &str {
    text.get(at..).unwrap_or_default().trim_start_matches([' ', '\t'])
}

fn declares(word: &Word) -> bool {
    matches!(word.value.as_str(), "export" | "declare" | "local" | "typeset" | "readonly")
}

/// How far a name goes that stands before a group of commands: `coproc NAME {`.
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
