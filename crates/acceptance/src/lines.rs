// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Suites that are tables, with one line for each test: `what is shown | the test that shows it | what the machine must
//! have`. It is a failure if the test of a line is missing, and if no line names a test. Each line is a test of its own.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::case::data_directory;
use crate::feature::Features;

/// Makes a `#[test]` of each line's function, and one that holds the table against them.
///
/// ```text
/// palisade_acceptance::lines! { include_str!("acceptance.list"); allow_by_path, sets }
/// ```
#[macro_export]
macro_rules! lines {
    ($table:expr; $($name:ident),* $(,)?) => {
        mod line {
            const TABLE: &str = $table;

            #[test]
            fn lines_and_tests_name_each_other() {
                $crate::lines::match_each_other(TABLE, &[$(stringify!($name)),*]);
            }

            $(
                #[test]
                fn $name() {
                    $crate::lines::run(TABLE, stringify!($name), super::$name);
                }
            )*
        }
    };
}

/// The lines of a table: what is shown, by which test, and what that needs.
///
/// # Panics
/// If a line has other than three fields.
pub fn lines(table: &str) -> Vec<[&str; 3]> {
    table
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|line| {
            let fields: Vec<&str> = line.split('|').map(str::trim).collect();
            fields.try_into().unwrap_or_else(|_| panic!("not a line of the table: {line}"))
        })
        .collect()
}

/// Whether the tests that lines name are those that there are.
///
/// # Panics
/// If they aren't.
pub fn match_each_other(table: &str, tests: &[&str]) {
    let named: BTreeSet<&str> = lines(table).iter().map(|line| line[1]).collect();
    let there: BTreeSet<&str> = tests.iter().copied().collect();
    assert_eq!(named, there, "lines and tests must name each other");
}

/// Runs the test of a line, if the machine has what its lines need.
///
/// # Panics
/// If the test fails, or a declared feature is missing.
pub fn run(table: &str, name: &str, test: fn()) {
    static FEATURES: OnceLock<Features> = OnceLock::new();
    let features =
        FEATURES.get_or_init(|| Features::find(&data_directory()).unwrap_or_else(|error| panic!("{error}")));
    let lines = lines(table);
    let mut needs = lines.iter().filter(|line| line[1] == name).flat_map(|line| line[2].split(','));
    match needs.find(|need| !need.trim().is_empty() && !features.has(need.trim())) {
        Some(missing) => eprintln!("not tried: {name}: no {} here", missing.trim()),
        None => test(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# a table\n\none thing | one | \nanother | other | root, ipv6\n";

    #[test]
    fn a_line_without_its_test_fails_and_so_does_a_test_without_a_line() {
        match_each_other(TABLE, &["other", "one"]);
        for tests in [&["one"][..], &["one", "other", "third"]] {
            assert!(std::panic::catch_unwind(|| match_each_other(TABLE, tests)).is_err());
        }
    }

    #[test]
    fn a_line_has_three_fields() {
        assert_eq!(lines(TABLE)[1], ["another", "other", "root, ipv6"]);
        assert!(std::panic::catch_unwind(|| lines("what | test")).is_err());
    }
}
