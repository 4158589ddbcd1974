// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which program a thread runs, remembered from one call to the next while calls are learned.
//!
//! Looking that up takes longer than all else that a learned call costs. A thread's program changes only by an execution,
//! which is a call that is learned too. Two things can't be seen here: an execution by a thread that isn't its
//! process's first goes on under the *first one's* number, at a moment that nobody tells; so of such a process nothing is
//! remembered any more. And the number of a thread that was killed may become another's; so nothing is remembered for
//! longer than [`LONGEST`], in which the kernel can't have given all other numbers.
//!
//! Only for what is put down. What is *refused* for its program is so by a look at it.

use crate::broker::report::Program;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Threads remembered, by the low bits of their number.
const SLOTS: usize = 64;
/// How long one is.
const LONGEST: Duration = Duration::from_millis(10);
/// Processes of which nothing is remembered. With more nothing is of anybody.
const MOST: usize = 1 << 12;

/// A program's file: its file system and inode.
pub(crate) type File = (u64, u64);

/// The threads, and what they run.
pub(crate) struct Running(Mutex<Known>);

struct Known {
    threads: [Option<Thread>; SLOTS],
    /// Processes one of whose further threads executes something, or has: by the process the thread.
    unsettled: HashMap<u32, u32>,
    /// There were too many of them.
    blind: bool,
}

#[derive(Clone, Copy)]
struct Thread {
    number: u32,
    file: File,
    until: Instant,
}

impl Running {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Known { threads: [None; SLOTS], unsettled: HashMap::new(), blind: false }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread, which is making a call, runs; if that is known.
    pub(crate) fn file_of(&self, thread: u32) -> Option<File> {
        let known = self.known();
        let seen = known.threads[slot(thread)].filter(|seen| seen.number == thread)?;
        (seen.until > Instant::now()).then_some(seen.file)
    }

    /// A thread, which is making a call, was seen to run this.
    pub(crate) fn remember(&self, thread: u32, program: &Program) {
        let mut known = self.known();
        // Whoever still calls by its own number has failed to execute anything.
        known.unsettled.retain(|_process, executing| *executing != thread);
        if known.blind || known.unsettled.contains_key(&thread) || program.path.is_empty() {
            return;
        }
        let file = (program.device, program.inode);
        known.threads[slot(thread)] = Some(Thread { number: thread, file, until: Instant::now() + LONGEST });
    }

    /// A thread of this process is about to execute something. To be told before it may.
    pub(crate) fn executes(&self, thread: u32, process: u32) {
        let mut known = self.known();
        for number in [thread, process] {
            if known.threads[slot(number)].is_some_and(|seen| seen.number == number) {
                known.threads[slot(number)] = None;
            }
        }
        if thread != process {
            known.unsettled.insert(process, thread);
            known.blind |= known.unsettled.len() > MOST;
        }
        if known.blind {
            known.threads = [None; SLOTS];
        }
    }
}

const fn slot(thread: u32) -> usize {
    thread as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: File = (1, 2);
    const OTHER: File = (1, 3);

    fn program((device, inode): File) -> Program {
        Program { path: b"/bin/x".to_vec(), device, inode }
    }

    /// Looked at within the time for which it holds, however busy the machine is.
    fn seen(running: &Running, thread: u32, file: File) -> Option<File> {
        (0..1000).find_map(|_| {
            running.remember(thread, &program(file));
            running.file_of(thread)
        })
    }

    #[test]
    fn a_program_is_known_until_something_is_executed() {
        let running = Running::new();
        assert_eq!(running.file_of(7), None);
        assert_eq!(seen(&running, 7, ONE), Some(ONE));
        assert_eq!(running.file_of(7 + 64), None);
        running.executes(7, 7);
        assert_eq!(running.file_of(7), None);
        // The first thread's next call comes when that has ended, well or not.
        assert_eq!(seen(&running, 7, OTHER), Some(OTHER));
        std::thread::sleep(LONGEST);
        assert_eq!(running.file_of(7), None);
    }

    #[test]
    fn of_a_process_that_another_thread_executes_in_nothing_is_known() {
        let running = Running::new();
        assert_eq!(seen(&running, 7, ONE), Some(ONE));
        running.executes(9, 7);
        // Whether that is the one from before or the new program can't be told.
        assert_eq!(seen(&running, 7, ONE), None);
        assert_eq!(seen(&running, 8, ONE), Some(ONE));
        // It failed.
        assert_eq!(seen(&running, 9, ONE), Some(ONE));
        assert_eq!(seen(&running, 7, ONE), Some(ONE));
    }

    #[test]
    fn what_is_unknown_or_too_much_is_not_remembered() {
        let running = Running::new();
        running.remember(7, &Program::default());
        assert_eq!(running.file_of(7), None);
        for process in 0..u32::try_from(MOST).unwrap() + 1 {
            running.executes(1 << 20, process);
        }
        assert_eq!(seen(&running, 1 << 21, ONE), None);
    }
}
