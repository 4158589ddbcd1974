// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Binds sockets to names, which may be files, and connects to such names.
//!
//! The command can connect to sockets that were made inside (`bound`). Other sockets act for the processes that own
//! them, so each must be granted. (The network namespace and Landlock separate abstract names and other families.)
//! This module also answers what a socket's name is: not the bound one, but the one that the program gave.

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
/// The longest path in an address. A path of this length has no null behind it.
const SUN_PATH: usize = 108;

/// The path that a socket address names, if it names one.
pub(crate) fn file_of(address: &[u8]) -> Option<&[u8]> {
    let (family, path) = address.split_first_chunk::<2>()?;
    if u16::from_ne_bytes(*family) != AF_UNIX || path.first().is_none_or(|byte| *byte == 0) {
        return None;
    }
    path.split(|byte| *byte == 0).next()
}

/// Whether a socket address is an abstract name.
pub(crate) fn is_abstract(address: &[u8]) -> bool {
    address
        .split_first_chunk::<2>()
        .is_some_and(|(family, name)| u16::from_ne_bytes(*family) == AF_UNIX && name.first() == Some(&0))
}

/// The target of a connection.
enum Target {
    /// The address that the caller gave.
    Address(Vec<u8>),
    /// This socket, even if its path leads elsewhere meanwhile.
    File(OwnedFd),
}

impl Target {
    fn connect(&self, socket: &OwnedFd) -> Result<(), Errno> {
        match self {
            Self::Address(address) => match notify::connect(socket.as_fd(), address) {
                // An abstract name of a process outside, which Landlock separates. The command must see that nothing
                // listens there: after EPERM, Xlib wouldn't try the server's path next.
                Err(Errno::PERM) if is_abstract(address) => Err(Errno::CONNREFUSED),
                other => other,
            },
            Self::File(file) => {
                // The path is relative to the thread's working directory, the list of descriptors.
                let mut digits = DecimalBuffer::default();
                notify::connect(socket.as_fd(), &unix_address(by_number(file.as_fd(), &mut digits)))
            }
        }
    }
}

/// The address in the caller's second argument.
pub(crate) fn given_address(caller: &Caller<'_>) -> Result<Vec<u8>, Errno> {
    let length = usize::try_from(caller.int(2)).map_err(|_negative| Errno::INVAL)?;
    if length > LONGEST { Err(Errno::INVAL) } else { caller.bytes(1, length) }
}

/// The address of a file, in the form that the kernel reports.
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
            // The socket remembers the path as it is given, and programs can ask for it.
            rustix::process::fchdir(&base)?;
            notify::bind(socket.as_fd(), &address)
        } else {
            // A second walk of the path could lead elsewhere. So bind only the last name, in the directory that was
            // judged.
            let name = self.shared.given_names.add(path.to_bytes(), place.plain(), SUN_PATH);
            let address = unix_address(&name);
            rustix::process::fchdir(&place.parent)?;
            notify::bind(socket.as_fd(), &address)
        };
        if rustix::process::fchdir(&home).is_err() {
            // Without its working directory, this worker would take descriptor numbers for files of the caller's
            // directory.
            palisade_sys::process::exit_now(1);
        }
        bound?;
        self.shared.bound.add(&place, before);
        Ok(Outcome::Value(0))
    }

    /// The name of a socket, or of its peer, as the program gave it.
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

    /// Whether a path leads to a place that no other process can move: without links, in a private tree of the
    /// sandbox, where the held lock prevents changes of names. Or whether it is no path at all, but a single name.
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
        // For a socket of another family the address is no path.
        let path = file_of(&address);
        let is_unix = socket_domain(&socket)? == AddressFamily::UNIX;
        let target = match path.filter(|_| is_unix) {
            None => Target::Address(address),
            Some(path) => Target::File(self.socket_file(caller, path)?),
        };
        // A call that may wait is made in another thread.
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

    /// The socket at a path, if the command may connect to it.
    pub(crate) fn socket_file(&self, caller: &Caller<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
        if caller.has_other_root()? {
            // In another root directory paths mean other files. A browser changes the root of some processes to an
            // empty directory.
            return Err(Errno::NOENT);
        }
        // A program that received a message knows the sender's bound name, and answers to that name.
        let given = self.shared.given_names.given(path);
        let spot = caller.resolve(CWD_NUMBER, &c_string(given.as_deref().unwrap_or(path))?)?;
        let object = caller.object(spot, Last::Follow)?;
        let stat = rustix::fs::fstat(&object)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
            // The kernel checks write permission first.
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

    /// The caller's open file itself. The caller may then reuse the number for another file.
    pub(crate) fn file_at(&self, caller: &Caller<'_>, number: i32) -> Result<OwnedFd, Errno> {
        if number < 0 {
            return Err(Errno::BADF);
        }
        let file = notify::descriptor_of_thread(caller.call.thread, number, || caller.process())?;
        // If the call no longer waits, the thread was killed. The file may be another thread's with the same number.
        if caller.waits() { Ok(file) } else { Err(Errno::SRCH) }
    }
}
