// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts an interposed command, and collects the result.

use std::ffi::CString;
use std::io::Error;
use std::process::ExitStatus;

/// The answers that calls get in place of the kernel's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fakes {
    /// The process's number, of every process.
    pub pid: Option<u32>,
    /// The host's name, of up to 64 bytes without a zero.
    pub host: Option<Vec<u8>>,
    /// The kernel's release, likewise.
    pub release: Option<Vec<u8>>,
    /// By how many seconds the clock is ahead.
    pub ahead: Option<i64>,
    /// How many processors a process may use.
    pub cpus: Option<u32>,
}

/// A call that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Its number.
    pub number: u32,
    /// The thread's number in its own PID namespace.
    pub thread: u32,
    /// All six argument registers, even if the call has fewer arguments.
    pub arguments: [u64; 6],
    /// What it returned; -4095 to -1: an error's number, negated.
    pub result: i64,
}

/// A command, and what to do with its calls.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program's file.
    pub program: CString,
    /// Its arguments, beginning with its own name.
    pub arguments: Vec<CString>,
    /// Its environment, `NAME=value`.
    pub environment: Vec<CString>,
    /// Whether calls are counted.
    pub count: bool,
    /// Whether the time of calls is counted, too. Not possible while calls are logged.
    pub time: bool,
    /// Whether call sites are listed.
    pub sites: bool,
    /// Whether the vDSO is hidden from programs, so that they read clocks by system calls. It is also hidden if the
    /// clock is ahead.
    pub hide_vdso: bool,
    /// Answers in place of the kernel's.
    pub fakes: Fakes,
    /// Whether to wait for all processes of the run when the command has ended.
    pub wait: bool,
    /// Work that this process does while the command runs its first instructions, when the caller's processor would
    /// be idle. Its result is used for the report afterwards.
    pub meanwhile: fn(),
}

/// How often a call was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// The call's number.
    pub number: u32,
    /// How often it returned.
    pub calls: u64,
    /// How often of these with an error.
    pub errors: u64,
    /// Their time in nanoseconds, if it was counted: wall-clock time from making the call to its return.
    pub nanoseconds: u64,
}

/// A file from which code was executed, and the call sites in it that were found by trap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct File {
    /// Its path as the kernel writes it: the first 256 bytes.
    pub path: Vec<u8>,
    /// Places of `syscall` instructions in the file.
    pub sites: Vec<u64>,
}

/// Call sites that were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// By file: each file that was mapped executable when a site was found, whether the site is in it or not.
    pub files: Vec<File>,
    /// Addresses of sites in no file: in the vDSO, or in code that programs have written.
    pub elsewhere: Vec<u64>,
    /// How many sites there was no room for.
    pub unlisted: u64,
}

/// The result of a command.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// Of each call that was made, by number.
    pub counts: Vec<Count>,
    /// How many programs were interposed.
    pub images: u64,
    /// How many programs were executed without interposition: 32-bit ones, those of other users, those that may not
    /// be traced.
    pub lost: u64,
    /// How often a call trapped.
    pub traps: u64,
    /// How many call sites were patched.
    pub patched: u64,
    /// How many call sites couldn't be patched.
    pub unpatchable: u64,
    /// How many calls were not logged, because they came faster than the reader took them.
    pub dropped: u64,
    /// How many calls the handler answered because there was no body.
    pub bodiless: u64,
    /// Call sites, if they were asked for.
    pub found: Found,
}

/// Why a command couldn't be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// Shared memory can't be made.
    #[error("can't make shared memory: {0}")]
    Segment(Error),
    /// No process can be made.
    #[error("can't start a process: {0}")]
    Process(Error),
    /// The process may not be traced.
    #[error("can't trace the process that becomes the command: {0}")]
    Watch(Error),
    /// It can't be executed.
    #[error("can't execute {program}: {source}")]
    Execute {
        /// The program.
        program: String,
        /// Why.
        source: Error,
    },
    /// There is no code for this architecture.
    #[error("programs can be interposed only on x86-64")]
    Architecture,
}

