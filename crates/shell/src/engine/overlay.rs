// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Draws beside the line: ghost text behind the cursor, and hints below the line.
//!
//! The overlay is drawn at the cursor when no more output arrives, and it is erased before the next byte of the shell
//! reaches the terminal. The rows that it needs are made first, by line feeds and by moving up again. If the screen has
//! to scroll for that, it has scrolled before the cursor's position is saved.

use super::Engine;
use crate::column::width;
use crate::line::LONGEST;

/// The state of what is drawn.
#[derive(Debug)]
pub(super) struct Overlay {
    /// The ghost text: only the part after what was typed.
    tail: String,
    /// How many bytes of the ghost text were typed since it was drawn, if it still fits the line.
    typed: Option<usize>,
    /// The drawn text is up to date.
    current: bool,
    /// Something is drawn on the screen.
    drawn: bool,
    /// How many rows there are between the cursor and the line's last row.
    down: usize,
    /// Whether there is a hint below the line.
    below: bool,
    /// How many rows below the cursor's row are used.
    rows: usize,
    bytes: Vec<u8>,
    list: String,
}

impl Default for Overlay {
    fn default() -> Self {
        Self {
            tail: String::with_capacity(LONGEST),
            typed: Some(0),
            current: true,
            drawn: false,
            down: 0,
            below: false,
            rows: 0,
            bytes: Vec::with_capacity(2 * LONGEST),
            list: String::with_capacity(LONGEST),
        }
    }
}

impl Overlay {
    /// The ghost text that a key may take. Keys may arrive faster than the shell shows them: the text on the screen
    /// belongs to the line before these keys.
    pub(super) fn tail(&self) -> &str {
        self.typed.filter(|_| self.drawn).and_then(|typed| self.tail.get(typed..)).unwrap_or_default()
    }

    /// A text was typed at the line's end.
    pub(super) fn advance(&mut self, text: &str) {
        self.typed = self
            .typed
            .filter(|&typed| self.tail.get(typed..).is_some_and(|rest| rest.starts_with(text)))
            .map(|typed| typed + text.len());
    }

    /// The ghost text no longer fits the line.
    pub(super) fn misfit(&mut self) {
        self.typed = None;
    }

    pub(super) fn is_current(&self) -> bool {
        self.current
    }

    pub(super) fn outdate(&mut self) {
        self.current = false;
    }
}

/// Writes `CSI count letter`: `count` times the movement, as one sequence.
fn go(count: usize, letter: u8, into: &mut Vec<u8>) {
    if count > 0 {
        into.extend_from_slice(b"\x1b[");
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        let mut rest = count;
        while rest > 0 {
            at -= 1;
            if let (Some(place), Ok(digit)) = (digits.get_mut(at), u8::try_from(rest % 10)) {
                *place = b'0' + digit;
            }
            rest /= 10;
        }
        into.extend_from_slice(digits.get(at..).unwrap_or_default());
        into.push(letter);
    }
}

/// The beginning of a text that fits into this many columns.
fn fitting(text: &str, columns: usize) -> &str {
    let mut taken = 0;
    for (at, character) in text.char_indices() {
        let wide = unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
        if taken + wide > columns {
            return text.get(..at).unwrap_or(text);
        }
        taken += wide;
    }
    text
}

/// The lines of a text, each split into as many rows as it needs.
fn rows_of(text: &str, columns: usize) -> impl Iterator<Item = &str> {
    text.lines().flat_map(move |line| {
        let mut rest = Some(line);
        core::iter::from_fn(move || {
            let row = fitting(rest?, columns);
            let more = rest?.get(row.len()..).filter(|more| !more.is_empty() && !row.is_empty());
            rest = more;
            Some(row)
        })
    })
}

impl Engine {
    /// Erases what is drawn.
    pub(super) fn erase(&mut self, to: &mut dyn FnMut(&[u8])) {
        let overlay = &mut self.overlay;
        if !core::mem::take(&mut overlay.drawn) {
            return;
        }
        let bytes = &mut overlay.bytes;
        bytes.clear();
        if self.bar.is_there() {
            // The last row holds the status line, so it must not be erased.
            bytes.extend_from_slice(b"\x1b7");
            if overlay.tail.is_empty() {
                go(overlay.down, b'B', bytes);
            } else {
                bytes.extend_from_slice(b"\x1b[K");
            }
            let line = if overlay.tail.is_empty() { overlay.down } else { 0 };
            for _ in line..overlay.rows {
                bytes.extend_from_slice(b"\x1b[B\x1b[2K");
            }
            bytes.extend_from_slice(b"\x1b8");
        } else if !overlay.tail.is_empty() {
            // The cursor is behind the line, so everything after it is ours.
            bytes.extend_from_slice(b"\x1b[J");
        } else if overlay.below {
            bytes.extend_from_slice(b"\x1b7");
            go(overlay.down + 1, b'B', bytes);
            bytes.extend_from_slice(b"\r\x1b[J\x1b8");
        }
        overlay.tail.clear();
        to(bytes);
    }

