// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collects the hints from the sources of the crates.
//!
//! A hint is a text of two words or more in one of these places: a function named `hint`, or with a name that ends so; a
//! variable or field named `hint`; what `output::error` and `with_hint` get behind `Some`. A text with `hint: ` in it is one,
//! too, and so is a text that begins with a command of Palisade.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Crates that a user never runs.
const TOOLS: [&str; 3] = ["acceptance", "bench", "runner"];

/// A piece of Rust that matters here.
#[derive(Debug, PartialEq)]
enum Token {
    Name(String),
    Text(String),
    Mark(char),
}

/// All hints, each with the places where it stands.
pub(super) fn hints() -> BTreeMap<String, Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for crate_ in std::fs::read_dir(root.join("crates")).unwrap().flatten() {
        if TOOLS.iter().any(|tool| crate_.file_name() == *tool) {
            continue;
        }
        for path in sources(&crate_.path().join("src")) {
            let source = std::fs::read_to_string(&path).unwrap();
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            for hint in hints_in(&source) {
                found.entry(hint).or_default().push(name.clone());
            }
        }
    }
    found
}

/// The sources below a directory, without tests.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if stem == "tests" || stem.ends_with("_tests") {
            continue;
        }
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Where the reader is.
#[derive(Default)]
struct Within {
    /// How many brackets are open.
    depth: usize,
    /// The depth of the function's body, if the function makes hints. `Some(0)`: its body hasn't begun.
    function: Option<usize>,
    /// The depth of a variable or field that is a hint, and the mark that ends it.
    value: Option<(usize, char)>,
    /// The depth of the arguments of a call that takes a hint, and whether `Some` came.
    call: Option<(usize, bool)>,
}

impl Within {
    fn is_hint(&self) -> bool {
        self.function.is_some_and(|depth| depth > 0)
            || self.value.is_some()
            || self.call.is_some_and(|(_depth, given)| given)
    }

    fn mark(&mut self, mark: char) {
        match mark {
            '{' | '(' | '[' => {
                self.depth += 1;
                if mark == '{' && self.function == Some(0) {
                    self.function = Some(self.depth);
                }
            }
            '}' | ')' | ']' => {
                self.depth = self.depth.saturating_sub(1);
                self.function = self.function.filter(|depth| *depth == 0 || *depth <= self.depth);
                self.value = self.value.filter(|(depth, _end)| *depth <= self.depth);
                self.call = self.call.filter(|(depth, _given)| *depth <= self.depth);
            }
            _ => self.value = self.value.filter(|value| *value != (self.depth, mark)),
        }
    }
}

fn hints_in(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let tokens = tokens(source);
    let mut within = Within::default();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let next = |ahead: usize| tokens.get(at + ahead);
        let mark = |ahead: usize, mark: char| next(ahead) == Some(&Token::Mark(mark));
        match token {
            Token::Mark(mark) => within.mark(*mark),
            Token::Name(name) => match name.as_str() {
                "fn" if within.function.is_none() => {
                    let makes = matches!(next(1), Some(Token::Name(name)) if name == "hint" || name.ends_with("_hint"));
                    within.function = makes.then_some(0);
                }
                "hint" if mark(1, ':') && !mark(2, ':') => within.value = Some((within.depth, ',')),
                "hint" if mark(1, '=') && !mark(2, '=') && !mark(2, '>') => {
                    within.value = Some((within.depth, ';'));
                }
                "error" | "error_in_lines" | "with_hint" if mark(1, '(') => {
                    within.call = Some((within.depth + 1, false));
                }
                "Some" => within.call = within.call.map(|(depth, _given)| (depth, true)),
                _ => {}
            },
            Token::Text(text) => {
                let words = text.split_whitespace().count() > 1;
                let command = ["palisade ", "sudo palisade "].iter().any(|start| text.starts_with(start));
                if words && (within.is_hint() || command || text.contains("hint: ")) {
                    found.push(text.clone());
                }
            }
        }
    }
    found
}

