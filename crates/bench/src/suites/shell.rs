// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `shell`: what `palisade shell` adds to a key and to a line of output.

use crate::bench::{Bench, BenchError};
use crate::entry::Missing;
use crate::shell::{operations, roundtrip, throughput};
use crate::suite::Suite;
use crate::summary::Report;

/// Notes for the reader.
const NOTES: [&str; 3] = [
    "operations: mean of as many as take 2 ms, in this process; allocations are counted in all of them",
    "pty_roundtrip: from the write of a key to the read of its echo; bash alone, behind the proxy and behind a relay that only reads and writes in turns, each at its prompt, hooks, history and guard on; a row is the median of 20 keys a round",
    "pty_throughput: from Enter to the end of 32 MiB of coloured text that cat prints, read from the terminal's other end; bash alone, behind the proxy and behind a relay that only reads and writes in turns, every run's length and exit code checked",
];

/// The suite for the shell proxy.
#[derive(Debug)]
pub(crate) struct Shell;

impl Suite for Shell {
    fn name(&self) -> &'static str {
        "shell"
    }

    fn about(&self) -> &'static str {
        "Keys, lines and output on their way through palisade shell"
    }

    fn run(&self, bench: &mut Bench) -> Result<Report, BenchError> {
        let rounds = bench.options.rounds();
        let mut missing = Vec::new();
        for name in operations::names() {
            if bench.filter.accepts(name, name) {
                bench.say(&format!("{name}: {rounds} rounds"));
                if let Some(table) = operations::measure(bench, name, rounds)? {
                    bench.keep(table)?;
                }
            }
        }
        let wanted = [roundtrip::NAME, throughput::NAME]
            .map(|name| bench.filter.accepts(name, "palisade shell").then_some(name));
        let beside = || std::env::current_exe().ok().map(|own| own.with_file_name("palisade"));
        let palisade = bench.options.binary.clone().or_else(beside).filter(|path| path.is_file());
        for name in wanted.into_iter().flatten() {
            let Some(palisade) = &palisade else {
                missing.push(Missing {
                    name: format!("palisade shell in {name}"),
                    how: "build it with `cargo build --release -p palisade-cli`, or name one with --binary PATH"
                        .to_owned(),
                });
                continue;
            };
            let table = if name == roundtrip::NAME {
                bench.say(&format!("{name}: {rounds} rounds of 4 terminals"));
                roundtrip::measure(bench, palisade, rounds)?
            } else {
                let rounds = crate::suite::rounds(rounds, throughput::DIVISOR);
                bench.say(&format!("{name}: {rounds} rounds of 5 terminals"));
                throughput::measure(bench, palisade, rounds)?
            };
            bench.keep(table)?;
        }
        bench.report(missing, &NOTES)
    }
}
