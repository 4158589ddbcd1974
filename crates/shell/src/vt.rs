// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scans programs' output for what concerns a proxy: control sequences, and a few kinds of operating system commands.
//! It skips everything else at the speed of a search for ESC.
//!
//! Source of the states: ECMA-48, and P. Williams' state machine of the VT500. 8-bit controls (0x80 to 0x9f) don't
//! count as controls here: in UTF-8 these bytes belong to characters.

use memchr::memchr;

/// The number of parameters of a control sequence that are kept. Further ones count as absent.
const PARAMETERS: usize = 8;
/// The longest operating system command that is kept, in bytes. A longer one is read to its end and dropped.
pub const LONGEST: usize = 64 << 10;

/// A control sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// The byte of `<=>?` in front of the parameters, or 0.
    pub private: u8,
    /// The last intermediate byte, or 0.
    pub intermediate: u8,
    /// The byte that ends the sequence.
    pub last: u8,
    parameters: [u16; PARAMETERS],
    count: usize,
}

impl Control {
    const NONE: Self = Self { private: 0, intermediate: 0, last: 0, parameters: [0; PARAMETERS], count: 0 };

    /// A parameter; 0 if it is absent.
    #[must_use]
    pub fn parameter(&self, index: usize) -> u16 {
        self.parameters.get(index).copied().unwrap_or(0)
    }

    /// The parameters that were given.
    #[must_use]
    pub fn parameters(&self) -> &[u16] {
        self.parameters.get(..self.count).unwrap_or_default()
    }
}

