// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ways to execute a program. Each is tried in a process of its own that is a copy of this program: `WAY:FILE`, and the
//! outcome, one per line.

use std::ffi::{CString, c_int};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::inside::loader;
use crate::scenario::REFUSED;

/// Exit status of the executed program.
const RAN: u8 = 42;
/// An interpreter, judged by its name.
pub(crate) const SHELL: &str = "/bin/sh";
/// While this file exists, a lingering program ends at once.
pub(crate) const HURRY: &str = "/work/hurry";

/// The main function of the executed program. `linger`: waits to be killed.
pub(crate) fn ran(linger: bool) -> ExitCode {
    let end = Instant::now() + crate::daemon::PATIENCE;
    while linger && !Path::new(HURRY).exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    ExitCode::from(RAN)
}

/// Makes each attempt.
pub(crate) fn all(attempts: &[&str]) -> io::Result<()> {
    for attempt in attempts {
        let (way, file) = attempt.split_once(':').unwrap_or((attempt, ""));
        println!("{attempt} {}", once(way, file)?);
        io::stdout().flush()?;
    }
    Ok(())
}

fn once(way: &str, file: &str) -> io::Result<String> {
    if let Some(levels) = way.strip_prefix("deep") {
        let levels = levels.parse().map_err(io::Error::other)?;
        return Ok(word(below(levels, &|| execute(file, &["act", "ran"]))?));
    }
    let try_it: &dyn Fn() -> io::Error = &|| try_way(way, file);
    Ok(match way {
        // The process that the attempt waits for is not the parent any more.
        "orphan" | "sibling" => {
            let (reader, writer) = rustix::pipe::pipe()?;
            let left = fork(0, || {
                let orphan = || told(&writer, &|| execute(file, &["act", "ran"]));
                if way == "sibling" {
                    return exit_of(fork(libc::CLONE_PARENT, orphan));
                }
                let _alone = rustix::process::setsid();
                exit_of(fork(0, || {
                    // Wait until the process that reaps orphans is the parent.
                    while rustix::process::getppid().is_some_and(|parent| !parent.is_init()) {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    orphan()
                }))
            })?;
            drop(writer);
            wait(left)?;
            let mut said = String::new();
            File::from(reader).read_to_string(&mut said)?;
            said
        }
        "map" => word(wait(fork(0, || match crate::daemon::map(&File::open(file)?) {
            crate::scenario::Outcome::Done => Ok(RAN),
            other => Err(io::Error::other(format!("{other:?}"))),
        })?)?),
        // A socket of the kernel's cryptography; the kernel may lack it.
        "alg" => word(wait(fork(0, || {
            // SAFETY: needed because rustix lacks this family. Sound: no memory is passed.
            unsafe { libc::socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0) };
            Ok(RAN)
        })?)?),
        _ => word(below(1, try_it)?),
    })
}

/// Makes one attempt; returns only if the exec fails.
fn try_way(way: &str, file: &str) -> io::Error {
    let tried = || -> io::Result<io::Error> {
        Ok(match way {
            "plain" => execute(file, &["act", "ran"]),
            "linger" => execute(file, &["act", "linger"]),
            "shell-linger" => execute(SHELL, &["act", "linger", file]),
            "loader" => execute(&loader().map_err(io::Error::other)?, &[file, "act", "ran"]),
            "loader-linger" => execute(&loader().map_err(io::Error::other)?, &[file, "act", "linger"]),
            "descriptor" => {
                // SAFETY: needed because rustix doesn't execute programs. Sound: the path ends with a zero and outlives the
                // call.
                let file = unsafe { libc::open(c(file).as_ptr(), libc::O_PATH) };
                execute_descriptor(file)
            }
            "memory" => {
                let mut memory =
                    File::from(rustix::fs::memfd_create("program", rustix::fs::MemfdFlags::empty())?);
                memory.write_all(&fs::read(file)?)?;
                let reading = File::open(format!("/proc/self/fd/{}", memory.as_raw_fd()))?;
                drop(memory);
                execute_descriptor(reading.as_raw_fd())
            }
            "thread" => {
                let file = file.to_owned();
                let thread = std::thread::spawn(move || execute(&file, &["act", "ran"]));
                thread.join().map_err(|_| io::Error::other("the thread died"))?
            }
            "headless" => {
                // The first thread ends, and another one continues: the process has a dead leader.
                let file = file.to_owned();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(50));
                    finish(&execute(&file, &["act", "ran"]))
                });
                // SAFETY: needed to end a thread but not its process. Sound: nothing that the thread holds is used again.
                unsafe { libc::syscall(libc::SYS_exit, 0) };
                io::Error::other("it goes on")
            }
            "spawn" => match std::process::Command::new(file).args(["act", "ran"]).status() {
                Ok(status) => {
                    use std::os::unix::process::ExitStatusExt;
                    if let Some(signal) = status.signal() {
                        let own = rustix::process::getpid();
                        if signal == libc::SIGKILL {
                            rustix::process::kill_process(own, rustix::process::Signal::KILL)?;
                        }
                    }
                    // SAFETY: needed to end with the child's status.
                    unsafe { libc::_exit(status.code().unwrap_or(1)) }
                }
                Err(error) => error,
            },
            _ => io::Error::other("no such way"),
        })
    };
    tried().unwrap_or_else(|error| error)
}

