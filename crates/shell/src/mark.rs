// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the user's shell says about itself, and how it is told from what programs print.
//!
//! Marks are operating system commands with a nonce that only the shell's hooks know:
//!
//! - `133;A;p=NONCE`, `133;B;p=NONCE`, `133;C;p=NONCE`, `133;D;CODE;p=NONCE`: FinalTerm's marks, which go on to the
//!   terminal without the nonce
//! - `7717;NONCE;L;POINT;TEXT`: what is in the editor; it and the following go no further
//! - `7717;NONCE;U`: what is in the editor can't be said
//! - `7717;NONCE;R;POINT;TEXT`, `7717;NONCE;V`: the same two, because it was asked
//! - `7717;NONCE;M;POINT;TEXT`: what is in the editor, because it was asked, and that it shows a menu
//! - `7717;NONCE;F`: the editor is left
//! - `7717;NONCE;X;TEXT`: the line that is about to be executed
//! - `7717;NONCE;T;KEYS`: what was typed before the prompt, and is nobody's yet; there `\\a`, `\\x` and `\\z` stand for
//!   BEL, CAN and SUB
//! - `7717;NONCE;W;DIRECTORY`: where the shell is
//! - `7717;NONCE;S;SHELL`: the hooks are there; `bash-vi` where keys are vi's
//!
//! In texts, `\\`, `\n`, `\t` and `\e` stand for what they do in shells.

/// The length of a nonce, in bytes: hexadecimal digits.
pub const NONCE: usize = 32;

/// A secret between the proxy and the hooks of one shell.
#[derive(Clone, Copy)]
pub struct Nonce([u8; NONCE]);

impl core::fmt::Debug for Nonce {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        to.write_str("Nonce")
    }
}

impl Nonce {
    /// Of 16 random bytes.
    #[must_use]
    pub fn of(random: [u8; NONCE / 2]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |index: u8| DIGITS.get(usize::from(index)).copied().unwrap_or(b'0');
        let mut digits = [0; NONCE];
        for (pair, byte) in digits.chunks_mut(2).zip(random) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
        }
        Self(digits)
    }

    /// Its digits.
    #[must_use]
    pub fn digits(&self) -> &[u8] {
        &self.0
    }

    /// Whether these are its digits. The time it takes says nothing about how many are right.
    fn is(&self, other: &[u8]) -> bool {
        other.len() == NONCE && self.0.iter().zip(other).fold(0, |different, (a, b)| different | (a ^ b)) == 0
    }
}

/// Shells that have hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    /// Says what is in its editor when asked.
    Bash,
    /// Says what is in its editor whenever it changes.
    Zsh,
    /// Says what is in its editor when asked.
    Fish,
}

impl Shell {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Bash, Self::Zsh, Self::Fish];

    /// What its program is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }
}

