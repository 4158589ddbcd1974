// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dispatches each call to the function that handles it.

use crate::broker::attributes::{Attribute, Target, attribute_name};
use crate::broker::caller::Caller;
use crate::broker::how::How;
use crate::broker::open::CWD_NUMBER;
use crate::broker::times::Form;
use crate::broker::{Outcome, Worker};
use crate::{Arch, Syscall};
use palisade_sys::notify::Notification;
use rustix::io::Errno;

/// `O_CREAT|O_WRONLY|O_TRUNC`: what `creat` means.
const CREAT: i32 = 0o100 | 0o1 | 0o1000;
pub(crate) const O_PATH: i32 = 0o10_000_000;
const AT_REMOVEDIR: u32 = 0x200;
const AT_SYMLINK_NOFOLLOW: u32 = 0x100;

/// The name of the call.
pub(crate) fn name_of(call: &Notification) -> &'static str {
    let number = u32::try_from(call.number).unwrap_or(u32::MAX);
    Syscall::from_number(Arch::NATIVE, number).map_or("unknown", Syscall::name)
}

/// Whether the call opens a file by `O_PATH`. This flag overrules every other flag that could make or change a file.
pub(crate) fn opens_by_path(call: &Notification) -> bool {
    let flags = match name_of(call) {
        "open" => call.arguments[1],
        "openat" => call.arguments[2],
        _ => return false,
    };
    flags & u64::from(O_PATH.cast_unsigned()) != 0
}

/// Makes the call.
pub(crate) fn dispatch(worker: &Worker<'_>, call: &Notification) -> Result<Outcome, Errno> {
    let caller = &Caller::new(worker, call);
    let int = |index| caller.int(index);
    let unsigned = |index| caller.unsigned(index);
    match name_of(call) {
        // The path doesn't need a judgement, even if the caller changes it later: such a descriptor can't change the
        // file.
        "open" | "openat" if opens_by_path(call) => Ok(Outcome::Continue),
        "open" => open(worker, caller, CWD_NUMBER, 0, How::new(int(1), unsigned(2))?),
        "openat" => open(worker, caller, int(0), 1, How::new(int(2), unsigned(3))?),
        "creat" => open(worker, caller, CWD_NUMBER, 0, How::new(CREAT, unsigned(1))?),
        "truncate" => worker.truncate(caller, 0, caller.argument(1)),
        "mkdir" => worker.make_directory(caller, CWD_NUMBER, &caller.path(0)?, unsigned(1)),
        "mkdirat" => worker.make_directory(caller, int(0), &caller.path(1)?, unsigned(2)),
        "mknod" => worker.make_node(caller, (CWD_NUMBER, 0), unsigned(1), unsigned(2).into()),
        "mknodat" => worker.make_node(caller, (int(0), 1), unsigned(2), unsigned(3).into()),
        "symlink" => worker.make_link(caller, &caller.path(0)?, CWD_NUMBER, &caller.path(1)?),
        "symlinkat" => worker.make_link(caller, &caller.path(0)?, int(1), &caller.path(2)?),
        "link" => worker.link(caller, (CWD_NUMBER, 0), (CWD_NUMBER, 1), 0),
        "linkat" => worker.link(caller, (int(0), 1), (int(2), 3), unsigned(4)),
        "rename" => worker.rename(caller, (CWD_NUMBER, 0), (CWD_NUMBER, 1), 0),
        "renameat" => worker.rename(caller, (int(0), 1), (int(2), 3), 0),
        "renameat2" => worker.rename(caller, (int(0), 1), (int(2), 3), unsigned(4)),
        "unlink" => worker.remove(caller, (CWD_NUMBER, 0), 0),
        "rmdir" => worker.remove(caller, (CWD_NUMBER, 0), AT_REMOVEDIR),
        "unlinkat" => worker.remove(caller, (int(0), 1), unsigned(2)),
        "chmod" => worker.change_mode(caller, (CWD_NUMBER, 0), unsigned(1), 0),
        "fchmodat" => worker.change_mode(caller, (int(0), 1), unsigned(2), 0),
        "fchmodat2" => worker.change_mode(caller, (int(0), 1), unsigned(2), unsigned(3)),
        "fchmod" => worker.change_mode_of(caller, &descriptor(caller)?, unsigned(1)),
        "umask" => caller.set_umask(unsigned(0)).map(|()| Outcome::Continue),
        "bind" => worker.bind(caller),
        "connect" => match &worker.shared.connections {
            Some(connections) => worker.connect_by_gateway(caller, connections),
            None => worker.connect(caller),
        },
        "sendto" => worker.send_to(caller),
        "sendmsg" => worker.send_message(caller),
        "sendmmsg" => worker.send_messages(caller),
        "getsockname" => worker.socket_name(caller, false),
        "getpeername" => worker.socket_name(caller, true),
        other => attributes(worker, caller, other),
    }
}

fn open(
    worker: &Worker<'_>,
    caller: &Caller<'_>,
    descriptor: i32,
    path: usize,
    how: How,
) -> Result<Outcome, Errno> {
    worker.open(caller, descriptor, &caller.path(path)?, how)
}

