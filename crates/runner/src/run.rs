// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the tests, from the build to the report.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use palisade_acceptance::case::data_directory;
use palisade_acceptance::feature::{FOUND, Features};

use crate::base::Base;
use crate::job::{self, Ended, TestResult, Verdict};
use crate::listing;
use crate::options::RunRequest;
use crate::plan::{self, Job, LeftOut};
use crate::programs::{self, Program};
use crate::progress::Progress;
use crate::report::Report;
use crate::room::{Room, Work};
use crate::schedule::Schedule;
use crate::scratch;
use crate::slots::Slot;
use crate::suites::Suites;
use crate::times::Times;

/// Names a file to which a run adds each test that failed, with the reason.
pub(crate) const FAILURES: &str = "PALISADE_TEST_FAILURES";

/// The directory of the repository.
pub(crate) fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().and_then(Path::parent).unwrap_or(own).to_owned()
}

/// The directory where cargo builds, and where the last run's times and programs are recorded.
fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |path| root.join(path))
}

/// Paths that a run and its builds use, also if they are in a directory that gets a tmpfs.
fn needed(root: &Path, target: &Path) -> Vec<PathBuf> {
    let variables = ["HOME", "CARGO_HOME", "RUSTUP_HOME", "PALISADE_BIN"];
    let named = variables.iter().filter_map(std::env::var_os).map(PathBuf::from);
    let own = [std::env::current_exe(), std::env::current_dir()].into_iter().flatten();
    [root.to_owned(), target.to_owned()].into_iter().chain(named).chain(own).collect()
}

/// Runs tests. Returns whether all passed.
///
/// # Errors
/// What kept the run from beginning.
pub(crate) fn main(request: &RunRequest) -> Result<bool, Box<dyn Error>> {
    let (root, stop) = (root(), stops()?);
    let target = target(&root);
    std::fs::create_dir_all(&target)?;
    if scratch::is_private() {
        scratch::mount_public(&needed(&root, &target))?;
    }
    let kept = target.join("test-programs.json");
    let programs =
        if request.no_build { programs::again(&kept)? } else { programs::build(&request.crates, &kept)? };
    let programs: Vec<Program> = programs
        .into_iter()
        .filter(|program| request.crates.is_empty() || request.crates.contains(&program.package))
        .collect();
    let file = root.join("tests/suites.toml");
    let suites = Suites::read(&file)?;
    let base = Base::find(&root, std::env::var("PALISADE_BASE").ok().as_deref());
    let (variables, not_asked) = suites.variables(request.all, &base);
    let listed = listed(programs, &variables)?;
    if request.crates.is_empty() {
        suites.check(&file, &plan::names(&listed))?;
    }
    let (committed, last) = (root.join("tests/times.tsv"), target.join("test-times.tsv"));
    let mut times = Times::read(&committed, &last);
    let (jobs, mut left_out) = plan::jobs(&listed, request, &suites, &base, &times);
    if request.list {
        let mut names: Vec<&str> =
            jobs.iter().flat_map(|job| &job.tests).map(|test| test.name.as_str()).collect();
        names.sort_unstable();
        let _nobody_reads = writeln!(std::io::stdout(), "{}", names.join("\n"));
        return Ok(true);
    }
    if jobs.is_empty() {
        return Err("no test matches these names\nhint: ./x test --list".into());
    }
    if request.only.is_empty() && request.crates.is_empty() {
        left_out.extend(not_asked.into_iter().map(|why| LeftOut { tests: Vec::new(), why }));
    }
    let began = Instant::now();
    let room = Room::new(request.slots);
    let slots = (0..room.most()).map(Slot::new).collect::<Result<Vec<_>, _>>()?;
    let mut race = Race {
        room,
        slots: slots.into_iter().map(Arc::new).collect(),
        environment: environment(variables)?,
        verbose: request.verbose,
        stop,
        work: Work::begin(),
    };
    let (mut results, interrupted) = race.run(&jobs, &mut times);
    let repeated = if interrupted { Vec::new() } else { race.repeat(&jobs, &mut results, &mut times) };
    let worked = race.work.so_far();
    drop(race);
    // If only some of the cases run, their time is not that of the whole test.
    let some = ["PALISADE_ACCEPTANCE_LIST", "PALISADE_ACCEPTANCE_ONLY"];
    if some.iter().all(|variable| std::env::var_os(variable).is_none()) {
        // Failing to write the times doesn't affect this run.
        let _not_noted = std::fs::write(&last, times.text());
    }
    if std::env::var_os("PALISADE_TEST_TIMES").is_some_and(|word| word == "write") {
        std::fs::write(&committed, times.long_ones())?;
    }
    if interrupted {
        return Err("interrupted".into());
    }
    let results: Vec<TestResult> = results.into_values().collect();
    let report = Report {
        results: &results,
        repeated: &repeated,
        left_out: &left_out,
        no_base: no_base(request, &base),
        on_disk: scratch::is_disk_wanted(),
        took: began.elapsed(),
        worked,
    };
    let _nobody_reads = std::io::stdout().write_all(report.text().as_bytes());
    if let Some(path) = std::env::var_os(FAILURES) {
        let mut file = std::fs::File::options().append(true).create(true).open(path)?;
        file.write_all(report.failures().as_bytes())?;
    }
    Ok(report.failed().count() == 0)
}

