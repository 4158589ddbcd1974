// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client's side of a conversation with palisaded: requests and their answers.

use crate::guard::{self, Refusal};
use crate::{Connection, ProtocolError, scope};
use palisade_event::Event;
use palisade_text::Show as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The name and version that the program `palisade` sends in its [`Hello`](crate::Hello).
pub const OWN_NAME: &str = concat!("palisade ", env!("CARGO_PKG_VERSION"));

/// Why a request to the daemon failed.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The daemon doesn't answer.
    #[error("palisaded doesn't answer at {}: {source}", path.shown())]
    NotRunning {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The connection broke, or a message couldn't be understood.
    #[error("can't talk to palisaded: {0}")]
    Talk(#[from] ProtocolError),
    /// The answer belongs to another request.
    #[error("palisaded sent the answer to another request")]
    Strange,
    /// The daemon refuses the request.
    #[error("{}", .0.message)]
    Refused(Refusal),
}

impl DaemonError {
    /// The error's class, for programs.
    #[must_use]
    pub fn class(&self) -> &str {
        match self {
            Self::NotRunning { .. } => "not-running",
            Self::Talk(_) | Self::Strange => "protocol",
            Self::Refused(refusal) => &refusal.class,
        }
    }

    /// A command that helps, or what to look at.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotRunning { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                Some("run this command again with sudo".to_owned())
            }
            Self::NotRunning { .. } => Some(start_hint().to_owned()),
            Self::Talk(ProtocolError::OtherVersion { .. } | ProtocolError::Malformed(_)) | Self::Strange => {
                Some(restart_hint().to_owned())
            }
            Self::Refused(refusal) => refusal.hint.clone(),
            Self::Talk(_) => None,
        }
    }
}

/// Whether systemd runs here and knows palisaded.
fn has_unit() -> bool {
    // In the order in which systemd looks for units.
    let places = ["/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"];
    Path::new("/run/systemd/system").is_dir()
        && places.iter().any(|place| Path::new(place).join("systemd/system/palisaded.service").exists())
}

/// The command that starts palisaded.
#[must_use]
pub fn start_hint() -> &'static str {
    if has_unit() { "sudo systemctl start palisaded" } else { "sudo palisaded   # serves until it is ended" }
}

/// What to do about a palisaded of another version, or one that doesn't answer.
#[must_use]
pub fn restart_hint() -> &'static str {
    match has_unit() {
        true => "sudo systemctl restart palisaded   # if it was updated since",
        false => "end palisaded and start it again, if it was updated since",
    }
}

/// What the daemon tells a follower.
#[derive(Debug)]
pub enum News {
    /// Something happened.
    Event(Arc<Event>),
    /// This side read too slowly: this number of events wasn't sent.
    Missed(u64),
    /// The daemon has begun to follow, or has sent all remembered events.
    Done,
}

/// An answer that one of the daemon's sockets sends.
pub trait Reply: DeserializeOwned {
    /// The answer, unless it is a refusal.
    ///
    /// # Errors
    /// The refusal.
    fn granted(self) -> Result<Self, DaemonError>;

    /// What the answer says to a follower.
    ///
    /// # Errors
    /// It is a refusal, or an answer to another question.
    fn news(self) -> Result<News, DaemonError>;
}

/// The answers of both sockets have the same names for refusals and news.
macro_rules! reply {
    ($response:ty) => {
        impl Reply for $response {
            fn granted(self) -> Result<Self, DaemonError> {
                match self {
                    Self::Refused(refusal) => Err(DaemonError::Refused(refusal)),
                    answer => Ok(answer),
                }
            }

            fn news(self) -> Result<News, DaemonError> {
                match self.granted()? {
                    Self::Event(event) => Ok(News::Event(event)),
                    Self::Missed { count } => Ok(News::Missed(count)),
                    Self::Done { .. } => Ok(News::Done),
                    _ => Err(DaemonError::Strange),
                }
            }
        }
    };
}

reply!(guard::Response);
reply!(scope::Response);

/// A conversation with the daemon.
#[derive(Debug)]
pub struct Client(Connection);

impl Client {
    /// Begins a conversation with the daemon that answers at the socket.
    ///
    /// # Errors
    /// The daemon doesn't answer, or uses another version of the protocol.
    pub fn begin(socket: &Path) -> Result<Self, DaemonError> {
        Connection::open(socket, OWN_NAME).map(Self).map_err(|error| match error {
            ProtocolError::Unreachable { path, source } => DaemonError::NotRunning { path, source },
            error => DaemonError::Talk(error),
        })
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// The conversation broke off, or the answer is a refusal.
    pub fn ask<R: Reply>(&mut self, request: &impl Serialize) -> Result<R, DaemonError> {
        self.ask_within(request, None)
    }

    /// The same, but waits no longer than the given time.
    ///
    /// # Errors
    /// As [`Client::ask`], and when no answer comes in that time.
    pub fn ask_within<R: Reply>(
        &mut self,
        request: &impl Serialize,
        patience: Option<Duration>,
    ) -> Result<R, DaemonError> {
        self.0.send(request)?;
        self.0.receive_within::<R>(patience)?.granted()
    }

    /// The connection, for what a request and its answer can't express.
    pub const fn connection(&mut self) -> &mut Connection {
        &mut self.0
    }
}

/// One question to the daemon that answers at the socket, one answer.
///
/// # Errors
/// As [`Client::begin`] and [`Client::ask`].
pub fn ask<R: Reply>(socket: &Path, request: &impl Serialize) -> Result<R, DaemonError> {
    Client::begin(socket)?.ask(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn nobody_who_answers_is_told_from_a_refusal() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let asked = || ask::<guard::Response>(&socket, &guard::Request::Status).unwrap_err();
        let nobody = asked();
        assert!(matches!(nobody, DaemonError::NotRunning { .. }) && nobody.hint().is_some(), "{nobody}");
        let listener = UnixListener::bind(&socket).unwrap();
        let daemon = std::thread::spawn(move || {
            let (stream, _address) = listener.accept().unwrap();
            let mut connection = Connection::begin(stream, "test").unwrap();
            let _request: guard::Request = connection.receive().unwrap();
            let refusal = Refusal { class: "root-only".into(), message: "no".into(), hint: None };
            connection.send(&guard::Response::Refused(refusal)).unwrap();
        });
        let refused = asked();
        assert_eq!((refused.class(), refused.to_string().as_str()), ("root-only", "no"));
        daemon.join().unwrap();
    }
}
