// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the time from the start of an application to its first window, outside and inside.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::ProfilesError;
use crate::interleave::{Raced, Sample, Series};
use crate::launch::Invocation;
use crate::programs;
use crate::random::Random;
use crate::workload::{Failure, first_line};

/// The pause between two checks.
const LOOK: Duration = Duration::from_millis(10);
/// How long an application may take to end.
const GRACE: Duration = Duration::from_secs(5);
/// The number of pairs.
pub(crate) const ROUNDS: usize = 5;

/// The window's title to search for: `window` of `[launch]` in the profile's text as `profile show` prints it.
pub(crate) fn window_of(profile: &str) -> Option<String> {
    let launch = profile.lines().skip_while(|line| line.trim() != "[launch]").skip(1);
    let mut keys = launch.take_while(|line| !line.starts_with('['));
    keys.find_map(|line| {
        let (key, value) = line.split_once('=')?;
        let value = value.trim().strip_prefix('"')?.strip_suffix('"')?;
        (key.trim() == "window").then(|| value.to_owned())
    })
}

/// An X server that the bench starts.
#[derive(Debug)]
pub(crate) struct Display {
    server: Child,
    /// `:N`.
    pub(crate) name: String,
}

impl Display {
    /// Starts a server on a free display, whose name the server reports.
    pub(crate) fn start() -> Result<Self, ProfilesError> {
        let program = programs::on_path("Xvfb").ok_or(ProfilesError::Missing { program: "Xvfb" })?;
        programs::on_path("xdotool").ok_or(ProfilesError::Missing { program: "xdotool" })?;
        let failed = |source| ProfilesError::Prepare { path: program.clone(), source };
        let mut server = Command::new(&program)
            // Without `-noreset` the server would reset after its last client leaves, which is after every check.
            .args(["-displayfd", "1", "-screen", "0", "1280x800x24", "-nolisten", "tcp", "-noreset"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let mut line = String::new();
        let read = match server.stdout.take() {
            Some(output) => BufReader::new(output).read_line(&mut line),
            None => Ok(0),
        };
        let display = Self { server, name: format!(":{}", line.trim()) };
        match read {
            Ok(_) if !line.trim().is_empty() => Ok(display),
            Ok(_) => Err(failed(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(failed(error)),
        }
    }

    /// Whether there is a window with this text in its title.
    fn shows(&self, title: &str) -> Result<bool, Failure> {
        let status = Command::new("xdotool")
            .args(["search", "--onlyvisible", "--name", title])
            .env("DISPLAY", &self.name)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(|error| Failure::NotStarted { why: format!("xdotool: {error}") })?;
        match status.code() {
            Some(0) => Ok(true),
            // There is none.
            Some(1) => Ok(false),
            _ => Err(Failure::Proof { why: format!("xdotool: {status}") }),
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        // It may have ended by itself. In both cases it is reaped.
        let _ = kill_process(Pid::from_child(&self.server), Signal::TERM);
        let _ = self.server.wait();
    }
}

/// The starts of one application.
pub(crate) struct Race<'a> {
    pub(crate) display: &'a Display,
    pub(crate) title: &'a str,
    pub(crate) limit: Duration,
    pub(crate) scratch: &'a Path,
    pub(crate) stop: &'a AtomicBool,
}

impl Race<'_> {
    /// Starts each once per round, in random order, after one round that isn't counted.
    pub(crate) fn run(
        &self,
        starts: &[(String, Invocation)],
        random: &mut Random,
    ) -> Result<Raced, ProfilesError> {
        let mut series: Vec<Series> =
            starts.iter().map(|(name, start)| Series::begun(name, start.display())).collect();
        let mut order: Vec<usize> = (0..starts.len()).collect();
        for round in 0..=ROUNDS {
            random.shuffle(&mut order);
            for &index in &order {
                if !series[index].failed.is_empty() {
                    continue;
                }
                let outcome = self.start(&starts[index].1)?;
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(Raced { series, stopped: true });
                }
                let series = &mut series[index];
                match (round.checked_sub(1), outcome) {
                    (_, Err(failure)) => {
                        series.failed.push(failure);
                        series.failed_at_start = round == 0;
                    }
                    (None, Ok(_)) => {}
                    (Some(round), Ok(time)) => series.samples.push(Sample {
                        round,
                        wall: time.as_secs_f64(),
                        user: 0.0,
                        system: 0.0,
                        max_rss: 0,
                        exit_code: 0,
                    }),
                }
            }
        }
        Ok(Raced { series, stopped: false })
    }

    /// Starts the application once. It has ended when this returns.
    fn start(&self, invocation: &Invocation) -> Result<Result<Duration, Failure>, ProfilesError> {
        let path = self.scratch.join("window-stderr");
        let prepare = |source| ProfilesError::Prepare { path: path.clone(), source };
        let errors = File::create(&path).map_err(prepare)?;
        let begun = Instant::now();
        let started = Command::new(invocation.program())
            .args(invocation.argv.iter().skip(1))
            .current_dir(&invocation.directory)
            .envs(invocation.variables.iter().map(|(name, value)| (name, value)))
            .env("DISPLAY", &self.display.name)
            .env_remove("WAYLAND_DISPLAY")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .process_group(0)
            .spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(error) => return Ok(Err(Failure::NotStarted { why: error.to_string() })),
        };
        let seen = self.wait_for_window(&mut child, begun);
        end(&mut child).map_err(prepare)?;
        Ok(match seen {
            Err(Failure::Exit { code, .. }) => {
                let said = first_line(&std::fs::read(&path).map_err(prepare)?);
                Err(Failure::Exit { code, said })
            }
            seen => self.wait_until_gone().and(seen),
        })
    }

    fn wait_for_window(&self, child: &mut Child, begun: Instant) -> Result<Duration, Failure> {
        loop {
            if self.display.shows(self.title)? {
                return Ok(begun.elapsed());
            }
            if let Ok(Some(status)) = child.try_wait() {
                return Err(Failure::Exit { code: code(status), said: String::new() });
            }
            if begun.elapsed() > self.limit || self.stop.load(Ordering::Relaxed) {
                return Err(Failure::TimedOut);
            }
            sleep(LOOK);
        }
    }

    /// Waits until the window is gone: the next start must not find it.
    fn wait_until_gone(&self) -> Result<(), Failure> {
        let begun = Instant::now();
        while self.display.shows(self.title)? {
            if begun.elapsed() > GRACE {
                return Err(Failure::Proof { why: "its window stayed after its end".to_owned() });
            }
            sleep(LOOK);
        }
        Ok(())
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Ends a child and its process group. The bench made the group, and the child isn't reaped yet.
fn end(child: &mut Child) -> io::Result<()> {
    let group = Pid::from_child(child);
    if child.try_wait()?.is_some() {
        return Ok(());
    }
    for signal in [Signal::TERM, Signal::KILL] {
        // The group may be gone already.
        let _ = kill_process_group(group, signal);
        let asked = Instant::now();
        while asked.elapsed() < GRACE {
            if child.try_wait()?.is_some() {
                return Ok(());
            }
            sleep(LOOK);
        }
    }
    child.wait().map(|_status| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_is_that_of_the_launch() {
        let text =
            "name = \"x\"\nwindow = \"no\"\n\n[launch]\npackage = \"x\"\nwindow = \"Okular\"\n\n[home]\n";
        assert_eq!(window_of(text).as_deref(), Some("Okular"));
        assert_eq!(window_of("[launch]\noutput = \"x\"\n[home]\nwindow = \"x\"\n"), None);
    }

    #[test]
    fn what_was_started_ends() {
        let mut child = Command::new("/bin/sleep").arg("60").process_group(0).spawn().unwrap();
        end(&mut child).unwrap();
        assert_eq!(child.try_wait().unwrap().map(code), Some(128 + 15));
    }
}
