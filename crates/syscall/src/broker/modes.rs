// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Modes by which a file would give away rights.
//!
//! The filter refuses what a number alone tells (`data/modes.list`). What the set-group-id bit is for shows only when the
//! file is known: whoever runs a file with it gets the file's group, while a directory with it hands its group on to
//! what is made in it. What the filter refuses is refused here again: a broker is no way around it.

use rustix::fs::FileType;
use rustix::io::Errno;

/// Refuses a mode for what is of this kind.
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