/// Reports that programs can't be interposed on this architecture.
///
/// # Errors
///
/// Always.
#[cfg(not(target_arch = "x86_64"))]
pub fn launch(_: &Launch, _: Option<&mut (dyn FnMut(Call) + Send)>) -> Result<Outcome, LaunchError> {
    Err(LaunchError::Architecture)
}

#[cfg(target_arch = "x86_64")]
pub use here::launch;

#[cfg(target_arch = "x86_64")]
mod here {
    use super::{Call, Count, Fakes, File, Found, Launch, LaunchError, Outcome};
    use crate::injection::Given;
    use crate::layout::{
        ANONYMOUS, CALLS, CODE_LENGTH, COUNT, FAKE_CPUS, FAKE_HOST, FAKE_PID, FAKE_RELEASE, FAKE_TIME, LIST,
        LOG, NAME, OFFSET, RECORDS, Shared, TIME,
    };
    use crate::segment::Segment;
    use crate::supervisor::{Ears, Supervisor};
    use palisade_sys::suspended::SuspendedChild;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    /// How long the log's reader sleeps when the log is empty.
    const PAUSE: Duration = Duration::from_micros(500);
    /// How many times it sleeps for an incomplete record.
    const PATIENCE: u32 = 200;
    /// How many pairs of clock readings are made.
    const READINGS: u32 = 8;

    /// Starts a command, and serves it until it has ended. The process must have one thread. Signals that are sent to
    /// this process meanwhile are passed on to the command. Each call is given to `log`, if there is one, in the
    /// order of the calls' returns.
    ///
    /// # Errors
    ///
    /// Why the command couldn't be started.
    pub fn launch(
        launch: &Launch,
        log: Option<&mut (dyn FnMut(Call) + Send)>,
    ) -> Result<Outcome, LaunchError> {
        let mut code = Segment::new(CODE_LENGTH).map_err(LaunchError::Segment)?;
        let data = Segment::new(size_of::<Shared>()).map_err(LaunchError::Segment)?;
        // SAFETY: needed: the segment is memory that no variable owns. Sound: it is as long as the type, aligned to a page, and
        // no other process has it yet.
        write(unsafe { &mut (*data.memory().cast::<Shared>().as_ptr()).fakes }, &launch.fakes);
        // SAFETY: needed: the segment is memory that no variable owns. Sound: it is as long as the type, aligned to a page, and
        // zero, which is valid for every field; fields that change from here on are atomic.
        let shared = unsafe { data.memory().cast::<Shared>().as_ref() };
        let counting = if launch.count { COUNT } else { 0 };
        let logging = if log.is_some() { LOG } else { 0 };
        let timing = if launch.count && launch.time && log.is_none() { TIME } else { 0 };
        let listing = if launch.sites { LIST } else { 0 };
        shared.mode.store(counting | logging | timing | listing, Ordering::Relaxed);
        shared.supervisor.store(std::process::id(), Ordering::Relaxed);
        let given = Given {
            code: code.id(),
            data: data.id(),
            hide_vdso: launch.hide_vdso || launch.fakes.ahead.is_some(),
        };
        let clock = Clock::new();

        let (program, arguments) = (launch.program.clone(), launch.arguments.clone());
        let ears = |child| Ears::new(shared, child);
        let (child, ears) = SuspendedChild::start(program, arguments, launch.environment.clone(), ears)
            .map_err(|errno| LaunchError::Process(errno.into()))?;
        let mut supervisor = Supervisor::new(shared, given, child.process()).map_err(LaunchError::Watch)?;
        child.go();
        // This runs while the kernel reads the program, which needs the image only when the supervisor meets it.
        supervisor.make_image(&mut code);
        let ended = AtomicBool::new(false);
        let mut attend = || {
            let status = supervisor.attend(|| launch.wait && data.holders() > 1, launch.meanwhile);
            // The remaining processes may need the whole image.
            if !launch.wait || data.holders() > 1 {
                supervisor.complete_image();
            }
            shared.closed.store(1, Ordering::Release);
            ended.store(true, Ordering::Release);
            status
        };
        let status = match log {
            None => attend(),
            // The thread ends by itself. A panic in it would have ended the process.
            Some(log) => thread::scope(|scope| {
                scope.spawn(|| read(shared, log, &ended));
                attend()
            }),
        };
        drop(ears);

        if let Some(errno) = child.failure() {
            let program = launch.program.to_string_lossy().into_owned();
            return Err(LaunchError::Execute { program, source: errno.into() });
        }
        let found = if launch.sites { found(shared) } else { Found::default() };
        let attached = shared.images.load(Ordering::Relaxed);
        let unattached = supervisor.prepared.saturating_sub(attached);
        Ok(Outcome {
            lost: shared.lost.load(Ordering::Relaxed) + supervisor.unprepared + unattached,
            ..outcome(shared, status, &clock, found)
        })
    }

