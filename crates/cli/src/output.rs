// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints messages for people on standard error. Standard output is for data and for the command.
//!
//! Every message may quote names that others chose. Characters that control a terminal or are invisible are escaped.
//! [`note`] and [`error`] also keep a name's line breaks from beginning a line. With [`say`], the caller must do that.

use palisade_sandbox::apply::question;
use palisade_text::{harmless, harmless_lines};
use std::fmt::Display;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// Prints in one line what went wrong, and what to do about it.
pub(crate) fn error(message: &dyn Display, hint: Option<&str>) {
    tell(&harmless(&message.to_string()), hint);
}

/// As [`error`], for an error that shows an excerpt of a file on lines of its own.
pub(crate) fn error_in_lines(message: &dyn Display, hint: Option<&str>) {
    tell(&indented(message), hint);
}

/// The last error.
static LAST: Mutex<Option<String>> = Mutex::new(None);

/// The last error that was printed, for a user who can't see standard error.
pub(crate) fn last_error() -> Option<String> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn tell(message: &str, hint: Option<&str>) {
    if let Some(link) = crate::embedded::link() {
        return link.failed(message, hint);
    }
    let mut text = format!("palisade: error: {message}\n");
    if let Some(hint) = hint.map(as_typed) {
        text.push_str(&format!("hint: {}\n", harmless(hint)));
    }
    draw(&text);
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
}

/// A hint as this user types it: root doesn't need `sudo`, and hosts without it exist.
pub(crate) fn as_typed(hint: &str) -> &str {
    match rustix::process::geteuid().is_root() {
        true => hint.strip_prefix("sudo ").unwrap_or(hint),
        false => hint,
    }
}

/// Prints a note in one line.
pub(crate) fn note(message: &dyn Display) {
    let words = harmless(&message.to_string());
    match crate::embedded::link() {
        Some(link) => link.noted(&words),
        None => draw(&format!("palisade: note: {words}\n")),
    }
}

/// A message whose lines after the first are indented, so that they can't look like messages of Palisade.
fn indented(message: &dyn Display) -> String {
    let message = message.to_string();
    let lines: Vec<String> = message.lines().map(harmless).collect();
    lines.join("\n  ")
}

/// Prints text of several lines.
pub(crate) fn say(text: &str) {
    match crate::embedded::link() {
        Some(link) => link.noted(&harmless_lines(text)),
        None => draw(&harmless_lines(text)),
    }
}

/// Messages that wait until a question has left the screen: on its screen they would disturb it, and be gone with it.
static HELD: Mutex<String> = Mutex::new(String::new());

/// Prints text unchanged: with colours, or over earlier output. If standard error has no reader, the program continues.
pub(crate) fn draw(text: &str) {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.push_str(text);
    if !question::is_shown() {
        let _nobody_listens = std::io::stderr().write_all(std::mem::take(&mut *held).as_bytes());
    }
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
