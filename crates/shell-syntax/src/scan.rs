// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the ends of words and lines.

use crate::assignment;
use crate::bracket::{Bracket, close};
use crate::quote::{self, Closed, ends_word};

/// The index after the word that begins at `start`.
pub(crate) fn word(text: &[u8], start: usize) -> Closed {
    let mut at = assignment::index_end(text, start);
    while let Some(&byte) = text.get(at) {
        let before = if at > start { text.get(at - 1).copied() } else { None };
        let (end, closed) = match step(text, at, byte, before) {
            Some(closed) => closed,
            None if ends_word(byte) => break,
            None => (at + 1, true),
        };
        at = end.min(text.len());
        if !closed {
            return (at, false);
        }
    }
    (at, true)
}

/// The end of the quote or bracket that begins at `at`; `None` if there is only one byte of text, or the word's end.
fn step(text: &[u8], at: usize, byte: u8, before: Option<u8>) -> Option<Closed> {
    Some(match (byte, text.get(at + 1)) {
        (b'\\', _) => (at + 2, true),
        (b'\'', _) => quote::single(text, at + 1),
        (b'"', _) => close(text, at + 1, Bracket::Double),
        (b'`', _) => close(text, at + 1, Bracket::Back),
        (b'$', Some(b'\'')) => quote::ansi(text, at + 2),
        (b'$', Some(b'(')) => substitution(text, at + 2).1,
        (b'$', Some(b'{')) => close(text, at + 2, Bracket::Parameter),
        // `<(…)` at the start of a word or within it.
        (b'<' | b'>', Some(b'(')) => close(text, at + 2, Bracket::Commands),
        // `name=(…)`, `@(…|…)`.
        (b'(', _) if matches!(before, Some(b'=' | b'@' | b'?' | b'*' | b'+' | b'!')) => {
            close(text, at + 1, Bracket::Words)
        }
        _ => return None,
    })
}

/// For a `$(…)` with its content at `at`: whether it is a sum, `$((…))`, and its end.
pub(crate) fn substitution(text: &[u8], at: usize) -> (bool, Closed) {
    if text.get(at) != Some(&b'(') {
        return (false, close(text, at, Bracket::Commands));
    }
    // The search for one kind may run to the end of the text although the other kind ends soon. So both are searched in
    // pieces of growing length, and the total work stays a small multiple of the result's length.
    let mut reach = 512_usize;
    loop {
        let piece = text.get(..at.saturating_add(reach)).unwrap_or(text);
        match close(piece, at + 1, Bracket::Sum) {
            (end, true) if text.get(end) == Some(&b')') => return (true, (end + 1, true)),
            (_, true) => return (false, close(text, at, Bracket::Commands)),
            (_, false) => {}
        }
        let commands = close(piece, at, Bracket::Commands);
        if commands.1 || piece.len() == text.len() {
            return (false, commands);
        }
        reach = reach.saturating_mul(4);
    }
}

/// The index after the regular expression that begins at `start`. Brackets in it keep words together.
pub(crate) fn regular_expression(text: &[u8], start: usize) -> Closed {
    let (mut at, mut open) = (start, 0_usize);
    while let Some(&byte) = text.get(at) {
        let (end, closed) = match (step(text, at, byte, None), byte) {
            (Some(closed), _) => closed,
            (None, b'(') => {
                open += 1;
                (at + 1, true)
            }
            (None, b')') if open > 0 => {
                open -= 1;
                (at + 1, true)
            }
            (None, b'\n' | b')') => break,
            (None, _) if open == 0 && (quote::is_blank(byte) || matches!(byte, b'&' | b';')) => break,
            (None, _) => (at + 1, true),
        };
        at = end.min(text.len());
        if !closed {
            return (at, false);
        }
    }
    (at, true)
}

/// The index of the line's end after `at`. Words that span several lines are part of the line.
pub(crate) fn line_end(text: &[u8], mut at: usize) -> Option<usize> {
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\n' => return Some(at),
            b'#' if text.get(at.wrapping_sub(1)).is_some_and(|before| ends_word(*before)) => {
                let rest = text.get(at..).unwrap_or_default();
                at += rest.iter().position(|byte| *byte == b'\n')?;
            }
            _ => at = word(text, at).0.max(at + 1),
        }
    }
    None
}
