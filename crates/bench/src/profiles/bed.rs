// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One profile, ready to be measured: a trivial program in it, homes with and without a kept plan, and the files for `ldd`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use super::closure::Shown;
use super::home::Home;
use super::race::{Plans, Reading, Runner};
use super::{ProfilesError, Unready};
use crate::launch::{Invocation, Launched, Launcher, Run};
use crate::programs;
use crate::session::Session;
use crate::workload::{Check, Failure};

/// The number of launches until a plan must have been kept, and the pause between them.
const TRIES: usize = 10;
const PAUSE: Duration = Duration::from_millis(50);

/// What every bed needs.
#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) palisade: PathBuf,
    /// The trivial program, and a program that must fail.
    pub(crate) yes: PathBuf,
    no: PathBuf,
    pub(crate) ldd: PathBuf,
    pub(crate) antimony: Option<PathBuf>,
    pub(crate) work: PathBuf,
}

impl Tools {
    pub(crate) fn find(named: Option<&Path>, session: &Session) -> Result<Self, ProfilesError> {
        let program = |program| programs::of_the_system(program).ok_or(ProfilesError::Missing { program });
        Ok(Self {
            palisade: programs::palisade(named).ok_or(ProfilesError::NoPalisade)?,
            yes: program("true")?,
            no: program("false")?,
            ldd: program("ldd")?,
            antimony: programs::on_path("antimony"),
            work: session.work(),
        })
    }

    /// `palisade WORDS…` in a home.
    pub(crate) fn palisade(&self, home: &Home, words: &[&str]) -> Invocation {
        let argv: Vec<&OsStr> =
            std::iter::once(self.palisade.as_os_str()).chain(words.iter().map(OsStr::new)).collect();
        home.invocation(&argv, &self.work)
    }

    /// The trivial program without a sandbox, twice.
    pub(crate) fn baselines(&self, home: &Home) -> [Runner<'static>; 2] {
        ["true", "true again (A/A)"].map(|name| Runner {
            name: name.to_owned(),
            invocations: vec![home.invocation(&[self.yes.as_os_str()], &self.work)],
            plans: Plans::Unused,
            reading: Reading::Wall,
            peer: false,
        })
    }
}

/// Runs a command that must succeed before anything is measured.
pub(crate) fn done(launcher: &Launcher, invocation: &Invocation, code: i32) -> Result<Run, Unready> {
    let failed = |failure| Unready::Failed { command: invocation.display(), failure };
    match launcher.run(invocation)? {
        Launched::NotStarted(why) => Err(failed(Failure::NotStarted { why })),
        Launched::Ended(run) if code != 0 && run.code() == code => Ok(run),
        Launched::Ended(run) => match Check::Success.verify(&run) {
            Ok(()) if code == 0 => Ok(run),
            Ok(()) => Err(failed(Failure::Proof { why: format!("it ended with 0, not with {code}") })),
            Err(failure) => Err(failed(failure)),
        },
    }
}

/// Launches the profile until its plan is kept. Palisade keeps no plan if its inputs changed meanwhile, and the profile is
/// new.
pub(crate) fn keep(launcher: &Launcher, tools: &Tools, home: &Home, profile: &str) -> Result<(), Unready> {
    let invocation = tools.palisade(home, &["open", "--quiet", profile]);
    let before = home.kept()?;
    for _ in 0..TRIES {
        done(launcher, &invocation, 0)?;
        if home.kept()?.len() > before.len() {
            return Ok(());
        }
        sleep(PAUSE);
    }
    let why = format!("no plan is kept, after {TRIES} launches");
    Err(Unready::Failed { command: invocation.display(), failure: Failure::Proof { why } })
}

/// A profile that is ready to be measured.
#[derive(Debug)]
pub(crate) struct Bed {
    pub(crate) name: String,
    pub(crate) hot: Home,
    cold: Home,
    /// The profile's own program.
    pub(crate) program: Option<String>,
    /// The number of paths that the trivial program's sandbox shows.
    pub(crate) shown: usize,
    /// The files for `ldd`.
    pub(crate) files: Vec<PathBuf>,
    /// A remark about these files for the report.
    pub(crate) remark: Option<String>,
}

impl Bed {
    pub(crate) fn prepare(
        name: &str,
        tools: &Tools,
        scratch: &Path,
        launcher: &Launcher,
    ) -> Result<Self, Unready> {
        let hot = Home::create(scratch.join(format!("hot-{name}")), None)?;
        let cold = Home::create(scratch.join(format!("cold-{name}")), None)?;
        let plan = |profile: &str| -> Result<Shown, Unready> {
            let invocation = tools.palisade(&cold, &["open", "--dry-run", "--json", profile]);
            let run = done(launcher, &invocation, 0)?;
            Shown::parse(&run.stdout).ok_or_else(|| Unready::Failed {
                command: invocation.display(),
                failure: Failure::Proof { why: "its output isn't a plan, or is too long".to_owned() },
            })
        };
        let shown = plan(name)?;
        for home in [&hot, &cold] {
            let program = shown.program.as_deref();
            home.profile(&trivial(name), &profile(&trivial(name), name, &tools.yes, program))?;
            home.profile(&failing(name), &profile(&failing(name), name, &tools.no, program))?;
        }
        // If its exit code arrives, the program was run.
        done(launcher, &tools.palisade(&cold, &["open", "--quiet", &failing(name)]), 1)?;
        keep(launcher, tools, &hot, &trivial(name))?;
        let (files, more) = shown.elf_files();
        let all = files.len();
        let mut resolved = Vec::with_capacity(all);
        for file in files {
            match launcher.run(&tools.ldd(&cold, &file))? {
                Launched::Ended(run) if run.status.success() => resolved.push(file),
                _ => {}
            }
        }
        let skipped = all - resolved.len();
        let mut remarks = Vec::new();
        if skipped > 0 {
            remarks.push(format!(
                "{skipped} of {all} ELF files are not given to ldd, which refuses static files"
            ));
        }
        if more {
            remarks.push("of very large directories not all files are given to ldd".to_owned());
        }
        let remark = (!remarks.is_empty()).then(|| remarks.join("; "));
        let of_profile = shown.program;
        let shown = plan(&trivial(name))?.paths.len();
        Ok(Self { name: name.to_owned(), hot, cold, program: of_profile, shown, files: resolved, remark })
    }