/// Why the suites of the long run are part of an ordinary run, if the reason is that no base is known.
fn no_base<'a>(request: &RunRequest, base: &'a Base) -> Option<&'a str> {
    match base {
        Base::None(why) if !request.all && request.only.is_empty() && request.crates.is_empty() => {
            Some(why.as_str())
        }
        _ => None,
    }
}

/// Every program with its tests.
fn listed(
    programs: Vec<Program>,
    environment: &[(String, String)],
) -> Result<Vec<(Program, Vec<String>)>, listing::ListError> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = programs
            .into_iter()
            .map(|program| {
                scope.spawn(|| listing::tests(&program, environment).map(|tests| (program, tests)))
            })
            .collect();
        asked
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// The environment of every test. The features of the machine are probed once, here.
fn environment(mut variables: Vec<(String, String)>) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    variables.push((FOUND.to_owned(), Features::find(&data_directory())?.found()?));
    Ok(variables)
}

/// A flag that a signal sets to stop the run.
fn stops() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// How often the loop checks whether one more job may run.
const LOOK: Duration = Duration::from_millis(500);

/// Jobs that run beside each other.
struct Race {
    room: Room,
    slots: Vec<Arc<Slot>>,
    environment: Vec<(String, String)>,
    verbose: bool,
    stop: Arc<AtomicBool>,
    work: Work,
}

/// A job that has ended: its number, its slot, what came of it, and what it left running.
type Done = (usize, usize, std::io::Result<Ended>, Vec<String>);

