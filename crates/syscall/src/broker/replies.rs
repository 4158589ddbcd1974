// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Syscall replies that a policy states: made-up values, other files, descriptors, questions to the user.
//!
//! Calls are selected by their number and by the values of their arguments, which the kernel has copied. Calls with a
//! path get a reply if they lead to one of a few paths; all others go on as if there were no replies. If a caller
//! exchanges its path during the call, it gets another file than the policy intended, but only a file that it could
//! open anyway: the sandbox's walls decide what can be opened at all.

use crate::broker::caller::{Caller, path_of};
use crate::broker::clock::Clock;
use crate::broker::how::{How, Opened as File};
use crate::broker::open::CWD_NUMBER;
use crate::broker::resolve::{Last, Spot, c_string};
use crate::broker::unlearned::Fate;
use crate::broker::{Outcome, Worker, calls};
use crate::{Arch, Call, Passed, Test};
use palisade_sys::notify::{self, Notification};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

/// The replies that a policy states.
#[derive(Clone, Debug, Default)]
pub struct PolicyReplies {
    /// Replies to calls, in the order in which they are tried.
    pub calls: Vec<PolicyReply>,
    /// Replies to opening paths.
    pub opens: Vec<Open>,
    /// The result of `uname`, if it isn't the kernel's: six fields of [`FIELD`] bytes.
    pub machine: Vec<u8>,
    /// The time of day at which the sandbox's clock starts, in seconds since 1970. `None`: the host's clock counts.
    pub start: Option<i64>,
    /// Which calls are passed on for other reasons.
    pub passed: Passed,
}

/// A reply to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyReply {
    /// The call's number.
    pub number: u32,
    /// Conditions on its arguments.
    pub tests: Vec<Test>,
    /// The reply.
    pub made: Made,
}

/// The result that the broker gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Made {
    /// The call returns this value.
    Value(i64),
    /// The user is asked.
    Question,
    /// `uname`: the policy's machine.
    Machine,
    /// `sched_getaffinity`: this many processors.
    Processors(u32),
    /// The result by the sandbox's own clock.
    Clock,
}

/// A reply to opening a path.
#[derive(Clone, Debug)]
pub struct Open {
    /// The path, as seen inside.
    pub path: Vec<u8>,
    /// The file that is opened.
    pub file: Opened,
}

/// The file that is opened instead.
#[derive(Clone, Debug)]
pub enum Opened {
    /// Another path, as seen inside.
    Path(Vec<u8>),
    /// One of the descriptors that the broker was given.
    Given(usize),
}

/// The length of a field of `struct utsname`.
pub const FIELD: usize = 65;

/// Gives the replies; holds what they need.
pub(crate) struct Replier {
    answers: PolicyReplies,
    given: Vec<OwnedFd>,
    /// The paths of `opens` with the links of their directories resolved. Filled at the first opening.
    paths: OnceLock<Vec<Vec<u8>>>,
    clock: Option<Clock>,
}

impl Replier {
    pub(crate) fn new(answers: PolicyReplies, given: Vec<OwnedFd>) -> Self {
        let clock = answers.start.map(Clock::starting_at);
        Self { answers, given, paths: OnceLock::new(), clock }
    }

    pub(super) fn dispatch(&self, worker: &Worker<'_>, call: &Notification) -> Result<Outcome, Errno> {
        let number = u32::try_from(call.number).unwrap_or(u32::MAX);
        let fits = |answer: &&PolicyReply| {
            answer.number == number && answer.tests.iter().all(|test| test.holds(&call.arguments))
        };
        let caller = &Caller::new(worker, call);
        match (0..).zip(&self.answers.calls).find(|(_, answer)| fits(answer)) {
            Some((index, answer)) => self.make(worker, caller, answer.made, index),
            None => match self.opened(worker, caller)? {
                Some(outcome) => Ok(outcome),
                None => self.proceed(worker, call),
            },
        }
    }

    fn make(
        &self,
        worker: &Worker<'_>,
        caller: &Caller<'_>,
        made: Made,
        index: u32,
    ) -> Result<Outcome, Errno> {
        match made {
            Made::Value(value) => Ok(Outcome::Value(value)),
            Made::Machine => {
                caller.put(0, &self.answers.machine)?;
                Ok(Outcome::Value(0))
            }
            Made::Processors(count) => processors(caller, count),
            Made::Clock => match &self.clock {
                Some(clock) => clock.answer(worker, caller),
                None => Err(Errno::NOSYS),
            },
            Made::Question => match &worker.shared.judge {
                Some(judge) => judge.decide(worker, caller.call, Fate::Ask { kill: false }, index + 1),
                None => Err(Errno::PERM),
            },
        }
    }

    /// Handles a call that has no reply.
    fn proceed(&self, worker: &Worker<'_>, call: &Notification) -> Result<Outcome, Errno> {
        let number = u32::try_from(call.number).unwrap_or(u32::MAX);
        if let Some(judge) = &worker.shared.judge
            && judge.is_asked_of(number)
        {
            return judge.dispatch(worker, call);
        }
        let seen = Call { audit_arch: call.audit_arch, number, arguments: call.arguments };
        if self.answers.passed.has(&seen, Arch::NATIVE) { worker.make(call) } else { Ok(Outcome::Continue) }
    }

