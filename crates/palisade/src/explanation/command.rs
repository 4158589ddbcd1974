// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains a command: where it is looked for, and what of that is visible inside.

use super::path::{self, PathExplanation};
use super::{Way, lossy, script};
use crate::Situation;
use palisade_host::executable::{self, Kind};
use palisade_policy::environment::Fate;
use palisade_policy::{LayerPolicy, Resolved, Wanted};
use palisade_sandbox::error::PlanError;
use palisade_sandbox::plan::Plan;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Where a launch looks if `PATH` isn't set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// The answer about a command.
#[derive(Debug, Serialize)]
pub struct CommandExplanation {
    /// Always `command`.
    pub kind: &'static str,
    /// The command, as it is typed.
    pub command: String,
    /// Whether it runs inside.
    pub allowed: bool,
    /// Where `PATH` comes from.
    pub path_from: &'static str,
    /// The files of that name, up to the one that runs.
    pub searched: Vec<Candidate>,
    /// The file that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<PathExplanation>,
    /// The interpreter, if the file is a script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<Interpreter>,
    /// The command that permits it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permit: Option<String>,
}

/// A file of the command's name in a directory of `PATH`.
#[derive(Debug, Serialize)]
pub struct Candidate {
    /// The file.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// Whether it can be executed inside.
    pub inside: bool,
    /// Why, in a sentence.
    pub why: String,
}

/// The interpreter of a script.
#[derive(Debug, Serialize)]
pub struct Interpreter {
    /// The program, as the script names it.
    pub program: String,
    /// Whether it can be executed inside.
    pub inside: bool,
}

impl CommandExplanation {
    /// The answer about a command as it is typed.
    ///
    /// # Errors
    /// When there is no plan.
    pub fn of(situation: &Situation, command: &OsStr) -> Result<Self, PlanError> {
        let resolved = situation.resolved()?;
        let plan = situation.plan_with(LayerPolicy::command_line())?;
        let seeker = Seeker { situation, resolved: &resolved, plan: &plan };
        let (found, searched) = seeker.find(command);
        let file = found.as_ref().map(|found| &found.path);
        let file = file.or_else(|| searched.first().map(|candidate| &candidate.path));
        let interpreter = file.and_then(|file| seeker.interpreter(file));
        let runs = found.as_ref().is_some_and(|found| found.allowed);
        let allowed = runs && interpreter.as_ref().is_none_or(|interpreter| interpreter.inside);
        let permit = if allowed { None } else { seeker.permit(found.as_ref(), &searched) };
        Ok(Self {
            kind: "command",
            command: command.to_string_lossy().into_owned(),
            allowed,
            path_from: seeker.path().1,
            permit,
            searched,
            found,
            interpreter,
        })
    }
}

/// Looks for commands as a launch does.
struct Seeker<'s> {
    situation: &'s Situation,
    resolved: &'s Resolved,
    plan: &'s Plan<'static>,
}

impl Seeker<'_> {
    /// The `PATH` inside, and where it comes from.
    fn path(&self) -> (OsString, &'static str) {
        let inherited = self.situation.facts.environment.get("PATH");
        match (self.plan.environment.judge(b"PATH").0, inherited) {
            (Fate::Set(value), _) => (value.into(), "the policy"),
            (Fate::Kept, Some(inherited)) => (inherited.to_owned(), "the environment"),
            _ => (DEFAULT_PATH.into(), "the default"),
        }
    }

    /// The file that would run, and every file of that name before it.
    fn find(&self, command: &OsStr) -> (Option<PathExplanation>, Vec<Candidate>) {
        let mut searched = Vec::new();
        let (path, _from) = self.path();
        let directories: Vec<PathBuf> = if command.to_string_lossy().contains('/') {
            vec![self.situation.facts.cwd.clone()]
        } else {
            // A launch skips directories without a name.
            std::env::split_paths(&path).filter(|directory| !directory.as_os_str().is_empty()).collect()
        };
        for directory in directories {
            let candidate = self.situation.facts.cwd.join(directory).join(command);
            let again = searched.iter().any(|before: &Candidate| before.path == candidate);
            if again || candidate.symlink_metadata().is_err() {
                continue;
            }
            let explanation = self.explain(&candidate);
            let runs = explanation.allowed;
            searched.push(Candidate { path: candidate, inside: runs, why: explanation.why.clone() });
            if runs {
                return (Some(explanation), searched);
            }
        }
        (None, searched)
    }

    fn explain(&self, path: &Path) -> PathExplanation {
        let way = Way::to(self.situation, path);
        path::judge(self.situation, self.resolved, Ok(self.plan), &way, Wanted::Execute)
    }

    /// The command that makes the found file run, or the first of the files that don't.
    fn permit(&self, found: Option<&PathExplanation>, searched: &[Candidate]) -> Option<String> {
        let refused = searched.iter().find(|candidate| !candidate.inside);
        let file = found.map(|found| &found.path).or_else(|| refused.map(|candidate| &candidate.path))?;
        if let Ok(Kind::Script(interpreter)) = executable::kind(file)
            && !interpreter.program.exists()
        {
            // No option shows what this host hasn't got.
            return None;
        }
        // A script that is shown may still lack its interpreter. Then an option for the script alone helps nobody.
        match script::options(self.situation, self.plan, file) {
            Some(options) => Some(format!("palisade run {options} -- COMMAND…")),
            None => self.explain(file).permit,
        }
    }

    /// The interpreter that a script needs.
    fn interpreter(&self, path: &Path) -> Option<Interpreter> {
        let Ok(Kind::Script(interpreter)) = executable::kind(path) else { return None };
        let named = interpreter.env_command();
        let program =
            named.map_or_else(|| interpreter.program.to_string_lossy(), OsStr::to_string_lossy).into_owned();
        let inside = self.explain(&interpreter.program).allowed
            && named.is_none_or(|named| self.find(named).0.is_some_and(|found| found.allowed));
        Some(Interpreter { program, inside })
    }
}
