// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recognizes what kind of file a file is: the MIME type by which rules name it (`ftype=`).
//!
//! The names are fapolicyd's, because its users bring their rules unchanged. The recognizer reads a file through a
//! descriptor that is already open, possibly that of a fanotify event, and with positioned reads only. It opens nothing
//! by path and moves no offset. It names a file that could block (a pipe, a device) by its mode and never reads it. It
//! tries in this order:
//!
//! - the mode: devices, pipes, sockets, directories, and the empty file
//! - [`elf`]: programs, libraries, objects, core dumps, and malformed files that look like one of them
//! - [`shebang`]: scripts that name their interpreter
//! - [`bytes`]: kinds that the first bytes prove
//! - libmagic, with the feature of that name, in this process or in another ([`Ask`]); without it [`text`], which knows
//!   the languages that rules ask for
//!
//! These answers differ from fapolicyd's (`tests/kinds.rs` counts the differences):
//!
//! - A script has its interpreter's language wherever that interpreter is (`#!/opt/x/python3`, `#!/bin/dash`) and
//!   however it is looked up (`#!/usr/bin/env -S python3 -I`). For most of these libmagic says `text/plain`, so that a
//!   rule about languages doesn't match them.
//! - A Python script with a shebang is always `text/x-python`, never `text/x-script.python`, which fapolicyd's list of
//!   languages doesn't have.
//! - An archive that begins with `META-INF/` is a Java archive. libmagic recognizes only some of these.
//! - The bytecode of Python versions newer than the installed libmagic is known, too.

pub mod bytes;
pub mod elf;
#[cfg(feature = "libmagic")]
pub mod libmagic;
pub mod shebang;
pub mod text;

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::os::fd::BorrowedFd;

use crate::{nowait, shortage};
use elf::ElfFacts;

/// How much of a file is read, in bytes.
///
/// libmagic itself reads 1 MiB by default. What decides is at the beginning, except for JSON and for tables separated
/// by commas, of which libmagic checks every line.
pub const HEAD: usize = 64 << 10;

/// How much is read at first: enough for every kind except text without a shebang.
const PEEK: usize = 4 << 10;

/// The MIME type of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kind(Cow<'static, str>);

impl Kind {
    /// The kind is unknown: the file can't be read, or is an ELF file of no use.
    pub const UNKNOWN: Self = Self(Cow::Borrowed("?"));

    const fn of(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// The kind that another process reported; `None` if rules can't write its name.
    #[must_use]
    pub fn told(name: &[u8]) -> Option<Self> {
        let is_written = !name.is_empty() && name.len() < 128 && name.iter().all(u8::is_ascii_graphic);
        let name = std::str::from_utf8(name).ok().filter(|_| is_written)?;
        Some(Self(name.to_owned().into()))
    }

    /// The name, as rules write it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The result of `fstat` on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// `st_mode`: only the type of file matters.
    pub mode: u32,
    /// `st_size`, in bytes.
    pub size: u64,
    /// Whether it is known that reading the file needs no disk.
    pub in_memory: bool,
}

impl Stat {
    /// Calls `fstat` on the descriptor.
    ///
    /// # Errors
    ///
    /// The error of `fstat`.
    pub fn of(file: BorrowedFd<'_>) -> Result<Self, KindError> {
        let stat = rustix::fs::fstat(file).map_err(KindError::Stat)?;
        Ok(Self { mode: stat.st_mode, size: u64::try_from(stat.st_size).unwrap_or(0), in_memory: false })
    }
}

/// A source of bytes that can be read at a position, without moving an offset.
pub trait Source {
    /// Fills `buffer` from `offset` as far as there is content. Returns the number of bytes.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize;
}

impl Source for BorrowedFd<'_> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < buffer.len() {
            let Some(at) = offset.checked_add(filled as u64) else { break };
            match rustix::io::pread(self, &mut buffer[filled..], at) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        filled
    }
}

impl Source for &[u8] {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        let count = buffer.len().min(self.len() - from);
        buffer[..count].copy_from_slice(&self[from..from + count]);
        count
    }
}

/// Which kinds the caller asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Any kind.
    Every,
    /// Kinds of programs ([`is_programs`]). Other files may get a different name than libmagic would give.
    Programs,
}

