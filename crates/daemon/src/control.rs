// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guard's control socket, and the answers to requests of the command line.

use crate::conversation::{self, Talks, Words};
use crate::followers::Interest;
use crate::guard::{Guard, GuardError};
use palisade_guard::trust::measure::Meter;
use palisade_protocol::guard::{Refusal, Request, Response};
use palisade_protocol::{Connection, ProtocolError};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long to wait until a palisaded that was killed has ended.
const GONE: Duration = Duration::from_secs(1);

/// Makes the socket. Replaces a socket at which no process answers.
pub(crate) fn listen(path: &Path) -> Result<UnixListener, GuardError> {
    let failed = |source| GuardError::Socket { path: path.to_owned(), source };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    // A process that a killed palisaded had just started ends soon after it. Until then that process has the old socket
    // open.
    let until = Instant::now() + GONE;
    loop {
        match UnixStream::connect(path) {
            Ok(_) if Instant::now() < until => std::thread::sleep(GONE / 20),
            Ok(_) => return Err(GuardError::Running { path: path.to_owned() }),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                break std::fs::remove_file(path).map_err(failed)?;
            }
            Err(_) => break,
        }
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    // Every user may ask about the guard's state. Requests that change anything are root's only; this is checked for each
    // request.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(failed)?;
    Ok(listener)
}

/// Hashes a file for root, because the rules may refuse root to open it.
fn measured(file: BorrowedFd<'_>) -> Response {
    match Meter::default().measure_path(file) {
        Ok(measured) => Response::Measured { size: measured.size, sha256: measured.sha256.to_string() },
        Err(error) => Response::Refused(Refusal {
            class: "measure".into(),
            message: format!("palisaded can't hash the file: {error}"),
            hint: None,
        }),
    }
}

const WORDS: Words<Response> = Words {
    event: Response::Event,
    missed: |count| Response::Missed { count },
    done: |said| Response::Done { said },
};

impl Talks for Guard {
    const ABOUT: &'static str = "the guard";
    const THREAD: &'static str = "control";
    const MOST: usize = 64;
    const EACH: usize = 24;

    fn is_over(&self) -> bool {
        self.is_stopping()
    }

    fn talk(&self, connection: &mut Connection) -> Result<(), ProtocolError> {
        let peer = connection.peer()?;
        loop {
            let request: Request = conversation::next(connection, Response::Refused)?;
            if request.changes() && peer.uid != 0 {
                connection.send(&Response::Refused(Refusal {
                    class: "root-only".into(),
                    message: "only root can send this request to the guard".into(),
                    hint: Some("run this command again with sudo".into()),
                }))?;
                continue;
            }
            if let Request::Follow { all, past, end, refused } = request {
                let interest = Interest { all, refused, ..Interest::of(peer.uid) };
                let follower = self.follow(interest, past);
                return conversation::tell(
                    connection,
                    &follower.following,
                    end,
                    || self.is_stopping(),
                    &WORDS,
                );
            }
            if request == Request::Measure {
                connection.send(&Response::Done { said: "pass it".into() })?;
                let file = connection.take()?;
                connection.send(&measured(file.as_fd()))?;
                continue;
            }
            let stops = request == Request::Stop;
            connection.send(&self.answer(request))?;
            if stops {
                self.end();
                return Ok(());
            }
        }
    }
}
