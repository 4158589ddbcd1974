// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Remembers the path of a program that is being executed. An exec causes two questions, about the exec and about the
//! open, both for one file at one path. Finding the path takes four system calls.

use super::known::Identity;
use palisade_sys::fanotify::Question;
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// How long it is valid: a directory in the path may be renamed later.
const MOMENT: Duration = Duration::from_millis(1);

/// The program of the previous question, if that was about an exec.
#[derive(Debug, Default)]
pub(super) struct Executed(RefCell<Option<Before>>);

#[derive(Debug)]
struct Before {
    pid: u32,
    identity: Identity,
    path: Box<[u8]>,
    at: Instant,
}

impl Executed {
    /// Records that the last question was about an exec of that file, by this process.
    pub(super) fn is_at(&self, pid: u32, identity: Identity, path: &[u8]) {
        self.0.replace(Some(Before { pid, identity, path: path.into(), at: Instant::now() }));
    }

    /// The path of this question's file, if it follows the exec: the same process, and the same unchanged file.
    pub(super) fn followed_by(&self, question: &Question, identity: Identity) -> Option<Box<[u8]>> {
        let before = self.0.take()?;
        let follows = !question.execute
            && (before.pid, before.identity) == (question.pid, identity)
            && before.at.elapsed() < MOMENT;
        follows.then_some(before.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(pid: u32, execute: bool) -> (Question, Identity) {
        let file = std::fs::File::open("/proc/self/exe").expect("this program");
        let identity = Identity::of(&rustix::fs::fstat(&file).expect("what it is"));
        (Question { file: file.into(), execute, pid }, identity)
    }

    #[test]
    fn it_holds_for_the_open_of_an_exec_and_once() {
        let executed = Executed::default();
        let (open, identity) = question(7, false);
        // A machine may be busy for longer than `MOMENT`.
        let held = (0..1000).any(|_| {
            executed.is_at(7, identity, b"/a");
            executed.followed_by(&open, identity).as_deref() == Some(b"/a")
        });
        assert!(held && executed.followed_by(&open, identity).is_none());
    }

    #[test]
    fn it_holds_for_nothing_else() {
        let executed = Executed::default();
        let (open, identity) = question(7, false);
        let mut changed = identity;
        changed.size += 1;
        for (next, as_it_is) in [
            (question(8, false).0, identity),
            (question(7, true).0, identity),
            (question(7, false).0, changed),
        ] {
            executed.is_at(7, identity, b"/a");
            assert!(executed.followed_by(&next, as_it_is).is_none(), "{next:?}");
            assert!(executed.followed_by(&open, identity).is_none(), "another question was between");
        }
        executed.is_at(7, identity, b"/a");
        std::thread::sleep(2 * MOMENT);
        assert!(executed.followed_by(&open, identity).is_none());
    }
}
