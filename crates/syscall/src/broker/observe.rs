// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records which files and addresses a command uses while the command is being learned.
//!
//! Calls that read are recorded, and then the kernel makes them: the sandbox's other walls decide what they reach, as
//! always. Calls that write go the usual way through the broker, and their result is recorded. Each kind of use of
//! each path is reported once.

use crate::broker::caller::{Caller, path_of};
use crate::broker::calls::O_PATH;
use crate::broker::name_policy::Operation;
use crate::broker::open::CWD_NUMBER;
use crate::broker::report::{Came, Report, Used};
use crate::broker::resolve::{Last, c_string};
use crate::broker::{Outcome, Worker, calls};
use palisade_sys::notify::Notification;
use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::CStr;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

/// `O_WRONLY|O_RDWR|O_CREAT|O_TRUNC`: an open with one of these flags does more than read. Same as in `broker.list`.
const WRITES: i32 = 0o3 | 0o100 | 0o1000;
const O_CREAT: i32 = 0o100;
/// How many uses are remembered, by a hash of 8 bytes each. Further uses aren't reported.
const MOST: usize = 1 << 19;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// The uses that were reported.
#[derive(Default)]
pub(crate) struct Observer {
    told: Mutex<HashSet<u64>>,
    hasher: RandomState,
}

/// What a call is about to do to a name.
pub(crate) struct Done {
    how: Used,
    path: Vec<u8>,
}

impl Done {
    /// Call this before the operation: the result depends on whether the file exists.
    pub(crate) fn before(operation: Operation, path: &[u8]) -> Self {
        let there = || {
            c_string(path)
                .is_ok_and(|path| rustix::fs::statat(CWD, &*path, AtFlags::SYMLINK_NOFOLLOW).is_ok())
        };
        let how = match operation {
            Operation::Change | Operation::Attributes => Used::Change,
            Operation::MakeFile if there() => Used::Change,
            Operation::LinkFrom => Used::Read,
            Operation::MoveFrom { .. } | Operation::Remove { .. } => Used::Name,
            Operation::MakeFile
            | Operation::MakeDirectory
            | Operation::MakeLink
            | Operation::LinkTo
            | Operation::MoveTo { .. } => {
                if there() {
                    Used::Name
                } else {
                    Used::Make
                }
            }
        };
        Self { how, path: path.to_vec() }
    }
}

impl Observer {
    /// Makes a call, or lets the kernel make it, and reports what it used.
    pub(crate) fn dispatch(&self, worker: &Worker<'_>, call: &Notification) -> Result<Outcome, Errno> {
        let caller = &Caller::new(worker, call);
        if self.looks(worker, caller) {
            return Ok(Outcome::Continue);
        }
        worker.operations.borrow_mut().clear();
        let outcome = calls::dispatch(worker, call);
        let came = match &outcome {
            Ok(_) => Came::Done,
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Came::Refused,
            Err(Errno::NOENT) => {
                self.nowhere(worker, caller);
                return outcome;
            }
            // No grant would change this error.
            Err(_) => return outcome,
        };
        for Done { how, path } in worker.operations.borrow_mut().drain(..) {
            self.tell(worker, caller, how, came, path);
        }
        outcome
    }

    /// Records a name that couldn't be made or opened for writing, because its directory or the file itself doesn't
    /// exist.
    fn nowhere(&self, worker: &Worker<'_>, caller: &Caller<'_>) {
        let (how, descriptor, path) = match calls::name_of(caller.call) {
            "open" => (writing(caller.int(1)), CWD_NUMBER, 0),
            "openat" => (writing(caller.int(2)), caller.int(0), 1),
            "creat" | "mkdir" | "mknod" => (Used::Make, CWD_NUMBER, 0),
            "mkdirat" | "mknodat" => (Used::Make, caller.int(0), 1),
            _ => return,
        };
        let named = caller.path_or_empty(path).and_then(|path| absolute(caller, descriptor, path.to_bytes()));
        if let Ok(named) = named {
            self.tell(worker, caller, how, Came::Absent, named);
        }
    }

