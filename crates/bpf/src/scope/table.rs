// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of marks, read as the kernel writes it: a system call for each place would take longer than all the rest.

use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Without it a mark's next exec is the launch.
const ARMED: u32 = 1 << 31;
/// What `born` is above, if the mark is written to its end.
const TAKEN: u64 = 1;

/// `struct mark`.
#[repr(C)]
struct Place {
    born: AtomicU64,
    process: AtomicU32,
    scope: AtomicU32,
}

/// A mark that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) born: u64,
    pub(super) process: u32,
    pub(super) scope: u32,
}

/// The table's memory.
pub(super) struct Table {
    start: NonNull<c_void>,
    places: usize,
}

impl Table {
    /// Of a map whose entries are [`Place`]s.
    pub(super) fn map(table: BorrowedFd<'_>, places: u32) -> io::Result<Self> {
        let places = usize::try_from(places).map_err(io::Error::other)?;
        // SAFETY: needed because libbpf-rs doesn't map arrays. The kernel chooses an address that nobody uses; the length is
        // the array's, and the kernel refuses one that is longer; nothing is written.
        let start = unsafe {
            mmap(null_mut(), places * size_of::<Place>(), ProtFlags::READ, MapFlags::SHARED, table, 0)
        }?;
        let start = NonNull::new(start).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { start, places })
    }

    /// Every mark that there is.
    pub(super) fn marks(&self) -> impl Iterator<Item = Mark> + '_ {
        // SAFETY: needed to read what is mapped. It is as long as this says and aligned to a page, stays mapped as long as `self`,
        // any bytes are a `Place`, and that the kernel writes meanwhile is what atomics are for.
        let places = unsafe { std::slice::from_raw_parts(self.start.cast::<Place>().as_ptr(), self.places) };
        places.iter().filter_map(|place| {
            let born = place.born.load(Ordering::Acquire);
            (born > TAKEN).then(|| Mark {
                born,
                process: place.process.load(Ordering::Relaxed) & !ARMED,
                scope: place.scope.load(Ordering::Relaxed),
            })
        })
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: needed to give it back; it was mapped with this address and length, and nobody has a reference into it.
        let _gone = unsafe { munmap(self.start.as_ptr(), self.places * size_of::<Place>()) };
    }
}
