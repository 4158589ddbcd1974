// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports the daemon's state to systemd, watches the threads that answer, and acts when they make no progress.
//!
//! When the daemon ends for any reason, the kernel allows everything that waits and everything after that; this is how
//! fanotify works. So a daemon that answers nothing any more ends itself, and systemd starts it again.

use crate::alarms::Trouble;
use crate::guard::Guard;
use crate::kinds::Nursery;
use crate::saying::{self, say};
use crate::standby::{self, Standby};
use palisade_guard::settings::OnStop;
use palisade_guard::watch::engine::Engine;
use palisade_guard::watch::workers::THREADS;
use palisade_sys::fanotify::Reply;
use std::os::fd::RawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// How long an open may wait before the daemon reports a stall, in ms.
const STALL: u64 = 5_000;
/// How long there may be no answer at all, in ms. After that the guard won't recover, so the daemon ends.
const END: u64 = 60_000;

/// How long a question is worked on, in ms, before the supervisor checks whether its thread is stopped.
const STOPPED: u64 = 600;

/// How often to check while questions lie unread.
const UNREAD: Duration = Duration::from_millis(250);
/// How often to check while there are questions.
const BUSY: Duration = Duration::from_millis(500);
/// How often to check while there are no questions: systemd expects regular messages.
const IDLE: Duration = Duration::from_secs(10);

/// How long after the start of a libmagic process another one may be started, if the first has ended.
const AGAIN: Duration = Duration::from_secs(2);

/// systemd's socket, if it started this process.
#[derive(Debug)]
pub(crate) struct Systemd(Option<(UnixDatagram, SocketAddr)>);

impl Systemd {
    /// The socket that systemd names in an environment variable.
    pub(crate) fn from_environment() -> Self {
        let name = std::env::var_os("NOTIFY_SOCKET").unwrap_or_default();
        let address = match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest).ok(),
            [b'/', ..] => SocketAddr::from_pathname(&name).ok(),
            _ => None,
        };
        Self(address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address))))
    }

    /// Sends systemd a message: `READY=1`, `WATCHDOG=1`, `STATUS=…`.
    pub(crate) fn notify(&self, state: &str) {
        if let Some((socket, address)) = &self.0 {
            let _systemd_may_be_gone = socket.send_to_addr(state.as_bytes(), address);
        }
    }
}

/// Supervises the answering threads and the standby, until the guard ends.
pub(crate) fn supervise(guard: &Guard) {
    let systemd = Systemd::from_environment();
    let engine = &guard.engine;
    let mut standby: Option<Standby> = None;
    let mut nursery = guard.nursery.lock().unwrap_or_else(PoisonError::into_inner).take();
    let mut begun = Instant::now();
    let mut stalled = false;
    let (mut unread, mut kept_since) = (None, None);
    let mut before = 0;
    let mut lost = (0, Instant::now());
    while !guard.is_stopping() {
        let answer = answer_when_stopped(guard);
        look_after(&mut standby, guard, answer);
        look_after_kinds(&mut nursery, &mut begun, guard);
        for (thread, file) in engine.workers.kept(STOPPED) {
            answer_for(engine, thread, file, answer);
        }
        if engine.goes_on(&mut unread) {
            kept_since = None;
        } else if kept_since.is_none() {
            kept_since = Some(Instant::now());
            engine.counts.stalls.one();
            say(
                "palisaded: alarm: the kernel's questions wait unread: the thread that reads them waits for a file's server or a \
                 slow disk; another thread continues",
            );
        }
        let now = engine.counts.lost.get();
        if now > lost.0 {
            lost = (now, Instant::now());
            let what = "palisaded refuses files that it can't open or examine: descriptors or memory are used up, or the server \
                        of the files has ended";
            guard.alarms.raise_once(Trouble::Unread, what.to_owned());
        } else if lost.1.elapsed() > IDLE {
            guard.alarms.clear(Trouble::Unread);
        }
        let (longest, at_work) = engine.workers.longest();
        if longest < STALL {
            stalled = false;
            systemd.notify("WATCHDOG=1");
        } else if !stalled {
            stalled = true;
            engine.counts.stalls.one();
            say(&format!(
                "palisaded: alarm: a question of the kernel has been waiting for {longest} ms ({at_work} threads at work)"
            ));
        }
        let is_kept = kept_since.is_some_and(|since: Instant| since.elapsed() > Duration::from_millis(END));
        if is_kept || longest > END && at_work >= THREADS {
            say(
                "palisaded: alarm: no thread answers the kernel any more; palisaded ends, and the host continues unguarded",
            );
            saying::finish();
            std::process::abort();
        }
        let questions = engine.counts.questions.get();
        let patience = if unread.is_some() {
            UNREAD
        } else if at_work > 0 || questions != before {
            BUSY
        } else {
            IDLE
        };
        before = questions;
        let patience = if nursery.is_some() { patience } else { patience.min(AGAIN) };
        match &mut standby {
            Some(standby) => standby.wait(patience, nursery.as_ref().map(Nursery::news)),
            // Without a standby, nothing reports unread questions.
            None => std::thread::sleep(patience.min(BUSY)),
        }
    }
}

/// What the standby answers while no guard judges.
fn answer_when_stopped(guard: &Guard) -> OnStop {
    let closed = guard.engine.is_enforcing() && guard.engine.policy().settings.on_stop == OnStop::Closed;
    if closed { OnStop::Closed } else { OnStop::Open }
}

/// Answers the question of a thread that a tracer has stopped, because no other thread would. A thread that works for long
/// continues.
fn answer_for(engine: &Engine, thread: i32, file: RawFd, answer: OnStop) {
    let own = std::process::id();
    if u32::try_from(thread).is_ok_and(|thread| standby::is_stopped(own, thread)) {
        let reply = Reply { allow: standby::allows(answer, own, file), audit: None };
        let _is_answered = engine.gate().answer_number(file, reply);
    }
}

/// Ensures that a standby runs and knows what to answer.
fn look_after(standby: &mut Option<Standby>, guard: &Guard, answer: OnStop) {
    if let Some(standby) = standby {
        if standby.is_there(guard.engine.gate(), answer) {
            if standby.stands() {
                guard.alarms.clear(Trouble::NoStandby);
            }
            return;
        }
        let what = "the standby process, which answers while palisaded is stopped, has ended".to_owned();
        guard.alarms.raise_once(Trouble::NoStandby, what);
    }
    match Standby::start() {
        Ok(started) => {
            *standby = Some(started);
        }
        Err(error) => {
            *standby = None;
            let what =
                format!("can't start the standby process, which answers while palisaded is stopped: {error}");
            guard.alarms.raise_once(Trouble::NoStandby, what);
        }
    }
}

/// Ensures that a libmagic process runs. The first one runs when the guard begins.
fn look_after_kinds(nursery: &mut Option<Nursery>, begun: &mut Instant, guard: &Guard) {
    if let Some(process) = nursery {
        if process.is_there(&guard.kinds) {
            if process.is_ready() {
                guard.alarms.clear(Trouble::NoKinds);
            }
            return;
        }
        *nursery = None;
        let what =
            "the libmagic process has ended: palisaded determines kinds of files without libmagic".to_owned();
        guard.alarms.raise_once(Trouble::NoKinds, what);
    }
    if begun.elapsed() < AGAIN {
        return;
    }
    *begun = Instant::now();
    match Nursery::start() {
        Ok(started) => *nursery = Some(started),
        Err(error) => {
            let what = format!(
                "can't start the libmagic process, so kinds of files are determined without it: {error}"
            );
            guard.alarms.raise_once(Trouble::NoKinds, what);
        }
    }
}
