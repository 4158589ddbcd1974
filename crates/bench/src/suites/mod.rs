// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The suites of the bench, one module each.

pub(crate) mod aa;
pub(crate) mod agents;
pub(crate) mod bwrap;
pub(crate) mod files;
pub(crate) mod gate;
pub(crate) mod guard;
pub(crate) mod launch;
pub(crate) mod profiles;
pub(crate) mod scopes;
pub(crate) mod shell;
pub(crate) mod syscalls;

use crate::entry::Entry;

/// The command without a launcher, twice. The second shows how much two equal things seem to differ on this machine today.
fn baselines() -> Vec<Entry> {
    vec![Entry::plain("plain"), Entry::plain("plain again (A/A)")]
}
