// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints the results of `--trace` and `--stats` when a command has ended.

use crate::output;
use crate::situation;
use palisade_sandbox::apply::start::LaunchEvent;
use palisade_sandbox::learned::{AccessTrace, Disk, Givers, UsageSummary};
use palisade_sandbox::plan::{Plan, Step};
use palisade_text::harmless;
use std::fmt::Write;
use std::time::Duration;

/// At most this many paths are listed. A command that lacks more has another problem.
const LISTED: usize = 100;

/// Records what a launch used.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    trace: AccessTrace,
}

impl Trace {
    /// Handles an event.
    pub(crate) fn hear(&mut self, launch_event: &LaunchEvent<'_>) {
        match launch_event {
            LaunchEvent::Used { how, came, path, program } => self.trace.note(*how, *came, path, program),
            LaunchEvent::Refused { rule, .. } => self.trace.note_name(&rule.path),
            _ => {}
        }
    }

    /// Prints the paths that the command looked for and didn't find, and that exist on the host.
    pub(crate) fn say(&self, plan: &Plan<'_>) {
        let Ok(facts) = situation::facts() else { return };
        let account = UsageSummary::of(&self.trace, plan, plan, &facts.account.home, &Disk);
        output::say(&report(&account, &Givers::of(&facts)));
        if self.trace.overflowed() {
            output::note(&"the command looked for more paths than the trace can hold");
        }
    }
}

fn report(account: &UsageSummary, givers: &Givers) -> String {
    let mut out = String::new();
    if account.wanted.is_empty() {
        out.push_str("palisade: trace: the command looked for no path that is on the host and not inside\n");
    } else {
        out.push_str(
            "palisade: trace: paths that the command looked for, and that are on the host and not inside:\n",
        );
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

/// Prints what a launch consisted of, and what the command used.
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
