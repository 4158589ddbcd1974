// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the public API with `api.txt`, which lists every public name and its type. Other programs build on them. A
//! change needs an entry in `CHANGES.md`. The entry's heading names the state of `api.txt`, so that no change is made
//! without an entry.
//!
//! `PALISADE_API=write cargo test -p palisade api::` writes `api.txt` anew and prints the heading.
#![expect(clippy::unwrap_used, reason = "a test may die of what the sources should give")]

use std::fmt::Write as _;
use std::path::Path;

/// What the sources offer, one line for each name, in an order that doesn't depend on the name's position in a file.
fn offered() -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut names = Vec::new();
    let mut directories = vec![sources];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            match entry.path() {
                below if below.is_dir() => directories.push(below),
                file => read(&std::fs::read_to_string(file).unwrap(), &mut names),
            }
        }
    }
    names.sort();
    names.dedup();
    names.iter().fold(String::new(), |mut text, name| {
        let _infallible = writeln!(text, "{name}");
        text
    })
}

/// Reads a source as rustfmt leaves it: a public item's line begins with `pub `, and what stands in an `impl`, `struct`
/// or `enum` is indented once.
fn read(text: &str, names: &mut Vec<String>) {
    let mut within = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        let word = line.trim();
        if indent == 0 && !word.is_empty() {
            let head = word.trim_end_matches(" {");
            within =
                if ["impl ", "impl<", "pub struct ", "pub enum "].iter().any(|begin| word.starts_with(begin))
                {
                    head.to_owned()
                } else {
                    String::new()
                };
        }
        let is_variant = within.starts_with("pub enum ")
            && indent == 4
            && word.starts_with(|first: char| first.is_ascii_uppercase());
        let is_trait = indent == 0 && word.starts_with("impl") && word.contains(" for ");
        if !(word.starts_with("pub ") && indent <= 4 || is_variant || is_trait) {
            continue;
        }
        let mut whole = word.to_owned();
        // A signature goes on until its body.
        while !whole.ends_with(['{', ';', ',', '}'])
            && let Some(more) = lines.next()
        {
            whole.push(' ');
            whole.push_str(more.trim());
        }
        while whole.ends_with(',')
            && whole.contains('(')
            && !whole.contains(") ")
            && !whole.ends_with("),")
            && let Some(more) = lines.next()
        {
            whole.push(' ');
            whole.push_str(more.trim());
        }
        let whole = whole.trim_end_matches(['{', ';', ',']).trim_end().to_owned();
        names.push(match indent {
            0 => whole,
            _ => format!("{within} :: {whole}"),
        });
    }
}

/// FNV-1a: distinguishes one state of the file from another.
fn state(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[test]
fn what_is_offered_changes_with_an_entry() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let offered = offered();
    if std::env::var_os("PALISADE_API").is_some_and(|word| word == "write") {
        std::fs::write(here.join("api.txt"), &offered).unwrap();
        eprintln!("## {}", state(&offered));
    }
    let noted = std::fs::read_to_string(here.join("api.txt")).unwrap();
    let added: Vec<&str> =
        offered.lines().filter(|line| !noted.lines().any(|other| other == *line)).collect();
    let gone: Vec<&str> = noted.lines().filter(|line| !offered.lines().any(|other| other == *line)).collect();
    assert!(
        added.is_empty() && gone.is_empty(),
        "the public interface has changed\nnew: {added:#?}\ngone: {gone:#?}\nhint: PALISADE_API=write cargo test -p palisade api::"
    );
    let changes = std::fs::read_to_string(here.join("CHANGES.md")).unwrap();
    let newest = changes.lines().find_map(|line| line.strip_prefix("## ")).unwrap_or_default();
    assert_eq!(newest, state(&noted), "CHANGES.md says nothing of this state of api.txt");
    let words = changes.lines().skip_while(|line| !line.starts_with("## ")).nth(2).unwrap_or_default();
    assert!(!words.is_empty() && !words.starts_with('#'), "the entry is empty");
}

#[test]
fn what_is_public_is_read() {
    let mut names = Vec::new();
    let text = "pub struct A {\n    /// x\n    pub b: u8,\n    c: u8,\n}\n\nimpl A {\n    pub fn d(\n        &self,\n        e: u8,\n    ) -> u8 {\n        pub_not();\n    }\n\n    fn f() {}\n}\n\npub enum G {\n    H,\n    I(u8),\n}\n\npub(crate) fn j() {}\n";
    read(text, &mut names);
    assert_eq!(
        names,
        [
            "pub struct A",
            "pub struct A :: pub b: u8",
            "impl A :: pub fn d( &self, e: u8, ) -> u8",
            "pub enum G",
            "pub enum G :: H",
            "pub enum G :: I(u8)",
        ]
    );
}
