// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes jobs from tests: one process for each integration test, several tests to a process for unit tests.

use crate::base::Base;
use crate::options::RunRequest;
use crate::programs::Program;
use crate::schedule::Needs;
use crate::suites::{Special, Suites};
use crate::times::Times;

/// How many unit tests share a process at most. They are short; a process for each would cost more than the tests.
const TOGETHER: usize = 48;
/// Seconds of work in one process of unit tests.
const WORK: f64 = 8.0;

/// A test and where it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    /// `CRATE/PROGRAM/TEST`.
    pub(crate) name: String,
    /// The name that the program uses.
    pub(crate) own: String,
}

/// One process.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// What is started.
    pub(crate) program: Program,
    /// With these of its tests.
    pub(crate) tests: Vec<Test>,
    /// Which other jobs may run at the same time.
    pub(crate) needs: Needs,
    /// Seconds that one test may take on an idle machine.
    pub(crate) limit: u64,
    /// Seconds that it is expected to take.
    pub(crate) expected: f64,
}

/// Tests that are left out, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Their names.
    pub(crate) tests: Vec<String>,
    /// The reason, from `suites.toml`.
    pub(crate) why: String,
}

/// The time limit of a test, in seconds, unless `suites.toml` states another.
const LIMIT: u64 = 120;

/// Whether a test is requested: by its full name, or else by a part of it.
fn is_wanted(request: &RunRequest, names: &[String], name: &str) -> bool {
    request.only.is_empty()
        || request
            .only
            .iter()
            .any(|text| if names.contains(text) { text == name } else { name.contains(text) })
}

/// Makes the jobs, the longest first.
pub(crate) fn jobs(
    programs: &[(Program, Vec<String>)],
    request: &RunRequest,
    suites: &Suites,
    base: &Base,
    times: &Times,
) -> (Vec<Job>, Vec<LeftOut>) {
    let names = names(programs);
    let mut jobs: Vec<Job> = Vec::new();
    let mut left_out: Vec<LeftOut> = Vec::new();
    for (program, own) in programs {
        let mut short: Vec<Test> = Vec::new();
        for own in own {
            let test = Test { name: name(program, own), own: own.clone() };
            if !is_wanted(request, &names, &test.name) {
                continue;
            }
            let special = suites.of(&test.name);
            if let Some((files, why)) = &special.long
                && !request.all
                && request.only.is_empty()
                && !base.touches(files)
            {
                match left_out.iter_mut().find(|one| one.why == *why) {
                    Some(one) => one.tests.push(test.name),
                    None => left_out.push(LeftOut { tests: vec![test.name], why: why.clone() }),
                }
                continue;
            }
            if program.target == "unit" && special == Special::default() {
                short.push(test);
            } else {
                jobs.push(job(program, vec![test], &special, times));
            }
        }
        // Each process of unit tests gets about the same work.
        let mut together: Vec<Test> = Vec::new();
        for test in short {
            together.push(test);
            let work: f64 = together.iter().map(|test| times.of(&test.name).min(WORK)).sum();
            if together.len() == TOGETHER || work >= WORK {
                jobs.push(job(program, std::mem::take(&mut together), &Special::default(), times));
            }
        }
        if !together.is_empty() {
            jobs.push(job(program, together, &Special::default(), times));
        }
    }
    jobs.sort_by(|one, other| other.expected.total_cmp(&one.expected));
    (jobs, left_out)
}

/// The names of all tests.
pub(crate) fn names(programs: &[(Program, Vec<String>)]) -> Vec<String> {
    programs.iter().flat_map(|(program, own)| own.iter().map(|own| name(program, own))).collect()
}

fn name(program: &Program, own: &str) -> String {
    format!("{}/{}/{own}", program.package, program.target)
}

fn job(program: &Program, tests: Vec<Test>, special: &Special, times: &Times) -> Job {
    let expected = tests.iter().map(|test| times.of(&test.name)).sum();
    let needs = Needs {
        serial: special.serial.clone(),
        exclusive: special.exclusive,
        slots: special.slots.unwrap_or(1),
    };
    Job { program: program.clone(), tests, needs, limit: special.limit.unwrap_or(LIMIT), expected }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn program(package: &str, target: &str) -> Program {
        Program {
            package: package.into(),
            target: target.into(),
            path: PathBuf::from("/t"),
            directory: PathBuf::from("/d"),
        }
    }

    fn planned(request: &RunRequest, suites: &str, base: &Base) -> (Vec<Vec<String>>, Vec<LeftOut>) {
        let programs = [
            (program("host", "unit"), (0..100).map(|number| format!("t{number}")).collect()),
            (program("cli", "integration"), vec!["a::x".into(), "a::xy".into(), "b::z".into()]),
        ];
        let suites = toml::from_str(suites).unwrap();
        let (jobs, left_out) = jobs(&programs, request, &suites, base, &Times::default());
        let names = jobs.iter().map(|job| job.tests.iter().map(|test| test.name.clone()).collect()).collect();
        (names, left_out)
    }

    #[test]
    fn unit_tests_share_processes_and_integration_tests_do_not() {
        let (jobs, _) = planned(&RunRequest::default(), "", &Base::None(String::new()));
        let total: usize = jobs.iter().map(Vec::len).sum();
        assert_eq!(total, 103);
        assert!(jobs.iter().all(|tests| tests.len() == 1 || tests[0].starts_with("host/unit/")));
        assert!(jobs.len() < 10, "{}", jobs.len());
    }

    #[test]
    fn a_whole_name_selects_one_test_and_a_part_selects_several() {
        let only = |text: &str| RunRequest { only: vec![text.into()], ..RunRequest::default() };
        let none = Base::None(String::new());
        assert_eq!(planned(&only("cli/integration/a::x"), "", &none).0, [["cli/integration/a::x"]]);
        assert_eq!(planned(&only("a::"), "", &none).0.len(), 2);
    }

    #[test]
    fn a_suite_of_the_long_run_is_left_out_by_name_unless_its_files_differ() {
        let suites = "[[suite]]\ntests = 'cli/integration/b::'\nwhy = 'slow'\nlong = ['crates/b']\n";
        let changed = |path: &str| Base::Changed(vec![path.into()]);
        let (jobs, left_out) = planned(&RunRequest::default(), suites, &changed("docs/x"));
        assert_eq!(jobs.iter().flatten().filter(|name| name.contains("b::z")).count(), 0);
        assert_eq!(left_out, [LeftOut { tests: vec!["cli/integration/b::z".into()], why: "slow".into() }]);
        for (request, base) in [
            (RunRequest { all: true, ..RunRequest::default() }, changed("docs/x")),
            (RunRequest { only: vec!["b::z".into()], ..RunRequest::default() }, changed("docs/x")),
            (RunRequest::default(), changed("crates/b/src/lib.rs")),
            (RunRequest::default(), Base::None(String::new())),
        ] {
            let (jobs, left_out) = planned(&request, suites, &base);
            assert_eq!(jobs.iter().flatten().filter(|name| name.contains("b::z")).count(), 1);
            assert!(left_out.is_empty());
        }
    }
}
