// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory mappings of this process, as the kernel reports them.

use crate::call::{self, number};
use crate::layout::PATH;

/// A mapping.
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    rights: [u8; 4],
    /// Where it begins in the file.
    pub(crate) offset: u64,
    pub(crate) device: u64,
    /// 0: of no file.
    pub(crate) inode: u64,
    /// The beginning of the file's path, or the kernel's name of the mapping.
    pub(crate) path: [u8; PATH],
    pub(crate) length: usize,
}

/// The kernel's name of its own code in a process.
const VDSO: [u8; 6] = *b"[vdso]";

impl Mapping {
    /// See [`library`].
    fn library(&self, address: u64) -> Option<Pages> {
        match () {
            () if &self.rights != b"r-xp" => None,
            () if self.inode != 0 => Some(Pages::of(address)),
            () if self.path[..self.length] == VDSO => Some(Pages { start: self.start, end: self.end }),
            () => None,
        }
    }

    /// Whether it is an executable mapping of a file.
    pub(crate) fn is_program(&self) -> bool {
        self.rights[2] == b'x' && self.inode != 0
    }
}

/// Pages whose rights are changed together.
pub(crate) struct Pages {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Pages {
    /// The page of an address.
    const fn of(address: u64) -> Self {
        const PAGE: u64 = 4096;
        let start = address & !(PAGE - 1);
        Self { start, end: start + PAGE }
    }
}

/// The pages to make writable for patching an address. Only code of a file or of the kernel may be patched, if it is
/// mapped for this process alone and isn't writable. Code that a JIT compiler writes stays unpatched and traps. The
/// kernel changes the rights of its own code only as a whole.
pub(crate) fn library(address: u64) -> Option<Pages> {
    let asked = with(|file| query(file, address));
    match asked {
        Some(Some(known)) => known,
        None => None,
        Some(None) => {
            let mut found = None;
            each(|mapping| {
                let inside = (mapping.start..mapping.end).contains(&address);
                if inside {
                    found = mapping.library(address);
                }
                inside
            });
            found
        }
    }
}

/// Runs `what` with the list of mappings open; `None` if it can't be opened.
fn with<T>(what: impl FnOnce(u64) -> T) -> Option<T> {
    opened(b"/proc/self/maps\0", what)
}

/// The same with another file. Its path ends in a zero byte.
fn opened<T>(path: &[u8], what: impl FnOnce(u64) -> T) -> Option<T> {
    const AT_FDCWD: u64 = -100_i64 as u64;
    const O_CLOEXEC: u64 = 0o2_000_000;
    // SAFETY: needed: files are opened by the kernel. Sound: it reads the path, which the caller ends with a zero byte and
    // which lives until the call returns.
    let file = unsafe { call::raw(number::OPENAT, [AT_FDCWD, path.as_ptr() as u64, O_CLOEXEC, 0, 0, 0]) };
    if file < 0 {
        return None;
    }
    let answer = what(file as u64);
    // SAFETY: needed: descriptors are closed by the kernel. Sound: this one was opened above, and no other code in
    // the process knows its number.
    unsafe { call::call(number::CLOSE, file as u64, 0, 0) };
    Some(answer)
}

/// Asks for one mapping (`PROCMAP_QUERY`, Linux 6.11); `None` if the kernel doesn't know the request.
fn query(file: u64, address: u64) -> Option<Option<Pages>> {
    const PROCMAP_QUERY: u64 = 0xc068_6611;
    let mut name = [0_u8; 16];
    // struct procmap_query: size, flags, address asked for; start, end, flags, page size, offset, inode; device;
    // length of the name and of the build's number; where they go.
    let mut query = [0_u64; 13];
    query[0] = 104;
    query[2] = address;
    // SAFETY: needed: only the kernel knows the mapping. Sound: PROCMAP_QUERY writes 104 bytes, as `size` says, and `query` has
    // as many; no name is asked for.
    let answer = unsafe { call::call(number::IOCTL, file, PROCMAP_QUERY, query.as_mut_ptr() as u64) };
    const READ: u64 = 1;
    const EXECUTE: u64 = 4;
    if answer != 0 {
        return None;
    }
    if query[5] != READ | EXECUTE {
        return Some(None);
    }
    if query[8] != 0 {
        return Some(Some(Pages::of(address)));
    }
    // A mapping of no file has a short name. A name that is longer than the buffer isn't the vDSO's.
    query = [0; 13];
    query[0] = 104;
    query[2] = address;
    query[10] = name.len() as u64;
    query[11] = name.as_mut_ptr() as u64;
    // SAFETY: needed: only the kernel knows the mapping. Sound: PROCMAP_QUERY writes 104 bytes, as many as `query` has, and at
    // most `name.len()` bytes of the name.
    let answer = unsafe { call::call(number::IOCTL, file, PROCMAP_QUERY, query.as_mut_ptr() as u64) };
    let is_vdso = answer == 0 && name.starts_with(&VDSO);
    Some(is_vdso.then_some(Pages { start: query[3], end: query[4] }))
}

/// Passes all mappings to `tell`, until it returns true.
pub(crate) fn each(mut tell: impl FnMut(&Mapping) -> bool) {
    let mut line = Line::new();
    bytes(b"/proc/self/maps\0", |byte| line.take(byte) && tell(&line.mapping));
}

/// Passes a file's bytes to `tell`, until it returns true. The path ends in a zero byte.
pub(crate) fn bytes(path: &[u8], mut tell: impl FnMut(u8) -> bool) {
    opened(path, |file| {
        let mut text = [0_u8; 1024];
        loop {
            // SAFETY: needed: files are read by the kernel. Sound: it writes at most `text.len()` bytes into `text`, which
            // lives until the call returns.
            let read = unsafe { call::call(number::READ, file, text.as_mut_ptr() as u64, text.len() as u64) };
            if read <= 0 {
                return;
            }
            for byte in &text[..(read as usize).min(text.len())] {
                if tell(*byte) {
                    return;
                }
            }
        }
    });
}

/// A line that is being read.
struct Line {
    mapping: Mapping,
    field: u32,
    place: usize,
}

impl Line {
    const fn new() -> Self {
        let mapping = Mapping {
            start: 0,
            end: 0,
            rights: [0; 4],
            offset: 0,
            device: 0,
            inode: 0,
            path: [0; PATH],
            length: 0,
        };
        Self { mapping, field: 0, place: 0 }
    }

