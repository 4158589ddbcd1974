// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that what people do in a project directory works in a sandbox at first try, or after the option that the refusal
//! names. `workflows.toml` has the cases.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{self, Place, Run, everybody, has, job, ordinary};
use serde::Deserialize;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};

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
    /// Further launches in the same directory, each with options of its own.
    #[serde(default)]
    then: Vec<Launch>,
    hint: Option<String>,
    /// It takes seconds.
    #[serde(default)]
    long: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Launch {
    #[serde(default)]
    options: Vec<String>,
    command: String,
}

/// Registries with one package, until this is dropped.
struct Registries {
    server: Child,
    port: String,
}

impl Registries {
    fn start(place: &Place) -> Self {
        let mut python = place.command("/usr/bin/python3");
        python.args(["-c", include_str!("workflows/registry.py")]);
        let mut server = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { server, port: port.trim().to_owned() }
    }

    /// A text of a case with the registries' port.
    fn fill(&self, text: &str) -> String {
        text.replace("@PORT@", &self.port)
    }
}

impl Drop for Registries {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.server.stdin.take());
        let _ended = self.server.wait();
    }
}

/// The directories of Go and of a user's Rust come after those of the system.
fn path(place: &Place) -> String {
    format!("{}:/usr/local/go/bin:{}/.cargo/bin", support::PATH, place.home.display())
}

/// Downloads of the control, which would make the launch inside easier.
const FORGET: &str =
    "chmod -R u+w ~/go 2>/dev/null; rm -rf ~/go ~/.npm ~/.cache/pip ~/.cache/go-build ~/.cargo/registry";

impl Workflow {
    /// Makes the project in `work/NAME`, and returns the directory in which the command runs.
    fn project(&self, place: &Place, registries: &Registries, name: &str) -> PathBuf {
        place.outside(&format!(
            "rm -rf ~/work/{name}; mkdir -p ~/work/{name}; cd ~/work/{name}; {}",
            registries.fill(&self.prepare)
        ));
        place.work.join(name).join(&self.directory)
    }

    /// The launches, the first of which gets `more` options.
    fn launches<'w>(&'w self, more: &[&str]) -> impl Iterator<Item = (Vec<String>, &'w str)> {
        let options = self.options.iter().cloned().chain(more.iter().map(|option| (*option).to_owned()));
        let then = self.then.iter().map(|launch| (launch.options.clone(), launch.command.as_str()));
        std::iter::once((options.collect(), self.command.as_str())).chain(then)
    }

    /// Runs the commands up to the first one that fails.
    fn outside(&self, place: &Place, registries: &Registries) -> Run {
        let directory = self.project(place, registries, "outside");
        let mut last = None;
        for (_options, command) in self.launches(&[]) {
            let mut shell = place.command("sh");
            shell.args(["-c", &registries.fill(command)]).env("PATH", path(place));
            let run = job::finish(shell.current_dir(&directory));
            if last.insert(run).code != 0 {
                break;
            }
        }
        place.outside(FORGET);
        last.unwrap()
    }

    /// As [`outside`](Self::outside).
    fn inside(&self, place: &Place, registries: &Registries, more: &[&str]) -> Run {
        let directory = self.project(place, registries, "inside");
        let mut last = None;
        for (options, command) in self.launches(more) {
            let options: Vec<String> = options.iter().map(|option| registries.fill(option)).collect();
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let mut palisade = place.palisade(&options, &["sh", "-c", &registries.fill(command)]);
            let run = job::finish(palisade.current_dir(&directory).env("PATH", path(place)));
            if last.insert(run).code != 0 {
                break;
            }
        }
        last.unwrap()
    }

    /// What is wrong. `None`: nothing, or it can't be tried here.
    fn wrong(&self, place: &Place, registries: &Registries) -> Option<String> {
        let is_there = |program: &&String| {
            let mut shell = place.command("sh");
            shell.args(["-c", "command -v \"$0\"", program.as_str()]);
            job::finish(shell.env("PATH", path(place))).code == 0
        };
        if let Some(program) = self.needs.iter().find(|program| !is_there(program)) {
            eprintln!("not tried: {}: no {program} here", self.name);
            return None;
        }
        let control = self.outside(place, registries);
        if control.code != 0 {
            return Some(format!("the control failed: {control:?}"));
        }
        let inside = self.inside(place, registries, &[]);
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
        let permitted = self.inside(place, registries, &option);
        (permitted.code != 0).then(|| format!("with {option:?}: {permitted:?}"))
    }
}

/// Tries the workflows that take as long as `long` says. All must work, whoever starts them.
fn try_all(long: bool) {
    let cases: Cases = toml::from_str(include_str!("workflows.toml")).unwrap();
    // Compiling takes minutes, so that one person does it.
    let people = if long { vec![ordinary()] } else { everybody() };
    for place in people {
        place.outside(
            "printf '[user]\\n\\tname = a\\n\\temail = a@example.org\\n[init]\\n\\tdefaultBranch = main\\n' >~/.gitconfig",
        );
        if long && has("rustup") {
            crate::applications::install_toolchain(&place);
        }
        let registries = Registries::start(&place);
        let tried = cases.workflow.iter().filter(|case| case.long == long);
        let failed: Vec<String> = tried
            .filter_map(|case| {
                case.wrong(&place, &registries)
                    .map(|wrong| format!("{} ({}): {wrong}", case.name, place.name()))
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
