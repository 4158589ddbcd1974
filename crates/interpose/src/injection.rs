// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prepares a program that was just executed and has stopped before its first instruction.
//!
//! The supervisor writes a few instructions into the unused end of the program's vDSO (a private copy: the kernel
//! lets a debugger write there), and the program continues with them. They attach the image and jump into it. From
//! there on the program prepares itself, and the supervisor has already detached from it. This takes two stops less
//! than calls made one by one.

use crate::image;
use crate::layout::CODE;
use libc::{c_void, pid_t, user_regs_struct};
use std::io::{self, Error};

/// `SHM_RDONLY | SHM_EXEC`
const READ_EXECUTE: u32 = 0o10_000 | 0o100_000;
/// The code segment of 64-bit programs.
const USER_CODE: u64 = 0x33;
/// In the auxiliary vector: where the vDSO is.
const AT_SYSINFO_EHDR: u64 = 33;
/// The key by which a program ignores the entry.
const AT_IGNORE: u64 = 1;
/// A page.
const PAGE: u64 = 4096;

/// What the program gets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given {
    /// The segment with the image.
    pub(crate) code: i32,
    /// The segment with the shared data.
    pub(crate) data: i32,
    /// Whether the program is to find no vDSO, so that its clock reads are system calls.
    pub(crate) hide_vdso: bool,
}

/// Makes a stopped program prepare itself before its first instruction. The caller must let the program continue
/// afterwards, whatever the answer: if this fails, the program runs without interposition.
pub(crate) fn prepare(process: pid_t, given: Given) -> Result<(), Error> {
    let mut registers = registers(process)?;
    if registers.cs != USER_CODE {
        return Err(Error::new(io::ErrorKind::Unsupported, "it isn't a 64-bit program"));
    }
    let (entry, vdso) = vdso(process, registers.rsp)?;
    let code = instructions(given.code);
    let place = end_of_vdso(process, vdso, code.len() as u64)?;
    for (at, word) in (place..).step_by(8).zip(words(&code)) {
        write(process, at, word)?;
    }
    if given.hide_vdso {
        write(process, entry, AT_IGNORE)?;
    }
    registers.r15 = registers.rip;
    registers.r14 = u64::from(given.data.unsigned_abs());
    registers.r13 = u64::from(EXECVE);
    registers.rip = place;
    set_registers(process, &registers)
}

/// The number of the call that executes programs.
const EXECVE: u32 = 59;

/// `shmat(code, CODE, SHM_RDONLY | SHM_EXEC)`, then a jump to the image; if it fails, to the program's entry.
fn instructions(code: i32) -> Vec<u8> {
    let base = u32::try_from(CODE).unwrap_or_default();
    let init = u32::try_from(image::init()).unwrap_or_default();
    let mut text = Vec::with_capacity(64);
    text.extend([0xb8, 30, 0, 0, 0]); // mov $30, %eax
    text.push(0xbf); // mov $code, %edi
    text.extend(code.to_le_bytes());
    text.push(0xbe); // mov $CODE, %esi
    text.extend(base.to_le_bytes());
    text.push(0xba); // mov $READ_EXECUTE, %edx
    text.extend(READ_EXECUTE.to_le_bytes());
    text.extend([0x0f, 0x05]); // syscall
    text.extend([0x48, 0x3d]); // cmp $CODE, %rax
    text.extend(base.to_le_bytes());
    text.extend([0x75, 7]); // jne over the next two
    text.push(0xb8); // mov $init, %eax
    text.extend(init.to_le_bytes());
    text.extend([0xff, 0xe0]); // jmp *%rax
    // Sets the registers as the kernel leaves them, and jumps to the entry.
    text.extend([0x41, 0x57]); // push %r15
    text.extend([0x31, 0xc0, 0x31, 0xc9, 0x31, 0xd2, 0x31, 0xf6, 0x31, 0xff]); // eax ecx edx esi edi
    text.extend([0x45, 0x31, 0xdb, 0x45, 0x31, 0xed, 0x45, 0x31, 0xf6, 0x45, 0x31, 0xff]); // r11 r13 r14 r15
    text.push(0xc3); // ret
    text
}

/// Bytes as words, the last one filled with zeros.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks(8).map(|some| {
        let mut word = [0; 8];
        word[..some.len()].copy_from_slice(some);
        u64::from_le_bytes(word)
    })
}

