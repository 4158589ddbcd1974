// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Remembers which program a thread runs, from one call to the next while calls are learned.
//!
//! Looking up the program takes longer than all other work for a learned call. A thread's program changes only by an
//! exec, which is itself a learned call. Two changes aren't visible here. First, after an exec by a thread that isn't
//! its process's first one, the program goes on under the *first thread's* number, at an unknown moment; so nothing
//! is remembered for such a process any more. Second, a killed thread's number may go to another thread; so nothing
//! is remembered for longer than [`LONGEST`], in which the kernel can't have used up all other numbers.
//!
//! This is only for recording. A *refusal* because of the program always looks the program up.

use crate::broker::report::Program;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many threads are remembered, indexed by the low bits of their number.
const SLOTS: usize = 64;
/// How long a thread's program is remembered.
const LONGEST: Duration = Duration::from_millis(10);
/// How many processes may be excluded from remembering. Beyond that, nothing is remembered for any process.
const MOST: usize = 1 << 12;

/// A program's file: file system and inode.
pub(crate) type File = (u64, u64);

/// The remembered threads and their programs.
pub(crate) struct Running(Mutex<Known>);

struct Known {
    threads: [Option<Thread>; SLOTS],
    /// Processes in which a thread other than the first executes a program, or did: process to thread.
    unsettled: HashMap<u32, u32>,
    /// There were too many such processes.
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

    /// The program of a thread that is making a call, if it is remembered.
    pub(crate) fn file_of(&self, thread: u32) -> Option<File> {
        let known = self.known();
        let seen = known.threads[slot(thread)].filter(|seen| seen.number == thread)?;
        (seen.until > Instant::now()).then_some(seen.file)
    }

    /// Records that a thread, which is making a call, runs this program.
    pub(crate) fn remember(&self, thread: u32, program: &Program) {
        let mut known = self.known();
        // A thread that still makes calls under its own number failed to execute a program.
        known.unsettled.retain(|_process, executing| *executing != thread);
        if known.blind || known.unsettled.contains_key(&thread) || program.path.is_empty() {
            return;
        }
        let file = (program.device, program.inode);
        known.threads[slot(thread)] = Some(Thread { number: thread, file, until: Instant::now() + LONGEST });
    }

    /// Records that a thread of this process is about to execute a program. Call this before the exec may begin.
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

    /// Looks within the time for which the result is valid, even on a busy machine.
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
        // The first thread makes its next call when the exec is over, successful or not.
        assert_eq!(seen(&running, 7, OTHER), Some(OTHER));
        std::thread::sleep(LONGEST);
        assert_eq!(running.file_of(7), None);
    }

    #[test]
    fn of_a_process_that_another_thread_executes_in_nothing_is_known() {
        let running = Running::new();
        assert_eq!(seen(&running, 7, ONE), Some(ONE));
        running.executes(9, 7);
        // This call may come from the old program or from the new one.
        assert_eq!(seen(&running, 7, ONE), None);
        assert_eq!(seen(&running, 8, ONE), Some(ONE));
        // The exec failed.
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
