// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains a path: what the policy says, what the plan makes of it, and what would permit it.

use super::protection::{self, Protection};
use super::{Place, Rule, Way, lossy};
use crate::{Situation, repository};
use palisade_policy::{Access, Decision, Grant, Hint, LayerPolicy, PathPattern, Resolved, Strength, Wanted};
use palisade_sandbox::error::{PlanError, describe, quoted};
use palisade_sandbox::plan::inside::{self, Inside, Seen};
use palisade_sandbox::plan::{Bind, IdentityKind, Plan, Step};
use palisade_text::Show as _;
use serde::Serialize;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// The answer about a path.
#[derive(Debug, Serialize)]
pub struct PathExplanation {
    /// Always `path`.
    pub kind: &'static str,
    /// The path, without links.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// The access that the caller asks about.
    pub wanted: Wanted,
    /// Whether it is allowed.
    pub allowed: bool,
    /// Why, in a sentence.
    pub why: String,
    /// What is at the path inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<ViewOfPath>,
    /// What the policy says.
    pub policy: PolicyOnPath,
    /// The protected name that the path is, lies beneath or holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protected: Option<Protection>,
    /// A path in it that a rule of the policy names. For that reason this path can't be renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keeps_name_for: Option<String>,
    /// The command that permits it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permit: Option<String>,
    /// The planner's notes, if the plan differs from what the policy says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why no plan could be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_error: Option<String>,
}

/// What is at a path inside.
#[derive(Debug, Serialize)]
pub struct ViewOfPath {
    /// `host`, `private`, `hidden`, `nothing` and the like.
    pub shows: &'static str,
    /// The path on the host that it shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_path: Option<String>,
    /// Whether it can be read.
    pub read: bool,
    /// Whether it can be written.
    pub write: bool,
    /// Whether it can be executed.
    pub execute: bool,
    /// The step of the plan that makes it so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The rights by Landlock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub landlock: Option<String>,
}

/// What the policy says of a path.
#[derive(Debug, Serialize)]
pub struct PolicyOnPath {
    /// What it grants.
    pub grant: String,
    /// The view, which holds where no rule does.
    pub view: &'static str,
    /// The place that states the view.
    pub view_from: Place,
    /// The rules that decide.
    pub because: Vec<Rule>,
    /// The rules that other rules override.
    pub overridden: Vec<Rule>,
    /// The lock that decides, or that prevents a change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<Rule>,
    /// The view with its origin.
    #[serde(skip)]
    pub shown_view: String,
}

impl PathExplanation {
    /// The answer about a path, relative to the situation's working directory.
    ///
    /// # Errors
    /// When the places in the policy can't be found.
    pub fn of(situation: &Situation, given: &Path, wanted: Wanted) -> Result<Self, PlanError> {
        let way = Way::to(situation, given);
        let resolved = situation.resolved()?;
        let plan = situation.plan_with(LayerPolicy::command_line());
        Ok(judge(situation, &resolved, plan.as_ref().map_err(ToString::to_string), &way, wanted))
    }
}

