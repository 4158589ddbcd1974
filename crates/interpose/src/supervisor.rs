// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The supervisor: meets every program of a run at its first instruction. It watches a thread (by ptrace) only from
//! the request to execute a program until that program begins. So traps and signals of running programs don't stop
//! for a tracer.

use crate::image;
use crate::injection::{self, Given};
use crate::layout::{
    FAILED, FIRST, GRANTED, REFUSED, REQUESTS, Request, SITES, STATE, Shared, State, VACANT, WANTED,
};
use crate::segment::Segment;
use libc::{c_int, c_void, pid_t};
use std::collections::HashMap;
use std::io::Error;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// How long to wait before checking whether other processes of the run still exist.
const LOOK: Duration = Duration::from_millis(10);
/// A run that has taken this long isn't small, and gets the rest of the image.
const SMALL: Duration = Duration::from_millis(2);

/// The word to change and wake when a child or a watched thread has changed.
static DOORBELL: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
/// The process that signals are passed on to.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// Whether a signal has asked for the run's end. The supervisor doesn't wait then for processes that outlive the
/// command.
static ENDS: AtomicBool = AtomicBool::new(false);

extern "C" fn changed(_: c_int) {
    let doorbell = DOORBELL.load(Ordering::Acquire);
    if let Some(doorbell) = NonNull::new(doorbell) {
        // The signal may have come to another thread than the one that waits.
        // SAFETY: needed: a handler has no arguments of ours, and only the kernel wakes threads. Sound: the segment is attached
        // while the handler is in place, the word is atomic, and FUTEX_WAKE touches no memory. Both are allowed in a handler.
        unsafe {
            doorbell.as_ref().fetch_add(1, Ordering::AcqRel);
            libc::syscall(libc::SYS_futex, doorbell.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
        }
    }
}

extern "C" fn pass_on(signal: c_int, info: *const libc::siginfo_t, _: *const c_void) {
    // The terminal sends its signals to the command, too.
    // SAFETY: needed: the kernel gives handlers only the address. Sound: with SA_SIGINFO, which `Ears::new` sets, it is that of
    // a whole siginfo that lives until the handler returns.
    let by_kernel = unsafe { (*info).si_code } > 0;
    let child = CHILD.load(Ordering::Acquire);
    let ends = matches!(signal, libc::SIGTERM | libc::SIGHUP | libc::SIGINT | libc::SIGQUIT);
    if ends && (!by_kernel || child == 0) {
        ENDS.store(true, Ordering::Release);
        changed(signal);
    }
    if !by_kernel && child > 0 {
        // SAFETY: needed: only the kernel sends signals. Sound: the call touches no memory, and a handler may make
        // it. `child` isn't reaped yet, or CHILD would be 0, so the number can't belong to another process.
        unsafe { libc::kill(child, signal) };
    }
}

/// Signal handlers that notice changes of children, and pass signals on, as long as this value lives.
pub(crate) struct Ears(Vec<(c_int, libc::sigaction)>);

impl Ears {
    /// Sets the handlers; signals are passed on to this child.
    pub(crate) fn new(shared: &Shared, child: pid_t) -> Self {
        CHILD.store(child, Ordering::Release);
        ENDS.store(false, Ordering::Release);
        DOORBELL.store((&raw const shared.doorbell).cast_mut(), Ordering::Release);
        let passed = [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];
        let pass_on = pass_on as *const () as usize;
        let mut before = vec![set(libc::SIGCHLD, changed as *const () as usize, 0)];
        before.extend(passed.map(|signal| set(signal, pass_on, libc::SA_SIGINFO | libc::SA_RESTART)));
        Self(before)
    }
}

impl Drop for Ears {
    fn drop(&mut self) {
        for (signal, before) in &self.0 {
            // SAFETY: needed: only the kernel sets handlers. Sound: it reads `before`, which lives until the call returns and
            // is what `set` got from the kernel, so its handler is still in this program.
            unsafe { libc::sigaction(*signal, before, null_mut()) };
        }
        DOORBELL.store(null_mut(), Ordering::Release);
        CHILD.store(0, Ordering::Release);
    }
}

fn set(signal: c_int, handler: usize, flags: c_int) -> (c_int, libc::sigaction) {
    // SAFETY: needed: only the kernel sets handlers. Sound: all fields of a sigaction are numbers or an optional pointer, for
    // which zero is valid; the handlers above use atomics, kill and futex only, which handlers may.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        libc::sigaction(signal, &raw const action, &raw mut before);
        (signal, before)
    }
}

