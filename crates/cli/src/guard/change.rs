// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What palisaded is told: what it says of it, in words.

use super::{Exit, GuardError, Places};
use crate::verb::{Failure, NO, YES};
use crate::{output, watch};
use clap::ValueHint;
use palisade_protocol::client::{self, Client, DaemonError};
use palisade_protocol::guard::{Request, Response};
use std::path::PathBuf;
use std::time::Duration;

/// How often it is looked whether a trial is over.
const PAUSE: Duration = Duration::from_millis(200);

/// What to try.
#[derive(Debug, clap::Args)]
pub(super) struct Try {
    /// For how long: 90s, 15m, 1h
    #[arg(long = "for", value_name = "DURATION", default_value = "60s", value_parser = watch::duration)]
    time: Duration,
    /// These rules, a file or a directory, instead of those in force
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    rules: Option<PathBuf>,
    /// Although the rules would stop the host
    #[arg(long)]
    force: bool,
    /// Wait until it is over, kept or reverted; interrupted, it goes back by itself all the same
    #[arg(long)]
    wait: bool,
}

/// Tells the daemon to do something.
pub(super) fn tell(places: &Places, request: &Request) -> Exit {
    said(client::ask(&places.socket, request)?)?;
    Ok(YES)
}

/// Says what the daemon says.
pub(super) fn said(response: Response) -> Result<(), GuardError> {
    let Response::Done { said } = response else { return Err(GuardError::Daemon(DaemonError::Strange)) };
    output::say(&format!("{}\n", palisade_text::harmless(&said)));
    Ok(())
}

/// Enforces for a while. With `--wait` it answers 1 if it went back.
pub(super) fn attempt(places: &Places, options: &Try) -> Exit {
    let rules = options.rules.as_deref().map(text).transpose()?;
    let seconds = options.time.as_secs();
    let mut talk = Client::begin(&places.socket)?;
    let response = talk.ask(&Request::Try { seconds, rules, force: options.force })?;
    if !matches!(response, Response::Done { .. }) {
        return Err(DaemonError::Strange.into());
    }
    output::say(&format!(
        "what the rules deny is refused for {seconds} s; then everything is as it was\n\
         hint: palisade guard keep     # leaves it so\n\
         hint: palisade guard revert   # ends it now\n"
    ));
    if !options.wait {
        return Ok(YES);
    }
    loop {
        std::thread::sleep(PAUSE);
        let Response::Status(status) = talk.ask(&Request::Status)? else {
            return Err(DaemonError::Strange.into());
        };
        if status.trying.is_none() {
            let kept = status.enforcing;
            output::say(if kept { "what was tried stays\n" } else { "what was tried is over\n" });
            return Ok(if kept { YES } else { NO });
        }
    }
}

/// A path as the daemon, which works elsewhere, can find it.
pub(super) fn text(path: &std::path::Path) -> Result<String, Failure> {
    let absolute = std::path::absolute(path).map_err(|source| Failure::Cwd { source })?;
    absolute.into_os_string().into_string().map_err(|path| GuardError::NotText { path: path.into() }.into())
}
