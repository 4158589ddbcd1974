// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Summarises a trace: the needed grants, and what the run lacked.

use super::trace::{AccessTrace, Programs, Uses};
use super::{Grants, Host, Rights};
use crate::plan::inside::{self, Inside, Seen};
use crate::plan::{Namespace, Plan};
use palisade_policy::Access;
use palisade_syscall::broker::report::{Came, Used};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a command needs, and what it lacked.
#[derive(Clone, Debug, Default)]
pub struct UsageSummary {
    /// The needed grants: the path inside, the host's path, and the rights.
    pub grants: BTreeMap<PathBuf, (PathBuf, Rights)>,
    /// Paths that were used, that the host has, and that weren't granted.
    pub wanted: Vec<Wanted>,
    /// Paths that were written in private places, and are lost.
    pub lost: Vec<Lost>,
    /// Directories that the command made in trees of the host.
    pub made: Vec<PathBuf>,
    /// Addresses that were used. In a network namespace those of the loopback are left out, because it has a loopback.
    pub addresses: BTreeMap<String, Programs>,
    /// The addresses are in the host's network, and could be reached.
    pub reached_the_network: bool,
    /// Protected names that were refused.
    pub names: Vec<String>,
}

/// A use that wasn't granted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The path.
    pub path: PathBuf,
    /// The kind of access.
    pub access: Access,
    /// The programs.
    pub programs: Programs,
}

/// A path that was written and isn't kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    /// A directory or file in the home.
    pub path: PathBuf,
    /// How many names below it were written.
    pub count: usize,
    /// The programs.
    pub programs: Programs,
}

const WRITES: [Used; 3] = [Used::Change, Used::Name, Used::Make];

impl UsageSummary {
    /// Summarises a trace.
    ///
    /// `plan`: the plan of the run. `base`: the plan without any grant except that the working directory can be read.
    #[must_use]
    pub fn of(trace: &AccessTrace, plan: &Plan<'_>, base: &Plan<'_>, home: &Path, host: &dyn Host) -> Self {
        let own_network = plan.namespaces.contains(&Namespace::Network);
        let mut addresses = trace.addresses.clone();
        addresses.retain(|address, _by| !(own_network && is_loopback(address)));
        let mut account = Self {
            reached_the_network: !own_network && !addresses.is_empty(),
            addresses,
            names: trace.names.iter().cloned().collect(),
            ..Self::default()
        };
        let mut trees: BTreeMap<PathBuf, (PathBuf, Grants)> = BTreeMap::new();
        let mut lost: BTreeMap<PathBuf, (usize, Programs)> = BTreeMap::new();
        for (path, uses) in &trace.paths {
            let seen = inside::look(plan, path);
            match &seen.seen {
                Seen::Host { path: source, .. } => {
                    let mut needs = needs(uses, path, source, host);
                    account.refusals(&seen, uses, host);
                    // The kernel opens a script's interpreter itself, so the trace lacks it.
                    if uses.has(Used::Execute, Came::Done)
                        && let Some(interpreter) = host.interpreter(source)
                    {
                        needs.push((interpreter, Rights { execute: true, ..Rights::default() }));
                    }
                    for (path, rights) in needs {
                        need(&mut trees, trace, plan, base, &path, rights);
                    }
                }
                Seen::Private if uses.any(&WRITES, Came::Done) && path.starts_with(home) => {
                    let top = beginning(path, home);
                    if top != *home {
                        let (count, programs) = lost.entry(top).or_default();
                        *count += 1;
                        programs.join(&uses.programs);
                    }
                }
                Seen::Private | Seen::Nothing | Seen::Hidden | Seen::Denied => {
                    account.absences(&seen, uses, trace, host);
                }
                // Each project has its own.
                Seen::Cache { .. } | Seen::Made | Seen::Link(_) | Seen::Processes | Seen::Terminals => {}
            }
        }
        for (root, (source, grants)) in trees {
            for (path, rights) in grants.reduce(&root) {
                let rest = path.strip_prefix(&root).unwrap_or(Path::new(""));
                let host = if rest.as_os_str().is_empty() { source.clone() } else { source.join(rest) };
                account.grants.insert(path, (host, rights));
            }
        }
        // A directory that holds other lost paths was only made to hold them.
        let holds = |path: &Path| lost.keys().any(|other| other != path && other.starts_with(path));
        let idle: Vec<PathBuf> = lost.keys().filter(|path| holds(path)).cloned().collect();
        for path in idle {
            lost.remove(&path);
        }
        account.lost =
            lost.into_iter().map(|(path, (count, programs))| Lost { path, count, programs }).collect();
        account.made = made(trace, plan);
        // Directories that no longer exist, such as a build's temporary ones, tell the user nothing.
        account.made.retain(|path| host.exists(path));
        account
    }

    /// Paths that can be read, and that the command tried to change or execute.
    fn refusals(&mut self, seen: &Inside<'_>, uses: &Uses, host: &dyn Host) {
        let Seen::Host { path, .. } = &seen.seen else { return };
        if uses.any(&WRITES, Came::Refused) && !seen.can_write() {
            // Making a name changes the directory.
            let there = path.ancestors().find(|path| host.exists(path)).unwrap_or(path);
            self.want(there, Access::Write, uses);
        }
        if uses.has(Used::Execute, Came::Refused) && !seen.can_execute() {
            self.want(path, Access::Execute, uses);
        }
    }

