// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads fish's history, which looks like YAML but isn't: `- cmd: COMMAND`, `  when: SECONDS`, then paths, which are
//! not used here. Newlines are written as `\n`, backslashes as `\\`; nothing else is escaped, and nothing is quoted.
//! (Seen in files of fish 3 and 4.)

use std::io::{Read, Result};

use super::lines::{Line, Lines};
use super::newest::Newest;
use super::{SECOND, time};
use crate::history::{Entry, LONGEST};

pub(super) fn parse(lines: &mut Lines<impl Read>, newest: &mut Newest) -> Result<()> {
    let mut command: Option<Vec<u8>> = None;
    let mut started = None;
    while let Some(line) = lines.next()? {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong(line) => {
                if line.starts_with(b"- cmd:") {
                    newest.refuse();
                    if let Some(command) = command.take() {
                        newest.put_bytes(&command, started.take(), None);
                    }
                }
                continue;
            }
        };
        if let Some(text) = line.strip_prefix(b"- cmd:") {
            if let Some(command) = command.take() {
                newest.put_bytes(&command, started, None);
            }
            started = None;
            command = Some(unescape(text.strip_prefix(b" ").unwrap_or(text)));
        } else if let Some(when) = line.strip_prefix(b"  when:") {
            started = time(when.trim_ascii());
        }
    }
    if let Some(command) = command {
        newest.put_bytes(&command, started, None);
    }
    Ok(())
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len().min(LONGEST));
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        match (*byte, rest.as_slice().first()) {
            (b'\\', Some(b'n')) => {
                bytes.push(b'\n');
                rest.next();
            }
            (b'\\', Some(b'\\')) => {
                bytes.push(b'\\');
                rest.next();
            }
            (byte, _) => bytes.push(byte),
        }
    }
    bytes
}

pub(super) fn print(entry: &Entry, to: &mut Vec<u8>) {
    to.extend_from_slice(b"- cmd: ");
    for byte in entry.line.bytes() {
        match byte {
            b'\n' => to.extend_from_slice(b"\\n"),
            b'\\' => to.extend_from_slice(b"\\\\"),
            byte => to.push(byte),
        }
    }
    to.extend_from_slice(format!("\n  when: {}\n", entry.started.div_euclid(SECOND)).as_bytes());
}
