// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a command writes, where its arguments and its input make this plain: `echo`, `printf`, decoders. Nothing is
//! executed.

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use palisade_shell_syntax::ansi;

use super::command::{Command, Direction, Word};
use super::reading::MOST_TEXT;

/// Padding is often left out, and decoders accept that.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Whether a command decodes encoded text.
pub(super) fn decodes(command: &Command) -> bool {
    let has = |flags: &[&str]| command.arguments().iter().any(|word| flags.contains(&word.value.as_str()));
    match command.name() {
        "base64" | "base32" | "gbase64" | "basenc" => {
            has(&["-d", "-D", "--decode", "-di", "-id", "--d", "--de", "--dec"])
        }
        "xxd" => command.arguments().iter().any(|word| {
            word.value.strip_prefix('-').is_some_and(|flags| flags.contains('r') && !flags.starts_with('-'))
        }),
        "openssl" => has(&["-d"]) || has(&["base64"]) && has(&["-d", "-D"]),
        "rev" | "uudecode" | "rot13" | "caesar" => true,
        "tr" => {
            command.arguments().len() >= 2 && command.arguments().iter().any(|word| word.value.len() >= 6)
        }
        "gunzip" | "zcat" | "bunzip2" | "bzcat" | "xzcat" | "unxz" | "zstdcat" => true,
        "gzip" | "bzip2" | "xz" | "zstd" => command
            .arguments()
            .iter()
            .any(|word| word.value == "--decompress" || is_cluster(&word.value, 'd')),
        _ => false,
    }
}

fn is_cluster(word: &str, letter: char) -> bool {
    word.strip_prefix('-').is_some_and(|flags| !flags.starts_with('-') && flags.contains(letter))
}

/// What `command` writes to its standard output when it reads `input`; `None` if this is known only when the line runs.
pub(super) fn of(command: &Command, input: Option<&str>) -> Option<String> {
    let arguments = command.arguments();
    let away = command.redirects.iter().any(|redirect| {
        matches!(redirect.direction, Direction::Write | Direction::Append)
            && redirect.descriptor.is_none_or(|descriptor| descriptor == 1)
            && !redirect.target.value.starts_with("/dev/")
    });
    let name = command.name();
    if away && !matches!(name, "echo" | "printf" | "cat" | "base64" | "xxd" | "rev" | "tr") {
        return None;
    }
    if !matches!(
        name,
        "echo"
            | "printf"
            | "print"
            | "base64"
            | "base32"
            | "xxd"
            | "rev"
            | "tr"
            | "cat"
            | "tee"
            | "openssl"
            | "sed"
            | "head"
            | "tac"
            | "rot13"
            | "gbase64"
    ) || arguments.iter().any(|word| word.dynamic)
    {
        return None;
    }
    let files: Vec<&Word> = arguments.iter().filter(|word| !word.value.starts_with('-')).collect();
    let output = match name {
        "echo" | "print" => Some(echo(arguments)),
        "printf" => printf(arguments),
        "base64" | "gbase64" if decodes(command) && files.is_empty() => base64(input?),
        "openssl" if decodes(command) && arguments.iter().any(|word| word.value.contains("base64")) => {
            base64(input?)
        }
        "base32" if decodes(command) && files.is_empty() => base32(input?),
        "xxd" if decodes(command) && files.is_empty() => hex(input?),
        "rev" if files.is_empty() => {
            Some(input?.lines().map(|line| line.chars().rev().collect::<String>() + "\n").collect())
        }
        "tac" if files.is_empty() => Some(input?.lines().rev().map(|line| format!("{line}\n")).collect()),
        "rot13" => translate(input?, "a-zA-Z", "n-za-mN-ZA-M"),
        "cat" if files.is_empty() => Some(input?.to_owned()),
        "tee" => Some(input?.to_owned()),
        "head" if arguments.is_empty() => Some(input?.to_owned()),
        "tr" => match arguments {
            [flag, set] if flag.value == "-d" => {
                let set = characters(&set.value)?;
                Some(input?.chars().filter(|letter| !set.contains(letter)).collect())
            }
            [from, to] => translate(input?, &from.value, &to.value),
            _ => None,
        },
        "sed" => match arguments {
            [script] => substitute(input?, &script.value),
            [flag, script] if flag.value == "-e" => substitute(input?, &script.value),
            _ => None,
        },
        _ => None,
    };
    output.filter(|text| text.len() <= MOST_TEXT)
}