    /// Paths that aren't visible although the host has them.
    fn absences(&mut self, seen: &Inside<'_>, uses: &Uses, trace: &AccessTrace, host: &dyn Host) {
        let path = &seen.path;
        let lacked = |how| uses.has(how, Came::Absent) || uses.has(how, Came::Refused);
        if uses.has(Used::Look, Came::Done) && !matches!(seen.seen, Seen::Hidden | Seen::Denied) {
            return;
        }
        if !host.exists(path) {
            // A name is made in a directory, which the host may have. If the command has made the directory itself
            // since, it is reported as lost.
            if uses.has(Used::Make, Came::Absent)
                && let Some(parent) = path.parent()
                && host.exists(parent)
                && !trace.made(parent)
            {
                self.want(parent, Access::Write, uses);
            }
            return;
        }
        if WRITES.iter().any(|how| lacked(*how)) {
            self.want(path, Access::Write, uses);
        } else if lacked(Used::Execute) {
            self.want(path, Access::Execute, uses);
        } else if lacked(Used::Read) || lacked(Used::Look) || lacked(Used::Socket) {
            self.want(path, Access::Read, uses);
        }
    }

    fn want(&mut self, path: &Path, access: Access, uses: &Uses) {
        if let Some(known) = self.wanted.iter_mut().find(|known| known.path == path && known.access == access)
        {
            known.programs.join(&uses.programs);
        } else {
            self.wanted.push(Wanted { path: path.to_owned(), access, programs: uses.programs.clone() });
        }
    }
}

fn is_loopback(address: &str) -> bool {
    address.parse::<std::net::SocketAddr>().is_ok_and(|address| address.ip().is_loopback())
}

/// The rights that the uses of a path need, with the path inside; `source` is its path on the host.
fn needs(uses: &Uses, path: &Path, source: &Path, host: &dyn Host) -> Vec<(PathBuf, Rights)> {
    let none = Rights::default();
    let mut needs = Vec::new();
    if uses.any(&[Used::Read, Used::Look], Came::Done) {
        let mapped = uses.has(Used::Read, Came::Done) && host.is_program(source);
        needs.push((path.to_owned(), Rights { read: true, execute: mapped, ..none }));
    }
    if uses.has(Used::Execute, Came::Done) {
        needs.push((path.to_owned(), Rights { execute: true, ..none }));
    }
    if uses.any(&[Used::Change, Used::Socket], Came::Done) {
        needs.push((path.to_owned(), Rights { write: true, ..none }));
    }
    if uses.any(&[Used::Name, Used::Make], Came::Done) {
        let parent = path.parent().unwrap_or(path);
        needs.push((parent.to_owned(), Rights { write: true, ..none }));
    }
    needs
}

/// Adds a need, unless it is met without a grant.
fn need(
    trees: &mut BTreeMap<PathBuf, (PathBuf, Grants)>,
    trace: &AccessTrace,
    plan: &Plan<'_>,
    base: &Plan<'_>,
    path: &Path,
    rights: Rights,
) {
    // A path that the command made doesn't exist before the run. The grant is for the directory in which it was made.
    let path = path.ancestors().find(|path| !trace.made(path)).unwrap_or(path);
    let ordinary = inside::look(base, path);
    let met = (!rights.read || ordinary.can_read())
        && (!rights.write || ordinary.can_write())
        && (!rights.execute || ordinary.can_execute());
    let same = |one: &Seen, other: &Seen| match (one, other) {
        (Seen::Host { path: one, .. }, Seen::Host { path: other, .. }) => one == other,
        _ => false,
    };
    let seen = inside::look(plan, path);
    if met && same(&ordinary.seen, &seen.seen) {
        return;
    }
    if let Some((root, source)) = tree_of(&seen) {
        trees.entry(root).or_insert_with(|| (source, Grants::default())).1.add(&seen.path, rights);
    }
}

/// The tree of the host that a path lies in: its path inside, and its path on the host.
fn tree_of(seen: &Inside<'_>) -> Option<(PathBuf, PathBuf)> {
    let (Seen::Host { path: source, .. }, Some((_index, crate::plan::Step::Bind(bind)))) =
        (&seen.seen, seen.step)
    else {
        return None;
    };
    let target = Path::new("/").join(bind.target.as_path());
    let rest = seen.path.strip_prefix(&target).ok()?;
    let above = rest.components().count();
    let source = source.ancestors().nth(above)?;
    Some((target, source.to_owned()))
}

/// The outermost directories that the command made in trees of the host.
fn made(trace: &AccessTrace, plan: &Plan<'_>) -> Vec<PathBuf> {
    let mut made: Vec<PathBuf> = Vec::new();
    for (path, uses) in &trace.paths {
        let is_first = path.parent().is_none_or(|parent| !trace.made(parent));
        let holds_more =
            || trace.paths.range(path.clone()..).nth(1).is_some_and(|(next, _)| next.starts_with(path));
        if uses.has(Used::Make, Came::Done)
            && is_first
            && holds_more()
            && matches!(inside::look(plan, path).seen, Seen::Host { .. })
        {
            made.push(path.clone());
        }
    }
    made
}

/// The part of a path in the home that users recognise: `~/.npm`, `~/.cache/pip`.
fn beginning(path: &Path, home: &Path) -> PathBuf {
    let Ok(rest) = path.strip_prefix(home) else { return path.to_owned() };
    let mut parts = rest.components();
    let mut top = home.to_owned();
    if let Some(first) = parts.next() {
        top.push(first);
        let shared = [".cache", ".config", ".local"].iter().any(|name| first.as_os_str() == *name);
        if shared && let Some(second) = parts.next() {
            top.push(second);
        }
    }
    top
}
