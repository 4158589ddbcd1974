// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits how many connections there may be.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most connections that a sandbox may have at once: a busy browser has some hundreds.
const MOST: u64 = 16_384;
/// Descriptors that are reserved for other uses: listeners, DNS questions, pipes.
const OTHERS: u64 = 256;
/// How many DNS questions are processed at once. They are counted separately from connections, which would otherwise
/// block name look-ups.
const QUESTIONS: usize = 512;
/// How often a reached limit is reported.
const DAMPED: Duration = Duration::from_secs(10);

/// Admits connections.
#[derive(Debug)]
pub(crate) struct Admission {
    places: Arc<Semaphore>,
    questions: Arc<Semaphore>,
    said: Cell<Option<Instant>>,
    /// A spare descriptor to release when there is none left: refusing a connection takes one.
    spare: RefCell<Option<OwnedFd>>,
}

/// How many connections this process has descriptors for. Raises the process's limit as far as possible.
pub(crate) fn affordable() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted =
        limit.maximum.unwrap_or(u64::MAX).min(2 * MOST + OTHERS).max(limit.current.unwrap_or(u64::MAX));
    let limit = match setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit }) {
        Ok(()) => wanted,
        Err(_error) => limit.current.unwrap_or(u64::MAX),
    };
    // Two for each connection: the client's and the server's.
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

    /// Releases the spare descriptor.
    pub(crate) fn lend_spare(&self) {
        self.spare.take();
    }

    /// Takes a spare descriptor again, if there is one.
    pub(crate) fn keep_spare(&self) {
        self.spare.replace(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 0).ok());
    }

    /// A place for a connection, if there is one now.
    pub(crate) fn try_enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// A place for a question, if there is one now.
    pub(crate) fn try_ask(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.questions).try_acquire_owned().ok()
    }

    /// Waits for a place. `None`: there will never be one.
    pub(crate) async fn enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).acquire_owned().await.ok()
    }

    /// Whether a reached limit is to be reported now.
    pub(crate) fn says(&self) -> bool {
        let now = Instant::now();
        let says = self.said.get().is_none_or(|said| now.duration_since(said) >= DAMPED);
        if says {
            self.said.set(Some(now));
        }
        says
    }
}
