// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this host lets the caller do, found by doing it in a forked child.
//!
//! Versions and settings only say what should work; a container, a security module or a limit may still refuse it. A
//! probe reports "absent" for the refusals that the kernel is known to give where a feature is missing or forbidden.
//! Every other failure is an error, never an answer.

use crate::operation::Attributes;
use crate::raw::{self, Fd};
use crate::{clone, mount, wait};
use core::ffi::CStr;
use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// What a probe found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// It works.
    Present,
    /// It is refused.
    Absent {
        /// What was tried, as a verb phrase.
        action: &'static str,
        /// The refusal.
        errno: Errno,
    },
}

impl Presence {
    /// Whether it works.
    #[must_use]
    pub const fn is_present(self) -> bool {
        matches!(self, Self::Present)
    }
}

/// A probe failed for a reason that has nothing to do with the feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("can't {action}: {errno}")]
pub struct ProbeError {
    /// What was tried.
    pub action: &'static str,
    /// What the kernel said.
    pub errno: Errno,
}

/// A kind of namespace, beside the user namespace it is made in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nothing else: users and capabilities.
    User,
    /// The file tree. The probe mounts a tmpfs and clones the root's tree.
    Mount,
    /// Processes. The probe mounts a `/proc` of its own.
    Pid,
    /// System V IPC.
    Ipc,
    /// Host name.
    Uts,
    /// Control groups.
    Cgroup,
    /// Network. The probe brings its loopback interface up.
    Network,
    /// Network in which every connection is led to one listener, as in a filtered network.
    Led,
}

/// An action in a new namespace: its name, and the function that does it.
type Use = (&'static str, fn() -> raw::Result<()>);

impl Kind {
    const fn flags(self) -> i32 {
        libc::CLONE_NEWUSER
            | match self {
                Self::User => 0,
                Self::Mount => libc::CLONE_NEWNS,
                Self::Pid => libc::CLONE_NEWPID | libc::CLONE_NEWNS,
                Self::Ipc => libc::CLONE_NEWIPC,
                Self::Uts => libc::CLONE_NEWUTS,
                Self::Cgroup => libc::CLONE_NEWCGROUP,
                Self::Network | Self::Led => libc::CLONE_NEWNET,
            }
    }

    /// The making of the namespace, as the action of an absence.
    #[must_use]
    pub const fn made(self) -> &'static str {
        match self {
            Self::User => "make a user namespace",
            Self::Mount => "make a user and a mount namespace",
            Self::Pid => "make a user and a PID namespace",
            Self::Ipc => "make a user and an IPC namespace",
            Self::Uts => "make a user and a UTS namespace",
            Self::Cgroup => "make a user and a cgroup namespace",
            Self::Network | Self::Led => "make a user and a network namespace",
        }
    }

    const fn uses(self) -> &'static [Use] {
        match self {
            Self::Mount => &[
                ("mount a tmpfs in a user namespace", mount_tmpfs),
                ("clone the root's file tree in a user namespace", clone_root),
            ],
            Self::Pid => &[
                ("mount a tmpfs in a user namespace", mount_tmpfs),
                ("clone the root's file tree in a user namespace", clone_root),
                ("mount /proc in a PID namespace", mount_proc),
            ],
            Self::Uts => &[("set the host name in a UTS namespace", set_hostname)],
            Self::Network => &[("bring up loopback in a network namespace", raw::loopback_up)],
            Self::Led => &[
                ("bring up loopback in a network namespace", raw::loopback_up),
                ("route every address to the loopback interface", crate::network::lead_addresses),
                ("redirect connections by nftables", crate::network::lead_connections),
            ],
            // With Ubuntu's settings AppArmor permits making the namespace and removes the capabilities in it. This
            // shows only when a capability is used.
            Self::User => &[("use capabilities in a user namespace", use_capabilities)],
            Self::Ipc | Self::Cgroup => &[],
        }
    }
}

fn mount_fresh(kind: &CStr) -> raw::Result<()> {
    let fs = raw::fsopen(kind)?;
    raw::fsconfig_create(fs)?;
    raw::fsmount(fs, 0).map(drop)
}

