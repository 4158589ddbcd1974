// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles a plan's steps to the operation list that the builder executes.

use crate::plan::{Bind, IdentityKind, Origin, Plan, Step};
use palisade_sys::landlock::Rights;
use palisade_sys::operation::{Attributes, Kept, Operation, Source, Terminal, TreeSlot};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

type Options<'a> = [(&'a CStr, &'a CStr)];

/// Options of a private directory that every process inside can use, as `/tmp` is.
const PRIVATE: &Options<'static> = &[(c"mode", c"0755")];
/// Before kernel 4.7 `newinstance` makes the terminals separate from the host's. It has no effect since.
const TERMINALS: &Options<'static> = &[(c"mode", c"0620"), (c"ptmxmode", c"0666")];

/// Attributes of the file of refusals.
const READ_ONLY: Attributes = Attributes::READ_ONLY.and(Attributes::NOEXEC).and(Attributes::NODEV);

/// Detached trees that only the privileged launcher can make, opened while the builder is at work.
#[derive(Debug, Default)]
pub(crate) struct Trees<'r> {
    /// The file of refusals on the host.
    refusals: Option<&'r CStr>,
    /// Indices of their steps.
    steps: Vec<usize>,
    slots: Vec<TreeSlot>,
}

/// A tree couldn't be opened.
#[derive(Debug)]
pub(crate) struct TreeError {
    /// Index of the step.
    pub(crate) step: usize,
    /// What the kernel said.
    pub(crate) errno: Errno,
}

impl<'r> Trees<'r> {
    /// The trees that a command of mapped identity can't open. Perhaps only the launcher may pass the directories above
    /// them.
    pub(crate) fn of(plan: &Plan<'_>, refusals: Option<&'r CStr>) -> Self {
        let mut trees = Self { refusals, ..Self::default() };
        if plan.identity.kind == IdentityKind::Mapped {
            for (index, step) in plan.steps.iter().enumerate() {
                let needs_launcher = match step {
                    Step::Bind(bind) => matches!(bind.origin, Origin::WorkingDirectory | Origin::Canonical),
                    Step::Refusals { .. } => refusals.is_some(),
                    _ => false,
                };
                if needs_launcher {
                    trees.steps.push(index);
                    trees.slots.push(TreeSlot::empty());
                }
            }
        }
        trees
    }

    /// The slots in which the builder finds the trees.
    pub(crate) fn slots(&self) -> &[TreeSlot] {
        &self.slots
    }

    /// Opens the trees, and maps owners where the plan says so. They must stay open until the launch is over.
    pub(crate) fn open(&self, plan: &Plan<'_>, namespace: BorrowedFd<'_>) -> Result<Vec<OwnedFd>, TreeError> {
        let mut open = Vec::with_capacity(self.steps.len());
        for (&step, slot) in self.steps.iter().zip(&self.slots) {
            let failed = |errno| TreeError { step, errno };
            let bind = match (plan.steps.get(step), self.refusals) {
                (Some(Step::Bind(bind)), _) => bind,
                (Some(Step::Refusals { .. }), Some(file)) => {
                    let tree = palisade_sys::mount::detached(file, READ_ONLY).map_err(failed)?;
                    slot.leave(tree.as_fd());
                    open.push(tree);
                    continue;
                }
                _ => continue,
            };
            let source = match bind.origin {
                Origin::WorkingDirectory => c".",
                _ => bind.source.as_c_str(),
            };
            let tree = palisade_sys::mount::detached(source, attributes(bind)).map_err(failed)?;
            if bind.map_owners {
                palisade_sys::mount::map_owners(tree.as_fd(), namespace).map_err(failed)?;
            }
            slot.leave(tree.as_fd());
            open.push(tree);
        }
        Ok(open)
    }

    fn slot(&self, step: usize) -> Option<usize> {
        self.steps.iter().position(|index| *index == step)
    }
}

pub(crate) fn attributes(bind: &Bind<'_>) -> Attributes {
    let mut attributes = Attributes::default();
    if bind.devices {
        // A device file can't be executed, and belongs to no tree that could change.
        return attributes;
    }
    for (missing, attribute) in [
        (!bind.write, Attributes::READ_ONLY),
        (!bind.execute, Attributes::NOEXEC),
        (!bind.devices, Attributes::NODEV),
    ] {
        if missing {
            attributes = attributes.and(attribute);
        }
    }
    attributes
}

/// Values that operations borrow in addition to the plan's steps.
#[derive(Debug)]
pub(crate) struct Given<'p> {
    /// tmpfs options of the root.
    root: [(&'p CStr, &'p CStr); 2],
    /// The sockets at which buses are reached.
    sockets: &'p [OwnedFd],
    /// The file by which portals know the application.
    information: Vec<u8>,
    /// The file of refusals on the host.
    refusals: Option<&'p CStr>,
    /// The private directories, by their step.
    kept: Vec<(usize, Kept)>,
    /// The terminal that the command inherits.
    console: Option<Terminal>,
}

