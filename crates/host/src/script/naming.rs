// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Derives the names in a script from the events of its text.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;

use palisade_shell_syntax::{Assignment, Event, Parameter, Part, Quoting, Reader, Redirect};
use palisade_shell_syntax::{ansi, elements, parts};

use super::programs::{BUILT_IN, RUNNERS, command_in};
use super::{Script, is_shell};

/// How deeply texts may be nested.
const DEPTH: usize = 32;
/// The name of `$0` among the variables.
const OWN_PATH: &str = "0";
/// How many values of a variable, and of a word, are followed.
const VALUES: usize = 8;
/// Longer composed values aren't followed, in bytes.
const LONGEST: usize = 64 << 10;

/// The names in a text; `own` is the script's own path. The error says why they can't be determined.
pub(super) fn named(text: &str, own: &str) -> Result<Script, String> {
    let mut naming = Naming::new(text.len());
    naming.variables.insert(OWN_PATH.to_owned(), BTreeSet::from([own.to_owned()]));
    naming.whole(text)?;
    // A second pass: in a function, a variable may be used in the text before its assignment.
    let variables = std::mem::take(&mut naming.variables);
    let mut naming = Naming { variables, ..Naming::new(text.len()) };
    naming.whole(text)?;
    let Naming { mut script, functions, .. } = naming;
    let foreign =
        |name: &String| !name.is_empty() && !functions.contains(name) && !BUILT_IN.contains(&name.as_str());
    script.commands.retain(foreign);
    Ok(script)
}

struct Naming {
    script: Script,
    functions: BTreeSet<String>,
    variables: BTreeMap<String, BTreeSet<String>>,
    /// How many bytes may still be read again or composed: texts and values may be nested.
    budget: usize,
    /// Why the script's names can't be determined.
    problem: Option<&'static str>,
}

/// A command that is being read.
#[derive(Default)]
struct Draft {
    words: Vec<BTreeSet<String>>,
    /// `[[`: its words aren't a command.
    is_test: bool,
    /// The variable of a loop.
    variable: Option<String>,
}

impl Naming {
    fn new(length: usize) -> Self {
        Self {
            script: Script::default(),
            functions: BTreeSet::new(),
            variables: BTreeMap::new(),
            budget: length.saturating_mul(16).saturating_add(1 << 20),
            problem: None,
        }
    }

    fn whole(&mut self, text: &str) -> Result<(), String> {
        let mut reader = Reader::new(text);
        self.events(&mut reader, text, 0);
        if let Some(fault) = reader.fault() {
            let before = text.get(..fault.at).unwrap_or(text);
            let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
            return Err(format!("line {line}: {}", fault.words));
        }
        self.problem.map_or(Ok(()), |problem| Err(problem.to_owned()))
    }

    /// Whether this many bytes may still be read or composed.
    fn spend(&mut self, length: usize) -> bool {
        match self.budget.checked_sub(length) {
            Some(left) => {
                self.budget = left;
                true
            }
            None => {
                self.problem.get_or_insert("its words expand to too much text");
                false
            }
        }
    }

    /// Reads a text within the script's text. An error in it isn't an error of the script.
    fn inner(&mut self, text: &str, depth: usize) {
        if depth >= DEPTH {
            self.problem.get_or_insert("its parts are nested too deeply");
        } else if self.spend(text.len()) {
            self.events(&mut Reader::new(text), text, depth + 1);
        }
    }

    fn events(&mut self, reader: &mut Reader<'_>, text: &str, depth: usize) {
        let raw = |range: Range<usize>| text.get(range).unwrap_or_default();
        let mut draft = Draft::default();
        for event in reader {
            match event {
                Event::Word(range) => {
                    let word = raw(range);
                    if !draft.is_test && !draft.words.is_empty() && Assignment::of(word).is_some() {
                        self.assign(word, depth);
                    } else {
                        let values = self.word(word, depth);
                        draft.words.push(values);
                    }
                }
                Event::Assignment(range) => self.assign(raw(range), depth),
                Event::Redirect(redirect) => self.redirect(redirect, text, depth),
                Event::Foreign(range) => self.inner(raw(range), depth),
                Event::Sum(range) => drop(self.pieces(raw(range), Quoting::Double, depth)),
                Event::Test(_) => draft.is_test = true,
                Event::Variable(range) => draft.variable = Some(raw(range).to_owned()),
                Event::Item(range) => {
                    let values = self.word(raw(range), depth);
                    if let Some(variable) = &draft.variable {
                        self.variables.entry(variable.clone()).or_default().extend(values);
                    }
                }
                // A pattern itself names no file.
                Event::Pattern(range) => drop(self.pieces(raw(range), Quoting::Plain, depth)),
                Event::Function(range) => drop(self.functions.insert(raw(range).to_owned())),
                Event::Open | Event::Shut => {}
                Event::End(_) => {
                    let Draft { words, is_test, .. } = std::mem::take(&mut draft);
                    if !is_test {
                        self.call(&words, depth);
                    }
                }
            }
        }
    }

