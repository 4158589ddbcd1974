// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the keys that only profiles and features have.

use toml::de::{DeTable, DeValue};

use super::{Node, Problem, Reader, find};
use crate::agent::{self, Agent};
use crate::condition::Condition;
use crate::feature::Want;
use crate::grammar::SECTIONS;
use crate::launch::{Capture, Hook, Made, MadeFile, Runs, Stanza, When};
use crate::layer::{Layer, Sourced, Strength};
use crate::pattern::PathPattern;
use crate::settings::Configuration;
use crate::template;
use crate::value::ValueError;
use crate::word::List;

/// The keys of a hook.
pub(crate) const HOOK: [&str; 7] =
    ["command", "profile", "arguments", "attach", "may_fail", "environment", "capture"];

/// The keys of `[launch]`.
pub(crate) const STANZA: [&str; 7] =
    ["package", "arguments", "input", "exit", "output", "window", "offscreen"];

/// The keys of `[agent]`.
pub(crate) const AGENT: [&str; 5] = ["npm", "pypi", "page", "nested", "login"];

impl Reader<'_> {
    pub(super) fn names_in(&mut self, table: &DeTable<'_>, key: &str) -> Vec<Sourced<String>> {
        let Some(node) = find(table, key) else { return Vec::new() };
        let names = self.strings(key, node);
        names.into_iter().map(|(name, span)| self.sourced(name, span)).collect()
    }

    /// Parses `features` and `without`.
    pub(super) fn wants(&mut self, table: &DeTable<'_>) -> Vec<Sourced<Want>> {
        let mut wants = Vec::new();
        for (key, wanted) in [("features", true), ("without", false)] {
            for Sourced { value: name, origin, strength } in self.names_in(table, key) {
                wants.push(Sourced { value: Want { name, wanted }, origin, strength });
            }
        }
        wants
    }

    /// Parses the top-level keys of a feature.
    pub(super) fn feature(&mut self, root: &DeTable<'_>) {
        self.policy.conflicts = self.names_in(root, "conflicts");
        let Some(node) = find(root, "when") else { return };
        for (text, span) in self.strings("when", node) {
            match Condition::new(&text) {
                Ok(condition) => {
                    let condition = self.sourced(condition, span);
                    self.policy.when.push(condition);
                }
                Err(error) => self.error(Problem::Condition(error), span),
            }
        }
    }

    pub(super) fn words_of(&mut self, name: &str, list: List, node: &Node<'_>) {
        for item in self.list(name, node) {
            let text = match (list, item.get_ref()) {
                (List::IgnoreExit, DeValue::Integer(_)) => {
                    self.integer(name, "a list of numbers", item).map(|number| number.to_string())
                }
                (List::IgnoreExit, other) => {
                    self.wrong_type(name, "a list of numbers", other, item.span());
                    None
                }
                _ => self.string(name, item),
            };
            let Some(text) = text else { continue };
            let span = item.span();
            if self.checked(list.check(&text), &span).is_some() {
                let stated = self.sourced((list, text), span);
                self.policy.settings.lists.push(stated);
            }
        }
    }

    pub(super) fn made(&mut self, name: &str, made: Made, node: &Node<'_>) {
        let Some(table) = self.table(name, node) else { return };
        for (path, content) in table {
            let span = path.span();
            if !self.count(&span) {
                return;
            }
            let Some(content) = self.string(path.get_ref(), content) else { continue };
            if let Err(error) = template::check(&content) {
                self.error(Problem::Pattern(error), span);
                continue;
            }
            match PathPattern::one_path(path.get_ref().as_ref()) {
                Ok(path) => {
                    let file = self.sourced(MadeFile { made, path, content }, span);
                    self.policy.settings.files.push(file);
                }
                Err(error) => self.error(Problem::Pattern(error), span),
            }
        }
    }

    pub(super) fn hooks(&mut self, name: &str, when: When, node: &Node<'_>) {
        if self.policy.layer == Layer::Project {
            // A user who allows a project to state what it may access doesn't allow it to run programs outside.
            return self.error(Problem::HookNotAllowed, node.span());
        }
        let tables: Vec<&Node<'_>> = match (when, node.get_ref()) {
            (When::Parent, _) => vec![node],
            (_, DeValue::Array(tables)) => tables.iter().collect(),
            (_, other) => return self.wrong_type(name, "a list of tables", other, node.span()),
        };
        for node in tables {
            if !self.count(&node.span()) {
                return;
            }
            if let Some(table) = self.table(name, node)
                && let Some(hook) = self.hook(when, table, node)
            {
                let hook = self.sourced(hook, node.span());
                self.policy.settings.hooks.push(hook);
            }
        }
    }

    fn hook(&mut self, when: When, table: &DeTable<'_>, node: &Node<'_>) -> Option<Hook> {
        self.refuse_unknown(table, "hooks", &HOOK);
        let mut arguments = self.arguments(table, "command");
        let profile = find(table, "profile").and_then(|node| self.string("profile", node));
        let runs = match (arguments.is_empty(), profile) {
            (true, Some(profile)) => Runs::Profile(profile),
            (false, None) => Runs::Program(arguments.remove(0)),
            _ => {
                self.error(Problem::HookRuns, node.span());
                return None;
            }
        };
        arguments.extend(self.arguments(table, "arguments"));
        let mut on = |key: &str| find(table, key).and_then(|node| self.switch(key, node)).unwrap_or(false);
        let (attach, may_fail, environment) = (on("attach"), on("may_fail"), on("environment"));
        let capture = find(table, "capture").and_then(|node| self.one_of("capture", node, &Capture::ALL));
        Some(Hook { when, runs, arguments, attach, may_fail, environment, capture })
    }

    /// A list of texts that may contain variables.
    fn arguments(&mut self, table: &DeTable<'_>, key: &str) -> Vec<String> {
        let Some(node) = find(table, key) else { return Vec::new() };
        let mut out = Vec::new();
        for (text, span) in self.strings(key, node) {
            let wrong = |_| ValueError::Word { text: text.clone(), what: "an argument" };
            if self.checked(template::check(&text).map_err(wrong), &span).is_some() {
                out.push(text);
            }
        }
        out
    }

    /// Parses `[launch]`.
    pub(super) fn stanza(&mut self, root: &DeTable<'_>) {
        let Some(node) = find(root, "launch") else { return };
        let Some(table) = self.table("launch", node) else { return };
        self.refuse_unknown(table, "launch", &STANZA);
        let mut word = |key: &str| find(table, key).and_then(|node| self.string(key, node));
        let (package, input) = (word("package"), word("input"));
        let (output, window) = (word("output"), word("window"));
        let arguments = find(table, "arguments").map(|node| self.strings("arguments", node));
        let exit = find(table, "exit").and_then(|node| self.number("exit", node)).unwrap_or(0);
        let offscreen = find(table, "offscreen").and_then(|node| self.switch("offscreen", node));
        let Ok(exit) = u8::try_from(exit) else {
            return self.error(Problem::OutOfRange { key: "exit".into(), largest: 255 }, node.span());
        };
        self.policy.launch = Some(Stanza {
            package,
            arguments: arguments.into_iter().flatten().map(|(text, _)| text).collect(),
            input,
            exit,
            output,
            window,
            offscreen: offscreen.unwrap_or(false),
        });
    }

    /// Parses `[agent]`.
    pub(super) fn agent(&mut self, root: &DeTable<'_>) {
        let Some(node) = find(root, "agent") else { return };
        let Some(table) = self.table("agent", node) else { return };
        self.refuse_unknown(table, "agent", &AGENT);
        let mut word = |key: &str| find(table, key).and_then(|node| self.string(key, node));
        let (npm, pypi, page, nested) = (word("npm"), word("pypi"), word("page"), word("nested"));
        let mut login = Vec::new();
        for (text, span) in find(table, "login").map(|node| self.strings("login", node)).into_iter().flatten()
        {
            let fine = agent::is_below_home(&text);
            let wrong = ValueError::Word { text: text.clone(), what: "a path below the home, without `..`" };
            if self.checked(if fine { Ok(()) } else { Err(wrong) }, &span).is_some() {
                login.push(text);
            }
        }
        self.policy.agent = Some(Agent { npm, pypi, page, nested, login });
    }

    /// Parses `[configurations]`.
    pub(super) fn configurations(&mut self, root: &DeTable<'_>) {
        let Some(node) = find(root, "configurations") else { return };
        let Some(tables) = self.table("configurations", node) else { return };
        for (key, node) in tables {
            let Some(table) = self.table(key.get_ref(), node) else { continue };
            let mut known: Vec<&'static str> = vec!["features", "without"];
            known.extend(SECTIONS.iter().map(|section| section.name));
            self.refuse_unknown(table, "configurations", &known);
            // The statements of a configuration are parsed into `self.policy.settings`. The file's own statements are
            // restored afterwards.
            let own = std::mem::take(&mut self.policy.settings);
            self.strength = Strength::Set;
            self.sections(table);
            let settings = std::mem::replace(&mut self.policy.settings, own);
            let features = self.wants(table);
            let name = self.sourced(key.get_ref().as_ref().to_owned(), key.span());
            self.policy.configurations.push(Configuration { name, features, settings });
        }
    }
}
