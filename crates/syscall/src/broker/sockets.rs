// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets: giving one a name, which may be a file's, and connecting to such names.
//!
//! Sockets made inside (`bound`) can be connected to. Those of others stand for what their owners do: they
//! have to be granted one by one. (Abstract names and other families are kept apart by the network
//! namespace and Landlock.) And what such a socket is called: not as it was bound, but as its program named it.

use crate::broker::caller::{Caller, DIRECTORY, DecimalBuffer, path_of};
use crate::broker::identity::Moment;
use crate::broker::name_policy::Operation;
use crate::broker::open::CWD_NUMBER;
use crate::broker::report::Report;
use crate::broker::resolve::{Last, Place, Spot, by_number, c_string};
use crate::broker::waiter::What;
use crate::broker::{Outcome, Worker};
use palisade_sys::notify::{self, Reply};
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// `struct sockaddr_storage`.
pub(crate) const LONGEST: usize = 128;
const AF_UNIX: u16 = 1;
/// The longest path in an address; one as long as that has no null behind it.
const SUN_PATH: usize = 108;

/// The file that a socket address names, if it does.
pub(crate) fn file_of(address: &[u8]) -> Option<&[u8]> {
    let (family, path) = address.split_first_chunk::<2>()?;
    if u16::from_ne_bytes(*family) != AF_UNIX || path.first().is_none_or(|byte| *byte == 0) {
        return None;
    }
    path.split(|byte| *byte == 0).next()
}

/// Whether a socket address is a name that no file has.
pub(crate) fn is_abstract(address: &[u8]) -> bool {
    address
        .split_first_chunk::<2>()
        .is_some_and(|(family, name)| u16::from_ne_bytes(*family) == AF_UNIX && name.first() == Some(&0))
}

/// What a socket is connected to.
enum Target {
    /// As the caller says it.
    Address(Vec<u8>),
    /// This socket, whatever its path leads to meanwhile.
    File(OwnedFd),
}

impl Target {
    fn connect(&self, socket: &OwnedFd) -> Result<(), Errno> {
        match self {
            Self::Address(address) => match notify::connect(socket.as_fd(), address) {
                // An abstract name of somebody outside, which Landlock keeps apart. For the command there is
                // nobody; told that it may not, Xlib wouldn't go on to the server's socket.
                Err(Errno::PERM) if is_abstract(address) => Err(Errno::CONNREFUSED),
                other => other,
            },
            Self::File(file) => {
                // Relative to the thread's directory, the list of descriptors.
                let mut digits = DecimalBuffer::default();
                notify::connect(socket.as_fd(), &unix_address(by_number(file.as_fd(), &mut digits)))
            }
        }
    }
}

/// The address that the caller gives as second argument.
fn given_address(caller: &Caller<'_>) -> Result<Vec<u8>, Errno> {
    let length = usize::try_from(caller.int(2)).map_err(|_negative| Errno::INVAL)?;
    if length > LONGEST { Err(Errno::INVAL) } else { caller.bytes(1, length) }
}

/// The address of a file, as the kernel tells it.
pub(crate) fn unix_address(path: &[u8]) -> Vec<u8> {
    let mut address = AF_UNIX.to_ne_bytes().to_vec();
    address.extend_from_slice(path);
    if path.len() < SUN_PATH {
        address.push(0);
    }
    address
}

