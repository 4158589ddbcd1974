// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `gate`: does anything cost more than before?

use std::path::PathBuf;

use crate::bench::{Bench, BenchError};
use crate::gate::baseline::{self, Baseline, Finding};
use crate::gate::earlier::Build;
use crate::gate::{GateError, keys, launch, pairs};
use crate::suite::{More, Suite};
use crate::summary::{Report, Table};

/// Notes for the reader.
const NOTES: [&str; 3] = [
    "system calls: of launcher, builder, init and stub up to the command's first instruction, without those that wait; the fewest of 12 launches with a plan kept; exact on a host like the baseline's",
    "instructions: of the launcher alone, one by one (PTRACE_SINGLESTEP), in user mode, addresses not random",
    "keys: through this program's own copy of the shell's modules, with echo and ghost text",
];

/// Counts and times, compared with earlier ones.
#[derive(Debug)]
pub(crate) struct Gate;

impl Suite for Gate {
    fn name(&self) -> &'static str {
        "gate"
    }

    fn about(&self) -> &'static str {
        "Counts beside the committed baseline, times beside an earlier commit (exit code 1 if anything costs more)"
    }

    fn more(&self) -> More {
        More::Gate
    }

    fn run(&self, bench: &mut Bench) -> Result<Report, BenchError> {
        let options = bench.options.gate.clone();
        let repository = options.repository.clone().unwrap_or_else(|| PathBuf::from("."));
        let palisade = launch::palisade(bench.options.binary.as_deref())?;
        let build = Build::of(&palisade, options.profile.as_deref(), &repository);
        let mut passes = true;
        if !options.no_counts {
            let path = options.baseline.clone().unwrap_or_else(|| repository.join("bench/gate.json"));
            bench.say(&format!("counting what {} does, profile {}", palisade.display(), build.profile));
            let profile = Some(build.profile.as_str()).filter(|_| !options.skip_instructions);
            let allocated = keys::allocated(Vec::new())?;
            let now = launch::Stage::prepare(bench, &palisade)?.count(profile)?;
            let mut kept = match Baseline::read(&path) {
                Err(GateError::Read { source, .. })
                    if options.renew && source.kind() == std::io::ErrorKind::NotFound =>
                {
                    Baseline::empty()
                }
                kept => kept?,
            };
            if options.renew {
                kept.renew(allocated, now.clone());
                kept.write(&path)?;
                bench.say(&format!("{} has the current counts", path.display()));
            }
            let findings = kept.compare(&path, allocated, &now)?;
            passes &= !findings.iter().any(Finding::is_worse);
            let mut table = Table::summarise("counts", 1, 1, Vec::new(), &mut bench.random);
            table.sections.push(baseline::section(&findings));
            bench.keep(table)?;
        }
        let earlier = match (&options.earlier, &options.against) {
            (Some(path), _) => Some(pairs::program(path)?),
            (None, Some(commit)) => {
                bench.say(&format!("building {commit}, profile {}", build.profile));
                Some(build.commit(&repository, commit)?)
            }
            (None, None) => None,
        };
        if let Some(earlier) = earlier {
            let most = 1.0 + options.allow / 100.0;
            let raced = pairs::race(bench, &palisade, &earlier, most)?;
            passes &= raced.slower == Some(false);
            bench.keep(raced.table)?;
        }
        Ok(Report { answer: Some(passes), ..bench.report(Vec::new(), &NOTES)? })
    }
}
