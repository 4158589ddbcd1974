// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why learned calls can't be shown or changed.

use crate::verb;
use palisade_import::calls::ExchangeError;
use palisade_policy::suggest;
use palisade_sandbox::error::store_hint;
use palisade_syscall::store::StoreError;
use palisade_syscall::store::word::WordError;
use std::path::PathBuf;

/// Why a verb fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SyscallsError {
    /// The store can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nothing was learned for the profile.
    #[error("nothing was learned for the profile {name:?}{}", or_meant(.nearest.as_deref()))]
    Profile {
        /// The name.
        name: String,
        /// A profile with a similar name.
        nearest: Option<String>,
    },
    /// Nothing was learned of the binary.
    #[error("nothing was learned for the binary {path:?}")]
    Binary {
        /// The path.
        path: PathBuf,
    },
    /// The word doesn't identify a program.
    #[error(transparent)]
    Program(#[from] WordError),
    /// There is no such group.
    #[error("unknown group `{name}`{}", or_meant(.nearest.as_deref()))]
    Group {
        /// The name.
        name: String,
        /// A group with a similar name.
        nearest: Option<String>,
    },
    /// A profile must have a name.
    #[error("{name:?} can't be a profile's name")]
    Name {
        /// The name.
        name: String,
    },
    /// The file to import isn't understood.
    #[error("can't import {path:?}: {source}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: ExchangeError,
    },
    /// A path can't be exported as text.
    #[error("can't export {name:?}: {source}")]
    Export {
        /// The profile.
        name: String,
        /// Why not.
        source: ExchangeError,
    },
    /// There is no terminal to ask on.
    #[error("there is no terminal to ask on")]
    NobodyToAsk,
}

fn or_meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

impl SyscallsError {
    /// The error for an unknown profile. The user may mean one of `known`.
    pub(super) fn profile(name: &str, known: &[String]) -> Self {
        let nearest = suggest::nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
        Self::Profile { name: name.to_owned(), nearest }
    }

    /// The error for an unknown group.
    pub(super) fn group(name: &str) -> Self {
        let name = format!("@{}", name.trim_start_matches('@'));
        let names = palisade_syscall::group::groups().map(|group| group.name);
        let nearest = suggest::nearest(&name, names).map(str::to_owned);
        Self::Group { name, nearest }
    }

    /// The error's class, for programs.
    pub(crate) const fn class(&self) -> &'static str {
        match self {
            Self::Store(_) => "store",
            Self::Profile { .. } => "unknown-profile",
            Self::Binary { .. } | Self::Program(_) | Self::Group { .. } | Self::Name { .. } => "unknown-name",
            Self::Foreign { .. } => "import",
            Self::Export { .. } => "export",
            Self::NobodyToAsk => "nobody-to-ask",
        }
    }

    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => store_hint(error),
            Self::Profile { .. } | Self::Binary { .. } | Self::Program(_) => Some(
                "palisade syscalls list   # lists the profiles and programs with learned calls".to_owned(),
            ),
            Self::Group { .. } => Some("palisade syscalls groups   # lists the groups".to_owned()),
            Self::Name { .. } => Some("use a name that isn't empty and has no control characters".to_owned()),
            Self::NobodyToAsk => Some(verb::yes_hint()),
            Self::Foreign { .. } | Self::Export { .. } => None,
        }
    }
}
