// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gives a file its class, and ensures that no process changes the file during that.
//!
//! 1. An unconfirmed record is put into the inode's storage. Every later open for writing removes this record.
//! 2. A read lease is taken. The kernel grants it only if no descriptor is open for writing. So step 1 missed no writer.
//! 3. The caller reads the file and decides.
//! 4. The record is confirmed only if it is still there (`BPF_EXIST`).
//!
//! If a confirmed record of any generation is there already, the file wasn't written since. That record stays in force
//! while the file is read again (steps 3 and 4), so that executing the file meanwhile isn't refused.
//!
//! Two threads that classify the same file would undo each other's records, so one waits for the other. This doesn't work
//! between processes: only one daemon may classify.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::PoisonError;

use libbpf_rs::{MapCore, MapFlags};
use rustix::fs::{FileType, fstat, fstatfs};

use crate::class::ObjectClass;
use crate::error::{ClassifyError, Error, errno};
use crate::guard::GuardPrograms;
use crate::layout::{self, Record};
use crate::lease::Lease;

/// File systems (`linux/magic.h`) whose files change only through this kernel's own files and inodes. On other file systems
/// (NFS, FUSE, 9p) another machine or process may write unseen.
const OWN_FILE_SYSTEMS: &[u64] = &[
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs: an initramfs
    0xf2f5_2010, // f2fs
    0x2fc1_2fc1, // zfs
    0xca45_1a4e, // bcachefs
    0x7371_7368, // squashfs
    0xe0f5_e1e2, // erofs
    0x9660,      // iso9660
    0x4d44,      // vfat
    0x794c_7630, // overlayfs: a write to its layers by another path isn't seen
];

impl GuardPrograms {
    /// Gives a file the class `class`, for its present content. `file` must have been opened for reading only.
    ///
    /// # Errors
    /// If the file can't have a class, or is open for writing.
    pub fn classify(&self, file: BorrowedFd<'_>, class: ObjectClass) -> Result<(), ClassifyError> {
        self.classify_by(file, |_| Ok::<_, ClassifyError>(Some(class))).map(|_| ())
    }

    /// Lets `read` read the file while no process writes to it, and gives it the class that `read` returns, if any.
    ///
    /// A process that wants to write meanwhile waits (for up to 45 s, `/proc/sys/fs/lease-break-time`). If that time ends,
    /// the file is left without a class.
    ///
    /// # Errors
    /// If the file can't have a class, is open for writing, was changed meanwhile, or `read` fails.
    pub fn classify_by<E: From<ClassifyError>>(
        &self,
        file: BorrowedFd<'_>,
        read: impl FnOnce(BorrowedFd<'_>) -> Result<Option<ObjectClass>, E>,
    ) -> Result<Option<ObjectClass>, E> {
        let _turn = Turn::take(self, check(file)?);
        let generation = self.current().map_err(ClassifyError::Map)?.generation;
        let key = file.as_raw_fd().to_ne_bytes();
        let put = |class: u8, confirmed: bool, flags: MapFlags| {
            self.objects().update(&key, &layout::encode_record(class, generation, confirmed), flags)
        };
        let map_error =
            |source| ClassifyError::Map(Error::Map { operation: "write", map: "objects", source });
        let confirmed = self.record(file).map_err(ClassifyError::Map)?.is_some_and(|record| record.confirmed);
        let lease = if confirmed {
            Ok(None)
        } else {
            put(0, false, MapFlags::ANY).map_err(map_error)?;
            Lease::take(file).map(Some)
        };
        let decided = match lease {
            Ok(lease) => {
                let decided = read(file);
                // Confirm before the lease ends: a waiting writer's open follows this, and removes the class.
                let confirmed = match &decided {
                    Ok(Some(class)) => put(class.number(), true, MapFlags::EXIST),
                    _ => Ok(()),
                };
                drop(lease);
                match (&decided, confirmed) {
                    (_, Ok(())) => decided,
                    (Ok(Some(class)), Err(error)) if errno(&error) == Some(libc::ENOENT) => {
                        return Err(ClassifyError::Changed(*class).into());
                    }
                    (_, Err(error)) => Err(map_error(error).into()),
                }
            }
            Err(error) => Err(match error.raw_os_error() {
                Some(libc::EAGAIN) => ClassifyError::Writer,
                _ => ClassifyError::Lease(error),
            }
            .into()),
        };
        if !matches!(decided, Ok(Some(_))) {
            self.declassify(file).map_err(ClassifyError::Map)?;
        }
        decided
    }

    /// Removes a file's class. A file without class is no error.
    ///
    /// # Errors
    /// If the map can't be written.
    pub fn declassify(&self, file: BorrowedFd<'_>) -> Result<(), Error> {
        match self.objects().delete(&file.as_raw_fd().to_ne_bytes()) {
            Err(error) if errno(&error) != Some(libc::ENOENT) => {
                Err(Error::Map { operation: "remove an entry of", map: "objects", source: error })
            }
            _ => Ok(()),
        }
    }

    /// The class of a file, if it is confirmed, of this generation, and not about to end.
    ///
    /// # Errors
    /// If the map can't be read.
    pub fn class_of(&self, file: BorrowedFd<'_>) -> Result<Option<ObjectClass>, Error> {
        let generation = self.current()?.generation;
        Ok(self.record(file)?.and_then(|record| {
            (record.confirmed && !record.ending && record.generation == generation)
                .then(|| ObjectClass::from_kernel(record.class))
        }))
    }

    fn record(&self, file: BorrowedFd<'_>) -> Result<Option<Record>, Error> {
        let record = self
            .objects()
            .lookup(&file.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
            .map_err(|source| Error::Map { operation: "read", map: "objects", source })?;
        Ok(record.and_then(|record| layout::decode_record(&record)))
    }
}

/// The right to classify this file; no other thread classifies it meanwhile.
struct Turn<'a> {
    programs: &'a GuardPrograms,
    file: (u64, u64),
}

impl<'a> Turn<'a> {
    fn take(programs: &'a GuardPrograms, file: (u64, u64)) -> Self {
        let (reading, changed) = &programs.reading;
        let mut reading = reading.lock().unwrap_or_else(PoisonError::into_inner);
        while !reading.insert(file) {
            reading = changed.wait(reading).unwrap_or_else(PoisonError::into_inner);
        }
        Self { programs, file }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let (reading, changed) = &self.programs.reading;
        reading.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.file);
        changed.notify_all();
    }
}

/// Device and inode of a file that may have a class.
fn check(file: BorrowedFd<'_>) -> Result<(u64, u64), ClassifyError> {
    let stat = fstat(file).map_err(|error| ClassifyError::Stat(error.into()))?;
    // A memfd has no name. Nor has a deleted file, and no process can open it by name again.
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink == 0 {
        return Err(ClassifyError::NotAFile);
    }
    let found = fstatfs(file).map_err(|error| ClassifyError::Stat(io::Error::from(error)))?;
    // The types are 32 bits wide and negative where `f_type` is signed and narrow.
    #[expect(clippy::cast_sign_loss, reason = "only the low 32 bits are compared")]
    let kind = found.f_type as u64 & 0xffff_ffff;
    if OWN_FILE_SYSTEMS.contains(&kind) {
        Ok((stat.st_dev, stat.st_ino))
    } else {
        Err(ClassifyError::FileSystem(kind))
    }
}
