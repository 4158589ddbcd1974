// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known of an agent on this host: its profile, its program, its home, its login and its keys.

use crate::verb::Failure;
use palisade_policy::agent::Agent;
use palisade_policy::{LayerPolicy, Policy};
use palisade_sandbox::facts::Facts;
use palisade_sandbox::layers::{self, Request, Sort, agent, application};
use palisade_text::quoted;
use serde::Serialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// An agent.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) name: String,
    profile: LayerPolicy,
    policy: Policy,
    pub(super) agent: Agent,
    /// Its program on this host.
    pub(super) program: Option<String>,
    /// The host's directory for its home.
    pub(super) home: Option<PathBuf>,
}

/// The names of the profiles that are agents', sorted.
pub(super) fn names(facts: &Facts) -> Vec<String> {
    let mut names: Vec<String> = layers::definitions(facts, Sort::Profile)
        .into_iter()
        .filter(|definition| layers::read(facts, definition).is_ok_and(|profile| profile.agent.is_some()))
        .map(|definition| definition.name)
        .collect();
    names.dedup();
    names
}

impl Known {
    /// The agent of a profile.
    pub(super) fn of(facts: &mut Facts, name: &OsStr) -> Result<Self, Failure> {
        facts.application = Some(application::named(name));
        let request = Request { profile: Some(name), open: true, configuration: None };
        let loaded = layers::load(facts, request, LayerPolicy::command_line())?;
        let shown = name.to_string_lossy().into_owned();
        let (Some(profile), policy) = (loaded.profile, loaded.policy) else {
            return Err(Failure::NoAgent { name: shown });
        };
        let Some(agent) = profile.agent.clone() else { return Err(Failure::NoAgent { name: shown }) };
        let program = application::program_of(facts, &shown, &policy);
        let home = agent::home(facts, &policy);
        let program = program.map(|program| program.to_string_lossy().into_owned());
        Ok(Self { name: shown, profile, policy, agent, program, home })
    }

    /// Its description.
    pub(super) fn description(&self) -> String {
        self.profile.description.as_ref().map(|text| text.value.clone()).unwrap_or_default()
    }

    /// What it has here.
    pub(super) fn report(&self, facts: &Facts) -> Report {
        let home = self.home.as_deref().unwrap_or(Path::new(""));
        let there = |file: &&String| home.join(file).symlink_metadata().is_ok();
        let outside = |file: &&String| facts.account.home.join(file).symlink_metadata().is_ok();
        let hosts = self
            .policy
            .network_rules()
            .rules
            .iter()
            .filter(|rule| rule.allow)
            .map(|rule| rule.target.to_string())
            .collect();
        Report {
            name: self.name.clone(),
            program: self.program.clone(),
            install: self.agent.installing().filter(|_| self.program.is_none()),
            home: home.to_string_lossy().into_owned(),
            login: self.agent.login.iter().filter(there).cloned().collect(),
            login_outside: self.agent.login.iter().filter(outside).cloned().collect(),
            keys: agent::keys(&self.policy)
                .into_iter()
                .filter(|key| facts.environment.get(key).is_some_and(|value| !value.is_empty()))
                .collect(),
            known_keys: agent::keys(&self.policy),
            hosts,
            nested: self.agent.nested.clone(),
        }
    }
}

/// What an agent has on this host.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    name: String,
    pub(super) program: Option<String>,
    /// The command that installs it, if it isn't installed.
    install: Option<String>,
    home: String,
    /// Files of its login in its own home.
    login: Vec<String>,
    /// Files of its login in the user's home.
    login_outside: Vec<String>,
    /// Keys that are passed on.
    keys: Vec<String>,
    /// Keys that would be passed on.
    known_keys: Vec<String>,
    hosts: Vec<String>,
    nested: Option<String>,
}

impl Report {
    /// The report for people.
    pub(super) fn words(&self) -> String {
        let mut lines = vec![self.name.clone()];
        let mut row = |name: &str, value: String| lines.push(format!("  {name:<8} {value}"));
        match (&self.program, &self.install) {
            (Some(program), _) => row("program", program.clone()),
            (None, Some(install)) => row("program", format!("not installed; to do: {install}")),
            (None, None) => row("program", "not installed".to_owned()),
        }
        row("home", self.home.clone());
        row(
            "login",
            match (self.login.is_empty(), self.login_outside.is_empty()) {
                (false, _) => self.login.join(", "),
                (true, false) => {
                    format!("none; to do: palisade agent setup {}   # copies yours", quoted(&self.name))
                }
                (true, true) => "none; log in inside".to_owned(),
            },
        );
        row(
            "keys",
            match (self.keys.is_empty(), self.known_keys.is_empty()) {
                (false, _) => self.keys.join(", "),
                (true, false) => format!("none is set (passed on: {})", self.known_keys.join(", ")),
                (true, true) => "none".to_owned(),
            },
        );
        row("hosts", self.hosts.join(", "));
        if let Some(nested) = &self.nested {
            row("sandbox", nested.clone());
        }
        lines.join("\n") + "\n"
    }
}
