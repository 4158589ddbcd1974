// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares docs/agents/NAME.md with the profiles. `PALISADE_AGENT_PAGES=write ./x test sandbox/unit/layers::agent_pages`
//! writes the pages.

use super::profiles::{self, Embedded};
use palisade_policy::agent::Agent;
use palisade_policy::environment::EnvironmentRule;
use palisade_policy::{Access, Layer, LayerPolicy};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

type Parse = fn(&str, Option<&Path>, Layer) -> Result<LayerPolicy, Vec<palisade_policy::ParseError>>;

fn parsed(embedded: &[Embedded], name: &str, parse: Parse) -> LayerPolicy {
    let found = embedded.iter().find(|one| one.name == name).unwrap();
    parse(found.text, None, Layer::BuiltIn).unwrap()
}

/// The profiles of agents, each with its features.
fn agents() -> Vec<(LayerPolicy, Agent, Vec<LayerPolicy>)> {
    let all = profiles::EMBEDDED
        .iter()
        .map(|embedded| parsed(profiles::EMBEDDED, embedded.name, palisade_policy::parse));
    all.filter_map(|profile| {
        let agent = profile.agent.clone()?;
        let names = profile.features.iter().map(|want| want.value.name.clone());
        let features = names
            .map(|name| parsed(profiles::features::EMBEDDED, &name, palisade_policy::parse_feature))
            .collect();
        Some((profile, agent, features))
    })
    .collect()
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agents")
}

fn page(profile: &LayerPolicy, agent: &Agent, features: &[LayerPolicy]) -> String {
    let text = |value: &Option<palisade_policy::Sourced<String>>| value.as_ref().unwrap().value.clone();
    let (name, description) = (text(&profile.name), text(&profile.description));
    let mut out = format!(
        "# {name}\n\n{description} This page is generated from the agent's profile. [Agents](../agents.md) explains the words.\n"
    );
    let mut section = |title: &str, body: &str| {
        let _ = write!(out, "\n## {title}\n\n{body}");
    };
    let page = agent.page.clone().unwrap();
    let install = match (&agent.npm, &agent.pypi) {
        (None, None) => format!("The maker's page says how: <{page}>.\n"),
        _ => format!("```sh\n{}\n```\n\nThe maker's page: <{page}>.\n", agent.installing().unwrap()),
    };
    section("Install", &install);
    section(
        "Run",
        &format!(
            "```sh\npalisade agent setup {name}     # copies your login, after it was shown\npalisade agent {name}\n```\n"
        ),
    );
    let mut hosts = "| host | reason |\n|---|---|\n".to_owned();
    for rule in features.iter().chain([profile]).flat_map(|layer| &layer.settings.hosts) {
        let _ = writeln!(hosts, "| `{}` | {} |", rule.target, rule.reason.clone().unwrap_or_default());
    }
    section("What it can reach", &hosts);
    let kept = features.iter().chain([profile]).flat_map(|layer| &layer.settings.environment);
    let mut rows =
        "| what | where |\n|---|---|\n| home | `~/.local/share/palisade/homes/".to_owned() + &name + "` |\n";
    let list =
        |names: Vec<String>| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ");
    let login: Vec<String> = agent.login.iter().map(|file| format!("~/{file}")).collect();
    let _ = writeln!(rows, "| login and settings that `setup` copies | {} |", list(login));
    let protected = profile.settings.paths.iter().filter(|rule| rule.access == Access::Protect);
    let protected = protected.map(|rule| rule.pattern.as_str().unwrap().to_owned()).collect();
    let _ = writeln!(rows, "| its own settings that it can't change | {} |", list(protected));
    let keep = kept.clone().filter_map(|rule| match &rule.value {
        EnvironmentRule::Keep(name) => Some(name.clone()),
        _ => None,
    });
    let _ = writeln!(rows, "| variables that are passed on | {} |", list(keep.collect()));
    let set = kept.filter_map(|rule| match &rule.value {
        EnvironmentRule::Set { name, value } => Some(format!("{name}={value}")),
        _ => None,
    });
    let set: Vec<String> = set.collect();
    if !set.is_empty() {
        let _ = writeln!(rows, "| variables that are set | {} |", list(set));
    }
    section("What it has", &rows);
    section("Which sandbox", &format!("{}\n", agent.nested.clone().unwrap()));
    section(
        "Allow more",
        &format!(
            "```sh\npalisade agent --allow registry.npmjs.org {name}\npalisade agent --ro ~/data --rw ../other {name}\npalisade agent --ro .env {name}                # shows one hidden file\npalisade profile edit {name}                   # for each launch\n```\n"
        ),
    );
    out
}

#[test]
fn each_agent_has_its_page() {
    let write = std::env::var_os("PALISADE_AGENT_PAGES").is_some_and(|value| value == "write");
    let mut expected = Vec::new();
    for (profile, agent, features) in agents() {
        let file = directory().join(format!("{}.md", profile.name.as_ref().unwrap().value));
        let page = page(&profile, &agent, &features);
        if write {
            std::fs::create_dir_all(directory()).unwrap();
            std::fs::write(&file, &page).unwrap();
        }
        let there = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(
            there,
            page,
            "{}: PALISADE_AGENT_PAGES=write ./x test sandbox/unit/layers::agent_pages",
            file.display()
        );
        expected.push(file);
    }
    let there = std::fs::read_dir(directory()).unwrap().flatten().count();
    assert_eq!(there, expected.len(), "a page without an agent");
}

#[test]
fn each_agent_gets_its_keys_and_no_host_without_a_reason() {
    let all = agents();
    assert_eq!(all.len(), 11);
    for (profile, agent, features) in all {
        let name = &profile.name.as_ref().unwrap().value;
        let inherits: Vec<&str> = profile.inherits.iter().map(|name| name.value.as_str()).collect();
        assert_eq!(inherits, ["agent"], "{name}");
        assert!(agent.nested.is_some() && agent.page.is_some() && !agent.login.is_empty(), "{name}");
        let hosts: Vec<_> =
            features.iter().chain([&profile]).flat_map(|layer| layer.settings.hosts.clone()).collect();
        assert!(!hosts.is_empty() && hosts.iter().all(|rule| rule.reason.is_some()), "{name}");
        assert!(hosts.iter().all(|rule| rule.target.to_string() != "*"), "{name}");
        let keep = features.iter().chain([&profile]).flat_map(|layer| &layer.settings.environment);
        assert!(keep.count() > 0, "{name}");
        let protects = profile.settings.paths.iter().any(|rule| rule.access == Access::Protect);
        assert!(protects, "{name}");
    }
}
