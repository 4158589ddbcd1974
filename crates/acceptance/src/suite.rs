// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All cases for one tool and one person, and the table at the end.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::case::{Case, Who};
use crate::feature::Features;
use crate::person::Person;
use crate::tool::Tool;
use crate::trial::{Outcome, Stage, try_case};

/// More would measure the scheduler: some cases wait for the clock.
const WORKERS: usize = 2;

/// One leg at a time: a case that must be alone is alone on the machine.
static LEG: Mutex<()> = Mutex::new(());

/// The results of one leg.
#[derive(Debug)]
pub struct Report {
    tool: &'static str,
    who: Who,
    results: Vec<(String, Outcome)>,
}

/// Runs every case that concerns `tool` and `who`.
///
/// # Errors
/// What kept the leg from running at all, in words.
pub fn run_leg(
    cases: &[Case],
    features: &Features,
    data: &Path,
    tool: &Tool,
    who: Who,
) -> Result<Report, String> {
    let _alone = LEG.lock().unwrap_or_else(PoisonError::into_inner);
    let label = format!("{}{}", &tool.name()[..1], if who == Who::Root { "r" } else { "u" });
    let person = match who {
        Who::Root => Person::root(&label),
        _ if features.has("root") => Person::ordinary(&label),
        _ => Person::myself(&label),
    }
    .map_err(|error| format!("{error:?}"))?;
    let place = Shared::new(data, tool, &label)?;
    let read = |name: &str| {
        std::fs::read_to_string(place.data.join(name)).map_err(|error| format!("read {name}: {error}"))
    };
    let (python, shell) = (read("prelude.py")?, read("prelude.sh")?);
    let stage =
        Stage { person: &person, tool: &place.tool, data: &place.data, python: &python, shell: &shell };

    let only = std::env::var("PALISADE_ACCEPTANCE_ONLY").ok();
    let mine = cases.iter().filter(|case| {
        case.who.covers(who)
            && case.tools.iter().any(|name| name == tool.name())
            && only.as_ref().is_none_or(|part| case.name.contains(part.as_str()))
    });
    let (alone, together): (Vec<&Case>, Vec<&Case>) = mine.partition(|case| case.alone);
    let selected = alone.len() + together.len();
    let queue = Mutex::new(VecDeque::from(together));
    let results = Mutex::new(Vec::new());
    let one = |case: &Case| {
        let outcome = match features.lacks(&case.needs) {
            Ok(None) if !features.has("root") && case.is_prepared_by_root() => {
                Outcome::NotTried("root".into())
            }
            Ok(None) => try_case(case, &stage),
            Ok(Some(feature)) => Outcome::NotTried(feature.to_owned()),
            Err(unknown) => Outcome::NoResult(format!("features.toml does not know {unknown:?}")),
        };
        results.lock().unwrap_or_else(PoisonError::into_inner).push((case.name.clone(), outcome));
    };
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    match next {
                        Some(case) => one(case),
                        None => break,
                    }
                }
            });
        }
    });
    alone.into_iter().for_each(one);
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    if results.len() != selected {
        return Err(format!("{selected} cases were selected, {} have a result", results.len()));
    }
    results.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(Report { tool: tool.name(), who, results })
}

impl Report {
    /// Everything that makes the leg fail, a line each.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        self.results
            .iter()
            .filter_map(|(name, outcome)| match outcome {
                Outcome::Escape(seen) if seen.is_empty() => Some(format!("{name}: ESCAPE")),
                Outcome::Escape(seen) => Some(format!("{name}: ESCAPE: {seen}")),
                Outcome::Broken(why) => Some(format!("{name}: broken: {why}")),
                Outcome::NoResult(why) => Some(format!("{name}: no result: {why}")),
                _ => None,
            })
            .collect()
    }

    /// Names of the cases that were run.
    pub fn tried(&self) -> impl Iterator<Item = &str> {
        self.results
            .iter()
            .filter(|(_, outcome)| !matches!(outcome, Outcome::NotTried(_)))
            .map(|(name, _)| name.as_str())
    }

    /// The counts, the known gaps and what was not tried, for people.
    #[must_use]
    pub fn table(&self) -> String {
        let count =
            |wanted: fn(&Outcome) -> bool| self.results.iter().filter(|(_, outcome)| wanted(outcome)).count();
        let mut text = format!(
            "acceptance: {} as {}: {} pairs tried, {} refused, {} stopped, {} work, {} known gaps, \
             {} escapes, {} broken, {} without result, {} not tried\n",
            self.tool,
            if self.who == Who::Root { "root" } else { "an ordinary user" },
            self.tried().count(),
            count(|outcome| matches!(outcome, Outcome::Refused)),
            count(|outcome| matches!(outcome, Outcome::Stopped)),
            count(|outcome| matches!(outcome, Outcome::Works)),
            count(|outcome| matches!(outcome, Outcome::KnownGap(_))),
            count(|outcome| matches!(outcome, Outcome::Escape(_))),
            count(|outcome| matches!(outcome, Outcome::Broken(_))),
            count(|outcome| matches!(outcome, Outcome::NoResult(_))),
            count(|outcome| matches!(outcome, Outcome::NotTried(_))),
        );
        for (name, outcome) in &self.results {
            let line = match outcome {
                Outcome::KnownGap(why) => format!("  gap       {name}: {why}"),
                Outcome::NotTried(feature) => format!("  not tried {name}: no {feature} here"),
                _ => continue,
            };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{line}");
        }
        text
    }
}

/// Copies of the binary and of the data where an ordinary user can read them: the checkout may lie
/// below a directory that is closed to others.
struct Shared {
    data: PathBuf,
    tool: Tool,
}

impl Shared {
    fn new(data: &Path, tool: &Tool, label: &str) -> Result<Shared, String> {
        let top = PathBuf::from(format!("/var/tmp/palisade-acc-{}-{label}-shared", std::process::id()));
        let failed = |error: std::io::Error| format!("prepare {}: {error}", top.display());
        std::fs::create_dir(&top).map_err(failed)?;
        // From here on dropping it removes the directory.
        let mut shared = Shared { data: top.clone(), tool: tool.clone() };
        std::fs::set_permissions(&top, PermissionsExt::from_mode(0o755)).map_err(failed)?;
        copy_below(data, &top).map_err(failed)?;
        if let Tool::Palisade(path) = tool {
            let to = top.join("palisade");
            copy(path, &to, 0o755).map_err(failed)?;
            shared.tool = Tool::Palisade(to);
        }
        Ok(shared)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.data) {
            eprintln!("acceptance: {} stays behind: {error}", self.data.display());
        }
    }
}

/// Copies files and, for the programs of the cases, directories of files.
fn copy_below(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            std::fs::create_dir(&to)?;
            std::fs::set_permissions(&to, PermissionsExt::from_mode(0o755))?;
            copy_below(&entry.path(), &to)?;
        } else {
            copy(&entry.path(), &to, 0o644)?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path, mode: u32) -> std::io::Result<()> {
    std::fs::copy(from, to)?;
    std::fs::set_permissions(to, PermissionsExt::from_mode(mode))
}
