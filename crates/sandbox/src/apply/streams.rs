// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The standard streams that a command inherits.

use crate::error::StartError;
use palisade_sys::landlock::Rights;
use palisade_sys::operation::Terminal;
use rustix::fs::{FileType, OFlags};
use std::os::fd::AsRawFd;

/// Character devices that are no terminal: `/dev/null` and its neighbours.
const MEMORY: u32 = 1;

/// What is known about the standard streams.
#[derive(Debug)]
pub(crate) struct Streams {
    /// Those that the command may open again by name (`/dev/stdout`): Landlock would otherwise refuse this for files
    /// outside the view.
    pub(crate) reopen: Vec<(i32, Rights)>,
    /// The number of one that is the controlling terminal, with the device of its file system and its inode. The command
    /// can open that terminal by `/dev/tty` anyway. Another terminal doesn't count: the user may have given only its
    /// input.
    terminal: Option<(i32, (u64, u64))>,
}

impl Streams {
    /// Examines them, and refuses directories.
    pub(crate) fn inspect() -> Result<Self, StartError> {
        let streams = [
            ("standard input", rustix::stdio::stdin()),
            ("standard output", rustix::stdio::stdout()),
            ("standard error", rustix::stdio::stderr()),
        ];
        let mut found = Self { reopen: Vec::with_capacity(streams.len()), terminal: None };
        for (stream, fd) in streams {
            // A closed one has been replaced by /dev/null before main.
            let stat = rustix::fs::fstat(fd)
                .map_err(|source| StartError::Launch { action: "examine standard streams", source })?;
            let kind = FileType::from_raw_mode(stat.st_mode);
            match kind {
                FileType::Directory => return Err(StartError::DirectoryStream { stream }),
                FileType::RegularFile | FileType::CharacterDevice => {
                    let mode = rustix::fs::fcntl_getfl(fd).map_err(|source| StartError::Launch {
                        action: "examine standard streams",
                        source,
                    })?;
                    found.reopen.push((fd.as_raw_fd(), rights(mode & OFlags::RWMODE)));
                }
                _ => {}
            }
            if kind == FileType::CharacterDevice
                && rustix::fs::major(stat.st_rdev) != MEMORY
                && found.terminal.is_none()
                && palisade_sys::process::is_controlled_by(fd)
            {
                found.terminal = Some((fd.as_raw_fd(), (stat.st_dev, stat.st_ino)));
            }
        }
        Ok(found)
    }

    /// The controlling terminal, if one of the streams is it.
    pub(crate) fn console(&self) -> Option<Terminal> {
        let (number, identity) = self.terminal?;
        let path = rustix::fs::readlink(format!("/proc/self/fd/{number}"), Vec::new()).ok()?;
        // Only root can change what lies there.
        path.as_bytes().starts_with(b"/dev/").then_some(Terminal { path, identity })
    }
}

/// The rights for a file that was opened for this access.
fn rights(access: OFlags) -> Rights {
    let mut rights = Rights::IOCTL_DEV;
    if access != OFlags::WRONLY {
        rights = rights.union(Rights::READ_FILE);
    }
    if access == OFlags::WRONLY || access == OFlags::RDWR {
        rights = rights.union(Rights::WRITE_FILE).union(Rights::TRUNCATE);
    }
    rights
}
