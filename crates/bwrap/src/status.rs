// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What callers are told through descriptors that they pass: numbers of processes and namespaces, and exit codes.

use crate::request::Namespaces;
use crate::words::{Result, because};
use rustix::io::Errno;
use std::fmt::Write as _;
use std::os::fd::{BorrowedFd, OwnedFd};

/// A namespace's name and inode.
pub(crate) type Named = (&'static str, u64);

/// The namespaces that the child has for itself. The user namespace isn't among them: it may be replaced later.
pub(crate) fn namespaces(child: i32, wanted: &Namespaces) -> Result<Vec<Named>> {
    let directory = format!("/proc/{child}/ns");
    let opened = rustix::fs::open(&directory, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty())
        .map_err(|errno| because(format!("open {directory} failed"), errno))?;
    let all = [
        ("cgroup", wanted.cgroup),
        ("ipc", wanted.ipc),
        ("mnt", true),
        ("net", wanted.network),
        ("pid", wanted.pid),
        ("uts", wanted.uts),
    ];
    let inode = |(name, wanted): (&'static str, bool)| {
        let found = wanted.then(|| rustix::fs::statat(&opened, name, rustix::fs::AtFlags::empty()))?;
        found.ok().map(|stat| (name, stat.st_ino))
    };
    Ok(all.into_iter().filter_map(inode).collect())
}

/// The document of `--info-fd`.
pub(crate) fn info(child: i32, namespaces: &[Named]) -> String {
    let mut text = format!("{{\n    \"child-pid\": {child}");
    for (name, inode) in namespaces {
        let _infallible = write!(text, ",\n    \"{name}-namespace\": {inode}");
    }
    text.push_str("\n}\n");
    text
}

/// The first document of `--json-status-fd`.
pub(crate) fn child(child: i32, namespaces: &[Named]) -> String {
    let mut text = format!("{{ \"child-pid\": {child}");
    for (name, inode) in namespaces {
        let _infallible = write!(text, ", \"{name}-namespace\": {inode}");
    }
    text.push_str(" }\n");
    text
}

/// The last one.
pub(crate) fn exit_code(code: u8) -> String {
    format!("{{ \"exit-code\": {code} }}\n")
}

/// Writes all of it.
pub(crate) fn write(number: i32, text: &str) -> core::result::Result<(), Errno> {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match palisade_sys::family::write(number, rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Closes a descriptor of the caller's.
pub(crate) fn close(number: i32) {
    palisade_sys::family::close(number);
}

/// Waits until a descriptor can be read, or its other end is closed.
pub(crate) fn wait_for_byte(number: i32) {
    while palisade_sys::family::read(number, &mut [0]) == Err(Errno::INTR) {}
}

/// Reads what an event descriptor says.
pub(crate) fn read_event(event: &OwnedFd) -> core::result::Result<u64, Errno> {
    let mut value = [0u8; 8];
    loop {
        match rustix::io::read(event, &mut value) {
            Ok(_) => return Ok(u64::from_ne_bytes(value)),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// The number of a descriptor.
pub(crate) fn number(descriptor: BorrowedFd<'_>) -> i32 {
    use std::os::fd::AsRawFd;
    descriptor.as_raw_fd()
}
