// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Marks: what the user's shell reports about itself, and how marks are told apart from programs' output.
//!
//! Marks are operating system commands (OSC) with a nonce that only the shell's hooks know:
//!
//! - `133;A;p=NONCE`, `133;B;p=NONCE`, `133;C;p=NONCE`, `133;D;CODE;p=NONCE`: FinalTerm's marks, which go on to the
//!   terminal without the nonce
//! - `7717;NONCE;L;POINT;TEXT`: what is in the editor; this mark and the following ones are not passed to the terminal
//! - `7717;NONCE;U`: the content of the editor can't be reported
//! - `7717;NONCE;R;POINT;TEXT`, `7717;NONCE;V`: the same two, as answers to a question
//! - `7717;NONCE;M;POINT;TEXT`: what is in the editor, as an answer, while the editor shows a menu
//! - `7717;NONCE;F`: the editor is left
//! - `7717;NONCE;X;TEXT`: the line that is about to be executed
//! - `7717;NONCE;T;KEYS`: keys that were typed before the prompt and that no program has read yet; in these, `\\a`,
//!   `\\x` and `\\z` stand for BEL, CAN and SUB
//! - `7717;NONCE;W;DIRECTORY`: the shell's directory
//! - `7717;NONCE;S;SHELL`: the hooks are installed; `bash-vi` if bash uses vi's keys
//!
//! In texts, `\\`, `\n`, `\t` and `\e` have their usual meaning in shells.

/// The length of a nonce in bytes. Its characters are hexadecimal digits.
pub const NONCE: usize = 32;

/// A secret that the proxy and the hooks of one shell share.
#[derive(Clone, Copy)]
pub struct Nonce([u8; NONCE]);

impl core::fmt::Debug for Nonce {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        to.write_str("Nonce")
    }
}

impl Nonce {
    /// A nonce from 16 random bytes.
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

    /// The nonce's digits.
    #[must_use]
    pub fn digits(&self) -> &[u8] {
        &self.0
    }

    /// Compares the digits in constant time: the time doesn't depend on how many digits are right.
    fn is(&self, other: &[u8]) -> bool {
        other.len() == NONCE && self.0.iter().zip(other).fold(0, |different, (a, b)| different | (a ^ b)) == 0
    }
}

/// Shells that have hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    /// Reports its editor's content when it is asked.
    Bash,
    /// Reports its editor's content at each change.
    Zsh,
    /// Reports its editor's content when it is asked.
    Fish,
}

impl Shell {
    /// All shells.
    pub const ALL: [Self; 3] = [Self::Bash, Self::Zsh, Self::Fish];

    /// The name of the shell's program.
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
    /// The prompt ends: the user can type.
    Edit,
    /// A command begins.
    Run,
    /// The command has ended, with this code.
    Done(i32),
    /// The editor's content: the cursor's index in characters, and the text as it was sent.
    Line(usize, &'a str),
    /// The same as an answer to a question: it includes all earlier keys.
    Reply(usize, &'a str),
    /// The editor's content is unknown.
    Unknown,
    /// The same as an answer to a question.
    NoReply,
    /// The editor's content as an answer, while the editor shows a menu, which may take the next keys.
    Menu(usize, &'a str),
    /// The editor is left.
    Left,
    /// The line that is about to be executed, as it was sent.
    Execute(&'a str),
    /// The keys that were typed before the prompt and that no program has read yet, as they were sent.
    Ahead(&'a [u8]),
    /// The shell's directory, as it was sent.
    Directory(&'a str),
    /// The hooks are installed. The flag says whether the editor's keys are those that [`crate::line`] knows.
    Hooked(Shell, bool),
}

impl Mark<'_> {
    /// The bytes for the terminal in place of the mark.
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

/// Parses an operating system command; `None` if it isn't a mark of the shell.
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
    // From here on the nonce has shown that the shell sent this. If it isn't UTF-8, the content is unknown.
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

/// Decodes a text and appends it, as far as there is room. Returns whether the text is complete and harmless. A control
/// character other than those in the list above makes it neither.
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

/// Decodes keys. No key is lost, whatever it is. Line ends become Enter again.
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
