// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens to settings files of others, as a difference for people.

use palisade_settings::Format;
use std::path::Path;

/// The difference between two contents of a file. It is empty if they are the same.
pub(crate) fn difference(path: &Path, before: &str, after: &str) -> String {
    if before == after {
        return String::new();
    }
    let shown = palisade_text::harmless(&path.to_string_lossy());
    let mut text = format!("--- {shown}\n+++ {shown}\n");
    for hunk in palisade_text::diff::hunks(before, after) {
        text.push_str(&hunk.to_string());
    }
    text
}

/// The format of a file, by its name.
pub(crate) fn format_of(path: &Path) -> Format {
    if path.extension().is_some_and(|extension| extension == "toml") { Format::Toml } else { Format::Json }
}