    /// Records a call that changes nothing. Returns whether the call is one.
    fn looks(&self, worker: &Worker<'_>, caller: &Caller<'_>) -> bool {
        let (how, descriptor, path) = match calls::name_of(caller.call) {
            "open" if only_looks(caller.int(1)) => (opening(caller.int(1)), CWD_NUMBER, 0),
            "openat" if only_looks(caller.int(2)) => (opening(caller.int(2)), caller.int(0), 1),
            "execve" => (Used::Execute, CWD_NUMBER, 0),
            "execveat" => (Used::Execute, caller.int(0), 1),
            "stat" | "lstat" | "statfs" | "access" | "readlink" | "chdir" | "getxattr" | "listxattr" => {
                (Used::Look, CWD_NUMBER, 0)
            }
            "newfstatat" | "statx" | "faccessat" | "faccessat2" | "readlinkat" => {
                (Used::Look, caller.int(0), 1)
            }
            "sendto" => {
                // The broker makes this call: the messages of the socket may have to be judged.
                let length = usize::try_from(caller.int(5)).unwrap_or(0);
                self.address(worker, caller, &caller.bytes(4, length.min(128)).unwrap_or_default());
                return false;
            }
            "connect" => {
                // The broker makes this call as usual. The address is recorded before, since connecting may take
                // long.
                let length = usize::try_from(caller.int(2)).unwrap_or(0);
                self.address(worker, caller, &caller.bytes(1, length.min(128)).unwrap_or_default());
                return false;
            }
            _ => return false,
        };
        // If the broker can't read the memory, the kernel can't either.
        if let Ok(path) = caller.path_or_empty(path) {
            self.look(worker, caller, how, descriptor, &path);
        }
        true
    }

    fn look(&self, worker: &Worker<'_>, caller: &Caller<'_>, how: Used, descriptor: i32, path: &CStr) {
        if path.is_empty() {
            // A look at an open file adds nothing new; executing it does.
            if how == Used::Execute
                && let Ok(path) = caller.descriptor(descriptor).and_then(|file| path_of(file.as_fd()))
            {
                self.tell(worker, caller, how, Came::Done, path);
            }
            return;
        }
        let found = caller
            .resolve(descriptor, path)
            .and_then(|spot| caller.object_and_path(spot, Last::Follow))
            .map(|(_object, path)| path);
        let named = absolute(caller, descriptor, path.to_bytes());
        let came = match &found {
            Ok(_) => Came::Done,
            Err(Errno::ACCESS | Errno::PERM) => Came::Refused,
            Err(_) => Came::Absent,
        };
        if let Ok(found) = &found {
            self.tell(worker, caller, how, came, found.clone());
        }
        // The links on the way are used, too.
        if let Ok(named) = named
            && found.as_ref() != Ok(&named)
        {
            let how = if came == Came::Done { Used::Look } else { how };
            self.tell(worker, caller, how, came, named);
        }
    }

    fn address(&self, worker: &Worker<'_>, caller: &Caller<'_>, address: &[u8]) {
        let Some((family, rest)) = address.split_first_chunk::<2>() else { return };
        let Some((port, rest)) = rest.split_first_chunk::<2>() else { return };
        let port = u16::from_be_bytes(*port);
        let address = match u16::from_ne_bytes(*family) {
            AF_INET => rest.first_chunk::<4>().map(|bytes| std::net::IpAddr::from(*bytes)),
            // The flow information comes before the address.
            AF_INET6 => rest.get(4..).and_then(|rest| rest.first_chunk::<16>()).map(|bytes| (*bytes).into()),
            _ => None,
        };
        if let Some(address) = address {
            let socket = std::net::SocketAddr::new(address, port);
            self.tell(worker, caller, Used::Network, Came::Done, socket.to_string().into_bytes());
        }
    }

    /// Records a connection to a socket in the file tree.
    pub(crate) fn socket(&self, worker: &Worker<'_>, caller: &Caller<'_>, path: &[u8]) {
        self.tell(worker, caller, Used::Socket, Came::Done, path.to_vec());
    }

    fn tell(&self, worker: &Worker<'_>, caller: &Caller<'_>, how: Used, came: Came, path: Vec<u8>) {
        let hash = self.hasher.hash_one((how, came, &path));
        {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.len() >= MOST || !told.insert(hash) {
                return;
            }
        }
        let program = caller.program();
        worker.shared.reporter.insist(&Report::Used { how, came, path, program });
    }
}

const fn only_looks(flags: i32) -> bool {
    flags & WRITES == 0 || flags & O_PATH != 0
}

fn writing(flags: i32) -> Used {
    if flags & O_CREAT == 0 { Used::Change } else { Used::Make }
}

fn opening(flags: i32) -> Used {
    if flags & O_PATH == 0 { Used::Read } else { Used::Look }
}

/// A path as the caller gave it, made absolute. `.` and `..` are resolved by their text.
fn absolute(caller: &Caller<'_>, descriptor: i32, path: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut whole =
        if path.first() == Some(&b'/') { Vec::new() } else { path_of(caller.base(descriptor)?.as_fd())? };
    whole.push(b'/');
    whole.extend_from_slice(path);
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in whole.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut clean = Vec::with_capacity(whole.len());
    for part in parts {
        clean.push(b'/');
        clean.extend_from_slice(part);
    }
    if clean.is_empty() {
        clean.push(b'/');
    }
    Ok(clean)
}