    fn write(fakes: &mut crate::layout::Fakes, wanted: &Fakes) {
        let mut name = |bit, bytes: &Option<Vec<u8>>| {
            let mut name = [0; NAME];
            if let Some(bytes) = bytes {
                fakes.which |= bit;
                for (to, from) in name[..NAME - 1].iter_mut().zip(bytes) {
                    *to = *from;
                }
            }
            name
        };
        let (host, release) = (name(FAKE_HOST, &wanted.host), name(FAKE_RELEASE, &wanted.release));
        (fakes.host, fakes.release) = (host, release);
        if let Some(pid) = wanted.pid {
            fakes.which |= FAKE_PID;
            fakes.pid = u64::from(pid);
        }
        if let Some(ahead) = wanted.ahead {
            fakes.which |= FAKE_TIME;
            fakes.ahead = ahead;
        }
        if let Some(cpus) = wanted.cpus {
            fakes.which |= FAKE_CPUS;
            fakes.cpus = cpus;
        }
    }

    /// Takes records out of the ring until the run has ended and the ring is empty.
    fn read(shared: &Shared, log: &mut (dyn FnMut(Call) + Send), ended: &AtomicBool) {
        let mut waited = 0;
        loop {
            let over = ended.load(Ordering::Acquire);
            let place = shared.tail.load(Ordering::Relaxed);
            if place == shared.head.load(Ordering::Acquire) {
                if over {
                    return;
                }
                thread::sleep(PAUSE);
                continue;
            }
            let record = &shared.ring[usize::try_from(place).unwrap_or_default() % RECORDS];
            let number = record.number.swap(0, Ordering::Acquire);
            // A thread that was killed while it wrote leaves a record that stays incomplete.
            if number == 0 && waited < PATIENCE && !over {
                waited += 1;
                thread::sleep(PAUSE);
                continue;
            }
            waited = 0;
            if let Some(number) = number.checked_sub(1) {
                log(Call {
                    number,
                    thread: record.thread.load(Ordering::Relaxed),
                    arguments: record.arguments.each_ref().map(|argument| argument.load(Ordering::Relaxed)),
                    result: record.result.load(Ordering::Relaxed).cast_signed(),
                });
            }
            shared.tail.store(place + 1, Ordering::Release);
        }
    }

    /// The processor's clock and the system's clock at one moment.
    struct Clock {
        ticks: u64,
        begun: Instant,
    }

    impl Clock {
        fn ticks() -> u64 {
            // SAFETY: needed: the instruction has no safe name. Sound: every x86-64 processor has it, and Linux allows it
            // unless the process asked otherwise, which this one doesn't.
            unsafe { core::arch::x86_64::_rdtsc() }
        }

