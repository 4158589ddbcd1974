// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A question that the user is asked on the terminal while the command is stopped. The thread that asks and the monitor
//! share its state.
//!
//! - While one is on the screen, the monitor ignores that the command stops, and the launcher's messages wait.
//! - A signal that ends the command, and the command's end, end the question.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// After Ctrl-C or a signal that ends the command, questions of what was interrupted may still arrive. The user isn't
/// asked them.
const INTERRUPTED: Duration = Duration::from_secs(1);
/// How long the launcher waits at its end for a question to leave the screen.
const LEAVING: Duration = Duration::from_secs(5);

static STATE: Mutex<State> = Mutex::new(State { shown: false, interrupted: None, over: false });
static LEFT: Condvar = Condvar::new();

#[derive(Debug)]
struct State {
    /// A question is on the screen, or about to be.
    shown: bool,
    /// When the user interrupted the command, or a signal did.
    interrupted: Option<Instant>,
    /// The launch is over: there is no question any more.
    over: bool,
}

impl State {
    fn refuses(&self) -> bool {
        self.over || self.interrupted.is_some_and(|at| at.elapsed() < INTERRUPTED)
    }
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The descriptor that wakes the thread that asks. Made at the first question: most launches have none.
fn wake() -> Result<BorrowedFd<'static>, Errno> {
    static WAKE: Mutex<Option<&'static OwnedFd>> = Mutex::new(None);
    let mut wake = WAKE.lock().unwrap_or_else(PoisonError::into_inner);
    if wake.is_none() {
        let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        *wake = Some(Box::leak(Box::new(made)));
    }
    wake.map(AsFd::as_fd).ok_or(Errno::BADF)
}

/// The question that is on the screen, until this is dropped. There is one at a time.
#[derive(Debug)]
pub struct Shown(BorrowedFd<'static>);

impl Shown {
    /// Begins a question. `None` if there must be none now: the command was interrupted, or is over.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn begin() -> Result<Option<Self>, Errno> {
        let wake = wake()?;
        let mut state = state();
        if state.refuses() {
            return Ok(None);
        }
        // An earlier question may have ended by itself before it was ended.
        let _empty = rustix::io::read(wake, &mut [0u8; 8]);
        state.shown = true;
        Ok(Some(Self(wake)))
    }

    /// Becomes readable when the question must leave the screen.
    #[must_use]
    pub const fn ended(&self) -> BorrowedFd<'static> {
        self.0
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        state().shown = false;
        LEFT.notify_all();
    }
}

/// Whether a question is on the screen.
#[must_use]
pub fn is_shown() -> bool {
    state().shown
}

/// Whether the launch is over.
#[must_use]
pub fn is_over() -> bool {
    state().over
}

/// The command was interrupted: ends the question on the screen, and refuses those that wait.
pub fn interrupt() {
    let mut state = state();
    state.interrupted = Some(Instant::now());
    end(&state);
}

/// The launch is over: ends the question on the screen, and waits until the terminal is as before it.
pub fn conclude() {
    let mut state = state();
    state.over = true;
    end(&state);
    let _too_slow = LEFT.wait_timeout_while(state, LEAVING, |state| state.shown);
}

fn end(state: &State) {
    if state.shown
        && let Ok(wake) = wake()
    {
        let _awake_already = rustix::io::write(wake, &1u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, because the state belongs to the process.
    #[test]
    fn an_interruption_ends_a_question_and_refuses_the_next_ones() {
        let readable = |shown: &Shown| rustix::io::read(shown.ended(), &mut [0u8; 8]).is_ok();
        let shown = Shown::begin().unwrap().unwrap();
        assert!(is_shown() && !readable(&shown));
        interrupt();
        assert!(readable(&shown));
        drop(shown);
        assert!(!is_shown());
        assert!(Shown::begin().unwrap().is_none(), "asked right after an interruption");
        state().interrupted = Instant::now().checked_sub(INTERRUPTED);
        let shown = Shown::begin().unwrap().unwrap();
        let leaving = std::thread::spawn(move || {
            while !readable(&shown) {
                std::thread::yield_now();
            }
        });
        conclude();
        assert!(!is_shown(), "the launch ended with a question on the screen");
        leaving.join().unwrap();
        state().interrupted = None;
        assert!(is_over() && Shown::begin().unwrap().is_none());
    }
}
