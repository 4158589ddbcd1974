// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps how long tests took: the longest start first, and the remaining time is estimated from it.

use std::collections::BTreeMap;
use std::path::Path;

/// Seconds by the name of the test.
#[derive(Debug, Default)]
pub(crate) struct Times(BTreeMap<String, f64>);

/// The expected time of a test that never ran.
const UNKNOWN: f64 = 0.3;
/// Shorter times aren't worth a line in the committed file.
const WORTH_NOTING: f64 = 2.0;

impl Times {
    /// Reads the committed times; those of the last run on this machine override them.
    pub(crate) fn read(committed: &Path, last: &Path) -> Times {
        let mut times = Times::default();
        for path in [committed, last] {
            // A missing file changes only the order in which jobs start.
            for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
                if let Some((name, seconds)) = line.split_once('\t')
                    && let Ok(seconds) = seconds.parse::<f64>()
                    && seconds.is_finite()
                {
                    times.0.insert(name.to_owned(), seconds.max(0.0));
                }
            }
        }
        times
    }

    /// Seconds that a test is expected to take.
    pub(crate) fn of(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(UNKNOWN)
    }

    /// Records how long a test took.
    pub(crate) fn note(&mut self, name: &str, seconds: f64) {
        self.0.insert(name.to_owned(), seconds);
    }

    /// All times, for the next run on this machine.
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|(name, seconds)| format!("{name}\t{seconds:.3}\n")).collect()
    }

    /// The times that are long enough for a line in the repository.
    pub(crate) fn long_ones(&self) -> String {
        let long = self.0.iter().filter(|(_, seconds)| **seconds >= WORTH_NOTING);
        long.map(|(name, seconds)| format!("{name}\t{seconds:.0}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_run_here_outdoes_what_is_committed() {
        let directory = std::env::temp_dir().join(format!("palisade-times-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let (committed, last) = (directory.join("one"), directory.join("two"));
        std::fs::write(&committed, "a\t5\nb\t7\nnonsense\nc\tNaN\n").unwrap();
        std::fs::write(&last, "a\t1.5\n").unwrap();
        let mut times = Times::read(&committed, &last);
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!((times.of("a"), times.of("b"), times.of("c")), (1.5, 7.0, UNKNOWN));
        times.note("d", 3.0);
        assert_eq!(times.long_ones(), "b\t7\nd\t3\n");
        assert!(times.text().contains("a\t1.500\n"));
    }
}
