// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade doctor`: what this host can guarantee, by what, and what to do about the rest.

use crate::answer::{self, Failure, NO, YES};
use crate::asked::Asked;
use clap::ArgMatches;
use palisade::{PlanningError, Request, Situation};
use palisade_host::places::{self, Trustee};
use palisade_sandbox::facts::Facts;
use palisade_sandbox::guarantee::{self, Evidence, Have, OLDEST_KERNEL, Row};
use palisade_text::Show as _;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;

/// How to answer.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "\
Options of `palisade run` say of which launch; without any it is one by the default policy.

Examples:
  palisade doctor
  palisade doctor --profile web --limit memory=1G   can this be enforced here?",
    mut_arg("dry_run", |arg| arg.help("Print the plan of the launch and examine nothing")),
    mut_arg("json", |arg| arg.help("Answer as JSON")),
    mut_arg("verbose", |arg| arg.help("Show every mechanism, also behind those that suffice")),
)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) asked: Asked,
}

/// The answer.
#[derive(Serialize)]
struct Answer {
    /// Whether the policy without a profile can be fully enforced.
    enforceable: bool,
    kernel: Check,
    guarantees: Vec<Row>,
    checks: Vec<Check>,
}

/// Something else that has to be in order.
#[derive(Serialize)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) have: Have,
    /// Whether launches fail without it.
    pub(crate) fatal: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) what: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remedy: Option<String>,
}

/// Answers: 0 everything that is asked for can be enforced, 1 not, 2 error.
pub(crate) fn run(options: &Options, matches: &ArgMatches) -> u8 {
    answer::finish(options.asked.launch.json, examine(options, matches))
}

fn examine(options: &Options, matches: &ArgMatches) -> Result<u8, Failure> {
    let (situation, configuration) = situation(options.asked.request(matches)?)?;
    if let Some(done) = options.asked.dry_run(&situation) {
        return done;
    }
    let evidence = Evidence::gather(&situation.facts);
    let guarantees = guarantee::evaluate(situation.policy(), &evidence);
    let mut checks = vec![configuration];
    checks.push(planned(&situation));
    checks.extend(own_places(&situation.facts));
    checks.extend(crate::guard::doctor());
    let kernel = kernel(&evidence);
    let enforceable = !kernel_fails(&kernel)
        && !guarantees.iter().any(Row::fails)
        && !checks.iter().any(|check| check.fatal && !check.have.is_yes());
    let answer = Answer { enforceable, kernel, guarantees, checks };
    if options.asked.launch.json {
        answer::print_json(&answer)?;
    } else {
        answer::print(&answer.words(options.asked.launch.verbose))?;
    }
    Ok(if enforceable { YES } else { NO })
}

/// The host and the policy, and whether its files are in order. If they aren't, what is built in stands in for them:
/// the rest of the table is worth having.
fn situation(request: Request) -> Result<(Situation, Check), Failure> {
    let check = |have, remedy| Check { name: "configuration", have, fatal: true, what: None, remedy };
    let without = request.clone();
    match request.settle() {
        Ok(situation) => Ok((situation, check(Have::Yes, None))),
        Err(PlanningError::Layer(error)) => {
            let situation = without.settle_by_built_in()?;
            Ok((situation, check(Have::No(error.to_string()), error.hint())))
        }
        Err(error) => Err(error.into()),
    }
}

fn kernel(evidence: &Evidence) -> Check {
    let (major, minor) = OLDEST_KERNEL;
    let (have, what) = match &evidence.release {
        Some(release) if release.at_least(major, minor) => (Have::Yes, Some(release.to_string())),
        Some(release) => (Have::No(format!("this is {release}")), Some(release.to_string())),
        None => (Have::Unknown("/proc/sys/kernel/osrelease doesn't say".to_owned()), None),
    };
    let remedy =
        matches!(have, Have::No(_)).then(|| format!("a kernel from {major}.{minor} on is what is tested"));
    Check { name: "kernel", have, fatal: false, what, remedy }
}

/// An older kernel may have all that is needed; the table decides.
const fn kernel_fails(kernel: &Check) -> bool {
    kernel.fatal && !kernel.have.is_yes()
}

