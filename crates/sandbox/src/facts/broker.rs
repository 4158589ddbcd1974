// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a broker can judge names on this host.

use super::Facts;
use palisade_sys::probe::{self, Presence};
use rustix::io::Errno;
use std::path::Path;

impl Facts {
    /// Why no broker can judge names on this host; `None`: it can. It is tried out, because only the planner asks, and a
    /// plan is kept.
    pub(crate) fn lacks_broker(&self) -> Option<&'static str> {
        *self.broker.get_or_init(|| {
            if let Ok(Presence::Absent { errno: Errno::BUSY, .. }) = probe::listener() {
                // A kept plan would hold in other terminals, too, where no other program listens.
                self.set_volatile();
                return Some(
                    "another program listens to system calls here already, and the kernel permits one listener \
                     (WSL2's mirrored networking is one, and so is a palisade around this one)",
                );
            }
            let scope = palisade_host::file::read_attribute(Path::new("/proc/sys/kernel/yama/ptrace_scope"));
            (scope.as_deref() == Some("3")).then_some(
                "kernel.yama.ptrace_scope is 3, so no process can read which names another one passes to the kernel",
            )
        })
    }

    /// Why no process can read the memory of its descendants outside of a user namespace of its own.
    pub(crate) fn lacks_tracing(&self) -> Option<&'static str> {
        let scope = palisade_host::file::read_attribute(Path::new("/proc/sys/kernel/yama/ptrace_scope"));
        (scope.as_deref() == Some("2")).then_some(
            "kernel.yama.ptrace_scope is 2, so no process without a privilege can read which names another one passes \
             to the kernel",
        )
    }
}
