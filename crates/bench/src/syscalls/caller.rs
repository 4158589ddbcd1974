// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program that runs inside: `palisade-bench calls …`, started by the bench. It makes one call again and again, and
//! prints the time per call in seconds, and the call's result.

use std::io::{self, Write};
use std::time::Instant;

use super::storm;
use clap::{Args, ValueEnum};
use palisade_syscall::{Action, Arch, Call, Errno, Rule, Rules, Syscall, compile};
use rustix::fs::{Mode, OFlags};

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// `getppid`: hardly any work, and no answer of the C library's
    Number,
    /// `getpriority`: the same, with arguments
    Argument,
    /// One byte to `/dev/null`
    Write,
    /// Open a file for reading, and close it
    Read,
    /// Open a file for writing, and close it
    Change,
    /// The same by its path from the root
    ChangeFromRoot,
    /// Make a file, write to it and remove it, in 16 threads: the time of a file
    Storm,
    /// The same: how long 99 of 100 calls took at most
    StormPercentile,
    /// `uname`
    Machine,
    /// Compile and load a filter of as many rules as there are calls
    Load,
    /// Load one that was compiled before
    Install,
    /// Load one that was compiled before, of as many rules with two answers among them
    InstallAlike,
}

/// A filter that the caller puts on itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// No call is refused
    Nothing,
    /// 5 calls are refused
    Five,
    /// 300 calls are refused
    Many,
    /// 5 calls are refused, by each of four filters
    Stacked,
    /// 300 calls are refused, and the one that is made only with a certain argument
    Argument,
}

/// Calls made by a program; the bench starts it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Caller {
    #[arg(long)]
    kind: Kind,
    #[arg(long)]
    count: u32,
    #[arg(long)]
    filter: Option<Shape>,
}

/// Why the caller fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallerError {
    #[error("can't {what}")]
    Call { what: &'static str, source: io::Error },
    #[error("can't make a filter: {source}")]
    Filter { source: palisade_syscall::Error },
}

fn failed(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> CallerError {
    move |errno| CallerError::Call { what, source: errno.into() }
}

impl Caller {
    pub(crate) fn run(&self) -> Result<(), CallerError> {
        if let Some(shape) = self.filter {
            shape.load()?;
        }
        let (seconds, seen) = match self.kind {
            Kind::Load => {
                let before = Instant::now();
                Shape::Many.load()?;
                (before.elapsed().as_secs_f64(), "loaded".to_owned())
            }
            Kind::Install | Kind::InstallAlike => {
                let answers = if self.kind == Kind::Install { MOST } else { 2 };
                let filter = compile(&refusing_by(MOST, answers), Arch::NATIVE)
                    .map_err(|source| CallerError::Filter { source })?;
                palisade_sys::seccomp::no_new_privileges().map_err(failed("give up privileges"))?;
                let before = Instant::now();
                palisade_sys::seccomp::install(&filter.program).map_err(failed("load a filter"))?;
                (before.elapsed().as_secs_f64(), "loaded".to_owned())
            }
            kind @ (Kind::Storm | Kind::StormPercentile) => {
                // A warm-up, until every process that answers calls is ready.
                storm::make(self.count / 10)?;
                let passed = storm::make(self.count)?;
                let seconds = if kind == Kind::Storm { passed.of_file } else { passed.percentile };
                (seconds, format!("{} files", passed.files))
            }
            kind => {
                kind.repeat(self.count / 10)?;
                let before = Instant::now();
                let seen = kind.repeat(self.count)?;
                (before.elapsed().as_secs_f64() / f64::from(self.count.max(1)), seen)
            }
        };
        let printed = writeln!(io::stdout(), "{seconds:e} {seen}");
        printed.map_err(|source| CallerError::Call { what: "print", source })
    }
}

impl Kind {
    /// Makes the call `count` times. Returns the last result.
    fn repeat(self, count: u32) -> Result<String, CallerError> {
        let mut last = 0;
        match self {
            Self::Number => {
                for _ in 0..count {
                    // No parent is valid: it is outside the namespace. An error would be a negative number.
                    last =
                        rustix::process::getppid().map_or(1, |pid| i32::from(pid.as_raw_nonzero().get() > 0));
                }
            }
            Self::Argument => {
                for _ in 0..count {
                    last =
                        rustix::process::getpriority_process(None).map_err(failed("ask for a priority"))?;
                }
                if niceness() == Some(last) {
                    return Ok("its own".to_owned());
                }
            }
            Self::Write => {
                let null = open("/dev/null", OFlags::WRONLY)?;
                for _ in 0..count {
                    last = i32::from(rustix::io::write(&null, b"x").map_err(failed("write"))? == 1);
                }
            }
            Self::Read | Self::Change | Self::ChangeFromRoot => {
                let how = if self == Self::Read { OFlags::RDONLY } else { OFlags::WRONLY };
                let path = if self == Self::ChangeFromRoot {
                    let here = std::env::current_dir();
                    here.map_err(|source| CallerError::Call { what: "find itself", source })?.join("file")
                } else {
                    "file".into()
                };
                for _ in 0..count {
                    drop(open(&path, how)?);
                }
                let file = open("file", OFlags::RDONLY)?;
                let mut text = [0; 64];
                let length = rustix::io::read(&file, &mut text).map_err(failed("read"))?;
                return Ok(String::from_utf8_lossy(text.get(..length).unwrap_or_default()).trim().to_owned());
            }
            Self::Machine => {
                let mut release = String::new();
                for index in 0..count {
                    let machine = rustix::system::uname();
                    if index + 1 == count {
                        release = machine.release().to_string_lossy().into_owned();
                    }
                }
                return Ok(release);
            }
            Self::Storm | Self::StormPercentile | Self::Load | Self::Install | Self::InstallAlike => {}
        }
        Ok(last.to_string())
    }
}

/// The niceness as the process file system reports it.
fn niceness() -> Option<i32> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The 19th field. The second one is a name in parentheses.
    text.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok()
}

