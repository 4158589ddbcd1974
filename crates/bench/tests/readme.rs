// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that the README's headline has the figures of the table below it.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use std::path::Path;

/// The text between the opening and the closing form of a mark.
fn marked<'a>(text: &'a str, mark: &str) -> &'a str {
    let (opened, closed) = (format!("<!-- bench:{mark} -->"), format!("<!-- /bench:{mark} -->"));
    let from = text.find(&opened).unwrap_or_else(|| panic!("{opened} is missing")) + opened.len();
    let length = text[from..].find(&closed).unwrap_or_else(|| panic!("{closed} is missing"));
    &text[from..from + length]
}

/// What a launcher adds to the command's own time, in milliseconds: the median in the table's third column.
fn added(table: &str, launcher: &str) -> f64 {
    let row = table.lines().find(|line| line.trim_start_matches(['|', '*', ' ']).starts_with(launcher));
    let row = row.unwrap_or_else(|| panic!("the table has no row of {launcher}"));
    let cell = row.split('|').nth(3).unwrap().trim();
    cell.split(' ').next().unwrap().parse().unwrap_or_else(|error| panic!("{cell}: {error}"))
}

/// With `PALISADE_README=write`, the test writes the headline.
#[test]
fn the_headline_has_the_tables_figures() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let table = marked(&text, "launch");
    let sentence = format!(
        "A launch adds {:.1} ms to the command's own start (bubblewrap adds {:.1} ms, without a system call filter).",
        added(table, "palisade**"),
        added(table, "bubblewrap"),
    );
    let said = marked(&text, "headline");
    if std::env::var_os("PALISADE_README").is_some_and(|wish| wish == "write") {
        std::fs::write(&path, text.replacen(said, &sentence, 1)).unwrap();
        return;
    }
    assert_eq!(
        said, sentence,
        "hint: PALISADE_README=write cargo test -p palisade-bench --test integration readme::"
    );
}
