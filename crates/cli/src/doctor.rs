// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade doctor`: says what this host can guarantee, by which mechanism, and what to do about the rest.

use crate::asked::Asked;
use crate::output;
use crate::verb::{self, Failure};
use clap::ArgMatches;
use palisade::examination::Examination;
use palisade_sandbox::guarantee::Have;

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

/// Returns the exit code: 0 if everything that the policy asks for can be enforced, 1 if not, 2 for an error.
pub(crate) fn run(options: &Options, matches: &ArgMatches) -> u8 {
    verb::finish(options.asked.launch.json, examine(options, matches))
}

fn examine(options: &Options, matches: &ArgMatches) -> Result<u8, Failure> {
    let (situation, configuration) = options.asked.request(matches)?.examine()?;
    if let Some(done) = options.asked.dry_run(&situation) {
        return done;
    }
    let examination = Examination::of(&situation, configuration, crate::guard::doctor());
    let verbose = options.asked.launch.verbose;
    verb::tell(options.asked.launch.json, &examination, |examination| words(examination, verbose))?;
    Ok(verb::verdict(examination.enforceable))
}

fn words(examination: &Examination, verbose: bool) -> String {
    let mut text = String::new();
    let mut line = |words: String| {
        text.push_str(&palisade_text::harmless(&words));
        text.push('\n');
    };
    line(
        if examination.enforceable {
            "palisade run works here: everything that the default policy asks for can be enforced"
        } else {
            "palisade run fails here: what is marked NO can't be enforced"
        }
        .to_owned(),
    );
    for row in &examination.guarantees {
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
            // Mechanisms before the used one are better, so the user should know about them.
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
                line(format!("         to do: {}", output::as_typed(remedy)));
            }
        }
    }
    for check in std::iter::once(&examination.kernel).chain(&examination.checks) {
        let what = check.what.as_ref().map_or_else(String::new, |what| format!(" ({what})"));
        match &check.have {
            Have::Yes => line(format!("{:<4} {}{what}", "yes", check.name)),
            Have::No(why) | Have::Unknown(why) => {
                let mark = if check.fatal { "NO" } else { "no" };
                line(format!("{mark:<4} {}{what}: {why}", check.name));
                if let Some(remedy) = &check.remedy {
                    line(format!("         to do: {}", output::as_typed(remedy)));
                }
            }
        }
    }
    text
}
