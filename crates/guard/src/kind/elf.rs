// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Examines ELF files, as far as rules ask for them.
//!
//! The parser is bounded: it reads the header, the program headers, the interpreter's name and the dynamic section, and
//! never more than a few hundred kilobytes, whatever a header states. A file that contradicts itself is a *bad* ELF
//! file, which fapolicyd's shipped rules refuse to every subject.
//!
//! It differs from fapolicyd 1.1.7:
//!
//! - Entries of a 32 bit dynamic section have 8 bytes here. fapolicyd reads them as if they had 16, and so reads only
//!   every other one.
//! - More than [`SEGMENTS`] interpreters or dynamic sections, or a table of more than [`HEADERS`] program headers, make
//!   a bad ELF file. fapolicyd reads all of them: 65,535 headers can make it read a gigabyte for one open.

use super::{Kind, Source};

mod dynamic;
mod table;

use table::{Layout, Segment};

/// How many interpreters, and how many dynamic sections, are read at most.
pub const SEGMENTS: usize = 4;
/// How many program headers are read at most. The kernel accepts no program with a table of more than 64 KiB.
pub const HEADERS: u16 = 4096;

/// The type of file in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object {
    /// `ET_REL`: an object file, or a kernel module.
    Relocatable,
    /// `ET_EXEC`: a program at a fixed address.
    Executable,
    /// `ET_DYN`: a library, or a program at any address.
    Shared,
    /// `ET_CORE`: a core dump.
    Core,
    /// Something else.
    Other,
}

/// What an ELF file is, for kinds and for [start patterns](crate::subject::start).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElfFacts {
    /// What the header says.
    pub object: Object,
    /// 64 bit, not 32.
    pub wide: bool,
    /// It has the other byte order: this machine can't execute it.
    pub foreign: bool,
    /// It has a dynamic section: the run-time linker works on it.
    pub dynamic: bool,
    /// It names an interpreter, that is, a run-time linker.
    pub interpreter: bool,
    /// Its dynamic section has an entry for a debugger to write to, as programs have and libraries don't.
    pub debug: bool,
    /// It names itself as a run-time linker (`ld-linux-x86-64.so.2`); its file name doesn't matter.
    pub linker: bool,
    /// Why it is a bad ELF file, if it is one.
    pub error: Option<ElfError>,
}

impl ElfFacts {
    const fn new(object: Object, layout: Layout) -> Self {
        Self {
            object,
            wide: layout.wide,
            foreign: layout.foreign(),
            dynamic: false,
            interpreter: false,
            debug: false,
            linker: false,
            error: None,
        }
    }

    /// A program that needs no run-time linker. A position-independent program without an interpreter (static-pie) has
    /// a dynamic section, and so isn't static for fapolicyd, nor here. A malformed program without that section counts
    /// as static: the kernel won't execute it.
    pub const fn is_static(&self) -> bool {
        !self.dynamic
    }
}

/// Why an ELF file is a bad one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// Neither 32 nor 64 bit.
    #[error("its class is neither 32 nor 64 bit")]
    Class,
    /// It has the byte order of other machines (fapolicyd reads its numbers in the wrong order, and finds them bad).
    #[error("its byte order is not this machine's")]
    Order,
    /// It ends within its header.
    #[error("it ends within its header")]
    Header,
    /// Program headers of a wrong size, or no program headers.
    #[error("its program headers have a wrong size, or there are none")]
    HeaderSize,
    /// The program headers don't fit into the file.
    #[error("its program headers don't fit into the file")]
    Headers,
    /// The interpreter's name isn't in the file.
    #[error("its interpreter's name is outside of the file")]
    Interpreter,
    /// The dynamic section isn't in the file, or has more than 1000 entries.
    #[error("its dynamic section is outside of the file, or too large")]
    Dynamic,
    /// More segments than any linker writes.
    #[error("it has more program headers than any linker writes")]
    Many,
}

/// The first bytes of every ELF file.
pub const MAGIC: &[u8] = b"\x7fELF";

/// Examines a file; `None` if it isn't an ELF file.
///
/// `size` is from `fstat`. The file can be shorter by now; never is more of it read.
pub fn examine(file: &impl Source, size: u64) -> Option<ElfFacts> {
    let mut ident = [0; 16];
    if file.read_at(0, &mut ident) < ident.len() || !ident.starts_with(MAGIC) {
        return None;
    }
    let layout = Layout::of(&ident);
    let Some(layout) = layout else {
        let mut facts = ElfFacts::new(Object::Other, Layout::NATIVE);
        facts.error = Some(ElfError::Class);
        return Some(facts);
    };
    let mut bytes = [0; 64];
    let bytes = &mut bytes[..layout.header()];
    if file.read_at(0, bytes) < bytes.len() {
        let mut facts = ElfFacts::new(Object::Other, layout);
        facts.error = Some(ElfError::Header);
        return Some(facts);
    }
    let object = match layout.half(bytes, 16) {
        1 => Object::Relocatable,
        2 => Object::Executable,
        3 => Object::Shared,
        4 => Object::Core,
        _ => Object::Other,
    };
    let mut facts = ElfFacts::new(object, layout);
    let found = segments(file, size, layout, bytes, &mut facts);
    facts.error = if facts.foreign { Some(ElfError::Order) } else { found.err() };
    Some(facts)
}