/// Names, texts and marks, without comments.
fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
    let mut tokens = Vec::new();
    let mut now = 0;
    while now < chars.len() {
        match at(now) {
            '/' if at(now + 1) == '/' => {
                while now < chars.len() && at(now) != '\n' {
                    now += 1;
                }
            }
            '"' => {
                let (text, end) = text(&chars, now + 1);
                tokens.push(Token::Text(text));
                now = end;
            }
            'r' if at(now + 1) == '"' || (at(now + 1) == '#' && matches!(at(now + 2), '"' | '#')) => {
                let (text, end) = raw_text(&chars, now + 1);
                tokens.push(Token::Text(text));
                now = end;
            }
            // A character. A lifetime has no second quotation mark.
            '\'' if at(now + 1) == '\\' => {
                now += 3;
                while now < chars.len() && at(now) != '\'' {
                    now += 1;
                }
                now += 1;
            }
            '\'' if at(now + 2) == '\'' => now += 3,
            letter if letter.is_alphanumeric() || letter == '_' => {
                let start = now;
                while at(now).is_alphanumeric() || at(now) == '_' {
                    now += 1;
                }
                tokens.push(Token::Name(chars[start..now].iter().collect()));
            }
            blank if blank.is_whitespace() => now += 1,
            mark => {
                tokens.push(Token::Mark(mark));
                now += 1;
            }
        }
    }
    tokens
}

/// The text from `now` to the next quotation mark, and what follows it.
fn text(chars: &[char], mut now: usize) -> (String, usize) {
    let mut text = String::new();
    while let Some(letter) = chars.get(now) {
        match letter {
            '"' => return (text, now + 1),
            '\\' => {
                match chars.get(now + 1) {
                    Some('n') => text.push('\n'),
                    Some('r') => text.push('\r'),
                    // The line goes on behind the blanks of the next one.
                    Some('\n') => {
                        while chars.get(now + 2).is_some_and(|blank| blank.is_whitespace()) {
                            now += 1;
                        }
                    }
                    Some(other) => text.push(*other),
                    None => {}
                }
                now += 2;
            }
            other => {
                text.push(*other);
                now += 1;
            }
        }
    }
    (text, now)
}

/// The text of `r#"…"#`, whose first `#` or quotation mark is at `now`.
fn raw_text(chars: &[char], mut now: usize) -> (String, usize) {
    let hashes = chars[now..].iter().take_while(|mark| **mark == '#').count();
    now += hashes + 1;
    let end: String = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let rest: String = chars[now..].iter().collect();
    let text = rest.split(&end).next().unwrap_or_default().to_owned();
    let length = text.chars().count() + end.chars().count();
    (text, now + length)
}

#[test]
fn hints_are_found_where_the_sources_have_them() {
    let source = r##"
        // fn hint() { "no comment" }
        #[error("{path:?} isn't there")]
        fn other<'a>(c: char) -> &'a str { if c == '"' || c == '\'' { "not a hint" } else { "palisade run" } }
        fn hint(&self) -> Option<String> {
            match self {
                Self::A { hint: Some(hint), .. } => "ls -l \"{}\" \
                    goes on".to_owned(),
                Self::B => r#"say "x""#.into(),
                Self::C => "word",
            }
        }
        fn after() -> X { output::error(&"it failed", Some("do that")); X { hint: Some("a field"), class: "no field" } }
        fn last() { let hint = match x { A => "ps -e", B => C }; let a = "say no"; "x\nhint: {hint}" }
        #[cfg(test)]
        mod tests { fn hint() { "of a test" } }
    "##;
    assert_eq!(
        hints_in(&source.replace("        ", "")),
        [
            "palisade run",
            "ls -l \"{}\" goes on",
            "say \"x\"",
            "do that",
            "a field",
            "ps -e",
            "x\nhint: {hint}"
        ]
    );
}
