// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the ends of quotes that contain only text.

/// The index of an end, and whether it was closed there. An open quote ends with the text.
pub(crate) type Closed = (usize, bool);

/// The index after the quote that ends `'…'`, begun before `at`.
pub(crate) fn single(text: &[u8], at: usize) -> Closed {
    match text.get(at..).unwrap_or_default().iter().position(|byte| *byte == b'\'') {
        Some(length) => (at + length + 1, true),
        None => (text.len(), false),
    }
}

/// The index after the quote that ends `$'…'`, begun before `at`.
pub(crate) fn ansi(text: &[u8], mut at: usize) -> Closed {
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            b'\'' => return (at + 1, true),
            _ => at += 1,
        }
    }
    (text.len(), false)
}

/// Whether a byte only separates words and has no other meaning.
pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

/// Whether an unquoted word ends before this byte.
pub(crate) fn ends_word(byte: u8) -> bool {
    is_blank(byte) || matches!(byte, b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>')
}

pub(crate) fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

/// The length of the name at the beginning of a text.
pub(crate) fn name_length(text: &[u8]) -> usize {
    if !text.first().copied().is_some_and(is_name_start) {
        return 0;
    }
    text.iter().take_while(|byte| is_name_start(**byte) || byte.is_ascii_digit()).count()
}
