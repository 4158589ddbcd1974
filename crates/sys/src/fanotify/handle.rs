// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Identifies and opens files by their handles (`open_by_handle_at(2)`).

use crate::raw;
use rustix::io::{Errno, Result};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// `MAX_HANDLE_SZ`.
const LONGEST: usize = 128;
/// `struct file_handle` before its bytes.
const HEAD: usize = 8;

/// A file system's own identifier of a file. It stays valid when the file's paths change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    /// The file system, as `statfs(2)` returns it (`f_fsid`).
    pub filesystem: [u32; 2],
    kind: i32,
    bytes: Vec<u8>,
}

impl Handle {
    /// Reads `fsid` and `struct file_handle`; `None` if the bytes are incomplete.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| -> Option<[u8; 4]> { bytes.get(at..at + 4)?.try_into().ok() };
        let filesystem = [u32::from_ne_bytes(word(0)?), u32::from_ne_bytes(word(4)?)];
        let length =
            usize::try_from(u32::from_ne_bytes(word(8)?)).ok().filter(|length| *length <= LONGEST)?;
        let kind = i32::from_ne_bytes(word(12)?);
        Some(Self { filesystem, kind, bytes: bytes.get(16..16 + length)?.to_vec() })
    }
}

impl Handle {
    /// The handle of an open file. The file may be open without rights to its content.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where files have no handles.
    pub fn of(file: BorrowedFd<'_>) -> Result<Self> {
        const LENGTH: u32 = 128;
        let mut handle = FileHandle { length: LENGTH, kind: 0, bytes: [0; LONGEST] };
        let mut mount: i32 = 0;
        let (handle_at, mount_at) = ((&raw mut handle) as usize, (&raw mut mount) as usize);
        let empty = c"".as_ptr() as usize;
        let flags = libc::AT_EMPTY_PATH as usize;
        let arguments = [raw::arg(file.as_raw_fd()), empty, handle_at, mount_at, flags, 0];
        // SAFETY: needed because rustix has no handles. Sound: both structures outlive the call, and the first says how
        // many bytes it has room for.
        unsafe { raw::syscall(libc::SYS_name_to_handle_at, arguments) }?;
        let length = usize::try_from(handle.length).map_err(|_| Errno::OVERFLOW)?;
        let bytes = handle.bytes.get(..length).ok_or(Errno::OVERFLOW)?.to_vec();
        let id = rustix::fs::fstatvfs(file)?.f_fsid;
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        let filesystem = [id as u32, (id >> 32) as u32];
        Ok(Self { filesystem, kind: handle.kind, bytes })
    }
}

#[repr(C, align(8))]
struct FileHandle {
    length: u32,
    kind: i32,
    bytes: [u8; LONGEST],
}

/// Opens a file by its handle, without rights to its content (`O_PATH`): such an open causes no fanotify question.
/// `mount` is any open file of its file system.
///
/// # Errors
/// `ESTALE` if it is gone; `EPERM` without `CAP_DAC_READ_SEARCH`.
pub fn open_handle(mount: BorrowedFd<'_>, handle: &Handle) -> Result<OwnedFd> {
    let mut file = FileHandle { length: 0, kind: handle.kind, bytes: [0; LONGEST] };
    file.bytes.get_mut(..handle.bytes.len()).ok_or(Errno::INVAL)?.copy_from_slice(&handle.bytes);
    file.length = u32::try_from(handle.bytes.len()).map_err(|_| Errno::INVAL)?;
    debug_assert_eq!(core::mem::offset_of!(FileHandle, bytes), HEAD);
    let flags = (libc::O_PATH | libc::O_CLOEXEC) as usize;
    let arguments = [raw::arg(mount.as_raw_fd()), (&raw const file) as usize, flags, 0, 0, 0];
    // SAFETY: needed because rustix has no handles. Sound: the structure outlives the call and holds `length` bytes.
    let opened = unsafe { raw::syscall(libc::SYS_open_by_handle_at, arguments) }?;
    // SAFETY: needed to own what the kernel returned. Sound: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(RawFd::try_from(opened).map_err(|_| Errno::BADF)?) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_is_found_again() -> std::io::Result<()> {
        let file = std::fs::File::open("/bin/sh")?;
        let handle = match Handle::of(file.as_fd()) {
            Err(Errno::OPNOTSUPP) => return Ok(()),
            handle => handle?,
        };
        let root = std::fs::File::open("/bin")?;
        match open_handle(root.as_fd(), &handle) {
            // An unprivileged user may not open by handle.
            Err(Errno::PERM) => {}
            again => {
                let (one, other) = (rustix::fs::fstat(again?)?, rustix::fs::fstat(&file)?);
                assert_eq!((one.st_dev, one.st_ino), (other.st_dev, other.st_ino));
            }
        }
        Ok(())
    }
}
