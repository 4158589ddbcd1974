// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What couldn't be imported from a file.

use palisade_syscall::Syscall;
use std::collections::BTreeSet;
use std::fmt;

/// A part of a file that couldn't be imported, or was imported differently.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// Names of no system call here.
    #[error("left out, unknown to this palisade: {0}")]
    Unknown(Names),
    /// Calls that a container's profile allows under conditions only.
    #[error(
        "left out, not allowed unconditionally (for certain arguments, capabilities or kernels only): {}",
        joined(.0)
    )]
    Conditional(BTreeSet<Syscall>),
    /// The file allows calls that it doesn't name.
    #[error(
        "the file allows calls that it doesn't name: {stated} known calls are imported, later ones aren't"
    )]
    AllowsTheRest {
        /// How many calls that are.
        stated: usize,
    },
    /// The file is for other machines.
    #[error("the file is for {}, not for this machine: its call names are imported", .0.join(", "))]
    Architectures(Vec<String>),
    /// The file's error codes differ from Palisade's.
    #[error("the file's errors (errnoRet) aren't imported: calls that aren't allowed are refused with EPERM")]
    Errors,
    /// The file asks to log calls.
    #[error("{action} is imported as allowed: nothing is logged")]
    Logged {
        /// The action that says so.
        action: &'static str,
    },
    /// The file has flags.
    #[error("the file's flags aren't imported: {}", .0.join(", "))]
    Flags(Vec<String>),
    /// The file lets another process answer calls.
    #[error("the file's listener isn't imported: the calls that it would answer are refused")]
    Listener,
}

/// Names of no system call here, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names(BTreeSet<String>);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.0.iter().enumerate() {
            write!(f, "{}`{name}`", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl Warning {
    /// A warning about names of no system call here, if there are any.
    pub fn of_unknown(names: BTreeSet<String>) -> Option<Self> {
        (!names.is_empty()).then_some(Self::Unknown(Names(names)))
    }
}

fn joined(calls: &BTreeSet<Syscall>) -> String {
    palisade_syscall::table::names(calls).join(" ")
}
