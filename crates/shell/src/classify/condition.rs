// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The condition of an atom. One line of the table is a few terms, all of which must hold for one command:
//!
//! | term | holds if |
//! |---|---|
//! | `rm` `curl,wget` `%net` `*` | first term: the command's name, or the kind of program it is |
//! | `-r\|--recursive` | there is such an option; single letters also among others (`-xrf`) |
//! | `=text` `^text` `$text` `~text` | an argument is, begins with, ends with, contains it; `\|` parts alternatives |
//! | `1=text`, `2^text`, `3~text` | the same for the first, second, third argument that is no option |
//! | `w=…` `w^…` `w$…` `w~…` `r…` | the same for a path that is written, or read |
//! | `i~text` `i@any` | what it reads from a here-document or here-string contains it |
//! | `@device` | an argument is of that kind; `w@…`, `r@…` likewise |
//! | `<curl,wget` `<%net` | such a command feeds it |
//! | `(curl` `(%net` | such a command is substituted in its words |
//! | `V=NAME` `V=NAME~text` | it assigns that variable |
//! | `@root` `@decoded` `@each` `@background` | it is run so |
//! | `!term` | the term doesn't hold |
//!
//! In terms, `\s` stands for a blank and `\p` for `|`.

use std::borrow::Cow;
use std::ops::Range;

use super::argument::Argument;
use super::command::Reading;
use super::subject::{Place, Program, Subject};

/// How two texts are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Equals,
    Begins,
    Ends,
    Contains,
}

#[derive(Debug)]
enum Test {
    Text(Mode, Vec<Cow<'static, str>>),
    Kind(Argument),
}

#[derive(Debug)]
enum Programs {
    Any,
    Kind(Program),
    Named(Vec<&'static str>),
}

#[derive(Debug, Clone, Copy)]
enum Way {
    Root,
    Decoded,
    Each,
    Background,
    Dynamic,
}

#[derive(Debug)]
enum Term {
    Flag(Vec<&'static str>),
    Argument(Test),
    Positional(usize, Test),
    Writes(Test),
    Reads(Test),
    Input(Test),
    Fed(Programs),
    Holds(Programs),
    Assigns(&'static str, Option<&'static str>),
    Way(Way),
    Not(Box<Term>),
}

/// What an atom asks of a command.
#[derive(Debug)]
pub(super) struct Condition {
    programs: Programs,
    terms: Vec<Term>,
}

/// A line of the table that is no valid condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{term}` is no term of a condition")]
pub struct TermError {
    /// The term.
    pub(super) term: String,
}

/// Begins a command in the text that [`render`] makes.
pub(super) const COMMAND: char = '\u{1}';
/// Ends a word in that text.
pub(super) const END: char = '\u{2}';

impl Condition {
    pub(super) fn parse(text: &'static str) -> Result<Self, TermError> {
        let mut parts = text.split_whitespace();
        let programs = programs(parts.next().unwrap_or_default())?;
        let terms = parts.map(term).collect::<Result<_, _>>()?;
        Ok(Self { programs, terms })
    }

    /// Texts of which at least one is in the rendered command whenever the condition holds. Of several such sets, the
    /// one with the longest texts.
    pub(super) fn anchors(&self) -> Vec<String> {
        let mut best: Vec<String> = match &self.programs {
            Programs::Named(names) => names.iter().map(|name| format!("{COMMAND}{name}{END}")).collect(),
            Programs::Any | Programs::Kind(_) => Vec::new(),
        };
        let length = |texts: &[String]| texts.iter().map(String::len).min().unwrap_or_default();
        for term in &self.terms {
            let texts: Vec<String> = match term {
                Term::Argument(Test::Text(mode, texts)) | Term::Positional(_, Test::Text(mode, texts)) => {
                    texts.iter().map(|text| anchored(*mode, text)).collect()
                }
                Term::Writes(Test::Text(mode, texts)) | Term::Reads(Test::Text(mode, texts)) => {
                    // A word may have `of=`, `@` or another prefix before it.
                    let ended = matches!(mode, Mode::Equals | Mode::Ends);
                    texts
                        .iter()
                        .map(|text| if ended { format!("{text}{END}") } else { text.to_string() })
                        .collect()
                }
                Term::Input(Test::Text(_, texts)) => texts.iter().map(ToString::to_string).collect(),
                Term::Flag(flags) if flags.iter().all(|flag| flag.len() > 2) => {
                    flags.iter().map(|flag| format!("{END}{flag}")).collect()
                }
                Term::Assigns(name, _) => vec![format!("{name}=")],
                _ => Vec::new(),
            };
            if length(&texts) > length(&best) {
                best = texts;
            }
        }
        best
    }

