// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the tables of docs/dependencies.md.

use std::collections::BTreeMap;

/// The rows of the tables, by the heading above them. Each row is its cells, without backquotes.
pub(crate) fn tables(text: &str) -> BTreeMap<&str, Vec<Vec<String>>> {
    let mut tables: BTreeMap<&str, Vec<Vec<String>>> = BTreeMap::new();
    let mut heading = "";
    for line in text.lines() {
        if let Some(words) = line.strip_prefix("## ") {
            heading = words;
        } else if let Some(row) = line.strip_prefix("| ").and_then(|row| row.strip_suffix(" |")) {
            let cells = row.split(" | ").map(|cell| cell.trim().replace('`', "")).collect();
            tables.entry(heading).or_default().push(cells);
        }
    }
    for rows in tables.values_mut() {
        // The line with the columns' names.
        rows.remove(0);
    }
    tables
}