/// Whether a launch could be planned here.
fn planned(situation: &Situation) -> Check {
    let (have, remedy) = match situation.plan() {
        Ok(_plan) => (Have::Yes, None),
        Err(error) => (Have::No(error.to_string()), error.hint()),
    };
    Check { name: "plan for this directory", have, fatal: true, what: None, remedy }
}

/// Whether Palisade's own directories are the user's alone.
fn own_places(facts: &Facts) -> Vec<Check> {
    let account = &facts.account;
    let trustee = Trustee { uid: account.uid, private_group: account.private_group.then_some(account.gid) };
    let places = &facts.places;
    let own = [
        // Without its plans a launch is slower, and what is allowed for projects can be asked for again.
        ("configuration directory", &places.config, true),
        ("plan cache", &places.cache, false),
        ("state directory", &places.state, false),
    ];
    own.into_iter()
        .map(|(name, path, fatal)| {
            let (have, remedy) = examine_place(path, trustee);
            Check { name, have, fatal, what: Some(path.shown().to_string()), remedy }
        })
        .collect()
}

/// The directory, or the nearest one above it that it would be made in.
fn examine_place(path: &Path, trustee: Trustee) -> (Have, Option<String>) {
    let Some(existing) = path.ancestors().find(|path| path.exists()) else {
        return (Have::Unknown("nothing of its path exists".to_owned()), None);
    };
    if let Err(error) = places::check(existing, trustee) {
        let shown = palisade_sandbox::error::quoted(&existing.to_string_lossy());
        return (
            Have::No(error.to_string()),
            Some(format!("look at {shown}, then give it to yourself alone (chown, chmod go-w)")),
        );
    }
    match rustix::fs::access(existing, rustix::fs::Access::WRITE_OK) {
        Ok(()) => (Have::Yes, None),
        Err(errno) => (Have::No(format!("can't write to {}: {errno}", existing.shown())), None),
    }
}

impl Answer {
    fn words(&self, verbose: bool) -> String {
        let mut text = String::new();
        let mut line = |words: String| {
            text.push_str(&palisade_text::harmless(&words));
            text.push('\n');
        };
        for row in &self.guarantees {
            let mark = match row.by() {
                Some(_) => "yes",
                None if row.wanted => "NO",
                None => "no",
            };
            let by = row.by().map_or_else(String::new, |by| format!(": {}", by.name));
            let asked = if row.wanted { "" } else { " (not asked for by the default policy)" };
            line(format!("{mark:<4} {}{by}{asked}", row.words));
            if let Some(weaker) = row.by().and_then(|by| by.weaker) {
                line(format!("       weaker: {weaker}"));
            }
            let lacking = row.by().is_none();
            let best = row.by().map(|by| by.name);
            for mechanism in &row.mechanisms {
                // What comes before the one that is used is better: worth knowing.
                let better = !lacking && Some(mechanism.name) != best;
                let ahead = better
                    && row.mechanisms.iter().position(|other| other.name == mechanism.name)
                        < row.mechanisms.iter().position(|other| Some(other.name) == best);
                if !(verbose || lacking || ahead) {
                    continue;
                }
                line(match &mechanism.have {
                    Have::Yes => format!("       {}: there ({})", mechanism.name, mechanism.need),
                    Have::No(why) => format!("       {}: needs {}; {why}", mechanism.name, mechanism.need),
                    Have::Unknown(why) => {
                        format!("       {}: needs {}; not known: {why}", mechanism.name, mechanism.need)
                    }
                });
                if let Some(remedy) = &mechanism.remedy {
                    line(format!("         to do: {remedy}"));
                }
            }
        }
        for check in std::iter::once(&self.kernel).chain(&self.checks) {
            let what = check.what.as_ref().map_or_else(String::new, |what| format!(" ({what})"));
            match &check.have {
                Have::Yes => line(format!("{:<4} {}{what}", "yes", check.name)),
                Have::No(why) | Have::Unknown(why) => {
                    let mark = if check.fatal { "NO" } else { "no" };
                    line(format!("{mark:<4} {}{what}: {why}", check.name));
                    if let Some(remedy) = &check.remedy {
                        line(format!("         to do: {remedy}"));
                    }
                }
            }
        }
        let _infallible = writeln!(
            text,
            "{}",
            if self.enforceable {
                "everything that the default policy asks for can be enforced here"
            } else {
                "what is marked NO can't be enforced here; launches that need it fail"
            }
        );
        text
    }
}