/// Walks the program headers.
fn segments(
    file: &impl Source,
    size: u64,
    layout: Layout,
    header: &[u8],
    facts: &mut ElfFacts,
) -> Result<(), ElfError> {
    let table = layout.table(header);
    let bytes = u64::from(table.entry) * u64::from(table.count);
    if bytes == 0 && facts.object == Object::Relocatable {
        return Ok(());
    }
    if usize::from(table.entry) != layout.segment() || table.count == 0 {
        return Err(ElfError::HeaderSize);
    }
    if bytes > size.saturating_sub(header.len() as u64) || table.offset > u64::from(u32::MAX) {
        return Err(ElfError::Headers);
    }
    if table.count > HEADERS {
        return Err(ElfError::Many);
    }
    let mut chunk = [0; 56 * 16];
    let per_chunk = chunk.len() / layout.segment();
    let mut linked = dynamic::Linked::default();
    let (mut interpreters, mut dynamics) = (0, 0);
    let mut next = 0;
    while next < usize::from(table.count) {
        let wanted = per_chunk.min(usize::from(table.count) - next) * layout.segment();
        let at = table.offset + (next * layout.segment()) as u64;
        if file.read_at(at, &mut chunk[..wanted]) < wanted {
            return Err(ElfError::Headers);
        }
        for entry in chunk[..wanted].chunks_exact(layout.segment()) {
            let segment = layout.segment_of(entry);
            match segment.kind {
                Segment::LOAD => linked.loaded(&segment),
                Segment::INTERPRETER => {
                    facts.interpreter = true;
                    interpreters += 1;
                    interpreter(file, layout, &segment)?;
                }
                Segment::DYNAMIC => {
                    facts.dynamic = true;
                    dynamics += 1;
                    facts.debug |= linked.read(file, size, layout, &segment)?;
                }
                _ => {}
            }
            if interpreters > SEGMENTS || dynamics > SEGMENTS {
                return Err(ElfError::Many);
            }
        }
        next += wanted / layout.segment();
    }
    facts.linker = facts.object == Object::Shared && !facts.interpreter && linked.is_linker(file);
    Ok(())
}

/// Is the interpreter's name in the file? Its text doesn't matter: the kernel opens that file and asks the guard about
/// it.
fn interpreter(file: &impl Source, layout: Layout, segment: &Segment) -> Result<(), ElfError> {
    let mut name = [0; 33];
    let longest = if layout.wide { 33 } else { 23 };
    let wanted = usize::try_from(segment.size).unwrap_or(longest).min(longest);
    // fapolicyd keeps only 32 bits of the offset.
    let offset = segment.offset & u64::from(u32::MAX);
    if file.read_at(offset, &mut name[..wanted]) < wanted {
        return Err(ElfError::Interpreter);
    }
    Ok(())
}

/// The kind of an ELF file whose reported path is `path`.
pub(super) fn kind(facts: &ElfFacts, path: &[u8]) -> Kind {
    const PROGRAM: &str = "application/x-executable";
    const LIBRARY: &str = "application/x-sharedlib";
    Kind::of(match facts {
        ElfFacts { error: Some(_), .. } => "application/x-bad-elf",
        ElfFacts { object: Object::Executable, .. } => PROGRAM,
        ElfFacts { object: Object::Relocatable, .. } => "application/x-object",
        ElfFacts { object: Object::Core, .. } => "application/x-coredump",
        ElfFacts { interpreter: true, .. } if is_c_library(path) => LIBRARY,
        ElfFacts { interpreter: true, .. } => PROGRAM,
        ElfFacts { dynamic: true, debug: true, .. } => PROGRAM,
        ElfFacts { dynamic: true, .. } => LIBRARY,
        _ => return Kind::UNKNOWN,
    })
}

/// The C library names an interpreter, so that a user can execute it to print its version, but it is a library.
/// fapolicyd knows it by its directory, which doesn't cover Debian's `/usr/lib/x86_64-linux-gnu/libc.so.6`: for
/// fapolicyd that one is a program, and so it is here.
fn is_c_library(path: &[u8]) -> bool {
    let path = path.strip_prefix(b"/usr").unwrap_or(path);
    let Some(path) = path.strip_prefix(b"/lib") else { return false };
    let path = path.strip_prefix(b"64").unwrap_or(path);
    [&b"/libc-2"[..], b"/libc.so", b"/libpthread-2"].iter().any(|name| path.starts_with(name))
}
