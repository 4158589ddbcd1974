// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All protected names, with their reasons, and those that a policy takes off the list.

use crate::answer::{self, Failure, YES};
use crate::situation::Place;
use palisade::Situation;
use palisade_policy::names::{GROUP, built_in};
use palisade_policy::{Content, Layer, NameRule, Policy, Protect, Strength};
use palisade_text::harmless;
use serde::Serialize;
use std::fmt::Write as _;

/// What names that no list groups are listed under.
const OTHERS: &str = "policy";

/// The answer.
#[derive(Debug, Serialize)]
struct Answer {
    /// Always `names`.
    kind: &'static str,
    mode: Protect,
    mode_from: Place,
    names: Vec<Name>,
    #[serde(skip)]
    mode_shown: String,
}

/// One name.
#[derive(Debug, Serialize)]
struct Name {
    name: String,
    group: String,
    reason: String,
    protected: bool,
    /// Who says so.
    #[serde(flatten)]
    place: Place,
    carried: bool,
    except_below: Vec<String>,
    content: Content,
    /// It is one path inside, not a name at any depth.
    anchored: bool,
    /// Who says so, unless nobody had to.
    #[serde(skip)]
    stated: Option<String>,
}

/// Lists and prints.
pub(crate) fn explain(situation: &Situation, json: bool) -> Result<u8, Failure> {
    let resolved = situation.resolved()?;
    let policy = situation.policy();
    let mode = policy.protect();
    let answer = Answer {
        kind: "names",
        mode: mode.value,
        mode_from: Place::of(&mode),
        mode_shown: format!("protect = {:?} ({})", mode.value.key(), mode.origin),
        names: names(policy, resolved.protected_paths()),
    };
    if json {
        answer::print_json(&answer)?;
    } else {
        answer::print(&answer.words())?;
    }
    Ok(YES)
}

/// The built-in names in their order, then what the policy adds.
fn names(policy: &Policy, paths: Vec<NameRule>) -> Vec<Name> {
    let mut rules: Vec<NameRule> = policy.names().rules().to_vec();
    let mut names = Vec::with_capacity(rules.len());
    for entry in built_in() {
        let held = rules.iter().position(|rule| rule.path == entry.rule.path);
        let protected = held.is_some();
        let rule = held.map_or_else(|| entry.rule.clone(), |at| rules.remove(at));
        let mut name = Name::new(rule, entry.group.clone(), protected);
        // Who took it off; if nobody did, it wasn't on.
        if let Some(taken) = policy.stated_of(entry).filter(|_taken| !protected && entry.on) {
            name.place = Place::of(&taken);
            name.stated = Some(taken.origin.to_string());
        }
        names.push(name);
    }
    names.extend(rules.into_iter().chain(paths).map(|rule| Name::new(rule, OTHERS.to_owned(), true)));
    names
}

/// How firmly a rule is stated: what nobody has said yields to everything.
pub(crate) fn strength(rule: &NameRule) -> Strength {
    match (rule.locked, rule.origin.layer) {
        (true, _) => Strength::Locked,
        (false, Layer::BuiltIn) => Strength::Default,
        (false, _) => Strength::Set,
    }
}

impl Name {
    fn new(rule: NameRule, group: String, protected: bool) -> Self {
        let strength = strength(&rule);
        let slash = if rule.anchored { "/" } else { "" };
        let place = Place::new(&rule.origin, strength);
        let stated = rule.origin.to_string();
        Self {
            name: format!("{slash}{}", rule.path),
            group,
            reason: rule.reason,
            protected,
            stated: (rule.origin.layer != Layer::BuiltIn).then_some(stated),
            place,
            carried: rule.carried,
            except_below: rule.except_below,
            content: rule.content,
            anchored: rule.anchored,
        }
    }

    fn words(&self) -> String {
        let mut words = self.reason.clone();
        words.push_str(match self.content {
            Content::Never => "",
            Content::GitConfig => "; a change that names no command is let through",
            Content::WithDirectory => "; it may be made in a directory that is new",
            Content::Directory => "; a directory may be made",
        });
        if let Some(stated) = &self.stated {
            let locked = if self.place.strength == Strength::Locked { ", locked" } else { "" };
            let _infallible = write!(words, " ({stated}{locked})");
        }
        words
    }
}