impl Worker<'_> {
    pub(crate) fn bind(&self, caller: &Caller<'_>) -> Result<Outcome, Errno> {
        let socket = self.file_at(caller, caller.int(0))?;
        let domain = socket_domain(&socket)?;
        let address = given_address(caller)?;
        let Some(path) = file_of(&address).filter(|_| domain == AddressFamily::UNIX) else {
            notify::bind(socket.as_fd(), &address)?;
            return Ok(Outcome::Value(0));
        };
        let path = c_string(path)?;
        self.assume_mask(caller)?;
        let _order = self.shared.write_order();
        let place = match caller.resolve(CWD_NUMBER, &path)? {
            Spot::Name(place) => place,
            Spot::Object(_) => return Err(Errno::ADDRINUSE),
        };
        if place.plain().len() != place.name.as_bytes().len() {
            return Err(if place.stat().is_ok() { Errno::ADDRINUSE } else { Errno::NOENT });
        }
        if let Err(refused) = self.check(Operation::MakeFile, &place.path()?, &place) {
            return Err(match place.stat() {
                Ok(_) => Errno::ADDRINUSE,
                Err(_) => self.refuse(caller, &refused),
            });
        }
        let before = Moment::now();
        let home = rustix::fs::openat(CWD, c".", DIRECTORY, Mode::empty())?;
        let base = caller.base(CWD_NUMBER)?;
        let bound = if self.leads_straight(&base, path.to_bytes(), &place) {
            // The socket remembers the path as it is given, and some ask it.
            rustix::process::fchdir(&base)?;
            notify::bind(socket.as_fd(), &address)
        } else {
            // Walked once more the path could lead elsewhere. So it is the name alone that is bound, in the directory that
            // was judged.
            let name = self.shared.given_names.add(path.to_bytes(), place.plain(), SUN_PATH);
            let address = unix_address(&name);
            rustix::process::fchdir(&place.parent)?;
            notify::bind(socket.as_fd(), &address)
        };
        if rustix::process::fchdir(&home).is_err() {
            // Descriptors by number would be files of the caller's from here on.
            palisade_sys::process::exit_now(1);
        }
        bound?;
        self.shared.bound.add(&place, before);
        Ok(Outcome::Value(0))
    }

    /// What a socket, or the other end of its connection, is called by the program that named it.
    pub(crate) fn socket_name(&self, caller: &Caller<'_>, of_peer: bool) -> Result<Outcome, Errno> {
        let socket = self.file_at(caller, caller.int(0))?;
        let mut name = notify::socket_name(socket.as_fd(), of_peer)?;
        if let Some(given) = file_of(&name).and_then(|bound| self.shared.given_names.given(bound)) {
            name = unix_address(&given);
        }
        let room = caller.bytes(2, 4)?;
        let room = i32::from_ne_bytes(room.try_into().map_err(|_four_bytes| Errno::FAULT)?);
        let room = usize::try_from(room).map_err(|_negative| Errno::INVAL)?;
        let written = &name[..room.min(name.len())];
        if !written.is_empty() {
            caller.put(1, written)?;
        }
        let length = u32::try_from(name.len()).map_err(|_too_long| Errno::INVAL)?;
        caller.put(2, &length.to_ne_bytes())?;
        Ok(Outcome::Value(0))
    }

    /// Whether a path is the very name of a place that nobody else can move: without links, in a tree of
    /// the sandbox's own, where nothing inside changes names meanwhile. Or no path at all, but a name.
    fn leads_straight(&self, base: &OwnedFd, path: &[u8], place: &Place) -> bool {
        let Ok(real) = place.path() else { return false };
        let named = match (path.first(), path_of(base.as_fd())) {
            (Some(b'/'), _) => path.to_vec(),
            (_, Ok(base)) => [&base, path].join(&b'/'),
            (_, Err(_)) => return false,
        };
        named == real && self.shared.name_policy.is_private(&real)
    }

    pub(crate) fn connect(&self, caller: &Caller<'_>) -> Result<Outcome, Errno> {
        let socket = self.file_at(caller, caller.int(0))?;
        let address = given_address(caller)?;
        // To a socket of another family a path is no name.
        let path = file_of(&address);
        let is_unix = socket_domain(&socket)? == AddressFamily::UNIX;
        let target = match path.filter(|_| is_unix) {
            None => Target::Address(address),
            Some(path) => Target::File(self.socket_file(caller, path)?),
        };
        // What may wait does so elsewhere.
        let waits = !rustix::fs::fcntl_getfl(&socket)?.contains(OFlags::NONBLOCK)
            && socket_type(&socket)? != SocketType::DGRAM;
        if !waits {
            return target.connect(&socket).map(|()| Outcome::Value(0));
        }
        let id = caller.call.id;
        let shared = Arc::clone(self.shared);
        let wait = (caller.call.into(), What::Call);
        self.shared.waiters.start(Arc::clone(self.shared), wait, caller.process()?, move |wait| {
            let answer = match target.connect(&socket) {
                Ok(()) => Reply::Value(0),
                Err(errno) => Reply::Error(errno),
            };
            let _nobody_waits = shared.listener.answer(id, wait.answer(answer));
        })?;
        Ok(Outcome::Later)
    }

    /// The socket at a path, if it may be connected to.
    pub(crate) fn socket_file(&self, caller: &Caller<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
        if caller.has_other_root()? {
            // Which paths mean something else to. A browser locks parts of itself into an empty directory so.
            return Err(Errno::NOENT);
        }
        // Who received a message knows its sender as it was bound, and answers there.
        let given = self.shared.given_names.given(path);
        let spot = caller.resolve(CWD_NUMBER, &c_string(given.as_deref().unwrap_or(path))?)?;
        let object = caller.object(spot, Last::Follow)?;
        let stat = rustix::fs::fstat(&object)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
            // The kernel looks first whether it may be written to.
            let mut digits = DecimalBuffer::default();
            let number = by_number(object.as_fd(), &mut digits);
            rustix::fs::accessat(CWD, number, Access::WRITE_OK, AtFlags::empty())?;
            return Err(Errno::CONNREFUSED);
        }
        let path = path_of(object.as_fd())?;
        if self.shared.name_policy.may_connect(&path) || self.shared.bound.has(&object) {
            if let Some(observer) = &self.shared.observer {
                observer.socket(self, caller, &path);
            }
            return Ok(object);
        }
        self.shared.reporter.tell(&Report::Socket {
            thread: caller.call.thread,
            program: caller.program(),
            path,
        });
        Err(Errno::ACCESS)
    }

    /// The caller's open file itself: what it does to the number meanwhile doesn't matter.
    pub(crate) fn file_at(&self, caller: &Caller<'_>, number: i32) -> Result<OwnedFd, Errno> {
        if number < 0 {
            return Err(Errno::BADF);
        }
        let file = notify::descriptor_of_thread(caller.call.thread, number, || caller.process())?;
        // Else the thread was killed, and its number may be another's, whose file this is.
        if caller.waits() { Ok(file) } else { Err(Errno::SRCH) }
    }
}
