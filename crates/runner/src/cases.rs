// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks how many tests each suite has: it counts them in the sources and compares with `tests/cases.toml`. A suite
//! that shrinks needs an entry there that states why, now and in every earlier version of the file.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::options::CasesRequest;
use crate::run::root;

/// The file.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Noted {
    /// Tests by suite.
    #[serde(default)]
    cases: BTreeMap<String, u64>,
    /// Suites that have become smaller.
    #[serde(default)]
    shrunk: Vec<Shrunk>,
}

/// A suite that has become smaller, and why.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Shrunk {
    suite: String,
    from: u64,
    to: u64,
    why: String,
}

const FILE: &str = "tests/cases.toml";
const HEAD: &str = "\
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# How many tests each suite has. `./x test cases --write` renews the numbers; a number gets smaller only with an
# entry [[shrunk]] that says why.
";

/// Compares the numbers or writes them. Returns whether no suite shrank without a reason.
///
/// # Errors
/// What can't be read or written.
pub(crate) fn main(request: &CasesRequest) -> Result<bool, Box<dyn Error>> {
    let root = root();
    let path = root.join(FILE);
    let now = count(&root)?;
    let noted = match std::fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text).map_err(|error| format!("{FILE}: {error}"))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Noted::default(),
        Err(error) => return Err(format!("can't read {FILE}: {error}").into()),
    };
    let mut wrong = shrunk(&noted.cases, &now, &noted.shrunk);
    wrong.extend(history(&root)?);
    if wrong.is_empty() && request.write {
        let text = text(&now, &noted.shrunk);
        let new = path.with_extension("toml.new");
        std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path))?;
    } else if noted.cases != now && wrong.is_empty() {
        wrong.push(format!("{FILE} is not up to date\nhint: ./x test cases --write"));
    }
    let total: u64 = now.values().sum();
    let mut out = std::io::stderr().lock();
    for line in &wrong {
        let _nobody_reads = writeln!(out, "x: {line}");
    }
    let _nobody_reads = writeln!(out, "x: {total} tests in {} suites", now.len());
    Ok(wrong.is_empty())
}

/// Suites that are smaller than before without a reason.
fn shrunk(before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>, reasons: &[Shrunk]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (suite, from) in before {
        let to = now.get(suite).copied().unwrap_or(0);
        let explained = reasons.iter().any(|one| {
            one.suite == *suite && one.from == *from && one.to == to && !one.why.trim().is_empty()
        });
        if to < *from && !explained {
            wrong.push(format!(
                "{suite} had {from} tests and has {to}\nhint: add to {FILE}: \
                 [[shrunk]] suite = {suite:?}, from = {from}, to = {to}, why = \"…\""
            ));
        }
    }
    wrong
}