/// What the scanner found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found<'a> {
    /// A control sequence.
    Control(&'a Control),
    /// An operating system command, without its introducer and terminator.
    Command(&'a [u8]),
    /// ESC and one byte, without intermediates.
    Escape(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ground,
    Escape,
    /// ESC and intermediate bytes: the next other byte ends it.
    EscapeMore,
    Control,
    /// An operating system command.
    Command,
    /// DCS, SOS, PM or APC: the content doesn't matter.
    String,
    /// ESC within a command or string: `\` ends it.
    CommandEscape,
    StringEscape,
}

/// Scans what programs write, in pieces of any size.
#[derive(Debug)]
pub struct Scanner {
    state: State,
    control: Control,
    command: Vec<u8>,
    /// The command is longer than [`LONGEST`], or of a kind that isn't wanted.
    ignored: bool,
    /// The offset in the last read at which the open sequence began, if it began there.
    open: Option<usize>,
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

/// The beginnings of the commands that are kept.
const WANTED: [&[u8]; 3] = [b"133;", b"7717;", b"7;"];

fn is_wanted(begun: &[u8]) -> bool {
    WANTED.iter().any(|wanted| wanted.iter().zip(begun).all(|(a, b)| a == b))
}

impl Scanner {
    /// A scanner in its first state. It allocates here and never again.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: State::Ground,
            control: Control::NONE,
            command: Vec::with_capacity(LONGEST),
            ignored: false,
            open: None,
        }
    }

    /// Whether the last read ended between two sequences.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.state == State::Ground
    }

    /// Whether the scanner is in an operating system command that may be wanted.
    #[must_use]
    pub fn may_be_wanted(&self) -> bool {
        match self.state {
            State::Escape => true,
            State::Command | State::CommandEscape => !self.ignored,
            _ => false,
        }
    }

    /// The offset in the last read at which the open sequence began; `None` if it began before.
    #[must_use]
    pub fn open_since(&self) -> Option<usize> {
        self.open
    }

    /// Scans further bytes. `found` gets what was found, the offset at which it began if that is in these bytes, and
    /// the offset behind its last byte.
    pub fn read(&mut self, bytes: &[u8], mut found: impl FnMut(Found<'_>, Option<usize>, usize)) {
        let mut at = 0;
        self.open = None;
        while at < bytes.len() {
            if self.state == State::Ground {
                let Some(skipped) = bytes.get(at..).and_then(|rest| memchr(0x1b, rest)) else { return };
                self.open = Some(at + skipped);
                at += skipped + 1;
                self.state = State::Escape;
                continue;
            }
            if matches!(self.state, State::String) || (self.state == State::Command && self.ignored) {
                // Nothing of the content is kept, so only the end is searched for.
                let Some(rest) = bytes.get(at..) else { return };
                let bell = self.state == State::Command;
                let end = rest
                    .iter()
                    .position(|&byte| matches!(byte, 0x1b | 0x18 | 0x1a) || (bell && byte == 0x07));
                let Some(end) = end else { return };
                at += end;
            }
            let byte = bytes.get(at).copied().unwrap_or(0);
            at += 1;
            let begun = self.open;
            self.step(byte, begun, at, &mut found);
        }
    }

    fn step(
        &mut self,
        byte: u8,
        begun: Option<usize>,
        behind: usize,
        found: &mut impl FnMut(Found<'_>, Option<usize>, usize),
    ) {
        // CAN and SUB end any sequence. ESC begins a new one.
        if matches!(byte, 0x18 | 0x1a) {
            self.state = State::Ground;
            return;
        }
        match self.state {
            State::Ground => {}
            State::Escape => self.state = self.escape(byte, begun, behind, found),
            State::EscapeMore => {
                self.state = match byte {
                    0x20..=0x2f => State::EscapeMore,
                    0x1b => State::Escape,
                    _ => State::Ground,
                };
            }
            State::Control => self.control(byte, begun, behind, found),
            State::Command => match byte {
                0x07 => {
                    if !self.ignored {
                        found(Found::Command(&self.command), begun, behind);
                    }
                    self.state = State::Ground;
                }
                0x1b => self.state = State::CommandEscape,
                _ if self.ignored => {}
                _ => {
                    if self.command.len() == LONGEST {
                        self.ignored = true;
                    } else {
                        self.command.push(byte);
                        self.ignored = self.command.len() <= 5 && !is_wanted(&self.command);
                    }
                }
            },
            State::CommandEscape | State::StringEscape => {
                if byte == b'\\' {
                    if self.state == State::CommandEscape && !self.ignored {
                        found(Found::Command(&self.command), begun, behind);
                    }
                    self.state = State::Ground;
                } else {
                    // The ESC began another sequence.
                    self.open = behind.checked_sub(2);
                    self.state = self.escape(byte, self.open, behind, found);
                }
            }
            State::String => {
                if byte == 0x1b {
                    self.state = State::StringEscape;
                }
            }
        }
    }

    fn escape(
        &mut self,
        byte: u8,
        begun: Option<usize>,
        behind: usize,
        found: &mut impl FnMut(Found<'_>, Option<usize>, usize),
    ) -> State {
        match byte {
            b'[' => {
                self.control = Control::NONE;
                State::Control
            }
            b']' => {
                self.command.clear();
                self.ignored = false;
                State::Command
            }
            b'P' | b'X' | b'^' | b'_' => State::String,
            0x1b => State::Escape,
            0x20..=0x2f => State::EscapeMore,
            _ => {
                found(Found::Escape(byte), begun, behind);
                State::Ground
            }
        }
    }

    fn control(
        &mut self,
        byte: u8,
        begun: Option<usize>,
        behind: usize,
        found: &mut impl FnMut(Found<'_>, Option<usize>, usize),
    ) {
        let control = &mut self.control;
        match byte {
            b'0'..=b'9' => {
                control.count = control.count.max(1);
                if let Some(last) = control.parameters.get_mut(control.count - 1) {
                    *last = last.saturating_mul(10).saturating_add(u16::from(byte - b'0'));
                }
            }
            b';' | b':' => control.count = (control.count.max(1) + 1).min(PARAMETERS + 1),
            b'<'..=b'?' => control.private = byte,
            0x20..=0x2f => control.intermediate = byte,
            0x40..=0x7e => {
                control.last = byte;
                control.count = control.count.min(PARAMETERS);
                self.state = State::Ground;
                found(Found::Control(&self.control), begun, behind);
            }
            0x1b => self.state = State::Escape,
            // Other controls are executed within the sequence, and bytes outside ASCII don't end it.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pieces: &[&[u8]]) -> Vec<String> {
        let mut scanner = Scanner::new();
        let mut all = Vec::new();
        for piece in pieces {
            scanner.read(piece, |found, _begun, _behind| {
                all.push(match found {
                    Found::Control(control) => {
                        format!(
                            "{}{:?}{}",
                            char::from(control.private),
                            control.parameters(),
                            char::from(control.last)
                        )
                    }
                    Found::Command(command) => String::from_utf8_lossy(command).into_owned(),
                    Found::Escape(byte) => format!("ESC {}", char::from(byte)),
                });
            });
        }
        all
    }

    const SAMPLE: &[u8] =
        b"a\x1b[?1049hb\x1b]0;title\x07\x1b]133;A\x1b\\\x1bP q[1m \x1b\\\x1b[1;;38:5mc\x1bM\x1b(B\x1b]7;file:///\x07\x1b[12\x18A\x1b[3A";

    /// The same is found wherever the reads are split, for any bytes; and all offsets are within the read.
    #[test]
    fn any_bytes_in_any_pieces_are_read_alike() {
        // Bytes with a meaning are rare among random bytes, so half of the choices are pieces with a meaning.
        const PIECES: [&[u8]; 8] =
            [b"\x1b[", b"\x1b]133;", b"\x1b]7;", b"\x07", b"\x1b\\", b"\x1bP", b"?1049h", b"\x18"];
        bolero::check!().with_type::<(Vec<u8>, u8)>().for_each(|(choice, size): &(Vec<u8>, u8)| {
            let mut bytes = Vec::new();
            for byte in choice {
                match PIECES.get(usize::from(*byte)) {
                    Some(piece) => bytes.extend_from_slice(piece),
                    None if *byte < 128 => {
                        bytes.extend_from_slice(PIECES[usize::from(*byte) % PIECES.len()]);
                    }
                    None => bytes.push(byte & 0x7f),
                }
            }
            let pieces: Vec<&[u8]> = bytes.chunks(usize::from(*size).max(1)).collect();
            assert_eq!(all(&pieces), all(&[&bytes]), "{}", bytes.escape_ascii());
            let mut scanner = Scanner::new();
            scanner.read(&bytes, |_, begun, behind| {
                assert!(begun.unwrap_or(0) <= behind && behind <= bytes.len());
            });
        });
    }

    #[test]
    fn sequences_are_found_wherever_reads_end() {
        let whole = all(&[SAMPLE]);
        assert_eq!(whole, ["?[1049]h", "133;A", "\0[1, 0, 38, 5]m", "ESC M", "7;file:///", "\0[3]A"]);
        for at in 0..SAMPLE.len() {
            let (a, b) = SAMPLE.split_at(at);
            assert_eq!(all(&[a, b]), whole, "at {at}");
        }
        let bytes: Vec<&[u8]> = SAMPLE.chunks(1).collect();
        assert_eq!(all(&bytes), whole);
    }

    #[test]
    fn a_command_without_end_takes_no_memory() {
        let mut scanner = Scanner::new();
        scanner.read(b"\x1b]133;A", |_, _, _| panic!("it has no end"));
        let bomb = vec![b'x'; 1 << 20];
        for _ in 0..16 {
            scanner.read(&bomb, |_, _, _| panic!("it has no end"));
        }
        assert_eq!(scanner.command.capacity(), LONGEST);
        let mut found = 0;
        scanner.read(b"\x07\x1b]133;B\x07", |_, _, _| found += 1);
        assert_eq!(found, 1, "what follows is read again");
    }

    #[test]
    fn any_bytes_in_any_pieces_are_the_same() {
        proptest::proptest!(|(bytes: Vec<u8>, escapes: Vec<u8>, at: usize)| {
            let mut input = Vec::new();
            for (index, byte) in bytes.iter().enumerate() {
                if escapes.get(index).is_some_and(|escape| escape % 2 == 0) {
                    input.extend_from_slice([b"\x1b[" as &[u8], b"\x1b]", b"\x1b]133;", b"\x1b\\"][usize::from(byte % 4)]);
                }
                input.push(*byte);
            }
            let (a, b) = input.split_at(at % (input.len() + 1));
            proptest::prop_assert_eq!(all(&[a, b]), all(&[&input]));
        });
    }
}