impl Answer {
    fn words(&self) -> String {
        let mut text = format!("{}\n", harmless(&self.mode_shown));
        let width = self.names.iter().map(|name| name.name.chars().count()).max().unwrap_or_default();
        let mut put = |heading: &str, names: &[&Name]| {
            if names.is_empty() {
                return;
            }
            let _infallible = writeln!(text, "\n{}", harmless(heading));
            for name in names {
                let line = format!("  {:<width$}  {}", name.name, name.words());
                let _infallible = writeln!(text, "{}", harmless(&line));
            }
        };
        let protected: Vec<&Name> = self.names.iter().filter(|name| name.protected).collect();
        for group in protected.chunk_by(|a, b| a.group == b.group) {
            put(group.first().map_or(OTHERS, |name| &name.group), group);
        }
        let free: Vec<&Name> = self.names.iter().filter(|name| !name.protected).collect();
        for group in free.chunk_by(|a, b| a.group == b.group) {
            put(&format!("not protected: {}", group.first().map_or(OTHERS, |name| &name.group)), group);
        }
        // The same ones for all names that have any.
        if let Some(name) = self.names.iter().find(|name| !name.except_below.is_empty()) {
            let below = name.except_below.join(", ");
            let _infallible =
                writeln!(text, "\nnames that repositories carry aren't protected below {below}");
        }
        if let Some(name) = free.first() {
            let entry = format!("{GROUP}{}", name.group);
            let _infallible = write!(
                text,
                "\nto protect a group  palisade run --protect-name {entry} -- COMMAND…\n                    \
                 or in a policy: [filesystem] protect_names = [{entry:?}]\n"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::situation;

    #[test]
    fn every_name_is_listed_with_who_says_so() {
        let situation = situation::of_administrator(
            "[filesystem]\nprotect_names = [\"own/x\", \".circleci\"]\nallow_names = [\".envrc\"]\n\
             protect_paths = [\"/srv/*\"]\n[locked.filesystem]\nprotect_names = [\".vscode\"]\n",
        );
        let names = names(situation.policy(), situation.resolved().unwrap().protected_paths());
        let shown = |name: &str| {
            let name = names.iter().find(|listed| listed.name == name).unwrap();
            (name.protected, name.place.layer, name.words())
        };
        assert_eq!(shown(".git/hooks"), (true, "built in", "git runs what is in it".to_owned()));
        assert!(!shown(".envrc").0);
        assert!(shown(".envrc").2.ends_with(" (administrator)"), "{:?}", shown(".envrc"));
        assert_eq!(shown(".github/workflows").1, "built in");
        assert!(shown(".circleci").0 && shown(".circleci").1 == "administrator");
        assert!(shown(".vscode").2.ends_with(" (administrator, locked)"));
        assert_eq!(
            shown("own/x"),
            (true, "administrator", "the policy protects it (administrator)".to_owned())
        );
        assert!(shown("/srv/*").0);
        assert!(!shown("CLAUDE.md").0 && shown(".jj/repo").2.ends_with("; a directory may be made"));
        assert_eq!(names.len(), built_in().len() + 2);
    }

    #[test]
    fn groups_are_listed_with_what_protects_them() {
        let listed = |administrator: &str| {
            let situation = situation::of_administrator(administrator);
            let policy = situation.policy();
            let mode = policy.protect();
            Answer {
                kind: "names",
                mode: mode.value,
                mode_from: Place::of(&mode),
                mode_shown: String::new(),
                names: names(policy, Vec::new()),
            }
            .words()
        };
        let text = listed("");
        for heading in ["\nagent\n", "\nnot protected: run-by-hand\n", "\nnot protected: instructions\n"] {
            assert!(text.contains(heading), "{heading} {text}");
        }
        assert!(text.contains("[filesystem] protect_names = [\"group:ci\"]"), "{text}");
        let text = listed(
            "[filesystem]\nprotect_names = [\"group:run-by-hand\"]\nallow_names = [\"group:agent\", \".bazelrc\"]\n",
        );
        assert!(text.contains("\nrun-by-hand\n") && text.contains("\nnot protected: agent\n"), "{text}");
        let line =
            |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap().to_owned();
        assert!(line("bunfig.toml ").ends_with(" (administrator)"), "{text}");
        assert!(line(".mcp.json ").ends_with(" (administrator)"), "{text}");
        let below = text.split("\nnot protected: run-by-hand\n").nth(1).unwrap();
        assert!(below.trim_start().starts_with(".bazelrc "), "{text}");
    }
}
