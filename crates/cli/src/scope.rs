// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade scope`: manages marked subtrees of processes, and what the kernel does to them.
//!
//! - [`launch`]: runs a command in a scope of its own
//! - [`events`]: shows what happens in scopes
//! - [`listing`]: lists scopes, and what is in force

mod events;
mod launch;
mod listing;

use crate::output;
use crate::verb::{self, Exit, YES};
use clap::{Subcommand, ValueHint};
pub(crate) use events::happened;
use palisade_protocol::client::{DaemonError, ask};
use palisade_protocol::scope::{Depth, Profile, Request, Response, SOCKET, Verdict, Wanted};
use std::path::PathBuf;

/// What about scopes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code: 0 yes or done, 1 the answer is no, 2 error. `run`: the command's; 125 if it isn't started,
126 if it can't be executed, 127 if it isn't found.

Examples:
  palisade scope run -- npm install            # watch all that it executes
  palisade scope run --verdict kill -- ./tool  # it may execute nothing further
  palisade scope events --follow
  palisade scope profile strict                # what scopes.toml denies is refused by the kernel")]
pub(crate) struct Options {
    /// Where palisaded answers
    #[arg(long, global = true, value_name = "SOCKET", default_value = SOCKET, value_hint = ValueHint::FilePath)]
    socket: PathBuf,
    #[command(subcommand)]
    what: What,
}

/// What a scope shall be.
#[derive(Debug, clap::Args)]
struct New {
    /// What becomes of what is executed in it: watch, warn, kill or refuse
    #[arg(long, value_name = "VERDICT", default_value_t)]
    verdict: Verdict,
    /// A name for people
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// Tell of rare system calls, too; every system call of the host takes a little longer meanwhile
    #[arg(long)]
    calls: bool,
}

impl New {
    fn wanted(&self, label: impl FnOnce() -> String) -> Wanted {
        Wanted {
            verdict: self.verdict,
            label: self.label.clone().unwrap_or_else(label),
            calls: self.calls,
            profile: None,
        }
    }
}

#[derive(Debug, Subcommand)]
enum What {
    /// Run a command in a scope of its own, with all that it starts
    Run(launch::Options),
    /// Mark a process that runs, with all that it has started and starts
    Mark {
        /// Its number
        pid: u32,
        /// Not what it has started already
        #[arg(long)]
        alone: bool,
        #[command(flatten)]
        new: New,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// List your scopes; as root, everybody's
    List {
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what is in force, and what isn't; answers 1 unless the kernel holds marks
    Status {
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// End a scope, or all of yours: its processes continue without a mark. As root without a number, also remove programs and pins
    Clear {
        /// Its number
        scope: Option<u32>,
    },
    /// Set what becomes of what is executed in a scope from now on
    Verdict {
        /// Its number
        scope: u32,
        /// watch, warn, kill or refuse
        verdict: Verdict,
    },
    /// Print what happened in your scopes lately; as root, in everybody's
    Events(events::Options),
    /// Print or set how much is made of what happens: prompt, audit, session or strict
    Profile {
        /// From now on
        profile: Option<Profile>,
    },
    /// Print or set how far below a mark a process may be: one_level, ancestry(N), propagate_on_fork or cgroup
    Depth {
        /// From now on
        depth: Option<Depth>,
    },
}

/// Returns the exit code: 0, 1 no, or 2 error; for `run`, the command's exit code.
pub(crate) fn run(options: &Options) -> u8 {
    let socket = options.socket.as_path();
    let tell = |request: &Request| verb::finish(false, said(ask(socket, request)));
    match &options.what {
        What::Run(options) => launch::launch(socket, options),
        What::Mark { pid, alone, new, json } => {
            let label = || std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let scope = new.wanted(|| label().trim_end().to_owned());
            let request = Request::Mark { pid: *pid, alone: *alone, scope };
            verb::finish(*json, listing::marked(ask(socket, &request), *json))
        }
        What::List { json } => verb::finish(*json, listing::list(socket, *json)),
        What::Status { json } => verb::finish(*json, listing::status(socket, *json)),
        What::Clear { scope } => tell(&Request::Clear { scope: *scope }),
        What::Verdict { scope, verdict } => tell(&Request::Judge { scope: *scope, verdict: *verdict }),
        What::Events(options) => verb::finish(options.json, events::events(socket, options)),
        What::Profile { profile: Some(profile) } => tell(&Request::Profile { profile: *profile }),
        What::Depth { depth: Some(depth) } => tell(&Request::Depth { depth: *depth }),
        What::Profile { profile: None } => {
            verb::finish(false, listing::setting(socket, |status| status.profile.to_string()))
        }
        What::Depth { depth: None } => {
            verb::finish(false, listing::setting(socket, |status| status.depth.to_string()))
        }
    }
}

/// Prints the daemon's answer.
fn said(response: Result<Response, DaemonError>) -> Exit {
    let Response::Done { said } = response? else { return Err(DaemonError::Strange.into()) };
    output::say(&format!("{}\n", palisade_text::harmless(&said)));
    Ok(YES)
}
