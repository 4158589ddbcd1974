// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads from an ELF file which files are loaded with it.
//!
//! Only the headers, the dynamic section and the strings that it names are read, wherever they are in the file: a
//! browser of 200 MB costs as much as a small library. Files may be damaged or hostile. Inconsistent data is an
//! error, and no number in a file determines how much memory is allocated.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::read::{FileKind, ReadCache, ReadRef};
use object::{Endianness, elf::DynamicTag};
use rustix::fs::{FileType, Mode, OFlags};

/// The most segments (files have a dozen) and dynamic entries (files have a hundred) that are read.
const SEGMENTS: usize = 1024;
const ENTRIES: usize = 1 << 16;
/// The most libraries that one file may name.
const NEEDED: usize = 4096;
/// The longest string that is accepted as a path or a list of paths.
const STRING: u64 = 64 * 1024;

/// What kind of machine code a file holds: files of different kinds are never loaded together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Machine {
    /// `e_machine`, such as 62 for x86-64 and 183 for aarch64.
    pub number: u16,
    /// 64-bit addresses.
    pub wide: bool,
}

/// The parts of an ELF file that say which files are loaded with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elf {
    /// The machine that runs it.
    pub machine: Machine,
    /// The program that loads it (`PT_INTERP`); libraries and static programs have none.
    pub interpreter: Option<PathBuf>,
    /// Names of libraries, in the order in which they are loaded.
    pub needed: Vec<OsString>,
    /// Its name once it is loaded.
    pub soname: Option<OsString>,
    /// `DT_RPATH`: where to look for libraries that it and the objects loaded by it need. Empty if there is a
    /// [`runpath`](Self::runpath), which replaces it.
    pub rpath: Vec<OsString>,
    /// `DT_RUNPATH`: where to look for libraries that it needs itself.
    pub runpath: Vec<OsString>,
    /// There is a `DT_RUNPATH`, even an empty one.
    pub has_runpath: bool,
    /// The system's own directories aren't searched (`DF_1_NODEFLIB`).
    pub no_default: bool,
}

/// Why a file can't be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// It can't be opened or isn't regular.
    #[error("can't open {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// It is another kind of file.
    #[error("{path} is no ELF file")]
    NotElf {
        /// The file.
        path: PathBuf,
    },
    /// It is truncated, or its content is invalid.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which part.
        what: &'static str,
    },
}

impl ElfError {
    /// Whether there is no such file.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Open { source, .. }
            if matches!(source.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory))
    }
}

/// Reads an ELF file.
///
/// # Errors
/// [`ElfError`].
pub fn read(path: &Path) -> Result<Elf, ElfError> {
    let error = |source: std::io::Error| ElfError::Open { path: path.to_owned(), source };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| error(errno.into()))?;
    let stat = rustix::fs::fstat(&file).map_err(|errno| error(errno.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(ElfError::NotElf { path: path.to_owned() });
    }
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let cache =
        ReadCache::new(Window { file: File::from(file), size, at: 0, start: 0, held: 0, bytes: [0; WINDOW] });
    parse(&cache).map_err(|problem| match problem {
        Problem::NotElf => ElfError::NotElf { path: path.to_owned() },
        Problem::Damaged(what) => ElfError::Damaged { path: path.to_owned(), what },
    })
}

/// How much is read at once: the headers, the dynamic section and the strings are in different places. 16 KiB would
/// save one read in ten and copy four times as much.
const WINDOW: usize = 4 * 1024;

/// A file and the part of it that was read last. `ReadCache` would read a dozen small pieces, with two system calls
/// each.
struct Window {
    file: File,
    size: u64,
    at: u64,
    start: u64,
    held: usize,
    bytes: [u8; WINDOW],
}

impl Read for Window {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let at_hand = |window: &Self| {
            let into = usize::try_from(window.at.checked_sub(window.start)?).ok()?;
            (into < window.held).then_some(into)
        };
        let into = match at_hand(self) {
            Some(into) => into,
            None => {
                self.held = 0;
                self.start = self.at;
                self.held = self.file.read_at(&mut self.bytes, self.at)?;
                0
            }
        };
        let held = self.bytes.get(into..self.held).unwrap_or_default();
        let length = held.len().min(to.len());
        to[..length].copy_from_slice(&held[..length]);
        self.at += length as u64;
        Ok(length)
    }
}

