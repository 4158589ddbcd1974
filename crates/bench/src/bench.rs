// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run of the bench: what suites have in common.

use std::io::{self, Write};

use crate::agents::AgentsError;
use crate::entry::Entry;
use crate::environment::{self, Environment};
use crate::filter::Filter;
use crate::guard::GuardError;
use crate::interleave::{Contender, Pace, Series, interleave};
use crate::launch::{Invocation, LaunchError, Launched, Launcher};
use crate::options::Measure;
use crate::profiles::ProfilesError;
use crate::proof::{Isolation, Proof, ProofError};
use crate::random::Random;
use crate::scopes::ScopesError;
use crate::session::{Session, SessionError};
use crate::suite::{gap, rounds};
use crate::summary::Table;
use crate::syscalls::SyscallsError;
use crate::workload::{Failure, Workload, first_line};

/// Rounds that are run and verified but not counted: caches fill, the clock speeds up.
const WARM_UP: usize = 3;

/// What ends a run of the bench.
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
}

impl BenchError {
    /// True if a signal ended it.
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
        )
    }
}

/// Everything that a suite needs.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) options: Measure,
    pub(crate) seed: u64,
    pub(crate) filter: Filter,
    pub(crate) environment: Environment,
    pub(crate) launcher: Launcher,
    pub(crate) session: Session,
    pub(crate) random: Random,
}

/// An entry that was seen to do what it claims, or the reason why it is not measured.
pub(crate) struct Proven {
    pub(crate) entry: Entry,
    pub(crate) proof: Result<Isolation, Failure>,
}

impl Bench {
    pub(crate) fn prepare(options: Measure) -> Result<Self, BenchError> {
        let seed = options.seed_or_clock();
        // Before the session's own files change the load and the caches.
        let environment = Environment::read();
        let session = Session::create(options.directory.as_deref())?;
        let launcher = Launcher::new(session.scratch(), options.limit(), session.stop())?;
        let filter = Filter::new(options.filter.as_deref());
        Ok(Self { seed, filter, environment, launcher, session, random: Random::new(seed), options })
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

    /// Measures one workload in all entries that passed their proof; the others become failed rows. The first two are the baselines.
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
                })
            })
            .collect();
        self.say(&format!("{}: {} rounds of {} launchers", workload.name, pace.rounds, contenders.len()));
        let mut measured = interleave(&contenders, &pace, &self.launcher, &mut self.random)?.into_iter();
        let series: Vec<Series> = entries
            .iter()
            .zip(&invocations)
            .filter_map(|(proven, invocation)| match &proven.proof {
                Ok(_) => measured.next(),
                Err(failure) => {
                    Some(Series::refused(&proven.entry.name, invocation.display(), failure.clone()))
                }
            })
            .collect();
        self.environment.memory_floor_byte = environment::own_peak();
        Ok(Table::summarise(workload.name, pace.rounds, pace.burst, series, &mut self.random))
    }

    /// Progress, in words, to stderr: once per workload, because a terminal that redraws takes part in what is measured.
    pub(crate) fn say(&self, words: &str) {
        // Nobody listening is no reason to stop measuring.
        let _ = writeln!(io::stderr(), "{words}");
    }
}
