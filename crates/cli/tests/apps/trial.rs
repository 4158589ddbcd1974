// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tries one application: its profile lets it do its job, and keeps everything else from it.

use super::catalogue::Application;
use super::display::Display;
use super::picture::{Area, Picture};
use super::sample;
use super::session::{Job, Session};
use super::shown::Shown;
use crate::support::job;
use palisade_acceptance::patience::Patience;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a window may take: ten times what the slowest needs (gimp, which asks 150 plug-ins at its first start).
const WINDOW: Duration = Duration::from_secs(60);
/// How long a job without a window may take.
const END: Duration = Duration::from_secs(60);
/// How much of a sample has to be seen: what the smallest of them, a picture of 32 by 32 points, has.
const SEEN: usize = 1000;

/// The result of a trial.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    /// It had to be killed.
    pub(crate) stubborn: bool,
    /// Why it didn't do its job.
    pub(crate) failure: Option<String>,
    /// How many ways out were refused that are open without the sandbox; or which wasn't.
    pub(crate) refused: Option<Result<usize, String>>,
    /// What of the host is shown.
    pub(crate) shown: Option<Shown>,
    /// Milliseconds until there was a plan, the first time.
    pub(crate) cold: Option<f64>,
    /// And once it was kept.
    pub(crate) hot: Option<f64>,
    /// Milliseconds until the first window was there, with the time for a plan.
    pub(crate) window: Option<f64>,
}

impl Trial {
    /// Whether all is well.
    pub(crate) fn worked(&self) -> bool {
        self.failure.is_none() && matches!(self.refused, Some(Ok(_)))
    }
}

/// Opens an application, looks whether it works, and tries to get out of its sandbox.
pub(crate) fn of(application: &Application) -> Trial {
    let mut trial = Trial::default();
    if !application.installed {
        let package = application.launch.package.as_deref().unwrap_or("its package");
        trial.failure = Some(format!("isn't here: apt-get install {package}, or ./x test apps"));
        return trial;
    }
    let result = Session::begin(!application.launch.offscreen)
        .and_then(|session| Attempt { session: &session, application }.all(&mut trial));
    trial.failure = result.err();
    trial
}

struct Attempt<'a> {
    session: &'a Session,
    application: &'a Application,
}

