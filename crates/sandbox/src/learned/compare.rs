// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares two plans: how one decides what was used and refused under the other.

use super::trace::{AccessTrace, Programs, Uses};
use super::{Host, Rights};
use crate::plan::Plan;
use crate::plan::inside::{self, Inside, Seen};
use palisade_policy::Access;
use palisade_syscall::broker::report::{Came, Used};
use std::path::{Path, PathBuf};

/// The differences of two plans about the uses under the first.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Uses that were allowed, and that the new plan refuses.
    pub lacks: Vec<Change>,
    /// Uses that were refused, and that the new plan allows.
    pub widens: Vec<Change>,
}

/// An access that one plan allows and the other refuses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The path inside. For a name that was to be made: the nearest existing directory above.
    pub path: PathBuf,
    /// The host's path, by the plan that allows the access.
    pub source: PathBuf,
    /// The kind of access.
    pub access: Access,
    /// The programs that made the access.
    pub programs: Programs,
    /// The rights that both plans give for the same file of the host.
    pub both: Rights,
}

/// Accesses, and the uses that need them.
const ACCESSES: [(Access, &[Used]); 3] = [
    (Access::Read, &[Used::Look, Used::Read]),
    (Access::Write, &[Used::Change, Used::Name, Used::Make, Used::Socket]),
    (Access::Execute, &[Used::Execute]),
];

impl Comparison {
    /// Decides each use in a trace by both plans: `before`, under which it was noted, and `after`. A refusal counts
    /// only if `before` caused it: file permissions refuse the same use under both plans.
    #[must_use]
    pub fn of(trace: &AccessTrace, before: &Plan<'_>, after: &Plan<'_>, host: &dyn Host) -> Self {
        let mut comparison = Self::default();
        for (path, uses) in &trace.paths {
            for (access, hows) in ACCESSES {
                if uses.any(hows, Came::Done) {
                    let [old, new] = [before, after].map(|plan| inside::look(plan, path));
                    if allows_of_host(&old, access) && !(allows(&new, access) && same(&old, &new)) {
                        comparison.lacks.extend(Change::of(path, access, uses, (&old, &new)));
                    }
                }
                if let Some(path) = refused(path, uses, access, hows, host) {
                    let [old, new] = [before, after].map(|plan| inside::look(plan, path));
                    let known = |change: &Change| change.path == path && change.access == access;
                    // In a private place the private name was absent. The old plan didn't show the host's file either.
                    if !allows_of_host(&old, access)
                        && allows_of_host(&new, access)
                        && !comparison.widens.iter().any(known)
                    {
                        comparison.widens.extend(Change::of(path, access, uses, (&new, &old)));
                    }
                }
            }
        }
        comparison
    }
}

impl Change {
    /// `by`: how the path looks under the plan that allows the access; `other`: how it looks under the other plan.
    fn of(path: &Path, access: Access, uses: &Uses, (by, other): (&Inside<'_>, &Inside<'_>)) -> Option<Self> {
        let Seen::Host { path: source, .. } = &by.seen else { return None };
        let same = same(by, other);
        let both = Rights {
            read: same && by.can_read() && other.can_read(),
            write: same && by.can_write() && other.can_write(),
            execute: same && by.can_execute() && other.can_execute(),
        };
        let programs = uses.programs.clone();
        Some(Self { path: path.to_owned(), source: source.clone(), access, programs, both })
    }
}

/// The path of a use that was refused or absent, if the host has the path. For a name that was to be made it is the
/// directory. `None` if the host lacks it, too: then no plan would have made a difference.
fn refused<'p>(
    path: &'p Path,
    uses: &Uses,
    access: Access,
    hows: &[Used],
    host: &dyn Host,
) -> Option<&'p Path> {
    let is_refused = uses.any(hows, Came::Refused);
    if !is_refused && !uses.any(hows, Came::Absent) {
        return None;
    }
    let places = match (access, is_refused) {
        (Access::Write, true) => usize::MAX,
        (Access::Write, false) => 2,
        _ => 1,
    };
    path.ancestors().take(places).find(|path| host.exists(path))
}

fn allows_of_host(seen: &Inside<'_>, access: Access) -> bool {
    matches!(seen.seen, Seen::Host { .. }) && allows(seen, access)
}

fn allows(seen: &Inside<'_>, access: Access) -> bool {
    match access {
        Access::Write => seen.can_write(),
        Access::Execute => seen.can_execute(),
        _ => seen.can_read(),
    }
}

fn same(one: &Inside<'_>, other: &Inside<'_>) -> bool {
    match (&one.seen, &other.seen) {
        (Seen::Host { path: one, .. }, Seen::Host { path: other, .. }) => one == other,
        _ => false,
    }
}