fn mount_tmpfs() -> raw::Result<()> {
    mount_fresh(c"tmpfs")
}

fn mount_proc() -> raw::Result<()> {
    mount_fresh(c"proc")
}

fn clone_root() -> raw::Result<()> {
    const CLONE: u32 = 1;
    let flags = CLONE | libc::O_CLOEXEC.cast_unsigned() | libc::AT_RECURSIVE.cast_unsigned();
    raw::open_tree(libc::AT_FDCWD, c"/", flags).map(drop)
}

fn set_hostname() -> raw::Result<()> {
    raw::sethostname(b"probe")
}

/// Another namespace needs one. (Not the host's name: a container's filter may refuse that call to everybody.)
fn use_capabilities() -> raw::Result<()> {
    raw::unshare(libc::CLONE_NEWUTS)
}

/// The errors by which the kernel refuses a missing or forbidden feature: not allowed (a setting, a security module,
/// a container's filter or masked `/proc`), none left or limit 0, unknown flag, no such call, no such file system.
const REFUSALS: [Errno; 8] = [
    Errno::PERM,
    Errno::ACCESS,
    Errno::NOSPC,
    Errno::INVAL,
    Errno::NOSYS,
    Errno::USERS,
    Errno::NODEV,
    Errno::OPNOTSUPP,
];

fn judge(action: &'static str, errno: Errno) -> Result<Presence, ProbeError> {
    if REFUSALS.contains(&errno) {
        Ok(Presence::Absent { action, errno })
    } else {
        Err(ProbeError { action, errno })
    }
}

/// Whether the caller can make a namespace of this kind, in a user namespace of its own, and use it.
///
/// # Errors
/// When an operation fails for a reason that has nothing to do with the feature, such as a process limit.
pub fn namespace(kind: Kind) -> Result<Presence, ProbeError> {
    const MAPPED: &str = "map the user into a user namespace";
    let failed = |action| move |errno| ProbeError { action, errno };
    let line = |inside: u32| format!("{inside} {inside} 1").into_bytes();
    let uid_map = line(rustix::process::geteuid().as_raw());
    let gid_map = line(rustix::process::getegid().as_raw());
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(failed("make a pipe"))?;
    let answer = writer.as_raw_fd();
    let uses = kind.uses();
    if kind == Kind::Led {
        crate::network::prepare();
    }
    // SAFETY: needed to try it in another process. Sound: the child uses raw calls only, on memory
    // prepared before, and doesn't return.
    let child = match unsafe { clone::forking(kind.flags(), libc::SIGCHLD) } {
        Ok(Some(child)) => child,
        Ok(None) => {
            let mapped = raw::write_file(c"/proc/self/setgroups", b"deny")
                .and_then(|()| raw::write_file(c"/proc/self/uid_map", &uid_map))
                .and_then(|()| raw::write_file(c"/proc/self/gid_map", &gid_map));
            let mut message = match mapped {
                Ok(()) => [0, 0],
                Err(errno) => [1, errno.raw_os_error()],
            };
            let mut number = 1;
            for (_action, action) in uses {
                number += 1;
                if message == [0, 0]
                    && let Err(errno) = action()
                {
                    message = [number, errno.raw_os_error()];
                }
            }
            tell(answer, message)
        }
        Err(errno) => return judge(kind.made(), errno),
    };
    drop(writer);
    let told = listen(&reader);
    let _reaped = wait::blocking(child);
    match told.map_err(failed("read the result of a probe's process"))? {
        [0, _] => Ok(Presence::Present),
        [step, errno] => {
            let place = usize::try_from(step).ok().and_then(|step| step.checked_sub(2));
            let action = place.and_then(|place| uses.get(place)).map_or(MAPPED, |(action, _run)| *action);
            judge(action, Errno::from_raw_os_error(errno))
        }
    }
}

