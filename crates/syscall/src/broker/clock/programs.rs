// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs are met at their first instruction, and their vDSO is hidden: they would read the host's clock in their own
//! memory.
//!
//! Whoever is about to execute a program waits for the answer to its call meanwhile. So it is watched from before that
//! answer to when the program stands ready, or the call has failed: at no other time is it anybody's tracee. Each has a
//! thread of its own to watch it (see [`Tracee`]).

use crate::broker::Shared;
use crate::broker::report::Report;
use palisade_sys::notify::{Notification, Reply};
use palisade_sys::tracee::{Stop, Tracee};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// What is known of programs that begin.
#[derive(Default)]
pub(crate) struct Programs {
    /// The command has asked to be watched.
    begun: AtomicBool,
    /// The thread that has, until it has executed its program; 0: none.
    first: AtomicU32,
}

impl Programs {
    /// Watches a thread that is about to execute a program, has the kernel make the call, and hides the vDSO.
    pub(in crate::broker) fn meet(&self, shared: &Arc<Shared>, call: &Notification) {
        let first = !self.begun.swap(true, Ordering::AcqRel);
        if !first && self.first.load(Ordering::Acquire) == call.thread {
            let _nobody_waits = shared.listener.answer(call.id, Reply::Continue);
            return;
        }
        let watcher = {
            let (shared, call) = (Arc::clone(shared), *call);
            move || if first { watch_first(&shared, &call) } else { watch(&shared, &call) }
        };
        // Its filter is that of the worker which starts it.
        if std::thread::Builder::new().stack_size(64 * 1024).spawn(watcher).is_err() {
            refuse(shared, call, Errno::AGAIN);
        }
    }
}

fn refuse(shared: &Shared, call: &Notification, errno: Errno) {
    let _nobody_waits = shared.listener.answer(call.id, Reply::Error(errno));
}

/// Watches the command, which has asked for it, until it has executed its program. It can't be seized later: it is of
/// its launcher's memory still.
fn watch_first(shared: &Shared, call: &Notification) {
    let Some(programs) = &shared.programs else { return };
    let mut tracee = match Tracee::seize(call.thread) {
        Ok(tracee) => tracee,
        Err(errno) => return refuse(shared, call, errno),
    };
    programs.first.store(call.thread, Ordering::Release);
    let _nobody_waits = shared.listener.answer(call.id, Reply::Value(0));
    loop {
        let stop = tracee.wait();
        if matches!(stop, Stop::Executed | Stop::Ended) {
            programs.first.store(0, Ordering::Release);
        }
        // What can't go on has been killed, which is what is heard next.
        let _killed = match stop {
            Stop::Executed => return prepare(shared, tracee),
            Stop::Ended => return,
            Stop::Asked | Stop::Call => tracee.go_on(0),
            Stop::Group(_) => tracee.stay(),
            Stop::Signal(signal) => tracee.go_on(signal),
        };
    }
}

/// Watches a thread until its call is over.
fn watch(shared: &Shared, call: &Notification) {
    let mut tracee = match Tracee::seize(call.thread) {
        Ok(tracee) => tracee,
        // Whoever is traced by another inside can't be watched, and its program would see the host's clock.
        Err(errno) => return refuse(shared, call, errno),
    };
    // Whatever comes of the call, it stops at the end. If it has been killed, that is what is heard.
    let _killed = tracee.interrupt();
    // Without anybody who waits, the number may be another's by now, who isn't the sandbox's: its program is let alone.
    let waits = shared.listener.answer(call.id, Reply::Continue).is_ok();
    match tracee.wait() {
        Stop::Executed if waits => prepare(shared, tracee),
        Stop::Executed => drop(tracee.detach(0)),
        // It has failed, or is to be made again.
        Stop::Asked | Stop::Group(_) | Stop::Call => drop(tracee.detach(0)),
        Stop::Signal(signal) => drop(tracee.detach(signal)),
        Stop::Ended => {}
    }
}

/// Lets a program begin, without its vDSO. One that can't be had so is ended: with this thread its tracee is.
fn prepare(shared: &Shared, tracee: Tracee) {
    match tracee.hide_vdso() {
        Ok(_hidden_or_none) => drop(tracee.detach(0)),
        // It has been killed.
        Err(Errno::SRCH) => {}
        Err(errno) => {
            let report =
                Report::Overload { call: "execve without a vDSO".to_owned(), errno: errno.raw_os_error() };
            shared.reporter.insist(&report);
        }
    }
}