fn open(path: impl rustix::path::Arg, how: OFlags) -> Result<std::os::fd::OwnedFd, CallerError> {
    rustix::fs::open(path, how | OFlags::CLOEXEC, Mode::empty()).map_err(failed("open a file"))
}

impl Shape {
    fn load(self) -> Result<(), CallerError> {
        let wrong = |source| CallerError::Filter { source };
        palisade_sys::seccomp::no_new_privileges().map_err(failed("give up privileges"))?;
        let (rules, times) = match self {
            Self::Nothing => (refusing(0), 1),
            Self::Five => (refusing(5), 1),
            Self::Many => (refusing(MOST), 1),
            Self::Stacked => (refusing(5), 4),
            Self::Argument => {
                let when = "arg0 in 77";
                let given = palisade_syscall::reply::ReplyAction::Deny(Errno::EPERM);
                let rule = palisade_syscall::reply::rule("getpriority", when, given, "for the bench");
                (refusing(300).answered(vec![rule.map_err(wrong)?]), 1)
            }
        };
        let filter = compile(&rules, Arch::NATIVE).map_err(wrong)?;
        for _ in 0..times {
            palisade_sys::seccomp::install(&filter.program).map_err(failed("load a filter"))?;
        }
        Ok(())
    }
}

/// The highest number of rules; there are enough calls for it.
pub(super) const MOST: usize = 400;

/// The number of calls that this many rules refuse, if there are as many.
pub(super) fn refused(count: usize) -> usize {
    refusing(count).calls().count()
}

/// This many rules, each with its own error, so that none can be merged with its neighbour. The rules for calls that this
/// program makes never match.
fn refusing(count: usize) -> Rules {
    refusing_by(count, count)
}

/// This many rules with this many errors among them: two neighbours have the same error, and the next two another one.
fn refusing_by(count: usize, answers: usize) -> Rules {
    let mut rules = Rules::new(Action::Allow);
    let own = |call: &Syscall| palisade_syscall::group::base().contains(call) || OWN.contains(&call.name());
    let others = Syscall::all().filter(|call| call.number(Arch::NATIVE).is_some() && !own(call));
    for (number, call) in (0_usize..).zip(others.take(count)) {
        let which = if answers < count { number / 2 % answers } else { number };
        if let Some(errno) = u16::try_from(which + 1).ok().and_then(Errno::new) {
            rules.add(call, Rule::always(Action::Errno(errno), "for the bench"));
        }
    }
    debug_assert_eq!(rules.decide(Arch::NATIVE, &this()), Action::Allow);
    rules
}

/// The call `getppid`.
fn this() -> Call {
    let number = "getppid".parse::<Syscall>().ok().and_then(|call| call.number(Arch::NATIVE)).unwrap_or(0);
    Call { audit_arch: Arch::NATIVE.audit(), number, arguments: [0; 6] }
}

/// Calls that the caller makes in addition to those of the base group.
///
/// They cover both C libraries: musl opens a file with `open`, the GNU C library with `openat`.
const OWN: [&str; 19] = [
    "getppid",
    "getpriority",
    "openat",
    "uname",
    "exit_group",
    "exit",
    "seccomp",
    "prctl",
    "sigaltstack",
    "ioctl",
    "newfstatat",
    "execve",
    "open",
    "stat",
    "lstat",
    "fstat",
    "statx",
    "readv",
    "writev",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_cant_be_merged_and_leave_the_caller_alone() {
        let rules = refusing(300);
        assert!(rules.calls().count() > 250);
        let filter = compile(&rules, Arch::NATIVE).unwrap();
        assert!(filter.program.len() > 300, "{}", filter.program.len());
        let alike = compile(&refusing_by(300, 2), Arch::NATIVE).unwrap();
        assert!((100..filter.program.len() / 2).contains(&alike.program.len()), "{}", alike.program.len());
    }

    /// A regression test: the filter with 300 refused calls once refused the calls by which musl reads a file of /proc.
    #[test]
    fn what_either_c_library_calls_is_not_refused() {
        for count in [5, 300, MOST] {
            let rules = refusing(count);
            let refused: Vec<&str> = rules.calls().map(|(call, _)| call.name()).collect();
            for name in ["open", "openat", "fstat", "statx", "read", "readv", "write", "writev", "close"] {
                assert!(!refused.contains(&name), "{name} of {count}");
            }
        }
    }

    #[test]
    fn a_storm_makes_all_its_files_and_leaves_none() {
        let passed = storm::make(320).unwrap();
        assert_eq!(passed.files, 320);
        assert!(passed.of_file > 0.0 && passed.percentile > 0.0);
        let names = std::fs::read_dir(".").unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.filter(|name| name.as_encoded_bytes().starts_with(b"storm-")).count(), 0);
    }

    #[test]
    fn calls_say_what_they_returned() {
        assert_eq!(Kind::Number.repeat(3).unwrap(), "1");
        assert_eq!(Kind::Argument.repeat(3).unwrap(), "its own");
        assert_eq!(Kind::Write.repeat(3).unwrap(), "1");
        assert!(!Kind::Machine.repeat(3).unwrap().is_empty());
    }
}
