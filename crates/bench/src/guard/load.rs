// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program that runs on a bed: `palisade-bench load …`, started by the bench. It prints what it measured as `NAME VALUE`,
//! in seconds.

use std::ffi::CString;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use palisade_sys::timed;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{Pid, Signal, WaitOptions, set_parent_process_death_signal, waitpid};
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_setaffinity};

use super::bed::{Sort, refused};
use super::home::Job;
use super::{elf, fapolicyd};
use crate::statistics::median;
use crate::workload::first_line;

/// The number of operations between two reads of the clock.
const STRIDE: usize = 64;

/// Work on a bed; the bench starts it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Load {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand, Clone, Debug)]
enum Task {
    /// Execute programs, one after the other
    Exec {
        #[command(flatten)]
        place: Place,
        #[arg(long)]
        sort: Sort,
        #[arg(long)]
        from: usize,
        #[arg(long)]
        count: usize,
        /// The first one each time
        #[arg(long)]
        same: bool,
    },
    /// Open and close files, one after the other
    Open {
        #[command(flatten)]
        place: Place,
        #[arg(long)]
        sort: Sort,
        #[arg(long)]
        from: usize,
        #[arg(long)]
        count: usize,
        /// For so many seconds, again and again
        #[arg(long)]
        window: Option<f64>,
    },
    /// Do what a user does at home
    Home {
        #[command(flatten)]
        place: Place,
        #[arg(long)]
        job: Job,
    },
    /// Execute a program that ends when the bench does
    Tether {
        /// In a view of the host in which fapolicyd sees one bed
        #[arg(long)]
        view: Option<PathBuf>,
        #[arg(trailing_var_arg = true, required = true)]
        command: Vec<String>,
    },
}

/// Where it runs, and what must be true there.
#[derive(Args, Clone, Debug)]
struct Place {
    #[arg(long)]
    bed: PathBuf,
    /// Only there
    #[arg(long)]
    core: Option<usize>,
    /// In the mount namespace of that process
    #[arg(long)]
    enter: Option<u32>,
    /// What every policy denies is refused
    #[arg(long)]
    enforced: bool,
}

/// Why a load fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("can't {what}")]
    Prepare { what: &'static str, source: io::Error },
    #[error("can't execute {}", path.display())]
    Execute { path: PathBuf, source: io::Error },
    #[error("{} failed", path.display())]
    Failed { path: PathBuf },
    #[error("{job}: {said}")]
    Job { job: &'static str, said: String },
    #[error("can't open {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("{} was {}", path.display(), if *wanted { "allowed, but the policy denies it" } else { "refused without a policy" })]
    Effect { path: PathBuf, wanted: bool },
}

fn prepare(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> LoadError {
    move |errno| LoadError::Prepare { what, source: errno.into() }
}

impl Load {
    pub(crate) fn run(&self) -> Result<(), LoadError> {
        match &self.task {
            Task::Exec { place, sort, from, count, same } => {
                let path = |number| sort.file(&place.bed, if *same { *from } else { from + number });
                exec(place, *sort, (0..*count).map(path).collect())
            }
            Task::Open { place, sort, from, count, window } => {
                let paths = (*from..from + count).map(|number| sort.file(&place.bed, number)).collect();
                open(place, paths, window.map(Duration::from_secs_f64))
            }
            Task::Home { place, job } => at_home(place, *job),
            Task::Tether { view, command } => tether(view.as_deref(), command),
        }
    }
}

fn c_string(path: &Path) -> Result<CString, LoadError> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|error| LoadError::Prepare { what: "name a file", source: error.into() })
}

/// The original standard output, for the results; and the reading end of a pipe whose writing end is now standard output.
struct Clocks {
    said: OwnedFd,
    told: File,
}

impl Clocks {
    fn take() -> Result<Self, LoadError> {
        let said =
            rustix::io::fcntl_dupfd_cloexec(io::stdout().as_fd(), 3).map_err(prepare("keep a descriptor"))?;
        let (told, tell) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(prepare("make a pipe"))?;
        rustix::stdio::dup2_stdout(&tell).map_err(prepare("use a pipe"))?;
        Ok(Self { said, told: told.into() })
    }
}

fn exec(place: &Place, sort: Sort, paths: Vec<PathBuf>) -> Result<(), LoadError> {
    let mut clocks = Clocks::take()?;
    place.take()?;
    place.prove(&mut clocks)?;
    let programs: Vec<CString> = paths.iter().map(|path| c_string(path)).collect::<Result<_, _>>()?;
    let mut seconds = Vec::with_capacity(programs.len());
    let start = Instant::now();
    for (program, path) in programs.iter().zip(&paths) {
        let executed = timed::execute(program)
            .map_err(|errno| LoadError::Execute { path: path.clone(), source: errno.into() })?;
        if !ended_well(executed.pid)? {
            return Err(LoadError::Failed { path: path.clone() });
        }
        if sort == Sort::Clocks {
            seconds.push(clocks.began(path)?.saturating_sub(executed.before).as_secs_f64());
        }
    }
    let each = start.elapsed().as_secs_f64() / programs.len().max(1) as f64;
    let mut text = format!("each {each:.9}\n");
    if let Some(call) = median(&seconds) {
        text += &format!("call {call:.9}\n");
    }
    say(&clocks.said, &text)
}