/// The address of the vDSO's entry in the auxiliary vector, and the entry's value.
fn vdso(process: pid_t, stack: u64) -> Result<(u64, u64), Error> {
    let missing = || Error::new(io::ErrorKind::Unsupported, "it has no vDSO");
    // On the stack: the number of arguments; the arguments and the environment, each ended by a null pointer; pairs.
    let (mut at, mut nulls, mut key) = (stack + 8, 0, None);
    let mut above = [0; 4096];
    loop {
        let read = read(process, at, &mut above)? & !7;
        if read == 0 {
            return Err(missing());
        }
        for (place, word) in (at..).step_by(8).zip(words(&above[..read])) {
            match key {
                _ if nulls < 2 => nulls += u32::from(word == 0),
                None => key = Some(word),
                Some(AT_SYSINFO_EHDR) => return Ok((place - 8, word)),
                Some(0) => return Err(missing()),
                Some(_) => key = None,
            }
        }
        at += read as u64;
    }
}

/// Unused bytes at the end of the vDSO's code.
fn end_of_vdso(process: pid_t, vdso: u64, length: u64) -> Result<u64, Error> {
    let short = || Error::new(io::ErrorKind::Unsupported, "its vDSO has too little free space");
    // The section header table is at the end of the file: e_shoff, and e_shentsize times e_shnum.
    let mut header = [0; 64];
    if read(process, vdso, &mut header)? < header.len() {
        return Err(short());
    }
    let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let mut sections = [0; 8];
    sections.copy_from_slice(&header[40..48]);
    let end = u64::from_le_bytes(sections) + u64::from(word(58)) * u64::from(word(60));
    let length = length.next_multiple_of(8);
    let room = end.next_multiple_of(PAGE) - end;
    if end == 0 || end > 16 * PAGE || room < length + 16 {
        return Err(short());
    }
    let place = vdso + end.next_multiple_of(16);
    let mut there = vec![0; usize::try_from(length).unwrap_or_default()];
    let whole = read(process, place, &mut there)? == there.len();
    if !whole || there.iter().any(|byte| *byte != 0) { Err(short()) } else { Ok(place) }
}

/// Reads memory up to the first unmapped address.
fn read(process: pid_t, address: u64, to: &mut [u8]) -> Result<usize, Error> {
    Ok(palisade_sys::notify::read_memory(process.unsigned_abs(), address, to)?)
}

/// Writes a word, also where the program itself can't write. Opening its memory in `/proc` would take as long as all
/// writes that are made here.
fn write(process: pid_t, address: u64, word: u64) -> Result<(), Error> {
    let at = std::ptr::without_provenance_mut::<c_void>(usize::try_from(address).unwrap_or_default());
    let word = std::ptr::without_provenance_mut::<c_void>(usize::try_from(word).unwrap_or_default());
    // SAFETY: needed: only the kernel writes to another process's memory. Sound: POKEDATA takes address and word as numbers and
    // touches no memory of this process; for a process that isn't a stopped tracee the kernel answers ESRCH.
    let answer = unsafe { libc::ptrace(libc::PTRACE_POKEDATA, process, at, word) };
    if answer < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

fn registers(process: pid_t) -> Result<user_regs_struct, Error> {
    // SAFETY: needed: the structure has fields that no constructor names. Sound: all of them are numbers, for which zero is
    // valid.
    let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
    let place = (&raw mut registers).cast::<c_void>();
    // SAFETY: needed: only the kernel knows another process's registers. Sound: GETREGS writes one user_regs_struct to `place`,
    // which lives until the call returns; for a process that isn't a stopped tracee the kernel answers ESRCH.
    let answer =
        unsafe { libc::ptrace(libc::PTRACE_GETREGS, process, std::ptr::null_mut::<c_void>(), place) };
    if answer < 0 { Err(Error::last_os_error()) } else { Ok(registers) }
}

fn set_registers(process: pid_t, registers: &user_regs_struct) -> Result<(), Error> {
    let place = std::ptr::from_ref(registers).cast::<c_void>();
    // SAFETY: needed: only the kernel sets another process's registers. Sound: SETREGS reads one user_regs_struct from `place`,
    // which lives until the call returns.
    let answer =
        unsafe { libc::ptrace(libc::PTRACE_SETREGS, process, std::ptr::null_mut::<c_void>(), place) };
    if answer < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}
