// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is said to people: words on standard error. Standard output belongs to data and to the
//! command.

use std::fmt::Display;
use std::io::Write;

/// Says what went wrong, and what to do about it.
pub(crate) fn error(message: &dyn Display, hint: Option<&str>) {
    let mut text = format!("palisade: error: {}\n", steady(message));
    if let Some(hint) = hint {
        text.push_str("hint: ");
        text.push_str(&steady(&hint));
        text.push('\n');
    }
    say(&text);
}

/// Says something worth knowing.
pub(crate) fn note(message: &dyn Display) {
    say(&format!("palisade: note: {}\n", steady(message)));
}

/// A message in lines none of which steers the terminal: it may quote names that others chose.
fn steady(message: &dyn Display) -> String {
    let message = message.to_string();
    let lines: Vec<String> = message.lines().map(palisade_events::harmless).collect();
    lines.join("\n")
}

/// Says something as it is. Nobody listening is no reason to stop.
pub(crate) fn say(text: &str) {
    let _nobody_listens = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_steer_the_terminal() {
        assert_eq!(
            steady(&"can't run \u{1b}]0;title\u{7}: x\n  ^ here"),
            "can't run \\u{1b}]0;title\\u{7}: x\n  ^ here"
        );
    }
}
