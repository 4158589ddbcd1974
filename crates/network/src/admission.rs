// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many connections there may be.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// As many connections as a sandbox may have at once: a busy browser has some hundreds.
const MOST: u64 = 16_384;
/// Descriptors that are left for other things: listeners, questions to the DNS, pipes.
const OTHERS: u64 = 256;
/// How many questions about names are worked on at once; apart from connections, which would else keep names from being
/// looked up.
const QUESTIONS: usize = 512;
/// How often it is said that a limit is reached.
const DAMPED: Duration = Duration::from_secs(10);

/// Lets connections in.
#[derive(Debug)]
pub(crate) struct Admission {
    places: Arc<Semaphore>,
    questions: Arc<Semaphore>,
    said: Cell<Option<Instant>>,
    /// A descriptor to give away where there is none left: it takes one to refuse a connection.
    spare: RefCell<Option<OwnedFd>>,
}

/// How many connections this process has descriptors for; its limit is raised as far as it goes.
pub(crate) fn affordable() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted =
        limit.maximum.unwrap_or(u64::MAX).min(2 * MOST + OTHERS).max(limit.current.unwrap_or(u64::MAX));
    let limit = match setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit }) {
        Ok(()) => wanted,
        Err(_error) => limit.current.unwrap_or(u64::MAX),
    };
    // Two for each: the client's and the server's.
    let places = (limit.saturating_sub(OTHERS) / 2).clamp(16, MOST);
    usize::try_from(places).unwrap_or(usize::MAX)
}

impl Admission {
    pub(crate) fn new(places: usize) -> Self {
        let places = Arc::new(Semaphore::new(places));
        let questions = Arc::new(Semaphore::new(QUESTIONS));
        let admission = Self { places, questions, said: Cell::new(None), spare: RefCell::default() };
        admission.keep_spare();
        admission
    }

    /// Makes room for one descriptor.
    pub(crate) fn lend_spare(&self) {
        self.spare.take();
    }

    /// Takes it back, if there is one to be had.
    pub(crate) fn keep_spare(&self) {
        self.spare.replace(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 0).ok());
    }

    /// A place, if there is one now.
    pub(crate) fn try_enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// A place for a question, if there is one now.
    pub(crate) fn try_ask(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.questions).try_acquire_owned().ok()
    }

    /// Waits for a place. None: never again.
    pub(crate) async fn enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).acquire_owned().await.ok()
    }

    /// Whether it is to be said that a limit is reached.
    pub(crate) fn says(&self) -> bool {
        let now = Instant::now();
        let says = self.said.get().is_none_or(|said| now.duration_since(said) >= DAMPED);
        if says {
            self.said.set(Some(now));
        }
        says
    }
}