/// Writes the answer and ends the child.
fn tell(to: Fd, message: [i32; 2]) -> ! {
    let mut bytes = [0; 8];
    let (step, errno) = bytes.split_at_mut(4);
    step.copy_from_slice(&message[0].to_ne_bytes());
    errno.copy_from_slice(&message[1].to_ne_bytes());
    // If this write fails, the parent reads nothing and reports an error.
    let _told = raw::write(to, &bytes);
    raw::exit(0)
}

fn listen(from: &OwnedFd) -> Result<[i32; 2], Errno> {
    let mut bytes = [0u8; 8];
    let read = retry_on_intr(|| rustix::io::read(from, &mut bytes))?;
    if read < bytes.len() {
        return Err(Errno::PIPE);
    }
    let (numbers, _none) = bytes.as_chunks::<4>();
    Ok([0, 1].map(|number| i32::from_ne_bytes(numbers[number])))
}

/// Whether user namespaces, mounts in them, and a `/proc` of their own work for the caller. Where mounts cover parts of
/// `/proc`, as in a container, only the last one is refused.
#[must_use]
pub fn user_namespaces_work() -> bool {
    namespace(Kind::Pid).is_ok_and(Presence::is_present)
}

/// Whether a filter of the caller can have a listener. The kernel permits one listener for all filters of a process.
/// `Absent` with `EBUSY`: a filter that the caller has inherited has it.
///
/// # Errors
/// When an operation fails for a reason that has nothing to do with the feature.
pub fn listener() -> Result<Presence, ProbeError> {
    const LISTEN: &str = "listen to system calls";
    let failed = |action| move |errno| ProbeError { action, errno };
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(failed("make a pipe"))?;
    let answer = writer.as_raw_fd();
    // SAFETY: needed because a filter can't be removed from a process. Sound: the child uses raw calls only and doesn't
    // return.
    let child = match unsafe { clone::forking(0, libc::SIGCHLD) } {
        Ok(Some(child)) => child,
        Ok(None) => {
            let listening = raw::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)
                .and_then(|_| crate::seccomp::install_with_listener(&crate::seccomp::ALLOW));
            tell(answer, listening.map_or_else(|errno| [1, errno.raw_os_error()], |_listener| [0, 0]))
        }
        Err(errno) => return Err(ProbeError { action: "make a process", errno }),
    };
    drop(writer);
    let told = listen(&reader);
    let _reaped = wait::blocking(child);
    match told.map_err(failed("read the result of a probe's process"))? {
        [0, _] => Ok(Presence::Present),
        [_, errno] => match Errno::from_raw_os_error(errno) {
            errno @ Errno::BUSY => Ok(Presence::Absent { action: LISTEN, errno }),
            errno => judge(LISTEN, errno),
        },
    }
}

/// Whether a seccomp filter refuses user namespaces to the caller.
///
/// The kernel refuses these two flags together before it looks at limits, settings and security modules, with another error
/// than a filter (`copy_process` in `kernel/fork.c`).
#[must_use]
pub fn user_namespaces_are_filtered() -> bool {
    // SAFETY: needed to see whether the call reaches the kernel. Sound: a child that there is nevertheless ends at once.
    match unsafe { clone::forking(libc::CLONE_NEWUSER | libc::CLONE_FS, libc::SIGCHLD) } {
        Ok(Some(child)) => {
            let _reaped = wait::blocking(child);
            false
        }
        Ok(None) => raw::exit(0),
        Err(errno) => matches!(errno, Errno::PERM | Errno::ACCESS | Errno::NOSYS),
    }
}

