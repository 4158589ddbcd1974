// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade schema`: prints the JSON schema of policy files, for editors.

use crate::verb::{self, Failure, YES};

/// Nothing to choose.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {}

/// Prints; 0, or 2 error.
pub(crate) fn run(_options: &Options) -> u8 {
    let text = serde_json::to_string_pretty(&palisade_policy::json_schema());
    let printed = text
        .map_err(|error| Failure::Output { source: error.into() })
        .and_then(|text| verb::print(&format!("{text}\n")));
    verb::finish(false, printed.map(|()| YES))
}