/// The state of the supervisor.
#[derive(Debug)]
pub(crate) struct Supervisor<'a> {
    shared: &'a Shared,
    /// The image, as long as it is incomplete.
    code: Option<&'a mut Segment>,
    given: Given,
    child: pid_t,
    status: Option<c_int>,
    /// Watched threads, and the requests that they made.
    watched: HashMap<pid_t, Option<usize>>,
    /// How many programs couldn't be prepared.
    pub(crate) unprepared: u64,
    /// How many programs were sent to attach the image. Another user's program, or one in another IPC namespace,
    /// can't attach it.
    pub(crate) prepared: u64,
}

/// The C libraries declare requests with different signs.
#[cfg(target_env = "musl")]
type Asked = c_int;
#[cfg(not(target_env = "musl"))]
type Asked = libc::c_uint;

fn ptrace(request: Asked, process: pid_t, data: usize) -> Result<(), Error> {
    // SAFETY: needed: only the kernel traces processes. Sound: none of the requests made here reads or writes memory of this
    // process.
    let answer = unsafe {
        libc::ptrace(request, process, null_mut::<c_void>(), std::ptr::without_provenance_mut::<c_void>(data))
    };
    if answer < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

impl<'a> Supervisor<'a> {
    /// The supervisor of a child that waits and is about to execute the first program.
    pub(crate) fn new(shared: &'a Shared, given: Given, child: pid_t) -> Result<Self, Error> {
        let watched = HashMap::new();
        let mut new =
            Self { shared, code: None, given, child, status: None, watched, unprepared: 0, prepared: 0 };
        new.watch(child, None)?;
        Ok(new)
    }

    /// Makes the part of the image that the first program needs. Call it before [`attend`](Self::attend).
    pub(crate) fn make_image(&mut self, code: &'a mut Segment) {
        image::write(code.bytes());
        write_bodies(code, 0..FIRST);
        self.shared.bodies.store(u32::try_from(FIRST).unwrap_or_default(), Ordering::Release);
        self.code = Some(code);
    }

    /// Makes the rest of the image, if it is missing.
    pub(crate) fn complete_image(&mut self) {
        if let Some(code) = self.code.take() {
            write_bodies(code, FIRST..SITES);
            self.shared.bodies.store(u32::try_from(SITES).unwrap_or_default(), Ordering::Release);
            wake(&self.shared.bodies);
        }
    }

    fn watch(&mut self, thread: pid_t, request: Option<usize>) -> Result<(), Error> {
        ptrace(libc::PTRACE_SEIZE, thread, usize::try_from(libc::PTRACE_O_TRACEEXEC).unwrap_or_default())?;
        self.watched.insert(thread, request);
        Ok(())
    }

    /// Serves until the child has ended, and `others` reports no other processes; returns the child's status. Calls
    /// `meanwhile` when the first program has been let go.
    pub(crate) fn attend(&mut self, mut others: impl FnMut() -> bool, meanwhile: impl FnOnce()) -> c_int {
        let mut meanwhile = Some(meanwhile);
        loop {
            let rung = self.shared.doorbell.load(Ordering::Acquire);
            while self.hear() {}
            self.answer();
            if self.watched.is_empty()
                && self.status.is_none()
                && let Some(meanwhile) = meanwhile.take()
            {
                meanwhile();
            }
            if self.shared.wanted.load(Ordering::Acquire) != 0 {
                self.complete_image();
            }
            if let Some(status) = self.status
                && (ENDS.load(Ordering::Acquire) || !others())
            {
                return status;
            }
            let wait = match (&self.code, self.status) {
                (Some(_), _) => SMALL,
                (None, Some(_)) => LOOK,
                (None, None) => Duration::from_secs(1),
            };
            if !self.sleep(rung, wait) {
                self.complete_image();
            }
        }
    }

    /// Sleeps until the doorbell rings, or for this time; returns whether it has rung.
    fn sleep(&self, rung: u32, most: Duration) -> bool {
        let most = libc::timespec {
            tv_sec: i64::try_from(most.as_secs()).unwrap_or_default(),
            tv_nsec: i64::from(most.subsec_nanos()),
        };
        let word = self.shared.doorbell.as_ptr();
        // SAFETY: needed: only the kernel suspends a thread. Sound: FUTEX_WAIT reads the word, which lives until the call
        // returns, and writes nothing. A signal's handler changes the word, so none is missed.
        let answer = unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, rung, &raw const most) };
        answer == 0 || Error::last_os_error().raw_os_error() != Some(libc::ETIMEDOUT)
    }

    fn request(&self, number: usize) -> &'a Request {
        &self.shared.requests[number % REQUESTS]
    }

    /// Sets the state of a thread's request and wakes the thread.
    fn tell(&self, number: usize, state: u32) {
        let word = &self.request(number).state;
        word.store(state, Ordering::Release);
        wake(word);
    }

    /// Handles the threads' requests.
    fn answer(&mut self) {
        for number in 0..REQUESTS {
            let request = self.request(number);
            let state = request.state.load(Ordering::Acquire);
            if state != WANTED && state != FAILED {
                continue;
            }
            let Ok(thread) = pid_t::try_from(request.thread.load(Ordering::Relaxed)) else { continue };
            if state == FAILED {
                // The thread stops, and is detached at that stop.
                if ptrace(libc::PTRACE_INTERRUPT, thread, 0).is_err() {
                    self.watched.remove(&thread);
                    self.tell(number, VACANT);
                }
                continue;
            }
            let proof = request.nonce.load(Ordering::Relaxed);
            let known = nonce(thread) == Some(proof);
            if known && self.watch(thread, Some(number)).is_ok() {
                self.tell(number, GRANTED);
                // This runs while the kernel reads the program. A run of more than one program isn't small.
                self.complete_image();
            } else {
                self.tell(number, REFUSED);
            }
        }
    }

    /// Handles one event of the child or a watched thread; returns whether there was one.
    fn hear(&mut self) -> bool {
        let mut status = 0;
        // SAFETY: needed: only the kernel reports changes of children. Sound: it writes one number into `status`,
        // which lives until the call returns.
        let process = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) };
        if process <= 0 {
            return false;
        }
        if !libc::WIFSTOPPED(status) {
            if process == self.child {
                self.status = Some(status);
                CHILD.store(0, Ordering::Release);
            }
            self.forget(process);
            return true;
        }
        let signal = libc::WSTOPSIG(status);
        match status >> 16 {
            libc::PTRACE_EVENT_EXEC => {
                let former = former(process).unwrap_or(process);
                match injection::prepare(process, self.given) {
                    Ok(()) => self.prepared += 1,
                    Err(_) => self.unprepared += 1,
                }
                let _gone = ptrace(libc::PTRACE_DETACH, process, 0);
                self.forget(process);
                self.forget(former);
            }
            libc::PTRACE_EVENT_STOP => {
                let request = self.watched.get(&process).copied().flatten();
                let failed = request
                    .is_some_and(|number| self.request(number).state.load(Ordering::Acquire) == FAILED);
                if failed {
                    let _gone = ptrace(libc::PTRACE_DETACH, process, 0);
                    self.forget(process);
                } else {
                    let stopped =
                        matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU);
                    let on = if stopped { libc::PTRACE_LISTEN } else { libc::PTRACE_CONT };
                    let _gone = ptrace(on, process, 0);
                }
            }
            _ => {
                let _gone = ptrace(libc::PTRACE_CONT, process, usize::try_from(signal).unwrap_or_default());
            }
        }
        true
    }

    /// Removes a thread that is no longer watched, and frees its request's place.
    fn forget(&mut self, thread: pid_t) {
        if let Some(Some(number)) = self.watched.remove(&thread) {
            self.tell(number, VACANT);
        }
    }
}

