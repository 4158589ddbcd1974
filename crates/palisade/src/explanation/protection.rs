// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Says which protected names affect a writable path, and what would take them off.

use super::Place;
use super::names::strength;
use crate::Situation;
use palisade_policy::{
    Content, Layer, LayerPolicy, NameRule, NameRules, NameStatus, Policy, Protect, Resolved, Strength,
};
use palisade_sandbox::error::quoted;
use palisade_sandbox::plan::inside::{Inside, Seen};
use palisade_sandbox::plan::repository;
use palisade_sandbox::plan::{Bind, Plan, Step};
use palisade_text::Show as _;
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// How many names may protect one path before nothing is proposed.
const MOST: usize = 8;

/// A protected name that a path is, lies beneath, or holds.
#[derive(Debug, Serialize)]
pub struct Protection {
    /// The name, as a policy writes it.
    pub name: String,
    /// Why it is protected.
    pub reason: String,
    /// The place that states it.
    #[serde(flatten)]
    pub place: Place,
    /// The path isn't the name. It is a directory that contains such names.
    pub holds: bool,
    /// A change that names no command is allowed.
    pub by_content: bool,
    /// Whether git continues when a change of it is refused.
    pub carried: bool,
    /// Whether it is one path inside, by `protect_paths`. No option lifts that.
    pub anchored: bool,
    /// Whether it is enforced.
    pub kept: bool,
    /// `broker`, `mounts` or `off`.
    pub mode: Protect,
    /// The place that states the mode.
    pub mode_from: Place,
    /// The command that takes it off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permit: Option<String>,
    /// What to write in which file instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permit_in_file: Option<String>,
    /// The rule with its origin, in one line.
    #[serde(skip)]
    pub shown_rule: String,
    /// The mode with its origin.
    #[serde(skip)]
    pub shown_mode: String,
}

/// A question about names, as the broker asks it.
struct Question<'q> {
    /// The path on the host, and how much of it names the writable tree.
    host: PathBuf,
    root: usize,
    inside: &'q Path,
    paths: NameRules,
}

/// How a rule relates to the path.
enum Stand {
    Protects(NameRule),
    BeginsHere(NameRule),
}

impl Question<'_> {
    fn stand(&self, policy: &Policy) -> Option<Stand> {
        let names = policy.names();
        let host = self.host.as_os_str().as_bytes();
        let by_name = match names.judge(host, self.root) {
            // Only a directory may have this name unprotected.
            NameStatus::Holder(rule) if rule.content == Content::Directory && self.is_the_name(rule) => {
                NameStatus::Protected(rule)
            }
            other => other,
        };
        let is_repository = |components| repository::is_above(&self.host, components);
        // A rule on a path means the path inside, wherever its file lies on the host.
        let by_path = self.paths.judge(self.inside.as_os_str().as_bytes(), 0);
        if let (NameStatus::Protected(rule), _) | (_, NameStatus::Protected(rule)) = (by_name, by_path) {
            return Some(Stand::Protects(rule.clone()));
        }
        let by_place = names.judge_in_repositories(host, self.root, is_repository).status;
        match (by_place, by_path, by_name) {
            (NameStatus::Protected(rule), ..) => Some(Stand::Protects(rule.clone())),
            (_, NameStatus::Holder(rule), _)
            | (.., NameStatus::Holder(rule))
            | (NameStatus::Holder(rule), ..) => Some(Stand::BeginsHere(rule.clone())),
            _ => None,
        }
    }

    /// Whether the path ends with a name that only a directory may have, and isn't a directory.
    fn is_the_name(&self, rule: &NameRule) -> bool {
        let last = self.host.file_name().unwrap_or_default();
        rule.follows_file(last.as_bytes()) && !self.host.is_dir()
    }

    /// The entries of `allow_names` in this layer that end all protection of the path. `None` if a lock prevents that,
    /// or if the path itself is protected.
    fn taken_off(&self, policy: &Policy, mut layer: LayerPolicy) -> Option<Vec<String>> {
        let mut names: Vec<String> = Vec::new();
        while let Some(Stand::Protects(rule)) = self.stand(&policy.clone().combine(layer.clone().into())) {
            if rule.anchored || names.contains(&rule.path) || names.len() == MOST {
                return None;
            }
            layer.add_name(&rule.path, false, 0).ok()?;
            names.push(rule.path);
        }
        Some(names)
    }
}

/// The name that protects `path`. `inside` says what the plan makes of the path. `None` if the path can't be written anyway.
pub(super) fn of(
    situation: &Situation,
    resolved: &Resolved,
    inside: Option<(&Inside<'_>, &Plan<'_>)>,
    path: &Path,
) -> Option<Protection> {
    let policy = situation.policy();
    let mode = policy.protect();
    // Without namespaces there may be no broker, even if the policy asks for it.
    let kept = match mode.value {
        Protect::Broker => inside.is_none_or(|(_inside, plan)| plan.broker.is_some()),
        Protect::Mounts => true,
        Protect::Off => false,
    };
    let inside = inside.map(|(inside, _plan)| inside);
    let (host, root) = tree(resolved, inside, path, mode.value)?;
    let paths = NameRules::new(resolved.protected_paths());
    let question = Question { host, root, inside: path, paths };
    let (rule, holds) = match question.stand(policy)? {
        Stand::Protects(rule) => (rule, false),
        Stand::BeginsHere(rule) => (rule, true),
    };
    let strength = strength(&rule);
    let mut protection = Protection {
        shown_rule: rule.to_string(),
        shown_mode: format!("protect = {:?} ({})", mode.value.key(), mode.origin),
        place: Place::new(&rule.origin, strength),
        holds,
        by_content: rule.content == Content::GitConfig,
        carried: rule.carried,
        anchored: rule.anchored,
        kept,
        mode: mode.value,
        mode_from: Place::of(&mode),
        permit: None,
        permit_in_file: None,
        name: rule.path,
        reason: rule.reason,
    };
    if !holds && kept {
        protection.permit = question.taken_off(policy, LayerPolicy::command_line()).map(|names| {
            let options: Vec<String> =
                names.iter().map(|name| format!("--allow-name {}", quoted(name))).collect();
            format!("palisade run {} -- COMMAND…", options.join(" "))
        });
        let file = situation.facts.places.config.join("config.toml");
        let in_file = question.taken_off(policy, LayerPolicy::empty(Layer::User, None));
        protection.permit_in_file =
            in_file.map(|names| format!("in {}: [filesystem] allow_names = {names:?}", file.shown()));
    }
    Some(protection)
}

