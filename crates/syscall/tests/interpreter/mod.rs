// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs classic BPF as the kernel does. Written from the kernel's documentation, not from the compiler's source.
#![allow(dead_code, reason = "each test file uses a part of it")]

use palisade_syscall::{Call, Instruction};

/// A filter's result for one call, and its cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) verdict: u32,
    pub(crate) steps: usize,
    /// The 32-bit words of `struct seccomp_data` that were loaded, one bit for each.
    words: u16,
}

impl Run {
    /// The offsets in `struct seccomp_data` that were loaded.
    pub(crate) fn offsets(&self) -> Vec<usize> {
        (0..16).filter(|word| self.words & 1 << word != 0).map(|word| 4 * word).collect()
    }
}

/// Panics on a program that the kernel's checker would refuse.
#[expect(clippy::cast_possible_truncation, reason = "an argument's halves are meant")]
pub(crate) fn run(program: &[Instruction], call: &Call) -> Run {
    // `struct seccomp_data`, little endian.
    let mut data = [0xeeee_eeee; 16];
    (data[0], data[1]) = (call.number, call.audit_arch);
    for (halves, argument) in data[4..].chunks_mut(2).zip(call.arguments) {
        halves.copy_from_slice(&[argument as u32, (argument >> 32) as u32]);
    }

    let (mut at, mut loaded, mut steps, mut words) = (0, None, 0, 0);
    loop {
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        steps += 1;
        let holds = match (code, loaded) {
            (0x20, _) => {
                let offset = k as usize;
                assert!(offset.is_multiple_of(4) && offset < 64, "load at {offset}");
                assert!(!(8..16).contains(&offset), "reads the instruction pointer");
                words |= 1 << (offset / 4);
                loaded = Some(data[offset / 4]);
                continue;
            }
            (0x05, _) => {
                at += k as usize;
                continue;
            }
            // Only libseccomp's programs use masks and greater-than comparisons.
            (0x54, Some(value)) => {
                loaded = Some(value & k);
                continue;
            }
            (0x06, _) => return Run { verdict: k, steps, words },
            (0x15, Some(value)) => value == k,
            (0x25, Some(value)) => value > k,
            (0x35, Some(value)) => value >= k,
            (0x45, Some(value)) => value & k != 0,
            other => panic!("code and loaded value {other:x?}"),
        };
        at += usize::from(if holds { jt } else { jf });
    }
}
