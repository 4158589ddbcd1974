// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts processes and control groups into scopes by orders to the kernel side, and asks which are in a scope.

use super::layout;
use super::state::{Outcome, Verdict};
use super::table::Table;
use super::{ORDER, SEARCH, ScopePrograms, order};
use crate::error::Error;
use libbpf_rs::MapCore;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

impl ScopePrograms {
    /// Marks a process, by its number in the first PID namespace. A caller that holds a descriptor of the process must
    /// check afterwards that it still lives: then the mark is on that process; otherwise call [`Self::unmark`]. `armed`:
    /// the next exec is judged; otherwise the next exec is the launch, which happens whatever the verdict is. One order at
    /// a time.
    ///
    /// # Errors
    /// If the program can't be run.
    pub fn mark(&self, process: u32, scope: u32, armed: bool) -> Result<Outcome, Error> {
        self.order(0, [0, process, scope, u32::from(armed)])
    }

    /// Removes a process's mark. One order at a time.
    ///
    /// # Errors
    /// If the program can't be run.
    pub fn unmark(&self, process: u32) -> Result<Outcome, Error> {
        self.order(0, [1, process, 0, 0])
    }

    /// Sets the verdict for execs in a scope from now on.
    ///
    /// # Errors
    /// If the program can't be run.
    pub fn judge(&self, scope: u32, verdict: Verdict) -> Result<Outcome, Error> {
        self.order(0, [3, 0, scope, verdict as u32])
    }

    fn ask(&self, born: u64, words: [u32; 4]) -> Result<u32, Error> {
        let failed = |source| Error::Run { program: ORDER, source };
        let answer = order::run(self.order.as_fd(), &layout::encode_order(born, words)).map_err(failed)?;
        match &self.search {
            Some(search) if answer == layout::BY_SEARCH => self.search(search.as_fd(), words),
            _ => Ok(answer),
        }
    }

    /// Carries out an order on kernels that can find a process only by iterating over all.
    fn search(&self, search: BorrowedFd<'_>, words: [u32; 4]) -> Result<u32, Error> {
        self.write("request", &[0; 4], &layout::encode_request(words))?;
        order::go_through(search).map_err(|source| Error::Run { program: SEARCH, source })?;
        let request = self.read("request", &[0; 4])?.ok_or(Error::Missing("request"))?;
        layout::decode_answer(&request).ok_or(Error::Missing("request"))
    }

    fn order(&self, born: u64, words: [u32; 4]) -> Result<Outcome, Error> {
        let failed = |source| Error::Run { program: ORDER, source };
        outcome(self.ask(born, words)?).map_err(failed)
    }

    /// Every live process that is marked in the table, and its scope. Removes the marks of dead processes and of closed
    /// scopes. One caller at a time, and no order meanwhile.
    ///
    /// A scope is empty only if its [`ever`](super::state::Scope::ever) is the same before and after this call, and `beyond` is 0: marks in
    /// task storage aren't found here.
    ///
    /// # Errors
    /// If the table can't be read.
    pub fn sweep(&self) -> Result<Vec<(u32, u32)>, Error> {
        let map = self.map("marks")?;
        let failed = |source| Error::Run { program: "marks", source };
        let mut live = Vec::new();
        for mark in Table::map(map.as_fd(), map.max_entries()).map_err(failed)?.marks() {
            if lives(mark.process) && self.scope_of(mark.process)? == Some(mark.scope) {
                live.push((mark.process, mark.scope));
            } else {
                // The order names the start time, so a new process with the same number keeps its mark.
                self.order(mark.born, [2, mark.process, 0, 0])?;
            }
        }
        Ok(live)
    }

    /// The scope whose mark a process has, if that scope is still open.
    ///
    /// # Errors
    /// If the program can't be run.
    pub fn scope_of(&self, process: u32) -> Result<Option<u32>, Error> {
        Ok(Some(self.ask(0, [4, process, 0, 0])?).filter(|id| *id != 0))
    }

    /// Puts a control group into a scope, by the group's number.
    ///
    /// # Errors
    /// If the map can't be written.
    pub fn mark_group(&self, group: u64, scope: u32) -> Result<(), Error> {
        self.write("groups", &group.to_ne_bytes(), &scope.to_ne_bytes())
    }

    /// Removes a control group from its scope.
    ///
    /// # Errors
    /// If the map can't be written.
    pub fn unmark_group(&self, group: u64) -> Result<(), Error> {
        self.remove("groups", &group.to_ne_bytes())
    }
}

/// Decodes a program's answer.
fn outcome(answer: u32) -> io::Result<Outcome> {
    Ok(match answer {
        0 => Outcome::Done,
        1 => Outcome::Already,
        2 => Outcome::Full,
        3 => Outcome::NoScope,
        4 => Outcome::Taken,
        layout::NO_PROCESS => Outcome::NoProcess,
        other => return Err(io::Error::other(format!("the program returned {other}"))),
    })
}

/// Whether a process has that number. A process that has ended and wasn't waited for doesn't count.
fn lives(process: u32) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else { return false };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => {
            let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            matches!(poll(&mut fds, Some(&now)), Ok(0))
        }
        Err(error) => error != rustix::io::Errno::SRCH,
    }
}
