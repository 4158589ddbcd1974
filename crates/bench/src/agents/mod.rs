// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures what agents' commands cost in sandboxes, and the speed of the filtered network.
//!
//! [`tasks`] are Greywall's workloads; [`rows`] are the launchers in which each one runs. [`server`] and [`names`] are the
//! servers that sandboxes connect to, and [`client`] is the client inside. [`attend`] runs a client and measures the sandbox
//! around it. [`traffic`] measures the network with these. [`parts`] measures the parts of a launch.

pub(crate) mod attend;
pub(crate) mod client;
pub(crate) mod names;
pub(crate) mod parts;
pub(crate) mod rows;
pub(crate) mod server;
pub(crate) mod tasks;
pub(crate) mod traffic;

use std::io;
use std::path::PathBuf;

use crate::launch::LaunchError;

/// Why measuring agents stops.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentsError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("can't start a server on the loopback")]
    Serve { source: io::Error },
    #[error("can't copy this program to {}", path.display())]
    Helper { path: PathBuf, source: io::Error },
}