/// One mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark<'a> {
    /// A prompt begins.
    Prompt,
    /// It ends: the user types.
    Edit,
    /// A command begins.
    Run,
    /// It has ended.
    Done(i32),
    /// What is in the editor: the cursor in characters, and the text as it was sent.
    Line(usize, &'a str),
    /// The same, because it was asked for: nothing that was typed before is missing.
    Reply(usize, &'a str),
    /// Nobody knows what is in the editor.
    Unknown,
    /// The same, because it was asked for.
    NoReply,
    /// What is in the editor, because it was asked for; a menu is shown, which may take the keys.
    Menu(usize, &'a str),
    /// The editor is left.
    Left,
    /// What is about to be executed, as it was sent.
    Execute(&'a str),
    /// What was typed before the prompt and is nobody's yet, as it was sent.
    Ahead(&'a [u8]),
    /// The shell's directory, as it was sent.
    Directory(&'a str),
    /// The hooks are there; and whether the editor's keys are those that [`crate::line`] knows.
    Hooked(Shell, bool),
}

impl Mark<'_> {
    /// What the terminal is told instead.
    #[must_use]
    pub fn public(&self) -> &'static [u8] {
        match self {
            Self::Prompt => b"\x1b]133;A\x07",
            Self::Edit => b"\x1b]133;B\x07",
            Self::Run => b"\x1b]133;C\x07",
            Self::Done(0) => b"\x1b]133;D;0\x07",
            Self::Done(_) => b"\x1b]133;D;1\x07",
            _ => b"",
        }
    }
}

/// Understands an operating system command; `None`: it is none of the shell's.
#[must_use]
pub fn understood<'a>(command: &'a [u8], nonce: &Nonce) -> Option<Mark<'a>> {
    if let Some(rest) = command.strip_prefix(b"133;") {
        let (body, sent) = rest.split_at_checked(rest.len().checked_sub(NONCE)?)?;
        let body = body.strip_suffix(b";p=")?;
        if !nonce.is(sent) {
            return None;
        }
        return match body {
            b"A" => Some(Mark::Prompt),
            b"B" => Some(Mark::Edit),
            b"C" => Some(Mark::Run),
            b"D" => Some(Mark::Done(0)),
            _ => {
                let code = core::str::from_utf8(body.strip_prefix(b"D;")?).ok()?;
                Some(Mark::Done(code.parse().ok()?))
            }
        };
    }
    let (sent, body) = command.strip_prefix(b"7717;")?.split_at_checked(NONCE)?;
    if !nonce.is(sent) {
        return None;
    }
    if let Some(keys) = body.strip_prefix(b";T;") {
        return Some(Mark::Ahead(keys));
    }
    // From here on it is the shell that speaks; what it says in no UTF-8 isn't known.
    let Ok(body) = core::str::from_utf8(body.strip_prefix(b";")?) else { return Some(Mark::Unknown) };
    let (kind, rest) = body.split_once(';').unwrap_or((body, ""));
    match kind {
        "L" => {
            let (point, text) = rest.split_once(';')?;
            Some(point.parse().map_or(Mark::Unknown, |point| Mark::Line(point, text)))
        }
        "R" => {
            let (point, text) = rest.split_once(';')?;
            Some(point.parse().map_or(Mark::NoReply, |point| Mark::Reply(point, text)))
        }
        "U" => Some(Mark::Unknown),
        "V" => Some(Mark::NoReply),
        "M" => {
            let (point, text) = rest.split_once(';')?;
            Some(point.parse().map_or(Mark::NoReply, |point| Mark::Menu(point, text)))
        }
        "F" => Some(Mark::Left),
        "X" => Some(Mark::Execute(rest)),
        "W" => Some(Mark::Directory(rest)),
        "S" => match rest {
            "bash" => Some(Mark::Hooked(Shell::Bash, true)),
            "bash-vi" => Some(Mark::Hooked(Shell::Bash, false)),
            "zsh" => Some(Mark::Hooked(Shell::Zsh, true)),
            "fish" => Some(Mark::Hooked(Shell::Fish, false)),
            _ => None,
        },
        _ => None,
    }
}

/// Appends a text as it was before it was sent, at most as much as there is room for. Says whether it is whole and
/// harmless: a control character that isn't among those above makes it neither.
pub fn plain(sent: &str, into: &mut String) -> bool {
    let mut characters = sent.chars();
    while let Some(character) = characters.next() {
        let character = match character {
            '\\' => match characters.next() {
                Some('\\') => '\\',
                Some('n') => '\n',
                Some('t') => '\t',
                Some('e') => '\x1b',
                _ => return false,
            },
            other if other.is_control() => return false,
            other => other,
        };
        if into.len() + character.len_utf8() > into.capacity() {
            return false;
        }
        into.push(character);
    }
    true
}

/// What was typed, as it was before it was sent: whatever it is, none of it is lost. Line ends are Enter again.
pub fn keys(sent: &[u8]) -> impl Iterator<Item = u8> {
    let mut bytes = sent.iter().copied();
    core::iter::from_fn(move || {
        Some(match bytes.next()? {
            b'\\' => match bytes.next()? {
                b'n' => b'\r',
                b't' => b'\t',
                b'e' => 0x1b,
                b'a' => 0x07,
                b'x' => 0x18,
                b'z' => 0x1a,
                other => other,
            },
            other => other,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "000102030405060708090a0b0c0d0e0f";

    fn nonce() -> Nonce {
        Nonce::of([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15])
    }

    #[test]
    fn marks_are_understood_with_the_nonce_only() {
        let of = |text: &str| format!("{:?}", understood(text.replace('#', DIGITS).as_bytes(), &nonce()));
        for (text, wanted) in [
            ("133;A;p=#", "Some(Prompt)"),
            ("133;D;130;p=#", "Some(Done(130))"),
            ("7717;#;L;3;a;b", "Some(Line(3, \"a;b\"))"),
            ("7717;#;W;/tmp", "Some(Directory(\"/tmp\"))"),
            ("7717;#;S;zsh", "Some(Hooked(Zsh, true))"),
            ("7717;#;S;tcsh", "None"),
            ("133;A", "None"),
            ("133;A;p=", "None"),
            ("133;A;p=000102030405060708090a0b0c0d0e0e", "None"),
            ("133;C;p=#x", "None"),
            ("7717;;L;3;ls", "None"),
        ] {
            assert_eq!(of(text), wanted, "{text}");
        }
    }

    #[test]
    fn texts_come_back() {
        let mut text = String::with_capacity(16);
        assert!(plain("a\\\\b\\nc", &mut text));
        assert_eq!(text, "a\\b\nc");
        assert!(!plain("a\u{7}", &mut text) && !plain("\\x", &mut text));
        text.clear();
        assert!(!plain("seventeen letters", &mut text), "it doesn't fit");
        assert!(text.capacity() == 16);
    }

    #[test]
    fn keys_come_back() {
        let sent = b"ls \\\\x\\n\\e[A\\a\\x\\z\xff\x01";
        assert_eq!(keys(sent).collect::<Vec<u8>>(), b"ls \\x\r\x1b[A\x07\x18\x1a\xff\x01");
    }

    #[test]
    fn any_command_is_understood_or_not() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let _any = understood(bytes, &nonce());
            let mut with = format!("7717;{DIGITS};").into_bytes();
            with.extend_from_slice(bytes);
            let _any = understood(&with, &nonce());
        });
    }
}