        /// Both clocks. Of several attempts this takes the two readings that were closest together: a process that
        /// loses its processor between the two readings would compare different moments.
        fn new() -> Self {
            let read = || {
                let (before, begun, after) = (Self::ticks(), Instant::now(), Self::ticks());
                (after.wrapping_sub(before), Self { ticks: before, begun })
            };
            let closer = |best: (u64, Self), next: (u64, Self)| if next.0 < best.0 { next } else { best };
            (1..READINGS).map(|_| read()).fold(read(), closer).1
        }

        /// Nanoseconds of a tick, measured over the time since [`Clock::new`].
        fn tick(&self) -> f64 {
            let now = Self::new();
            let ticks = now.ticks.saturating_sub(self.ticks).max(1);
            #[expect(clippy::cast_precision_loss, reason = "so many digits aren't meant")]
            let of = now.begun.duration_since(self.begun).as_nanos() as f64 / ticks as f64;
            of
        }
    }

    /// The sites that were found by trap, in the order of files and offsets.
    fn found(shared: &Shared) -> Found {
        let mut found = Found { unlisted: shared.unlisted.load(Ordering::Relaxed), ..Found::default() };
        let whole =
            |file: &&crate::layout::File| file.state.load(Ordering::Acquire) == crate::layout::File::WHOLE;
        found.files = shared
            .files
            .iter()
            .take_while(whole)
            .map(|file| {
                let length = usize::try_from(file.length.load(Ordering::Relaxed)).unwrap_or_default();
                let path = file.path.iter().take(length).map(|byte| byte.load(Ordering::Relaxed)).collect();
                File { path, sites: Vec::new() }
            })
            .collect();
        for key in shared.found.iter().map(|key| key.load(Ordering::Relaxed)).filter(|key| *key != 0) {
            let place = key & OFFSET;
            if key & ANONYMOUS == ANONYMOUS {
                found.elsewhere.push(place);
                continue;
            }
            let file = usize::try_from(key >> OFFSET.count_ones()).unwrap_or_default();
            match file.checked_sub(1).and_then(|file| found.files.get_mut(file)) {
                Some(file) => file.sites.push(place),
                None => found.unlisted += 1,
            }
        }
        for file in &mut found.files {
            file.sites.sort_unstable();
        }
        found.elsewhere.sort_unstable();
        found
    }

    fn outcome(shared: &Shared, status: i32, clock: &Clock, found: Found) -> Outcome {
        let tick = clock.tick();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "so many digits aren't meant, and neither is negative"
        )]
        let nanoseconds = |ticks: u64| (ticks as f64 * tick) as u64;
        // The kernel would allocate untouched memory for reading it.
        let taken = shared.shards.load(Ordering::Relaxed);
        let tables = || shared.counters.iter().enumerate().filter(|(shard, _)| taken >> shard & 1 != 0);
        let mut counts = Vec::new();
        for number in 0..CALLS {
            let sum = |of: fn(&crate::layout::Counter) -> u64| -> u64 {
                tables().map(|(_, table)| of(&table[number])).sum()
            };
            let count = Count {
                number: u32::try_from(number).unwrap_or(u32::MAX),
                calls: sum(|counter| counter.calls.load(Ordering::Relaxed)),
                errors: sum(|counter| counter.errors.load(Ordering::Relaxed)),
                nanoseconds: nanoseconds(sum(|counter| counter.ticks.load(Ordering::Relaxed))),
            };
            if count.calls > 0 {
                counts.push(count);
            }
        }
        Outcome {
            status: ExitStatus::from_raw(status),
            counts,
            images: shared.images.load(Ordering::Relaxed),
            lost: 0,
            traps: shared.traps.load(Ordering::Relaxed),
            patched: shared.patched.load(Ordering::Relaxed),
            unpatchable: shared.unpatchable.load(Ordering::Relaxed),
            dropped: shared.dropped.load(Ordering::Relaxed),
            bodiless: shared.bodiless.load(Ordering::Relaxed),
            found,
        }
    }
}
