// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One round: all units of a suite in a fresh copy of its tree, outside or inside.

use super::outcome::Outcomes;
use super::store;
use super::suite::Suite;
use crate::support::{Place, eventually, job};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    Outside,
    Inside,
}

/// A suite in a place: the working directory is its tree, at the same path in each round.
pub(super) struct Rounds<'a> {
    suite: &'a Suite,
    tree: &'a Path,
    place: &'a Place,
    /// Where what the units print is kept.
    pub(super) printed: PathBuf,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(suite: &'a Suite, tree: &'a Path, place: &'a Place) -> Self {
        let printed = store::directory_of(&suite.name).join("printed");
        let _none_yet = std::fs::remove_dir_all(&printed);
        std::fs::create_dir_all(&printed).unwrap();
        Self { suite, tree, place, printed }
    }

    /// The names of the units.
    pub(super) fn units(&self) -> Vec<String> {
        self.renew();
        self.place.outside(&self.suite.units).lines().map(str::to_owned).collect()
    }

    /// A fresh copy of the tree, with nothing that an earlier round has left.
    fn renew(&self) {
        self.end_all();
        let work = &self.place.work;
        // What a test has made unreadable for its user must go, too.
        let mut remove = self.place.command("/bin/sh");
        remove.args(["-c", "chmod -R u+rwX . 2>/dev/null; true"]);
        job::finish(&mut remove).ok();
        std::fs::remove_dir_all(work).unwrap_or_else(|error| panic!("{}: {error}", work.display()));
        job::finish(Command::new("cp").arg("-a").args([self.tree, work.as_path()])).ok();
        let owner = format!("{}:{}", self.place.uid, self.place.gid);
        job::finish(Command::new("chown").args(["-Rh", &owner]).arg(work)).ok();
    }

    /// Ends what tests have left running.
    fn end_all(&self) {
        let ended = eventually(|| {
            let living = self.place.living();
            for process in &living {
                let pid = process.split(' ').next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
                let _gone = pid.map(|pid| kill_process(pid, Signal::KILL));
            }
            living.is_empty()
        });
        assert!(ended, "left behind: {:?}", self.place.living());
    }

    /// Runs some units, `jobs` of them at a time, and returns the outcomes of their tests.
    pub(super) fn run(&self, side: Where, units: &[String], jobs: usize) -> Outcomes {
        self.renew();
        let next = AtomicUsize::new(0);
        let outcomes = Mutex::new(Outcomes::new());
        let work = || {
            while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
                let came = self.unit(side, unit);
                outcomes.lock().unwrap().extend(came);
            }
        };
        std::thread::scope(|scope| {
            for _job in 0..jobs {
                scope.spawn(work);
            }
        });
        self.end_all();
        outcomes.into_inner().unwrap()
    }

    /// One unit. Its limit grows with the machine's load.
    fn unit(&self, side: Where, unit: &str) -> Outcomes {
        let shell = ["/bin/sh", "-c", &self.suite.run, "unit", unit];
        let mut command = match side {
            Where::Outside => self.place.command(shell[0]),
            Where::Inside => self.place.palisade(&[], &shell[..1]),
        };
        command.args(&shell[1..]);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let text = Arc::new(Mutex::new(Vec::new()));
        let readers = [
            collect(child.stdout.take().unwrap(), Arc::clone(&text)),
            collect(child.stderr.take().unwrap(), Arc::clone(&text)),
        ];
        let code = self.finish(&mut child);
        // What still holds the output is ended after the round; it isn't waited for.
        eventually_within(Duration::from_secs(2), || {
            readers.iter().all(std::thread::JoinHandle::is_finished)
        });
        let text = String::from_utf8_lossy(&text.lock().unwrap()).into_owned();
        let side = if side == Where::Inside { "inside" } else { "outside" };
        let file = self.printed.join(format!("{}.{side}", unit.replace('/', "_")));
        std::fs::write(file, format!("{text}\nexit code: {code}\n")).unwrap();
        self.suite.format.read(unit, code, &text)
    }

    /// Waits until the limit; then the group is killed.
    fn finish(&self, child: &mut Child) -> i32 {
        let limit = Duration::from_secs(self.suite.limit);
        if let Some(status) = palisade_acceptance::process::wait(child, limit).unwrap() {
            return job::code(status);
        }
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
        let _gone = rustix::process::kill_process_group(group, Signal::KILL);
        let _reaped = child.wait();
        -128
    }
}

fn eventually_within(limit: Duration, condition: impl FnMut() -> bool) {
    let _held = palisade_acceptance::patience::eventually(limit, condition);
}

/// Reads to the end, however late that comes. A test prints whole lines, so two streams can be one text.
fn collect(mut stream: impl Read + Send + 'static, text: Arc<Mutex<Vec<u8>>>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 1 << 16];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            text.lock().unwrap().extend_from_slice(&buffer[..length]);
        }
    })
}
