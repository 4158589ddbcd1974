// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files by their handles (`open_by_handle_at(2)`).

use crate::raw;
use rustix::io::{Errno, Result};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// `MAX_HANDLE_SZ`.
const LONGEST: usize = 128;
/// `struct file_handle` before its bytes.
const HEAD: usize = 8;

/// A file's name to its file system, which outlives its paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    /// Which file system, as `statfs(2)` tells it (`f_fsid`).
    pub filesystem: [u32; 2],
    kind: i32,
    bytes: Vec<u8>,
}

impl Handle {
    /// Reads `fsid` and `struct file_handle`; nothing if they aren't whole.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| -> Option<[u8; 4]> { bytes.get(at..at + 4)?.try_into().ok() };
        let filesystem = [u32::from_ne_bytes(word(0)?), u32::from_ne_bytes(word(4)?)];
        let length =
            usize::try_from(u32::from_ne_bytes(word(8)?)).ok().filter(|length| *length <= LONGEST)?;
        let kind = i32::from_ne_bytes(word(12)?);
        Some(Self { filesystem, kind, bytes: bytes.get(16..16 + length)?.to_vec() })
    }
}

#[repr(C, align(8))]
struct FileHandle {
    length: u32,
    kind: i32,
    bytes: [u8; LONGEST],
}

/// Opens a file by its handle, without rights to its content (`O_PATH`): nobody is asked about that. `mount` is any
/// open file of its file system.
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
    // SAFETY: needed to own what the kernel returned. Sound: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(RawFd::try_from(opened).map_err(|_| Errno::BADF)?) })
}
