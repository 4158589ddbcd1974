// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists all protected names in words.

use crate::verb::{self, Failure, YES};
use palisade::Situation;
use palisade::explanation::{NamesExplanation, ProtectedName};
use palisade_policy::names::GROUP;
use palisade_policy::{Content, Strength};
use palisade_text::harmless;
use std::fmt::Write as _;

/// Lists and prints the names.
pub(crate) fn explain(situation: &Situation, json: bool) -> Result<u8, Failure> {
    verb::tell(json, &NamesExplanation::of(situation)?, words)?;
    Ok(YES)
}

fn about(name: &ProtectedName) -> String {
    let mut words = name.reason.clone();
    words.push_str(match name.content {
        Content::Never => "",
        Content::GitConfig => "; a change that names no command is let through",
        Content::WithDirectory => "; it may be made in a directory that is new",
        Content::Directory => "; a directory may be made",
    });
    if let Some(stated) = &name.stated {
        let locked = if name.place.strength == Strength::Locked { ", locked" } else { "" };
        let _infallible = write!(words, " ({stated}{locked})");
    }
    words
}

fn words(explanation: &NamesExplanation) -> String {
    let mut text = format!("{}\n", harmless(&explanation.shown_mode));
    let width = explanation.names.iter().map(|name| name.name.chars().count()).max().unwrap_or_default();
    let mut put = |heading: &str, names: &[&ProtectedName]| {
        if names.is_empty() {
            return;
        }
        let _infallible = writeln!(text, "\n{}", harmless(heading));
        for name in names {
            let line = format!("  {:<width$}  {}", name.name, about(name));
            let _infallible = writeln!(text, "{}", harmless(&line));
        }
    };
    let protected: Vec<&ProtectedName> = explanation.names.iter().filter(|name| name.protected).collect();
    for group in protected.chunk_by(|a, b| a.group == b.group) {
        put(group.first().map_or("", |name| &name.group), group);
    }
    let free: Vec<&ProtectedName> = explanation.names.iter().filter(|name| !name.protected).collect();
    for group in free.chunk_by(|a, b| a.group == b.group) {
        put(&format!("not protected: {}", group.first().map_or("", |name| &name.group)), group);
    }
    // All names that have exceptions have the same ones.
    if let Some(name) = explanation.names.iter().find(|name| !name.except_below.is_empty()) {
        let below = name.except_below.join(", ");
        let _infallible = writeln!(text, "\nnames that repositories carry aren't protected below {below}");
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::situation;
    use palisade_policy::names::built_in;

    #[test]
    fn every_name_is_listed_with_who_says_so() {
        let situation = situation::of_administrator(
            "[filesystem]\nprotect_names = [\"own/x\", \".circleci\"]\nallow_names = [\".envrc\"]\n\
             protect_paths = [\"/srv/*\"]\n[locked.filesystem]\nprotect_names = [\".vscode\"]\n",
        );
        let names = NamesExplanation::of(&situation).unwrap().names;
        let shown = |name: &str| {
            let name = names.iter().find(|listed| listed.name == name).unwrap();
            (name.protected, name.place.layer, about(name))
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
            words(&NamesExplanation::of(&situation::of_administrator(administrator)).unwrap())
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
