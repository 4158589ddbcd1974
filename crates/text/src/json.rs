// SPDX-License-Identifier: Apache-2.0 OR MIT
//! JSON that programs read, and people too.

use crate::is_hidden;
use std::fmt::Write;

/// A JSON document with each hidden character in its strings as `\uNNNN`, which means the same.
///
/// JSON itself asks for that only below U+0020, so writers of it leave directions and control characters of C1 as they
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
