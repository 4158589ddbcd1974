// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of calls: by how often they were made.

use super::error::InterposeError;
use crate::answer::SCHEMA;
use crate::output;
use palisade_interpose::launch::Outcome;
use palisade_syscall::{Arch, Syscall};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Where the table goes.
pub(super) struct Table {
    file: Option<(PathBuf, File)>,
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: u32,
    calls: Vec<Call<'a>>,
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

    /// Writes what came of a command.
    pub(super) fn write(self, outcome: &Outcome) -> Result<(), InterposeError> {
        let text = if self.json { json(outcome) } else { table(outcome) };
        match self.file {
            None => output::say(&text),
            Some((path, mut file)) => {
                file.write_all(text.as_bytes()).map_err(|source| InterposeError::Write { path, source })?
            }
        }
        Ok(())
    }
}

fn calls(outcome: &Outcome) -> Vec<Call<'static>> {
    let mut counts = outcome.counts.clone();
    counts.sort_by_key(|count| (std::cmp::Reverse(count.calls), count.number));
    counts
        .iter()
        .map(|count| Call { name: name(count.number), calls: count.calls, errors: count.errors })
        .collect()
}

/// A call's name.
pub(super) fn name(number: u32) -> Cow<'static, str> {
    match Syscall::from_number(Arch::X86_64, number) {
        Some(call) => call.name().into(),
        None => format!("syscall_{number}").into(),
    }
}

fn json(outcome: &Outcome) -> String {
    let document = Document {
        schema: SCHEMA,
        calls: calls(outcome),
        programs: outcome.images,
        not_interposed: outcome.lost,
        traps: outcome.traps,
        sites_patched: outcome.patched,
        sites_not_patchable: outcome.unpatchable,
    };
    serde_json::to_string_pretty(&document).map(|text| text + "\n").unwrap_or_default()
}

fn table(outcome: &Outcome) -> String {
    let mut text =
        String::from("% calls      calls    errors syscall\n------- ---------- --------- ----------------\n");
    let calls = calls(outcome);
    let all: u64 = calls.iter().map(|call| call.calls).sum();
    let errors: u64 = calls.iter().map(|call| call.errors).sum();
    for call in &calls {
        line(&mut text, call.calls, call.errors, &call.name, all);
    }
    text.push_str("------- ---------- --------- ----------------\n");
    line(&mut text, all, errors, "total", all);
    if outcome.lost > 0 {
        let programs = if outcome.lost == 1 { "program was" } else { "programs were" };
        let _ = writeln!(text, "palisade: note: {} {programs} not interposed, and not counted", outcome.lost);
    }
    text
}

fn line(text: &mut String, calls: u64, errors: u64, name: &str, all: u64) {
    let share = (calls * 10_000).checked_div(all).unwrap_or(0);
    let errors = if errors == 0 { String::new() } else { errors.to_string() };
    let _ = writeln!(text, "{:>4}.{:02} {calls:>10} {errors:>9} {name}", share / 100, share % 100);
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_interpose::launch::Count;

    #[test]
    fn the_table_is_sorted_and_names_what_it_can() {
        let count = |number, calls, errors| Count { number, calls, errors };
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
        };
        assert_eq!(
            table(&outcome),
            "% calls      calls    errors syscall\n\
             ------- ---------- --------- ----------------\n\
             \u{20} 71.42          5         2 openat\n\
             \u{20} 14.28          1           read\n\
             \u{20} 14.28          1         1 syscall_511\n\
             ------- ---------- --------- ----------------\n\
             \u{20}100.00          7         3 total\n\
             palisade: note: 1 program was not interposed, and not counted\n"
        );
        let json: serde_json::Value = serde_json::from_str(&json(&outcome)).unwrap();
        assert_eq!(json["calls"][0]["name"], "openat");
        assert_eq!(json["not_interposed"], 1);
    }
}