    /// `START-END RIGHTS OFFSET DEVICE INODE PATH`; returns whether the line is complete.
    fn take(&mut self, byte: u8) -> bool {
        if self.field == 7 {
            *self = Self::new();
        }
        let hexadecimal = |number: u64| number << 4 | u64::from((byte as char).to_digit(16).unwrap_or(0));
        let to = &mut self.mapping;
        match (self.field, byte) {
            (_, b'\n') => {
                self.field = 7;
                return true;
            }
            (0, b'-') | (1..=4, b' ') => self.field += 1,
            (5, b' ') => self.field = 6,
            (0, _) => to.start = hexadecimal(to.start),
            (1, _) => to.end = hexadecimal(to.end),
            (2, right) => {
                if let Some(place) = to.rights.get_mut(self.place) {
                    *place = right;
                }
                self.place += 1;
            }
            (3, _) => to.offset = hexadecimal(to.offset),
            // MAJOR:MINOR
            (4, b':') => to.device <<= 32 - 4 * 2,
            (4, _) => to.device = hexadecimal(to.device),
            (5, digit) => to.inode = to.inode * 10 + u64::from(digit.wrapping_sub(b'0')),
            // Spaces before the path.
            (6, b' ') if to.length == 0 => {}
            (_, letter) => {
                if let Some(place) = to.path.get_mut(to.length) {
                    *place = letter;
                    to.length += 1;
                }
            }
        }
        false
    }
}
