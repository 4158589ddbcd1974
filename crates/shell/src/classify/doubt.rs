// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A second opinion on lines that the reading is in doubt about: is it something that bash would take?
//!
//! The full parser takes time that grows faster than the line and a stack that grows with brackets, so it sees short
//! lines only, on a thread of its own.

use brush_parser::{Parser, ParserOptions};

/// Longer lines aren't given to the parser, in bytes.
const CAP: usize = 8 << 10;
/// Nor are ones with more brackets open at a time.
const BRACKETS: usize = 24;
/// Nor more of them in a row: with each the parser takes twice as long.
const ROW: usize = 6;
/// Enough for so many brackets.
const STACK: usize = 16 << 20;

/// Whether bash would take the line. `None`: it isn't worth the risk to find out.
pub(super) fn parses(line: &str) -> Option<bool> {
    if line.len() > CAP || is_knotted(line) {
        return None;
    }
    let text = line.to_owned();
    let parse = move || Parser::new(text.as_bytes(), &ParserOptions::default()).parse_program().is_ok();
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(parse).ok()?;
    thread.join().ok()
}

fn is_knotted(line: &str) -> bool {
    let (mut open, mut most, mut row) = (0_usize, 0, 0);
    let mut words = 0;
    for byte in line.bytes() {
        match byte {
            b'(' | b'{' | b'[' | b'`' | b'"' => open += 1,
            b')' | b'}' | b']' => open = open.saturating_sub(1),
            b'!' | b';' | b'|' | b'&' => words += 1,
            _ => {}
        }
        row = match byte {
            b'(' => row + 1,
            b' ' | b'\t' | b'\n' | b'\\' => row,
            _ => 0,
        };
        most = most.max(open);
        if most > BRACKETS || row > ROW || words > 512 {
            return true;
        }
    }
    false
}