impl Attempt<'_> {
    fn all(&self, trial: &mut Trial) -> Result<(), String> {
        let arguments = &self.application.launch.arguments;
        let arguments: Vec<String> =
            arguments.iter().map(|one| sample::fill(one, &self.session.place)).collect::<Result<_, _>>()?;
        let program = self.plan(trial)?;
        self.job(&arguments, trial)?;
        trial.refused = Some(self.escape(&program));
        trial.hot = self.again(&arguments, trial.cold)?;
        self.session.assert_empty()
    }

    fn open(&self, options: &[&str], arguments: &[String]) -> Vec<String> {
        let mut line = vec!["open".to_owned()];
        line.extend(options.iter().map(|option| (*option).to_owned()));
        line.push(self.application.name.to_owned());
        line.extend(arguments.iter().cloned());
        line
    }

    /// Looks at the plan; returns the program.
    fn plan(&self, trial: &mut Trial) -> Result<PathBuf, String> {
        let begun = Instant::now();
        let mut command = self.session.command(self.session.place.binary());
        let run = job::finish(command.args(self.open(&["--dry-run", "--json"], &[])));
        trial.cold = Some(begun.elapsed().as_secs_f64() * 1000.0);
        if run.code != 0 {
            return Err(format!("there is no plan: {}", run.err.trim()));
        }
        let plan: serde_json::Value = serde_json::from_str(&run.out).map_err(|error| error.to_string())?;
        trial.shown = Shown::of(&plan, &self.session.place.home);
        plan["command"][0].as_str().map(PathBuf::from).ok_or_else(|| "a plan has a command".to_owned())
    }

    /// Has the application do its job.
    fn job(&self, arguments: &[String], trial: &mut Trial) -> Result<(), String> {
        let launch = &self.application.launch;
        let mut job = self.session.start(&self.open(&[], arguments), launch.input.as_deref());
        let done = match &launch.window {
            Some(window) => self.window(&mut job, window, trial),
            None => self.end(&mut job),
        };
        done.and_then(|()| self.session.assert_empty()).map_err(|error| {
            let complaint = job.complaint();
            if complaint.is_empty() { error } else { format!("{error}; it said:\n    {complaint}") }
        })
    }

    fn window(&self, job: &mut Job, window: &str, trial: &mut Trial) -> Result<(), String> {
        let Some(display) = &self.session.display else {
            return Err("a window, without a display: `offscreen` is wrong".to_owned());
        };
        let begun = Instant::now();
        let seen = comes(job, || !display.shown(window).is_empty());
        trial.window = Some(begun.elapsed().as_secs_f64() * 1000.0);
        let drawn = seen && comes(job, || self.draws(display, window));
        self.keep_picture(display);
        if let Some(code) = job.ended() {
            return Err(format!("it ended with {code}; it printed {:?}", tail(&job.out())));
        }
        let titles = display.titles();
        trial.stubborn = !job.terminate();
        match (seen, drawn) {
            (true, true) => Ok(()),
            (true, false) => Err(format!("a window “{window}”, but what it is to show isn't seen")),
            (false, _) => Err(format!("no window “{window}”, but {titles:?}")),
        }
    }

    /// Whether the sample is seen on the screen; without one that is seen, whether anything is drawn in the window.
    fn draws(&self, display: &Display, window: &str) -> bool {
        let screen = display.screen();
        let picture = |area: &Area| Picture::read(&screen, area).unwrap();
        if self.application.launch.arguments.iter().any(|one| sample::is_coloured(one)) {
            return picture(&Area::ALL).points_of(sample::COLOUR) >= SEEN;
        }
        display.shown(window).iter().any(|area| picture(area).colours() > 1)
    }

    /// For a person to look at.
    fn keep_picture(&self, display: &Display) {
        if let Some(directory) = std::env::var_os("PALISADE_APPS_PICTURES") {
            let file = PathBuf::from(directory).join(format!("{}.xwd", self.application.name));
            std::fs::write(file, display.screen()).unwrap();
        }
    }

    fn end(&self, job: &mut Job) -> Result<(), String> {
        let launch = &self.application.launch;
        let Some(code) = job.end_within(END) else {
            job.terminate();
            return Err(format!("it goes on after {END:?}; it printed {:?}", tail(&job.out())));
        };
        let out = job.out();
        if code != i32::from(launch.exit) {
            return Err(format!("it ended with {code}; it printed {:?}", tail(&out)));
        }
        match &launch.output {
            // What programs say of themselves (`--version`) some say on standard error.
            Some(part) if !out.contains(part) && !job.complaint().contains(part) => {
                Err(format!("it didn't print {part:?} but {:?}", tail(&out)))
            }
            _ => Ok(()),
        }
    }

    /// Opens it again, for the time that its kept plan takes.
    fn again(&self, arguments: &[String], cold: Option<f64>) -> Result<Option<f64>, String> {
        let line = self.open(&["--timings"], arguments);
        let mut planned = None;
        // A plan from files that were just made isn't kept, and the job has made some in the home.
        for _attempt in 0..4 {
            let mut job = self.session.start(&line, self.application.launch.input.as_deref());
            // The timings are printed when the command ends, so kill the command: some applications ignore a request to end.
            while job.end_within(Duration::from_millis(20)).is_none() && !job.kill_command() {}
            let _ended = job.end_within(Duration::from_secs(2)).is_some() || job.terminate();
            self.session.assert_empty()?;
            planned = planned_in(&job.complaint());
            if planned.is_some() && planned < cold.map(|cold| cold / 4.0) {
                break;
            }
        }
        Ok(planned)
    }

    /// Runs a line of shell by the application's profile; the program is there, too, with what belongs to it.
    fn shell(&self, program: &Path, line: &str) -> job::Run {
        let program = program.to_string_lossy();
        let line = self.open(&["--shell", "--with", &program], &["-c".to_owned(), line.to_owned()]);
        job::finish(self.session.command(self.session.place.binary()).args(line))
    }

    /// Tries to reach what the application isn't given, by a shell in its place.
    fn escape(&self, program: &Path) -> Result<usize, String> {
        let ways = Ways::prepare(self.session);
        let outside = job::finish(self.session.command("/bin/sh").args(["-c", &ways.line]));
        let open = ways.open(&outside.out);
        if open.len() != ways.words.len() {
            return Err(format!("outside only {open:?} are open: {outside:?}"));
        }
        let inside = self.shell(program, &ways.line);
        if !inside.out.contains("tried everything") {
            return Err(format!("the shell inside didn't get to the end: {inside:?}"));
        }
        match ways.open(&inside.out).as_slice() {
            [] => Ok(ways.words.len()),
            open => Err(format!("not refused: {}", open.join(", "))),
        }
    }
}

