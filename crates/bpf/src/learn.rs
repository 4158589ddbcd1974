// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records in the kernel which system calls each program of a marked subtree makes.
//!
//! A session is a launcher with everything that it starts. Single calls aren't reported: each program's calls are a bit
//! set, which is read when the session ends.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, ObjectBuilder};

use crate::error::Error;
use crate::guard::listening;

/// Clang's output for `programs/learn.bpf.c`.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/learn.bpf.o"));
/// In the order in which they are attached: nothing is recorded until all are attached.
const PROGRAMS: [&str; 3] = ["palisade_learn_call", "palisade_learn_exec", "palisade_learn_fork"];
/// The most names in a path, and the most bytes of a name with its zero.
const PARTS: usize = 24;
const NAME: usize = 256;
/// The numbers of system calls are below this.
pub const CALLS: u32 = 512;
const WORDS: usize = CALLS as usize / 64;
/// Bytes of `struct program`.
const KEY: usize = 16;

/// The system calls of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// Its file, as its process saw it; empty if the path was too long.
    pub path: Vec<u8>,
    /// The device that the file is on, as the kernel encodes it: `major << 20 | minor`.
    pub device: u32,
    /// The file's inode number.
    pub inode: u64,
    /// The numbers of the calls.
    pub calls: Vec<u32>,
}

/// The programs, attached until this is dropped.
#[derive(Debug)]
pub struct LearnPrograms {
    launchers: MapHandle,
    sessions: MapHandle,
    programs: MapHandle,
    _links: Vec<Link>,
    call: OwnedFd,
}

impl LearnPrograms {
    /// Lets the kernel verify, load and attach the programs.
    ///
    /// # Errors
    /// If the kernel has no types, lacks a tracepoint, or refuses.
    pub fn load() -> Result<Self, Error> {
        let opened = ObjectBuilder::default().open_memory(OBJECT).map_err(Error::Open)?;
        let object = listening(|| opened.load())?;
        let map = |name: &'static str| {
            let found = object.maps().find(|map| map.name() == name).ok_or(Error::Missing(name))?;
            MapHandle::try_from(&found).map_err(|source| Error::Map { operation: "open", map: name, source })
        };
        let (launchers, sessions, programs) = (map("launchers")?, map("sessions")?, map("programs")?);
        let mut links = Vec::new();
        let mut call = None;
        for name in PROGRAMS {
            let program = object.progs_mut().find(|program| program.name() == name);
            let program = program.ok_or(Error::Unattached { program: name })?;
            if name == PROGRAMS[0] {
                let descriptor = program.as_fd().try_clone_to_owned();
                call = Some(descriptor.map_err(|source| Error::Run { program: name, source })?);
            }
            let link = program.attach().map_err(|source| Error::Attach { program: name.into(), source })?;
            links.push(link);
        }
        let call = call.ok_or(Error::Unattached { program: PROGRAMS[0] })?;
        Ok(Self { launchers, sessions, programs, _links: links, call })
    }

    /// The program that runs at each call, to measure its run time.
    pub fn call_program(&self) -> impl AsFd + '_ {
        self.call.as_fd()
    }

    /// Records what a process starts from here on, as long as it lives. `process` is a descriptor, not a number, which
    /// another process may have by now. The number of a session must be used only once.
    ///
    /// # Errors
    /// If there is no room (256 sessions are the most), or the process is gone.
    pub fn begin(&self, process: BorrowedFd<'_>, session: u32) -> Result<(), Error> {
        write(&self.sessions, "sessions", &session.to_ne_bytes(), &0_u64.to_ne_bytes())?;
        let process = process.as_raw_fd().to_ne_bytes();
        let marked = write(&self.launchers, "launchers", &process, &session.to_ne_bytes());
        if marked.is_err() {
            // Report the first error.
            let _ = self.sessions.delete(&session.to_ne_bytes());
        }
        marked
    }

    /// Ends a session. Returns what was called, and how many calls found no room.
    ///
    /// # Errors
    /// If a map can't be read.
    pub fn end(&self, process: BorrowedFd<'_>, session: u32) -> Result<(Vec<Learned>, u64), Error> {
        // If the launcher began another session, its mark belongs to that one. A launcher that is gone has no mark.
        let process = process.as_raw_fd().to_ne_bytes();
        if self.launchers.lookup(&process, MapFlags::ANY).ok().flatten().as_deref()
            == Some(&session.to_ne_bytes()[..])
        {
            let _gone = self.launchers.delete(&process);
        }
        let failed = |map| move |source| Error::Map { operation: "read", map, source };
        let lost = self.sessions.lookup(&session.to_ne_bytes(), MapFlags::ANY).map_err(failed("sessions"))?;
        let lost = lost.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
        // From here on nothing is added to the session.
        let _gone = self.sessions.delete(&session.to_ne_bytes());
        let mut learned = Vec::new();
        let mut own = Vec::new();
        for key in self.programs.keys().filter(|key| key.len() == KEY) {
            if key[12..] == session.to_ne_bytes() {
                own.push(key);
            }
        }
        for key in own {
            if let Some(value) = self.programs.lookup(&key, MapFlags::ANY).map_err(failed("programs"))? {
                learned.extend(decode(&key, &value).filter(|program| !program.calls.is_empty()));
            }
            let _gone = self.programs.delete(&key);
        }
        Ok((learned, lost))
    }
}

