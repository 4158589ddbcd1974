// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bwrap`: the same arguments for bubblewrap and for `palisade bwrap`.
//!
//! The lists are those of callers: one tree; a whole sandbox; and 60 mounts, as a sandbox for agents makes them.

use crate::bench::{Bench, BenchError};
use crate::entry::{Claim, Entry, Missing};
use crate::peers;
use crate::programs;
use crate::suite::Suite;
use crate::summary::Report;
use crate::template::Template;
use crate::workload;
use std::fs;
use std::io;
use std::path::Path;

/// Trees, and files, that the longest list mounts one by one.
const EACH: usize = 30;

/// `true`, started with three lists of arguments.
#[derive(Debug)]
pub(crate) struct Bwrap;

impl Suite for Bwrap {
    fn name(&self) -> &'static str {
        "bwrap"
    }

    fn about(&self) -> &'static str {
        "Wall time of a command started by bubblewrap, and by `palisade bwrap` with the same arguments"
    }

    fn run(&self, bench: &mut Bench) -> Result<Report, BenchError> {
        let work = bench.session.work();
        prepare(&work).map_err(|error| BenchError::NoWorkload { reasons: error.to_string() })?;
        let nothing =
            workload::nothing().map_err(|error| BenchError::NoWorkload { reasons: error.to_string() })?;
        let mut missing = Vec::new();
        let mut others = Vec::new();
        let own = programs::palisade(bench.options.binary.as_deref());
        let peer = programs::on_path("bwrap");
        for (name, arguments) in lists(&work) {
            for (launcher, program, verb, how) in [
                ("palisade bwrap", &own, &["bwrap"][..], peers::HOW_TO_BUILD),
                ("bubblewrap", &peer, &[][..], "`bwrap` is not on PATH; apt install bubblewrap"),
            ] {
                let name = format!("{launcher}, {name}");
                match program {
                    Some(program) => {
                        let program = program.to_string_lossy();
                        let mut words = vec![&*program];
                        words.extend(verb);
                        words.extend(arguments.iter().map(String::as_str));
                        others.push(entry(name, &words, verb.is_empty()));
                    }
                    None => missing.push(Missing { name, how: how.to_owned() }),
                }
            }
        }
        others.retain(|entry| bench.filter.accepts(nothing.name, &entry.name));
        let plain = bench.prove(super::baselines())?;
        let proven = bench.prove(others)?;
        let rows: Vec<_> = plain.iter().chain(&proven).collect();
        let table = bench.measure(&nothing, &rows)?;
        bench.keep(table)?;
        bench.report(missing, &[])
    }
}

fn entry(name: String, words: &[&str], peer: bool) -> Entry {
    Entry {
        name,
        template: Template::of(words),
        claims: vec![Claim::NoWritingOutside],
        version: Vec::new(),
        peer,
    }
}

/// Makes what the longest list mounts.
fn prepare(work: &Path) -> io::Result<()> {
    for number in 0..EACH {
        fs::create_dir_all(work.join(format!("tree{number}")))?;
        fs::write(work.join(format!("file{number}")), "")?;
    }
    Ok(())
}

/// The lists, each with its name.
fn lists(work: &Path) -> [(&'static str, Vec<String>); 3] {
    let words = |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
    let one = words(&["--ro-bind", "/", "/", "--bind", "{W}", "{W}"]);
    let mut whole = words(&["--unshare-all", "--die-with-parent", "--new-session"]);
    whole.extend(one.iter().cloned());
    whole.extend(words(&["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]));
    // The working directory may lie below `/tmp`.
    whole.extend(words(&["--bind", "{W}", "{W}"]));
    let mut many = whole.clone();
    for number in 0..EACH {
        for (option, kind) in [("--bind", "tree"), ("--ro-bind", "file")] {
            let path = work.join(format!("{kind}{number}")).to_string_lossy().into_owned();
            many.extend([option.to_owned(), path.clone(), path]);
        }
    }
    [("one tree", one), ("a whole sandbox", whole), ("60 mounts more", many)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_list_has_sixty_mounts_more() {
        let [_, (_, whole), (_, many)] = lists(Path::new("/w"));
        let mounts = |list: &[String]| list.iter().filter(|word| word.ends_with("bind")).count();
        assert_eq!(mounts(&many), mounts(&whole) + 2 * EACH);
    }
}
