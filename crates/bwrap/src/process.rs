// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This process, for [`crate::arguments::parse`].

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use crate::arguments::{Host, Identity};
use crate::message::{Failure, Message};

/// This process. `T` gives a descriptor of the caller's by its number, to be closed after use.
#[derive(Debug)]
pub struct Process<T> {
    identity: Identity,
    take: T,
}

impl<T: FnMut(i32) -> io::Result<OwnedFd>> Process<T> {
    /// Looks at who runs this process.
    ///
    /// # Errors
    /// When the kernel doesn't tell root's capabilities, or when another user has some, which only capabilities of the
    /// program's file give.
    pub fn new(take: T) -> Result<Self, Failure> {
        let uid = rustix::process::getuid().as_raw();
        let sets = rustix::thread::capabilities(None).map_err(|error| {
            let call = if uid == 0 { "capget (for uid == 0) failed" } else { "capget failed" };
            Failure::because(call, &error.into())
        })?;
        if uid != 0 && !sets.permitted.is_empty() {
            return Err(Failure::new("Unexpected capabilities but not setuid, old file caps config?"));
        }
        let gid = rustix::process::getgid().as_raw();
        Ok(Self { identity: Identity { uid, gid, capabilities: sets.effective.bits() }, take })
    }
}

impl<T: FnMut(i32) -> io::Result<OwnedFd>> Host for Process<T> {
    fn read_all(&mut self, descriptor: i32) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::from((self.take)(descriptor)?).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn warn(&mut self, warning: &Message) {
        // Nobody can be told that nobody reads.
        let _unread = io::stderr().write_all(&warning.line());
    }

    fn identity(&self) -> Identity {
        self.identity
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_descriptor_is_read_to_its_end_and_closed() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(&[7; 5000]).unwrap();
        drop(writer);
        let number = reader.as_raw_fd();
        let mut readers = vec![(number, OwnedFd::from(reader))];
        let mut process = Process::new(move |wanted| {
            let found = readers.pop_if(|(number, _)| *number == wanted);
            found.map(|(_, owned)| owned).ok_or_else(|| io::Error::from_raw_os_error(9))
        })
        .unwrap();
        assert_eq!(process.read_all(number).unwrap(), [7; 5000]);
        assert_eq!(process.read_all(number).unwrap_err().raw_os_error(), Some(9));
        assert_eq!(process.identity().uid, rustix::process::getuid().as_raw());
    }
}
