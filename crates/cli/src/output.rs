// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is said to people: words on standard error. Standard output belongs to data and to the
//! command.
//!
//! All of it may quote names that others chose. Nothing that steers a terminal or can't be seen gets through; a name's
//! line breaks are kept from beginning a line by [`note`] and [`error`], and for [`say`] by the one who names it.

use palisade_text::{harmless, harmless_lines};
use std::fmt::Display;
use std::io::Write;

/// Says in one line what went wrong, and what to do about it.
pub(crate) fn error(message: &dyn Display, hint: Option<&str>) {
    tell(&harmless(&message.to_string()), hint);
}

/// The same of an error that shows an excerpt of a file in lines of its own.
pub(crate) fn error_in_lines(message: &dyn Display, hint: Option<&str>) {
    tell(&indented(message), hint);
}

fn tell(message: &str, hint: Option<&str>) {
    if let Some(link) = crate::embedded::link() {
        return link.failed(message, hint);
    }
    let mut text = format!("palisade: error: {message}\n");
    if let Some(hint) = hint {
        text.push_str(&format!("hint: {}\n", harmless(hint)));
    }
    draw(&text);
}

/// Says something worth knowing, in one line.
pub(crate) fn note(message: &dyn Display) {
    let words = harmless(&message.to_string());
    match crate::embedded::link() {
        Some(link) => link.noted(&words),
        None => draw(&format!("palisade: note: {words}\n")),
    }
}

/// A message none of whose lines but the first begins where ours do.
fn indented(message: &dyn Display) -> String {
    let message = message.to_string();
    let lines: Vec<String> = message.lines().map(harmless).collect();
    lines.join("\n  ")
}

/// Says something in lines.
pub(crate) fn say(text: &str) {
    match crate::embedded::link() {
        Some(link) => link.noted(&harmless_lines(text)),
        None => draw(&harmless_lines(text)),
    }
}

/// Says something as it is: with colours, or over what stands there. Nobody listening is no reason to stop.
pub(crate) fn draw(text: &str) {
    let _nobody_listens = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_steer_the_terminal_nor_begin_a_line() {
        assert_eq!(
            indented(&"can't run \u{1b}]0;title\u{7}: x\n  ^ here\npalisade: note: \u{202e}"),
            "can't run \\u{1b}]0;title\\u{7}: x\n    ^ here\n  palisade: note: \\u{202e}"
        );
    }
}
