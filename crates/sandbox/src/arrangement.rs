// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file tree that the caller states part by part, in place of a view and of the policy's grants.
//!
//! The policy's rules about paths still hold, but only where they allow less than the caller asks for.

use std::path::PathBuf;

/// The parts, in the order in which they are made. A later part covers what earlier ones have at its place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Arrangement {
    /// The parts.
    pub parts: Vec<Part>,
}

/// A part of the tree. Its place is an absolute path inside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// A tree or file of the host.
    Tree {
        /// The path on the host; links are followed.
        source: PathBuf,
        /// Where.
        place: PathBuf,
        /// It may be written to.
        write: bool,
        /// Device files may be used.
        devices: bool,
        /// A source that doesn't exist is ignored.
        optional: bool,
    },
    /// The processes inside.
    Processes {
        /// Where.
        place: PathBuf,
    },
    /// Device files that every program expects.
    Devices {
        /// Where.
        place: PathBuf,
    },
    /// An empty directory of its own, in memory.
    Private {
        /// Where.
        place: PathBuf,
        /// Its permissions.
        mode: u32,
        /// Nothing can be written to it, except to what later parts put there.
        frozen: bool,
    },
    /// Message queues.
    Queues {
        /// Where.
        place: PathBuf,
    },
    /// A directory, if there is none.
    Directory {
        /// Where.
        place: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// Where.
        place: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// A file with this content.
    File {
        /// Where.
        place: PathBuf,
        /// Its content.
        content: Vec<u8>,
        /// Its permissions.
        mode: u32,
        /// It may be written to.
        write: bool,
    },
}

impl Part {
    /// Where it is.
    #[must_use]
    pub const fn place(&self) -> &PathBuf {
        match self {
            Self::Tree { place, .. }
            | Self::Processes { place }
            | Self::Devices { place }
            | Self::Private { place, .. }
            | Self::Queues { place }
            | Self::Directory { place, .. }
            | Self::Link { place, .. }
            | Self::File { place, .. } => place,
        }
    }
}
