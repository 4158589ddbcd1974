// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade shell page` and `metrics`: show numbers about what happened in the shell.

use crate::output;
use crate::verb::{self, Failure, YES};
use palisade_shell::page::{self, Facts, PageError};
use palisade_shell::start;
use palisade_text::harmless;
use serde::Serialize;

/// Where the page is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The page is for who knows its address, in which there is a secret; it is served to this machine only, until the
program is ended. Nothing is changed by it.

Examples:
  palisade shell page                # prints the address to open
  palisade shell page --port 8090    # at the same port each time; the secret is another one")]
pub(super) struct Options {
    /// The port of 127.0.0.1; 0: any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
}

/// How to answer.
#[derive(Debug, clap::Args)]
pub(super) struct Metrics {
    /// Answer as JSON
    #[arg(long, conflicts_with = "prometheus")]
    pub(super) json: bool,
    /// Answer in Prometheus' text format
    #[arg(long)]
    prometheus: bool,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct PageFailure(#[from] PageError);

impl PageFailure {
    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match &self.0 {
            PageError::Listen { .. } => Some("palisade shell page   # at any port that is free".to_owned()),
            PageError::Secret(_) => Some("ls -l /dev/urandom".to_owned()),
        }
    }
}

/// Serves the page. Returns only on failure.
pub(super) fn serve(options: &Options) -> Result<u8, Failure> {
    let page = page::Page::open(options.port, &start::state()).map_err(PageFailure::from)?;
    verb::print(&format!("{}\n", page.url()))?;
    output::say("the page is there until this program ends (Ctrl-C)\n");
    page.serve()
}

#[derive(Serialize)]
struct Output<'a> {
    #[serde(flatten)]
    facts: &'a Facts,
}

/// Prints the numbers.
pub(super) fn metrics(options: &Metrics) -> Result<u8, Failure> {
    let facts = Facts::read(&start::state());
    if options.json {
        verb::print_json(&Output { facts: &facts })?;
    } else if options.prometheus {
        verb::print_exactly(&page::prometheus(&facts, None))?;
    } else {
        verb::print(&words(&facts))?;
    }
    for problem in &facts.problems {
        output::note(problem);
    }
    Ok(YES)
}

fn words(facts: &Facts) -> String {
    let counts = &facts.counts;
    let mut text = String::new();
    for (number, what) in [
        (counts.lines, "lines run"),
        (counts.failed, "of these, failed"),
        (counts.rulings.warned, "warned of"),
        (counts.rulings.asked, "asked about"),
        (counts.rulings.confirmed, "confirmed"),
        (counts.rulings.blocked, "not run"),
        (counts.ghost_shown, "lines at which ghost text was shown"),
        (counts.ghost_taken, "times that it was taken"),
        (facts.entries, "entries of the history"),
    ] {
        text.push_str(&format!("{number:>10}  {what}\n"));
    }
    for (rule, rulings) in &counts.rules {
        let name = harmless(rule);
        text.push_str(&format!(
            "\n{name}: {} warned of, {} asked about, {} confirmed, {} not run",
            rulings.warned, rulings.asked, rulings.confirmed, rulings.blocked
        ));
    }
    if !counts.rules.is_empty() {
        text.push('\n');
    }
    text
}
