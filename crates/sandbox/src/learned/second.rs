// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares a second run, under the profile that was learned from the first run, with that first run.

use super::calls::Calls;
use super::hosts::{self, Hosts};
use super::{AccessTrace, Change, Comparison, Host, Under, UsageSummary};
use crate::error::PlanError;
use crate::filter::calls::{Fate, fate};
use crate::plan::inside::{self, Seen};
use palisade_policy::NetworkMode;
use palisade_policy::network::{Judge, NetworkVerdict};
use palisade_syscall::Syscall;
use rustix::fs::{FileType, MemfdFlags, SeekFrom};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The data that the first run passes to the second one. The second run is this program executed again.
#[derive(Debug, Serialize, Deserialize)]
pub struct Handed {
    /// The profile, as a file.
    pub profile: String,
    /// The exit code.
    pub code: u8,
    /// Paths of which a use was refused.
    pub refused: Vec<Vec<u8>>,
}

/// The position at which standard input begins, if it is a file that can be read twice.
#[must_use]
pub fn beginning() -> Option<u64> {
    let input = rustix::stdio::stdin();
    let found = rustix::fs::fstat(input).ok()?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return None;
    }
    rustix::fs::seek(input, SeekFrom::Current(0)).ok()
}

impl Handed {
    /// Writes the data to memory, at a descriptor that the next executed program inherits. Sets standard input back to
    /// its beginning.
    ///
    /// # Errors
    /// When no memory is available, or standard input can't be set.
    pub fn leave(&self, beginning: Option<u64>) -> std::io::Result<File> {
        let file = rustix::fs::memfd_create("palisade-learned", MemfdFlags::empty())?;
        let mut file = File::from(file);
        file.write_all(&serde_json::to_vec(self)?)?;
        if let Some(beginning) = beginning {
            rustix::fs::seek(rustix::stdio::stdin(), SeekFrom::Start(beginning))?;
        }
        Ok(file)
    }

    /// Reads the data that the first run left at a descriptor.
    ///
    /// # Errors
    /// When the descriptor holds no data that was [left](Self::leave).
    pub fn take(number: u32) -> std::io::Result<Self> {
        let mut file = File::from(palisade_sys::process::inherited(number)?);
        file.rewind()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}

/// A second run, and the facts of the first one.
pub struct Second<'s> {
    /// The policy and plan of the first run.
    pub first: &'s Under,
    /// Paths for which the first run was refused a use.
    pub refused: &'s BTreeSet<&'s Path>,
    /// The policy and plan of the second run.
    pub under: &'s Under,
    /// What it used.
    pub trace: &'s AccessTrace,
    /// The hosts that it connected to.
    pub hosts: &'s Hosts,
    /// Its system calls.
    pub calls: &'s Calls,
    /// The user's home.
    pub home: &'s Path,
    /// The host's files.
    pub host: &'s dyn Host,
}

/// What was refused in a second run and not in the first one.
#[derive(Debug)]
pub struct Refusals {
    /// Files.
    pub files: Vec<Change>,
    /// Paths that were written in a private place, and are lost.
    pub lost: Vec<PathBuf>,
    /// Protected names that were refused.
    pub names: Vec<String>,
    /// Hosts that it couldn't connect to.
    pub network: Network,
    /// System calls.
    pub calls: Vec<Syscall>,
}

/// The hosts that a second run couldn't connect to although the first one could.
#[derive(Debug, PartialEq, Eq)]
pub enum Network {
    /// Hosts that were refused.
    Refused(Vec<String>),
    /// Addresses: the run had no network.
    Absent(Vec<String>),
}

impl Second<'_> {
    /// What was refused and wasn't refused in the first run.
    ///
    /// # Errors
    /// When a call's fate under a plan can't be determined.
    pub fn refusals(&self) -> Result<Refusals, PlanError> {
        let mut calls = Vec::new();
        for call in &self.calls.refused {
            // A call that the options refuse, too, isn't a difference.
            if fate(&self.first.plan, &self.first.policy, *call)? != Fate::Refused {
                calls.push(*call);
            }
        }
        let account = self.account();
        Ok(Refusals {
            files: self.files(),
            lost: self.lost(&account),
            names: self.names(),
            network: self.network(&account),
            calls,
        })
    }

    fn account(&self) -> UsageSummary {
        let plan = &self.under.plan;
        UsageSummary::of(self.trace, plan, plan, self.home, self.host)
    }

    fn files(&self) -> Vec<Change> {
        let mut refused = Comparison::of(self.trace, &self.under.plan, &self.first.plan, self.host).widens;
        // What the host's permissions refuse was refused in the first run, too.
        refused.retain(|change| !self.refused.contains(change.path.as_path()));
        refused
    }

    fn lost(&self, account: &UsageSummary) -> Vec<PathBuf> {
        let is_kept = |path: &Path| {
            let there = inside::look(&self.first.plan, path);
            matches!(there.seen, Seen::Host { .. }) && there.can_write()
        };
        account.lost.iter().filter(|lost| is_kept(&lost.path)).map(|lost| lost.path.clone()).collect()
    }

    fn names(&self) -> Vec<String> {
        let broker = self.first.plan.broker.as_ref();
        let protects = |name: &str| {
            broker.is_some_and(|broker| {
                let rules = [broker.names.get(), broker.paths.get()];
                rules.iter().flatten().any(|rules| rules.rules().iter().any(|rule| rule.path == name))
            })
        };
        self.trace.names().filter(|name| !protects(name)).map(str::to_owned).collect()
    }

    /// Hosts that were refused or couldn't be reached, and that the options allow.
    fn network(&self, account: &UsageSummary) -> Network {
        let mode = |under: &Under| under.policy.network().value;
        match (mode(self.first), mode(self.under)) {
            (NetworkMode::Filtered, NetworkMode::Filtered) => {
                Network::Refused(hosts::compare(self.hosts, &self.under.plan, &self.first.plan).gained)
            }
            (NetworkMode::Host, NetworkMode::Filtered) => {
                Network::Refused(self.hosts.refused.keys().cloned().collect())
            }
            (was @ (NetworkMode::Host | NetworkMode::Filtered), NetworkMode::None) => {
                let rules = self.first.plan.network.as_ref().and_then(|network| network.rules.get().ok());
                let rules = rules.unwrap_or_default();
                let judge = Judge::new(&rules);
                let allowed = |address: &&String| {
                    was == NetworkMode::Host
                        || address.parse::<SocketAddr>().is_ok_and(|address| {
                            judge.address(address.ip(), address.port()).verdict != NetworkVerdict::Deny
                        })
                };
                Network::Absent(account.addresses.keys().filter(allowed).cloned().collect())
            }
            _ => Network::Refused(Vec::new()),
        }
    }
}
