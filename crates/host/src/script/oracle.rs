// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The names in a shell script by a full parser of bash's grammar, `brush-parser`. Tests compare our own reader's
//! result with this; only tests are built with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use brush_parser::ast::{
    AndOr, AndOrList, AssignmentName, AssignmentValue, Command, CommandPrefixOrSuffixItem, CompoundCommand,
    CompoundList, ExtendedTestExpr, IoFileRedirectTarget, IoRedirect, Pipeline, Program, SimpleCommand, Word,
};
use brush_parser::word::{self, Parameter, ParameterExpr, SpecialParameter, WordPiece};
use brush_parser::{Parser, ParserOptions};

use super::programs::{BUILT_IN, RUNNERS, command_in};
use super::{Script, is_shell};

mod knot;

/// How deeply substitutions may be nested.
const DEPTH: usize = 64;
/// The parser recurses into nested constructs: this is enough for scripts that aren't [`knot`]ted.
const STACK: usize = 128 << 20;
/// How long a script may take to parse, in processor time: those of 1 MiB take 0.2 s.
const PATIENCE: Duration = Duration::from_secs(3);
/// The same in wall-clock time, where other processes use the processors.
const LONGEST: Duration = Duration::from_secs(30);
/// The name of `$0` among the variables.
const OWN_PATH: &str = "0";
/// How many values of a variable, and of a word, are followed.
const VALUES: usize = 8;