    /// Where in the line the condition holds for a command.
    pub(super) fn holds(&self, subject: &Subject<'_>, reading: &Reading) -> Option<Range<usize>> {
        if !self.programs.are(subject) {
            return None;
        }
        let mut narrow: Option<Range<usize>> = None;
        for term in &self.terms {
            let span = term.holds(subject, reading)?;
            if let Some(span) = span {
                narrow.get_or_insert(span);
            }
        }
        let whole = subject.command.span.clone();
        Some(match narrow {
            Some(narrow) if narrow.start >= whole.start && narrow.end <= whole.end => {
                whole.start..narrow.end.max(whole.start)
            }
            _ => whole,
        })
    }
}

fn anchored(mode: Mode, text: &str) -> String {
    match mode {
        Mode::Equals => format!("{END}{text}{END}"),
        Mode::Begins => format!("{END}{text}"),
        Mode::Ends => format!("{text}{END}"),
        Mode::Contains => text.to_owned(),
    }
}

impl Programs {
    fn are(&self, subject: &Subject<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::Kind(kind) => kind.is(subject.command),
            Self::Named(names) => names.contains(&subject.name),
        }
    }

    fn is(&self, command: &super::command::Command) -> bool {
        match self {
            Self::Any => true,
            Self::Kind(kind) => kind.is(command),
            Self::Named(names) => names.contains(&command.name()),
        }
    }
}

impl Test {
    fn holds(&self, value: &str, dynamic: bool) -> bool {
        match self {
            Self::Text(mode, texts) => texts.iter().any(|text| {
                let text = text.as_ref();
                match mode {
                    Mode::Equals => value == text,
                    Mode::Begins => value.starts_with(text),
                    Mode::Ends => value.ends_with(text),
                    Mode::Contains => value.contains(text),
                }
            }),
            Self::Kind(kind) => kind.is(value, dynamic),
        }
    }