    /// The rows with a kept plan: the plan, and the launch to its exit.
    pub(crate) fn hot_rows(&self, tools: &Tools) -> Vec<Runner<'_>> {
        let trivial = trivial(&self.name);
        let mut rows: Vec<Runner<'_>> = tools.baselines(&self.hot).into();
        rows.push(Runner {
            name: HOT_PLAN.to_owned(),
            invocations: vec![tools.palisade(&self.hot, &["open", "--quiet", "--timings", &trivial])],
            plans: Plans::Used(&self.hot),
            reading: Reading::Plan,
            peer: false,
        });
        rows.push(Runner {
            name: HOT_LAUNCH.to_owned(),
            invocations: vec![tools.palisade(&self.hot, &["open", "--quiet", &trivial])],
            plans: Plans::Used(&self.hot),
            reading: Reading::Wall,
            peer: false,
        });
        rows.extend(tools.antimony(&self.hot, "antimony run --dry", &["run", &self.name, "--dry"]));
        rows
    }

    /// The rows without a kept plan: the plan in process and as a command, the launch, and `ldd`.
    pub(crate) fn cold_rows(&self, tools: &Tools) -> Vec<Runner<'_>> {
        let name = self.name.as_str();
        let mut rows: Vec<Runner<'_>> = tools.baselines(&self.cold).into();
        let mut row = |name: &str, words: &[&str], plans, reading| {
            rows.push(Runner {
                name: name.to_owned(),
                invocations: vec![tools.palisade(&self.cold, words)],
                plans,
                reading,
                peer: false,
            });
        };
        let refresh = ["profile", "refresh", "--dry-run", "--json", name];
        row(COLD_PLAN, &refresh, Plans::None(&self.cold), Reading::Refresh);
        row("open --dry-run (wall)", &["open", "--dry-run", name], Plans::None(&self.cold), Reading::Wall);
        let launch = ["open", "--quiet", &trivial(name)];
        row(COLD_LAUNCH, &launch, Plans::Made(&self.cold), Reading::Wall);
        if !self.files.is_empty() {
            rows.push(Runner {
                name: LDD.to_owned(),
                invocations: self.files.iter().map(|file| tools.ldd(&self.cold, file)).collect(),
                plans: Plans::Unused,
                reading: Reading::Wall,
                peer: false,
            });
        }
        rows.extend(tools.antimony(
            &self.cold,
            "antimony refresh --dry --hard",
            &["refresh", name, "--dry", "--hard"],
        ));
        rows
    }
}

/// The names of the rows that goals use.
pub(crate) const HOT_PLAN: &str = "plan only (in process)";
pub(crate) const HOT_LAUNCH: &str = "launch to exit of true (wall)";
pub(crate) const COLD_PLAN: &str = "profile refresh --dry-run (in process)";
pub(crate) const COLD_LAUNCH: &str = "launch to exit of true (wall)";
pub(crate) const LDD: &str = "ldd of each file (wall)";

impl Tools {
    fn ldd(&self, home: &Home, file: &Path) -> Invocation {
        home.invocation(&[self.ldd.as_os_str(), file.as_os_str()], &self.work)
    }

    fn antimony(&self, home: &Home, name: &str, words: &[&str]) -> Option<Runner<'static>> {
        let antimony: OsString = self.antimony.clone()?.into();
        let argv: Vec<&OsStr> =
            std::iter::once(antimony.as_os_str()).chain(words.iter().map(OsStr::new)).collect();
        Some(Runner {
            name: name.to_owned(),
            invocations: vec![home.invocation(&argv, &self.work)],
            plans: Plans::Unused,
            reading: Reading::Wall,
            peer: true,
        })
    }
}

fn trivial(name: &str) -> String {
    format!("bench-{name}")
}

fn failing(name: &str) -> String {
    format!("bench-failing-{name}")
}

/// The profile `inherited` with another program. The files that its own program needs are still shown.
fn profile(name: &str, inherited: &str, program: &Path, own: Option<&str>) -> String {
    let (program, own) = (quoted(&program.to_string_lossy()), own.map(quoted).unwrap_or_default());
    format!(
        "schema = 1\nname = {}\ninherits = [\"default\", {}]\n\n[program]\npath = {program}\n\n[closure]\nprograms = [{own}]\n",
        quoted(name),
        quoted(inherited)
    )
}

/// A basic string of TOML. No program here has a path with control characters.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profiles_own_program_is_shown() {
        let text = profile("bench-x", "x", Path::new("/bin/true"), Some("/opt/a \"b\"/x"));
        assert!(text.contains("inherits = [\"default\", \"x\"]"), "{text}");
        assert!(text.contains(r#"programs = ["/opt/a \"b\"/x"]"#), "{text}");
    }
}
