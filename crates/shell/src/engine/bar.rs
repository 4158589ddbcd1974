// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The status line in the window's last row.
//!
//! Programs are told that the window has one row less. The terminal is told that only the rows above the last one
//! scroll. Some sequences would undo that: a scroll region without an end, a reset, the other screen. Each of them is
//! followed at once by sequences that restore the state. A sequence that erases the row is followed by the row's text.
//! So nothing that programs print is changed, and a sequence that arrives in pieces needs no buffer.
//!
//! The cursor's position is saved in the terminal's only slot for it. While a program has a position saved there,
//! nothing is drawn.

use super::{Engine, Phase};
use crate::status::{self, Facts, LineGuardState, Part};
use crate::vt::Control;
use palisade_sys::terminal::Modes;
use std::time::Duration;

/// A window with fewer rows has no status line.
const LEAST: u16 = 5;
/// The memory for a text and its sequences, in bytes.
const ROOM: usize = 4096;

/// The status line.
#[derive(Debug)]
pub(super) struct Bar {
    parts: Vec<Part>,
    /// The settings ask for the status line.
    wanted: bool,
    /// The row of the status line, if it has one.
    row: Option<u16>,
    /// The terminal hasn't been told yet which rows scroll.
    misplaced: bool,
    /// The row on the screen is out of date.
    stale: bool,
    /// A program has saved the cursor's position in the slot, and may restore it.
    saved: bool,
    /// Rows are counted from the first row of the scroll region (origin mode).
    origin: bool,
    /// The exit code of the last line, and how long it took.
    pub(super) last: Option<(i32, Duration)>,
    /// The guard held the last line back.
    pub(super) held: bool,
    home: String,
    text: String,
    bytes: Vec<u8>,
}

impl Default for Bar {
    fn default() -> Self {
        Self {
            parts: Vec::new(),
            wanted: false,
            row: None,
            misplaced: false,
            stale: false,
            saved: false,
            origin: false,
            last: None,
            held: false,
            home: std::env::var("HOME").unwrap_or_default(),
            text: String::with_capacity(ROOM),
            bytes: Vec::with_capacity(2 * ROOM),
        }
    }
}

impl Bar {
    pub(super) fn is_there(&self) -> bool {
        self.row.is_some()
    }

    /// Something in the text has changed.
    pub(super) fn outdate(&mut self) {
        self.stale = self.row.is_some();
    }

    /// Whether there is something to draw.
    pub(super) fn is_due(&self) -> bool {
        self.misplaced || (self.stale && !self.saved && !self.origin)
    }

    /// The position in the slot is no longer needed by any program.
    pub(super) fn forget_saved(&mut self) {
        self.saved = false;
        self.origin = false;
    }
}

impl Engine {
    /// Sets the parts of the status line, or removes it. This changes the size that programs see: see
    /// [`Engine::inner_size`].
    pub fn set_bar(&mut self, parts: Option<&[Part]>, to: &mut dyn FnMut(&[u8])) {
        self.bar.wanted = parts.is_some();
        self.bar.parts.clear();
        self.bar.parts.extend_from_slice(parts.unwrap_or_default());
        self.bar.outdate();
        let row = self.row_of_bar();
        if row != self.bar.row {
            self.hide_bar(to);
            self.find_row(to);
            let (columns, rows) = self.size;
            self.chain.each(|module| module.resize(columns, rows));
        }
    }

    /// The size that programs see.
    #[must_use]
    pub fn inner_size(&self) -> (u16, u16) {
        self.size
    }

    /// The window's size.
    #[must_use]
    pub fn window(&self) -> (u16, u16) {
        self.window
    }