/// Answers about a path, and the links that lead to it.
pub(super) fn judge(
    situation: &Situation,
    resolved: &Resolved,
    plan: Result<&Plan<'_>, String>,
    way: &Way,
    wanted: Wanted,
) -> PathExplanation {
    let path = &way.real;
    let decision = decision(situation, resolved, path);
    let inside = plan.as_ref().ok().map(|plan| (inside::look(plan, path), *plan));
    let lost = plan.as_ref().ok().and_then(|plan| way.lost_link(plan));
    let (allowed, why) = match (&inside, lost) {
        (Some(_inside), Some(link)) => {
            (false, format!("the symbolic link {} that leads to it isn't there", link.shown()))
        }
        (Some((inside, plan)), None) => verdict(situation, inside, plan, &decision, wanted),
        (None, _) => (false, "no plan can be made, so nothing is launched".to_owned()),
    };
    let protected =
        protection::of(situation, resolved, inside.as_ref().map(|(inside, plan)| (inside, *plan)), path);
    let refusing = protected.as_ref().filter(|name| wanted == Wanted::Write && allowed && name.refuses());
    let (allowed, why) = match refusing {
        Some(name) => (false, name.why()),
        None => (allowed, why),
    };
    // A private place may cover the file that the user means.
    let covered =
        inside.as_ref().is_some_and(|(inside, _plan)| inside.seen == Seen::Private) && path.exists();
    let (permit, locked) = if allowed && !covered {
        (None, None)
    } else if let Some(name) = refusing {
        let locked = name.is_locked().then(|| "a lock forbids removing the protection".to_owned());
        (name.permit().cloned(), locked)
    } else {
        // Grant the link's own path: then its target exists under both names or under neither.
        permit(situation, resolved, if lost.is_some() { &way.given } else { path }, wanted)
    };
    let why = locked.map_or(why.clone(), |locked| format!("{why}; {locked}"));
    PathExplanation {
        kind: "path",
        path: path.clone(),
        wanted,
        allowed,
        why,
        inside: inside.as_ref().map(|(inside, _plan)| ViewOfPath::of(inside)),
        policy: PolicyOnPath::of(situation, &decision),
        protected,
        keeps_name_for: plan.as_ref().ok().and_then(|plan| pinned_for(plan, path)),
        permit,
        notes: match &plan {
            Ok(plan) if !allowed && wanted.is_in(decision.grant) => {
                // The notes about the policy's files have been printed already.
                let said = |note: &&Cow<'_, str>| situation.loaded.notes.iter().any(|said| said == *note);
                plan.notes.iter().filter(|note| !said(note)).map(ToString::to_string).collect()
            }
            _ => Vec::new(),
        },
        plan_error: plan.err(),
    }
}

/// What the policy says about a path without links. A rule that names the path by a link applies as well.
fn decision(situation: &Situation, resolved: &Resolved, path: &Path) -> Decision {
    let by_name = resolved.decide(path);
    match situation.decisive(path) {
        Some(found) if found.grant != by_name.grant => {
            let mut overridden = by_name.overridden;
            overridden.extend(by_name.because);
            let lock = by_name
                .lock
                .or_else(|| (found.rule.strength == Strength::Locked).then(|| found.rule.clone()));
            Decision { grant: found.grant, because: vec![found.rule], overridden, lock, ..by_name }
        }
        _ => by_name,
    }
}

/// The path because of which a directory can't be renamed.
fn pinned_for(plan: &Plan<'_>, path: &Path) -> Option<String> {
    let pin = plan.broker.as_ref()?.pinned.iter().find(|pin| pin.path.as_path() == path)?;
    Some(pin.about.as_path().to_string_lossy().into_owned())
}

/// Whether the access is allowed, and why.
fn verdict(
    situation: &Situation,
    inside: &Inside<'_>,
    plan: &Plan<'_>,
    decision: &Decision,
    wanted: Wanted,
) -> (bool, String) {
    let view = situation.policy().view();
    let can = match wanted {
        Wanted::Read => inside.can_read(),
        Wanted::Write => inside.can_write(),
        Wanted::Execute => inside.can_execute(),
    };
    match &inside.seen {
        Seen::Nothing if decision.grant == Grant::Absent => (
            false,
            format!(
                "nothing is there: no rule grants it, and the view {:?} ({}) doesn't show it",
                view.value.key(),
                view.origin
            ),
        ),
        Seen::Nothing => (
            false,
            format!("nothing is there: the policy says {}, but there is nothing to show", decision.grant),
        ),
        Seen::Hidden => (false, "an empty placeholder hides it".to_owned()),
        Seen::Denied => (false, "it is there and every access is refused".to_owned()),
        Seen::Private => {
            let own_place = inside.step.is_some_and(|(_index, step)| is_at(step, &inside.path));
            let there = own_place || wanted == Wanted::Write;
            let what = "a private, writable place that is empty at first and gone afterwards; what the host has there isn't visible";
            (can && there, what.to_owned())
        }
        Seen::Cache { path, .. } => {
            let there = wanted == Wanted::Write || path.symlink_metadata().is_ok();
            (can && there, format!("a cache, which Palisade keeps for this project in {}", path.shown()))
        }
        Seen::Made | Seen::Link(_) => (can, "Palisade makes it, read-only".to_owned()),
        Seen::Processes => (can, "the processes inside".to_owned()),
        Seen::Terminals => (can, "the terminals inside".to_owned()),
        Seen::Host { path, .. } => {
            let exists = path.symlink_metadata().is_ok();
            if !exists {
                let may = if inside.can_write() { "it can be made" } else { "it can't be made" };
                return (wanted == Wanted::Write && can, format!("it doesn't exist on the host; {may}"));
            }
            if let Some(refusal) = can.then(|| refused_by_host(plan, inside, path, wanted)).flatten() {
                return (false, refusal);
            }
            (
                can,
                if can {
                    "the host's own".to_owned()
                } else {
                    format!("the host's own, but the sandbox can't {} it", wanted.word())
                },
            )
        }
    }
}

