// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was used and refused under one plan, decided by another one.

use super::trace::{AccessTrace, Programs, Uses};
use super::{Host, Rights};
use crate::plan::Plan;
use crate::plan::inside::{self, Inside, Seen};
use palisade_policy::Access;
use palisade_syscall::broker::report::{Came, Used};
use std::path::{Path, PathBuf};

/// Where two plans differ in what a command did under the first.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// What was used, and the new plan refuses.
    pub lacks: Vec<Change>,
    /// What was refused, and the new plan allows.
    pub widens: Vec<Change>,
}

/// An access that one plan allows and the other refuses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The path inside. To make what isn't there, the directory above it that is.
    pub path: PathBuf,
    /// The host's, by the plan that allows it.
    pub source: PathBuf,
    /// What for.
    pub access: Access,
    /// By whom.
    pub programs: Programs,
    /// What both plans allow of the same file of the host.
    pub both: Rights,
}

/// Accesses, and the uses that need them.
const ACCESSES: [(Access, &[Used]); 3] = [
    (Access::Read, &[Used::Look, Used::Read]),
    (Access::Write, &[Used::Change, Used::Name, Used::Make, Used::Socket]),
    (Access::Execute, &[Used::Execute]),
];

impl Comparison {
    /// Decides each use in a trace by both plans: `before`, under which it was noted, and `after`. A refusal counts if
    /// `before` made it: what permissions of files refuse, they go on refusing.
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
                    // Of a private place it is the private name that was absent.
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
    /// `by` is what the plan that allows it makes of the path, `other` what the other one does.
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

/// What a use was of that was refused or absent, and that is on the host: the path; of a name that was to be made, the
/// directory. Where that is absent on the host, too, no plan would have made a difference.
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
