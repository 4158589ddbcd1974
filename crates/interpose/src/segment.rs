// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that all programs of a run share. It is System V shared memory, because a program that was just executed
//! can attach it by its number. It needs no descriptor, which would have to survive the exec and would be visible
//! among the program's own.

use std::io::Error;
use std::ops::Range;
use std::ptr::NonNull;

/// A segment that the kernel removes when the last process detaches it.
#[derive(Debug)]
pub(crate) struct Segment {
    id: i32,
    memory: NonNull<u8>,
    length: usize,
}

impl Segment {
    /// Makes a segment of `length` zero bytes, for this user's processes only.
    pub(crate) fn new(length: usize) -> Result<Self, Error> {
        // With signals blocked: if this process ended between making the segment and marking it for removal, the
        // segment would stay.
        let before = block_all();
        let new = Self::make(length);
        // SAFETY: needed: only the C library changes a thread's mask. Sound: it reads `before`, which lives until the call
        // returns and is the mask that `block_all` got.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
        new
    }

    fn make(length: usize) -> Result<Self, Error> {
        // The owner may execute what is in it: SHM_EXEC asks for that.
        // SAFETY: needed: segments come from the kernel. Sound: the call touches no memory of this process.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, length, libc::IPC_CREAT | 0o700) };
        if id < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: needed: segments are attached by the kernel. Sound: it chooses the address (none is given), so no mapping is
        // replaced.
        let memory = unsafe { libc::shmat(id, std::ptr::null(), 0) };
        let failed = (memory.addr() == usize::MAX).then(Error::last_os_error);
        // Linux lets other processes attach a removed segment as long as a process has it attached.
        // SAFETY: needed: only the kernel removes segments. Sound: IPC_RMID reads and writes no memory; the segment was made
        // above, and what is attached stays until it is detached.
        unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
        match (failed, NonNull::new(memory.cast())) {
            (None, Some(memory)) => Ok(Self { id, memory, length }),
            (failed, _) => Err(failed.unwrap_or_else(Error::last_os_error)),
        }
    }

    /// The number by which programs attach it.
    pub(crate) fn id(&self) -> i32 {
        self.id
    }

    /// Its bytes, while no other process has it attached.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        self.part(0..self.length)
    }

    /// A part of its bytes that no other process uses yet.
    pub(crate) fn part(&mut self, bytes: Range<usize>) -> &mut [u8] {
        assert!(bytes.start <= bytes.end && bytes.end <= self.length, "the segment was made for this");
        // SAFETY: needed: the segment is memory that no variable owns. Sound: it is attached as long as `self` lives, the range
        // is within its length, `self` is borrowed uniquely, and no program uses this part yet.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(bytes.start), bytes.len()) }
    }

    /// Its memory.
    pub(crate) fn memory(&self) -> NonNull<u8> {
        self.memory
    }

    /// How many processes have it attached, including this one.
    pub(crate) fn holders(&self) -> u64 {
        // SAFETY: needed: the structure has fields that no constructor names. Sound: all of them are numbers, for which zero is
        // valid.
        let mut status: libc::shmid_ds = unsafe { std::mem::zeroed() };
        // SAFETY: needed: only the kernel knows how often it is attached. Sound: IPC_STAT writes one shmid_ds into `status`,
        // which lives until the call returns.
        let answer = unsafe { libc::shmctl(self.id, libc::IPC_STAT, &raw mut status) };
        if answer < 0 { 1 } else { status.shm_nattch }
    }
}

/// Blocks this thread's signals, and returns the mask of before.
fn block_all() -> libc::sigset_t {
    // SAFETY: needed: only the C library fills sets and changes masks. Sound: both sets are arrays of numbers, for which zero
    // is valid, and live until the calls return.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: needed: only the kernel detaches segments. Sound: the address is the one at which this segment was attached,
        // and `drop` has `self` alone, so nothing borrows its memory any more.
        unsafe { libc::shmdt(self.memory.as_ptr().cast()) };
    }
}