    fn among(&self, places: &[Place]) -> Option<Range<usize>> {
        places.iter().find(|place| self.holds(&place.path, place.dynamic)).map(|place| place.span.clone())
    }
}

impl Term {
    /// `Some(Some(…))`: the term holds at that place. `Some(None)`: it holds for the command as a whole.
    fn holds(&self, subject: &Subject<'_>, reading: &Reading) -> Option<Option<Range<usize>>> {
        let arguments = subject.command.arguments();
        match self {
            Self::Flag(flags) => arguments
                .iter()
                .find(|word| flags.iter().any(|flag| is_flag(&word.value, flag)))
                .map(|word| Some(word.span.clone())),
            Self::Argument(test) => arguments
                .iter()
                .find(|word| test.holds(&word.value, word.dynamic))
                .map(|word| Some(word.span.clone())),
            Self::Positional(number, test) => subject
                .positionals()
                .nth(*number)
                .filter(|word| test.holds(&word.value, word.dynamic))
                .map(|word| Some(word.span.clone())),
            Self::Writes(test) => test.among(&subject.writes).map(Some),
            Self::Reads(test) => test.among(&subject.reads).map(Some),
            Self::Input(test) => {
                let input = subject.command.input.as_ref()?;
                test.holds(&input.value, input.dynamic).then(|| Some(input.span.clone()))
            }
            Self::Fed(programs) => {
                reading.is_fed(subject.index, &|command| programs.is(command)).then_some(None)
            }
            Self::Holds(programs) => {
                reading.holds(subject.index, &|command, _| programs.is(command)).then_some(None)
            }
            Self::Assigns(name, text) => subject
                .command
                .assignments
                .iter()
                .find(|(other, word)| other == name && text.is_none_or(|text| word.value.contains(text)))
                .map(|(_, word)| Some(word.span.clone())),
            Self::Way(way) => {
                let command = subject.command;
                let holds = match way {
                    Way::Root => command.way.root,
                    Way::Decoded => command.way.decoded,
                    Way::Each => command.way.each,
                    Way::Background => command.background,
                    Way::Dynamic => command.words.first().is_some_and(|word| word.dynamic),
                };
                holds.then_some(None)
            }
            Self::Not(term) => term.holds(subject, reading).is_none().then_some(None),
        }
    }
}

/// Whether `word` is the option `flag`, contains its letter among others, or gives it a value.
fn is_flag(word: &str, flag: &str) -> bool {
    if word == flag {
        return true;
    }
    match flag.as_bytes() {
        [b'-', letter] => {
            let letters = word.as_bytes();
            letters.len() <= 10
                && letters.first() == Some(&b'-')
                && letters.get(1).is_some_and(u8::is_ascii_alphanumeric)
                && letters.get(1..).is_some_and(|letters| {
                    letters.contains(letter) && letters.iter().all(u8::is_ascii_alphanumeric)
                })
        }
        [b'-', b'-', ..] => word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')),
        _ => false,
    }
}

fn programs(text: &'static str) -> Result<Programs, TermError> {
    if text == "*" {
        return Ok(Programs::Any);
    }
    match text.strip_prefix('%') {
        Some(kind) => {
            Program::named(kind).map(Programs::Kind).ok_or_else(|| TermError { term: text.to_owned() })
        }
        None if text.is_empty() => Err(TermError { term: text.to_owned() }),
        None => Ok(Programs::Named(text.split(',').collect())),
    }
}

fn term(text: &'static str) -> Result<Term, TermError> {
    let wrong = || TermError { term: text.to_owned() };
    let rest = |count: usize| text.get(count..).unwrap_or_default();
    Ok(match text.as_bytes() {
        [b'!', _, ..] => Term::Not(Box::new(term(rest(1))?)),
        [b'-', _, ..] => Term::Flag(text.split('|').collect()),
        [b'<', _, ..] => Term::Fed(programs(rest(1))?),
        [b'(', _, ..] => Term::Holds(programs(rest(1))?),
        [b'V', b'=', _, ..] => {
            let (name, value) = match rest(2).split_once('~') {
                Some((name, value)) => (name, Some(value)),
                None => (rest(2), None),
            };
            Term::Assigns(name, value)
        }
        [b'@', ..] => match rest(1) {
            "root" => Term::Way(Way::Root),
            "decoded" => Term::Way(Way::Decoded),
            "each" => Term::Way(Way::Each),
            "background" => Term::Way(Way::Background),
            "dynamic" => Term::Way(Way::Dynamic),
            _ => Term::Argument(test(text).ok_or_else(wrong)?),
        },
        [b'w', b'=' | b'^' | b'$' | b'~' | b'@', ..] => Term::Writes(test(rest(1)).ok_or_else(wrong)?),
        [b'r', b'=' | b'^' | b'$' | b'~' | b'@', ..] => Term::Reads(test(rest(1)).ok_or_else(wrong)?),
        [b'i', b'~' | b'@', ..] => Term::Input(test(rest(1)).ok_or_else(wrong)?),
        [digit @ b'1'..=b'9', ..] => {
            Term::Positional(usize::from(*digit - b'1'), test(rest(1)).ok_or_else(wrong)?)
        }
        _ => Term::Argument(test(text).ok_or_else(wrong)?),
    })
}

fn test(text: &'static str) -> Option<Test> {
    let mode = match text.as_bytes().first()? {
        b'=' => Mode::Equals,
        b'^' => Mode::Begins,
        b'$' => Mode::Ends,
        b'~' => Mode::Contains,
        b'@' => return Argument::named(text.get(1..)?).map(Test::Kind),
        _ => return None,
    };
    let texts: Vec<Cow<'static, str>> = text
        .get(1..)?
        .split('|')
        .map(|part| {
            if part.contains('\\') {
                Cow::Owned(part.replace("\\s", " ").replace("\\p", "|"))
            } else {
                Cow::Borrowed(part)
            }
        })
        .collect();
    (!texts.iter().any(|text| text.is_empty())).then_some(Test::Text(mode, texts))
}

/// The commands of a line as one text, in which every word stands between two [`END`]s; and the index at which each
/// command begins.
pub(super) fn render(subjects: &[Subject<'_>]) -> (String, Vec<usize>) {
    let mut text = String::new();
    let mut starts = Vec::with_capacity(subjects.len());
    for subject in subjects {
        starts.push(text.len());
        let command = subject.command;
        for (name, word) in &command.assignments {
            text.push_str(name);
            text.push('=');
            text.push_str(&word.value);
            text.push(END);
        }
        text.push(COMMAND);
        text.push_str(subject.name);
        text.push(END);
        for word in command.arguments() {
            text.push_str(&word.value);
            text.push(END);
        }
        // Adds each path as rules spell it, because the line may spell it differently.
        for place in subject.writes.iter().chain(&subject.reads) {
            text.push_str(&place.path);
            text.push(END);
        }
        if let Some(input) = &command.input {
            text.push_str(&input.value);
            text.push(END);
        }
    }
    (text, starts)
}
