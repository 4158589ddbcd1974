// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the daemon is started.

use std::path::PathBuf;

/// Decides for the whole host what may execute.
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "palisaded", version, about, max_term_width = 100)]
pub(crate) struct Options {
    /// Where settings, rules and trust files are
    #[arg(long, value_name = "DIRECTORY", default_value = "/etc/palisade")]
    pub(crate) config: PathBuf,
    /// Where the trust database is
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/palisade")]
    pub(crate) state: PathBuf,
    /// Where the command line reaches it
    #[arg(long, value_name = "SOCKET", default_value = palisade_protocol::guard::SOCKET)]
    pub(crate) socket: PathBuf,
    /// Only say what would be refused, whatever the settings say
    #[arg(long)]
    pub(crate) permissive: bool,
    /// Enforce rules that would stop the host
    #[arg(long)]
    pub(crate) force: bool,
    /// Check settings and rules, and end
    #[arg(long)]
    pub(crate) check: bool,
    /// Ask about every open and exec, also where the kernel could answer by itself
    #[arg(long)]
    pub(crate) ask_always: bool,
    /// Read package databases for another palisaded; not for people
    #[arg(long, hide = true)]
    pub(crate) load_trust: bool,
}
