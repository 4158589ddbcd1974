// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits for the next event.

use super::{SECOND, Session};
use crate::engine::Engine;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;

/// The events that poll has found.
#[derive(Default)]
pub(super) struct Ready {
    /// The time is over, and nothing else happened.
    pub(super) nothing: bool,
    /// Palisaded has sent something.
    pub(super) link: bool,
    pub(super) keys: bool,
    pub(super) output: bool,
    pub(super) shell_takes: bool,
    pub(super) screen_takes: bool,
}

impl Session<'_> {
    pub(super) fn wait(&mut self, engine: &Engine) -> io::Result<Ready> {
        let until_tick = self.active.then(|| SECOND.saturating_sub(self.ticked.elapsed()));
        let due = engine.due();
        let timeout = match (due, until_tick) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(1),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        let when = |wanted: bool, flag: PollFlags| if wanted { flag } else { PollFlags::empty() };
        let stdin = rustix::stdio::stdin();
        let keys = when(!self.shell.is_full(), PollFlags::IN);
        let output =
            when(!self.screen.is_waiting(), PollFlags::IN) | when(self.shell.is_waiting(), PollFlags::OUT);
        let link = self.link.borrow();
        // A missing connection is replaced by the shell's descriptor, for which no event is requested here.
        let nobody = (self.shell.fd(), PollFlags::empty());
        let [ask, watch] = link.polled().map(|talk| talk.unwrap_or(nobody));
        let mut sets = [
            PollFd::from_borrowed_fd(stdin, keys),
            PollFd::from_borrowed_fd(self.shell.fd(), output),
            PollFd::from_borrowed_fd(self.signals.fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.screen.fd(), when(self.screen.is_waiting(), PollFlags::OUT)),
            PollFd::from_borrowed_fd(ask.0, ask.1),
            PollFd::from_borrowed_fd(watch.0, watch.1),
        ];
        let count = match poll(&mut sets, timeout.as_ref()) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => return Ok(Ready { nothing: false, ..Ready::default() }),
            Err(error) => return Err(error.into()),
        };
        let [keys, shell, _, screen, asked, watched] = sets.each_ref().map(PollFd::revents);
        let heard = (!ask.1.is_empty() && !asked.is_empty()) || (!watch.1.is_empty() && !watched.is_empty());
        drop(link);
        let gone = PollFlags::HUP | PollFlags::ERR;
        let ready = Ready {
            nothing: count == 0 && due.is_some(),
            link: heard,
            keys: keys.intersects(PollFlags::IN | gone),
            output: shell.intersects(PollFlags::IN | gone) && !self.screen.is_waiting(),
            shell_takes: shell.contains(PollFlags::OUT),
            screen_takes: screen.intersects(PollFlags::OUT | gone),
        };
        if ready.keys || ready.output {
            self.active = true;
        } else if count == 0 && self.active && self.ticked.elapsed() >= SECOND {
            self.tick_due();
        }
        Ok(ready)
    }

    /// Makes the next tick due. It is the last one until something happens.
    fn tick_due(&mut self) {
        self.ticked = self.ticked.checked_sub(SECOND).unwrap_or(self.ticked);
    }
}
