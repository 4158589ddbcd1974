// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pipes through which bytes are spliced, and which a connection has only while bytes are on their way.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// How much a pipe holds: as much as an unprivileged user may ask for (`fs.pipe-max-size`). A GiB over loopback took
/// 0.64 s of CPU time through pipes of the kernel's own 64 KiB, 0.41 s with 256 KiB, 0.33 s with this, and 0.7 s when it
/// was copied instead. Only what is on its way takes memory.
pub(crate) const CAPACITY: usize = 1024 * 1024;
/// How many empty pipes are kept for later. A user's pipes beyond 64 of this size are made small
/// (`fs.pipe-user-pages-soft`).
const SPARE: usize = 16;

/// An empty pipe.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) read: OwnedFd,
    pub(crate) write: OwnedFd,
}

/// Pipes that nobody uses just now.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    spare: RefCell<Vec<Pipe>>,
}

impl Pool {
    /// An empty pipe.
    pub(crate) fn take(&self) -> io::Result<Pipe> {
        if let Some(pipe) = self.spare.borrow_mut().pop() {
            return Ok(pipe);
        }
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Beyond the user's share the pipe stays as it is: slower, not wrong.
        let _smaller = fcntl_setpipe_size(&write, CAPACITY);
        Ok(Pipe { read, write })
    }

    /// Takes back a pipe, which has to be empty.
    pub(crate) fn give_back(&self, pipe: Pipe) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE {
            spare.push(pipe);
        }
    }
}
