// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the kernel's run-time statistics.

use super::Result;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The statistics are on until this is dropped.
pub(crate) struct Statistics(#[expect(dead_code, reason = "it is kept open")] OwnedFd);

impl Statistics {
    pub(crate) fn begin() -> Result<Self> {
        // SAFETY: needed because libbpf-rs lacks the call. Sound: it takes a number and returns a descriptor or a negative
        // number.
        let descriptor = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        if descriptor < 0 {
            return Err(std::io::Error::from_raw_os_error(-descriptor).into());
        }
        // SAFETY: needed to close the descriptor at the end. Sound: it is open, and no other code owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }
}

/// Nanoseconds and runs of a program so far.
#[derive(Clone, Copy)]
pub(crate) struct RunTime {
    nanoseconds: u64,
    runs: u64,
}

impl RunTime {
    /// Nanoseconds per run since `before`.
    pub(crate) fn since(self, before: Self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "some thousands of runs of some hundred nanoseconds")]
        let mean = (self.nanoseconds - before.nanoseconds) as f64 / (self.runs - before.runs).max(1) as f64;
        mean
    }
}

/// The run time of a program.
pub(crate) fn run_time(program: BorrowedFd<'_>) -> Result<RunTime> {
    Ok(RunTime { nanoseconds: field(program, "run_time_ns:")?, runs: field(program, "run_cnt:")? })
}

/// A field of the kernel's description of a program or map.
pub(crate) fn field(descriptor: BorrowedFd<'_>, name: &str) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd()))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such field")?;
    Ok(line.trim().parse()?)
}