/// Whether a step makes exactly this path.
fn is_at(step: &Step<'_>, path: &Path) -> bool {
    match step {
        Step::Own { path: at, .. } | Step::Tmpfs { path: at, .. } | Step::Overlay { target: at, .. } => {
            path.strip_prefix("/").is_ok_and(|path| path == at.as_path())
        }
        _ => false,
    }
}

/// Why the permissions on the host refuse the access, if they do.
fn refused_by_host(plan: &Plan<'_>, inside: &Inside<'_>, path: &Path, wanted: Wanted) -> Option<String> {
    use rustix::fs::{Access as Check, access, stat};
    let owners_mapped = matches!(inside.step, Some((_index, Step::Bind(Bind { map_owners: true, .. }))));
    let stranger = plan.identity.kind == IdentityKind::Mapped && !owners_mapped;
    let (check, bit) = match wanted {
        Wanted::Read => (Check::READ_OK, 0o4),
        Wanted::Write => (Check::WRITE_OK, 0o2),
        // Directories and data don't have this bit. The question is whether they could be run.
        Wanted::Execute => (Check::EXEC_OK, 0o1),
    };
    let refused = if stranger {
        stat(path).is_ok_and(|stat| stat.st_mode & bit == 0)
    } else {
        access(path, check) == Err(rustix::io::Errno::ACCESS)
    };
    let stat = stat(path).ok().filter(|_stat| refused)?;
    Some(format!(
        "the policy allows it, but its permissions on the host don't (mode {:04o}, owner {})",
        stat.st_mode & 0o7777,
        stat.st_uid
    ))
}

/// The command that permits it, tried before it is proposed; or the lock that prevents it.
fn permit(
    situation: &Situation,
    resolved: &Resolved,
    path: &Path,
    wanted: Wanted,
) -> (Option<String>, Option<String>) {
    if situation.facts.places.all().iter().any(|place| path.starts_with(place)) {
        return (None, Some("Palisade's own files stay outside".to_owned()));
    }
    match resolved.hint(path, wanted) {
        Hint::Locked(rule) => (None, Some(format!("a lock forbids it: {rule}"))),
        Hint::Option(words) if works(situation, path, wanted) => {
            (Some(format!("palisade run {words} -- COMMAND…")), None)
        }
        // The planner had a reason not to follow the rule. A rule for this path alone may have another result.
        Hint::Allowed if works(situation, path, wanted) => {
            let option = if wanted == Wanted::Write { "--rw" } else { "--ro" };
            let pattern = PathPattern::exactly(path).ok();
            let text = pattern.as_ref().and_then(PathPattern::as_str);
            (text.map(|text| format!("palisade run {option} {} -- COMMAND…", quoted(text))), None)
        }
        Hint::Option(_) | Hint::Allowed | Hint::Impossible if wanted == Wanted::Write => {
            (by_repository(situation, resolved, path), None)
        }
        Hint::Option(_) | Hint::Allowed | Hint::Impossible => (None, None),
    }
}

