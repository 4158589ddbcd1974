// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pipes through which bytes are spliced, and which a connection has only while bytes are on their way.

use std::cell::{OnceCell, RefCell, RefMut};
use std::io;
use std::os::fd::OwnedFd;

use rustix::net::sockopt::{set_socket_send_buffer_size, socket_send_buffer_size};
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tokio::net::TcpStream;

/// How much a pipe holds: as much as an unprivileged user may ask for (`fs.pipe-max-size`). A GiB over loopback took
/// 0.64 s of CPU time through pipes of the kernel's own 64 KiB, 0.41 s with 256 KiB, 0.33 s with this, and 0.7 s when it
/// was copied instead. Only what is on its way takes memory.
pub(crate) const CAPACITY: usize = 1024 * 1024;
/// How many empty pipes are kept for later. A user's pipes beyond 64 of this size are made small
/// (`fs.pipe-user-pages-soft`).
const SPARE: usize = 16;
/// How much is copied at once: more than most first messages.
const SCRATCH: usize = 32 * 1024;

/// How much the kernel is asked to hold for the near end of a transfer: with what it grants by itself, a GiB takes half as
/// much processor time again: 0.30 s instead of 0.19 in a relay of forty lines of C.
const ROOM: usize = 4 * 1024 * 1024;

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
    scratch: RefCell<Vec<u8>>,
    /// Whether the kernel grants [`ROOM`] (`net.core.wmem_max`); where it doesn't, asking for it would come to less than
    /// what it grants unasked.
    grants_room: OnceCell<bool>,
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

    /// Memory for what is handed on at once.
    pub(crate) fn scratch(&self) -> RefMut<'_, Vec<u8>> {
        let mut scratch = self.scratch.borrow_mut();
        scratch.resize(SCRATCH, 0);
        scratch
    }

    /// Has the kernel hold more for a connection that ends on this machine. Others are its own matter: it knows how far away
    /// they are.
    pub(crate) fn make_room(&self, to: &TcpStream) {
        let near = to.local_addr().is_ok_and(|own| own.ip().to_canonical().is_loopback());
        if near && *self.grants_room.get_or_init(grants_room) {
            let _as_before = set_socket_send_buffer_size(to, ROOM);
        }
    }

    /// Takes back a pipe, which has to be empty.
    pub(crate) fn give_back(&self, pipe: Pipe) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE {
            spare.push(pipe);
        }
    }
}

/// Asked of a connection that isn't made.
fn grants_room() -> bool {
    let granted = || {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        set_socket_send_buffer_size(&socket, ROOM)?;
        socket_send_buffer_size(&socket)
    };
    granted().is_ok_and(|granted| granted >= ROOM)
}
