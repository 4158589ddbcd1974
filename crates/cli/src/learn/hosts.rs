// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whom a command talked to, as whoever serves its network tells it.

use crate::network;
use palisade_network::{Told, What};
use palisade_sandbox::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};

/// More hosts than this are no list that anybody reads.
const MOST: usize = 512;

/// The hosts of a run, with their ports, as rules are written.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    /// There is somebody who tells.
    pub(super) filtered: bool,
    /// Those that were talked to.
    pub(super) reached: BTreeSet<String>,
    /// Those that were refused, and why.
    pub(super) refused: BTreeMap<String, String>,
}

impl Hosts {
    pub(super) fn of(plan: &Plan<'_>) -> Self {
        Self { filtered: plan.network.is_some(), ..Self::default() }
    }

    /// Somebody was talked to, or was not.
    pub(super) fn note(&mut self, report: &[u8]) {
        let Some(Told::Report(report)) = network::told(report) else { return };
        let host = network::object(&report.host, report.port);
        if self.reached.len() + self.refused.len() >= MOST || report.host.is_empty() {
            return;
        }
        match report.what {
            What::Opened | What::Closed => {
                self.reached.insert(host);
            }
            What::Refused => {
                self.refused.insert(host, report.why);
            }
            What::Failed | What::Strained => {}
        }
    }
}