/// Kinds of programs: machine code, and the languages that [`Wanted::Programs`] always recognizes.
const PROGRAMS: &[&str] = &[
    "any",
    "application/java-archive",
    "application/javascript",
    "application/vnd.microsoft.portable-executable",
    "application/x-bad-elf",
    "application/x-bytecode.ocaml",
    "application/x-bytecode.python",
    "application/x-coredump",
    "application/x-elc",
    "application/x-executable",
    "application/x-java-applet",
    "application/x-object",
    "application/x-pie-executable",
    "application/x-sharedlib",
    "text/javascript",
    "text/x-R",
    "text/x-awk",
    "text/x-gawk",
    "text/x-java",
    "text/x-lisp",
    "text/x-lua",
    "text/x-luatex",
    "text/x-m4",
    "text/x-nftables",
    "text/x-perl",
    "text/x-php",
    "text/x-python",
    "text/x-ruby",
    "text/x-script.guile",
    "text/x-script.python",
    "text/x-shellscript",
    "text/x-systemtap",
    "text/x-tcl",
];

/// Is this a kind of programs?
pub fn is_programs(kind: &[u8]) -> bool {
    PROGRAMS.iter().any(|known| known.as_bytes() == kind)
}

/// A recognizer that knows more kinds than this crate: libmagic.
pub trait Ask {
    /// The kind of a file that begins with these bytes, at most [`HEAD`]; [`Kind::UNKNOWN`] if the recognizer can't
    /// tell.
    ///
    /// # Errors
    /// When there is no answer.
    fn kind(&self, head: &[u8]) -> Result<Kind, Untold>;
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Untold {
    /// There is no other recognizer.
    Nobody,
    /// The recognizer's process ended while it examined these bytes, or exceeded its time. Requests for that file are
    /// refused, because the author of the file may have caused this on purpose.
    Failed,
    /// The answer takes longer than the calling thread may wait. A thread that may wait longer must ask.
    Slow,
}

/// Recognizes kinds. Each thread has its own, because the other recognizer serves one thread.
pub struct Recognizer {
    other: Option<Box<dyn Ask>>,
    /// Whether reads may wait for a disk.
    waits: bool,
    /// Whether something took too long.
    slow: Cell<bool>,
}

/// A file that is read without waiting for a disk if the recognizer must not wait.
struct Careful<'a> {
    file: BorrowedFd<'a>,
    in_memory: bool,
    recognizer: &'a Recognizer,
}

impl Source for Careful<'_> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        if self.recognizer.waits || self.in_memory {
            return self.file.read_at(offset, buffer);
        }
        nowait::read_at(self.file, offset, buffer).unwrap_or_else(|_takes_long| {
            self.recognizer.slow.set(true);
            0
        })
    }
}

impl Recognizer {
    /// With libmagic and its database, if the crate was built with it.
    ///
    /// # Errors
    ///
    /// libmagic or its database can't be loaded. [`Recognizer::own`] works without.
    pub fn new() -> Result<Self, KindError> {
        #[cfg(feature = "libmagic")]
        return Ok(Self::asking(Box::new(libmagic::Magic::load()?)));
        #[cfg(not(feature = "libmagic"))]
        Ok(Self::own())
    }

    /// With another recognizer that knows more kinds.
    #[must_use]
    pub fn asking(other: Box<dyn Ask>) -> Self {
        Self { other: Some(other), waits: true, slow: Cell::new(false) }
    }

    /// With only what this crate knows.
    pub fn own() -> Self {
        Self { other: None, waits: true, slow: Cell::new(false) }
    }

    /// The same, but without waiting for a disk: content that isn't in memory isn't read.
    #[must_use]
    pub fn without_waiting(self) -> Self {
        Self { waits: false, ..self }
    }

    fn careful<'a>(&'a self, file: BorrowedFd<'a>, stat: Stat) -> Careful<'a> {
        Careful { file, in_memory: stat.in_memory, recognizer: self }
    }

    /// Whether something took too long since the last call. The kind isn't known then.
    pub(crate) fn was_slow(&self) -> bool {
        self.slow.take()
    }

