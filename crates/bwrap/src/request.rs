// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the arguments ask for.

use std::ffi::CString;

/// One step by which the file tree is made, in the order of the arguments. Destinations are paths of the new tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Setup {
    /// Shows a tree or a file of the host: `--bind`, `--ro-bind`, `--dev-bind`, their `-try` forms, and `--bind-fd`.
    Bind {
        /// What is shown.
        source: Origin,
        /// Where.
        dest: CString,
        /// What is allowed there.
        access: Access,
        /// A source that doesn't exist is ignored.
        optional: bool,
    },
    /// Shows several trees of the host as one: `--overlay`, `--tmp-overlay`, `--ro-overlay`.
    Overlay {
        /// Where changes go.
        changes: Changes,
        /// The trees (`--overlay-src`), the topmost first.
        layers: Vec<CString>,
        /// Where.
        dest: CString,
    },
    /// Mounts the process file system: `--proc`.
    Proc {
        /// Where.
        dest: CString,
    },
    /// Makes a directory of devices: `--dev`.
    Devices {
        /// Where.
        dest: CString,
    },
    /// Mounts an empty tmpfs: `--tmpfs`.
    Tmpfs {
        /// Where.
        dest: CString,
        /// Permissions of its root.
        mode: u32,
        /// Its size in bytes; `None`: the kernel's default.
        size: Option<u64>,
    },
    /// Mounts the message queues: `--mqueue`.
    MessageQueues {
        /// Where.
        dest: CString,
    },
    /// Makes a directory: `--dir`.
    Directory {
        /// Where.
        dest: CString,
        /// Its permissions.
        mode: u32,
    },
    /// Makes a file of what a descriptor gives: `--file`.
    File {
        /// The descriptor.
        content: i32,
        /// Where.
        dest: CString,
        /// Its permissions.
        mode: u32,
    },
    /// Mounts a file of what a descriptor gives: `--bind-data`, `--ro-bind-data`.
    Data {
        /// The descriptor.
        content: i32,
        /// Where.
        dest: CString,
        /// Its permissions.
        mode: u32,
        /// Its mount is read-only.
        read_only: bool,
    },
    /// Makes a symbolic link: `--symlink`.
    Symlink {
        /// Where the link leads.
        target: CString,
        /// Where.
        dest: CString,
    },
    /// Makes a mount read-only, without those beneath it: `--remount-ro`.
    ReadOnly {
        /// Which.
        dest: CString,
    },
    /// Sets the host name: `--hostname`.
    Hostname {
        /// The name.
        name: CString,
    },
    /// Changes permissions: `--chmod`.
    Permissions {
        /// Of what.
        dest: CString,
        /// The permissions.
        mode: u32,
    },
}

/// What a bind mount shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A path of the host; symbolic links are followed.
    Path(CString),
    /// An open file or directory.
    Descriptor(i32),
}

/// What a bind mount allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reading and writing.
    Write,
    /// Reading.
    Read,
    /// Reading and writing, and the use of device files.
    Devices,
}

/// Where changes in an overlay go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Changes {
    /// Into a directory of the host, with an empty one on the same file system for overlayfs itself.
    Kept {
        /// The directory.
        upper: CString,
        /// The empty one.
        work: CString,
    },
    /// Into a tmpfs that is gone with the sandbox.
    Temporary,
    /// There can't be any.
    None,
}

/// The namespaces. `…_if_possible` are the `-try` options.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one for each option")]
pub struct Namespaces {
    /// `--unshare-user`
    pub user: bool,
    /// `--unshare-user-try`
    pub user_if_possible: bool,
    /// `--unshare-ipc`
    pub ipc: bool,
    /// `--unshare-pid`
    pub pid: bool,
    /// `--unshare-net`
    pub network: bool,
    /// `--unshare-uts`
    pub uts: bool,
    /// `--unshare-cgroup`
    pub cgroup: bool,
    /// `--unshare-cgroup-try`
    pub cgroup_if_possible: bool,
}

/// The descriptors that the caller passes, other than those of [`Setup`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Descriptors {
    /// `--sync-fd`: stays open while the sandbox lives.
    pub sync: Option<i32>,
    /// `--block-fd`: the command waits until it can be read.
    pub block: Option<i32>,
    /// `--userns-block-fd`: the sandbox waits until it can be read, and the caller writes the user map.
    pub user_map_block: Option<i32>,
    /// `--info-fd`: gets one JSON document.
    pub info: Option<i32>,
    /// `--json-status-fd`: gets several JSON documents.
    pub status: Option<i32>,
    /// `--userns`: the user namespace to enter.
    pub user_namespace: Option<i32>,
    /// `--userns2`: the user namespace to enter once the file tree stands.
    pub second_user_namespace: Option<i32>,
    /// `--pidns`: the PID namespace to enter.
    pub pid_namespace: Option<i32>,
    /// `--seccomp`: a filter, which is read last.
    pub filter: Option<i32>,
}

/// A change of the environment. They are made in the order of the arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EnvironmentChange {
    /// `--clearenv`
    Clear,
    /// `--setenv`
    Set {
        /// The variable.
        name: CString,
        /// Its value.
        value: CString,
    },
    /// `--unsetenv`
    Unset {
        /// The variable.
        name: CString,
    },
}

/// What the arguments ask for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one for each option")]
pub struct Request {
    /// The steps.
    pub setup: Vec<Setup>,
    /// The namespaces.
    pub namespaces: Namespaces,
    /// `--uid`
    pub uid: Option<u32>,
    /// `--gid`
    pub gid: Option<u32>,
    /// The descriptors.
    pub descriptors: Descriptors,
    /// The changes of the environment.
    pub environment: Vec<EnvironmentChange>,
    /// `--chdir`
    pub directory: Option<CString>,
    /// `--argv0`
    pub first_argument: Option<CString>,
    /// What `--cap-add` and `--cap-drop` leave, one bit for each, if there are any; else root keeps what it has, and
    /// others have none. `--cap-add ALL` sets all 64 bits.
    pub capabilities: Option<u64>,
    /// The filters of `--add-seccomp-fd`, read already.
    pub filters: Vec<Vec<u8>>,
    /// `--lock-file`
    pub locks: Vec<CString>,
    /// `--disable-userns`
    pub disable_user_namespaces: bool,
    /// `--assert-userns-disabled`
    pub assert_user_namespaces_disabled: bool,
    /// `--new-session`
    pub new_session: bool,
    /// `--die-with-parent`
    pub die_with_parent: bool,
    /// `--as-pid-1`
    pub as_pid_1: bool,
    /// `--level-prefix`
    pub level_prefix: bool,
    /// `--policy`, which is Palisade's own: the policy that is kept to in addition.
    pub policy: Option<CString>,
    /// The command and its arguments. Empty when there is no command; the usage is printed then.
    pub command: Vec<CString>,
}

impl Request {
    /// Whether a device directory is asked for, which needs a root user inside while it is made.
    #[must_use]
    pub fn needs_devices(&self) -> bool {
        self.setup.iter().any(|step| matches!(step, Setup::Devices { .. }))
    }
}