    /// Removes the status line until the next [`Engine::resize`], because another program uses the terminal meanwhile.
    pub fn hide_bar(&mut self, to: &mut dyn FnMut(&[u8])) {
        let Some(row) = self.bar.row.take() else { return };
        self.erase(to);
        self.bar.misplaced = false;
        self.bar.stale = false;
        self.modes.set(Modes::REGION, false);
        self.size.1 = self.window.1;
        let mut bytes = core::mem::take(&mut self.bar.bytes);
        bytes.clear();
        bytes.extend_from_slice(b"\x1b7\x1b[?6l\x1b[r");
        put(b"\x1b[", row, b";1H\x1b[0m\x1b[2K\x1b8", &mut bytes);
        to(&bytes);
        self.bar.bytes = bytes;
    }

    fn row_of_bar(&self) -> Option<u16> {
        (self.bar.wanted && self.window.1 >= LEAST).then_some(self.window.1)
    }

    /// Finds the row after the window's size or the settings have changed.
    pub(super) fn find_row(&mut self, to: &mut dyn FnMut(&[u8])) {
        let before = self.bar.row;
        self.bar.row = self.row_of_bar();
        self.size = (self.window.0, self.window.1 - u16::from(self.bar.row.is_some()));
        match (before, self.bar.row) {
            (_, Some(_)) => {
                self.modes.set(Modes::REGION, true);
                self.bar.misplaced = true;
            }
            (Some(_), None) => {
                // The window is too small for the row. Most terminals drop the scroll region when the size changes, but
                // not all.
                self.modes.set(Modes::REGION, false);
                to(b"\x1b7\x1b[r\x1b8");
            }
            (None, None) => {}
        }
        self.show_bar(to);
    }

    /// Draws what is due, unless a sequence is only partly printed.
    pub fn show_bar(&mut self, to: &mut dyn FnMut(&[u8])) {
        let Some(row) = self.bar.row else { return };
        let between = self.scanner.as_ref().is_some_and(crate::vt::Scanner::is_between);
        if !self.bar.is_due() || !between || self.missing > 0 || !self.held.is_empty() {
            return;
        }
        if core::mem::take(&mut self.bar.misplaced) {
            let mut bytes = core::mem::take(&mut self.bar.bytes);
            bytes.clear();
            if !self.modes.has(Modes::ALTERNATE) {
                // The window may have shrunk so that the cursor is in the last row. Or it may have grown, so that the
                // old status line is somewhere below the cursor.
                bytes.extend_from_slice(b"\n\x1b[A\x1b[J");
            }
            region(row, &mut bytes);
            to(&bytes);
            self.bar.bytes = bytes;
            self.bar.forget_saved();
            self.bar.stale = true;
        }
        self.draw_bar(row, to);
    }

    fn draw_bar(&mut self, row: u16, to: &mut dyn FnMut(&[u8])) {
        if !self.bar.stale || self.bar.saved || self.bar.origin {
            return;
        }
        self.bar.stale = false;
        let columns = usize::from(self.size.0);
        let mut text = core::mem::take(&mut self.bar.text);
        let mut bytes = core::mem::take(&mut self.bar.bytes);
        let facts = Facts {
            context: &self.foreground,
            directory: &self.directory,
            home: &self.bar.home,
            last: self.bar.last,
            incognito: self.incognito,
            guard: match (self.chain.has("guard"), self.bar.held) {
                (false, _) => LineGuardState::Off,
                (true, false) => LineGuardState::On,
                (true, true) => LineGuardState::Holds,
            },
        };
        status::compose(&self.bar.parts, &facts, columns.saturating_sub(2).min(ROOM / 4), &mut text);
        bytes.clear();
        // ESC 7 and ESC 8 save and restore colours, character sets and other state together with the position.
        bytes.extend_from_slice(b"\x1b7\x1b(B\x0f");
        put(b"\x1b[", row, b";1H\x1b[0;7m\x1b[2K ", &mut bytes);
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend(core::iter::repeat_n(b' ', status::rest(&text, columns.saturating_sub(1)).min(ROOM)));
        bytes.extend_from_slice(b"\x1b[0m\x1b8");
        to(&bytes);
        self.bar.text = text;
        self.bar.bytes = bytes;
    }