fn attributes(worker: &Worker<'_>, caller: &Caller<'_>, name: &str) -> Result<Outcome, Errno> {
    let int = |index| caller.int(index);
    let owner = |index| (caller.unsigned(index), caller.unsigned(index + 1));
    match name {
        "chown" => worker.change_owner(caller, (CWD_NUMBER, 0), owner(1), 0),
        "lchown" => worker.change_owner(caller, (CWD_NUMBER, 0), owner(1), AT_SYMLINK_NOFOLLOW),
        "fchownat" => worker.change_owner(caller, (int(0), 1), owner(2), caller.unsigned(4)),
        "fchown" => worker.change_owner_of(caller, &descriptor(caller)?, owner(1)),
        "setxattr" | "lsetxattr" | "fsetxattr" => {
            // Copy name and value before the path is resolved: the kernel has this order.
            let attribute = Attribute::read(caller, 1)?;
            worker.set_attribute(caller, &attributed(worker, caller, name)?, &attribute)
        }
        "removexattr" | "lremovexattr" | "fremovexattr" => {
            let attribute = attribute_name(caller, 1)?;
            worker.remove_attribute(caller, &attributed(worker, caller, name)?, &attribute)
        }
        "utime" => worker.set_times(caller, CWD_NUMBER, 0, (1, Form::Seconds), 0),
        "utimes" => worker.set_times(caller, CWD_NUMBER, 0, (1, Form::Microseconds), 0),
        "futimesat" => worker.set_times(caller, int(0), 1, (2, Form::Microseconds), 0),
        "utimensat" => worker.set_times(caller, int(0), 1, (2, Form::Nanoseconds), caller.unsigned(3)),
        // The filter passes nothing else on.
        _ => Err(Errno::NOSYS),
    }
}

/// The file behind the descriptor in the first argument.
fn descriptor(caller: &Caller<'_>) -> Result<Target, Errno> {
    Target::of(caller.open_file(caller.int(0))?)
}

/// The file that a call on extended attributes is about. Calls whose names begin with `l` mean the link itself.
fn attributed(worker: &Worker<'_>, caller: &Caller<'_>, name: &str) -> Result<Target, Errno> {
    let flags = match name.as_bytes().first() {
        Some(b'f') => return descriptor(caller),
        Some(b'l') => AT_SYMLINK_NOFOLLOW,
        _ => 0,
    };
    worker.target_at(caller, (CWD_NUMBER, 0), flags)
}

/// The system calls that the broker itself makes once its threads have started.
pub(crate) const OWN: &[&str] = &[
    "bind",
    "brk",
    "clock_gettime",
    "clock_nanosleep",
    "nanosleep",
    "clone",
    "clone3",
    "close",
    "connect",
    "dup",
    "exit",
    "exit_group",
    "faccessat",
    "fchdir",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "fchown",
    "fchownat",
    "fcntl",
    "fdatasync",
    "flock",
    "fstat",
    "fstatfs",
    "ftruncate",
    "futex",
    "getcpu",
    "getdents64",
    "getpeername",
    "getpid",
    "getrandom",
    "getsockname",
    "getsockopt",
    "gettid",
    "inotify_add_watch",
    "inotify_init1",
    "ioctl",
    "link",
    "linkat",
    "lseek",
    "lremovexattr",
    "lsetxattr",
    "madvise",
    "membarrier",
    "mkdirat",
    "mknodat",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "newfstatat",
    "openat",
    "openat2",
    "pidfd_getfd",
    "pidfd_open",
    "pidfd_send_signal",
    "poll",
    "ppoll",
    "prctl",
    "pread64",
    "process_vm_readv",
    "process_vm_writev",
    "read",
    "readlinkat",
    "recvmsg",
    "removexattr",
    "rename",
    "renameat",
    "renameat2",
    "restart_syscall",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_getaffinity",
    "sched_setaffinity",
    "sched_yield",
    "seccomp",
    "sendmsg",
    "sendto",
    "set_robust_list",
    "setxattr",
    "sigaltstack",
    "statx",
    "symlinkat",
    "tgkill",
    "umask",
    "unlinkat",
    "unshare",
    "utimensat",
    "write",
];

/// Further calls that the broker makes when the policy states a time of day.
pub(crate) const WITH_CLOCK: &[&str] = &["ptrace", "timerfd_settime", "tkill", "wait4"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_that_is_passed_on_has_an_answer() {
        let source = include_str!("calls.rs");
        let lists = [
            include_str!("../data/broker.list"),
            include_str!("../data/datagrams.list"),
            include_str!("../data/internet.list"),
        ];
        for line in lists.iter().flat_map(|list| list.lines()) {
            let mut words = line.split_whitespace();
            if let (Some(name), Some("notify")) = (words.next(), words.next())
                && !line.starts_with('#')
            {
                assert!(source.contains(&format!("\"{name}\"")), "{name}");
            }
        }
    }

    #[test]
    fn every_call_that_is_learned_is_noted() {
        let source = include_str!("observe.rs");
        for line in include_str!("../data/learn.list").lines() {
            if let Some((name, _rest)) = line.split_once(' ')
                && !line.starts_with('#')
            {
                assert!(source.contains(&format!("\"{name}\"")), "{name}");
            }
        }
    }

    #[test]
    fn the_brokers_own_calls_have_names() {
        for name in OWN.iter().chain(WITH_CLOCK) {
            assert!(name.parse::<Syscall>().is_ok(), "{name}");
        }
    }
}
