// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `syscalls`: what a system call costs: native, behind filters, answered from outside, and under other tools.

use crate::bench::{Bench, BenchError};
use crate::suite::Suite;
use crate::summary::Report;
use crate::syscalls::scenarios;

/// Notes for the reader.
const NOTES: [&str; 3] = [
    "a figure is the time of one call, measured by the caller over many; what the calls returned was seen in every round",
    "filter …: a filter that the caller loaded itself; palisade: in `palisade run`, the launch not counted",
    "one processor: caller, broker and launcher kept to one by taskset",
];

/// System calls.
#[derive(Debug)]
pub(crate) struct Syscalls;

impl Suite for Syscalls {
    fn name(&self) -> &'static str {
        "syscalls"
    }

    fn about(&self) -> &'static str {
        "Time of a system call, filtered, judged and answered, beside other tools"
    }

    fn run(&self, bench: &mut Bench) -> Result<Report, BenchError> {
        let mut missing = Vec::new();
        scenarios::all(bench, &mut missing)?;
        bench.report(missing, &NOTES)
    }
}