    fn redirect(&mut self, redirect: Redirect, text: &str, depth: usize) {
        match redirect.document {
            Some(document) if document.is_expanded => {
                let body = text.get(document.body).unwrap_or_default();
                self.pieces(body, Quoting::Document, depth);
            }
            Some(_) => {}
            None => drop(self.word(text.get(redirect.target).unwrap_or_default(), depth)),
        }
    }

    fn assign(&mut self, word: &str, depth: usize) {
        let Some(assignment) = Assignment::of(word) else { return };
        let value = word.get(assignment.value).unwrap_or_default();
        if assignment.is_array {
            for element in elements(value) {
                let element = value.get(element).unwrap_or_default();
                // `[index]=value`
                let behind = element.strip_prefix('[').and_then(|rest| rest.split_once("]="));
                self.word(behind.map_or(element, |(_, value)| value), depth);
            }
            return;
        }
        let values = self.word(value, depth);
        if assignment.index.is_none() {
            self.variables.entry(assignment.name.to_owned()).or_default().extend(values);
        }
    }

    /// Handles a command with these words. Each word may be one of several values, or unknown (none).
    fn call(&mut self, words: &[BTreeSet<String>], depth: usize) {
        let Some((names, arguments)) = words.split_first() else { return };
        for name in names {
            if !self.spend(words.len()) {
                return;
            }
            // The first word of a variable's value is the command: `AWK="gawk -f"`.
            let name = name.split_whitespace().next().unwrap_or_default();
            self.script.commands.insert(name.to_owned());
            let plain = name.rsplit('/').next().unwrap_or_default();
            match plain {
                "." | "source" => {
                    let read = arguments.first().into_iter().flatten().filter(|path| path.starts_with('/'));
                    self.script.sourced.extend(read.map(PathBuf::from));
                }
                "eval" | "trap" => {
                    for text in arguments.first().into_iter().flatten() {
                        self.inner(text, depth);
                    }
                }
                shell if is_shell(shell) => {
                    let line = arguments.iter().skip_while(|word| !word.contains("-c")).nth(1);
                    for text in line.into_iter().flatten() {
                        self.inner(text, depth);
                    }
                }
                _ => {}
            }
            if depth < DEPTH
                && let Some((_, options)) = RUNNERS.iter().find(|(runner, _)| *runner == plain)
            {
                self.call(command_in(plain, options, arguments), depth + 1);
            }
        }
    }

    /// The values that a word may have, as far as they are constant. Substitutions in it are read, too.
    fn word(&mut self, word: &str, depth: usize) -> BTreeSet<String> {
        let values = self.pieces(word, Quoting::Plain, depth).unwrap_or_default();
        for value in &values {
            if value.starts_with('/') && !value.contains(['*', '?', '[', '\n']) {
                self.script.paths.insert(PathBuf::from(value));
            }
        }
        values.into_iter().collect()
    }

    /// The values of a text; `None`: it isn't constant.
    fn pieces(&mut self, text: &str, quoting: Quoting, depth: usize) -> Option<Vec<String>> {
        // `~` means an unknown directory.
        let is_home = quoting == Quoting::Plain && text.starts_with('~');
        let mut values = (!is_home).then(|| vec![String::new()]);
        for part in parts(text, quoting) {
            let next = self.part(text, part, quoting, depth);
            values = match (values, next) {
                (Some(values), Some(next)) => self.joined(values, next),
                _ => None,
            };
        }
        values.filter(|values| !values.is_empty())
    }

