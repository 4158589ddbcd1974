// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Characters that make a line look like a different line: invisible characters, characters that change the direction
//! of writing, and letters of one script that look like letters of another.

use std::ops::Range;

use super::argument::host;
use super::command::Reading;
use super::verdict::{Level, Origin, Reason};

/// After this many blanks in a row, text may be outside the visible part of the screen.
const OUT_OF_SIGHT: usize = 48;

pub(super) fn check(line: &str, reading: &Reading, origin: Origin) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut seen: u32 = 0;
    for (at, letter) in line.char_indices() {
        let Some((bit, rule, level, words)) = odd(letter, line, at) else { continue };
        if seen & bit != 0 {
            continue;
        }
        seen |= bit;
        reasons.push(reason(rule, level, at..at + letter.len_utf8(), words));
    }
    out_of_sight(line, &mut reasons);
    let trimmed = line.trim_end();
    if origin != Origin::Typed
        && let Some(at) = trimmed.find('\n')
    {
        reasons.push(reason(
            "characters/many-lines",
            Level::Warn,
            at..at + 1,
            "It is several lines: the shell runs the first before the others are seen",
        ));
    }
    for command in &reading.commands {
        if let Some(word) = command.words.first().filter(|word| looks_ascii(&word.value)) {
            reasons.push(reason(
                "characters/command-homograph",
                Level::Confirm,
                word.span.clone(),
                "The command's name has letters that look like Latin ones and aren't",
            ));
        }
        for word in command.arguments() {
            let value = word.value.as_str();
            if !(value.contains("://") || value.contains('@') || value.contains('.')) {
                continue;
            }
            let host = host(value);
            if looks_ascii(host) && host.contains('.') {
                reasons.push(reason(
                    "characters/host-homograph",
                    Level::Confirm,
                    word.span.clone(),
                    "The host's name has letters that look like Latin ones and aren't",
                ));
            } else if value.contains("://") && host.split('.').any(|label| label.starts_with("xn--")) {
                reasons.push(reason(
                    "characters/punycode-host",
                    Level::Warn,
                    word.span.clone(),
                    "The host's name is written in punycode: it may be shown with other letters",
                ));
            }
        }
    }
    reasons
}

fn reason(rule: &str, level: Level, span: Range<usize>, words: &str) -> Reason {
    let reference =
        if rule.ends_with("homograph") || rule.contains("punycode") { "T1036" } else { "T1036.002" };
    Reason { rule: rule.to_owned(), level, span, words: words.to_owned(), reference: reference.to_owned() }
}

fn odd(letter: char, line: &str, at: usize) -> Option<(u32, &'static str, Level, &'static str)> {
    Some(match letter {
        '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => (
            1,
            "characters/direction",
            Level::Confirm,
            "A character turns the direction of writing: the line isn't what it looks like",
        ),
        '\u{E0000}'..='\u{E007F}' => {
            (2, "characters/tags", Level::Confirm, "There are invisible characters that can carry a message")
        }
        // Joiners have a meaning in emoji and in some scripts.
        '\u{200C}' | '\u{200D}'
            if line
                .get(..at)
                .and_then(|text| text.chars().next_back())
                .is_some_and(|before| !before.is_ascii()) =>
        {
            return None;
        }
        '\u{200B}'..='\u{200F}'
        | '\u{2060}'..='\u{2064}'
        | '\u{FEFF}'
        | '\u{180E}'
        | '\u{00AD}'
        | '\u{034F}'
        | '\u{115F}'
        | '\u{1160}'
        | '\u{3164}'
        | '\u{FFA0}'
        | '\u{061C}' => {
            (4, "characters/invisible", Level::Confirm, "There are characters that can't be seen")
        }
        '\u{1B}' | '\u{9B}' => (
            8,
            "characters/escape-sequence",
            Level::Confirm,
            "There is an escape sequence: the terminal may have been told to show something else",
        ),
        '\u{8}' | '\u{7F}' => (
            16,
            "characters/backspace",
            Level::Confirm,
            "There are characters that erase what was shown before",
        ),
        '\r' if !line.get(at + 1..).is_some_and(|rest| rest.is_empty() || rest.starts_with('\n')) => (
            32,
            "characters/carriage-return",
            Level::Confirm,
            "What follows is written over what was shown before",
        ),
        '\u{0}'..='\u{7}'
        | '\u{B}'
        | '\u{C}'
        | '\u{E}'..='\u{1A}'
        | '\u{1C}'..='\u{1F}'
        | '\u{80}'..='\u{9F}' => (64, "characters/control", Level::Warn, "There are control characters"),
        '\u{A0}'
        | '\u{2000}'..='\u{200A}'
        | '\u{202F}'
        | '\u{205F}'
        | '\u{3000}'
        | '\u{2028}'
        | '\u{2029}' => (
            128,
            "characters/odd-blank",
            Level::Warn,
            "There is a blank character that the shell doesn't treat as a blank",
        ),
        _ => return None,
    })
}

fn out_of_sight(line: &str, reasons: &mut Vec<Reason>) {
    let mut run = 0;
    let mut before = false;
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b' ' | b'\t' => run += 1,
            b'\n' => (run, before) = (0, false),
            _ => {
                if run >= OUT_OF_SIGHT && before {
                    reasons.push(reason(
                        "characters/out-of-sight",
                        Level::Confirm,
                        at..at + 1,
                        "Text comes after so many blanks that it may be out of sight",
                    ));
                    return;
                }
                (run, before) = (0, true);
            }
        }
    }
}

/// Whether a name has non-ASCII letters, and each of them looks like an ASCII letter.
fn looks_ascii(name: &str) -> bool {
    let mut foreign = false;
    for letter in name.chars() {
        if letter.is_ascii() {
            continue;
        }
        if !is_confusable(letter) {
            return false;
        }
        foreign = true;
    }
    foreign
}

/// Letters that look like one of `a` to `z`, a digit, a dot or a slash.
fn is_confusable(letter: char) -> bool {
    const ALIKE: &str = "аеорсухіјѕԁԛԝһӏґкмтвнгпАВЕКМНОРСТХУІЈЅԌԜΑΒΕΖΗΙΚΜΝΟΡΤΥΧαγικνορτυχωϲϳ\
        օոսցքզհյաՕՍԼɑɡɩıȷʏʀɴɪʟʜʙꜱᴀᴄᴅᴇᴊᴋᴍᴏᴘᴛᴜᴠᴡᴢ․‧∕⁄⧸܁․。．ℓⅰⅴⅹⅼⅽⅾⅿ‐‑‒–−";
    matches!(letter, '\u{FF01}'..='\u{FF5E}' | '\u{1D400}'..='\u{1D7FF}' | '\u{2100}'..='\u{2138}')
        || ALIKE.contains(letter)
}