/// Parses a script; `own` is the script's own path.
pub(super) fn parse(text: &str, own: &str) -> Result<Script, String> {
    if knot::is_knotted(text) {
        return Err("its brackets are nested too deeply".to_owned());
    }
    let (text, own) = (text.to_owned(), own.to_owned());
    let (tell, told) = std::sync::mpsc::channel();
    let (begin, begun) = std::sync::mpsc::channel();
    let work = move || {
        let _nobody_waits = begin.send(rustix::thread::gettid());
        drop(tell.send(parse_here(&text, &own)));
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(work);
    thread.map_err(|error| error.to_string())?;
    let until = Instant::now() + LONGEST;
    let reader = begun.recv_timeout(LONGEST).ok();
    let mut wait = PATIENCE;
    loop {
        match told.recv_timeout(wait) {
            Ok(script) => return script,
            Err(RecvTimeoutError::Disconnected) => {
                return Err("the parser gave up".to_owned());
            }
            Err(RecvTimeoutError::Timeout) => {
                // If the kernel doesn't say, all of the time counts as the parser's own.
                let used = reader.and_then(processor_time).unwrap_or(PATIENCE);
                wait = PATIENCE.saturating_sub(used).min(until.saturating_duration_since(Instant::now()));
                if wait.is_zero() {
                    return Err("it takes too long".to_owned());
                }
            }
        }
    }
}

/// The processor time of one of our threads: the first number of its `schedstat`, in nanoseconds.
fn processor_time(thread: rustix::thread::Pid) -> Option<Duration> {
    let path = format!("/proc/self/task/{}/schedstat", thread.as_raw_nonzero());
    let text = std::fs::read_to_string(path).ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}

fn parse_here(text: &str, own: &str) -> Result<Script, String> {
    let mut reader = Reader::default();
    reader.variables.insert(OWN_PATH.to_owned(), BTreeSet::from([own.to_owned()]));
    let program = parsed(text)?;
    reader.program(&program, 0);
    // A second pass: in a function, a variable may be used in the text before its assignment.
    let variables = std::mem::take(&mut reader.variables);
    let mut reader = Reader { variables, ..Reader::default() };
    reader.program(&program, 0);
    let Reader { mut script, functions, .. } = reader;
    let foreign =
        |name: &String| !name.is_empty() && !functions.contains(name) && !BUILT_IN.contains(&name.as_str());
    script.commands.retain(foreign);
    Ok(script)
}

fn parsed(text: &str) -> Result<Program, String> {
    Parser::new(text.as_bytes(), &ParserOptions::default()).parse_program().map_err(|error| error.to_string())
}

#[derive(Default)]
struct Reader {
    script: Script,
    functions: BTreeSet<String>,
    variables: BTreeMap<String, BTreeSet<String>>,
}

impl Reader {
    fn text(&mut self, text: &str, depth: usize) -> Result<(), String> {
        if depth > DEPTH {
            return Err("its parts are nested too deeply".to_owned());
        }
        self.program(&parsed(text)?, depth);
        Ok(())
    }

    fn program(&mut self, program: &Program, depth: usize) {
        for list in &program.complete_commands {
            self.list(list, depth);
        }
    }

    /// Reads a text within a word. If it can't be parsed, it names nothing.
    fn inner(&mut self, text: &str, depth: usize) {
        let _not_understood = self.text(text, depth + 1);
    }

    fn list(&mut self, list: &CompoundList, depth: usize) {
        for item in &list.0 {
            self.and_or(&item.0, depth);
        }
    }

    fn and_or(&mut self, list: &AndOrList, depth: usize) {
        self.pipeline(&list.first, depth);
        for AndOr::And(pipeline) | AndOr::Or(pipeline) in &list.additional {
            self.pipeline(pipeline, depth);
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline, depth: usize) {
        for command in &pipeline.seq {
            self.command(command, depth);
        }
    }

    fn command(&mut self, command: &Command, depth: usize) {
        let redirects = match command {
            Command::Simple(command) => return self.simple(command, depth),
            Command::Compound(command, redirects) => {
                self.compound(command, depth);
                redirects
            }
            Command::Function(function) => {
                self.functions.insert(function.fname.value.clone());
                self.compound(&function.body.0, depth);
                &function.body.1
            }
            Command::ExtendedTest(test, redirects) => {
                self.test(&test.expr, depth);
                redirects
            }
        };
        for redirect in redirects.iter().flat_map(|list| &list.0) {
            self.redirect(redirect, depth);
        }
    }

    fn compound(&mut self, command: &CompoundCommand, depth: usize) {
        match command {
            CompoundCommand::Arithmetic(_) => {}
            CompoundCommand::ArithmeticForClause(clause) => self.list(&clause.body.list, depth),
            CompoundCommand::BraceGroup(group) => self.list(&group.list, depth),
            CompoundCommand::Subshell(group) => self.list(&group.list, depth),
            CompoundCommand::ForClause(clause) => {
                for value in clause.values.iter().flatten() {
                    let values = self.word(value, depth);
                    self.variables.entry(clause.variable_name.clone()).or_default().extend(values);
                }
                self.list(&clause.body.list, depth);
            }
            CompoundCommand::CaseClause(clause) => {
                self.word(&clause.value, depth);
                for list in clause.cases.iter().filter_map(|case| case.cmd.as_ref()) {
                    self.list(list, depth);
                }
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition, depth);
                self.list(&clause.then, depth);
                for branch in clause.elses.iter().flatten() {
                    branch.condition.iter().for_each(|list| self.list(list, depth));
                    self.list(&branch.body, depth);
                }
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.list(&clause.0, depth);
                self.list(&clause.1.list, depth);
            }
            CompoundCommand::Coprocess(coprocess) => self.command(&coprocess.body, depth),
        }
    }

    fn test(&mut self, test: &ExtendedTestExpr, depth: usize) {
        match test {
            ExtendedTestExpr::And(one, other) | ExtendedTestExpr::Or(one, other) => {
                self.test(one, depth);
                self.test(other, depth);
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => self.test(inner, depth),
            ExtendedTestExpr::UnaryTest(_, word) => drop(self.word(word, depth)),
            ExtendedTestExpr::BinaryTest(_, one, other) => {
                self.word(one, depth);
                self.word(other, depth);
            }
        }
    }

    fn redirect(&mut self, redirect: &IoRedirect, depth: usize) {
        match redirect {
            IoRedirect::File(
                _,
                _,
                IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word),
            )
            | IoRedirect::HereString(_, word)
            | IoRedirect::OutputAndError(word, _) => drop(self.word(word, depth)),
            IoRedirect::File(_, _, IoFileRedirectTarget::ProcessSubstitution(_, group)) => {
                self.list(&group.list, depth)
            }
            IoRedirect::File(_, _, IoFileRedirectTarget::Fd(_)) => {}
            IoRedirect::HereDocument(_, document) => {
                if document.requires_expansion {
                    self.word(&document.doc, depth);
                }
            }
        }
    }

    fn simple(&mut self, command: &SimpleCommand, depth: usize) {
        let mut words: Vec<BTreeSet<String>> = Vec::new();
        let prefix = command.prefix.iter().flat_map(|prefix| &prefix.0);
        let suffix = command.suffix.iter().flat_map(|suffix| &suffix.0);
        for item in prefix {
            self.item(item, depth);
        }
        words.extend(command.word_or_name.iter().map(|name| self.word(name, depth)));
        for item in suffix {
            let values = self.item(item, depth);
            words.extend(values);
        }
        self.call(&words, depth);
    }

    /// Handles a word among others, an assignment or a redirection; returns the values of a word.
    fn item(&mut self, item: &CommandPrefixOrSuffixItem, depth: usize) -> Option<BTreeSet<String>> {
        match item {
            CommandPrefixOrSuffixItem::IoRedirect(redirect) => self.redirect(redirect, depth),
            CommandPrefixOrSuffixItem::Word(word) => return Some(self.word(word, depth)),
            CommandPrefixOrSuffixItem::ProcessSubstitution(_, group) => self.list(&group.list, depth),
            CommandPrefixOrSuffixItem::AssignmentWord(assignment, _) => {
                match (&assignment.name, &assignment.value) {
                    (AssignmentName::VariableName(name), AssignmentValue::Scalar(value)) => {
                        let values = self.word(value, depth);
                        self.variables.entry(name.clone()).or_default().extend(values);
                    }
                    (_, AssignmentValue::Scalar(value)) => drop(self.word(value, depth)),
                    (_, AssignmentValue::Array(values)) => {
                        for (_, value) in values {
                            self.word(value, depth);
                        }
                    }
                }
            }
        }
        None
    }

    /// Handles a command with these words. Each word may be one of several values, or unknown (none).
    fn call(&mut self, words: &[BTreeSet<String>], depth: usize) {
        let Some((names, arguments)) = words.split_first() else { return };
        for name in names {
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
                    for text in arguments.first().cloned().into_iter().flatten() {
                        self.inner(&text, depth);
                    }
                }
                shell if is_shell(shell) => {
                    let line = arguments.iter().skip_while(|word| !word.contains("-c")).nth(1);
                    for text in line.cloned().into_iter().flatten() {
                        self.inner(&text, depth);
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
    fn word(&mut self, word: &Word, depth: usize) -> BTreeSet<String> {
        let pieces = word::parse(&word.value, &ParserOptions::default());
        let pieces = pieces.unwrap_or_default();
        let values = self.pieces(pieces.iter().map(|piece| &piece.piece), depth);
        let values = values.unwrap_or_default();
        for value in &values {
            if value.starts_with('/') && !value.contains(['*', '?', '[', '\n']) {
                self.script.paths.insert(PathBuf::from(value));
            }
        }
        values
    }

    /// The values of word pieces; `None`: they aren't constant.
    fn pieces<'w>(
        &mut self,
        pieces: impl Iterator<Item = &'w WordPiece>,
        depth: usize,
    ) -> Option<BTreeSet<String>> {
        let mut values = Some(BTreeSet::from([String::new()]));
        for piece in pieces {
            let next = self.piece(piece, depth);
            values = match (values, next) {
                (Some(values), Some(next)) => Some(
                    values
                        .iter()
                        .flat_map(|value| next.iter().map(move |next| format!("{value}{next}")))
                        .take(VALUES)
                        .collect(),
                ),
                _ => None,
            };
        }
        values.filter(|values| !values.is_empty())
    }

    fn piece(&mut self, piece: &WordPiece, depth: usize) -> Option<BTreeSet<String>> {
        let one = |text: &str| Some(BTreeSet::from([text.to_owned()]));
        match piece {
            WordPiece::Text(text) | WordPiece::SingleQuotedText(text) => one(text),
            WordPiece::EscapeSequence(text) => one(text.strip_prefix('\\').unwrap_or(text)),
            WordPiece::DoubleQuotedSequence(pieces) | WordPiece::GettextDoubleQuotedSequence(pieces) => {
                if depth > DEPTH {
                    return None;
                }
                self.pieces(pieces.iter().map(|piece| &piece.piece), depth + 1)
            }
            WordPiece::CommandSubstitution(text) | WordPiece::BackquotedCommandSubstitution(text) => {
                self.inner(text, depth);
                None
            }
            WordPiece::ParameterExpansion(parameter) => self.parameter(parameter, depth),
            WordPiece::AnsiCQuotedText(_)
            | WordPiece::TildeExpansion(_)
            | WordPiece::ArithmeticExpression(_) => None,
        }
    }

    fn parameter(&mut self, parameter: &ParameterExpr, depth: usize) -> Option<BTreeSet<String>> {
        let (parameter, default) = match parameter {
            ParameterExpr::Parameter { parameter, indirect: false } => (parameter, None),
            ParameterExpr::UseDefaultValues { parameter, indirect: false, default_value, .. }
            | ParameterExpr::AssignDefaultValues { parameter, indirect: false, default_value, .. } => {
                (parameter, default_value.as_ref())
            }
            _ => return None,
        };
        let name = match parameter {
            Parameter::Named(name) => name.as_str(),
            Parameter::Special(SpecialParameter::ShellName) => OWN_PATH,
            _ => return None,
        };
        let mut values = self.variables.get(name).cloned().unwrap_or_default();
        if let Some(default) = default {
            let word = Word { value: default.clone(), loc: None };
            values.extend(if depth < DEPTH { self.word(&word, depth + 1) } else { BTreeSet::new() });
        }
        (!values.is_empty()).then(|| values.into_iter().take(VALUES).collect())
    }
}