fn write(map: &MapHandle, name: &'static str, key: &[u8], value: &[u8]) -> Result<(), Error> {
    let failed = |source| Error::Map { operation: "write", map: name, source };
    map.update(key, value, MapFlags::ANY).map_err(failed)
}

/// `struct program` and `struct made`.
fn decode(key: &[u8], value: &[u8]) -> Option<Learned> {
    let inode = u64::from_ne_bytes(*key.first_chunk()?);
    let device = u32::from_ne_bytes(*key.get(8..)?.first_chunk()?);
    let (words, _rest) = value.as_chunks::<8>();
    let word = |number: usize| words.get(number).map(|bytes| u64::from_ne_bytes(*bytes));
    let set = |call: &u32| word(*call as usize / 64).is_some_and(|word| word >> (call % 64) & 1 == 1);
    let calls = (0..CALLS).filter(set).collect();
    let parts = usize::try_from(word(WORDS)?).ok()?;
    let mut path = Vec::new();
    if parts <= PARTS {
        let names = value.get(8 * (WORDS + 1)..)?.chunks_exact(NAME).take(parts);
        for name in names.rev() {
            path.push(b'/');
            path.extend(name.iter().take_while(|byte| **byte != 0));
        }
    }
    Some(Learned { path, device, inode, calls })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_read_as_they_are_written() {
        let key = [&7_u64.to_ne_bytes()[..], &0x10_0002_u32.to_ne_bytes(), &3_u32.to_ne_bytes()].concat();
        let mut value = vec![0; 8 * (WORDS + 1) + PARTS * NAME];
        value[..8].copy_from_slice(&(1_u64 << 59 | 1).to_ne_bytes());
        value[56..64].copy_from_slice(&(1_u64 << 63).to_ne_bytes());
        value[64..72].copy_from_slice(&2_u64.to_ne_bytes());
        value[72..75].copy_from_slice(b"ls\0");
        value[72 + NAME..76 + NAME].copy_from_slice(b"bin\0");
        let learned = decode(&key, &value).unwrap();
        assert_eq!((learned.path.as_slice(), learned.device, learned.inode), (&b"/bin/ls"[..], 0x10_0002, 7));
        assert_eq!(learned.calls, [0, 59, 511]);
        // The path is too long.
        value[64..72].copy_from_slice(&(PARTS as u64 + 1).to_ne_bytes());
        assert_eq!(decode(&key, &value).unwrap().path, b"");
        assert_eq!(decode(&key[..9], &value), None);
    }
}