    /// Each of `values` followed by each possible next part.
    fn joined(&mut self, mut values: Vec<String>, next: Next<'_>) -> Option<Vec<String>> {
        let next = match next {
            Next::Text(text) => {
                values.iter_mut().for_each(|value| value.push_str(&text));
                return Some(values);
            }
            Next::Values(next) => next,
        };
        let longest = |values: &[String]| values.iter().map(String::len).max().unwrap_or_default();
        let length = longest(&values) + longest(&next);
        if length > LONGEST || !self.spend(length * values.len().saturating_mul(next.len()).min(VALUES)) {
            return None;
        }
        // The first values in alphabetical order.
        values.sort_unstable();
        let all = values.iter().flat_map(|value| next.iter().map(move |next| format!("{value}{next}")));
        let mut all: Vec<String> = all.take(VALUES).collect();
        all.sort_unstable();
        all.dedup();
        Some(all)
    }

    fn part<'t>(&mut self, text: &'t str, part: Part, quoting: Quoting, depth: usize) -> Option<Next<'t>> {
        let slice = |range: Range<usize>| text.get(range).unwrap_or_default();
        match part {
            Part::Text(range) | Part::Escaped(range) | Part::Single(range) => {
                return Some(Next::Text(Cow::Borrowed(slice(range))));
            }
            Part::Ansi(range) => return Some(Next::Text(Cow::Owned(ansi(slice(range))))),
            Part::Double(range) => return self.quoted(slice(range), depth),
            Part::Backquoted(range) => {
                let text = unescaped(slice(range), quoting == Quoting::Double);
                self.inner(&text, depth);
            }
            Part::Command(range) | Part::Readable(range) | Part::Writable(range) => {
                self.inner(slice(range), depth);
            }
            Part::Sum(range) => drop(self.quoted(slice(range), depth)),
            Part::Parameter(range) => {
                return self.parameter(slice(range), depth).map(Next::Values);
            }
            Part::Variable(range) => return self.variable(slice(range)).map(Next::Values),
        }
        None
    }

    fn quoted<'t>(&mut self, text: &'t str, depth: usize) -> Option<Next<'t>> {
        if !text.contains(['$', '`', '\\']) {
            return Some(Next::Text(Cow::Borrowed(text)));
        }
        if depth >= DEPTH {
            self.problem.get_or_insert("its parts are nested too deeply");
            return None;
        }
        let mut values = self.pieces(text, Quoting::Double, depth + 1)?;
        if values.len() == 1 {
            return values.pop().map(|value| Next::Text(Cow::Owned(value)));
        }
        Some(Next::Values(values))
    }

    fn variable(&self, name: &str) -> Option<Vec<String>> {
        let values = self.variables.get(name)?;
        let values: Vec<String> =
            values.iter().filter(|value| value.len() <= LONGEST).take(VALUES).cloned().collect();
        (!values.is_empty()).then_some(values)
    }

    fn parameter(&mut self, body: &str, depth: usize) -> Option<Vec<String>> {
        let parameter = Parameter::of(body);
        let Parameter { is_indirect, name, operation } = parameter;
        if depth >= DEPTH {
            self.problem.get_or_insert("its parts are nested too deeply");
            return None;
        }
        if operation.is_empty() {
            return if is_indirect { None } else { self.variable(name) };
        }
        if !self.spend(operation.len()) {
            return None;
        }
        match parameter.default() {
            Some((b'-' | b'=', word)) => {
                let mut values: Vec<String> = self.word(word, depth + 1).into_iter().collect();
                if is_indirect {
                    return None;
                }
                values.extend(self.variable(name).into_iter().flatten());
                values.sort_unstable();
                values.dedup();
                values.truncate(VALUES);
                (!values.is_empty()).then_some(values)
            }
            // The word replaces a variable that is set: its paths count, although it is unknown whether the variable
            // is set.
            Some((b'+', word)) => {
                self.word(word, depth + 1);
                None
            }
            _ => {
                self.pieces(operation, Quoting::Plain, depth + 1);
                None
            }
        }
    }
}

/// What may follow in a word: a text of the script, or one of several values.
enum Next<'t> {
    /// This, of the text's own length.
    Text(Cow<'t, str>),
    /// One of these.
    Values(Vec<String>),
}

/// A text in backquotes, with its escaping backslashes removed.
fn unescaped(text: &str, quoted: bool) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let kept = match letters.peek() {
            Some('`' | '$' | '\\') if letter == '\\' => letters.next(),
            Some('"') if letter == '\\' && quoted => letters.next(),
            _ => None,
        };
        plain.push(kept.unwrap_or(letter));
    }
    Cow::Owned(plain)
}
