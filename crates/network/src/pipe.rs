// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pipes for splicing bytes. A connection has a pipe only while bytes are in transit.

use std::cell::{OnceCell, RefCell, RefMut};
use std::io;
use std::os::fd::OwnedFd;

use rustix::net::sockopt::{set_socket_send_buffer_size, socket_send_buffer_size};
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tokio::net::TcpStream;

/// The capacity of a pipe: as much as an unprivileged user may ask for (`fs.pipe-max-size`). A GiB over loopback took
/// 0.64 s of CPU time through pipes of the kernel's default 64 KiB, 0.41 s with 256 KiB, 0.33 s with this, and 0.7 s
/// when it was copied instead. Only bytes in transit take memory.
pub(crate) const CAPACITY: usize = 1024 * 1024;
/// How many empty pipes are kept for later. The kernel makes a user's pipes beyond 64 of this size small
/// (`fs.pipe-user-pages-soft`).
const SPARE: usize = 16;
/// How much is copied at once: more than most first messages.
const SCRATCH: usize = 32 * 1024;

/// The socket buffer that is requested for the near end of a transfer. With the kernel's default, a GiB takes half as
/// much processor time again: 0.30 s instead of 0.19 in a relay of forty lines of C.
const ROOM: usize = 4 * 1024 * 1024;

/// An empty pipe.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) read: OwnedFd,
    pub(crate) write: OwnedFd,
}

/// Pipes that are not in use.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    spare: RefCell<Vec<Pipe>>,
    scratch: RefCell<Vec<u8>>,
    /// Whether the kernel grants [`ROOM`] (`net.core.wmem_max`). If it doesn't, a request would result in less than the
    /// kernel's default.
    grants_room: OnceCell<bool>,
}

impl Pool {
    /// An empty pipe.
    pub(crate) fn take(&self) -> io::Result<Pipe> {
        if let Some(pipe) = self.spare.borrow_mut().pop() {
            return Ok(pipe);
        }
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Beyond the user's limit the pipe keeps its default size: slower, but correct.
        let _smaller = fcntl_setpipe_size(&write, CAPACITY);
        Ok(Pipe { read, write })
    }

    /// The shared buffer for data that is copied.
    pub(crate) fn scratch(&self) -> RefMut<'_, Vec<u8>> {
        let mut scratch = self.scratch.borrow_mut();
        scratch.resize(SCRATCH, 0);
        scratch
    }

    /// Requests a larger socket buffer for a connection that ends on this machine. For other connections the kernel
    /// chooses the size itself, because it knows their distance.
    pub(crate) fn make_room(&self, to: &TcpStream) {
        let near = to.local_addr().is_ok_and(|own| own.ip().to_canonical().is_loopback());
        if near && *self.grants_room.get_or_init(grants_room) {
            let _as_before = set_socket_send_buffer_size(to, ROOM);
        }
    }

    /// Takes back a pipe, which must be empty.
    pub(crate) fn give_back(&self, pipe: Pipe) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE {
            spare.push(pipe);
        }
    }
}

/// Tests with a socket that isn't connected.
fn grants_room() -> bool {
    let granted = || {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        set_socket_send_buffer_size(&socket, ROOM)?;
        socket_send_buffer_size(&socket)
    };
    granted().is_ok_and(|granted| granted >= ROOM)
}
