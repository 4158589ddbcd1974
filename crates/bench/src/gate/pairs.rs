// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Launches this palisade and an earlier one in turns: each once per round, in a new random order. Each run is verified.

use std::path::Path;

use super::GateError;
use crate::bench::{Bench, BenchError};
use crate::entry::Entry;
use crate::interleave::{Contender, Pace, interleave};
use crate::launch::Invocation;
use crate::statistics::{CONFIDENCE, certain_interval, median};
use crate::suite::gap;
use crate::summary::{Section, Table};
use crate::workload::Check;

/// Rounds that are run and verified but not counted. Plans are kept in them.
const WARM_UP: usize = 5;
const NOW: &str = "now";
const SAID: &str = "launched";

/// The result.
#[derive(Debug)]
pub(crate) struct Pairs {
    pub(crate) table: Table,
    /// Whether the difference is significant and more than allowed. `None` if one of the two failed.
    pub(crate) slower: Option<bool>,
}

/// Launches both. `most` is the highest allowed ratio of the times.
pub(crate) fn race(bench: &mut Bench, now: &Path, earlier: &Path, most: f64) -> Result<Pairs, BenchError> {
    // Without a home no plan is kept, and the time would be that of planning.
    let home = bench.session.scratch().join("home");
    std::fs::create_dir_all(&home).map_err(|source| GateError::Prepare { path: home.clone(), source })?;
    let launch = |palisade: &Path| -> Invocation {
        Invocation {
            argv: [palisade.as_os_str(), "run".as_ref(), "--".as_ref(), "/bin/echo".as_ref(), SAID.as_ref()]
                .map(Into::into)
                .into(),
            directory: bench.session.work(),
            variables: vec![("HOME".into(), home.clone().into())],
        }
    };
    let contender = |name: &str, palisade: &Path| Contender {
        name: name.to_owned(),
        invocation: launch(palisade),
        check: Check::Output(format!("{SAID}\n").into_bytes()),
        isolation: Vec::new(),
        peer: false,
    };
    let contenders =
        [contender("earlier", earlier), contender("earlier again (A/A)", earlier), contender(NOW, now)];
    for (name, path) in [("earlier", earlier), (NOW, now)] {
        let version = vec![path.to_string_lossy().into_owned(), "--version".to_owned()];
        bench.record_version(&Entry { version, ..Entry::plain(name) })?;
    }
    let pace =
        Pace { rounds: bench.options.rounds(), warm_up: WARM_UP, gap: gap(bench.options.gap), burst: 1 };
    let title = "launch of echo, beside an earlier palisade";
    bench.say(&format!("{title}: {} rounds", pace.rounds));
    let raced = interleave(bench, title, &contenders, &pace)?;
    let ratios = raced.series[2].paired(&raced.series[0], |now, earlier| now / earlier);
    let valid = raced.series.iter().all(|series| series.valid());
    let mut table = Table::summarise(title, pace.rounds, 1, raced.series, &mut bench.random);
    if raced.stopped {
        match bench.keep_begun(table)? {}
    }
    let (words, slower) = judge(&ratios, most);
    table.sections.push(words);
    Ok(Pairs { table, slower: slower.filter(|_| valid) })
}

/// Judges by the interval of the sign test: only a significant slowdown fails.
fn judge(ratios: &[f64], most: f64) -> (Section, Option<bool>) {
    let interval = certain_interval(ratios, CONFIDENCE);
    let slower = interval.map(|(low, _)| low > most);
    let three = |value: f64| format!("{value:.3}");
    let row = vec![
        median(ratios).map(three).unwrap_or_default(),
        interval.map_or("too few rounds".to_owned(), |(low, high)| format!("[{low:.3}, {high:.3}]")),
        format!("≤ {most:.3}"),
        match slower {
            Some(true) => "SLOWER",
            Some(false) => "ok",
            None => "not decided",
        }
        .to_owned(),
    ];
    let section = Section {
        title: "now / earlier, by the rounds' ratios".to_owned(),
        columns: ["median", "99%", "allowed", ""].map(str::to_owned).into(),
        rows: vec![row],
    };
    (section, slower)
}

/// The path of a named earlier program, if it is executable.
pub(crate) fn program(path: &Path) -> Result<std::path::PathBuf, GateError> {
    crate::programs::palisade(Some(path))
        .ok_or(GateError::Fails { path: path.to_owned(), why: "it is not an executable file".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_surely_slower_fails() {
        let around = |middle: f64| -> Vec<f64> {
            (0..200).map(|n| middle + (f64::from(n % 21) - 10.0) * 0.01).collect()
        };
        assert_eq!(judge(&around(1.0), 1.02).1, Some(false));
        assert_eq!(judge(&around(1.05), 1.02).1, Some(true));
        // The program may be slower, but this isn't certain.
        assert_eq!(judge(&around(1.03), 1.02).1, Some(false));
        assert_eq!(judge(&[1.5; 7], 1.02).1, None);
    }
}