fn echo(arguments: &[Word]) -> String {
    let flags = arguments.iter().take_while(|word| {
        word.value
            .strip_prefix('-')
            .is_some_and(|flags| !flags.is_empty() && flags.bytes().all(|flag| b"neE".contains(&flag)))
    });
    let flags: Vec<&str> = flags.map(|word| word.value.as_str()).collect();
    let escapes = flags.iter().any(|flags| flags.contains('e'));
    let rest = arguments.get(flags.len()..).unwrap_or_default();
    let text = rest.iter().map(|word| word.value.as_str()).collect::<Vec<_>>().join(" ");
    let mut text = if escapes { ansi(&text) } else { text };
    if !flags.iter().any(|flags| flags.contains('n')) {
        text.push('\n');
    }
    text
}

fn printf(arguments: &[Word]) -> Option<String> {
    let arguments = match arguments.first()?.value.as_str() {
        "-v" => return None,
        "--" => arguments.get(1..)?,
        _ => arguments,
    };
    let (format, mut values) = arguments.split_first()?;
    let format = ansi(&format.value);
    let mut text = String::new();
    loop {
        let before = values.len();
        let mut letters = format.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                text.push(letter);
                continue;
            }
            let mut kind = letters.next()?;
            while "-0123456789.# +".contains(kind) {
                kind = letters.next()?;
            }
            if kind == '%' {
                text.push('%');
                continue;
            }
            let value = match values.split_first() {
                Some((value, rest)) => {
                    values = rest;
                    value.value.as_str()
                }
                None => "",
            };
            match kind {
                's' | 'd' | 'i' => text.push_str(value),
                'b' => text.push_str(&ansi(value)),
                'c' => text.extend(value.chars().next()),
                _ => return None,
            }
        }
        // `printf` uses the format again for the remaining values.
        if values.is_empty() || values.len() == before || text.len() > MOST_TEXT {
            return Some(text);
        }
    }
}

fn readable(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    let odd = text.chars().filter(|letter| letter.is_control() && !"\n\t\r\u{1b}".contains(*letter)).count();
    (odd == 0).then_some(text)
}

pub(super) fn base64(text: &str) -> Option<String> {
    let packed: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    readable(LENIENT.decode(packed).ok()?)
}

fn base32(text: &str) -> Option<String> {
    let (mut bits, mut held, mut bytes) = (0_u32, 0_u32, Vec::new());
    for letter in text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=') {
        let digit = match letter.to_ascii_uppercase() {
            letter @ b'A'..=b'Z' => letter - b'A',
            letter @ b'2'..=b'7' => letter - b'2' + 26,
            _ => return None,
        };
        held = (held << 5 | u32::from(digit)) & 0xFFFF;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xFF).ok()?);
        }
    }
    readable(bytes)
}

pub(super) fn hex(text: &str) -> Option<String> {
    let digits: Vec<u8> =
        text.chars().filter_map(|letter| letter.to_digit(16)).filter_map(|d| u8::try_from(d).ok()).collect();
    let plain = text.chars().filter(|letter| !letter.is_whitespace()).count() == digits.len();
    if !plain || !digits.len().is_multiple_of(2) {
        return None;
    }
    readable(digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}

/// The characters of a set in `tr`'s syntax.
fn characters(set: &str) -> Option<Vec<char>> {
    let set = match set {
        "[:upper:]" => "A-Z",
        "[:lower:]" => "a-z",
        "[:digit:]" => "0-9",
        "[:space:]" => " \t\n\r",
        _ if set.contains("[:") => return None,
        _ => set.strip_prefix('[').and_then(|set| set.strip_suffix(']')).unwrap_or(set),
    };
    let letters: Vec<char> = ansi(set).chars().collect();
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(letter) = letters.get(at) {
        match (letters.get(at + 1), letters.get(at + 2)) {
            (Some('-'), Some(last)) if letter <= last && u32::from(*last) - u32::from(*letter) < 256 => {
                all.extend(*letter..=*last);
                at += 3;
            }
            _ => {
                all.push(*letter);
                at += 1;
            }
        }
    }
    Some(all)
}

fn translate(input: &str, from: &str, to: &str) -> Option<String> {
    let (from, to) = (characters(from)?, characters(to)?);
    let last = to.last().copied()?;
    let change = |letter: char| match from.iter().position(|other| *other == letter) {
        Some(at) => to.get(at).copied().unwrap_or(last),
        None => letter,
    };
    Some(input.chars().map(change).collect())
}

/// Applies `s/a/b/`, only without patterns.
fn substitute(input: &str, script: &str) -> Option<String> {
    let rest = script.strip_prefix('s')?;
    let delimiter = rest.chars().next()?;
    let mut parts = rest.get(delimiter.len_utf8()..)?.split(delimiter);
    let (from, to, flags) = (parts.next()?, parts.next()?, parts.next().unwrap_or_default());
    if from.is_empty() || from.contains(['.', '*', '[', '\\', '^', '$']) || to.contains(['&', '\\']) {
        return None;
    }
    let count = if flags.contains('g') { 4096 } else { 1 };
    Some(input.lines().map(|line| line.replacen(from, to, count) + "\n").collect())
}
