// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ends a run that takes too long, or that still runs when the bench itself is asked to stop.
//!
//! The thread wakes twice a second and does nothing else, so that it doesn't disturb the measurement. A process is watched
//! only while it can't have been reaped (the runner disarms between `waitid(WNOWAIT)` and `wait4`). So its id can't belong to
//! another process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const TICK: Duration = Duration::from_millis(500);
/// The time between SIGTERM and SIGKILL: a launcher needs a moment to end its sandbox.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Watched {
    pid: Pid,
    deadline: Instant,
    asked: Option<Instant>,
}

#[derive(Debug, Default)]
struct State {
    watched: Option<Watched>,
    quit: bool,
}

#[derive(Debug)]
pub(crate) struct Watchdog {
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    pub(crate) fn start(stop: Arc<AtomicBool>) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let thread = thread::spawn(move || {
            loop {
                thread::park_timeout(TICK);
                let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
                if state.quit {
                    return;
                }
                if let Some(watched) = &mut state.watched {
                    watched.check(stop.load(Ordering::Relaxed));
                }
            }
        });
        Self { state, thread: Some(thread) }
    }

    pub(crate) fn arm(&self, pid: Pid, limit: Duration) {
        self.lock().watched = Some(Watched { pid, deadline: Instant::now() + limit, asked: None });
    }

    /// Stops watching. Returns true if the process had to be ended.
    pub(crate) fn disarm(&self) -> bool {
        self.lock().watched.take().is_some_and(|watched| watched.asked.is_some())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    fn check(&mut self, stop: bool) {
        let signal = match self.asked {
            None if stop || Instant::now() >= self.deadline => Signal::TERM,
            Some(asked) if asked.elapsed() >= GRACE => Signal::KILL,
            _ => return,
        };
        self.asked.get_or_insert_with(Instant::now);
        // If the process is a zombie by now, it has ended as wanted.
        let _ = kill_process(self.pid, signal);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.lock().quit = true;
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread's panic was printed already.
            let _ = thread.join();
        }
    }
}
