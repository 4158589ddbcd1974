// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a broker can judge names on this host.

use super::Facts;
use palisade_sys::probe::{self, Presence};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

const LISTENED: &str = "another program listens to system calls here already, and the kernel permits one listener \
                        (WSL2's mirrored networking is one, and so is a palisade around this one)";

impl Facts {
    /// Why no broker can judge names on this host; `None`: it can. It is tried out, because only the planner asks, and a
    /// plan is kept.
    pub(crate) fn lacks_broker(&self) -> Option<&'static str> {
        *self.broker.get_or_init(|| {
            if let Ok(Presence::Absent { errno: Errno::BUSY, .. }) = probe::listener() {
                // A kept plan would hold in other terminals, too, where no other program listens.
                self.set_volatile();
                return Some(LISTENED);
            }
            unreadable(false)
        })
    }

    /// Whether another program listens to this one's system calls. It may make them in the caller's place.
    pub(crate) fn is_listened_to(&self) -> bool {
        self.lacks_broker() == Some(LISTENED)
    }
}

/// Why the broker can't read which names a command passes to the kernel; `None`: it can. Each launch asks, because a kept
/// plan doesn't depend on the setting.
pub(crate) fn unreadable(in_place: bool) -> Option<&'static str> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    // A kernel without Yama doesn't have it.
    let setting = rustix::fs::open(c"/proc/sys/kernel/yama/ptrace_scope", flags, Mode::empty()).ok()?;
    let mut scope = [0u8; 1];
    rustix::io::read(&setting, &mut scope).ok()?;
    match &scope {
        b"3" => Some(
            "kernel.yama.ptrace_scope is 3, so no process can read which names another one passes to the kernel",
        ),
        b"2" if in_place => Some(
            "kernel.yama.ptrace_scope is 2, so no process without a privilege can read which names another one passes \
             to the kernel",
        ),
        _ => None,
    }
}
