// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pipes through which bytes are spliced, and which a connection has only while bytes are on their way.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// How much a pipe holds. Of the kernel's 64 KiB a loopback connection fills less than it could take at once; 256 KiB
/// are within what an unprivileged user may have for 64 pipes (`fs.pipe-user-pages-soft`).
pub(crate) const CAPACITY: usize = 256 * 1024;
/// How many empty pipes are kept for later.
const SPARE: usize = 32;

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
