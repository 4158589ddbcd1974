// SPDX-License-Identifier: Apache-2.0 OR MIT
//! systemd, and what happens when nothing goes on.
//!
//! When the daemon ends, however it ends, the kernel says yes to everything that waits and to everything after: that is
//! fanotify's way. So a daemon that answers nothing any more ends itself, and whoever started it starts it again.

use crate::saying::{self, say};
use palisade_guard::watch::engine::Engine;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longer than this nobody's open may wait before somebody is told, in ms.
const STALL: u64 = 5_000;
/// Longer than this nothing may be answered, in ms: nothing will be any more.
const END: u64 = 60_000;

/// How often it is looked: a guard that has nothing to do wakes the processor for this alone.
const LOOK: Duration = Duration::from_secs(2);

/// systemd's socket, if it started this process.
#[derive(Debug)]
pub(crate) struct Systemd(Option<(UnixDatagram, SocketAddr)>);

impl Systemd {
    /// Of the variable that systemd sets.
    pub(crate) fn from_environment() -> Self {
        let name = std::env::var_os("NOTIFY_SOCKET").unwrap_or_default();
        let address = match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest).ok(),
            [b'/', ..] => SocketAddr::from_pathname(&name).ok(),
            _ => None,
        };
        Self(address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address))))
    }

    /// Says something: `READY=1`, `WATCHDOG=1`, `STATUS=…`.
    pub(crate) fn notify(&self, state: &str) {
        if let Some((socket, address)) = &self.0 {
            let _systemd_may_be_gone = socket.send_to_addr(state.as_bytes(), address);
        }
    }
}

/// Looks after the threads that answer, until `stop`.
pub(crate) fn supervise(engine: &Engine, systemd: &Systemd, stop: &AtomicBool) {
    let mut stalled = false;
    let (mut before, mut unread_since) = (None, None);
    while !stop.load(Ordering::Relaxed) {
        if engine.goes_on(&mut before) {
            unread_since = None;
        } else if unread_since.is_none() {
            unread_since = Some(Instant::now());
            engine.counts.stalls.one();
            say(
                "palisaded: alarm: questions have been waiting unread for seconds: a file's server doesn't answer the kernel, \
                 which opens the file for palisaded; another thread reads on",
            );
        }
        let (longest, at_work) = engine.crew.longest();
        if longest < STALL {
            stalled = false;
            systemd.notify("WATCHDOG=1");
        } else if !stalled {
            stalled = true;
            engine.counts.stalls.one();
            say(&format!(
                "palisaded: alarm: a question has been waiting for {longest} ms ({at_work} threads at work)"
            ));
        }
        let unread = unread_since.is_some_and(|since: Instant| since.elapsed() > Duration::from_millis(END));
        if unread || longest > END && at_work >= palisade_guard::watch::crew::THREADS {
            say("palisaded: alarm: nothing is answered any more; ending, so that the host goes on unguarded");
            saying::finish();
            std::process::abort();
        }
        std::thread::sleep(LOOK);
    }
}
