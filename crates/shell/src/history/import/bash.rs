// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads bash's history: one command per line, or, with `HISTTIMEFORMAT`, a line `#SECONDS` before each command.
//!
//! The format follows bash's own reading. If the file begins with a time, a command goes on until the next time;
//! otherwise each line is a command. (Manual of bash, "HISTTIMEFORMAT", "cmdhist", "lithist".)

use std::io::{Read, Result};

use super::lines::{Line, Lines};
use super::newest::Newest;
use super::{SECOND, time};
use crate::history::{Entry, LONGEST};

fn stamp(line: &[u8]) -> Option<&[u8]> {
    let digits = line.strip_prefix(b"#")?;
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit)).then_some(digits)
}

/// The part of a command that was read so far.
#[derive(Debug, Default)]
struct Command {
    text: Vec<u8>,
    lines: usize,
    too_long: bool,
    started: Option<i64>,
}

impl Command {
    fn add(&mut self, line: &[u8], too_long: bool) {
        if self.lines > 0 {
            self.text.push(b'\n');
        }
        self.lines += 1;
        self.too_long |= too_long || self.text.len() + line.len() > LONGEST;
        if !self.too_long {
            self.text.extend_from_slice(line);
        }
    }

    fn end(&mut self, newest: &mut Newest) {
        match (self.lines, self.too_long) {
            (0, _) => {}
            (_, true) => newest.refuse(),
            (_, false) => newest.put_bytes(&self.text, self.started, None),
        }
        *self = Self::default();
    }
}

pub(super) fn parse(lines: &mut Lines<impl Read>, newest: &mut Newest) -> Result<()> {
    let mut several = None;
    let mut command = Command::default();
    while let Some(line) = lines.next()? {
        let (line, too_long) = match line {
            Line::Whole(line) => (line, false),
            Line::TooLong(line) => (line, true),
        };
        let stamp = stamp(line).filter(|_| !too_long);
        let several = *several.get_or_insert(stamp.is_some());
        if let Some(stamp) = stamp {
            command.end(newest);
            command.started = time(stamp);
            continue;
        }
        command.add(line, too_long);
        if !several {
            command.end(newest);
        }
    }
    command.end(newest);
    Ok(())
}

pub(super) fn print(entry: &Entry, to: &mut Vec<u8>) {
    to.extend_from_slice(format!("#{}\n{}\n", entry.started.div_euclid(SECOND), entry.line).as_bytes());
}
