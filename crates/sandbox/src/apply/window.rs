// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Restores the size that the kernel keeps of the terminal's window. Programs inside can set this size (`TIOCSWINSZ`).
//!
//! The launcher can't distinguish such a size from one that the user gave the window meanwhile. So it acts only on a
//! size that no real window has: after the command's end it asks the terminal, whose answer programs inside can't
//! influence any more. Other sizes stay, for two reasons: the query discards what the user has typed meanwhile, and a
//! resized window is common.

use crate::apply::monitor::Terminal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Winsize};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// How long the terminal may take for its first answer.
const FIRST: Duration = Duration::from_millis(500);
/// After this long without another byte there are no more answers.
const NEXT: Duration = Duration::from_millis(50);
/// Moves the cursor as far as possible, asks for its position, and moves it back. Scroll region and origin mode would
/// keep the cursor from the last line, so both are reset. The mode is restored with the cursor.
const ASK: &[u8] = b"\x1b7\x1b[?6l\x1b[r\x1b[9999;9999H\x1b[6n\x1b8";

/// The rows and columns of the smallest window that a user can work in.
const SMALLEST: (u16, u16) = (4, 20);

/// The size before the command was started.
#[derive(Debug)]
pub(crate) struct Window<'t> {
    terminal: BorrowedFd<'t>,
    before: Winsize,
}

impl<'t> Window<'t> {
    /// The present size of a terminal that the launcher shares with its command.
    pub(crate) fn of(terminal: &'t Terminal) -> Option<Self> {
        let terminal = match terminal {
            Terminal::HandedOver { terminal, .. } | Terminal::Together(Some(terminal)) => terminal.as_fd(),
            Terminal::Apart | Terminal::Together(None) => return None,
        };
        let before = rustix::termios::tcgetwinsize(terminal).ok()?;
        Some(Self { terminal, before })
    }

    /// Corrects an unusable size. If the terminal doesn't answer, the size from before the command is set. What the
    /// user has typed meanwhile is lost then.
    pub(crate) fn restore(self) {
        let Ok(now) = rustix::termios::tcgetwinsize(self.terminal) else { return };
        let unusable = now.ws_row < SMALLEST.0 || now.ws_col < SMALLEST.1;
        if !unusable || same(now, self.before) || !self.is_ours() {
            return;
        }
        let right = match self.ask() {
            Some((rows, columns)) if (rows, columns) == (now.ws_row, now.ws_col) => return,
            Some((ws_row, ws_col)) if (ws_row, ws_col) != (self.before.ws_row, self.before.ws_col) => {
                Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 }
            }
            Some(_) | None => self.before,
        };
        let _gone = rustix::termios::tcsetwinsize(self.terminal, right);
    }

    /// Whether the launcher's group has the terminal. In the background the terminal is another job's.
    fn is_ours(&self) -> bool {
        let own = rustix::process::Pid::from_raw(palisade_sys::process::group());
        own.is_some() && rustix::termios::tcgetpgrp(self.terminal).ok() == own
    }

    /// The rows and columns that the terminal reports.
    fn ask(&self) -> Option<(u16, u16)> {
        let before = rustix::termios::tcgetattr(self.terminal).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(self.terminal, OptionalActions::Now, &raw).ok()?;
        let answers = rustix::io::write(self.terminal, ASK).ok().map(|_length| self.answers());
        let _gone = rustix::termios::tcsetattr(self.terminal, OptionalActions::Now, &before);
        size(&answers?)
    }

    /// The terminal's answers, including those to queries of the command.
    fn answers(&self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut wait = FIRST;
        // A limit: a user who types without end must not keep the launcher reading.
        while all.len() < 1 << 16 {
            let mut polled = [PollFd::from_borrowed_fd(self.terminal, PollFlags::IN)];
            let Ok(patience) = Timespec::try_from(wait) else { break };
            if !matches!(rustix::io::retry_on_intr(|| poll(&mut polled, Some(&patience))), Ok(1..)) {
                break;
            }
            let mut bytes = [0u8; 1024];
            let Ok(length @ 1..) = rustix::io::read(self.terminal, &mut bytes) else { break };
            all.extend_from_slice(bytes.get(..length).unwrap_or_default());
            if size(&all).is_some() {
                wait = NEXT;
            }
        }
        all
    }
}

fn same(one: Winsize, other: Winsize) -> bool {
    let fields = |size: Winsize| [size.ws_row, size.ws_col, size.ws_xpixel, size.ws_ypixel];
    fields(one) == fields(other)
}

/// The last position in the terminal's answers. Answers come in the order of the queries, and the command's queries
/// came first.
fn size(answers: &[u8]) -> Option<(u16, u16)> {
    answers.split(|byte| *byte == 0x1b).rev().find_map(|answer| {
        let (position, _rest) = std::str::from_utf8(answer).ok()?.strip_prefix('[')?.split_once('R')?;
        let (row, column) = position.split_once(';')?;
        Some((row.parse().ok()?, column.parse().ok()?))
            .filter(|(row, column): &(u16, u16)| *row > 0 && *column > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_answer_is_the_one_to_this_question() {
        assert_eq!(size(b"\x1b[1;1R\x1b[24;80R"), Some((24, 80)));
        assert_eq!(size(b"typed\x1b[24;80Rtyped\x1b[0n"), Some((24, 80)));
        for none in
            [&b""[..], b"\x1b[", b"24;80R", b"\x1b[24R", b"\x1b[0;80R", b"\x1b[24;0R", b"\x1b[99999;80R"]
        {
            assert_eq!(size(none), None, "{none:?}");
        }
    }
}