impl<'p> Given<'p> {
    /// What a plan needs in a launch of this number.
    pub(crate) fn new(
        plan: &'p Plan<'_>,
        sockets: &'p [OwnedFd],
        number: &str,
        console: Option<Terminal>,
    ) -> Self {
        let mut size = c"50%";
        let mut information = Vec::new();
        let mut kept = Vec::new();
        for (index, step) in plan.steps.iter().enumerate() {
            match step {
                Step::Own { reports_leftovers: true, .. } => kept.push((index, Kept::new())),
                Step::Root { size: stated } => size = stated.as_c_str(),
                Step::Information { content, .. } => {
                    information = [content.as_bytes(), number.as_bytes(), b"\n"].concat();
                }
                _ => {}
            }
        }
        Self {
            root: [(c"mode", c"0755"), (c"size", size)],
            sockets,
            information,
            refusals: None,
            kept,
            console,
        }
    }

    /// With the file of refusals.
    pub(crate) fn with_refusals(self, refusals: Option<&'p CStr>) -> Self {
        Self { refusals, ..self }
    }

    /// The private directories, by their step.
    pub(crate) fn kept(&self) -> &[(usize, Kept)] {
        &self.kept
    }

    fn socket(&self, bus: u32) -> i32 {
        let socket = usize::try_from(bus).ok().and_then(|bus| self.sockets.get(bus));
        socket.map_or(-1, AsRawFd::as_raw_fd)
    }
}

/// The operations, one for each step. An operation has its step's index, so a failure names the step.
pub(crate) fn operations<'p>(
    plan: &'p Plan<'_>,
    given: &'p Given<'p>,
    trees: &'p Trees<'_>,
) -> Vec<Operation<'p>> {
    let each = |(index, step)| operation(step, index, given, trees.slot(index));
    plan.steps.iter().enumerate().map(each).collect()
}

fn operation<'p>(
    step: &'p Step<'_>,
    index: usize,
    given: &'p Given<'p>,
    tree: Option<usize>,
) -> Operation<'p> {
    match step {
        Step::Root { .. } => Operation::Root { options: &given.root },
        Step::Socket { path, bus } => Operation::Listen { path: path.as_c_str(), socket: given.socket(*bus) },
        Step::Information { path, .. } => {
            Operation::File { path: path.as_c_str(), mode: 0o644, content: &given.information }
        }
        Step::Refusals { path } => {
            let source = match (tree, given.refusals) {
                (Some(slot), _) => Source::Tree(slot),
                (None, Some(file)) => Source::Canonical(file),
                // The empty file stays.
                (None, None) => {
                    return Operation::Allow { path: path.as_c_str(), rights: Rights::READ_FILE };
                }
            };
            Operation::Bind {
                source,
                target: path.as_c_str(),
                guarded: false,
                recursive: false,
                attributes: READ_ONLY,
                rights: Rights::READ_FILE,
            }
        }
        Step::Directory { path, mode } => Operation::Directory { path: path.as_c_str(), mode: *mode },
        Step::File { path, mode, content } => {
            Operation::File { path: path.as_c_str(), mode: *mode, content: content.as_bytes() }
        }
        Step::Symlink { path, target } => {
            Operation::Symlink { path: path.as_c_str(), target: target.as_c_str() }
        }
        Step::Bind(bind) => {
            let source = match (tree, bind.origin) {
                (Some(slot), _) => Source::Tree(slot),
                (None, Origin::WorkingDirectory) => Source::WorkingDirectory,
                (None, Origin::System) => Source::Trusted(bind.source.as_c_str()),
                (None, Origin::Canonical) => Source::Canonical(bind.source.as_c_str()),
                (None, Origin::Inside) => Source::Inside(bind.source.as_c_str()),
            };
            Operation::Bind {
                source,
                target: bind.target.as_c_str(),
                guarded: bind.guarded,
                recursive: !bind.devices && bind.origin != Origin::Inside,
                attributes: attributes(bind),
                rights: bind.rights,
            }
        }
        Step::Own { path, rights, reports_leftovers: _ } => {
            let kept = given.kept.iter().find(|(step, _kept)| *step == index).map(|(_step, kept)| kept);
            Operation::Own { path: path.as_c_str(), rights: *rights, kept }
        }
        Step::Tmpfs { path, rights } => Operation::Filesystem {
            kind: c"tmpfs",
            options: PRIVATE,
            flags: &[],
            attributes: Attributes::NOSUID.and(Attributes::NODEV),
            target: path.as_c_str(),
            guarded: true,
            rights: *rights,
        },
        Step::Overlay { lower, upper, work, target, guarded, rights } => Operation::Overlay {
            lower: lower.as_c_str(),
            upper: upper.as_c_str(),
            work: work.as_c_str(),
            target: target.as_c_str(),
            guarded: *guarded,
            rights: *rights,
        },
        Step::Terminals { path } => Operation::Filesystem {
            kind: c"devpts",
            options: TERMINALS,
            flags: &[c"newinstance"],
            attributes: Attributes::NOSUID.and(Attributes::NOEXEC),
            target: path.as_c_str(),
            guarded: false,
            rights: Rights::default(),
        },
        Step::Console { path } => {
            Operation::Terminal { terminal: given.console.as_ref(), target: path.as_c_str() }
        }
        Step::Queues { path, rights } => Operation::Filesystem {
            kind: c"mqueue",
            options: &[],
            flags: &[],
            attributes: Attributes::NOSUID.and(Attributes::NODEV).and(Attributes::NOEXEC),
            target: path.as_c_str(),
            guarded: false,
            rights: *rights,
        },
        Step::Processes { path, rights } => Operation::Proc { target: path.as_c_str(), rights: *rights },
        Step::Allow { path, rights } => Operation::Allow { path: path.as_c_str(), rights: *rights },
        Step::Enter => Operation::Enter { read_only: true },
    }
}
