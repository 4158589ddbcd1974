// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What agents' commands cost inside, and what the filtered network does.
//!
//! [`tasks`] are Greywall's workloads, [`rows`] in what each is run. [`server`] and [`names`] are what sandboxes talk to, [`client`]
//! is who talks (inside), [`attend`] runs one and looks at the sandbox around it. [`traffic`] measures with these, [`parts`] the
//! parts of a launch.

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

/// What ends the measuring of agents.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentsError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("can't start a server on the loopback")]
    Serve { source: io::Error },
    #[error("can't copy this program to {}", path.display())]
    Helper { path: PathBuf, source: io::Error },
}
