// SPDX-License-Identifier: Apache-2.0 OR MIT
//! JSON that programs parse and people can read safely.

use crate::is_hidden;
use std::fmt::Write;

/// A JSON document in which each hidden character in a string is written as `\uNNNN`. The meaning is the same.
///
/// JSON requires this only below U+0020, so JSON writers leave direction marks and C1 control characters as they
/// are. Line feeds and tabs between values stay; within strings they are escapes already.
#[must_use]
pub fn json(document: String) -> String {
    let hidden = |c: char| is_hidden(c) && !matches!(c, '\n' | '\t' | '\r');
    if !document.contains(hidden) {
        return document;
    }
    let mut out = String::with_capacity(document.len() + 16);
    for character in document.chars() {
        if hidden(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _cannot_fail = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(character);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_as_json_has_them() {
        assert_eq!(
            json("{\n\t\"a\u{202e}\": \"\u{9b}\u{7f}\\n\"}".to_owned()),
            "{\n\t\"a\\u202e\": \"\\u009b\\u007f\\n\"}"
        );
        // Beyond the first plane two units stand for one character.
        assert_eq!(json("\"\u{e0041}\"".to_owned()), "\"\\udb40\\udc41\"");
        assert_eq!(json("\"ä日👍\"".to_owned()), "\"ä日👍\"");
    }
}
