// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade guard lint`: finds rules that are probably not meant as written.

use super::{Places, count, files};
use crate::output;
use crate::verb::{self, Exit, NO, YES};
use palisade_guard::lint::{self, Finding};
use palisade_guard::setup::Setup;
use palisade_text::Show as _;
use palisade_text::harmless;
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Serialize)]
struct Document<'a> {
    rules: usize,
    from: &'a str,
    findings: &'a [Finding],
    /// Whether the lint checked what the rules would stop. That needs a trust database that can be read.
    stops_known: bool,
}

/// Returns no if it finds anything except notes.
pub(super) fn lint(places: &Places, path: Option<&Path>, json: bool) -> Exit {
    let setup = files::setup(places, path)?;
    let mut findings = lint::rules(&setup);
    let stopped = stopped(places, &setup);
    let stops_known = stopped.is_ok();
    match stopped {
        Ok(stopped) => findings.extend(stopped),
        Err(why) if !json => {
            output::note(&format_args!("can't check which programs these rules would stop: {why}"));
        }
        Err(_) => {}
    }
    let wrong = findings.iter().any(|finding| !finding.note);
    if json {
        verb::print_json(&Document {
            rules: setup.rules.len(),
            from: &setup.from,
            findings: &findings,
            stops_known,
        })?;
    } else {
        let text: String = findings.iter().map(|finding| harmless(&words(finding)) + "\n").collect();
        verb::print(&text)?;
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

/// What the host couldn't do any more under these rules; an error says why that isn't known.
fn stopped(places: &Places, setup: &Setup) -> Result<Vec<Finding>, String> {
    let trust = files::trusted(places, setup.settings.trust.integrity).map_err(|error| error.to_string())?;
    if trust.store().is_none() && !setup.settings.trust.is_nothing() {
        return Err(format!("there is no trust database in {} yet", places.state.shown()));
    }
    let own: Vec<PathBuf> =
        std::env::current_exe().into_iter().flat_map(|own| [own.with_file_name("palisaded"), own]).collect();
    Ok(lint::stops(setup, &trust, &own))
}
