// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade embedded`: launches one command for a program that embeds Palisade (crate `palisade`). At a socket, that
//! program receives the events and answers the questions. Messages for people go to the socket, too.

use crate::output;
use crate::prompt::Keep;
use crate::question::{Wish, Word};
use crate::run::{self, FAILURE};
use crate::scan::Presentation;
use palisade::launcher::{self, LauncherError, Link, Ordered};
use palisade_protocol::client::OWN_NAME;
use palisade_protocol::launch::{Told, VERB};
use palisade_sandbox::apply::start::LaunchEvent;
use std::ffi::OsString;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The connection to the embedding program, if one started this process.
static LINK: OnceLock<Link> = OnceLock::new();

/// The connection to the embedding program, if one started this process.
pub(crate) fn link() -> Option<&'static Link> {
    LINK.get()
}

/// Launches for an embedding program, if one started this process for that.
pub(crate) fn shortcut(arguments: &[OsString], begun: Instant) -> Option<u8> {
    let [verb, dashes, command @ ..] = arguments else { return None };
    if verb != VERB || dashes != "--" {
        return None;
    }
    Some(serve(command, begun).unwrap_or_else(|error| {
        output::error(
            &format_args!("can't launch a sandbox for the calling program: {error}"),
            Some("palisade run -- COMMAND…   # `embedded` is for programs that embed Palisade"),
        );
        FAILURE
    }))
}

fn serve(command: &[OsString], begun: Instant) -> Result<u8, LauncherError> {
    let Some(mut ordered) = Ordered::receive(OWN_NAME, FAILURE)? else { return Ok(FAILURE) };
    let (bytes, name) = (std::mem::take(&mut ordered.plan), ordered.name.take());
    let Some(plan) = launcher::plan(&bytes) else {
        ordered.refuse_plan()?;
        return Ok(FAILURE);
    };
    let (link, orders) = ordered.link()?;
    let (link, mut orders) = (LINK.get_or_init(|| link), Some(orders));
    let presentation = Presentation { quiet: true, name: name.as_deref(), ..Presentation::default() };
    let result = run::apply(&plan, command, presentation, begun, true, &mut |launch_event| {
        if let LaunchEvent::Started(running, number) = launch_event {
            link.started(*running, *number, orders.take());
        }
    });
    let code = match result {
        Ok(code) => code,
        Err(error) if error.is_stale() && !link.has_started() => {
            link.stale();
            return Ok(FAILURE);
        }
        Err(error) => run::fail(&error),
    };
    link.conclude(code);
    Ok(code)
}

/// Asks the embedding program. `None` if no answer comes in time.
pub(crate) fn ask(link: &Link, wish: &Wish, keep: Option<Keep<'_>>, patience: Duration) -> Option<Word> {
    let question = |number| Told::Question {
        number,
        program: wish.program.clone(),
        action: wish.action.clone(),
        why: wish.why.to_owned(),
        scope: wish.scope.clone().filter(|_scope| keep.is_some()),
    };
    match (link.ask(question, patience)?, keep) {
        (Word::Always, None) => Some(Word::Session),
        (Word::Always, Some(keep)) => {
            link.noted(&keep());
            Some(Word::Always)
        }
        (word, _) => Some(word),
    }
}
