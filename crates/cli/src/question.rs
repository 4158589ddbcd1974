// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Draws a question to the user, and says what the typed answer means.
//!
//! The question has a screen of its own, in a form that is always the same. What programs inside sent to the terminal
//! before must have no effect: no unfinished sequence, no mode, no character set.

/// The possible answers of the user.
pub(crate) use palisade_protocol::launch::Answer as Word;
use palisade_text::harmless;
use std::borrow::Cow;

/// What a program inside asks for.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    /// The program, as it calls itself.
    pub(crate) program: String,
    /// What it wants to do: `reach example.com:443`.
    pub(crate) action: String,
    /// Why it isn't allowed already.
    pub(crate) why: &'static str,
    /// What a kept answer holds for: `profile "x"`.
    pub(crate) scope: Option<String>,
}

/// What the user did about a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Typed an answer.
    Word(Word),
    /// Pressed Ctrl-C.
    Interrupt,
    /// Nothing in time.
    Nothing,
    /// The command was ended meanwhile.
    Ended,
    /// The terminal is gone.
    Gone,
}

impl Reply {
    /// The answer that this is. The user who says nothing is asked no more about the same.
    pub(crate) const fn word(self) -> Word {
        match self {
            Self::Word(word) => word,
            Self::Nothing => Word::Never,
            Self::Interrupt | Self::Ended | Self::Gone => Word::No,
        }
    }
}

/// What a question offers besides the answers that every question has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    /// The answer "always" can be kept.
    pub(crate) always: bool,
    /// Ctrl-C interrupts the command. Programs that draw on the whole screen often switch that off.
    pub(crate) interrupt: bool,
}

/// What Ctrl-C types.
const INTERRUPT: u8 = 3;

/// The meaning of a line. An answer that lasts needs a whole word, because a single key may be meant for something
/// else. Any other text means no, and so does a line that Enter didn't end.
pub(crate) fn read(line: &[u8], may_be_kept: bool) -> Reply {
    if line.contains(&INTERRUPT) {
        return Reply::Interrupt;
    }
    let Some(line) = line.strip_suffix(b"\n") else { return Reply::Word(Word::No) };
    Reply::Word(match line.trim_ascii().to_ascii_lowercase().as_slice() {
        b"y" | b"yes" => Word::Once,
        b"session" => Word::Session,
        b"always" if may_be_kept => Word::Always,
        b"d" | b"never" => Word::Never,
        _ => Word::No,
    })
}

const fn verdict(word: Word) -> &'static str {
    match word {
        Word::Once => "allowed once",
        Word::Session => "allowed for this session",
        Word::Always => "allowed always",
        Word::No => "refused",
        Word::Never => "refused for this session",
    }
}

/// Ends whatever sequence the terminal is in, saves its modes where possible (XTSAVE), and switches to a clear screen
/// that shows only what follows. In this order:
/// - the ANSI mode of a VT52; the end of a string (OSC, DCS and similar), of printing and of a synchronised update;
/// - the modes to save: keys, screen, wrap, cursor, keypad, margins, mouse, focus, alternate screen, paste; and kitty's
///   keys, for which that terminal has a stack;
/// - the other screen; no insertion, origin, margins or scroll region; wrapped lines, plain characters and colours, no
///   link, a cursor; ordinary keys, no mouse, no focus, no paste.
const OPEN: &str = "\x1b<\x1b\\\x1b[4i\x1b[?2026l\
    \x1b[?1;5;7;25;66;69;1000;1002;1003;1004;1005;1006;1015;1049;2004s\x1b[>0u\
    \x1b[?1049h\x1b[4l\x1b[?6l\x1b[?69l\x1b[r\x1b[?7h\x1b[?5l\x1b(B\x0f\x1b[0m\x1b]8;;\x1b\\\x1b[?25h\
    \x1b[?1l\x1b>\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?2004l";
/// Clears the screen.
const CLEAR: &str = "\x1b[0m\x1b[H\x1b[2J";
/// Restores the earlier screen and modes. Origin mode is restored with the cursor: setting it alone would move the cursor.
const CLOSE: &str =
    "\x1b[0m\x1b[<1u\x1b[?1049l\x1b[?1;5;7;25;66;69;1000;1002;1003;1004;1005;1006;1015;1049;2004r";
/// The first line, whatever the question is.
const FIRST: &str = "palisade: a program inside asks for permission";
/// The last words. From here on, input is an answer.
const READY: &str = "Your answer: ";

/// At most this many characters of a text from others are shown: the rest of the question must stay on the screen.
const LONGEST: usize = 240;

/// The one filter for texts that others chose.
fn shown(text: &str) -> Cow<'_, str> {
    let text = harmless(text);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Owned(text),
    }
}

impl Wish {
    /// The wish in one line, for the normal screen.
    pub(crate) fn line(&self) -> String {
        format!("{} wants to {}", shown(&self.program), shown(&self.action))
    }

