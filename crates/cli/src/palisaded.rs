// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Talking to palisaded: what every question to it has in common, and listening to what it tells.

use crate::answer::{self, Failure, NO, YES};
use crate::output;
use palisade_event::Event;
use palisade_protocol::guard::{self, Refusal};
use palisade_protocol::{Connection, ProtocolError, date, scope};
use palisade_text::Show as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::DeserializeOwned;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What this side calls itself.
pub(crate) const OWN_NAME: &str = concat!("palisade ", env!("CARGO_PKG_VERSION"));
/// How long an interruption waits to be noticed.
const PAUSE: Duration = Duration::from_millis(200);

/// Why the daemon doesn't do what it is asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DaemonError {
    /// Nobody answers.
    #[error("palisaded doesn't answer at {}: {source}", path.shown())]
    NotRunning {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The conversation broke off.
    #[error("can't talk to palisaded: {0}")]
    Talk(#[from] ProtocolError),
    /// The answer is to another question.
    #[error("palisaded answers something else than what was asked")]
    Strange,
    /// It says no.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// Signals can't be waited for.
    #[error("can't wait for signals: {0}")]
    Signals(#[source] std::io::Error),
}

impl DaemonError {
    /// Its class, for programs.
    pub(crate) fn class(&self) -> &str {
        match self {
            Self::NotRunning { .. } => "not-running",
            Self::Talk(_) | Self::Strange => "protocol",
            Self::Refused(refusal) => &refusal.class,
            Self::Signals(_) => "surroundings",
        }
    }

    /// A command that helps, or what to look at.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::NotRunning { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                Some("say it with sudo".to_owned())
            }
            Self::NotRunning { .. } => {
                Some("systemctl start palisaded   # or, as root: palisaded".to_owned())
            }
            Self::Talk(ProtocolError::OtherVersion { .. } | ProtocolError::Malformed(_)) | Self::Strange => {
                Some("systemctl restart palisaded   # if it was updated since".to_owned())
            }
            Self::Refused(refusal) => refusal.hint.clone(),
            Self::Talk(_) | Self::Signals(_) => None,
        }
    }
}

/// A conversation with the daemon that answers at the socket.
pub(crate) fn begin(socket: &Path) -> Result<Connection, DaemonError> {
    Connection::open(socket, OWN_NAME).map_err(|error| match error {
        ProtocolError::Unreachable { path, source } => DaemonError::NotRunning { path, source },
        error => DaemonError::Talk(error),
    })
}

/// What the daemon tells of to who follows.
#[derive(Debug)]
pub(crate) enum News {
    /// Something happened.
    Event(Arc<Event>),
    /// This side was slow: so many events weren't told.
    Missed(u64),
    /// It follows, or what is remembered was told.
    Done,
}

/// An answer to who follows.
pub(crate) trait Follows: DeserializeOwned {
    /// What it tells.
    ///
    /// # Errors
    /// It is a refusal, or an answer to another question.
    fn news(self) -> Result<News, DaemonError>;
}

impl Follows for guard::Response {
    fn news(self) -> Result<News, DaemonError> {
        match self {
            Self::Event(event) => Ok(News::Event(event)),
            Self::Missed { count } => Ok(News::Missed(count)),
            Self::Done { .. } => Ok(News::Done),
            Self::Refused(refusal) => Err(DaemonError::Refused(refusal)),
            _ => Err(DaemonError::Strange),
        }
    }
}

impl Follows for scope::Response {
    fn news(self) -> Result<News, DaemonError> {
        match self {
            Self::Event(event) => Ok(News::Event(event)),
            Self::Missed { count } => Ok(News::Missed(count)),
            Self::Done { .. } => Ok(News::Done),
            Self::Refused(refusal) => Err(DaemonError::Refused(refusal)),
            _ => Err(DaemonError::Strange),
        }
    }
}

/// That events came too fast.
pub(crate) fn missed(count: u64) {
    output::note(&format_args!("{count} events came too fast to be shown"));
}

/// How somebody listens.
pub(crate) struct Listening<'a> {
    /// One JSON object a line.
    pub(crate) json: bool,
    /// It ends when the daemon has told all; otherwise it is interrupted.
    pub(crate) ends: bool,
    /// Said when the daemon has gone.
    pub(crate) gone: &'a str,
}

/// Shows what the daemon tells until it is interrupted, nobody reads any more, or all was told (yes), or the daemon ends
/// (no).
pub(crate) fn listen<R: Follows>(
    connection: &mut Connection,
    how: &Listening<'_>,
    words: impl Fn(&Event) -> String,
) -> Result<u8, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM].into_iter().filter(|_| !how.ends) {
        signal_hook::flag::register(signal, Arc::clone(&interrupted)).map_err(DaemonError::Signals)?;
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
                    answer::print_exactly(&format!("{line}\n"))?;
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

/// A number of a process or user, as far as it is known.
pub(crate) fn number(number: Option<u32>) -> String {
    number.map_or_else(|| "?".to_owned(), |number| number.to_string())
}

/// A pipe without a reader is an error, which is told without being asked for.
fn reader_has_gone() -> bool {
    let stdout = rustix::stdio::stdout();
    let mut output = [PollFd::from_borrowed_fd(stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut output, Some(&now)), Ok(1..))
}