impl Clocks {
    fn began(&mut self, path: &Path) -> Result<Duration, LoadError> {
        let mut said = [0; elf::SAID];
        let read = self.told.read_exact(&mut said);
        read.ok().and_then(|()| elf::clock(said)).ok_or_else(|| LoadError::Failed { path: path.to_owned() })
    }
}

fn ended_well(pid: Pid) -> Result<bool, LoadError> {
    loop {
        match waitpid(Some(pid), WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            other => {
                let ended = other.map_err(prepare("wait for a program"))?;
                return Ok(ended.is_some_and(|(_pid, status)| status.exit_status() == Some(0)));
            }
        }
    }
}

fn open(place: &Place, paths: Vec<PathBuf>, window: Option<Duration>) -> Result<(), LoadError> {
    let mut clocks = Clocks::take()?;
    place.take()?;
    place.prove(&mut clocks)?;
    let files: Vec<CString> = paths.iter().map(|path| c_string(path)).collect::<Result<_, _>>()?;
    let look = |number: usize| match openat(
        CWD,
        files[number].as_c_str(),
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        Ok(file) => {
            drop(black_box(file));
            Ok(())
        }
        Err(errno) => Err(LoadError::Open { path: paths[number].clone(), source: errno.into() }),
    };
    let mut opened = 0;
    let start = Instant::now();
    match window {
        None => {
            for number in 0..files.len() {
                look(number)?;
            }
            opened = files.len();
        }
        Some(window) => {
            while start.elapsed() < window {
                for _ in 0..STRIDE {
                    look(opened % files.len())?;
                    opened += 1;
                }
            }
        }
    }
    let each = start.elapsed().as_secs_f64() / opened.max(1) as f64;
    say(&clocks.said, &format!("each {each:.12}\n"))
}

/// Does the job from a clean state.
fn at_home(place: &Place, job: Job) -> Result<(), LoadError> {
    let mut clocks = Clocks::take()?;
    place.take()?;
    place.prove(&mut clocks)?;
    job.clear(&place.bed)
        .map_err(|source| LoadError::Prepare { what: "remove what was made before", source })?;
    let mut command = job.command(&place.bed);
    let failed = |said: String| LoadError::Job { job: job.word(), said };
    let before = work();
    let start = Instant::now();
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    let each = start.elapsed().as_secs_f64();
    let work = work() - before;
    if !output.status.success() || !job.is_done(&place.bed) {
        return Err(failed(format!("{}: {}", output.status, first_line(&output.stderr))));
    }
    say(&clocks.said, &format!("each {each:.9}\nwork {work:.9}\n"))
}

/// The processor time, in seconds, of all processes for which this process has waited.
fn work() -> f64 {
    let used = palisade_sys::usage::of_children();
    (used.user + used.system).as_secs_f64()
}

fn say(to: &OwnedFd, text: &str) -> Result<(), LoadError> {
    let said = to.try_clone().map(File::from).and_then(|mut file| file.write_all(text.as_bytes()));
    said.map_err(|source| LoadError::Prepare { what: "say what was measured", source })
}

impl Place {
    fn take(&self) -> Result<(), LoadError> {
        if let Some(pid) = self.enter {
            let namespace = File::open(format!("/proc/{pid}/ns/mnt"))
                .map_err(|source| LoadError::Prepare { what: "open a mount namespace", source })?;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))
                .map_err(prepare("enter a mount namespace"))?;
        }
        if let Some(core) = self.core {
            let mut cores = CpuSet::new();
            cores.set(core);
            sched_setaffinity(None, &cores).map_err(prepare("keep to one core"))?;
        }
        Ok(())
    }

    /// Proves the guard before anything is measured: a denied file must be refused if `enforced`, and must be allowed
    /// otherwise.
    fn prove(&self, clocks: &mut Clocks) -> Result<(), LoadError> {
        let [program, text] = refused(&self.bed);
        let wanted = self.enforced;
        let executed = match timed::execute(c_string(&program)?.as_c_str()) {
            Ok(executed) => {
                if !ended_well(executed.pid)? {
                    return Err(LoadError::Failed { path: program });
                }
                clocks.began(&program)?;
                true
            }
            Err(rustix::io::Errno::PERM) => false,
            Err(errno) => return Err(LoadError::Execute { path: program, source: errno.into() }),
        };
        if executed == wanted {
            return Err(LoadError::Effect { path: program, wanted });
        }
        match File::open(&text) {
            Ok(_) if !wanted => Ok(()),
            Err(error) if wanted && error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            Ok(_) | Err(_) => Err(LoadError::Effect { path: text, wanted }),
        }
    }
}

fn tether(view: Option<&Path>, command: &[String]) -> Result<(), LoadError> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(prepare("end with the bench"))?;
    if let Some(bed) = view {
        fapolicyd::enter_view(bed)?;
    }
    let [program, arguments @ ..] = command else { return Ok(()) };
    let source = Command::new(program).args(arguments).exec();
    Err(LoadError::Execute { path: program.into(), source })
}
