// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Refuses modes by which a file would give away rights.
//!
//! The filter refuses modes that are dangerous for any file (`data/modes.list`). The set-group-id bit depends on the
//! kind of file: a process that executes such a file gets the file's group, while such a directory only passes its
//! group to new files in it. The broker repeats the filter's checks, so that it offers no way around them.

use rustix::fs::FileType;
use rustix::io::Errno;

/// Checks a mode for a file of this kind.
pub(crate) fn permit(mode: u32, kind: impl FnOnce() -> Result<FileType, Errno>) -> Result<(), Errno> {
    const SET_USER_ID: u32 = 0o4000;
    const SET_GROUP_ID: u32 = 0o2000;
    if mode & SET_USER_ID != 0 || (mode & SET_GROUP_ID != 0 && kind()? != FileType::Directory) {
        return Err(Errno::PERM);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_no_rights_away_and_a_directory_hands_its_group_on() {
        let permit = |mode, kind| permit(mode, || Ok(kind));
        for kind in [FileType::RegularFile, FileType::Fifo, FileType::Socket, FileType::Directory] {
            assert_eq!(permit(0o4755, kind), Err(Errno::PERM));
            assert_eq!(permit(0o6755, kind), Err(Errno::PERM));
            assert_eq!(permit(0o1777, kind), Ok(()));
            let of_directory = kind == FileType::Directory;
            assert_eq!(permit(0o2755, kind).is_ok(), of_directory);
        }
    }

    #[test]
    fn what_cant_be_looked_at_gets_no_bit() {
        assert_eq!(permit(0o2755, || Err(Errno::BADF)), Err(Errno::BADF));
        assert_eq!(permit(0o755, || Err(Errno::BADF)), Ok(()));
    }
}
