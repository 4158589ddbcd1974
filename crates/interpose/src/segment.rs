// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that all programs of a run share. System V's, since a program that was just executed reaches it by its
//! number alone: no descriptor that would have to survive the execution, or show up among the program's own.

use std::io::Error;
use std::ops::Range;
use std::ptr::NonNull;

/// A segment that goes with the last process that has it.
#[derive(Debug)]
pub(crate) struct Segment {
    id: i32,
    memory: NonNull<u8>,
    length: usize,
}

impl Segment {
    /// Of so many zero bytes, for this user's processes alone.
    pub(crate) fn new(length: usize) -> Result<Self, Error> {
        // Ended between its being made and its being marked, it would stay: there is nobody to remove it.
        let before = block_all();
        let new = Self::make(length);
        // SAFETY: the mask that was in force.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
        new
    }

    fn make(length: usize) -> Result<Self, Error> {
        // The owner may execute what is in it: SHM_EXEC asks for that.
        // SAFETY: makes a segment.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, length, libc::IPC_CREAT | 0o700) };
        if id < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: attaches where there is room.
        let memory = unsafe { libc::shmat(id, std::ptr::null(), 0) };
        let failed = (memory.addr() == usize::MAX).then(Error::last_os_error);
        // Linux lets others attach as long as somebody has it.
        // SAFETY: of this segment's own number.
        unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
        match (failed, NonNull::new(memory.cast())) {
            (None, Some(memory)) => Ok(Self { id, memory, length }),
            (failed, _) => Err(failed.unwrap_or_else(Error::last_os_error)),
        }
    }

    /// By which programs attach it.
    pub(crate) fn id(&self) -> i32 {
        self.id
    }

    /// Its bytes, while nobody else has it.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        self.part(0..self.length)
    }

    /// Some of its bytes, which nobody else has a use for yet.
    pub(crate) fn part(&mut self, bytes: Range<usize>) -> &mut [u8] {
        assert!(bytes.start <= bytes.end && bytes.end <= self.length, "the segment was made for this");
        // SAFETY: attached for as long as this lives; borrowed uniquely, and programs don't look there yet.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(bytes.start), bytes.len()) }
    }

    /// Its memory.
    pub(crate) fn memory(&self) -> NonNull<u8> {
        self.memory
    }

    /// How many processes have it, this one too.
    pub(crate) fn holders(&self) -> u64 {
        // SAFETY: zeros are a valid shmid_ds.
        let mut status: libc::shmid_ds = unsafe { std::mem::zeroed() };
        // SAFETY: writes the status of this segment.
        let answer = unsafe { libc::shmctl(self.id, libc::IPC_STAT, &raw mut status) };
        if answer < 0 { 1 } else { status.shm_nattch }
    }
}

/// Has this thread's signals wait, and answers which did before.
fn block_all() -> libc::sigset_t {
    // SAFETY: zeros are a valid set, both are written.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: nothing of it is borrowed any more.
        unsafe { libc::shmdt(self.memory.as_ptr().cast()) };
    }
}