    /// The kind of an open file.
    ///
    /// `path` is the reported path of the file. It is needed because some ELF libraries can also be executed, and only
    /// the C library's name shows that it is one of them.
    pub fn kind_of(&self, file: BorrowedFd<'_>, path: &[u8], stat: Stat) -> Kind {
        self.kind_among(file, path, stat, Wanted::Every)
    }

    /// The kind of an open file, as exactly as the caller needs it.
    pub fn kind_among(&self, file: BorrowedFd<'_>, path: &[u8], stat: Stat, wanted: Wanted) -> Kind {
        if let Some(kind) = by_mode(stat.mode) {
            return kind;
        }
        // The size limits the buffer: there is nothing to read beyond it. (In `/proc` the size means nothing.)
        let size = usize::try_from(stat.size).unwrap_or(PEEK);
        let mut head = vec![0; if size == 0 { PEEK } else { size.min(PEEK) }];
        let careful = self.careful(file, stat);
        let read = careful.read_at(0, &mut head);
        head.truncate(read);
        if head.is_empty() {
            return Kind::of("application/x-empty");
        }
        if head.starts_with(elf::MAGIC)
            && let Some(facts) = elf::examine(&careful, stat.size)
        {
            return elf::kind(&facts, path);
        }
        if let Some(kind) = certain(&head) {
            return kind;
        }
        if head.len() == PEEK {
            head.resize(HEAD, 0);
            let more = careful.read_at(PEEK as u64, &mut head[PEEK..]);
            head.truncate(PEEK + more);
        }
        self.left(&head, wanted)
    }

    /// The kind of a file that the earlier steps did not recognize. libmagic knows more, if it is there.
    fn left(&self, head: &[u8], wanted: Wanted) -> Kind {
        // libmagic takes half a millisecond for any file. Text in which no line begins as in a program isn't a program.
        if wanted != Wanted::Every && !text::may_be_program(head) {
            return own(head);
        }
        match self.other.as_ref().map_or(Err(Untold::Nobody), |other| other.kind(head)) {
            Ok(kind) => kind,
            Err(Untold::Nobody) => own(head),
            Err(Untold::Failed) => {
                shortage::note();
                Kind::UNKNOWN
            }
            Err(Untold::Slow) => {
                self.slow.set(true);
                Kind::UNKNOWN
            }
        }
    }

    /// What is needed to tell how a program is started; `None` if the file isn't an ELF file.
    pub fn elf_of(&self, file: BorrowedFd<'_>, stat: Stat) -> Option<ElfFacts> {
        if by_mode(stat.mode).is_some() {
            return None;
        }
        elf::examine(&self.careful(file, stat), stat.size)
    }
}

/// The kind by the mode; `None` for a regular file.
fn by_mode(mode: u32) -> Option<Kind> {
    use rustix::fs::FileType;
    let name = match FileType::from_raw_mode(mode) {
        FileType::CharacterDevice => "inode/chardevice",
        FileType::BlockDevice => "inode/blockdevice",
        FileType::Fifo => "inode/fifo",
        FileType::Socket => "inode/socket",
        FileType::Directory => "inode/directory",
        FileType::Symlink => "inode/symlink",
        _ => return None,
    };
    Some(Kind::of(name))
}

/// Kinds that the first bytes prove.
fn certain(head: &[u8]) -> Option<Kind> {
    shebang::kind(head).or_else(|| bytes::kind(head)).map(Kind::of)
}

/// The kind without libmagic.
fn own(head: &[u8]) -> Kind {
    Kind::of(bytes::likely(head).unwrap_or_else(|| text::kind(head)))
}

/// Why the kind can't be found out.
#[derive(Debug, thiserror::Error)]
pub enum KindError {
    /// `fstat` failed.
    #[error("can't determine the file's kind: {0}")]
    Stat(rustix::io::Errno),
    /// libmagic can't be used.
    #[cfg(feature = "libmagic")]
    #[error("libmagic can't be used")]
    Open(#[source] magic::cookie::OpenError),
    /// libmagic's database isn't where it should be, or is another version's.
    #[cfg(feature = "libmagic")]
    #[error(
        "libmagic's database can't be read: {reason} (looked for {looked})\nhint: install libmagic's data, `apt install libmagic-mgc` or `dnf install file-libs`"
    )]
    Database {
        /// Where it was looked for.
        looked: String,
        /// What libmagic says.
        reason: String,
    },
}
