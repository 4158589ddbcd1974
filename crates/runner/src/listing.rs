// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists the tests of a program: the program prints them.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use crate::programs::Program;

/// Why a program's tests aren't known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListError {
    #[error("can't start {}: {source}", path.display())]
    Start { path: std::path::PathBuf, source: std::io::Error },
    #[error("{} --list failed: {said}", path.display())]
    Failed { path: std::path::PathBuf, said: String },
}

/// The names of the tests that a run with these variables starts. Other tests start those marked `#[ignore]`.
///
/// # Errors
/// [`ListError`].
pub(crate) fn tests(program: &Program, environment: &[(String, String)]) -> Result<Vec<String>, ListError> {
    let all = listed(program, environment, &[])?;
    // A program without libtest ignores the option and would list the same tests again.
    let ignored: BTreeSet<String> = listed(program, environment, &["--ignored"])?.into_iter().collect();
    if ignored.len() == all.len() {
        return Ok(all);
    }
    Ok(all.into_iter().filter(|name| !ignored.contains(name)).collect())
}

fn listed(
    program: &Program,
    environment: &[(String, String)],
    more: &[&str],
) -> Result<Vec<String>, ListError> {
    let output = Command::new(&program.path)
        .args(["--list", "--format", "terse"])
        .args(more)
        .current_dir(&program.directory)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .output()
        .map_err(|source| ListError::Start { path: program.path.clone(), source })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(ListError::Failed { path: program.path.clone(), said });
    }
    Ok(named(&String::from_utf8_lossy(&output.stdout)))
}

fn named(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_what_stands_before_the_kind() {
        let text = "a::b: test\nc: benchmark\n\n2 tests, 1 benchmark\nd::e: test\n";
        assert_eq!(super::named(text), ["a::b", "d::e"]);
    }
}