    /// Opens another file, if the call opens a path that has a reply.
    fn opened(&self, worker: &Worker<'_>, caller: &Caller<'_>) -> Result<Option<Outcome>, Errno> {
        /// `O_CREAT|O_WRONLY|O_TRUNC`.
        const CREAT: i32 = 0o100 | 0o1 | 0o1000;
        if self.answers.opens.is_empty() {
            return Ok(None);
        }
        let (descriptor, path, how) = match calls::name_of(caller.call) {
            "open" => (CWD_NUMBER, 0, How::new(caller.int(1), caller.unsigned(2))),
            "openat" => (caller.int(0), 1, How::new(caller.int(2), caller.unsigned(3))),
            "creat" => (CWD_NUMBER, 0, How::new(CREAT, caller.unsigned(1))),
            _ => return Ok(None),
        };
        // If this fails, the call also fails in the kernel or in the broker.
        let Ok(how) = how else { return Ok(None) };
        let Ok(path) = caller.path(path) else { return Ok(None) };
        let Ok(Some(open)) = self.answer_to(caller, descriptor, &path, how) else { return Ok(None) };
        let outcome = match &open.file {
            Opened::Path(path) => worker.open_instead(caller, &c_string(path)?, how)?,
            Opened::Given(index) => {
                let file = self.given.get(*index).ok_or(Errno::NOENT)?;
                how.fits(file.as_fd())?;
                let file = rustix::io::fcntl_dupfd_cloexec(file, 3)?;
                // A descriptor that the policy gives is passed on as it is.
                Outcome::File(how.given(File { file, new: true })?)
            }
        };
        Ok(Some(outcome))
    }

    /// The reply to opening a path: to the path itself, or to one of the links that its last component leads through.
    fn answer_to(
        &self,
        caller: &Caller<'_>,
        descriptor: i32,
        path: &core::ffi::CStr,
        how: How,
    ) -> Result<Option<&Open>, Errno> {
        let mut spot = caller.resolve(descriptor, path)?;
        for _ in 0..40 {
            let (found, place) = match spot {
                Spot::Object(object) => (path_of(object.as_fd())?, None),
                Spot::Name(place) => (place.path()?, Some(place)),
            };
            let paths = self.paths.get_or_init(|| self.resolved());
            if let Some(index) = paths.iter().position(|path| *path == found) {
                return Ok(self.answers.opens.get(index));
            }
            let Some(place) = place.filter(|_place| how.follows()) else { return Ok(None) };
            let link = rustix::fs::readlinkat(&place.parent, &*c_string(place.plain())?, Vec::new());
            if link.is_err() {
                return Ok(None);
            }
            spot = caller.follow(place, Last::Follow)?;
        }
        Ok(None)
    }

    fn resolved(&self) -> Vec<Vec<u8>> {
        let resolve = |path: &[u8]| -> Result<Vec<u8>, Errno> {
            let slash = path.iter().rposition(|byte| *byte == b'/').ok_or(Errno::INVAL)?;
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = rustix::fs::openat(CWD, &*c_string(&path[..=slash])?, flags, Mode::empty())?;
            let mut real = path_of(directory.as_fd())?;
            if real.last() != Some(&b'/') {
                real.push(b'/');
            }
            real.extend_from_slice(&path[slash + 1..]);
            Ok(real)
        };
        let paths = self.answers.opens.iter().map(|open| &open.path);
        // If the directory of a path doesn't exist, the path is used as written.
        paths.map(|path| resolve(path).unwrap_or_else(|_missing| path.clone())).collect()
    }
}

/// Writes a mask of `count` processors, as the kernel does.
fn processors(caller: &Caller<'_>, count: u32) -> Result<Outcome, Errno> {
    let length = usize::try_from(caller.unsigned(1)).unwrap_or(0);
    let count = usize::try_from(count).unwrap_or(1);
    // The kernel accepts whole words of 64 bits, and needs room for all.
    if length % 8 != 0 || length * 8 < count {
        return Err(Errno::INVAL);
    }
    let mut mask = vec![0u8; count.div_ceil(64) * 8];
    for index in 0..count {
        if let Some(byte) = mask.get_mut(index / 8) {
            *byte |= 1 << (index % 8);
        }
    }
    caller.put(2, &mask)?;
    i64::try_from(mask.len()).map(Outcome::Value).map_err(|_too_many| Errno::INVAL)
}

impl Caller<'_> {
    /// Writes a result to the address in argument `index`.
    ///
    /// The caller checks that the call still waits, so the memory belongs to the caller. Between the check and the
    /// writing the caller could be killed and its number could go to another process, but only to one of the same
    /// sandbox: the broker can't write to other processes.
    pub(super) fn put(&self, index: usize, bytes: &[u8]) -> Result<(), Errno> {
        if !self.waits() {
            return Err(Errno::SRCH);
        }
        match notify::write_memory(self.call.thread, self.argument(index), bytes)? {
            written if written == bytes.len() => Ok(()),
            _ => Err(Errno::FAULT),
        }
    }
}
