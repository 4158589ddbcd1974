// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that what people do in a project directory works in a sandbox at first try, or after the option that the refusal
//! names. `workflows.toml` has the cases.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{Place, Run, everybody, job};
use serde::Deserialize;
use std::path::PathBuf;

#[derive(Deserialize)]
struct Cases {
    workflow: Vec<Workflow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Workflow {
    name: String,
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    prepare: String,
    #[serde(default, rename = "in")]
    directory: String,
    #[serde(default)]
    options: Vec<String>,
    command: String,
    hint: Option<String>,
    /// It takes seconds.
    #[serde(default)]
    long: bool,
}

impl Workflow {
    /// Makes the project in `work/NAME`, and returns the directory in which the command runs.
    fn project(&self, place: &Place, name: &str) -> PathBuf {
        place.outside(&format!(
            "rm -rf ~/work/{name}; mkdir -p ~/work/{name}; cd ~/work/{name}; {}",
            self.prepare
        ));
        place.work.join(name).join(&self.directory)
    }

    fn outside(&self, place: &Place) -> Run {
        let directory = self.project(place, "outside");
        job::finish(place.command("sh").args(["-c", &self.command]).current_dir(directory))
    }

    fn inside(&self, place: &Place, more: &[&str]) -> Run {
        let directory = self.project(place, "inside");
        let options: Vec<&str> =
            self.options.iter().map(String::as_str).chain(more.iter().copied()).collect();
        job::finish(place.palisade(&options, &["sh", "-c", &self.command]).current_dir(directory))
    }

    /// What is wrong. `None`: nothing, or it can't be tried here.
    fn wrong(&self, place: &Place) -> Option<String> {
        let lacks = |program: &&String| place.outside(&format!("command -v {program} || true")).is_empty();
        if let Some(program) = self.needs.iter().find(lacks) {
            eprintln!("not tried: {}: no {program} here", self.name);
            return None;
        }
        let control = self.outside(place);
        if control.code != 0 {
            return Some(format!("the control failed: {control:?}"));
        }
        let inside = self.inside(place, &[]);
        let Some(hint) = &self.hint else {
            return (inside.code != 0).then(|| format!("{inside:?}"));
        };
        if inside.code == 0 {
            return Some("it works without the option, too".to_owned());
        }
        if !inside.err.lines().any(|line| line.ends_with(&format!("hint: {hint}"))) {
            return Some(format!("no hint {hint:?}: {inside:?}"));
        }
        let words = place.outside(&format!("printf '%s\\n' {}", hint.trim_end_matches('…')));
        let option: Vec<&str> = words.lines().skip(2).collect();
        let permitted = self.inside(place, &option);
        (permitted.code != 0).then(|| format!("with {option:?}: {permitted:?}"))
    }
}

/// Tries the workflows that take as long as `long` says. All must work, whoever starts them.
fn try_all(long: bool) {
    let cases: Cases = toml::from_str(include_str!("workflows.toml")).unwrap();
    for place in everybody() {
        place.outside(
            "printf '[user]\\n\\tname = a\\n\\temail = a@example.org\\n[init]\\n\\tdefaultBranch = main\\n' >~/.gitconfig",
        );
        let tried = cases.workflow.iter().filter(|case| case.long == long);
        let failed: Vec<String> = tried
            .filter_map(|case| {
                case.wrong(&place).map(|wrong| format!("{} ({}): {wrong}", case.name, place.name()))
            })
            .collect();
        assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
    }
}

#[test]
fn work_at_first_try() {
    try_all(false);
}

#[test]
fn longer_work_at_first_try() {
    try_all(true);
}