impl Race {
    fn run(&mut self, jobs: &[Job], times: &mut Times) -> (BTreeMap<String, TestResult>, bool) {
        let total = jobs.iter().map(|job| job.tests.len()).sum();
        let mut progress = Progress::new(total, jobs.iter().map(|job| job.expected).sum());
        let needs = jobs.iter().map(|job| job.needs.clone()).collect();
        let mut schedule = Schedule::new(needs, self.room.now());
        let mut free: Vec<usize> = (0..self.slots.len()).rev().collect();
        let (tell, told) = channel();
        let mut results = BTreeMap::new();
        let stop = Arc::clone(&self.stop);
        let stopped = || stop.load(Ordering::Relaxed);
        // After a stop no job starts. The thread that waits for a running job ends it.
        while !(schedule.is_done() || stopped() && free.len() == self.slots.len()) {
            schedule.make_room(self.room.now());
            while let Some(slot) = free.pop() {
                if stopped() {
                    free.push(slot);
                    break;
                }
                let Some(number) = schedule.start() else {
                    free.push(slot);
                    break;
                };
                let job = &jobs[number];
                if job.needs.exclusive {
                    self.work.alone();
                }
                let name = job.tests.first().map(|test| test.name.clone()).unwrap_or_default();
                progress.started(number, name, job.expected);
                self.start(job.clone(), number, slot, tell.clone());
            }
            match told.recv_timeout(LOOK) {
                Ok((number, slot, ended, left)) => {
                    schedule.end(number);
                    free.push(slot);
                    self.note((number, slot, ended, left), &jobs[number], &mut progress, &mut results, times);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            progress.tell(false);
        }
        progress.end();
        (results, stopped())
    }

    fn start(&self, job: Job, number: usize, at: usize, tell: Sender<Done>) {
        let slot = Arc::clone(&self.slots[at]);
        let environment = self.environment.iter().cloned().chain(slot.environment()).collect();
        let stop = Arc::clone(&self.stop);
        std::thread::spawn(move || {
            let ended = job::run(&job, environment, &stop);
            let left = slot.clear();
            // The receiver is gone after an interruption.
            let _ = tell.send((number, at, ended, left));
        });
    }

    fn note(
        &self,
        (number, _, ended, left): Done,
        job: &Job,
        progress: &mut Progress,
        results: &mut BTreeMap<String, TestResult>,
        times: &mut Times,
    ) {
        let ended = ended.unwrap_or_else(|error| Ended {
            results: job
                .tests
                .iter()
                .map(|test| TestResult {
                    reason: error.to_string(),
                    ..TestResult::new(&test.name, Verdict::Failed, Duration::ZERO)
                })
                .collect(),
            output: String::new(),
            how: error.to_string(),
        });
        let bad = ended.results.iter().filter(|result| result.verdict == Verdict::Failed).count();
        progress.ended(number, job.tests.len(), bad, job.expected);
        if !left.is_empty() {
            let names: Vec<&str> = job.tests.iter().map(|test| test.name.as_str()).collect();
            progress.say(&format!("left running by {}: {}", names.join(" or "), left.join(", ")));
        }
        if bad > 0 {
            progress.say(&format!("{}\n({})", ended.output.trim_end(), ended.how));
        }
        for result in ended.results {
            match result.verdict {
                Verdict::Failed => progress.say(&format!("FAILED       {}", result.name)),
                Verdict::NotDecided => progress.say(&format!("not decided  {}: {}", result.name, ended.how)),
                Verdict::Passed if self.verbose => {
                    let busy = result.busy.unwrap_or_default().as_secs_f64();
                    let took = result.took.as_secs_f64();
                    progress.say(&format!("ok {took:7.1} s {busy:7.1} s {}", result.name));
                }
                Verdict::Passed | Verdict::Ignored => {}
            }
            if result.verdict == Verdict::Passed {
                times.note(&result.name, result.took.as_secs_f64());
            }
            results.insert(result.name.clone(), result);
        }
    }

    /// Repeats the tests that ran out of time, one after the other. Returns the names of those that pass then.
    fn repeat(
        &mut self,
        jobs: &[Job],
        results: &mut BTreeMap<String, TestResult>,
        times: &mut Times,
    ) -> Vec<String> {
        let undecided = |name: &str| results.get(name).is_some_and(|one| one.verdict == Verdict::NotDecided);
        let again: Vec<Job> = jobs
            .iter()
            .flat_map(|job| job.tests.iter().map(move |test| (job, test)))
            .filter(|(_, test)| undecided(&test.name))
            .map(|(job, test)| Job { tests: vec![test.clone()], ..job.clone() })
            .collect();
        if again.is_empty() {
            return Vec::new();
        }
        self.slots.truncate(1);
        self.room = Room::new(Some(1));
        let (second, _) = self.run(&again, times);
        let passed = second.values().filter(|one| one.verdict == Verdict::Passed);
        let passed = passed.map(|one| one.name.clone()).collect();
        results.extend(second);
        passed
    }
}
