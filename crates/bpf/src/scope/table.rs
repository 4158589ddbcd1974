// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the table of marks in shared memory. A system call for each place would take longer than everything else.

use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// If this bit isn't set, the mark's next exec is the launch.
const ARMED: u32 = 1 << 31;
/// `born` is larger than this if the mark is completely written.
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
    /// Maps the memory of a map with entries of type [`Place`].
    pub(super) fn map(table: BorrowedFd<'_>, places: u32) -> io::Result<Self> {
        let places = usize::try_from(places).map_err(io::Error::other)?;
        // SAFETY: needed because libbpf-rs doesn't map arrays. Sound: the kernel chooses an unused address; the length is
        // the array's, and the kernel refuses a longer one; nothing is written.
        let start = unsafe {
            mmap(null_mut(), places * size_of::<Place>(), ProtFlags::READ, MapFlags::SHARED, table, 0)
        }?;
        let start = NonNull::new(start).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { start, places })
    }

    /// All marks in the table.
    pub(super) fn marks(&self) -> impl Iterator<Item = Mark> + '_ {
        // SAFETY: needed to read the mapped memory. Sound: it has this length, is aligned to a page, and stays mapped as
        // long as `self`; any bytes are a valid `Place`; the kernel writes meanwhile, which the atomics allow.
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
        // SAFETY: needed to unmap the memory. Sound: it was mapped with this address and length, and no reference into it
        // is left.
        let _gone = unsafe { munmap(self.start.as_ptr(), self.places * size_of::<Place>()) };
    }
}
