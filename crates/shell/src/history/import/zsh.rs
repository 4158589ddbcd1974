// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads zsh's history: one command per line; with `EXTENDED_HISTORY`, `: SECONDS:DURATION;COMMAND`.
//!
//! A newline within a command has a backslash before it. A command that ends with a backslash gets a space after it.
//! Bytes with a meaning inside zsh (0, 0x83 to 0xa2) are written as 0x83 and the byte with its bit 5 inverted. (Manual
//! of zsh, "EXTENDED_HISTORY"; seen in files that zsh 5.9 wrote.)

use std::io::{Read, Result};

use super::lines::{Line, Lines};
use super::newest::Newest;
use super::{SECOND, time};
use crate::history::{Entry, LONGEST};

const META: u8 = 0x83;
const TURNED: u8 = 0x20;

pub(super) fn parse(lines: &mut Lines<impl Read>, newest: &mut Newest) -> Result<()> {
    let mut command = Vec::new();
    let mut too_long = false;
    let mut end = |command: &mut Vec<u8>, too_long: &mut bool| {
        if std::mem::take(too_long) {
            newest.refuse();
        } else {
            put(command, newest);
        }
        command.clear();
    };
    while let Some(line) = lines.next()? {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong(line) => {
                too_long = true;
                line
            }
        };
        let (line, goes_on) = match line.strip_suffix(b"\\") {
            Some(line) => (line, true),
            None => (unpadded(line), false),
        };
        too_long |= command.len() + line.len() > 2 * LONGEST;
        if !too_long {
            command.extend_from_slice(line);
        }
        if goes_on {
            command.push(b'\n');
        } else {
            end(&mut command, &mut too_long);
        }
    }
    if command.ends_with(b"\n") {
        command.pop();
    }
    if !command.is_empty() || too_long {
        end(&mut command, &mut too_long);
    }
    Ok(())
}

/// Removes the space that follows a backslash at the end.
fn unpadded(line: &[u8]) -> &[u8] {
    let bare = line.trim_ascii_end();
    let spaces = &line[bare.len()..];
    if bare.ends_with(b"\\") && !spaces.is_empty() && spaces.iter().all(|byte| *byte == b' ') {
        &line[..line.len() - 1]
    } else {
        line
    }
}

fn put(line: &[u8], newest: &mut Newest) {
    let (head, command) = match head(line) {
        Some((started, duration, command)) => (Some((started, duration)), command),
        None if line.starts_with(b"\\:") => (None, &line[1..]),
        None => (None, line),
    };
    let started = head.and_then(|(started, _duration)| time(started));
    let duration = head.and_then(|(_started, duration)| {
        std::str::from_utf8(duration).ok()?.parse::<i64>().ok()?.checked_mul(SECOND)
    });
    newest.put_bytes(&unmeta(command), started, duration.filter(|duration| *duration >= 0));
}

/// The parts of `: SECONDS:DURATION;COMMAND`.
fn head(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let rest = line.strip_prefix(b":")?.trim_ascii_start();
    let colon = rest.iter().take(24).position(|byte| *byte == b':')?;
    let (started, rest) = (&rest[..colon], &rest[colon + 1..]);
    let semicolon = rest.iter().take(24).position(|byte| *byte == b';')?;
    let (duration, command) = (&rest[..semicolon], &rest[semicolon + 1..]);
    (number(started) && number(duration)).then_some((started, duration, command))
}

fn unmeta(line: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(line.len());
    let mut rest = line.iter();
    while let Some(byte) = rest.next() {
        match (*byte, rest.as_slice().first()) {
            (META, Some(next)) => {
                bytes.push(next ^ TURNED);
                rest.next();
            }
            (byte, _) => bytes.push(byte),
        }
    }
    bytes
}

pub(super) fn print(entry: &Entry, to: &mut Vec<u8>) {
    let seconds = entry.duration.map_or(0, |duration| duration.div_euclid(SECOND));
    to.extend_from_slice(format!(": {}:{seconds};", entry.started.div_euclid(SECOND)).as_bytes());
    for byte in entry.line.bytes() {
        match byte {
            b'\n' => to.extend_from_slice(b"\\\n"),
            0 | META..=0xa2 => to.extend_from_slice(&[META, byte ^ TURNED]),
            byte => to.push(byte),
        }
    }
    if entry.line.trim_end_matches(' ').ends_with('\\') {
        to.push(b' ');
    }
    to.push(b'\n');
}
