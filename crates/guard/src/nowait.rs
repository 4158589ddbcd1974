// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Examines files without waiting for a disk, a server or another machine, because the guard answers the requests of
//! the whole host.

use crate::shortage::noted;
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// An answer would need a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TakesLong;

/// Fills `buffer` from `offset` as far as there is content, with what is in memory.
///
/// # Errors
/// [`TakesLong`] if some of the content isn't in memory, or the file system can't tell.
pub(crate) fn read_at(file: BorrowedFd<'_>, offset: u64, buffer: &mut [u8]) -> Result<usize, TakesLong> {
    let mut filled = 0;
    while filled < buffer.len() {
        let Some(at) = offset.checked_add(filled as u64) else { break };
        let mut rest = [IoSliceMut::new(&mut buffer[filled..])];
        match preadv2(file, &mut rest, at, ReadWriteFlags::NOWAIT) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Err(TakesLong),
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) if is_in_memory(file) == Some(true) => {
                let mut rest = [IoSliceMut::new(&mut buffer[filled..])];
                match rustix::io::preadv(file, &mut rest, at) {
                    Ok(0) | Err(_) => break,
                    Ok(read) => filled += read,
                }
            }
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => return Err(TakesLong),
            Err(_) => break,
        }
    }
    Ok(filled)
}

/// Whether the file's file system has no disk, or is an overlay. An overlay can't tell what is in memory, and most
/// files of containers are on one. `None` if the type of file system can't be found out.
pub(crate) fn is_in_memory(file: BorrowedFd<'_>) -> Option<bool> {
    const TYPES: [i64; 6] = [
        0x0102_1994, // tmpfs
        0x8584_58f6, // ramfs
        0x9584_58f6, // hugetlbfs
        0x9fa0,      // proc
        0x6265_6572, // sysfs
        0x794c_7630, // overlay
    ];
    #[expect(clippy::unnecessary_cast, reason = "the C libraries disagree about the width")]
    rustix::fs::fstatfs(file).ok().map(|about| TYPES.contains(&(about.f_type as i64)))
}

/// The attributes of the file that a path leads to, as far as the kernel knows them without asking the file's server.
/// (`/proc/PID/exe` leads to any file system.)
pub(crate) fn look_at(path: impl AsRef<Path>) -> Result<Statx, Errno> {
    noted(statx(CWD, path.as_ref(), AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Advice;
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_in_memory_is_read_and_what_isnt_is_not() {
        // On a disk, if this machine has one there.
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../target/nowait-{}", std::process::id()));
        let mut file = File::create(&path).expect("the target directory");
        file.write_all(&[7; 10_000]).expect("room");
        file.sync_all().expect("a disk");
        let file = File::open(&path).expect("it was made");
        let mut buffer = [0; 20_000];
        assert_eq!(std::fs::read(&path).expect("it was made").len(), 10_000);
        let read = read_at(file.as_fd(), 1_000, &mut buffer);
        // If the file system can't tell, the result is `TakesLong`.
        assert!(read == Ok(9_000) || read == Err(TakesLong), "{read:?}");
        if read.is_ok() && is_in_memory(file.as_fd()) == Some(false) {
            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("advice");
            assert_eq!(read_at(file.as_fd(), 0, &mut buffer), Err(TakesLong));
        }
        std::fs::remove_file(&path).expect("it was made");
        let status = File::open("/proc/self/status").expect("a process");
        assert!(read_at(status.as_fd(), 0, &mut buffer[..100]) == Ok(100));
    }

    #[test]
    fn a_program_is_looked_at() {
        let own = look_at("/proc/self/exe").expect("this program");
        let same = rustix::fs::stat("/proc/self/exe").expect("this program");
        assert_eq!((own.stx_ino, own.stx_size), (same.st_ino, u64::try_from(same.st_size).unwrap_or(0)));
    }
}
