// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads facts about a process from `/proc`.

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// The inode number of the first PID namespace: `PROC_PID_INIT_INO` of `linux/proc_ns.h`.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Whether this process and the eBPF programs see the same process numbers.
pub(super) fn sees_first_namespace() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == FIRST_NAMESPACE)
}

/// A descriptor of a process; `None` if no process has that number.
pub(crate) fn open(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// The number of a descriptor's process, while the process lives.
pub(super) fn number(pidfd: BorrowedFd<'_>) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse().ok()
}

/// Whether the process hasn't ended.
pub(crate) fn lives(pidfd: BorrowedFd<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut fds, Some(&now)), Ok(0))
}

/// The process's user, if all its user ids are equal; `None` if they differ (set-user-ID programs) or the process is gone.
pub(crate) fn user(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut users = line.split_whitespace().map(|word| word.parse::<u32>().ok());
    let first = users.next()??;
    users.all(|user| user == Some(first)).then_some(first)
}

/// The process's name.
pub(super) fn name(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}

/// The process's parent.
pub(super) fn parent(pid: u32) -> Option<u32> {
    let status = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let behind = status.iter().rposition(|&byte| byte == b')')? + 1;
    let field = status[behind..].split(|byte| *byte == b' ').filter(|field| !field.is_empty()).nth(1)?;
    std::str::from_utf8(field).ok()?.parse().ok().filter(|parent| *parent != 0)
}

/// The children of all threads of the process.
pub(super) fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = tasks.flatten().map(|task| fs::read_to_string(task.path().join("children")));
    lists
        .flatten()
        .flat_map(|list| list.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// The numbers of all processes.
pub(super) fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The process's terminal.
pub(super) fn terminal(pid: u32) -> Option<PathBuf> {
    let status = fs::read(format!("/proc/{pid}/stat")).ok()?;
    palisade_guard::subject::text::terminal(&status).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process() {
        let own = std::process::id();
        let pidfd = open(own).unwrap();
        assert_eq!(number(pidfd.as_fd()), Some(own));
        assert!(lives(pidfd.as_fd()));
        assert_eq!(user(own), Some(rustix::process::getuid().as_raw()));
        assert!(parent(own).is_some_and(|parent| children(parent).contains(&own)));
    }

    #[test]
    fn one_that_ends() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pidfd = open(child.id()).unwrap();
        assert!(lives(pidfd.as_fd()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!lives(pidfd.as_fd()));
        assert!(number(pidfd.as_fd()).is_none(), "it is -1");
    }
}