    /// The sequence that prepares the terminal.
    pub(crate) const fn open() -> &'static str {
        OPEN
    }

    /// The sequence that restores the terminal.
    pub(crate) const fn close() -> &'static str {
        CLOSE
    }

    /// The whole screen. `ready`: input is an answer from now on.
    pub(crate) fn draw(&self, offer: Offer, ready: bool) -> String {
        let always = match (&self.scope, offer.always) {
            (Some(scope), true) => format!("  always    allow it from now on, for {}\r\n", shown(scope)),
            _ => String::new(),
        };
        let interrupt =
            if offer.interrupt { "Ctrl-C refuses it, too, and interrupts the command.\r\n" } else { "" };
        format!(
            "{CLEAR}{FIRST}\r\n\r\n  {}\r\n  {}\r\n\r\n\
             Everything inside is stopped. Type one of these words and press Enter:\r\n\r\n  \
             y         allow it once\r\n  \
             session   allow it until the command ends\r\n\
             {always}  \
             never     refuse it until the command ends\r\n\r\n\
             Anything else refuses it this time; no answer in a minute means never.\r\n\
             {interrupt}\r\n{}",
            self.line(),
            self.why,
            if ready { READY } else { "" },
        )
    }

    /// What stays visible on the normal screen.
    pub(crate) fn summary(&self, reply: Reply) -> String {
        match reply {
            Reply::Word(word) => format!("\r\npalisade: {}: {}\r\n", self.line(), verdict(word)),
            Reply::Nothing => format!("\r\npalisade: {}\r\npalisade: no answer: refused\r\n", self.line()),
            Reply::Interrupt | Reply::Ended | Reply::Gone => {
                format!("\r\npalisade: {}: refused: the command is interrupted\r\n", self.line())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_yes_is_no() {
        for (line, reply) in [
            ("y\n", Reply::Word(Word::Once)),
            (" YES \n", Reply::Word(Word::Once)),
            ("session\n", Reply::Word(Word::Session)),
            ("ALWAYS\n", Reply::Word(Word::Always)),
            ("d\n", Reply::Word(Word::Never)),
            ("never\n", Reply::Word(Word::Never)),
            ("\n", Reply::Word(Word::No)),
            ("n\n", Reply::Word(Word::No)),
            ("yesterday\n", Reply::Word(Word::No)),
            ("\u{1b}y\n", Reply::Word(Word::No)),
            // One key isn't enough for an answer that lasts.
            ("s\n", Reply::Word(Word::No)),
            ("a\n", Reply::Word(Word::No)),
            // The end of input (Ctrl-D) completes no answer.
            ("", Reply::Word(Word::No)),
            ("y", Reply::Word(Word::No)),
            ("always", Reply::Word(Word::No)),
            ("y\u{3}", Reply::Interrupt),
            ("\u{3}", Reply::Interrupt),
        ] {
            assert_eq!(read(line.as_bytes(), true), reply, "{line:?}");
        }
        assert_eq!(read(b"always\n", false), Reply::Word(Word::No), "it wasn't offered");
        for (word, allows, stays) in [
            (Word::Once, true, false),
            (Word::Session, true, true),
            (Word::Always, true, true),
            (Word::No, false, false),
            (Word::Never, false, true),
        ] {
            assert_eq!((word.allows(), word.stays()), (allows, stays), "{word:?}");
        }
    }

    const ALL: Offer = Offer { always: true, interrupt: true };

    fn wish(program: &str) -> Wish {
        Wish {
            program: program.to_owned(),
            action: "call kcmp".to_owned(),
            why: "Why.",
            scope: Some("profile \"x\"".to_owned()),
        }
    }

    #[test]
    fn a_question_looks_the_same_whatever_was_on_the_screen() {
        let before = [
            "text",
            "\x1b]0;unfinished title",
            "\x1bPunfinished string",
            "\x1b[?1049h\x1b[5;10r\x1b[?6h\x1b[4h\x1b[8mhidden",
            "\x1b(0\x1b[?7l\x1b[?25l\x1b[?2004h\x1b[?1003h\x1b[?1h\x1b=",
        ];
        let screens: Vec<_> = before
            .iter()
            .map(|before| {
                let mut parser = vt100::Parser::new(24, 80, 0);
                parser.process(before.as_bytes());
                parser.process(OPEN.as_bytes());
                for ready in [false, true] {
                    parser.process(wish("/bin/x").draw(ALL, ready).as_bytes());
                }
                let screen = parser.screen();
                assert!(screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste());
                assert!(!screen.application_cursor() && !screen.application_keypad());
                assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
                (screen.contents(), screen.contents_formatted())
            })
            .collect();
        assert!(screens.iter().all(|screen| *screen == screens[0]), "{screens:#?}");
        assert!(
            screens[0].0.starts_with(FIRST) && screens[0].0.trim_end().ends_with(READY.trim()),
            "{screens:?}"
        );
    }

    #[test]
    fn what_others_have_chosen_neither_steers_the_terminal_nor_fills_it() {
        let wish = wish(&"/tmp/\x1b[2J\n".repeat(1000));
        let drawn = wish.draw(ALL, true);
        let rest = drawn.strip_prefix(CLEAR).unwrap();
        assert!(!rest.contains('\u{1b}') && drawn.len() < 1500, "{drawn:?}");
        assert!(!wish.summary(Reply::Word(Word::No)).contains('\u{1b}'));
    }

    #[test]
    fn only_what_works_is_offered() {
        assert!(wish("x").draw(ALL, true).contains("always    allow it from now on, for profile \"x\""));
        assert!(!wish("x").draw(Offer { always: false, ..ALL }, true).contains("always"));
        assert!(wish("x").draw(ALL, true).contains("Ctrl-C"));
        assert!(!wish("x").draw(Offer { interrupt: false, ..ALL }, true).contains("Ctrl-C"));
    }
}
