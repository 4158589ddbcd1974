// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests one generated file of each kind, so that kinds are also tested on a machine without fapolicyd.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd;

use palisade_guard::kind::elf::{ElfError, Object, examine};
use palisade_guard::kind::{Recognizer, Stat};

/// An ELF file of 64 bits: a header, then program headers, then what they point to.
struct Elf {
    object: u16,
    entry: u16,
    /// Type and content of each segment.
    segments: Vec<(u32, Vec<u8>)>,
    little: bool,
}

impl Elf {
    fn new(object: u16, segments: &[(u32, &[u8])]) -> Self {
        let segments = segments.iter().map(|(kind, content)| (*kind, content.to_vec())).collect();
        Self { object, entry: 56, segments, little: true }
    }

    fn bytes(&self) -> Vec<u8> {
        let count = u16::try_from(self.segments.len()).unwrap();
        let number = |value: u64, width: usize| -> Vec<u8> {
            if self.little {
                value.to_le_bytes()[..width].to_vec()
            } else {
                value.to_be_bytes()[8 - width..].to_vec()
            }
        };
        let mut bytes = b"\x7fELF\x02".to_vec();
        bytes.extend([if self.little { 1 } else { 2 }, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        for (value, width) in [
            (self.object.into(), 2),
            (62, 2),
            (1, 4),
            (0, 8),
            (64, 8),
            (0, 8),
            (0, 4),
            (64, 2),
            (if count == 0 { 0 } else { self.entry.into() }, 2),
            (count.into(), 2),
            (0, 2),
            (0, 2),
            (0, 2),
        ] {
            bytes.extend(number(value, width));
        }
        let mut offset = 64 + 56 * u64::from(count);
        for (kind, content) in &self.segments {
            let size = content.len() as u64;
            for (value, width) in [
                (u64::from(*kind), 4),
                (5, 4),
                (offset, 8),
                (offset, 8),
                (offset, 8),
                (size, 8),
                (size, 8),
                (1, 8),
            ] {
                bytes.extend(number(value, width));
            }
            offset += size;
        }
        for (_, content) in &self.segments {
            bytes.extend(content);
        }
        bytes
    }
}

fn dynamic(entries: &[(u64, u64)]) -> Vec<u8> {
    entries.iter().flat_map(|(tag, value)| [tag.to_le_bytes(), value.to_le_bytes()].concat()).collect()
}

fn kind_at(content: &[u8], path: &str) -> String {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    let stat = Stat::of(file.as_fd()).unwrap();
    let own = Recognizer::own().kind_of(file.as_fd(), path.as_bytes(), stat).to_string();
    let full = Recognizer::new().unwrap().kind_of(file.as_fd(), path.as_bytes(), stat).to_string();
    assert_eq!(own, full, "with and without libmagic");
    full
}

fn kind(content: &[u8]) -> String {
    kind_at(content, "/tmp/x")
}

const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const INTERPRETER: u32 = 3;
const LINKER: &[u8] = b"/lib64/ld-linux-x86-64.so.2\0";

#[test]
fn programs_and_libraries() {
    let needs = dynamic(&[(1, 1), (0, 0)]);
    let debug = dynamic(&[(1, 1), (21, 0), (0, 0)]);
    let library = Elf::new(3, &[(LOAD, b"code"), (DYNAMIC, &needs)]).bytes();
    let program = Elf::new(3, &[(LOAD, b"code"), (INTERPRETER, LINKER), (DYNAMIC, &debug)]).bytes();
    let fixed = Elf::new(2, &[(LOAD, b"code")]).bytes();
    let without = Elf::new(3, &[(LOAD, b"code"), (DYNAMIC, &debug)]).bytes();
    assert_eq!(kind(&library), "application/x-sharedlib");
    assert_eq!(kind(&program), "application/x-executable");
    assert_eq!(kind(&fixed), "application/x-executable");
    assert_eq!(kind(&without), "application/x-executable");
    assert_eq!(kind_at(&program, "/usr/lib64/libc.so.6"), "application/x-sharedlib");
    assert_eq!(kind_at(&program, "/lib/libpthread-2.31.so"), "application/x-sharedlib");
    assert_eq!(kind_at(&program, "/usr/lib/x86_64-linux-gnu/libc.so.6"), "application/x-executable");
    assert_eq!(kind(&Elf::new(1, &[]).bytes()), "application/x-object");
    assert_eq!(kind(&Elf::new(4, &[(4, b"note")]).bytes()), "application/x-coredump");
    assert_eq!(kind(&Elf::new(3, &[(LOAD, b"code")]).bytes()), "?");

    let facts = examine(&&program[..], program.len() as u64).unwrap();
    assert!(facts.dynamic && facts.interpreter && facts.debug && !facts.linker && !facts.is_static());
    let facts = examine(&&fixed[..], fixed.len() as u64).unwrap();
    assert!(facts.is_static() && facts.object == Object::Executable);
}

#[test]
fn bad_ones() {
    let error = |bytes: &[u8]| {
        assert_eq!(kind(bytes), "application/x-bad-elf");
        examine(&bytes, bytes.len() as u64).unwrap().error.unwrap()
    };
    let good = Elf::new(2, &[(LOAD, b"code")]);
    let mut bytes = good.bytes();
    bytes[4] = 3;
    assert_eq!(error(&bytes), ElfError::Class);
    assert_eq!(error(&good.bytes()[..40]), ElfError::Header);
    assert_eq!(error(&Elf::new(2, &[]).bytes()), ElfError::HeaderSize);
    assert_eq!(error(&Elf { entry: 57, ..Elf::new(2, &[(LOAD, b"code")]) }.bytes()), ElfError::HeaderSize);
    assert_eq!(error(&good.bytes()[..100]), ElfError::Headers);
    let long = Elf::new(2, &[(LOAD, b""), (INTERPRETER, LINKER)]).bytes();
    assert_eq!(error(&long[..long.len() - 8]), ElfError::Interpreter);
    let many = dynamic(&[(1, 1); 1001]);
    assert_eq!(error(&Elf::new(3, &[(DYNAMIC, &many)]).bytes()), ElfError::Dynamic);
    let cut = Elf::new(3, &[(DYNAMIC, &dynamic(&[(1, 1); 3]))]).bytes();
    assert_eq!(error(&cut[..cut.len() - 1]), ElfError::Dynamic);
    assert_eq!(error(&Elf::new(3, &[(INTERPRETER, LINKER); 5]).bytes()), ElfError::Many);
    assert_eq!(error(&Elf { little: false, ..Elf::new(2, &[(LOAD, b"code")]) }.bytes()), ElfError::Order);
}

#[test]
fn linkers_are_known_by_what_they_call_themselves() {
    // The only segment starts behind three program headers: address and offset are the same.
    let start = 64 + 3 * 56;
    let names = b"\0ld-linux-x86-64.so.2\0";
    let entries = dynamic(&[(5, start), (14, 1), (0, 0)]);
    let bytes = Elf::new(3, &[(LOAD, names), (DYNAMIC, &entries), (4, b"")]).bytes();
    assert!(examine(&&bytes[..], bytes.len() as u64).unwrap().linker);
    let named = Elf::new(3, &[(LOAD, b"\0libx-linux.so.2\0"), (DYNAMIC, &entries), (4, b"")]).bytes();
    assert!(!examine(&&named[..], named.len() as u64).unwrap().linker);
}

#[test]
fn files_of_32_bits() {
    let mut bytes = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    for half in [3_u16, 3] {
        bytes.extend(half.to_le_bytes());
    }
    for long in [1_u32, 0, 52, 0, 0] {
        bytes.extend(long.to_le_bytes());
    }
    for half in [52_u16, 32, 1, 0, 0, 0] {
        bytes.extend(half.to_le_bytes());
    }
    for long in [2_u32, 84, 84, 84, 16, 16, 4, 4] {
        bytes.extend(long.to_le_bytes());
    }
    let library = [&bytes[..], &[1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
    let program = [&bytes[..], &[1, 0, 0, 0, 1, 0, 0, 0, 21, 0, 0, 0, 0, 0, 0, 0]].concat();
    assert_eq!(kind(&library), "application/x-sharedlib");
    assert_eq!(kind(&program), "application/x-executable");
}

#[test]
fn scripts_and_bytecode() {
    for (content, expected) in [
        (&b""[..], "application/x-empty"),
        (b"#!/bin/sh\n", "text/x-shellscript"),
        (b"#!/opt/python/bin/python3 -I\nimport os\n", "text/x-python"),
        (b"#!/usr/bin/env python3\nPK\x03\x04\0\0\0", "text/x-python"),
        (b"\xa7\x0d\x0d\x0a\0\0\0\0\0\0\0\0\0\0\0\0", "application/x-bytecode.python"),
        (b";ELC\x1c\0\0\0\n", "application/x-elc"),
        (b"\xca\xfe\xba\xbe\0\0\0\x3d\0\x10", "application/x-java-applet"),
        (b"Caml1999O031\0\0\0", "application/x-bytecode.ocaml"),
        (b"\x1f\x8b\x08\0", "application/gzip"),
        (b"Dear reader,\n", "text/plain"),
    ] {
        assert_eq!(kind(content), expected, "{content:?}");
    }
}

#[test]
fn what_could_block_is_not_read() {
    let (reader, _writer) = std::io::pipe().unwrap();
    let stat = Stat::of(reader.as_fd()).unwrap();
    let recognizer = Recognizer::own();
    assert_eq!(recognizer.kind_of(reader.as_fd(), b"pipe", stat).as_str(), "inode/fifo");
    let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    let stat = Stat::of(one.as_fd()).unwrap();
    assert_eq!(recognizer.kind_of(one.as_fd(), b"socket", stat).as_str(), "inode/socket");
    for (path, expected) in [("/dev/null", "inode/chardevice"), ("/", "inode/directory")] {
        let file = File::open(path).unwrap();
        let stat = Stat::of(file.as_fd()).unwrap();
        assert_eq!(recognizer.kind_of(file.as_fd(), path.as_bytes(), stat).as_str(), expected);
    }
}

#[test]
fn offsets_are_left_alone() {
    use std::io::{Seek as _, SeekFrom};
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"#!/bin/sh\necho\n").unwrap();
    file.seek(SeekFrom::Start(3)).unwrap();
    let stat = Stat::of(file.as_fd()).unwrap();
    Recognizer::new().unwrap().kind_of(file.as_fd(), b"x", stat);
    assert_eq!(file.stream_position().unwrap(), 3);
}

/// The parser reads little of a file whatever its headers say, and never panics.
#[test]
fn any_elf_is_taken() {
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        for class in [1, 2] {
            for order in [1, 2] {
                let start = [0x7f, b'E', b'L', b'F', class, order, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                let file = [&start, bytes].concat();
                assert!(examine(&&file[..], file.len() as u64).is_some());
                let _ = examine(&&file[..], u64::MAX);
            }
        }
        let _ = examine(&bytes, bytes.len() as u64);
    });
    // Valid files with one changed byte.
    let needs = dynamic(&[(5, 64), (14, 1), (21, 0), (0, 0)]);
    let good = Elf::new(3, &[(LOAD, b"code"), (INTERPRETER, LINKER), (DYNAMIC, &needs)]).bytes();
    for at in 0..good.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bytes = good.clone();
            bytes[at] = value;
            let _ = examine(&&bytes[..], bytes.len() as u64);
        }
    }
}