/// Ways out of a sandbox.
struct Ways {
    /// Tries all of them.
    line: String,
    /// What is printed where one is open.
    words: Vec<String>,
    planted: PathBuf,
    elsewhere: tempfile::TempDir,
}

impl Ways {
    fn prepare(session: &Session) -> Self {
        let place = &session.place;
        let secret = place.write("secret.txt", "secret-of-the-home\n");
        let key = place.write(".ssh/id_x", "secret-of-ssh\n");
        let elsewhere = tempfile::tempdir_in("/var/tmp").unwrap();
        crate::support::give(place, elsewhere.path());
        let other = elsewhere.path().join("other");
        std::fs::write(&other, "secret-of-elsewhere\n").unwrap();
        crate::support::give(place, &other);
        let planted = place.home.join("planted");
        // By what is built into a shell, so that no program has to be there.
        let mut line = String::new();
        for path in [&secret, &key, &other] {
            line.push_str(&format!("read -r word <'{}' && echo \"$word\"\n", path.display()));
        }
        line.push_str(&format!("echo planted >'{}'\n", planted.display()));
        // This test itself is a process of the host's.
        let own = std::fs::read_to_string("/proc/self/comm").unwrap();
        line.push_str(
            "for name in /proc/[0-9]*/comm; do read -r word <\"$name\"; echo \"process $word\"; done\n",
        );
        line.push_str("echo tried everything\n");
        let words = ["secret-of-the-home", "secret-of-ssh", "secret-of-elsewhere"].map(str::to_owned);
        let mut words = words.to_vec();
        words.push(format!("process {}", own.trim_end()));
        words.push("planted".to_owned());
        Self { line, words, planted, elsewhere }
    }

    /// Which were open.
    fn open(&self, printed: &str) -> Vec<String> {
        assert!(self.elsewhere.path().exists());
        let planted = std::fs::remove_file(&self.planted).is_ok();
        let seen =
            |word: &&String| printed.lines().any(|line| line == **word) || (planted && *word == "planted");
        self.words.iter().filter(seen).cloned().collect()
    }
}

/// Waits until `condition` holds; false if it takes too long, or the job ends.
fn comes(job: &mut Job, condition: impl Fn() -> bool) -> bool {
    let mut patience = Patience::new(WINDOW);
    loop {
        if condition() {
            return true;
        }
        if patience.is_spent() || job.ended().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The milliseconds that `--timings` gives for planning.
fn planned_in(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.split_once("launch  plan "))?;
    line.1.split_once(" ms")?.0.parse().ok()
}

fn tail(text: &str) -> String {
    let text = text.trim();
    let skip = text.chars().count().saturating_sub(300);
    text.chars().skip(skip).collect()
}