/// Runs `act` in a process this many levels below.
fn below(levels: u32, act: &dyn Fn() -> io::Error) -> io::Result<c_int> {
    wait(fork(0, || if levels > 1 { Ok(code(below(levels - 1, act)?)) } else { Err(act()) })?)
}

/// The exit status for a wait status. A process can't exit with the status of a killed one.
fn code(status: c_int) -> u8 {
    if libc::WIFSIGNALED(status) { KILLED } else { u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(1) }
}

/// Exit status that says that a process below was killed.
const KILLED: u8 = 43;

fn word(status: c_int) -> String {
    match (libc::WIFSIGNALED(status), code(status)) {
        (true, _) if libc::WTERMSIG(status) != libc::SIGKILL => {
            format!("died of signal {}", libc::WTERMSIG(status))
        }
        (_, KILLED) => "killed".into(),
        (_, RAN) => "ran".into(),
        (_, REFUSED) => "refused".into(),
        (_, code) => format!("failed with {code}"),
    }
}

/// Lets a child make the attempt, and reports its outcome to the process at the pipe's other end.
fn told(writer: &OwnedFd, act: &dyn Fn() -> io::Error) -> io::Result<u8> {
    let said = word(below(1, act)?);
    rustix::io::write(writer, said.as_bytes())?;
    Ok(RAN)
}

fn exit_of(forked: io::Result<libc::pid_t>) -> io::Result<u8> {
    forked.map(|_| RAN)
}

/// Forks. The child ends with the status that `act` returns.
fn fork(flags: c_int, act: impl FnOnce() -> io::Result<u8>) -> io::Result<libc::pid_t> {
    let flags = libc::c_long::from(flags | libc::SIGCHLD);
    // SAFETY: needed because a `Command` would execute another program. Sound: this process has one thread, so its copy may
    // make any call.
    let child = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    match child {
        -1 => Err(io::Error::last_os_error()),
        0 => match act() {
            // SAFETY: needed to end without running what the parent registered for its own end.
            Ok(code) => unsafe { libc::_exit(c_int::from(code)) },
            Err(error) => finish(&error),
        },
        child => libc::pid_t::try_from(child).map_err(io::Error::other),
    }
}

fn finish(error: &io::Error) -> ! {
    let refused = error.raw_os_error() == Some(libc::EPERM);
    if !refused {
        eprintln!("{error}");
    }
    // SAFETY: as above.
    unsafe { libc::_exit(if refused { c_int::from(REFUSED) } else { 1 }) }
}

fn wait(child: libc::pid_t) -> io::Result<c_int> {
    let mut status = 0;
    // SAFETY: needed because rustix can't wait for a clone that it didn't start. Sound: the status variable outlives the
    // call.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(status)
}

fn c(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// Calls `execve` directly: no search of the path, no second try.
fn execute(file: &str, arguments: &[&str]) -> io::Error {
    let file = c(file);
    with(arguments, |words, environment| {
        // SAFETY: needed because a `Command` forks and searches the path. Sound: texts end with a zero, lists with a null,
        // and all outlive the call, which returns only if nothing was executed.
        unsafe { libc::execve(file.as_ptr(), words, environment) };
    })
}

fn execute_descriptor(descriptor: c_int) -> io::Error {
    with(&["act", "ran"], |words, environment| {
        // SAFETY: as above.
        unsafe {
            libc::syscall(
                libc::SYS_execveat,
                descriptor,
                c"".as_ptr(),
                words,
                environment,
                libc::AT_EMPTY_PATH,
            )
        };
    })
}

type List = *const *const libc::c_char;

fn with(arguments: &[&str], call: impl FnOnce(List, List)) -> io::Error {
    let words: Vec<CString> = std::iter::once(&"program").chain(arguments).map(|word| c(word)).collect();
    let pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect();
    let environment = [std::ptr::null()];
    call(pointers.as_ptr(), environment.as_ptr());
    io::Error::last_os_error()
}
