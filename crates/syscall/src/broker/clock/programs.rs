// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stops each new program at its first instruction and hides its vDSO. With the vDSO the program would read the
//! host's clock in its own memory.
//!
//! A thread that is about to execute a program waits for the answer to its call. The broker traces the thread from
//! before that answer until the program stands ready or the call has failed. At no other time does the broker trace
//! it. Each traced thread has a watching thread of its own (see [`Tracee`]).

use crate::broker::Shared;
use crate::broker::report::Report;
use palisade_sys::notify::{Notification, Reply};
use palisade_sys::tracee::{Stop, Tracee};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// State about programs that start.
#[derive(Default)]
pub(crate) struct Programs {
    /// The command has asked to be traced.
    begun: AtomicBool,
    /// The thread that asked, until it has executed its program. 0 means none.
    first: AtomicU32,
}

impl Programs {
    /// Traces a thread that is about to execute a program, has the kernel make the call, and hides the vDSO.
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
        // The new thread inherits the filter of the worker that starts it.
        if std::thread::Builder::new().stack_size(64 * 1024).spawn(watcher).is_err() {
            refuse(shared, call, Errno::AGAIN);
        }
    }
}

fn refuse(shared: &Shared, call: &Notification, errno: Errno) {
    let _nobody_waits = shared.listener.answer(call.id, Reply::Error(errno));
}

/// Traces the command, at its request, until it has executed its program. A later attach isn't possible: the process
/// still shares the memory of its launcher.
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
        // If the tracee can't continue, it was killed. The next wait reports that.
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
        // A thread that another process inside traces can't be attached. Its program would see the host's clock, so
        // the call is refused.
        Err(errno) => return refuse(shared, call, errno),
    };
    // The tracee stops at the end of the call, whatever its result is. If it was killed, the wait below reports that.
    let _killed = tracee.interrupt();
    // If the call no longer waits, the number may belong to a process outside this sandbox. Its program must stay
    // unchanged.
    let waits = shared.listener.answer(call.id, Reply::Continue).is_ok();
    match tracee.wait() {
        Stop::Executed if waits => prepare(shared, tracee),
        Stop::Executed => drop(tracee.detach(0)),
        // The call has failed, or the kernel will restart it.
        Stop::Asked | Stop::Group(_) | Stop::Call => drop(tracee.detach(0)),
        Stop::Signal(signal) => drop(tracee.detach(signal)),
        Stop::Ended => {}
    }
}

/// Lets a program start without its vDSO. If the vDSO can't be hidden, the program is ended: the kernel kills the
/// tracee when this thread ends.
fn prepare(shared: &Shared, tracee: Tracee) {
    match tracee.hide_vdso() {
        Ok(_hidden_or_none) => drop(tracee.detach(0)),
        // The tracee was killed.
        Err(Errno::SRCH) => {}
        Err(errno) => {
            let report =
                Report::Overload { call: "execve without a vDSO".to_owned(), errno: errno.raw_os_error() };
            shared.reporter.insist(&report);
        }
    }
}
