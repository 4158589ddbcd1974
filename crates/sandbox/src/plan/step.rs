// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steps of building a file tree.

use super::rights;
use crate::plan::text::Text;
use palisade_sys::landlock::Rights;
use serde::{Deserialize, Serialize};

/// One step of building the file tree.
///
/// Paths of the new tree have no leading slash. Tagged from outside because the cache's format
/// describes no types.
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
        /// Where.
        #[serde(borrow)]
        path: Text<'a>,
        /// Permissions.
        mode: u32,
    },
    /// A file.
    File {
        /// Where.
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
        /// Where.
        #[serde(borrow)]
        path: Text<'a>,
        /// Where it leads.
        #[serde(borrow)]
        target: Text<'a>,
    },
    /// A tree or file of the host.
    Bind(#[serde(borrow)] Bind<'a>),
    /// A directory of the new tree becomes a mount of its own, writable.
    Own {
        /// Which.
        #[serde(borrow)]
        path: Text<'a>,
        /// Landlock rights beneath.
        #[serde(with = "rights")]
        rights: Rights,
    },
    /// A private, empty, writable directory.
    Tmpfs {
        /// Where; exists.
        #[serde(borrow)]
        path: Text<'a>,
        /// Landlock rights beneath.
        #[serde(with = "rights")]
        rights: Rights,
    },
    /// A directory shown through another, which takes the changes.
    Overlay {
        /// What shows through, in the new tree.
        #[serde(borrow)]
        lower: Text<'a>,
        /// What takes the changes.
        #[serde(borrow)]
        upper: Text<'a>,
        /// A directory of the overlay's own.
        #[serde(borrow)]
        work: Text<'a>,
        /// Where; exists.
        #[serde(borrow)]
        target: Text<'a>,
        /// The target lies in a tree that others can change: follow no link on the way.
        guarded: bool,
        /// Landlock rights beneath.
        #[serde(with = "rights")]
        rights: Rights,
    },
    /// Pseudo-terminals of its own.
    Terminals {
        /// Where.
        #[serde(borrow)]
        path: Text<'a>,
    },
    /// POSIX message queues of its own. Landlock judges `mq_open` by a mount of the kernel's that nobody sees, whose root
    /// is the one here: without a rule for it no queue could be opened.
    Queues {
        /// Where.
        #[serde(borrow)]
        path: Text<'a>,
        /// Landlock rights beneath.
        #[serde(with = "rights")]
        rights: Rights,
    },
    /// The processes inside.
    Processes {
        /// Where.
        #[serde(borrow)]
        path: Text<'a>,
        /// Landlock rights beneath.
        #[serde(with = "rights")]
        rights: Rights,
    },
    /// A socket of the launcher's, at which a bus is reached.
    Socket {
        /// Where.
        #[serde(borrow)]
        path: Text<'a>,
        /// Whose, by its number among the buses.
        bus: u32,
    },
    /// The file by which portals know an application. The launch's number is added to its end.
    Information {
        /// Where.
        #[serde(borrow)]
        path: Text<'a>,
        /// What is in it before that.
        #[serde(borrow)]
        content: Text<'a>,
    },
    /// Landlock rights beneath a path.
    Allow {
        /// Which.
        #[serde(borrow)]
        path: Text<'a>,
        /// What.
        #[serde(with = "rights")]
        rights: Rights,
    },
    /// The new tree becomes `/`, read-only where nothing else is mounted.
    Enter,
}

/// A tree or file of the host, or of the new tree, put in a place.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bind<'a> {
    /// What: absolute on the host, relative in the new tree.
    #[serde(borrow)]
    pub source: Text<'a>,
    /// Where; exists.
    #[serde(borrow)]
    pub target: Text<'a>,
    /// Where the source comes from.
    pub origin: Origin,
    /// May be written to.
    pub write: bool,
    /// May be executed.
    pub execute: bool,
    /// Device files work.
    pub devices: bool,
    /// The target lies in a tree that others can change: follow no link on the way.
    pub guarded: bool,
    /// It covers a name that others may replace, and is renewed then.
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
