// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ways to have a program run, each tried in a process of its own that isn't another program: `WAY:FILE`, and what came
//! of it, a line each.

use std::ffi::{CString, c_int};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::inside::loader;
use crate::scenario::REFUSED;

/// Exit status of what was executed.
const RAN: u8 = 42;
/// By its name an interpreter.
pub(crate) const SHELL: &str = "/bin/sh";
/// While it is there, what lingers doesn't.
pub(crate) const HURRY: &str = "/work/hurry";

/// Is the program: it ran. `linger`: and waits to be killed by somebody.
pub(crate) fn ran(linger: bool) -> ExitCode {
    let end = Instant::now() + crate::daemon::PATIENCE;
    while linger && !Path::new(HURRY).exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    ExitCode::from(RAN)
}

/// Tries each.
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
        // Whoever is asked to wait isn't the parent any more.
        "orphan" | "sibling" => {
            let (reader, writer) = rustix::pipe::pipe()?;
            let left = fork(0, || {
                let orphan = || told(&writer, &|| execute(file, &["act", "ran"]));
                if way == "sibling" {
                    return exit_of(fork(libc::CLONE_PARENT, orphan));
                }
                let _alone = rustix::process::setsid();
                exit_of(fork(0, || {
                    // Whoever reaps orphans is the parent from now on.
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
        // A socket of the kernel's cryptography, which this kernel need not have.
        "alg" => word(wait(fork(0, || {
            // SAFETY: needed because rustix has no such family; no memory is handed over.
            unsafe { libc::socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0) };
            Ok(RAN)
        })?)?),
        _ => word(below(1, try_it)?),
    })
}

/// Ends only if the exec fails.
fn try_way(way: &str, file: &str) -> io::Error {
    let tried = || -> io::Result<io::Error> {
        Ok(match way {
            "plain" => execute(file, &["act", "ran"]),
            "linger" => execute(file, &["act", "linger"]),
            "shell-linger" => execute(SHELL, &["act", "linger", file]),
            "loader" => execute(&loader().map_err(io::Error::other)?, &[file, "act", "ran"]),
            "loader-linger" => execute(&loader().map_err(io::Error::other)?, &[file, "act", "linger"]),
            "descriptor" => {
                // SAFETY: needed because rustix doesn't execute; the path ends with a zero and outlives the call.
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
                // The first thread ends, the other goes on: the process has a dead leader.
                let file = file.to_owned();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(50));
                    finish(&execute(&file, &["act", "ran"]))
                });
                // SAFETY: needed to end a thread and not its process; nothing that it holds is looked at again.
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
                    // SAFETY: needed to say the same as the child.
                    unsafe { libc::_exit(status.code().unwrap_or(1)) }
                }
                Err(error) => error,
            },
            _ => io::Error::other("no such way"),
        })
    };
    tried().unwrap_or_else(|error| error)
}

/// In a process so many below.
fn below(levels: u32, act: &dyn Fn() -> io::Error) -> io::Result<c_int> {
    wait(fork(0, || if levels > 1 { Ok(code(below(levels - 1, act)?)) } else { Err(act()) })?)
}

/// What a wait's answer is as an exit status: those of the killed can't be had by exiting.
fn code(status: c_int) -> u8 {
    if libc::WIFSIGNALED(status) { KILLED } else { u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(1) }
}

/// Exit status that says that somebody below was killed.
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

/// Has it tried by a child, and told who waits at the pipe's end.
fn told(writer: &OwnedFd, act: &dyn Fn() -> io::Error) -> io::Result<u8> {
    let said = word(below(1, act)?);
    rustix::io::write(writer, said.as_bytes())?;
    Ok(RAN)
}

fn exit_of(forked: io::Result<libc::pid_t>) -> io::Result<u8> {
    forked.map(|_| RAN)
}

/// Forks; the child ends with what `act` says.
fn fork(flags: c_int, act: impl FnOnce() -> io::Result<u8>) -> io::Result<libc::pid_t> {
    let flags = libc::c_long::from(flags | libc::SIGCHLD);
    // SAFETY: needed because a Command is another program already. This process has one thread, so that its copy may do
    // whatever it could.
    let child = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    match child {
        -1 => Err(io::Error::last_os_error()),
        0 => match act() {
            // SAFETY: needed to end without what the parent has still to do at its own end.
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
    // SAFETY: needed because rustix waits for no clone that it doesn't know; the place outlives the call.
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

/// By the call itself: no search, no second try.
fn execute(file: &str, arguments: &[&str]) -> io::Error {
    let file = c(file);
    with(arguments, |words, environment| {
        // SAFETY: needed because a Command forks and searches. Texts end with a zero, lists with a null, and all outlive
        // the call, which returns only if nothing was executed.
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
