// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is said to people: words on standard error. Standard output belongs to data and to the
//! command.

use std::fmt::Display;
use std::io::Write;

/// Says what went wrong, and what to do about it.
pub(crate) fn error(message: &dyn Display, hint: Option<&str>) {
    let mut text = format!("palisade: error: {message}\n");
    if let Some(hint) = hint {
        text.push_str("hint: ");
        text.push_str(hint);
        text.push('\n');
    }
    say(&text);
}

/// Says something worth knowing.
pub(crate) fn note(message: &dyn Display) {
    say(&format!("palisade: note: {message}\n"));
}

/// Says something as it is. Nobody listening is no reason to stop.
pub(crate) fn say(text: &str) {
    let _nobody_listens = std::io::stderr().write_all(text.as_bytes());
}
