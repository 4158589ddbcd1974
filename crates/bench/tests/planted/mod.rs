// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts code in front of a program's first instruction, in a copy of its file. The code is appended to the file, and it is
//! loaded in place of a program header that is not needed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const PAGE: u64 = 4096;
const LOAD: u32 = 1;
const NOTE: u32 = 4;
/// `PT_GNU_EH_FRAME` is for unwinding. A program that aborts on a panic never needs it.
const FRAMES: u32 = 0x6474_e550;
const READ_AND_EXECUTE: u32 = 5;

/// `stat("/")`, into free memory.
pub(crate) fn stat() -> Vec<u8> {
    let mut code = vec![0x48, 0x81, 0xec, 0x00, 0x01, 0x00, 0x00]; // sub rsp, 256
    code.extend([0x6a, b'/']); // push '/': the path, which a zero ends
    code.extend([0x48, 0x89, 0xe7]); // mov rdi, rsp
    code.extend([0x48, 0x8d, 0x74, 0x24, 0x10]); // lea rsi, [rsp+16]
    code.extend([0xb8, 0x04, 0x00, 0x00, 0x00]); // mov eax, SYS_stat
    code.extend([0x0f, 0x05]); // syscall
    code.extend([0x48, 0x81, 0xc4, 0x08, 0x01, 0x00, 0x00]); // add rsp, 264
    code
}

/// This many instructions.
pub(crate) fn instructions(count: u32) -> Vec<u8> {
    let mut code = vec![0xb9]; // mov ecx, count / 2
    code.extend((count / 2).max(1).to_le_bytes());
    code.extend([0xff, 0xc9]); // dec ecx
    code.extend([0x75, 0xfc]); // jnz, to that
    code
}

fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    bytes[at..at + size].iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

fn put(bytes: &mut [u8], at: usize, size: usize, value: u64) {
    bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
}

/// Makes a copy of `program` at `planted` that runs `code` first. The code may change everything that a C library's start
/// code ignores: so not rdx, and the stack must be unchanged at its end.
pub(crate) fn plant(program: &Path, planted: &Path, code: &[u8]) {
    let mut bytes = fs::read(program).unwrap();
    assert_eq!((&bytes[..5], number(&bytes, 18, 2)), (&b"\x7fELF\x02"[..], 62), "an x86-64 program");
    let (entry, begin) = (number(&bytes, 24, 8), usize::try_from(number(&bytes, 32, 8)).unwrap());
    let [size, count] = [54, 56].map(|at| usize::try_from(number(&bytes, at, 2)).unwrap());
    let header = |index: usize| begin + index * size;
    let kind = |bytes: &[u8], index: usize| u32::try_from(number(bytes, header(index), 4)).unwrap();
    let end = (0..count)
        .filter(|&index| kind(&bytes, index) == LOAD)
        .map(|index| number(&bytes, header(index) + 16, 8) + number(&bytes, header(index) + 40, 8))
        .max()
        .unwrap();
    let free = [NOTE, FRAMES]
        .iter()
        .find_map(|wanted| (0..count).rfind(|&index| kind(&bytes, index) == *wanted))
        .unwrap_or_else(|| panic!("{}: no header that nobody needs", program.display()));
    bytes.resize(bytes.len().next_multiple_of(usize::try_from(PAGE).unwrap()), 0);
    let (offset, address) = (bytes.len() as u64, end.next_multiple_of(PAGE) + PAGE);
    let mut whole = code.to_vec();
    whole.push(0xe9); // jmp, to where it began before
    let from = address + whole.len() as u64 + 4;
    whole.extend(i32::try_from(entry.cast_signed() - from.cast_signed()).unwrap().to_le_bytes());
    let at = header(free);
    put(&mut bytes, at, 4, u64::from(LOAD));
    put(&mut bytes, at + 4, 4, u64::from(READ_AND_EXECUTE));
    for (place, value) in [(8, offset), (16, address), (24, address), (48, PAGE)] {
        put(&mut bytes, at + place, 8, value);
    }
    for place in [32, 40] {
        put(&mut bytes, at + place, 8, whole.len() as u64);
    }
    put(&mut bytes, 24, 8, address);
    bytes.extend(&whole);
    fs::write(planted, bytes).unwrap();
    fs::set_permissions(planted, PermissionsExt::from_mode(0o755)).unwrap();
}