/// Writes bodies with these numbers, and their traps.
fn write_bodies(code: &mut Segment, numbers: Range<usize>) {
    image::write_bodies(code.part(image::bodies(&numbers)), numbers.start);
    image::write_traps(code.part(image::traps(&numbers)), numbers.start);
}

/// Wakes all threads that wait for a word, in all processes.
fn wake(word: &AtomicU32) {
    // SAFETY: needed: only the kernel wakes waiting threads. Sound: FUTEX_WAKE uses the address of the word as a key and
    // neither reads nor writes memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// The former number of the thread that has executed the program of this process.
fn former(process: pid_t) -> Option<pid_t> {
    let mut message: libc::c_ulong = 0;
    // SAFETY: needed: only the kernel knows the number. Sound: PTRACE_GETEVENTMSG writes one `unsigned long` into `message`,
    // which lives until the call returns.
    let answer = unsafe {
        libc::ptrace(
            libc::PTRACE_GETEVENTMSG,
            process,
            null_mut::<c_void>(),
            (&raw mut message).cast::<c_void>(),
        )
    };
    if answer < 0 { None } else { pid_t::try_from(message).ok() }
}

/// The proof in a process's own memory that it made a request: numbers in another PID namespace mean other processes.
fn nonce(thread: pid_t) -> Option<u64> {
    let mut found = 0_u64;
    let local = libc::iovec { iov_base: (&raw mut found).cast(), iov_len: 8 };
    let address = STATE + std::mem::offset_of!(State, nonce);
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: 8 };
    // SAFETY: needed: only the kernel reads another process's memory. Sound: it writes at most the eight bytes of `found`, as
    // `local` says, which live until the call returns; the other address is only read, and only there.
    let read = unsafe { libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0) };
    (read == 8).then_some(found)
}
