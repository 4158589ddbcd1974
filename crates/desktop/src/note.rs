// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Notes about what was made for an application.

use crate::entry::EntryError;
use crate::search::SearchError;
use std::path::PathBuf;

/// A note.
#[derive(Debug)]
pub enum Note {
    /// The link isn't found by its name: its directory isn't on `PATH`.
    NotOnPath {
        /// The directory of links.
        directory: PathBuf,
        /// The link's name.
        name: String,
    },
    /// The link isn't found by its name: something else is found before it.
    Shadowed {
        /// What is found.
        by: PathBuf,
        /// The link's name.
        name: String,
    },
    /// The system has no desktop entry, and none was asked for.
    NoEntry {
        /// The profile.
        name: String,
        /// The command that makes one.
        again: String,
    },
    /// An entry is made from nothing, because the system's can't be found or read.
    FromNothing(SearchError),
    /// An entry is made from nothing, because the system's can't be rewritten.
    Unusable {
        /// The system's entry.
        path: PathBuf,
        /// Why.
        source: EntryError,
    },
    /// Something of the system's entry is missing in the one that was made.
    Lost(Lost),
    /// Another desktop entry can't be rewritten, and still starts the program without Palisade.
    Stays {
        /// The entry.
        path: PathBuf,
        /// Why.
        source: EntryError,
    },
    /// Other desktop entries start the program without Palisade. The user didn't ask to override them.
    Others {
        /// Their places below `applications`.
        entries: Vec<PathBuf>,
        /// The command that takes them.
        again: String,
    },
}

/// What a rewritten desktop entry lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// Parts of its `Exec` beside the program's call. This is the whole `Exec`.
    Exec(String),
    /// This action, because it starts something else.
    Action(String),
}