impl Seek for Window {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let (base, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::End(by) => (self.size, by),
            SeekFrom::Current(by) => (self.at, by),
        };
        self.at = base.checked_add_signed(by).ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// What is wrong with the bytes.
#[derive(Debug, PartialEq, Eq)]
enum Problem {
    NotElf,
    Damaged(&'static str),
}

fn parse<'d, R: ReadRef<'d>>(data: R) -> Result<Elf, Problem> {
    // Only the first bytes: nothing more is read of other kinds of files.
    if data.read_bytes_at(0, 4) != Ok(b"\x7fELF") {
        return Err(Problem::NotElf);
    }
    match FileKind::parse_at(data, 0) {
        Ok(FileKind::Elf32) => parse_as::<FileHeader32<Endianness>, R>(data),
        Ok(FileKind::Elf64) => parse_as::<FileHeader64<Endianness>, R>(data),
        _ => Err(Problem::Damaged("its header")),
    }
}

fn parse_as<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(data: R) -> Result<Elf, Problem> {
    let header = H::parse(data).map_err(|_why| Problem::Damaged("its header"))?;
    let endian = header.endian().map_err(|_why| Problem::Damaged("its header"))?;
    let segments =
        header.program_headers(endian, data).map_err(|_why| Problem::Damaged("its program headers"))?;
    let segments = &segments[..segments.len().min(SEGMENTS)];
    let machine = Machine { number: header.e_machine(endian).0, wide: header.is_class_64() };
    let mut elf = Elf {
        machine,
        interpreter: None,
        needed: Vec::new(),
        soname: None,
        rpath: Vec::new(),
        runpath: Vec::new(),
        has_runpath: false,
        no_default: false,
    };
    let mut dynamic = None;
    for segment in segments {
        match segment.p_type(endian) {
            elf::PT_INTERP => {
                let (offset, size) = (segment.p_offset(endian).into(), segment.p_filesz(endian).into());
                let text = data
                    .read_bytes_at(offset, size.min(STRING))
                    .map_err(|_why| Problem::Damaged("the name of its interpreter"))?;
                let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
                elf.interpreter = Some(PathBuf::from(OsString::from_vec(text.to_vec())));
            }
            elf::PT_DYNAMIC => dynamic = Some(segment),
            _ => {}
        }
    }
    let Some(dynamic) = dynamic else { return Ok(elf) };
    let size = dynamic.p_filesz(endian).into();
    let entry = size_of::<H::Dyn>() as u64;
    if size / entry > ENTRIES as u64 {
        return Err(Problem::Damaged("the size of its dynamic section"));
    }
    // Files of debug symbols have the section's header but not its content.
    let entries: &[H::Dyn] = data
        .read_slice_at(dynamic.p_offset(endian).into(), usize::try_from(size / entry).unwrap_or(0))
        .map_err(|_why| Problem::Damaged("its dynamic section"))?;
    let used = entries.iter().take_while(|entry| entry.tag(endian) != elf::DT_NULL);
    let value = |wanted: DynamicTag| {
        used.clone().find(|entry| entry.tag(endian) == wanted).map(|entry| entry.val(endian))
    };
    let Some(strings) = value(elf::DT_STRTAB) else { return Ok(elf) };
    let strings = segments
        .iter()
        .filter(|segment| segment.p_type(endian) == elf::PT_LOAD)
        .find_map(|segment| {
            let (start, size): (u64, u64) = (segment.p_vaddr(endian).into(), segment.p_filesz(endian).into());
            let into = strings.checked_sub(start).filter(|into| *into < size)?;
            segment.p_offset(endian).into().checked_add(into)
        })
        .ok_or(Problem::Damaged("the place of its strings"))?;
    let end = strings.saturating_add(value(elf::DT_STRSZ).unwrap_or(u64::MAX));
    let string = |offset: u64| {
        let start = strings.checked_add(offset).filter(|start| *start < end);
        start
            .and_then(|start| {
                let end = end.min(start.saturating_add(STRING));
                data.read_bytes_at_until(start..end, 0).ok()
            })
            .map(|bytes| OsString::from_vec(bytes.to_vec()))
            .ok_or(Problem::Damaged("a name in it"))
    };
    for entry in used.clone() {
        let value = entry.val(endian);
        match entry.tag(endian) {
            elf::DT_NEEDED | elf::DT_FILTER | elf::DT_AUXILIARY => {
                if elf.needed.len() == NEEDED {
                    return Err(Problem::Damaged("it needs more than 4096 libraries"));
                }
                elf.needed.push(string(value)?);
            }
            elf::DT_SONAME => elf.soname = Some(string(value)?),
            elf::DT_RPATH => elf.rpath = list(string(value)?),
            elf::DT_RUNPATH => {
                elf.has_runpath = true;
                elf.runpath = list(string(value)?);
            }
            elf::DT_FLAGS_1 => elf.no_default |= value & elf::DF_1_NODEFLIB.0 != 0,
            _ => {}
        }
    }
    if elf.has_runpath {
        elf.rpath.clear();
    }
    Ok(elf)
}

/// Splits a list of directories at its colons. Empty entries are dropped: they would mean the working directory,
/// which is never intended.
fn list(text: OsString) -> Vec<OsString> {
    text.into_vec()
        .split(|byte| *byte == b':')
        .filter(|part| !part.is_empty())
        .map(|part| OsString::from_vec(part.to_vec()))
        .collect()
}
