// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends palisaded requests that change something, and prints its answers.

use super::{GuardError, Places};
use crate::verb::{Exit, Failure, NO, YES};
use crate::{output, watch};
use clap::ValueHint;
use palisade_protocol::client::{self, Client, DaemonError};
use palisade_protocol::guard::{Request, Response};
use std::path::PathBuf;
use std::time::Duration;

/// How often `--wait` checks whether the trial is over.
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
    /// Wait until the trial is over, kept or reverted; if you interrupt this command, the trial is reverted all the same
    #[arg(long)]
    wait: bool,
}

/// Sends the daemon a request, and prints the answer.
pub(super) fn tell(places: &Places, request: &Request) -> Exit {
    said(client::ask(&places.socket, request)?)?;
    Ok(YES)
}

/// Prints the daemon's answer.
pub(super) fn said(response: Response) -> Result<(), GuardError> {
    let Response::Done { said } = response else { return Err(GuardError::Daemon(DaemonError::Strange)) };
    output::say(&format!("{}\n", palisade_text::harmless(&said)));
    Ok(())
}

/// Enforces for a limited time. With `--wait` it returns 1 if the daemon went back to the earlier mode.
pub(super) fn attempt(places: &Places, options: &Try) -> Exit {
    let rules = options.rules.as_deref().map(text).transpose()?;
    let seconds = options.time.as_secs();
    let mut talk = Client::begin(&places.socket)?;
    let response = talk.ask(&Request::Try { seconds, rules, force: options.force })?;
    if !matches!(response, Response::Done { .. }) {
        return Err(DaemonError::Strange.into());
    }
    output::say(&format!(
        "what the rules deny is refused for {seconds} s; then the earlier mode and rules apply again\n\
         hint: palisade guard keep     # keeps it until palisaded ends\n\
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
            output::say(if kept { "the trial was kept\n" } else { "the trial has ended\n" });
            return Ok(if kept { YES } else { NO });
        }
    }
}

/// An absolute path as text: the daemon's working directory differs from this process's.
pub(super) fn text(path: &std::path::Path) -> Result<String, Failure> {
    let absolute = std::path::absolute(path).map_err(|source| Failure::Cwd { source })?;
    absolute.into_os_string().into_string().map_err(|path| GuardError::NotText { path: path.into() }.into())
}
