// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the command line.

/// What `--help` prints.
pub(crate) const HELP: &str = "\
./x test [all] [-p CRATE]... [TEXT]...   run tests

  all             the long run: every suite, both guest kernels, bubblewrap beside Palisade, the shipped binary
  TEXT            only tests whose name contains TEXT; a whole name as printed by --list runs only that test
  -p CRATE        build and run only the tests of this crate (palisade-host or host); may be repeated
  --list          print the names of the tests and run none
  --slots N       run N tests at once (default: 2 to 5 for each processor, more while they idle)
  --verbose       print every test as it ends
  --no-build      take the test programs as the last run built them

  A name is CRATE/PROGRAM/TEST, for example host/unit/elf::tests::a_library_without_a_name.
  PALISADE_BASE=COMMIT skips suites of the long run whose files are as they were in that commit, by default the one in
  tests/all-green, at which all of them were last green; PALISADE_BASE= skips none.
";

/// What was asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Print [`HELP`].
    Help,
    /// Counting the tests of each suite.
    Cases(CasesRequest),
    /// Running tests.
    Run(RunRequest),
}

/// A request about the number of tests in each suite.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CasesRequest {
    /// Write the numbers down instead of comparing them.
    pub(crate) write: bool,
}

/// Which tests, and how.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RunRequest {
    /// Every suite, also those of the long run.
    pub(crate) all: bool,
    /// Only these crates, without `palisade-`.
    pub(crate) crates: Vec<String>,
    /// Only tests whose names contain one of these.
    pub(crate) only: Vec<String>,
    /// Print the names only.
    pub(crate) list: bool,
    /// Tests at once.
    pub(crate) slots: Option<usize>,
    /// Print every test.
    pub(crate) verbose: bool,
    /// Don't call cargo.
    pub(crate) no_build: bool,
}

/// Reads the arguments.
///
/// # Errors
/// An option that is unknown or lacks its value.
pub(crate) fn parse(arguments: &[String]) -> Result<Request, Box<dyn std::error::Error>> {
    let mut run = RunRequest::default();
    let mut words = arguments.iter().map(String::as_str).peekable();
    match words.peek() {
        Some(&"cases") => {
            return match &arguments[1..] {
                [] => Ok(Request::Cases(CasesRequest::default())),
                [one] if one == "--write" => Ok(Request::Cases(CasesRequest { write: true })),
                _ => Err("cases takes no argument except --write".into()),
            };
        }
        Some(&"all") => {
            run.all = true;
            words.next();
        }
        _ => {}
    }
    while let Some(word) = words.next() {
        let value = |value: Option<&str>| value.map(str::to_owned).ok_or(format!("{word} needs a value"));
        match word {
            "-h" | "--help" => return Ok(Request::Help),
            "-p" | "--package" => {
                let name = value(words.next())?;
                run.crates.push(name.strip_prefix("palisade-").unwrap_or(&name).to_owned());
            }
            "--slots" => {
                let text = value(words.next())?;
                let slots = text.parse().ok().filter(|slots| (1..=64).contains(slots));
                run.slots = Some(slots.ok_or(format!("--slots {text}: not a number from 1 to 64"))?);
            }
            "--list" => run.list = true,
            "--verbose" => run.verbose = true,
            "--no-build" => run.no_build = true,
            // Accepted and ignored, for scripts that pass it: no run stops at a failure.
            "--no-fail-fast" => {}
            _ if word.starts_with('-') => {
                return Err(format!("{word}: no such option\nhint: ./x test --help").into());
            }
            _ => run.only.push(word.to_owned()),
        }
    }
    Ok(Request::Run(run))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn words_select_tests_and_crates_lose_their_prefix() {
        let Ok(Request::Run(run)) = parsed("all -p palisade-cli -p host broker --slots 3") else {
            panic!("a run")
        };
        assert!(run.all);
        assert_eq!(run.crates, ["cli", "host"]);
        assert_eq!(run.only, ["broker"]);
        assert_eq!(run.slots, Some(3));
    }

    #[test]
    fn what_is_not_known_is_an_error() {
        for line in ["--fast", "-p", "--slots none", "--slots 0", "cases --read"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
