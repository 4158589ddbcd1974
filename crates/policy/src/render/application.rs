// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints the keys that only profiles and features have.

use std::fmt::Write;

use super::{Remarks, list, of, put, put_sections, string};
use crate::agent::Agent;
use crate::feature::Want;
use crate::launch::{Made, MadeFile, Runs, Stanza, When};
use crate::layer::{Sourced, Strength};
use crate::settings::{Configuration, LayerPolicy, Settings};

/// Prints the keys before all sections, `[launch]` and `[agent]`.
pub(super) fn top(out: &mut String, layer: &LayerPolicy) {
    let mut names = |key: &str, names: Vec<String>, always: bool| {
        if always || !names.is_empty() {
            put(out, key, &list(names.iter().map(|name| string(name)).collect(), Vec::new()));
        }
    };
    let each = |names: &[Sourced<String>]| names.iter().map(|name| name.value.clone()).collect();
    names("inherits", each(&layer.inherits), layer.says_inherits);
    names("features", wants(&layer.features, true), false);
    names("without", wants(&layer.features, false), false);
    names("conflicts", each(&layer.conflicts), false);
    names("when", layer.when.iter().map(|condition| condition.value.to_string()).collect(), false);
    if let Some(caveat) = &layer.caveat {
        put(out, "caveat", &string(&caveat.value));
    }
    if let Some(launch) = &layer.launch {
        stanza(out, launch);
    }
    if let Some(own) = &layer.agent {
        agent(out, own);
    }
}

/// Prints `[agent]`.
fn agent(out: &mut String, agent: &Agent) {
    let _ = writeln!(out, "\n[agent]");
    for (key, text) in
        [("npm", &agent.npm), ("pypi", &agent.pypi), ("page", &agent.page), ("nested", &agent.nested)]
    {
        if let Some(text) = text {
            put(out, key, &string(text));
        }
    }
    if !agent.login.is_empty() {
        put(out, "login", &list(agent.login.iter().map(|text| string(text)).collect(), Vec::new()));
    }
}

/// Prints `[launch]`.
fn stanza(out: &mut String, launch: &Stanza) {
    let _ = writeln!(out, "\n[launch]");
    for (key, text) in [
        ("package", &launch.package),
        ("input", &launch.input),
        ("output", &launch.output),
        ("window", &launch.window),
    ] {
        if let Some(text) = text {
            put(out, key, &string(text));
        }
    }
    if !launch.arguments.is_empty() {
        put(out, "arguments", &list(launch.arguments.iter().map(|text| string(text)).collect(), Vec::new()));
    }
    if launch.exit != 0 {
        put(out, "exit", &launch.exit.to_string());
    }
    if launch.offscreen {
        put(out, "offscreen", "true");
    }
}

fn wants(features: &[Sourced<Want>], wanted: bool) -> Vec<String> {
    let those = features.iter().filter(|want| want.value.wanted == wanted);
    those.map(|want| want.value.name.clone()).collect()
}

pub(super) fn configuration(out: &mut String, configuration: &Configuration) {
    let name = format!("configurations.{}", string(&configuration.name.value));
    let _ = writeln!(out, "\n[{name}]");
    for (key, wanted) in [("features", true), ("without", false)] {
        let names = wants(&configuration.features, wanted);
        if !names.is_empty() {
            put(out, key, &list(names.iter().map(|name| string(name)).collect(), Vec::new()));
        }
    }
    let prefix = format!("{name}.");
    put_sections(out, &prefix, &configuration.settings, Strength::Set, &Remarks::default());
}

/// Prints a table of paths and contents.
pub(super) fn made(from: &Settings, strength: Strength, made: Made) -> Option<String> {
    let mut files: Vec<&MadeFile> = Vec::new();
    for file in of(&from.files, strength).filter(|file| file.made == made) {
        // TOML allows a key only once in a table, so the last statement is printed, which wins.
        files.retain(|known| known.path != file.path);
        files.push(file);
    }
    let pair = |file: &MadeFile| Some(format!("{} = {}", string(file.path.as_str()?), string(&file.content)));
    let mut pairs: Vec<String> = files.into_iter().filter_map(pair).collect();
    pairs.sort_unstable();
    (!pairs.is_empty()).then(|| format!("{{ {} }}", pairs.join(", ")))
}

/// Prints tables of hooks.
pub(super) fn hooks(from: &Settings, strength: Strength, when: When) -> Vec<String> {
    let texts = |texts: &[String]| texts.iter().map(|text| string(text)).collect::<Vec<_>>().join(", ");
    of(&from.hooks, strength)
        .filter(|hook| hook.when == when)
        .map(|hook| {
            let mut parts = match &hook.runs {
                Runs::Program(program) => {
                    let mut command = vec![program.clone()];
                    command.extend(hook.arguments.iter().cloned());
                    vec![format!("command = [{}]", texts(&command))]
                }
                Runs::Profile(profile) => {
                    let mut parts = vec![format!("profile = {}", string(profile))];
                    if !hook.arguments.is_empty() {
                        parts.push(format!("arguments = [{}]", texts(&hook.arguments)));
                    }
                    parts
                }
            };
            for (key, on) in
                [("attach", hook.attach), ("may_fail", hook.may_fail), ("environment", hook.environment)]
            {
                if on {
                    parts.push(format!("{key} = true"));
                }
            }
            parts.extend(hook.capture.map(|capture| format!("capture = {}", string(capture.key()))));
            format!("{{ {} }}", parts.join(", "))
        })
        .collect()
}
