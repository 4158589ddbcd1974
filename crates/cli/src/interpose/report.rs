// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of calls, sorted by how often they were made.

use super::error::InterposeError;
use super::sites::{self, Sites};
use crate::output;
use crate::verb::SCHEMA;
use palisade_interpose::launch::{Count, Outcome};
use palisade_syscall::{Arch, Syscall};
use serde::Serialize;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Where the table goes.
pub(super) struct Table {
    file: Option<(PathBuf, File)>,
    json: bool,
}

/// Which parts of an outcome are shown.
pub(super) struct Shown {
    /// How often calls were made.
    pub(super) count: bool,
    /// How long calls took.
    pub(super) time: bool,
    /// Where they came from.
    pub(super) sites: Option<Sites>,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: u32,
    calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sites: Option<&'a Sites>,
    programs: u64,
    not_interposed: u64,
    traps: u64,
    sites_patched: u64,
    sites_not_patchable: u64,
}

#[derive(Debug, Serialize)]
struct Call<'a> {
    name: Cow<'a, str>,
    calls: u64,
    errors: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    nanoseconds: Option<u64>,
}

impl Table {
    /// Makes the file.
    pub(super) fn open(path: Option<&Path>, json: bool) -> Result<Self, InterposeError> {
        let open = |path: &Path| {
            let file = File::create(path);
            file.map(|file| (path.to_owned(), file))
                .map_err(|source| InterposeError::Write { path: path.to_owned(), source })
        };
        Ok(Self { file: path.map(open).transpose()?, json })
    }

    /// Writes the result of a command.
    pub(super) fn write(self, outcome: &Outcome, shown: &Shown) -> Result<(), InterposeError> {
        let text = if self.json { json(outcome, shown) } else { text(outcome, shown) };
        match self.file {
            None => output::say(&text),
            Some((path, mut file)) => {
                file.write_all(text.as_bytes()).map_err(|source| InterposeError::Write { path, source })?
            }
        }
        Ok(())
    }
}

/// The calls that took longest or were made most often, first.
fn calls(outcome: &Outcome, shown: &Shown) -> Vec<Call<'static>> {
    let mut counts = if shown.count { outcome.counts.clone() } else { Vec::new() };
    let time = |count: &Count| if shown.time { count.nanoseconds } else { 0 };
    counts.sort_by_key(|count| (Reverse(time(count)), Reverse(count.calls), count.number));
    let call = |count: &Count| Call {
        name: name(count.number),
        calls: count.calls,
        errors: count.errors,
        nanoseconds: shown.time.then_some(count.nanoseconds),
    };
    counts.iter().map(call).collect()
}

/// Makes the tables for looking up names before they are needed.
pub(super) fn prepare() {
    let _known = name(0);
}

/// A call's name.
pub(super) fn name(number: u32) -> Cow<'static, str> {
    match Syscall::from_number(Arch::X86_64, number) {
        Some(call) => call.name().into(),
        None => format!("syscall_{number}").into(),
    }
}

fn json(outcome: &Outcome, shown: &Shown) -> String {
    let document = Document {
        schema: SCHEMA,
        calls: calls(outcome, shown),
        sites: shown.sites.as_ref(),
        programs: outcome.images,
        not_interposed: outcome.lost,
        traps: outcome.traps,
        sites_patched: outcome.patched,
        sites_not_patchable: outcome.unpatchable,
    };
    serde_json::to_string_pretty(&document).map(|text| text + "\n").unwrap_or_default()
}

fn text(outcome: &Outcome, shown: &Shown) -> String {
    let mut text = String::new();
    if shown.count {
        let calls = calls(outcome, shown);
        let all = Call {
            name: "total".into(),
            calls: calls.iter().map(|call| call.calls).sum(),
            errors: calls.iter().map(|call| call.errors).sum(),
            nanoseconds: shown.time.then(|| calls.iter().filter_map(|call| call.nanoseconds).sum()),
        };
        let (head, rule) = if shown.time { (TIMED, TIMED_RULE) } else { (COUNTED, COUNTED_RULE) };
        let _ = writeln!(text, "{head}\n{rule}");
        for call in &calls {
            line(&mut text, call, &all);
        }
        let _ = writeln!(text, "{rule}");
        line(&mut text, &all, &all);
    }
    if let Some(found) = &shown.sites {
        sites::write(&mut text, found);
    }
    if outcome.lost > 0 {
        let programs = if outcome.lost == 1 { "program was" } else { "programs were" };
        let _ = writeln!(text, "palisade: note: {} {programs} not interposed, and not counted", outcome.lost);
    }
    text
}

