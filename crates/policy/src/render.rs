// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints the statements of a layer as the text of a policy file.

use std::fmt::Write;

use crate::environment::EnvironmentRule;
use crate::grammar::{Kind, SECTIONS};
use crate::launch::When;
use crate::layer::{SCHEMA, Sourced, Strength};
use crate::limits::{Amount, Unit};
use crate::reply::{Action, Question, SyscallReply};
use crate::rule::PathRule;
use crate::settings::{LayerPolicy, Settings};
use crate::word::List;
use palisade_text::is_hidden;

mod application;
mod network;

/// Comments to add to the text.
#[derive(Debug, Clone, Default)]
pub struct Remarks {
    /// Comments before all statements.
    pub header: Vec<String>,
    /// Comments at keys, by `SECTION.KEY`. In a list they stand at its end, elsewhere before the statement.
    pub keys: Vec<(&'static str, String)>,
}

impl Remarks {
    /// Adds a comment at a key.
    pub fn add(&mut self, key: &'static str, text: String) {
        self.keys.push((key, text));
    }

    fn of(&self, key: &str) -> Vec<String> {
        self.keys.iter().filter(|(of, _text)| *of == key).map(|(_of, text)| comment(text)).collect()
    }
}

/// A one-line comment. Characters that would end it are escaped as in strings.
fn comment(text: &str) -> String {
    let mut out = String::from("#");
    if !text.is_empty() {
        out.push(' ');
    }
    for c in text.chars() {
        if is_hidden(c) {
            escape(c, &mut out);
        } else {
            out.push(c);
        }
    }
    out
}

/// Prints a layer as a policy file.
///
/// [`parse`](crate::parse::parse) reads back the same statements; only their places differ. If a key that takes one
/// value was stated several times (on a command line), the last value is printed. A path that isn't UTF-8 can't stand
/// in TOML; it becomes a comment.
#[must_use]
pub fn render(layer: &LayerPolicy) -> String {
    render_with(layer, &Remarks::default())
}

/// Like [`render`], with comments.
#[must_use]
pub fn render_with(layer: &LayerPolicy, remarks: &Remarks) -> String {
    let mut out = String::new();
    for line in &remarks.header {
        let _ = writeln!(out, "{}", comment(line));
    }
    let _ = writeln!(out, "schema = {SCHEMA}");
    for (key, text) in [("name", &layer.name), ("description", &layer.description)] {
        if let Some(text) = text {
            put(&mut out, key, &string(&text.value));
        }
    }
    application::top(&mut out, layer);
    for (strength, prefix) in
        [(Strength::Set, ""), (Strength::Default, "default."), (Strength::Locked, "locked.")]
    {
        put_sections(&mut out, prefix, &layer.settings, strength, remarks);
    }
    for configuration in &layer.configurations {
        application::configuration(&mut out, configuration);
    }
    out
}

fn put_sections(out: &mut String, prefix: &str, from: &Settings, strength: Strength, remarks: &Remarks) {
    for section in SECTIONS {
        let mut body = String::new();
        for key in section.keys {
            let own = match strength {
                Strength::Set => remarks.of(&format!("{}.{}", section.name, key.name)),
                _ => Vec::new(),
            };
            put_key(&mut body, key.name, key.kind, from, strength, own);
        }
        if !body.is_empty() {
            let _ = write!(out, "\n[{prefix}{}]\n{body}", section.name);
        }
    }
}

fn put(out: &mut String, key: &str, value: &str) {
    // Writing to a string can't fail.
    let _ = writeln!(out, "{key} = {value}");
}

fn put_key(
    out: &mut String,
    key: &str,
    kind: Kind,
    from: &Settings,
    strength: Strength,
    remarks: Vec<String>,
) {
    let value = match kind {
        Kind::View => one(last(&from.view, strength).map(|view| string(view.key()))),
        Kind::Network(of) => network::value(of, from, strength),
        Kind::Paths(access) => {
            let rules = from.paths.iter().filter(|rule| rule.access == access && rule.strength == strength);
            let mut texts = Vec::new();
            for rule in rules {
                match path(rule) {
                    Some(text) => texts.push(string(&text)),
                    None => {
                        let shown = rule.pattern.to_string();
                        let _ = writeln!(out, "# {key}: {shown:?} is no UTF-8");
                    }
                }
            }
            Value::List(texts)
        }
        Kind::Protect => one(last(&from.protect, strength).map(|protect| string(protect.key()))),
        Kind::Names { protect } => Value::List(
            of(&from.names, strength)
                .filter(|change| change.protect == protect)
                .map(|change| string(change.name.as_str()))
                .collect(),
        ),
        Kind::Hostname => one(last(&from.hostname, strength).map(|name| string(name.as_str()))),
        Kind::Uid => one(last(&from.uid, strength).map(u32::to_string)),
        Kind::Gid => one(last(&from.gid, strength).map(u32::to_string)),
        Kind::Cwd => one(last(&from.cwd, strength).and_then(|path| path.as_str().map(string))),
        Kind::BestEffort => one(last(&from.best_effort, strength).map(bool::to_string)),
        Kind::InheritTerminal => one(last(&from.inherit_terminal, strength).map(bool::to_string)),
        Kind::Syscalls { allow } => Value::List(
            of(&from.syscalls, strength)
                .filter(|rule| rule.allow == allow)
                .map(|rule| string(&rule.name))
                .collect(),
        ),
        Kind::Answers => Value::List(of(&from.answers, strength).map(answer).collect()),
        Kind::Processors => one(last(&from.processors, strength).map(u32::to_string)),
        Kind::Time => one(last(&from.time, strength).map(|time| string(&time.to_string()))),
        Kind::KeepVariables => names(from, strength, |rule| match rule {
            EnvironmentRule::Keep(glob) => Some(glob),
            _ => None,
        }),
        Kind::RemoveVariables => names(from, strength, |rule| match rule {
            EnvironmentRule::Remove(glob) => Some(glob),
            _ => None,
        }),
        Kind::SetVariables => one(variables(from, strength)),
        Kind::Amount(limit) => one(of(&from.limits, strength)
            .filter(|(stated, _)| *stated == limit)
            .last()
            .map(|(_, amount)| written(limit.unit(), *amount))),
        Kind::Choice(choice) => one(of(&from.chosen, strength)
            .filter(|chosen| chosen.choice() == choice)
            .last()
            .map(|chosen| string(chosen.key()))),
        Kind::Word(word) => one(of(&from.words, strength)
            .filter(|(stated, _)| *stated == word)
            .last()
            .map(|(_, text)| string(text))),
        Kind::Switch(switch) => one(of(&from.switches, strength)
            .filter(|(stated, _)| *stated == switch)
            .last()
            .map(|(_, yes)| yes.to_string())),
        Kind::List(list) => Value::List(
            of(&from.lists, strength)
                .filter(|(stated, _)| *stated == list)
                .map(|(_, text)| if list == List::IgnoreExit { text.clone() } else { string(text) })
                .collect(),
        ),
        Kind::Made(made) => one(application::made(from, strength, made)),
        Kind::Hooks(when) => match application::hooks(from, strength, when) {
            hooks if when == When::Parent => one(hooks.into_iter().next_back()),
            hooks => Value::List(hooks),
        },
    };
    match value {
        Value::List(texts) => {
            if !texts.is_empty() || !remarks.is_empty() {
                // A list that contains only comments states nothing. It shows where the entries belong.
                put(out, key, &list(texts, remarks));
            }
        }
        Value::One(text) => {
            for remark in remarks {
                let _ = writeln!(out, "{remark}");
            }
            if let Some(text) = text {
                put(out, key, &text);
            }
        }
    }
}

/// The value of a key.
enum Value {
    One(Option<String>),
    List(Vec<String>),
}

const fn one(text: Option<String>) -> Value {
    Value::One(text)
}

fn of<T>(from: &[Sourced<T>], strength: Strength) -> impl Iterator<Item = &T> {
    from.iter().filter(move |stated| stated.strength == strength).map(|stated| &stated.value)
}

fn last<T>(from: &[Sourced<T>], strength: Strength) -> Option<&T> {
    of(from, strength).last()
}

fn names(from: &Settings, strength: Strength, pick: fn(&EnvironmentRule) -> Option<&String>) -> Value {
    Value::List(of(&from.environment, strength).filter_map(pick).map(|name| string(name)).collect())
}

fn variables(from: &Settings, strength: Strength) -> Option<String> {
    // TOML allows a key only once in a table, so the last statement is printed, which wins.
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for rule in of(&from.environment, strength) {
        if let EnvironmentRule::Set { name, value } = rule {
            pairs.retain(|(known, _)| known != name);
            pairs.push((name, value));
        }
    }
    pairs.sort_unstable();
    let pairs: Vec<String> =
        pairs.into_iter().map(|(name, value)| format!("{} = {}", string(name), string(value))).collect();
    (!pairs.is_empty()).then(|| format!("{{ {} }}", pairs.join(", ")))
}

/// Prints an entry of `syscalls.answers` as a TOML table.
#[must_use]
pub fn answer(answer: &SyscallReply) -> String {
    let mut parts = match &answer.question {
        Question::Call { call, when } if when.is_empty() => vec![format!("call = {}", string(call))],
        Question::Call { call, when } => {
            vec![format!("call = {}", string(call)), format!("when = {}", string(when))]
        }
        Question::Open { open } => vec![format!("open = {}", string(open))],
    };
    parts.push(format!("action = {}", string(answer.action.key())));
    match &answer.action {
        Action::Allow | Action::Ask => {}
        Action::Return { value } => parts.push(format!("value = {value}")),
        Action::Deny { errno } => parts.push(format!("errno = {}", string(errno))),
        Action::Redirect { to } => parts.push(format!("to = {}", string(to))),
        Action::Give { descriptor } => parts.push(format!("descriptor = {descriptor}")),
    }
    format!("{{ {} }}", parts.join(", "))
}

fn path(rule: &PathRule) -> Option<String> {
    let host = rule.pattern.as_str()?;
    match &rule.destination {
        None => Some(host.to_owned()),
        Some(destination) => Some(format!("{host}={}", destination.as_str()?)),
    }
}

fn written(unit: Unit, amount: Amount) -> String {
    let text = unit.display(amount);
    match amount {
        Amount::AtMost(number) if text == number.to_string() => text,
        _ => string(&text),
    }
}

/// Prints a list in one line if it is short and has no comments, else one entry on each line.
fn list(texts: Vec<String>, remarks: Vec<String>) -> String {
    let line = format!("[{}]", texts.join(", "));
    if line.len() <= 80 && remarks.is_empty() {
        return line;
    }
    let mut out = String::from("[\n");
    for text in texts {
        let _ = writeln!(out, "    {text},");
    }
    for remark in remarks {
        let _ = writeln!(out, "    {remark}");
    }
    out.push(']');
    out
}

/// Writes an invisible character as an escape of a TOML string.
fn escape(c: char, out: &mut String) {
    let code = u32::from(c);
    let _ = if code > 0xffff { write!(out, "\\U{code:08X}") } else { write!(out, "\\u{code:04X}") };
}

/// Prints a TOML string. Characters that control a terminal or are invisible become escapes.
#[must_use]
pub fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_hidden(c) => escape(c, &mut out),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A key as TOML takes it: bare where it may be.
#[must_use]
pub fn key(text: &str) -> String {
    let bare = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { text.to_owned() } else { string(text) }
}
