// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The acts of this program as a child in the guest: each does one operation that may be refused. Exit 0: the operation
//! happened; [`REFUSED`]: EPERM; 1: another error.

use std::ffi::c_void;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use rustix::mount::MountFlags;
use rustix::thread::UnshareFlags;

use crate::scenario::REFUSED;

pub(crate) fn main(words: &[String]) -> ExitCode {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["nothing"] => Ok(()),
        // Started as the interpreter of a script, without further words.
        [script] if script.ends_with(".script") => Ok(()),
        ["make", path] => fs::write(path, ""),
        ["open", path] => File::open(path).map(|_| ()),
        ["wait"] => io::stdin().read(&mut [0]).map(|_| ()),
        ["execute", path, more @ ..] => execute(path, more),
        ["become", path, more @ ..] => Err(Command::new(path).args(more).exec()),
        ["namespace"] => namespace(),
        ["memfd", path] => memfd(path),
        ["tmpfs", path] => tmpfs(path),
        ["map", path] => map(path, ProtFlags::READ | ProtFlags::EXEC, |_| Ok(())),
        ["protect", path] => map(path, ProtFlags::READ, |page| {
            // SAFETY: needed because the test changes the protection of pages. Sound: these pages are `map`'s own, and
            // nothing else refers to them.
            Ok(unsafe { rustix::mm::mprotect(page, PAGE, MprotectFlags::READ | MprotectFlags::EXEC) }?)
        }),
        ["write-and-protect", path] => map(path, ProtFlags::READ | ProtFlags::WRITE, |page| {
            // SAFETY: needed to make the page differ from its file. Sound: the page is `map`'s own and mapped writable.
            unsafe { page.cast::<u8>().write_volatile(0x90) };
            // SAFETY: as above, in "protect".
            Ok(unsafe { rustix::mm::mprotect(page, PAGE, MprotectFlags::READ | MprotectFlags::EXEC) }?)
        }),
        ["map-writable", path] => map(path, ProtFlags::READ | ProtFlags::WRITE | ProtFlags::EXEC, |_| Ok(())),
        ["protect-writable", path] => map(path, ProtFlags::READ | ProtFlags::EXEC, |page| {
            let all = MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC;
            // SAFETY: as above, in "protect".
            Ok(unsafe { rustix::mm::mprotect(page, PAGE, all) }?)
        }),
        ["storm", path, times] => storm(path, times.parse().unwrap_or(0)),
        ["stranger-chmod", path] => stranger(|| fs::set_permissions(path, fs::Permissions::from_mode(0o777))),
        ["stranger-write", path] => stranger(|| File::options().append(true).open(path).map(|_| ())),
        ["in-scope", user, program, more @ ..] => crate::groups::in_scope(user, program, more),
        ["memory", mebibytes] => crate::groups::memory(mebibytes),
        ["ready-wait"] => crate::groups::wait(),
        ["use-up"] => crate::quota::use_up(),
        ["daemon"] => crate::lives::daemon(),
        ["launch", program, more @ ..] => crate::learn::launch(program, more),
        ["thread-and-child", program] => crate::learn::thread_and_child(program),
        ["threads", times] => crate::learn::threads(times.parse().unwrap_or(0)),
        ["sync"] => {
            rustix::fs::sync();
            Ok(())
        }
        ["child", program, more @ ..] => child(program, more),
        ["attempts", attempts @ ..] => crate::scope::attempt::all(attempts),
        ["wait-attempts", attempts @ ..] => {
            println!("ready");
            io::stdin().read(&mut [0]).and_then(|_| crate::scope::attempt::all(attempts))
        }
        ["ran" | "linger"] => return crate::scope::attempt::ran(words[0] == "linger"),
        // Started as the interpreter of a script, and as a shell.
        [_, "act", what @ ("ran" | "linger")] | [what @ ("ran" | "linger"), _] => {
            return crate::scope::attempt::ran(*what == "linger");
        }
        _ => Err(io::Error::other(format!("no such act: {words:?}"))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => ExitCode::from(REFUSED),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

const PAGE: usize = 4096;

fn execute(path: &str, arguments: &[&str]) -> io::Result<()> {
    let arguments = if arguments.is_empty() { &["nothing"] } else { arguments };
    Err(Command::new(path).arg("act").args(arguments).exec())
}

fn memfd(path: &str) -> io::Result<()> {
    let mut memory = File::from(rustix::fs::memfd_create("program", MemfdFlags::empty())?);
    memory.write_all(&fs::read(path)?)?;
    // Open it again by another name for reading only: a file that is open for writing can't be executed.
    let name = format!("/proc/self/fd/{}", memory.as_raw_fd());
    let reading = File::open(&name)?;
    rustix::io::fcntl_setfd(reading.as_fd(), rustix::io::FdFlags::empty())?;
    drop(memory);
    execute(&format!("/proc/self/fd/{}", reading.as_raw_fd()), &[])
}

/// Makes a user namespace, and uses a capability in it that a sandbox with namespaces permits.
fn namespace() -> io::Result<()> {
    let user = rustix::process::getuid().as_raw();
    // SAFETY: needed because rustix declares the call unsafe on account of shared descriptors. Sound: this flag doesn't
    // touch them.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER) }?;
    // Nothing is truncated: a sandbox doesn't permit that in /proc.
    let write = |file, text: &str| File::options().write(true).open(file)?.write_all(text.as_bytes());
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("{user} {user} 1"))?;
    rustix::process::chroot("/").map_err(io::Error::from)
}

fn tmpfs(path: &str) -> io::Result<()> {
    // SAFETY: needed because rustix declares the call unsafe on account of shared descriptors. Sound: these flags don't
    // touch them.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) }?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", "0 0 1")?;
    fs::write("/proc/self/gid_map", "0 0 1")?;
    rustix::mount::mount("tmpfs", "/mnt", "tmpfs", MountFlags::empty(), None)?;
    fs::copy(path, "/mnt/program")?;
    execute("/mnt/program", &[])
}

fn map(
    path: &str,
    protection: ProtFlags,
    then: impl FnOnce(*mut c_void) -> io::Result<()>,
) -> io::Result<()> {
    let file = File::open(path)?;
    // SAFETY: needed because the test makes a mapping. Sound: a new mapping at any address replaces none of ours.
    let page =
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), PAGE, protection, MapFlags::PRIVATE, &file, 0) }?;
    then(page)
}

/// Executes a file that must be refused. Doesn't fork, because a refused `execve` returns.
fn storm(path: &str, times: usize) -> io::Result<()> {
    for _ in 0..times {
        let error = Command::new(path).args(["act", "nothing"]).exec();
        if error.raw_os_error() != Some(libc::EPERM) {
            return Err(error);
        }
    }
    Ok(())
}

/// Runs a child until the other end of the standard input is closed.
fn child(program: &str, arguments: &[&str]) -> io::Result<()> {
    let mut child = Command::new(program).args(arguments).stdin(std::process::Stdio::null()).spawn()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    child.kill()?;
    child.wait().map(drop)
}

fn stranger(act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let somebody = rustix::process::Uid::from_raw(1000);
    rustix::thread::set_thread_res_uid(somebody, somebody, somebody)?;
    act()
}