/// Whether the owners of files at `path` can be mapped on a mount of it, which takes a privileged
/// caller and a file system that can.
///
/// # Errors
/// When an operation fails for a reason that has nothing to do with the feature.
pub fn mapped_owners(path: &CStr) -> Result<Presence, ProbeError> {
    const NAMESPACE: &str = "make a user namespace";
    const CLONED: &str = "clone the file tree";
    const MAPPED: &str = "map the owners of a mount";
    let failed = |action| move |errno| ProbeError { action, errno };
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(failed("make a pipe"))?;
    let (waits, holds) = (reader.as_raw_fd(), writer.as_raw_fd());
    // SAFETY: needed for a namespace other than the caller's. Sound: the child uses raw calls only
    // and doesn't return.
    let child = match unsafe { clone::forking(libc::CLONE_NEWUSER, libc::SIGCHLD) } {
        Ok(Some(child)) => child,
        Ok(None) => {
            // The child would otherwise wait for its own copy of the writing end.
            let _closed = raw::close(holds);
            let _end_of_file = raw::read(waits, &mut [0]);
            raw::exit(0)
        }
        Err(errno) => return judge(NAMESPACE, errno),
    };
    drop(reader);
    let outcome = (|| {
        for file in ["uid_map", "gid_map"] {
            let file =
                CString::new(format!("/proc/{child}/{file}")).map_err(|_nul| (MAPPED, Errno::INVAL))?;
            // Mapping user 0 to user 1 needs the same capability as the maps of a launch.
            raw::write_file(&file, b"0 1 1").map_err(|errno| (MAPPED, errno))?;
        }
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
        let namespace = rustix::fs::open(format!("/proc/{child}/ns/user"), flags, rustix::fs::Mode::empty())
            .map_err(|errno| (NAMESPACE, errno))?;
        let tree = mount::detached(path, Attributes::default()).map_err(|errno| (CLONED, errno))?;
        mount::map_owners(tree.as_fd(), namespace.as_fd()).map_err(|errno| (MAPPED, errno))
    })();
    drop(writer);
    let _reaped = wait::blocking(child);
    match outcome {
        Ok(()) => Ok(Presence::Present),
        Err((action, errno)) => judge(action, errno),
    }
}

/// Landlock's ABI version; `Ok(Err)` holds the refusal where there is none.
///
/// # Errors
/// When the kernel gives an answer that has nothing to do with the feature.
pub fn landlock() -> Result<Result<u32, Errno>, ProbeError> {
    const VERSION: usize = 1;
    // SAFETY: needed for a call rustix lacks. Sound: with this flag the kernel reads no memory.
    match unsafe { raw::syscall(libc::SYS_landlock_create_ruleset, [0, 0, VERSION, 0, 0, 0]) } {
        Ok(version) => Ok(Ok(u32::try_from(version).unwrap_or(u32::MAX))),
        // Not compiled in; compiled in but not enabled; refused by a container's filter.
        Err(errno @ (Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM)) => Ok(Err(errno)),
        Err(errno) => Err(ProbeError { action: "ask for Landlock's version", errno }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_answers() {
        for kind in [Kind::User, Kind::Mount, Kind::Pid, Kind::Ipc, Kind::Uts, Kind::Cgroup, Kind::Network] {
            let answer = namespace(kind);
            assert!(answer.is_ok(), "{kind:?}: {answer:?}");
        }
    }

    #[test]
    fn a_listener_can_be_had_here() {
        assert_eq!(listener(), Ok(Presence::Present));
        // It was another process's.
        assert_eq!(listener(), Ok(Presence::Present));
    }

    #[test]
    fn a_kind_that_needs_more_implies_the_user_namespace() {
        if namespace(Kind::Mount).unwrap().is_present() {
            assert!(namespace(Kind::User).unwrap().is_present());
        }
        assert_eq!(user_namespaces_work(), namespace(Kind::Pid).unwrap().is_present());
    }

    #[test]
    fn no_filter_refuses_what_works() {
        if namespace(Kind::User).unwrap().is_present() {
            assert!(!user_namespaces_are_filtered());
        }
    }

    #[test]
    fn owners_of_proc_cannot_be_mapped() {
        // procfs doesn't have FS_ALLOW_IDMAP, so mapping fails for every user.
        assert!(matches!(mapped_owners(c"/proc").unwrap(), Presence::Absent { .. }));
    }

    #[test]
    fn a_missing_path_is_an_error_and_no_answer() {
        if rustix::process::geteuid().is_root() {
            assert_eq!(mapped_owners(c"/none/there").map_err(|error| error.errno), Err(Errno::NOENT));
        }
    }

    #[test]
    fn landlock_agrees_with_what_the_launcher_asks() {
        assert_eq!(landlock().unwrap().ok(), crate::landlock::abi());
    }
}
