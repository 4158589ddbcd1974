// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process that the caller sees: it waits for the command, and ends with the command's exit code.

use crate::status;
use crate::words::{Result, because};
use palisade_sys::family;
use palisade_sys::wait::{self, Change};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::{AsFd, OwnedFd};

/// What the monitor waits for.
#[derive(Debug)]
pub(crate) struct Monitor<'a> {
    /// The first process inside.
    pub(crate) child: i32,
    /// Process 1 reports here how the command ended.
    pub(crate) ended: Option<&'a OwnedFd>,
    /// The first process inside may have reported here; read when it has ended.
    pub(crate) refused: Option<&'a OwnedFd>,
    /// The descriptor of `--json-status-fd`.
    pub(crate) status: Option<i32>,
    /// Has one byte if the command was executed, two if that failed, none if something failed before.
    pub(crate) finished: Option<OwnedFd>,
}

/// The exit code for a process that ended in this way, as shells have it.
pub(crate) fn exit_code(change: Change) -> u8 {
    let code = match change {
        Change::Exited(code) => code,
        Change::Killed(signal) => 128 + signal,
        Change::Stopped(_) | Change::Continued => 255,
    };
    u8::try_from(code & 0xff).unwrap_or(255)
}

impl Monitor<'_> {
    /// Waits for the end.
    pub(crate) fn watch(self) -> Result<u8> {
        let process = Pid::from_raw(self.child)
            .ok_or(Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
            .map_err(|errno| because("pidfd_open", errno))?;
        self.close_others(&process)?;
        loop {
            let mut waiting = vec![PollFd::new(&process, PollFlags::IN)];
            waiting.extend(self.ended.map(|ended| PollFd::new(ended, PollFlags::IN)));
            match poll(&mut waiting, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(because("poll", errno)),
            }
            // The report first: process 1 often ends together with the command.
            if let (Some(ended), Some(event)) = (self.ended, waiting.get(1))
                && event.revents().contains(PollFlags::IN)
            {
                let value = status::read_event(ended).map_err(|errno| because("read eventfd", errno))?;
                let code = u8::try_from(value.saturating_sub(1) & 0xff).unwrap_or(255);
                return self.report(code);
            }
            if waiting.first().is_some_and(|process| !process.revents().is_empty()) {
                let code = match wait::blocking(self.child) {
                    Ok(change) => exit_code(change),
                    Err(errno) => return Err(because("waitpid", errno)),
                };
                return self.report(code);
            }
        }
    }

    /// Closes what is only the command's, such as pipes whose end other processes wait for.
    fn close_others(&self, process: &OwnedFd) -> Result<()> {
        let own = [self.ended, self.refused, self.finished.as_ref(), Some(process)];
        let mut kept: Vec<i32> =
            own.into_iter().flatten().map(|descriptor| status::number(descriptor.as_fd())).collect();
        kept.extend(self.status);
        family::close_all_but(&mut kept).map_err(|errno| because("close_range", errno))
    }

    fn report(&self, code: u8) -> Result<u8> {
        if let (Some(number), Some(finished)) = (self.status, &self.finished) {
            let mut bytes = [0u8; 2];
            let read = loop {
                match rustix::io::read(finished, &mut bytes) {
                    Err(Errno::INTR) => {}
                    other => break other.map_err(|errno| because("read eventfd", errno))?,
                }
            };
            if read == 1 {
                let _nobody_reads = status::write(number, &status::exit_code(code));
            }
        }
        Ok(code)
    }
}
