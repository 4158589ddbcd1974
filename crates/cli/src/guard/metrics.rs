// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade guard metrics` and `rules`: print counters of what has happened so far.

use super::Places;
use super::scrape;
use crate::verb::{self, Exit, YES};
use palisade_protocol::client::{self, Client, DaemonError};
use palisade_protocol::guard::{Metrics, Request, Response, RuleHits};
use palisade_text::Show as _;
use serde::Serialize;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// How long palisaded may take to report its counters to a scraper.
const PATIENCE: Duration = Duration::from_secs(5);

/// How to answer.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Answer as JSON
    #[arg(long, conflicts_with = "prometheus")]
    pub(super) json: bool,
    /// Answer in Prometheus' text format
    #[arg(long)]
    prometheus: bool,
    /// Begin counting anew afterwards
    #[arg(long)]
    reset: bool,
    /// Answer at http://ADDRESS/metrics in Prometheus' text format until it is ended; 127.0.0.1:9750 for example
    #[arg(long, value_name = "ADDRESS", value_parser = scrape::address, conflicts_with_all = ["json", "prometheus", "reset"])]
    serve: Option<SocketAddr>,
}

/// A counter: its name, what it counts, its value.
type Counter = (&'static str, &'static str, u64);

fn counters(metrics: &Metrics) -> [Counter; 15] {
    [
        ("questions", "Questions from the kernel", metrics.questions),
        ("executes", "Of these, about execs", metrics.executes),
        ("allowed", "Answered with yes", metrics.allowed),
        ("denied", "Answered with no; in permissive mode those that would have been", metrics.denied),
        ("unknown_subject", "Denied because the process couldn't be examined", metrics.unknown_subject),
        ("passed", "Files that the kernel has answered for by itself since then", metrics.passed),
        ("revoked", "Files that it asks about again because they changed", metrics.revoked),
        ("objects_missed", "Files that were examined", metrics.objects_missed),
        ("objects_hit", "Files whose facts were remembered", metrics.objects_hit),
        ("subjects_missed", "Processes that were examined", metrics.subjects_missed),
        ("subjects_hit", "Processes that were remembered", metrics.subjects_hit),
        (
            "lost",
            "Questions that were refused unread, or lost, for want of room, descriptors or memory",
            metrics.lost,
        ),
        ("unlogged", "Decisions that weren't logged because there were too many", metrics.unlogged),
        ("stalls", "Times that an answer took too long", metrics.stalls),
        ("unanswered", "Answers that no process waited for any more", metrics.unanswered),
    ]
}

/// Prints the counters.
pub(super) fn metrics(places: &Places, options: &Options) -> Exit {
    if let Some(address) = options.serve {
        let socket = places.socket.clone();
        let counters = move || Ok(prometheus(&asked(&socket, false, Some(PATIENCE))?));
        return scrape::serve(address, counters);
    }
    let metrics = asked(&places.socket, options.reset, None)?;
    if options.json {
        verb::print_json(&metrics)?;
    } else if options.prometheus {
        verb::print(&prometheus(&metrics))?;
    } else {
        verb::print(&words(&metrics))?;
    }
    Ok(YES)
}

fn asked(socket: &Path, reset: bool, patience: Option<Duration>) -> Result<Metrics, DaemonError> {
    match Client::begin(socket)?.ask_within(&Request::Metrics { reset }, patience)? {
        Response::Metrics(metrics) => Ok(*metrics),
        _ => Err(DaemonError::Strange),
    }
}

fn words(metrics: &Metrics) -> String {
    counters(metrics).iter().fold(String::new(), |mut text, (_, what, value)| {
        let _infallible = writeln!(text, "{value:>12}  {what}");
        text
    })
}

/// The counters in the format of <https://prometheus.io/docs/instrumenting/exposition_formats/>.
fn prometheus(metrics: &Metrics) -> String {
    counters(metrics).iter().fold(String::new(), |mut text, (name, what, value)| {
        let name = format!("palisade_guard_{name}_total");
        let _infallible = writeln!(text, "# HELP {name} {what}.\n# TYPE {name} counter\n{name} {value}");
        text
    })
}

#[derive(Serialize)]
struct Rules<'a> {
    rules: &'a [RuleHits],
}

/// Prints the rules in force.
pub(super) fn rules(places: &Places, json: bool) -> Exit {
    let Response::Rules { rules } = client::ask(&places.socket, &Request::Rules)? else {
        return Err(DaemonError::Strange.into());
    };
    if json {
        verb::print_json(&Rules { rules: &rules })?;
        return Ok(YES);
    }
    let width = rules.iter().map(|rule| rule.origin.len()).max().unwrap_or_default();
    let text = rules.iter().fold(String::new(), |mut text, rule| {
        let RuleHits { number, origin, text: rule, hits } = rule;
        let _infallible =
            writeln!(text, "{hits:>10}  {number:>4}  {:width$}  {}", origin.shown(), rule.shown());
        text
    });
    verb::print(&text)?;
    Ok(YES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_help_type_and_value() {
        let text = prometheus(&Metrics { denied: 7, ..Metrics::default() });
        assert_eq!(text.lines().count(), 45);
        assert!(text.contains("# TYPE palisade_guard_denied_total counter\npalisade_guard_denied_total 7\n"));
        assert!(words(&Metrics { denied: 7, ..Metrics::default() }).contains("7  Answered with no"));
    }
}