/// The command that makes the working directory's repository writable, if the path is in it and isn't protected there.
fn by_repository(situation: &Situation, resolved: &Resolved, path: &Path) -> Option<String> {
    let mut layer = LayerPolicy::command_line();
    repository::state(&mut layer, &situation.facts, 0).ok()?;
    let plan = situation.plan_with(layer).ok()?;
    let inside = inside::look(&plan, path);
    let protected = protection::of(situation, resolved, Some((&inside, &plan)), path);
    let can = inside.can_write() && !protected.is_some_and(|name| name.refuses());
    can.then(|| "palisade run --repo -- COMMAND…".to_owned())
}

/// Whether a launch with the path on its command line makes it accessible.
fn works(situation: &Situation, path: &Path, wanted: Wanted) -> bool {
    let Ok(pattern) = PathPattern::exactly(path) else { return false };
    let mut layer = LayerPolicy::command_line();
    let accesses: &[Access] =
        if wanted == Wanted::Write { &[Access::Execute, Access::Write] } else { &[Access::Execute] };
    if accesses.iter().any(|access| layer.add_path(*access, pattern.as_os_str(), 0).is_err()) {
        return false;
    }
    situation.plan_with(layer).is_ok_and(|plan| {
        let inside = inside::look(&plan, path);
        let can = match wanted {
            Wanted::Read => inside.can_read(),
            Wanted::Write => inside.can_write(),
            Wanted::Execute => inside.can_execute(),
        };
        can && matches!(&inside.seen, Seen::Host { path, .. }
            if path.exists() && refused_by_host(&plan, &inside, path, wanted).is_none())
    })
}

impl ViewOfPath {
    fn of(inside: &Inside<'_>) -> Self {
        let (shows, host_path) = match &inside.seen {
            Seen::Nothing => ("nothing", None),
            Seen::Made => ("made", None),
            Seen::Link(_) => ("link", None),
            Seen::Host { path, .. } => ("host", Some(path.to_string_lossy().into_owned())),
            Seen::Cache { path, .. } => ("cache", Some(path.to_string_lossy().into_owned())),
            Seen::Private => ("private", None),
            Seen::Hidden => ("hidden", None),
            Seen::Denied => ("denied", None),
            Seen::Processes => ("processes", None),
            Seen::Terminals => ("terminals", None),
        };
        Self {
            shows,
            host_path,
            read: inside.can_read(),
            write: inside.can_write(),
            execute: inside.can_execute(),
            step: inside.step.map(|(index, step)| format!("step {index}: {}", describe(step))),
            landlock: inside.landlock.map(|rights| {
                use palisade_sys::landlock::Rights;
                let named =
                    [(Rights::READ, "read"), (Rights::WRITE_FILE, "write"), (Rights::EXECUTE, "execute")];
                let has =
                    named.iter().filter(|(right, _name)| rights.intersection(*right) != Rights::default());
                let names: Vec<&str> = has.map(|(_right, name)| *name).collect();
                if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
            }),
        }
    }
}

impl PolicyOnPath {
    fn of(situation: &Situation, decision: &Decision) -> Self {
        let view = situation.policy().view();
        Self {
            grant: decision.grant.to_string(),
            view: view.value.key(),
            view_from: Place::of(&view),
            shown_view: format!("view = {:?} ({})", view.value.key(), view.origin),
            because: decision.because.iter().map(Rule::from).collect(),
            overridden: decision.overridden.iter().map(Rule::from).collect(),
            lock: decision.lock.as_ref().map(Rule::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explanation::of_administrator;

    #[test]
    fn what_a_lock_forbids_is_not_proposed() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().canonicalize().unwrap().join("file");
        std::fs::write(&file, "").unwrap();
        let lock = format!("[locked.filesystem]\ndeny = [{file:?}]\n");
        for (administrator, proposed) in [("", true), (lock.as_str(), false)] {
            let situation = of_administrator(administrator);
            let (command, why) = permit(&situation, &situation.resolved().unwrap(), &file, Wanted::Read);
            assert_eq!(command.is_some(), proposed, "{command:?} {why:?}");
            assert_eq!(why.is_some_and(|why| why.starts_with("a lock forbids it: ")), !proposed);
        }
    }
}