impl Protection {
    /// Whether it refuses writing that nothing else refuses.
    #[must_use]
    pub const fn refuses(&self) -> bool {
        !self.holds && !self.by_content && self.kept
    }

    /// Why it refuses, in a clause.
    pub(super) fn why(&self) -> String {
        let git = if self.carried { "; git checkout continues without it" } else { "" };
        let what = if self.anchored { "path" } else { "name" };
        format!("the {what} is protected: {}{git}", self.shown_rule)
    }

    /// The command that permits writing.
    pub(super) const fn permit(&self) -> Option<&String> {
        self.permit.as_ref()
    }

    /// Whether a lock states it.
    pub(super) fn is_locked(&self) -> bool {
        self.place.strength == Strength::Locked
    }
}

fn depth(path: &Path) -> usize {
    path.components().filter(|part| matches!(part, Component::Normal(_))).count()
}

/// The path on the host, and how many of its components name the writable tree that it lies in. `None` if it isn't writable.
fn tree(
    resolved: &Resolved,
    inside: Option<&Inside<'_>>,
    path: &Path,
    mode: Protect,
) -> Option<(PathBuf, usize)> {
    let Some(inside) = inside else { return Some((path.to_owned(), 0)) };
    let Seen::Host { path: host, write, .. } = &inside.seen else { return None };
    let root = match inside.step {
        Some((_index, Step::Bind(Bind { source, .. }))) if *write => depth(source.as_path()),
        // Without mounts, the trees are those that the policy grants.
        None if *write => {
            let granted = resolved.effective().into_iter().filter(|tree| path.starts_with(&tree.destination));
            granted.map(|tree| depth(&tree.destination)).max().unwrap_or(0)
        }
        // In this mode, an existing file is read-only by a mount of its own.
        Some(_) if mode == Protect::Mounts => 0,
        _ => return None,
    };
    Some((host.clone(), root))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explanation::of_administrator;

    fn protection(administrator: &str, path: &str) -> Option<Protection> {
        let situation = of_administrator(administrator);
        let resolved = situation.resolved().unwrap();
        of(&situation, &resolved, None, Path::new(path))
    }

    #[test]
    fn what_permits_a_protected_name_permits_it() {
        let hooks = protection("", "/w/.git/hooks/x").unwrap();
        assert!(hooks.refuses());
        assert_eq!(hooks.permit().unwrap(), "palisade run --allow-name .git/hooks -- COMMAND…");
        let file = hooks.permit_in_file.as_ref().unwrap();
        assert!(file.ends_with("/config.toml: [filesystem] allow_names = [\".git/hooks\"]"), "{file}");
        assert!(hooks.why().contains(".git/hooks (built in): git runs what is in it"), "{}", hooks.why());
        // If two names protect a path, both must be taken off.
        let both = protection("filesystem.protect_names = [\"it's/*\"]\n", "/it's/.vscode").unwrap();
        let command = both.permit().unwrap();
        assert!(
            command.contains("--allow-name .vscode") && command.contains(r"--allow-name 'it'\''s/*'"),
            "{command}"
        );
    }

    #[test]
    fn what_a_lock_forbids_is_not_proposed() {
        let locked = "[locked.filesystem]\nprotect_names = [\".git/hooks\"]\nprotect_paths = [\"/w/x\"]\n";
        for path in ["/w/.git/hooks", "/w/x/y"] {
            let protection = protection(locked, path).unwrap();
            assert!(protection.is_locked() && protection.refuses(), "{protection:?}");
            assert_eq!((protection.permit(), &protection.permit_in_file), (None, &None));
        }
        // No option lifts the protection by `protect_paths`.
        let path = protection("filesystem.protect_paths = [\"/w/x\"]\n", "/w/x/y").unwrap();
        assert!(path.refuses() && !path.is_locked() && path.permit().is_none());
        assert!(path.why().contains("/w/x (administrator)"), "{}", path.why());
    }

    #[test]
    fn what_only_touches_on_names_is_told_from_what_is_refused() {
        let by_content = protection("", "/w/.git/config").unwrap();
        assert!(!by_content.refuses() && by_content.by_content && by_content.permit().is_some());
        let holder = protection("", "/w/.git").unwrap();
        assert!(!holder.refuses() && holder.holds && holder.permit().is_none());
        let off = protection("filesystem.protect = \"off\"\n", "/w/.git/hooks").unwrap();
        assert!(!off.refuses() && !off.kept);
        assert_eq!(off.shown_mode, "protect = \"off\" (administrator)");
        assert!(protection("", "/w/src/main.rs").is_none());
    }
}