    /// Whether something must follow this control sequence so that the last row stays the status line's.
    pub(super) fn endangers_bar(&mut self, control: &Control) -> bool {
        let Some(row) = self.bar.row else { return false };
        let first = control.parameter(0);
        match (control.private, control.intermediate, control.last) {
            (0, 0, b'r') => control.parameter(1) == 0 || control.parameter(1) >= row,
            (0, 0, b'H' | b'f' | b'd') => first >= row,
            (0 | b'?', 0, b'J') => first == 0 || first == 2,
            (0, b'!', b'p') => true,
            (b'?', 0, b'h' | b'l') => {
                let on = control.last == b'h';
                for parameter in control.parameters() {
                    match parameter {
                        6 => self.bar.origin = on,
                        1048 => self.bar.saved = on,
                        _ => {}
                    }
                }
                control.parameters().iter().any(|mode| matches!(mode, 3 | 47 | 1047 | 1049))
            }
            (0, 0, b's') if control.parameters().is_empty() => {
                self.bar.saved = true;
                false
            }
            (0, 0, b'u') => {
                self.bar.saved = false;
                // A change waited until the position was restored; draw it now.
                self.bar.stale
            }
            _ => false,
        }
    }

    /// The same for ESC and a byte.
    pub(super) fn escape_endangers_bar(&mut self, byte: u8) -> bool {
        match byte {
            b'7' => self.bar.saved = true,
            b'8' => self.bar.saved = false,
            b'c' => {
                self.bar.forget_saved();
                return self.bar.row.is_some();
            }
            _ => {}
        }
        false
    }

    /// Restores what the sequence that was just passed on has changed.
    pub(super) fn keep_bar(&mut self, control: Option<&Control>, to: &mut dyn FnMut(&[u8])) {
        let Some(row) = self.bar.row else { return };
        let mut bytes = core::mem::take(&mut self.bar.bytes);
        bytes.clear();
        let first = control.map_or(0, |control| control.parameter(0));
        match control.map(|control| control.last) {
            Some(b'r') => {
                // Both sequences put the cursor into the first row, so its position need not be saved.
                put(b"\x1b[", first.max(1), b"", &mut bytes);
                put(b";", row - 1, b"r", &mut bytes);
                self.modes.set(Modes::REGION, true);
            }
            Some(b'd') => put(b"\x1b[", row - 1, b"d", &mut bytes),
            Some(b'H' | b'f') => {
                let column = control.map_or(1, |control| control.parameter(1)).max(1);
                put(b"\x1b[", row - 1, b"", &mut bytes);
                put(b";", column, b"H", &mut bytes);
            }
            Some(b'J' | b'u') => self.bar.stale = true,
            _ => {
                self.modes.set(Modes::REGION, true);
                region(row, &mut bytes);
                self.bar.stale = true;
            }
        }
        if !bytes.is_empty() {
            to(&bytes);
        }
        self.bar.bytes = bytes;
        self.draw_bar(row, to);
    }

    /// Sets which program has the terminal now.
    pub fn set_foreground(&mut self, foreground: crate::foreground::Foreground) {
        self.looked = true;
        if self.foreground != foreground {
            self.foreground = foreground;
            self.bar.outdate();
        }
        if self.phase == Phase::Running {
            self.with_view(|chain, view, _| chain.each(|module| module.foreground(view)));
        }
    }

    /// Whether a command runs and [`Engine::set_foreground`] hasn't been called for it yet.
    #[must_use]
    pub fn wants_foreground(&self) -> bool {
        self.phase == Phase::Running && !self.looked
    }
}

/// Makes all rows above that row scroll. The cursor stays where it is.
fn region(row: u16, into: &mut Vec<u8>) {
    into.extend_from_slice(b"\x1b7");
    put(b"\x1b[1;", row - 1, b"r\x1b8", into);
}

fn put(before: &[u8], number: u16, behind: &[u8], into: &mut Vec<u8>) {
    use std::io::Write;
    into.extend_from_slice(before);
    // Writing into memory can't fail.
    let _written = write!(into, "{number}");
    into.extend_from_slice(behind);
}
