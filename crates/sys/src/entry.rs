// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The first instructions of a static program: the kernel makes its writable pages present in one call.
//!
//! A position-independent program writes thousands of addresses into its data before it does anything else. Each of the 50 pages
//! of that data would cost a page fault (ADR 0009). `palisade`'s `build.rs` makes this the entry point.

// SAFETY: needed: the C library's first act is relocation, so code that runs before it can only be the program's
// entry point. There is no stack frame there, and no address in memory is right yet. Sound: only addresses relative
// to the program counter are used; `madvise` with MADV_POPULATE_WRITE changes no content, and its failure (a kernel
// older than 5.14) changes nothing; registers are as the kernel left them, except those that a program's entry may
// not rely on, and `rdx`, which is 0 for a static program.
#[cfg(all(target_arch = "x86_64", target_env = "musl", target_feature = "crt-static"))]
core::arch::global_asm!(
    ".section .text.palisade_entry,\"ax\",@progbits",
    ".globl palisade_entry",
    ".type palisade_entry,@function",
    "palisade_entry:",
    "lea rdi, [rip + __ehdr_start]",
    // A program that isn't position-independent has no relocations to write.
    "cmp word ptr [rdi + {TYPE}], {ET_DYN}",
    "jne 5f",
    "mov r8, [rdi + {PHOFF}]",
    "add r8, rdi",
    "movzx ecx, word ptr [rdi + {PHNUM}]",
    "2:",
    "cmp dword ptr [r8], {PT_LOAD}",
    "jne 3f",
    "test dword ptr [r8 + {FLAGS}], {PF_W}",
    "jnz 4f",
    "3:",
    "add r8, {PHENTSIZE}",
    "dec ecx",
    "jnz 2b",
    "jmp 5f",
    "4:",
    // From the page in which the segment begins to the end of its part in the file. The zeroed rest is used
    // gradually.
    "add rdi, [r8 + {VADDR}]",
    "mov rsi, [r8 + {FILESZ}]",
    "add rsi, rdi",
    "and rdi, -4096",
    "sub rsi, rdi",
    "mov edx, {POPULATE_WRITE}",
    "mov eax, {MADVISE}",
    "syscall",
    "5:",
    "xor edx, edx",
    "jmp _start",
    ".size palisade_entry, . - palisade_entry",
    ".hidden __ehdr_start",
    TYPE = const 16,
    ET_DYN = const 3,
    PHOFF = const 32,
    PHNUM = const 56,
    PHENTSIZE = const 56,
    PT_LOAD = const 1,
    FLAGS = const 4,
    PF_W = const 2,
    VADDR = const 16,
    FILESZ = const 32,
    POPULATE_WRITE = const 23,
    MADVISE = const libc::SYS_madvise,
);