    /// Computes what is to be drawn, and draws it.
    pub(super) fn draw(&mut self, to: &mut dyn FnMut(&[u8])) {
        if !self.is_ours() || (self.overlay.current && !self.acts.hinted) {
            return;
        }
        self.erase(to);
        self.overlay.current = true;
        if core::mem::take(&mut self.acts.hinted) {
            self.hinted = self.now;
        }
        let columns = usize::from(self.size.0);
        let rows = usize::from(self.size.1);
        // fish reports the beginning of its prompt before it prints the prompt, so the line's start is unknown. fish is
        // asked only at Enter, when the cursor is in the line's last row.
        let below_only = self.shell == Some(crate::mark::Shell::Fish);
        let known = if below_only { Some((0, 0)) } else { self.start.zip(self.column.get()) };
        let Some((start, at)) = known else { return };
        if columns < 4 || rows < 3 {
            return;
        }
        let certain = self.line.is_certain() && !self.line.text().contains('\n');
        // The cursor must be where the line's text ends. Otherwise the line or the column is wrong.
        let expected = if below_only { at } else { start + width(self.line.before()) };
        self.doubted = certain && expected % columns != at % columns;
        if !certain || self.doubted {
            return;
        }
        self.find_tail();
        let mut list = core::mem::take(&mut self.overlay.list);
        list.clear();
        list.push_str(&self.acts.hint);
        if !list.is_empty() {
            list.push('\n');
        }
        let view = self.view();
        self.chain.ask(|module| module.list(&view, &mut list));
        let whole = if below_only { at } else { start + width(self.line.text()) };
        self.overlay.down = (whole / columns).saturating_sub(expected / columns);
        let words = rows_of(&list, columns - 1).count().min(rows / 2);
        self.overlay.below = words > 0;
        // The last row is kept for hints.
        let room = (columns * self.rows.min(rows - 1)).saturating_sub(at);
        let shown = fitting(&self.overlay.tail, room).len();
        let tail = width(self.overlay.tail.get(..shown).unwrap_or_default());
        let tail_rows = if tail == 0 { 0 } else { (at + tail - 1) / columns };
        let overlay = &mut self.overlay;
        let bytes = &mut overlay.bytes;
        bytes.clear();
        if tail > 0 || words > 0 {
            let needed = tail_rows + overlay.down + words;
            overlay.rows = needed;
            bytes.extend(core::iter::repeat_n(b'\n', needed));
            go(needed, b'A', bytes);
            bytes.extend_from_slice(b"\x1b7");
            if tail > 0 {
                bytes.extend_from_slice(b"\x1b[0;2m");
                bytes.extend_from_slice(overlay.tail.as_bytes().get(..shown).unwrap_or_default());
                bytes.extend_from_slice(b"\x1b[0m");
            }
            if words > 0 {
                go(overlay.down, b'B', bytes);
                for line in rows_of(&list, columns - 1).take(words) {
                    bytes.extend_from_slice(b"\r\n\x1b[0;2m");
                    bytes.extend_from_slice(line.as_bytes());
                    bytes.extend_from_slice(b"\x1b[0m\x1b[K");
                }
            }
            bytes.extend_from_slice(b"\x1b8");
            overlay.drawn = true;
            to(bytes);
        }
        overlay.list = list;
    }

    fn find_tail(&mut self) {
        let mut tail = core::mem::take(&mut self.overlay.tail);
        tail.clear();
        self.overlay.typed = Some(0);
        if self.line.is_at_end() && self.shell != Some(crate::mark::Shell::Fish) {
            let view = self.view();
            let typed = self.line.text();
            if let Some(rest) = self.chain.ghost(&view).and_then(|whole| whole.strip_prefix(typed)) {
                let plain = !rest.contains(palisade_text::is_hidden);
                if plain && rest.len() <= tail.capacity() {
                    tail.push_str(rest);
                }
            }
        }
        self.overlay.tail = tail;
    }
}
