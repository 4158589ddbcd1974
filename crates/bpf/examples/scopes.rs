// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the cost of scopes by the kernel's run-time statistics: for each depth, with nothing marked, marked, and
//! watched. Also measures other designs, rebuilt, and what tables of marks do when a tree of processes is larger than they
//! are.
//!
//! This is the measuring half of `palisade-bench scopes`, which is static and can't load programs. It prints one line of
//! JSON for each measurement, and `palisade-bench` evaluates them. It isn't part of the daemon, which doesn't need the
//! other designs. To run it alone, as root: `cargo run --release -p palisade-bpf --example scopes -- [--commands N]
//! [--rounds N] [--only TEXT]…`.
//!
//! The load runs on one core with the highest priority there. Runs of the programs for other processes of the host count as
//! unmarked runs; most runs are the load's. Every figure includes the cost of the statistics (two clock readings);
//! `nothing` is that cost alone.

#[path = "scopes/cases.rs"]
mod cases;
#[path = "scopes/load.rs"]
mod load;
#[path = "scopes/pressure.rs"]
mod pressure;
#[path = "scopes/statistics.rs"]
mod statistics;

use std::error::Error;

use libbpf_rs::{Link, MapCore, Object};
use statistics::Statistics;

pub(crate) const RIVALS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rivals.bpf.o"));

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The command line options.
struct Options {
    commands: usize,
    rounds: usize,
    only: Vec<String>,
    list: bool,
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [verb, count] = words.as_slice()
        && let Some(kind) = load::Kind::of(verb)
    {
        return kind.work(count.parse()?);
    }
    let mut options = Options { commands: 4000, rounds: 5, only: Vec::new(), list: false };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--list" {
            options.list = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} takes a value"))?;
        match word.as_str() {
            "--commands" => options.commands = value.parse()?,
            "--rounds" => options.rounds = value.parse()?,
            "--only" => options.only.push(value),
            _ => return Err(format!("no such option: {word}").into()),
        }
    }
    if options.list {
        let cases = cases::names();
        let others = [load::Kind::Bare.name(), load::Kind::Shell.name(), "pressure"].map(str::to_owned);
        cases.into_iter().chain(others).for_each(|name| println!("{name}"));
        return Ok(());
    }
    let _statistics = Statistics::begin()?;
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|only| name.contains(only));
    for kind in [load::Kind::Bare, load::Kind::Shell] {
        if wanted(kind.name()) {
            let mut took = Vec::new();
            for _ in 0..options.rounds {
                took.push(load::alone(kind, options.commands)?);
            }
            println!("{{\"kind\":\"command\",\"by\":\"{}\",\"ns\":{}}}", kind.name(), list(&took));
        }
    }
    cases::all(options.commands, options.rounds, wanted)?;
    if wanted("pressure") { pressure::all() } else { Ok(()) }
}

/// Formats figures as a JSON array.
pub(crate) fn list(figures: &[f64]) -> String {
    let figures: Vec<String> = figures.iter().map(|figure| format!("{figure:.1}")).collect();
    format!("[{}]", figures.join(","))
}

pub(crate) fn map<'a>(object: &'a Object, name: &str) -> Result<libbpf_rs::Map<'a>> {
    object.maps().find(|map| map.name() == name).ok_or_else(|| format!("no map {name}").into())
}

pub(crate) fn attach(object: &Object, names: &[&str]) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for name in names {
        let program = object.progs_mut().find(|program| program.name() == *name).ok_or("no such program")?;
        links.push(program.attach_trace()?);
    }
    Ok(links)
}
