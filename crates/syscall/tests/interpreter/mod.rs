// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs classic BPF as the kernel does, by the kernel's documentation and not by the compiler's source.

use palisade_syscall::{Call, Instruction};

/// What a filter said of one call, and what it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) verdict: u32,
    pub(crate) steps: usize,
    pub(crate) reads_arguments: bool,
}

/// Panics on anything that the kernel's checker would refuse.
pub(crate) fn run(program: &[Instruction], call: &Call) -> Run {
    let mut data = Vec::new();
    data.extend(call.number.to_le_bytes());
    data.extend(call.audit_arch.to_le_bytes());
    data.extend([0xee; 8]); // instruction pointer
    data.extend(call.arguments.iter().flat_map(|argument| argument.to_le_bytes()));

    let (mut at, mut loaded, mut steps, mut reads_arguments) = (0usize, None, 0, false);
    loop {
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        steps += 1;
        let mut branch = |holds: &dyn Fn(u32) -> bool| {
            at += usize::from(if holds(loaded.unwrap()) { jt } else { jf });
        };
        match code {
            0x20 => {
                let offset = k as usize;
                assert!(offset.is_multiple_of(4) && offset < 64, "load at {offset}");
                assert!(!(8..16).contains(&offset), "reads the instruction pointer");
                reads_arguments |= offset >= 16;
                loaded = Some(u32::from_le_bytes(data[offset..offset + 4].try_into().unwrap()));
            }
            0x05 => at += k as usize,
            0x15 => branch(&|value| value == k),
            0x35 => branch(&|value| value >= k),
            0x45 => branch(&|value| value & k != 0),
            0x06 => {
                return Run { verdict: k, steps, reads_arguments };
            }
            other => panic!("code {other:#x}"),
        }
    }
}
