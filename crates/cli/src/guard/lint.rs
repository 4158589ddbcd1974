// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade guard lint`: what of the rules is probably not meant.

use super::{Answer, Places, count, files};
use crate::answer::{self, NO, YES};
use crate::output;
use palisade_guard::decide::Decider;
use palisade_guard::facts::Access;
use palisade_guard::rule::lint as rules_lint;
use palisade_guard::safety;
use palisade_guard::setup::Setup;
use palisade_text::Show as _;
use palisade_text::harmless;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// As many things that would be stopped are named one by one.
const MOST_STOPPED: usize = 20;

#[derive(Serialize)]
struct Document<'a> {
    rules: usize,
    from: &'a str,
    findings: &'a [Finding],
    /// Whether it was looked at what the rules would stop: only with a trust database that can be read.
    stops_known: bool,
}

#[derive(Serialize)]
struct Finding {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    class: String,
    message: String,
    /// Only worth knowing.
    note: bool,
}

/// Answers no if anything but notes is found.
pub(super) fn lint(places: &Places, path: Option<&Path>, json: bool) -> Answer {
    let setup = files::setup(places, path)?;
    let mut findings: Vec<Finding> = rules_lint::lint(&setup.rules)
        .iter()
        .map(|finding| {
            let place = finding.place(&setup.rules);
            Finding {
                file: place.map(|place| setup.rules.file(place).display().to_string()),
                line: place.map(|place| place.line),
                class: finding.class().to_owned(),
                message: finding.message(&setup.rules),
                note: finding.is_note(),
            }
        })
        .collect();
    let stopped = stopped(places, &setup);
    let stops_known = stopped.is_ok();
    match stopped {
        Ok(stopped) => findings.extend(stopped),
        Err(why) if !json => {
            output::note(&format_args!("it wasn't looked at what these rules would stop: {why}"));
        }
        Err(_) => {}
    }
    let wrong = findings.iter().any(|finding| !finding.note);
    if json {
        answer::print_json(&Document {
            rules: setup.rules.len(),
            from: &setup.from,
            findings: &findings,
            stops_known,
        })?;
    } else {
        let text: String = findings.iter().map(|finding| harmless(&words(finding)) + "\n").collect();
        answer::print(&text)?;
        let rules = count(setup.rules.len() as u64, "rule", "rules");
        let found = if wrong { "see above" } else { "nothing to change" };
        output::say(&format!("{rules} from {}: {found}\n", setup.from.shown()));
    }
    Ok(if wrong { NO } else { YES })
}

fn words(finding: &Finding) -> String {
    let kind = if finding.note { "note" } else { "warning" };
    let place = match (&finding.file, finding.line) {
        (Some(file), Some(line)) => format!("{file}:{line}: "),
        _ => String::new(),
    };
    format!("{place}{kind}: {} [{}]", finding.message, finding.class)
}

/// What the host couldn't do any more under these rules; or why that isn't known.
fn stopped(places: &Places, setup: &Setup) -> Result<Vec<Finding>, String> {
    let trust = files::trusted(places, setup.settings.trust.integrity).map_err(|error| error.to_string())?;
    if trust.store().is_none() && !setup.settings.trust.is_nothing() {
        return Err(format!("there is no trust database in {} yet", places.state.shown()));
    }
    let own: Vec<PathBuf> =
        std::env::current_exe().into_iter().flat_map(|own| [own.with_file_name("palisaded"), own]).collect();
    let decider = Decider::new(&setup.rules);
    let stopped = safety::stopped(&decider, &trust, &own);
    let more = stopped.len().saturating_sub(MOST_STOPPED);
    let mut findings: Vec<Finding> = stopped
        .iter()
        .take(MOST_STOPPED)
        .map(|stopped| {
            let place = stopped.rule.map(|rule| setup.rules.origin(rule).place);
            let verb = if stopped.access == Access::Execute { "be executed" } else { "be opened" };
            Finding {
                file: place.map(|place| setup.rules.file(place).display().to_string()),
                line: place.map(|place| place.line),
                class: "lint.would-stop".to_owned(),
                message: format!(
                    "would stop the host: {} could not {verb} ({})",
                    stopped.path.shown(),
                    stopped.what
                ),
                note: false,
            }
        })
        .collect();
    if more > 0 {
        findings.push(Finding {
            file: None,
            line: None,
            class: "lint.would-stop".to_owned(),
            message: format!("would stop the host: {more} more files that it needs"),
            note: false,
        });
    }
    Ok(findings)
}
