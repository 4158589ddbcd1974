// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `--trace` and `--stats` say when a command has ended.

use crate::output;
use crate::situation;
use palisade_host::executable;
use palisade_policy::{Grant, Policy, merge};
use palisade_sandbox::apply::start::Happening;
use palisade_sandbox::facts::Facts;
use palisade_sandbox::layers::{self, Sort};
use palisade_sandbox::learned::{Account, Host, Journal};
use palisade_sandbox::plan::planner;
use palisade_sandbox::plan::{Plan, Step};
use palisade_text::harmless;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// As many paths are listed; who lacks more has another problem.
const LISTED: usize = 100;
/// As many features are named for one path.
const NAMED: usize = 3;

/// Keeps account of a launch.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    journal: Journal,
}

impl Trace {
    /// Something happened.
    pub(crate) fn hear(&mut self, happening: &Happening<'_>) {
        match happening {
            Happening::Used { how, came, path, program } => self.journal.note(*how, *came, path, program),
            Happening::Refused { rule, .. } => self.journal.note_name(&rule.path),
            _ => {}
        }
    }

    /// Says what was looked for, isn't there, and is on the host.
    pub(crate) fn say(&self, plan: &Plan<'_>) {
        let Ok(facts) = situation::facts() else { return };
        let account = Account::of(&self.journal, plan, plan, &facts.account.home, &Disk);
        output::say(&report(&account, &Givers::of(&facts)));
        if self.journal.overflowed() {
            output::note(&"more was looked for than is remembered");
        }
    }
}

fn report(account: &Account, givers: &Givers) -> String {
    let mut out = String::new();
    if account.wanted.is_empty() {
        out.push_str("palisade: trace: nothing was looked for that is on the host and not inside\n");
    } else {
        out.push_str("palisade: trace: looked for, not inside, and on the host:\n");
    }
    for wanted in account.wanted.iter().take(LISTED) {
        let path = harmless(&wanted.path.to_string_lossy());
        let _ = write!(out, "  {path}  ({} by {})", wanted.access, harmless(&wanted.programs.to_string()));
        let features = givers.of_path(&wanted.path);
        if !features.is_empty() {
            let _ = write!(out, "; --feature {} gives it", features.join(" or "));
        }
        out.push('\n');
    }
    if let Some(more) = account.wanted.len().checked_sub(LISTED).filter(|more| *more > 0) {
        let _ = writeln!(out, "  and {more} more");
    }
    for (address, programs) in &account.addresses {
        let _ = writeln!(out, "  network {} by {}", harmless(address), harmless(&programs.to_string()));
    }
    for name in &account.names {
        let _ = writeln!(out, "  protected name {}", harmless(name));
    }
    out
}

/// Which features give what.
struct Givers(BTreeMap<String, palisade_policy::Resolved>);

impl Givers {
    fn of(facts: &Facts) -> Self {
        let context = planner::context(facts, None);
        let each = |definition: layers::Definition| {
            let feature = layers::read(facts, &definition).ok()?;
            Some((definition.name, Policy::resolve(&merge(vec![feature]), &context).ok()?))
        };
        Self(layers::definitions(facts, Sort::Feature).into_iter().filter_map(each).collect())
    }

    /// The features that give a path, those that give least else first.
    fn of_path(&self, path: &Path) -> Vec<&str> {
        let gives = |resolved: &&palisade_policy::Resolved| {
            matches!(resolved.decide(path).grant, Grant::Allowed { .. })
        };
        let mut found: Vec<(usize, &str)> = self
            .0
            .iter()
            .filter(|(_, resolved)| gives(resolved))
            .map(|(name, resolved)| {
                // The nearer the granted path is to the one that is wanted, the less comes with it.
                let above =
                    resolved.effective().into_iter().filter(|rule| path.starts_with(&rule.destination));
                let nearest = above.map(|rule| rule.destination.components().count()).max().unwrap_or(0);
                (usize::MAX - nearest, name.as_str())
            })
            .collect();
        found.sort_unstable();
        found.into_iter().take(NAMED).map(|(_, name)| name).collect()
    }
}

/// The host's files.
pub(crate) struct Disk;

impl Host for Disk {
    fn exists(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok()
    }

    fn is_program(&self, path: &Path) -> bool {
        path.is_file() && matches!(executable::kind(path), Ok(executable::Kind::Elf))
    }

    fn interpreter(&self, path: &Path) -> Option<PathBuf> {
        match executable::kind(path).ok()? {
            executable::Kind::Script(interpreter) => Some(interpreter.program),
            _ => None,
        }
    }
}

/// Says what a launch consisted of and what was used.
pub(crate) fn say_stats(plan: &Plan<'_>, took: Duration) {
    let count = |of: fn(&Step<'_>) -> bool| plan.steps.iter().filter(|step| of(step)).count();
    let mounts = count(|step| matches!(step, Step::Bind(_) | Step::Tmpfs { .. } | Step::Overlay { .. }));
    let rules = count(|step| matches!(step, Step::Allow { .. }));
    let made = count(|step| matches!(step, Step::File { .. } | Step::Symlink { .. }));
    let used = palisade_sys::usage::of_children();
    output::say(&format!(
        "palisade: stats: {mounts} mounts, {rules} rules, {made} files and links made\n\
         palisade: stats: {:.3} s, processor {:.3} s user and {:.3} s system, largest process {:.1} MiB\n",
        took.as_secs_f64(),
        used.user.as_secs_f64(),
        used.system.as_secs_f64(),
        mebibytes(used.max_rss),
    ));
}

#[expect(clippy::cast_precision_loss, reason = "memory of this machine in bytes is less than 2^52")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
