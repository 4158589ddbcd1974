// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shows the events that palisaded reports.

use crate::output;
use crate::verb::{self, Failure, NO, YES};
use palisade_event::Event;
use palisade_protocol::client::{DaemonError, News, Reply};
use palisade_protocol::{Connection, ProtocolError, date};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long an interruption may stay unnoticed.
const PAUSE: Duration = Duration::from_millis(200);

/// Reports that events came too fast to be shown.
pub(crate) fn missed(count: u64) {
    output::note(&format_args!("{count} events came too fast to be shown"));
}

/// How [`listen`] prints and ends.
pub(crate) struct Listening<'a> {
    /// One JSON object a line.
    pub(crate) json: bool,
    /// It ends when the daemon has reported everything. Otherwise the user interrupts it.
    pub(crate) ends: bool,
    /// The message when the daemon has ended.
    pub(crate) gone: &'a str,
}

/// Shows the daemon's events. Returns yes if the user interrupts it, standard output is closed, or the daemon has
/// reported everything. Returns no if the daemon ends.
pub(crate) fn listen<R: Reply>(
    connection: &mut Connection,
    how: &Listening<'_>,
    words: impl Fn(&Event) -> String,
) -> Result<u8, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM].into_iter().filter(|_| !how.ends) {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .map_err(|source| Failure::Signals { source })?;
    }
    while !interrupted.load(Ordering::Relaxed) && !reader_has_gone() {
        match connection.receive_within::<R>(Some(PAUSE)) {
            Ok(answer) => match answer.news()? {
                News::Event(event) => {
                    let line = if how.json {
                        let line = serde_json::to_string(&event);
                        palisade_text::json(line.map_err(|error| Failure::Output { source: error.into() })?)
                    } else {
                        words(&event)
                    };
                    verb::print_exactly(&format!("{line}\n"))?;
                }
                News::Missed(count) => missed(count),
                News::Done => {}
            },
            Err(ProtocolError::TooSlow) => {}
            Err(ProtocolError::Gone | ProtocolError::Broken(_)) if how.ends => break,
            Err(ProtocolError::Gone | ProtocolError::Broken(_)) => {
                output::note(&how.gone);
                return Ok(NO);
            }
            Err(error) => return Err(DaemonError::Talk(error).into()),
        }
    }
    Ok(YES)
}

/// The time of day, UTC.
pub(crate) fn clock(time: SystemTime) -> String {
    format!("{}Z", date::time(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()))
}

/// The number of a process or user; `?` if it is unknown.
pub(crate) fn number(number: Option<u32>) -> String {
    number.map_or_else(|| "?".to_owned(), |number| number.to_string())
}

/// Whether standard output has lost its reader. `poll` reports that as an error even if no events are requested.
fn reader_has_gone() -> bool {
    let stdout = rustix::stdio::stdout();
    let mut output = [PollFd::from_borrowed_fd(stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut output, Some(&now)), Ok(1..))
}
