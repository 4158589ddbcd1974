// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run of the bench: the state and functions that all suites share.

use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::agents::AgentsError;
use crate::entry::{Entry, Missing};
use crate::environment::{self, Environment};
use crate::filter::Filter;
use crate::guard::GuardError;
use crate::interleave::{Contender, Pace, Series, interleave};
use crate::launch::{Invocation, LaunchError, Launched, Launcher};
use crate::options::Measure;
use crate::output::{Output, OutputError};
use crate::profiles::ProfilesError;
use crate::proof::{Isolation, Proof, ProofError};
use crate::random::Random;
use crate::scopes::ScopesError;
use crate::session::{Session, SessionError};
use crate::suite::{gap, rounds};
use crate::summary::{Report, Table};

use crate::syscalls::SyscallsError;
use crate::workload::{Failure, Workload, first_line};

/// Rounds that are run and verified but not counted: in these, caches fill and the clock speeds up.
const WARM_UP: usize = 3;

/// How often the rounds of an incomplete table are written.
const BETWEEN_WRITES: Duration = Duration::from_secs(5);

/// Why a run of the bench stops.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Proof(#[from] ProofError),
    #[error("nothing matches `--filter {pattern}`")]
    NothingMatches { pattern: String },
    #[error(transparent)]
    Profiles(#[from] ProfilesError),
    #[error(transparent)]
    Agents(#[from] AgentsError),
    #[error(transparent)]
    Guard(#[from] GuardError),
    #[error(transparent)]
    Scopes(#[from] ScopesError),
    #[error(transparent)]
    Syscalls(#[from] SyscallsError),
    #[error(transparent)]
    Shell(#[from] crate::shell::ShellError),
    #[error("no workload can be run: {reasons}")]
    NoWorkload { reasons: String },
    #[error(transparent)]
    Gate(#[from] crate::gate::GateError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl BenchError {
    /// Whether a signal ended the run.
    pub(crate) fn is_stop(&self) -> bool {
        matches!(
            self,
            Self::Launch(LaunchError::Stopped)
                | Self::Proof(ProofError::Launch(LaunchError::Stopped))
                | Self::Profiles(ProfilesError::Launch(LaunchError::Stopped))
                | Self::Agents(AgentsError::Launch(LaunchError::Stopped))
                | Self::Guard(GuardError::Launch(LaunchError::Stopped))
                | Self::Scopes(ScopesError::Launch(LaunchError::Stopped))
                | Self::Syscalls(SyscallsError::Launch(LaunchError::Stopped))
                | Self::Gate(crate::gate::GateError::Launch(LaunchError::Stopped))
        )
    }
}

/// Everything that a suite needs.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) options: Measure,
    pub(crate) filter: Filter,
    pub(crate) environment: Environment,
    pub(crate) launcher: Launcher,
    pub(crate) session: Session,
    pub(crate) random: Random,
    suite: &'static str,
    output: Output,
    /// The tables that are complete, or that existed when a signal arrived.
    tables: Vec<Table>,
    written: Instant,
}

/// An entry that passed its proof, or the reason why it isn't measured.
pub(crate) struct Proven {
    pub(crate) entry: Entry,
    pub(crate) proof: Result<Isolation, Failure>,
}

impl Bench {
    pub(crate) fn prepare(suite: &'static str, options: Measure) -> Result<Self, BenchError> {
        let seed = options.seed_or_clock();
        // Read the environment before the session's own files change the load and the caches.
        let environment = Environment::read();
        let session = Session::create(options.directory.as_deref())?;
        let launcher = Launcher::new(session.scratch(), options.limit(), session.stop())?;
        let filter = Filter::new(options.filter.as_deref());
        let output = Output::new(&options, suite, seed, &environment);
        let (random, tables, written) = (Random::new(seed), Vec::new(), Instant::now());
        Ok(Self { filter, environment, launcher, session, random, suite, output, tables, written, options })
    }

    /// Adds a complete table, and writes all results so far to the requested files.
    pub(crate) fn keep(&mut self, table: Table) -> Result<(), BenchError> {
        self.tables.push(table);
        self.write_so_far()
    }

    /// Whether a signal has arrived.
    pub(crate) fn is_stopped(&self) -> bool {
        self.session.stop().load(Ordering::Relaxed)
    }

    /// The number of tables so far.
    pub(crate) fn kept(&self) -> usize {
        self.tables.len()
    }

    /// Removes and returns all tables from this one on. The caller adds to them and keeps them again.
    pub(crate) fn take_from(&mut self, first: usize) -> Vec<Table> {
        self.tables.split_off(first.min(self.tables.len()))
    }

    /// Adds a table whose measurement was interrupted by a signal, if it has any sample.
    pub(crate) fn take_begun(&mut self, mut table: Table) {
        let rounds = table.rows.iter().map(|row| row.series.samples.len()).max().unwrap_or(0);
        if rounds > 0 {
            table.rounds = rounds;
            self.tables.push(table);
        }
    }

    /// As [`Bench::take_begun`], and ends the suite.
    pub(crate) fn keep_begun(&mut self, table: Table) -> Result<Infallible, BenchError> {
        self.take_begun(table);
        Err(LaunchError::Stopped.into())
    }

    /// Called between rounds: from time to time, also writes the incomplete tables. `begun` summarises them with a separate
    /// random generator, so that the run's own generator isn't affected.
    pub(crate) fn between_rounds(
        &mut self,
        begun: impl FnOnce(&mut Random) -> Vec<Table>,
    ) -> Result<(), BenchError> {
        if !self.output.has_files() || self.written.elapsed() < BETWEEN_WRITES {
            return Ok(());
        }
        let complete = self.tables.len();
        self.tables.extend(begun(&mut self.random.clone()));
        let written = self.write_so_far();
        self.tables.truncate(complete);
        written
    }

    fn write_so_far(&mut self) -> Result<(), BenchError> {
        if self.output.has_files() {
            let report =
                Report { interrupted: true, ..Report::of(self.suite, std::mem::take(&mut self.tables)) };
            let written = self.output.write(&report, &self.environment);
            self.tables = report.tables;
            self.written = Instant::now();
            written?;
        }
        Ok(())
    }

    /// The report of a suite that is complete.
    pub(crate) fn report(
        &mut self,
        missing: Vec<Missing>,
        notes: &'static [&'static str],
    ) -> Result<Report, BenchError> {
        match &self.options.filter {
            Some(pattern) if self.tables.is_empty() => {
                Err(BenchError::NothingMatches { pattern: pattern.clone() })
            }
            _ => {
                let tables = std::mem::take(&mut self.tables);
                Ok(Report { missing, notes, ..Report::of(self.suite, tables) })
            }
        }
    }

    /// The report when a signal has arrived.
    pub(crate) fn interrupted(&mut self) -> Report {
        let tables = std::mem::take(&mut self.tables);
        Report { interrupted: true, ..Report::of(self.suite, tables) }
    }

    pub(crate) fn output(&self) -> &Output {
        &self.output
    }

    /// Runs the proof in each entry and records each launcher's version.
    pub(crate) fn prove(&mut self, entries: Vec<Entry>) -> Result<Vec<Proven>, BenchError> {
        let mut proof = Proof::prepare(&self.session, Random::new(self.random.next()))?;
        let mut proven = Vec::with_capacity(entries.len());
        for entry in entries {
            self.record_version(&entry)?;
            let outcome = proof.check(&entry, &self.session, &self.launcher)?;
            proven.push(Proven { entry, proof: outcome });
        }
        Ok(proven)
    }

    pub(crate) fn record_version(&mut self, entry: &Entry) -> Result<(), BenchError> {
        if entry.version.is_empty() {
            return Ok(());
        }
        let argv = entry.version.iter().map(Into::into).collect();
        if let Launched::Ended(run) =
            self.launcher.run(&Invocation { argv, directory: self.session.work(), variables: Vec::new() })?
        {
            let words = if run.stdout.is_empty() { first_line(&run.stderr) } else { first_line(&run.stdout) };
            self.environment.versions.insert(entry.name.clone(), words);
        }
        Ok(())
    }

    /// Measures one workload in all entries that passed their proof. The others become failed rows. The first two are the
    /// baselines.
    pub(crate) fn measure(&mut self, workload: &Workload, entries: &[&Proven]) -> Result<Table, BenchError> {
        let pace = Pace {
            rounds: rounds(self.options.rounds(), workload.rounds_divisor),
            warm_up: WARM_UP,
            gap: gap(self.options.gap),
            burst: self.options.back_to_back.unwrap_or(1),
        };
        let invocations: Vec<Invocation> = entries
            .iter()
            .map(|proven| self.session.invocation(&proven.entry.template, &workload.command))
            .collect::<Result<_, SessionError>>()?;
        let contenders: Vec<Contender> = entries
            .iter()
            .zip(&invocations)
            .filter_map(|(proven, invocation)| {
                let isolation = proven.proof.as_ref().ok()?.words();
                let name = proven.entry.name.clone();
                Some(Contender {
                    name,
                    invocation: invocation.clone(),
                    check: workload.check.clone(),
                    isolation,
                    peer: proven.entry.peer,
                })
            })
            .collect();
        self.say(&format!("{}: {} rounds of {} launchers", workload.name, pace.rounds, contenders.len()));
        let raced = interleave(self, workload.name, &contenders, &pace)?;
        let (stopped, mut measured) = (raced.stopped, raced.series.into_iter());
        let series: Vec<Series> = entries
            .iter()
            .zip(&invocations)
            .filter_map(|(proven, invocation)| match &proven.proof {
                Ok(_) => measured.next(),
                Err(failure) => {
                    let refused = Series::refused(&proven.entry.name, invocation.display(), failure.clone());
                    Some(refused.of_peer(proven.entry.peer))
                }
            })
            .collect();
        self.environment.memory_floor_byte = environment::own_peak();
        let table = Table::summarise(workload.name, pace.rounds, pace.burst, series, &mut self.random);
        if stopped {
            match self.keep_begun(table)? {}
        }
        Ok(table)
    }

    /// Prints progress to stderr, once per workload: a terminal that redraws would affect the measurement.
    pub(crate) fn say(&self, words: &str) {
        // If stderr is closed, measuring goes on.
        let _ = writeln!(io::stderr(), "{words}");
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::options::tests::measure;
    use std::path::Path;

    pub(crate) fn bench(directory: &Path) -> Bench {
        let directory = directory.to_str().unwrap();
        Bench::prepare("aa", measure(&["aa", "--directory", directory, "--seed", "3"])).unwrap()
    }
}
