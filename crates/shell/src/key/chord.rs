// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys with modifiers, and their names: `ctrl-right`, `alt-f`, `f5`, `ctrl-shift-p`.

use core::fmt;
use core::str::FromStr;

/// A key without its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "they are called like the keys")]
pub enum Code {
    Character(char),
    Enter,
    Tab,
    Backspace,
    Escape,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    Insert,
    Delete,
    /// F1 to F24.
    Function(u8),
}

/// A key together with the modifiers that were held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chord {
    /// The key.
    pub code: Code,
    /// The sum of [`Chord::SHIFT`] and the other modifiers, in the numbering of kitty's protocol.
    pub modifiers: u8,
}

/// Why a text is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChordError {
    /// There is no such key.
    #[error("there is no key {0:?}")]
    Key(String),
    /// There is no such modifier.
    #[error("{0:?} isn't a modifier: use shift, alt, ctrl or super")]
    Modifier(String),
}

const NAMES: [(&str, Code); 16] = [
    ("enter", Code::Enter),
    ("tab", Code::Tab),
    ("backspace", Code::Backspace),
    ("escape", Code::Escape),
    ("up", Code::Up),
    ("down", Code::Down),
    ("left", Code::Left),
    ("right", Code::Right),
    ("home", Code::Home),
    ("end", Code::End),
    ("page-up", Code::PageUp),
    ("page-down", Code::PageDown),
    ("insert", Code::Insert),
    ("delete", Code::Delete),
    ("space", Code::Character(' ')),
    ("minus", Code::Character('-')),
];

const MODIFIERS: [(&str, u8); 4] =
    [("shift", Chord::SHIFT), ("alt", Chord::ALT), ("ctrl", Chord::CTRL), ("super", Chord::SUPER)];

impl Chord {
    /// Shift.
    pub const SHIFT: u8 = 1;
    /// Alt.
    pub const ALT: u8 = 2;
    /// Control.
    pub const CTRL: u8 = 4;
    /// The key with a logo (Super).
    pub const SUPER: u8 = 8;

    /// A key without modifiers.
    #[must_use]
    pub const fn plain(code: Code) -> Self {
        Self { code, modifiers: 0 }
    }

    /// A letter with Control.
    #[must_use]
    pub const fn ctrl(letter: char) -> Self {
        Self { code: Code::Character(letter), modifiers: Self::CTRL }
    }

    /// The same key with further modifiers.
    #[must_use]
    pub const fn with(self, modifiers: u8) -> Self {
        Self { code: self.code, modifiers: self.modifiers | modifiers }
    }

    /// The key that a control byte means.
    #[must_use]
    pub fn of_control(byte: u8) -> Self {
        match byte {
            0x09 => Self::plain(Code::Tab),
            0x0d => Self::plain(Code::Enter),
            0x1b => Self::plain(Code::Escape),
            0x7f => Self::plain(Code::Backspace),
            0x00 => Self::ctrl(' '),
            0x01..=0x1a => Self::ctrl(char::from(byte | 0x60)),
            _ => Self::ctrl(char::from(byte | 0x40)),
        }
    }

    /// The key that an ASCII byte means.
    pub(super) fn of_byte(byte: u8) -> Self {
        match byte {
            0x20..=0x7e => Self::plain(Code::Character(char::from(byte))),
            _ => Self::of_control(byte),
        }
    }

    /// The key of `ESC O letter` and `CSI 1 ; modifiers letter`.
    pub(super) fn of_letter(letter: u8, modifiers: u16) -> Option<Self> {
        let code = match letter {
            b'A' => Code::Up,
            b'B' => Code::Down,
            b'C' => Code::Right,
            b'D' => Code::Left,
            b'H' => Code::Home,
            b'F' => Code::End,
            b'P'..=b'S' => Code::Function(letter - b'P' + 1),
            b'M' => Code::Enter,
            _ => return None,
        };
        Some(Self { code, modifiers: held(modifiers) })
    }

    /// The bytes that terminals sent before kitty's protocol, if the key had any: a control byte or a character.
    #[must_use]
    pub fn legacy(self) -> Option<([u8; 2], usize)> {
        let byte = match (self.code, self.modifiers & !(Self::ALT | Self::SHIFT)) {
            (Code::Enter, 0) => 0x0d,
            (Code::Tab, 0) if self.modifiers & Self::SHIFT == 0 => 0x09,
            (Code::Backspace, 0) => 0x7f,
            (Code::Escape, 0) => 0x1b,
            (Code::Character(' '), Self::CTRL) => 0,
            (Code::Character(letter), Self::CTRL) if letter.is_ascii_lowercase() => {
                u8::try_from(letter).ok()? & 0x1f
            }
            (Code::Character(sign @ ('[' | '\\' | ']' | '^' | '_')), Self::CTRL) => {
                u8::try_from(sign).ok()? & 0x1f
            }
            (Code::Character(letter), 0) if letter.is_ascii() => u8::try_from(letter).ok()?,
            _ => return None,
        };
        Some(if self.modifiers & Self::ALT == 0 { ([byte, 0], 1) } else { ([0x1b, byte], 2) })
    }
}

/// The modifiers from the number in a sequence, which is their sum plus one. Caps Lock and Num Lock are ignored.
pub(super) fn held(sent: u16) -> u8 {
    u8::try_from(sent.saturating_sub(1) & 0x0f).unwrap_or(0)
}

impl FromStr for Chord {
    type Err = ChordError;

    fn from_str(text: &str) -> Result<Self, ChordError> {
        let lower = text.to_ascii_lowercase();
        let mut rest = lower.as_str();
        let mut modifiers = 0;
        while let Some((first, more)) = rest.split_once('-') {
            if let Some((_, modifier)) = MODIFIERS.iter().find(|(name, _)| *name == first) {
                modifiers |= modifier;
                rest = more;
            } else if first == "page" {
                break;
            } else {
                return Err(ChordError::Modifier(first.to_owned()));
            }
        }
        let named = NAMES.iter().find(|(name, _)| *name == rest).map(|(_, code)| *code);
        let function = || {
            let number: u8 = rest.strip_prefix('f')?.parse().ok()?;
            (1..=24).contains(&number).then_some(Code::Function(number))
        };
        let mut characters = rest.chars();
        let single = match (characters.next(), characters.next()) {
            (Some(character), None) => Some(Code::Character(character)),
            _ => None,
        };
        let code = named.or_else(function).or(single).ok_or_else(|| ChordError::Key(rest.to_owned()))?;
        Ok(Self { code, modifiers })
    }
}

impl fmt::Display for Chord {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, modifier) in MODIFIERS {
            if self.modifiers & modifier != 0 {
                write!(to, "{name}-")?;
            }
        }
        if let Some((name, _)) = NAMES.iter().find(|(_, code)| *code == self.code) {
            return to.write_str(name);
        }
        match self.code {
            Code::Function(number) => write!(to, "f{number}"),
            Code::Character(character) => write!(to, "{character}"),
            _ => Ok(()),
        }
    }
}
