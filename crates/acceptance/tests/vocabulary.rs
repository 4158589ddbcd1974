// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that the documentation uses one term for one thing, and no retired phrases.
#![expect(clippy::unwrap_used, reason = "a test may die of what the repository should have")]

use serde::Deserialize;
use std::path::{Path, PathBuf};

/// `tests/vocabulary.toml`.
#[derive(Deserialize)]
struct Vocabulary {
    retired: Vec<Retired>,
    name: Vec<Name>,
}

/// A phrase in small letters, and the phrase to use instead.
#[derive(Deserialize)]
struct Retired {
    phrase: String,
    say: String,
}

/// A name of types and modules in snake case, and the name to use instead.
#[derive(Deserialize)]
struct Name {
    retired: String,
    say: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every page of the documentation but the changelog, which keeps the phrases of its time.
fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![root().join("docs")];
    let top = std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    found.extend(top.filter(|path| is_page(path) && !path.ends_with("CHANGELOG.md")));
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if is_page(&path) {
                found.push(path);
            }
        }
    }
    found
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "md")
}

/// The prose of a page in small letters, line by line: without its title, fenced blocks, code and quotations.
fn prose(page: &str) -> Vec<(usize, String)> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (number, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code && number > 0 {
            let unquoted = |text: &str, mark: char| text.split(mark).step_by(2).collect::<Vec<_>>().join("…");
            lines.push((number + 1, unquoted(&unquoted(line, '`'), '"').to_lowercase()));
        }
    }
    lines
}

fn complaints(name: &str, page: &str, vocabulary: &Vocabulary) -> Vec<String> {
    complaints_about(name, prose(page), vocabulary)
}

/// Whether the line has the phrase as whole words: "those who", but not "those whose".
fn has_words(line: &str, phrase: &str) -> bool {
    let is_end = |text: Option<char>| text.is_none_or(|c| !c.is_alphanumeric());
    line.match_indices(phrase).any(|(at, _)| {
        is_end(line[..at].chars().next_back()) && is_end(line[at + phrase.len()..].chars().next())
    })
}

fn complaints_about(name: &str, lines: Vec<(usize, String)>, vocabulary: &Vocabulary) -> Vec<String> {
    let mut complaints = Vec::new();
    for (number, line) in lines {
        for Retired { phrase, say } in
            vocabulary.retired.iter().filter(|retired| has_words(&line, &retired.phrase))
        {
            complaints.push(format!("{name}:{number}: {phrase:?} is retired; say: {say}"));
        }
    }
    complaints
}

fn vocabulary() -> Vocabulary {
    let text = std::fs::read_to_string(root().join("tests/vocabulary.toml")).unwrap();
    toml::from_str(&text).unwrap()
}

/// The sources of every crate, without its tests.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let crates = std::fs::read_dir(root().join("crates")).unwrap();
    let mut directories: Vec<PathBuf> = crates.map(|entry| entry.unwrap().path().join("src")).collect();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                found.push(path);
            }
        }
    }
    found
}

/// The name of the type or module that a line defines, in snake case.
fn defined(line: &str) -> Option<String> {
    const BEGINS: [&str; 5] = ["struct", "enum", "trait", "type", "mod"];
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| BEGINS.contains(word))?;
    // The words before it state the visibility: `pub(crate)`.
    if !words[..at].iter().all(|word| word.starts_with("pub") || word.ends_with(')') || *word == "unsafe") {
        return None;
    }
    let name: String = words.get(at + 1)?.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    Some(snake)
}

#[test]
fn retired_names_stay_away() {
    let (vocabulary, sources) = (vocabulary(), sources());
    assert!(sources.len() > 700, "{} files", sources.len());
    let mut found = Vec::new();
    for path in sources {
        for (number, line) in std::fs::read_to_string(&path).unwrap().lines().enumerate() {
            let Some(name) = defined(line) else { continue };
            for Name { retired, say } in vocabulary.name.iter().filter(|entry| entry.retired == name) {
                let file = path.strip_prefix(root()).unwrap().display();
                found.push(format!("{file}:{}: the name {retired:?} is retired; say: {say}", number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn definitions_of_types_and_modules_are_found() {
    for (line, name) in [
        ("pub(crate) struct SupervisorState<'e> {", Some("supervisor_state")),
        ("pub mod line_guard;", Some("line_guard")),
        ("    pub(in crate::a) enum Deed {", Some("deed")),
        ("type Exit = Result<u8, Failure>;", Some("exit")),
        ("    what struct Keeper is", None),
        ("/// mod keeper", None),
        ("let keeper = 1;", None),
    ] {
        assert_eq!(defined(line).as_deref(), name, "{line}");
    }
}

#[test]
fn retired_phrases_stay_away() {
    let vocabulary = vocabulary();
    let pages = pages();
    assert!(pages.len() > 70, "{} pages", pages.len());
    let mut found = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        let name = page.strip_prefix(root()).unwrap().display().to_string();
        found.extend(complaints(&name, &text, &vocabulary));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The comments of a source file in small letters, line by line, without code and quotations.
fn comments(source: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    for (number, line) in source.lines().enumerate() {
        if line.trim_start().starts_with("//") {
            let unquoted = |text: &str, mark: char| text.split(mark).step_by(2).collect::<Vec<_>>().join("…");
            lines.push((number + 1, unquoted(&unquoted(line, '`'), '"').to_lowercase()));
        }
    }
    lines
}

#[test]
fn retired_phrases_stay_away_from_comments() {
    let vocabulary = vocabulary();
    let mut found = Vec::new();
    for path in sources() {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        found.extend(complaints_about(
            &name,
            comments(&std::fs::read_to_string(&path).unwrap()),
            &vocabulary,
        ));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn comments_are_told_from_code() {
    let source = "/// Whoever reads.\nlet whoever = 1; // whoever\n    // `whoever` calls\n";
    assert_eq!(comments(source).len(), 2);
    let retired = vec![Retired { phrase: "whoever".to_owned(), say: "the user".to_owned() }];
    let vocabulary = Vocabulary { retired, name: Vec::new() };
    assert_eq!(complaints_about("a.rs", comments(source), &vocabulary).len(), 1);
    assert!(has_words("for those who wait", "those who") && !has_words("for those whose", "those who"));
}

#[test]
fn code_titles_and_quotations_are_exempt() {
    let retired = vec![Retired { phrase: "whoever".to_owned(), say: "the user".to_owned() }];
    let vocabulary = Vocabulary { retired, name: Vec::new() };
    let page = "# Whoever\n`whoever` and \"whoever\" are quoted\n```text\nwhoever\n```\nWhoever reads.\n";
    assert_eq!(
        complaints("a.md", page, &vocabulary),
        ["a.md:6: \"whoever\" is retired; say: the user".to_owned()]
    );
}