/// The headings, as strace writes them.
const COUNTED: &str = "% calls      calls    errors syscall";
const COUNTED_RULE: &str = "------- ---------- --------- ----------------";
const TIMED: &str = "% time      seconds  usecs/call      calls    errors syscall";
const TIMED_RULE: &str = "------ ------------ ----------- ---------- --------- ----------------";

fn line(text: &mut String, call: &Call<'_>, all: &Call<'_>) {
    let share = |part: u64, of: u64| {
        let share = (u128::from(part) * 10_000).checked_div(u128::from(of)).unwrap_or(0);
        (share / 100, share % 100)
    };
    let Call { name, calls, errors, nanoseconds } = call;
    let errors = if *errors == 0 { String::new() } else { errors.to_string() };
    let _ = match (*nanoseconds, all.nanoseconds) {
        (Some(took), Some(of)) => {
            let (whole, part) = share(took, of);
            let (seconds, rest) = (took / 1_000_000_000, took % 1_000_000_000);
            let each = took.checked_div(*calls).unwrap_or(0);
            let _ = write!(text, "{whole:>3}.{part:02} {seconds:>2}.{rest:09} ");
            let _ = write!(text, "{:>7}.{:03} ", each / 1000, each % 1000);
            writeln!(text, "{calls:>10} {errors:>9} {name}")
        }
        _ => {
            let (whole, part) = share(*calls, all.calls);
            writeln!(text, "{whole:>4}.{part:02} {calls:>10} {errors:>9} {name}")
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_interpose::launch::Found;

    #[test]
    fn the_table_is_sorted_and_names_what_it_can() {
        let count = |number, calls, errors| Count { number, calls, errors, nanoseconds: calls * 1234 };
        let outcome = Outcome {
            status: std::process::ExitStatus::default(),
            counts: vec![count(0, 1, 0), count(257, 5, 2), count(511, 1, 1)],
            images: 1,
            lost: 1,
            traps: 3,
            patched: 0,
            unpatchable: 0,
            dropped: 0,
            bodiless: 0,
            found: Found::default(),
        };
        assert_eq!(
            text(&outcome, &Shown { count: true, time: false, sites: None }),
            "% calls      calls    errors syscall\n\
             ------- ---------- --------- ----------------\n\
             \u{20} 71.42          5         2 openat\n\
             \u{20} 14.28          1           read\n\
             \u{20} 14.28          1         1 syscall_511\n\
             ------- ---------- --------- ----------------\n\
             \u{20}100.00          7         3 total\n\
             palisade: note: 1 program was not interposed, and not counted\n"
        );
        let timed = Shown { count: true, time: true, sites: None };
        assert_eq!(
            text(&outcome, &timed),
            "% time      seconds  usecs/call      calls    errors syscall\n\
             ------ ------------ ----------- ---------- --------- ----------------\n\
             \u{20}71.42  0.000006170       1.234          5         2 openat\n\
             \u{20}14.28  0.000001234       1.234          1           read\n\
             \u{20}14.28  0.000001234       1.234          1         1 syscall_511\n\
             ------ ------------ ----------- ---------- --------- ----------------\n\
             100.00  0.000008638       1.234          7         3 total\n\
             palisade: note: 1 program was not interposed, and not counted\n"
        );
        let json: serde_json::Value = serde_json::from_str(&json(&outcome, &timed)).unwrap();
        assert_eq!(json["calls"][0]["name"], "openat");
        assert_eq!(json["calls"][0]["nanoseconds"], 6170);
        assert_eq!(json["sites"], serde_json::Value::Null);
        assert_eq!(json["not_interposed"], 1);
    }
}
