// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Documentation says one thing by one word: retired phrases don't come back.
#![expect(clippy::unwrap_used, reason = "a test may die of what the repository should have")]

use serde::Deserialize;
use std::path::{Path, PathBuf};

/// `tests/vocabulary.toml`.
#[derive(Deserialize)]
struct Vocabulary {
    retired: Vec<Retired>,
}

/// A phrase in small letters, and what is said instead.
#[derive(Deserialize)]
struct Retired {
    phrase: String,
    say: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every page of the documentation but the changelog, which says what was said when.
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
    let mut complaints = Vec::new();
    for (number, line) in prose(page) {
        for Retired { phrase, say } in
            vocabulary.retired.iter().filter(|retired| line.contains(&retired.phrase))
        {
            complaints.push(format!("{name}:{number}: {phrase:?} is retired; say: {say}"));
        }
    }
    complaints
}

#[test]
fn retired_phrases_stay_away() {
    let text = std::fs::read_to_string(root().join("tests/vocabulary.toml")).unwrap();
    let vocabulary: Vocabulary = toml::from_str(&text).unwrap();
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

#[test]
fn code_titles_and_quotations_are_exempt() {
    let vocabulary =
        Vocabulary { retired: vec![Retired { phrase: "whoever".to_owned(), say: "the user".to_owned() }] };
    let page = "# Whoever\n`whoever` and \"whoever\" are quoted\n```text\nwhoever\n```\nWhoever reads.\n";
    assert_eq!(
        complaints("a.md", page, &vocabulary),
        ["a.md:6: \"whoever\" is retired; say: the user".to_owned()]
    );
}
