// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade mcp`: `serve` is a server of the Model Context Protocol on standard input and output, by which an agent asks what
//! it may do and what was refused, and asks the user for a permission. The server grants nothing. The other verbs
//! are in [`mcp_wrap`](crate::mcp_wrap).
//!
//! - [`server`]: the protocol: JSON-RPC 2.0, one message on each line
//! - [`tools`]: the tools and their arguments
//! - [`inside`], [`outside`]: the answers in a sandbox, and those on the host
//! - [`permission`]: questions to the user

mod inside;
mod outside;
mod permission;
mod server;
mod tools;

use crate::asked::Asked;
use crate::mcp_wrap;
use crate::verb::{self, Exit, Failure, YES};
use clap::{ArgMatches, Args, Subcommand};
use palisade_sandbox::refusals::InsidePolicy;
use std::path::Path;
use std::sync::Arc;
use tools::{Place, Tools};

/// What to do.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Answer an agent on standard input and output: what it may do, what was refused; ask the user for a permission
    Serve(Box<Serve>),
    /// Give an agent's servers policies of their own
    Wrap(Box<mcp_wrap::Wrap>),
    /// Take back what `wrap` has changed
    Unwrap(mcp_wrap::Unwrap),
    /// List the servers in agents' configurations
    List(mcp_wrap::List),
}

/// Serves until standard input ends. Inside a sandbox the answers are about that sandbox. On the host they are about
/// the launch that the options describe.
#[derive(Debug, Args)]
#[command(after_help = "\
An agent's settings name this command, for example those of Claude Code:
  claude mcp add palisade -- palisade mcp serve")]
struct Serve {
    #[command(flatten)]
    asked: Asked,
}

impl Options {
    /// The account whose launches are described.
    pub(crate) fn account(&self) -> Option<&str> {
        match &self.action {
            Action::Serve(serve) => serve.asked.launch.account.as_deref(),
            Action::Wrap(_) | Action::Unwrap(_) | Action::List(_) => None,
        }
    }

    /// The options of the launch that answers are about.
    #[cfg(test)]
    pub(crate) fn asked(&self) -> Option<&Asked> {
        match &self.action {
            Action::Serve(serve) => Some(&serve.asked),
            Action::Wrap(_) | Action::Unwrap(_) | Action::List(_) => None,
        }
    }
}

/// Serves, or changes which servers agents start. A server that serves returns 0 when standard input ends, and 2 on an error.
pub(crate) fn run(options: &Options, matches: &ArgMatches) -> u8 {
    let Some((_action, matches)) = matches.subcommand() else { return verb::ERROR };
    match &options.action {
        Action::Serve(serve) => verb::finish(false, answer(serve, matches)),
        Action::Wrap(wrap) => mcp_wrap::wrap(wrap),
        Action::Unwrap(unwrap) => mcp_wrap::unwrap(unwrap),
        Action::List(list) => mcp_wrap::list(list),
    }
}

fn answer(serve: &Serve, matches: &ArgMatches) -> Exit {
    let place = if Path::new("/.palisade").is_dir() {
        Place::Inside(InsidePolicy::here().map(Box::new))
    } else {
        let outside = outside::Outside::new(serve.asked.clone(), matches.clone())?;
        if let Some(done) = outside.dry_run() {
            return done;
        }
        Place::Outside(Box::new(outside))
    };
    let tools = Arc::new(Tools::new(place));
    server::serve(std::io::stdin(), Box::new(std::io::stdout()), &tools)
        .map_err(|source| Failure::Output { source })?;
    Ok(YES)
}
