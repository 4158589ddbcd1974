// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decodes the escapes of `$'…'`.

/// The decoded text of `$'…'`.
#[must_use]
pub fn ansi(text: &str) -> String {
    let mut bytes: Vec<u8> = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(rest.get(..at).unwrap_or_default().as_bytes());
        let after = rest.get(at + 1..).unwrap_or_default();
        let Some(letter) = after.chars().next() else {
            bytes.push(b'\\');
            rest = "";
            break;
        };
        let tail = after.get(letter.len_utf8()..).unwrap_or_default();
        let (value, used) = match letter {
            'x' => number(tail, 16, 2),
            'u' => number(tail, 16, 4),
            'U' => number(tail, 16, 8),
            '0'..='7' => number(after, 8, if letter == '0' { 4 } else { 3 }),
            _ => (None, 0),
        };
        rest = match (letter, value) {
            ('u' | 'U', Some(value)) => {
                let mut buffer = [0; 4];
                let letter = char::from_u32(value).unwrap_or('\u{FFFD}');
                bytes.extend_from_slice(letter.encode_utf8(&mut buffer).as_bytes());
                tail.get(used..).unwrap_or_default()
            }
            ('x', Some(value)) => {
                bytes.push(u8::try_from(value & 0xFF).unwrap_or_default());
                tail.get(used..).unwrap_or_default()
            }
            ('0'..='7', Some(value)) => {
                bytes.push(u8::try_from(value & 0xFF).unwrap_or_default());
                after.get(used..).unwrap_or_default()
            }
            _ => {
                match letter {
                    'n' => bytes.push(b'\n'),
                    't' => bytes.push(b'\t'),
                    'r' => bytes.push(b'\r'),
                    'a' => bytes.push(7),
                    'b' => bytes.push(8),
                    'e' | 'E' => bytes.push(27),
                    'f' => bytes.push(12),
                    'v' => bytes.push(11),
                    '\\' | '\'' | '"' | '?' => bytes.push(u8::try_from(u32::from(letter)).unwrap_or(b'?')),
                    _ => {
                        bytes.push(b'\\');
                        let mut buffer = [0; 4];
                        bytes.extend_from_slice(letter.encode_utf8(&mut buffer).as_bytes());
                    }
                }
                tail
            }
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The number that a text begins with, of at most `most` digits, and how many digits there are.
fn number(text: &str, radix: u32, most: usize) -> (Option<u32>, usize) {
    let digits = text.bytes().take(most).take_while(|byte| char::from(*byte).is_digit(radix)).count();
    (u32::from_str_radix(text.get(..digits).unwrap_or_default(), radix).ok(), digits)
}
