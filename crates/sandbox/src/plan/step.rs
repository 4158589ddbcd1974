// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steps of building a file tree.

use super::rights;
use crate::plan::text::Text;
use palisade_sys::landlock::Rights;
use serde::{Deserialize, Serialize};

/// One step of building the file tree.
///
/// Paths of the new tree have no leading slash. The enum is tagged externally because the cache's format doesn't
/// describe types.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step<'a> {
    /// An empty tmpfs becomes the root.
    Root {
        /// tmpfs option `size`.
        #[serde(borrow)]
        size: Text<'a>,
    },
    /// A directory.
    Directory {
        /// The path.
        #[serde(borrow)]
        path: Text<'a>,
        /// Permissions.
        mode: u32,
    },
    /// A file.
    File {
        /// The path.
        #[serde(borrow)]
        path: Text<'a>,
        /// Permissions.
        mode: u32,
        /// Content.
        #[serde(borrow)]
        content: Text<'a>,
    },
    /// A symbolic link.
    Symlink {
        /// The path.
        #[serde(borrow)]
        path: Text<'a>,
        /// The target.
        #[serde(borrow)]
        target: Text<'a>,
    },
    /// A tree or file of the host.
    Bind(#[serde(borrow)] Bind<'a>),
    /// A directory of the new tree becomes a separate, writable mount.
    Own {
        /// The path.
        #[serde(borrow)]
        path: Text<'a>,
        /// Landlock rights beneath.
        #[serde(with = "rights")]
        rights: Rights,
        /// The user didn't ask for it, and is told of files that are gone with it.
        reports_leftovers: bool,
    },
    /// A private, empty, writable directory.
    Tmpfs {
        /// The path, which exists.
        #[serde(borrow)]
        path: Text<'a>,
        /// Landlock rights beneath.
        #[serde(with = "rights")]
        rights: Rights,
    },
    /// A directory shown through another one, which takes the changes.
    Overlay {
        /// The directory below, in the new tree.
        #[serde(borrow)]
        lower: Text<'a>,
        /// The directory that takes the changes.
        #[serde(borrow)]
        upper: Text<'a>,
        /// A working directory of the overlay.
        #[serde(borrow)]
        work: Text<'a>,
        /// The path, which exists.
        #[serde(borrow)]
        target: Text<'a>,
        /// The target lies in a tree that processes outside can change: follow no link on the path.
        guarded: bool,
        /// Landlock rights beneath.
        #[serde(with = "rights")]
        rights: Rights,
    },
    /// A separate set of pseudo-terminals.
    Terminals {
        /// The path.
        #[serde(borrow)]
        path: Text<'a>,
    },
    /// The terminal that the command inherits, if there is one, so that it has a name inside.
    Console {
        /// The path.
        #[serde(borrow)]
        path: Text<'a>,
    },
    /// Separate POSIX message queues. Landlock judges `mq_open` by an internal mount of the kernel, whose root is the
    /// one here: without a rule for it no queue could be opened.
    Queues {
        /// The path.
        #[serde(borrow)]
        path: Text<'a>,
        /// Landlock rights beneath.
        #[serde(with = "rights")]
        rights: Rights,
    },
    /// The processes inside.
    Processes {
        /// The path.
        #[serde(borrow)]
        path: Text<'a>,
        /// Landlock rights beneath.
        #[serde(with = "rights")]
        rights: Rights,
    },
    /// A listening socket of the launcher, at which a bus is reached.
    Socket {
        /// The path.
        #[serde(borrow)]
        path: Text<'a>,
        /// The index of its bus.
        bus: u32,
    },
    /// The file by which portals know an application. The launch's number is added to its end.
    Information {
        /// The path.
        #[serde(borrow)]
        path: Text<'a>,
        /// Its content before that.
        #[serde(borrow)]
        content: Text<'a>,
    },
    /// The launch's file of refusals, which only the launcher writes. Without one the empty file at the path stays.
    Refusals {
        /// The path, which exists.
        #[serde(borrow)]
        path: Text<'a>,
    },
    /// Landlock rights beneath a path.
    Allow {
        /// The path.
        #[serde(borrow)]
        path: Text<'a>,
        /// The rights.
        #[serde(with = "rights")]
        rights: Rights,
    },
    /// The new tree becomes `/`, read-only where nothing else is mounted.
    Enter,
}

/// A tree or file of the host, or of the new tree, mounted at a path.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bind<'a> {
    /// The source: absolute on the host, relative in the new tree.
    #[serde(borrow)]
    pub source: Text<'a>,
    /// The path, which exists.
    #[serde(borrow)]
    pub target: Text<'a>,
    /// Where the source comes from.
    pub origin: Origin,
    /// May be written to.
    pub write: bool,
    /// May be executed.
    pub execute: bool,
    /// Device files can be used.
    pub devices: bool,
    /// The target lies in a tree that processes outside can change: follow no link on the path.
    pub guarded: bool,
    /// It covers a name that processes outside may replace. The mask refresher then mounts it again.
    #[serde(default)]
    pub renewed: bool,
    /// With a mapped identity: owners are mapped too, so that the caller's files are the command's.
    pub map_owners: bool,
    /// Landlock rights beneath.
    #[serde(with = "rights")]
    pub rights: Rights,
}

/// Where a bind's source comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The working directory of the launch, by descriptor.
    WorkingDirectory,
    /// A system path that only root changes.
    System,
    /// A canonical path; refused if a link has been put into it.
    Canonical,
    /// The new tree.
    Inside,
}
