// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Says which parts of the proxy work in this terminal.

use crate::verb::{self, Failure};
use palisade_shell::start::Surroundings;

/// Prints whether the proxy is in front of this shell.
pub(super) fn status(json: bool) -> Result<u8, Failure> {
    let here = Surroundings::now();
    if json {
        verb::print(&format!("{}\n", serde_json::json!({ "schema": verb::SCHEMA, "running": here.inside })))?;
    } else if here.inside {
        verb::print("the proxy runs in this terminal\n")?;
    } else {
        verb::print("the proxy doesn't run in this terminal\n")?;
    }
    Ok(if here.inside { verb::YES } else { verb::NO })
}
