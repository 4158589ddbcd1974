// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the control sequences that terminals send for keys.

use super::chord::{Chord, Code, held};

/// The meaning of a sequence.
pub(super) enum Sequence {
    Key(Chord),
    PasteBegins,
    Mouse { button: u16, column: u16, row: u16, pressed: bool },
    Other,
}

/// Parses the bytes after `CSI`, including the last byte.
pub(super) fn understood(bytes: &[u8]) -> Sequence {
    let Some((&last, body)) = bytes.split_last() else { return Sequence::Other };
    if let Some(rest) = body.strip_prefix(b"<")
        && matches!(last, b'M' | b'm')
    {
        let [button, column, row] = numbers(rest);
        return Sequence::Mouse { button, column, row, pressed: last == b'M' };
    }
    // `CSI ? … u` and similar sequences are answers and not keys.
    if body.first().is_some_and(|first| (b'<'..=b'?').contains(first)) {
        return Sequence::Other;
    }
    let [first, second, _third] = numbers(body);
    let modifiers = second.max(1);
    let key = |code| Sequence::Key(Chord { code, modifiers: held(modifiers) });
    match last {
        // The Linux console sends `CSI [ A` for F1.
        b'A'..=b'E' if body == b"[" => Sequence::Key(Chord::plain(Code::Function(last - b'A' + 1))),
        // `CSI row ; column R` reports the cursor's position. It is almost never F3.
        b'A'..=b'D' | b'H' | b'F' | b'P' | b'Q' | b'S' => {
            Chord::of_letter(last, modifiers).map_or(Sequence::Other, Sequence::Key)
        }
        b'Z' => Sequence::Key(Chord::plain(Code::Tab).with(Chord::SHIFT)),
        b'~' => match first {
            200 => Sequence::PasteBegins,
            // xterm's modifyOtherKeys: CSI 27 ; modifiers ; character ~
            27 => {
                let [_, _, character] = numbers(body);
                code_of(character).map_or(Sequence::Other, key)
            }
            1 | 7 => key(Code::Home),
            2 => key(Code::Insert),
            3 => key(Code::Delete),
            4 | 8 => key(Code::End),
            5 => key(Code::PageUp),
            6 => key(Code::PageDown),
            11..=15 => key(function(first - 10)),
            17..=21 => key(function(first - 11)),
            23..=26 => key(function(first - 12)),
            28 | 29 => key(function(first - 13)),
            31..=34 => key(function(first - 14)),
            _ => Sequence::Other,
        },
        // kitty: CSI character : alternates ; modifiers : event u. A key's release needs no action.
        b'u' if event(body) == 3 => Sequence::Other,
        b'u' => code_of(first).map_or(Sequence::Other, key),
        _ => Sequence::Other,
    }
}

fn function(number: u16) -> Code {
    Code::Function(u8::try_from(number).unwrap_or(0))
}

/// The key for a number of kitty's protocol.
fn code_of(number: u16) -> Option<Code> {
    Some(match number {
        9 => Code::Tab,
        13 => Code::Enter,
        27 => Code::Escape,
        8 | 127 => Code::Backspace,
        // The private area has keypad and media keys. They can't be bound here.
        32..57344 => Code::Character(char::from_u32(u32::from(number))?),
        _ => return None,
    })
}

/// The first three parameters. A number after a colon belongs to the parameter before it.
fn numbers(body: &[u8]) -> [u16; 3] {
    let mut numbers = [0u16; 3];
    for (number, part) in numbers.iter_mut().zip(body.split(|byte| *byte == b';')) {
        for digit in part.iter().take_while(|byte| byte.is_ascii_digit()) {
            *number = number.saturating_mul(10).saturating_add(u16::from(digit - b'0'));
        }
    }
    numbers
}

/// The event of a key: 1 pressed, 2 repeated, 3 released.
fn event(body: &[u8]) -> u8 {
    body.split(|byte| *byte == b';')
        .nth(1)
        .and_then(|part| part.split(|byte| *byte == b':').nth(1))
        .and_then(|part| part.first())
        .map_or(1, |digit| digit.wrapping_sub(b'0'))
}