/// Checks every version of the file in git, so it also finds a number that was made smaller by hand.
fn history(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let git = |words: &[&str]| -> Option<String> {
        let output = Command::new("git").arg("-C").arg(root).args(words).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // A copy without git has no history to compare with.
    let Some(commits) = git(&["log", "--first-parent", "--format=%H", "--", FILE]) else {
        return Ok(Vec::new());
    };
    let mut newer: Noted = match std::fs::read_to_string(root.join(FILE)) {
        Ok(text) => toml::from_str(&text)?,
        Err(_) => return Ok(Vec::new()),
    };
    let mut wrong = Vec::new();
    for commit in commits.lines() {
        let Some(text) = git(&["show", &format!("{commit}:{FILE}")]) else { continue };
        let older: Noted = toml::from_str(&text)?;
        wrong.extend(shrunk(&older.cases, &newer.cases, &newer.shrunk));
        newer = older;
    }
    Ok(wrong)
}

fn text(now: &BTreeMap<String, u64>, reasons: &[Shrunk]) -> String {
    let mut text = format!("{HEAD}\n[cases]\n");
    for (suite, count) in now {
        text.push_str(&format!("{suite:?} = {count}\n"));
    }
    for one in reasons {
        text.push_str(&format!(
            "\n[[shrunk]]\nsuite = {:?}\nfrom = {}\nto = {}\nwhy = {:?}\n",
            one.suite, one.from, one.to, one.why
        ));
    }
    text
}

/// Counts the tests of every suite in the sources.
fn count(root: &Path) -> std::io::Result<BTreeMap<String, u64>> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut crates: Vec<PathBuf> = below(&root.join("crates"))?;
    crates.sort();
    for directory in crates.iter().filter(|path| path.join("Cargo.toml").is_file()) {
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut add = |suite: String, tests: u64| {
            if tests > 0 {
                *counts.entry(suite).or_default() += tests;
            }
        };
        for file in files(&directory.join("src"))? {
            add(format!("{name}/unit"), in_file(&file)?);
        }
        let tests = directory.join("tests");
        for file in files(&tests)? {
            let Ok(own) = file.strip_prefix(&tests) else { continue };
            let suite = own.components().next().map(|part| part.as_os_str().to_string_lossy().into_owned());
            let suite = suite.unwrap_or_default();
            let suite = suite.strip_suffix(".rs").or(suite.strip_suffix(".list")).unwrap_or(&suite);
            add(format!("{name}/{suite}"), in_file(&file)?);
        }
    }
    for file in files(&root.join("tests/acceptance"))? {
        let tests = in_file(&file)?;
        if tests > 0 {
            counts.insert(
                format!("acceptance/{}", file.file_stem().unwrap_or_default().to_string_lossy()),
                tests,
            );
        }
    }
    Ok(counts)
}

/// The tests of one file: functions in sources, lines in lists, cases in data.
fn in_file(path: &Path) -> std::io::Result<u64> {
    let kind = path.extension().and_then(|kind| kind.to_str());
    let is_test: fn(&str) -> bool = match kind {
        Some("rs") => |line| line == "#[test]",
        Some("list") => |line| !line.is_empty() && !line.starts_with('#'),
        Some("toml") => |line| line == "[[case]]",
        _ => return Ok(0),
    };
    let text = String::from_utf8_lossy(&std::fs::read(path)?).into_owned();
    Ok(text.lines().filter(|line| is_test(line.trim())).map(|_| 1).sum())
}

fn below(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// All files below a directory.
fn files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in below(directory)? {
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(suite, count)| ((*suite).to_owned(), *count)).collect()
    }

    #[test]
    fn a_suite_may_shrink_only_for_a_stated_reason() {
        let (before, now) = (counts(&[("a", 3), ("b", 2)]), counts(&[("a", 2), ("b", 4)]));
        assert_eq!(shrunk(&before, &now, &[]).len(), 1);
        let reason = |to, why: &str| Shrunk { suite: "a".into(), from: 3, to, why: why.into() };
        assert!(shrunk(&before, &now, &[reason(2, "two were the same")]).is_empty());
        assert_eq!(shrunk(&before, &now, &[reason(1, "another time")]).len(), 1);
        assert_eq!(shrunk(&before, &now, &[reason(2, " ")]).len(), 1);
        // A suite that was removed has shrunk, too.
        assert_eq!(shrunk(&before, &counts(&[("b", 2)]), &[]).len(), 1);
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let reasons = || vec![Shrunk { suite: "a".into(), from: 3, to: 2, why: "\"twice\"".into() }];
        let now = counts(&[("a", 2), ("b/c", 4)]);
        let read: Noted = toml::from_str(&text(&now, &reasons())).unwrap();
        assert_eq!(read, Noted { cases: now, shrunk: reasons() });
    }

    #[test]
    fn this_crate_has_tests() {
        let counts = count(&root()).unwrap();
        assert!(counts["runner/unit"] >= 20, "{counts:?}");
        assert!(counts["acceptance/files"] > 0);
    }
}
