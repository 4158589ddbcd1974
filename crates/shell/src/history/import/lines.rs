// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a file's lines one at a time, whatever their length.

use std::io::{BufRead, BufReader, Read, Result};

use crate::history::LONGEST;

/// The limit for a line in a file: zsh writes some bytes as two bytes, fish others.
const KEPT: usize = 2 * LONGEST + 64;

/// The lines in the first `left` bytes of a reader.
#[derive(Debug)]
pub(super) struct Lines<R> {
    from: BufReader<R>,
    left: u64,
    line: Vec<u8>,
}

/// A line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// The line without its end.
    Whole(&'a [u8]),
    /// The beginning of a line that is too long.
    TooLong(&'a [u8]),
}

impl<R: Read> Lines<R> {
    pub(super) fn new(from: R, left: u64) -> Self {
        Self { from: BufReader::with_capacity(1 << 16, from), left, line: Vec::new() }
    }

    /// Skips the rest of the current line when reading began in its middle.
    pub(super) fn skip_partial(&mut self) -> Result<()> {
        self.next().map(drop)
    }

    /// The next line. A last line without an end is being written at the moment, so it doesn't count.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>> {
        self.line.clear();
        let (mut ended, mut too_long) = (false, false);
        while !ended && self.left > 0 {
            let buffer = match self.from.fill_buf() {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                buffer => buffer?,
            };
            // The file was shortened meanwhile.
            if buffer.is_empty() {
                self.left = 0;
                break;
            }
            let most = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
            let found = memchr::memchr(b'\n', &buffer[..most]);
            let part = found.unwrap_or(most);
            let room = KEPT - self.line.len();
            too_long |= part > room;
            self.line.extend_from_slice(&buffer[..part.min(room)]);
            ended = found.is_some();
            let used = part + usize::from(ended);
            self.from.consume(used);
            self.left -= u64::try_from(used).unwrap_or(self.left);
        }
        if !ended && (self.line.is_empty() || self.goes_on()) {
            return Ok(None);
        }
        Ok(Some(if too_long { Line::TooLong(&self.line) } else { Line::Whole(&self.line) }))
    }

    /// Whether the reader has more bytes than were counted at the start.
    fn goes_on(&mut self) -> bool {
        self.from.fill_buf().is_ok_and(|buffer| !buffer.is_empty())
    }
}
