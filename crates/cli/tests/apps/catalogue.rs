// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Selects the applications to open: those of `apps.list`, and others that this host has.

use super::sample;
use crate::support::{Place, job};
use palisade_policy::Layer;
use palisade_policy::launch::Stanza;
use palisade_sandbox::layers::profiles;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What `PALISADE_APPS` asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The listed ones that every run of the tests opens.
    Few,
    /// All listed ones.
    All,
    /// These.
    Named(BTreeSet<String>),
}

impl Wanted {
    /// Reads the variable.
    pub(crate) fn of_environment() -> Self {
        match std::env::var("PALISADE_APPS").as_deref() {
            Err(_) | Ok("" | "ci") => Self::Few,
            Ok("all") => Self::All,
            Ok(names) => Self::Named(names.split([',', ' ']).map(str::to_owned).collect()),
        }
    }
}

/// A profile that says how it is launched.
#[derive(Debug)]
pub(crate) struct Application {
    /// The profile.
    pub(crate) name: &'static str,
    /// How it is launched and what shows that it works.
    pub(crate) launch: Stanza,
    /// Its program is on this host.
    pub(crate) installed: bool,
}

impl Application {
    /// What it is to do, in words.
    pub(crate) fn job(&self) -> String {
        let launch = &self.launch;
        let sample = launch.arguments.iter().any(|argument| sample::is_coloured(argument));
        match (&launch.window, &launch.output) {
            (Some(window), _) if sample => format!("shows the sample in “{window}”"),
            (Some(window), _) => format!("draws a window “{window}”"),
            (None, Some(output)) => {
                let part: String = output.chars().take(24).collect();
                let more = if part.len() < output.len() { "…" } else { "" };
                format!("prints “{part}{more}”")
            }
            (None, None) => format!("ends with {}", launch.exit),
        }
    }
}

/// The applications that are to be opened.
pub(crate) fn applications(wanted: &Wanted, place: &Place) -> Vec<Application> {
    let listed = listed();
    let installed = installed(place);
    let mut found = Vec::new();
    for profile in profiles::EMBEDDED {
        let parsed = palisade_policy::parse(profile.text, None, Layer::BuiltIn)
            .unwrap_or_else(|errors| panic!("{}", errors[0].render(false)));
        let Some(launch) = parsed.launch else { continue };
        let set = listed.get(profile.name);
        let (installed, listed) = (installed.contains(profile.name), set.is_some());
        let chosen = match wanted {
            Wanted::Few => set.is_some_and(|always| *always),
            Wanted::All => listed,
            Wanted::Named(names) => names.contains(profile.name),
        };
        if chosen {
            found.push(Application { name: profile.name, launch, installed });
        }
    }
    let known = |name: &str| found.iter().any(|application| application.name == name);
    let must: Vec<&str> = match wanted {
        Wanted::Few => listed.iter().filter(|(_, always)| **always).map(|(name, _)| name.as_str()).collect(),
        Wanted::All => listed.keys().map(String::as_str).collect(),
        Wanted::Named(names) => names.iter().map(String::as_str).collect(),
    };
    for name in must {
        assert!(known(name), "{name}: no profile of that name says how it is launched");
    }
    found
}

/// The names in `apps.list`, and whether they are opened in every run.
fn listed() -> BTreeMap<String, bool> {
    let text = std::fs::read_to_string(source("tests/apps.list")).unwrap();
    let entries = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let mut listed = BTreeMap::new();
    for line in entries {
        let mut words = line.split_whitespace();
        let (name, set) = (words.next().unwrap(), words.next());
        assert!(matches!(set, Some("ci" | "all")), "apps.list: {line}: `ci` or `all`");
        let before = listed.insert(name.to_owned(), set == Some("ci"));
        assert_eq!(before, None, "apps.list: {name} twice");
    }
    listed
}

/// Profiles whose programs are installed, from `palisade profile list`.
fn installed(place: &Place) -> BTreeSet<String> {
    let run = job::finish(place.command(place.binary()).args(["profile", "list", "--installed", "--json"]));
    let list: serde_json::Value = serde_json::from_str(run.ok()).unwrap();
    let profiles = list["profiles"].as_array().unwrap();
    profiles.iter().map(|profile| profile["name"].as_str().unwrap().to_owned()).collect()
}

/// Compares the results with the list of tested applications that `palisade profile list` shows, or updates that list.
///
/// # Errors
/// What is wrong with the list.
pub(crate) fn check_tested(wanted: &Wanted, results: &[(&'static str, bool)]) -> Result<(), String> {
    let file = source("../sandbox/src/data/profiles/tested.list");
    let text = std::fs::read_to_string(&file).unwrap();
    let old: BTreeSet<&str> = text.lines().collect();
    let mut new = old.clone();
    for (name, worked) in results {
        if *worked {
            new.insert(name);
        } else {
            new.remove(name);
        }
    }
    // An application that was removed from the list of applications isn't tested any more.
    if *wanted == Wanted::All {
        new.retain(|name| results.iter().any(|(result, _)| result == name));
    }
    if std::env::var_os("PALISADE_APPS_TESTED").is_some_and(|how| how == "write") {
        let text: String = new.iter().map(|name| format!("{name}\n")).collect();
        std::fs::write(&file, text).unwrap();
        return Ok(());
    }
    let gone: Vec<&&str> = old.difference(&new).collect();
    let come: Vec<&&str> = new.difference(&old).collect();
    let renew = "PALISADE_APPS_TESTED=write ./x test apps";
    if !gone.is_empty() {
        return Err(format!("tested.list names what doesn't work: {gone:?}; {renew} renews it"));
    }
    if *wanted == Wanted::All && !come.is_empty() {
        return Err(format!("tested.list lacks what works: {come:?}; {renew} renews it"));
    }
    Ok(())
}

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
