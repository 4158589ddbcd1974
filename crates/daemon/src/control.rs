// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the command line asks of the daemon.

use crate::guard::{Guard, GuardError};
use crate::journal::say;
use palisade_protocol::guard::{Refusal, Request, Response};
use palisade_protocol::{Connection, ProtocolError};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Conversations at once.
const MOST: usize = 64;
/// How long one may say nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes the socket. One that nobody answers at any more is replaced.
pub(crate) fn listen(path: &Path) -> Result<UnixListener, GuardError> {
    let failed = |source| GuardError::Socket { path: path.to_owned(), source };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    match UnixStream::connect(path) {
        Ok(_) => return Err(GuardError::Running { path: path.to_owned() }),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(failed)?;
        }
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    // Whoever may look at the host may look at the guard; what changes anything is root's, and checked.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(failed)?;
    Ok(listener)
}

/// Serves until the guard stops.
pub(crate) fn serve(guard: &Arc<Guard>, listener: &UnixListener) {
    let serving = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        if guard.is_stopping() {
            return;
        }
        let Ok(stream) = stream else {
            // Descriptors are used up; some conversation will end.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        if serving.fetch_add(1, Ordering::Relaxed) >= MOST {
            serving.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (guard, counted) = (Arc::clone(guard), Arc::clone(&serving));
        let spawned = std::thread::Builder::new().name("control".into()).spawn(move || {
            converse(&guard, stream);
            counted.fetch_sub(1, Ordering::Relaxed);
        });
        if spawned.is_err() {
            serving.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn converse(guard: &Guard, stream: UnixStream) {
    let outcome = Connection::begin(stream, concat!("palisaded ", env!("CARGO_PKG_VERSION")))
        .and_then(|mut connection| answer_all(guard, &mut connection));
    if let Err(error) = outcome
        && !matches!(error, ProtocolError::Gone | ProtocolError::Broken(_))
    {
        say(&format!("palisaded: a conversation ended: {error}"));
    }
}

fn answer_all(guard: &Guard, connection: &mut Connection) -> Result<(), ProtocolError> {
    let peer = connection.peer()?;
    loop {
        let request: Request = match connection.receive_within(Some(PATIENCE)) {
            Ok(request) => request,
            Err(ProtocolError::Malformed(error)) => {
                connection.send(&Response::Refused(Refusal {
                    class: "request".into(),
                    message: format!("can't understand what is asked: {error}"),
                    hint: Some("update palisade and palisaded to the same version".into()),
                }))?;
                continue;
            }
            Err(error) => return Err(error),
        };
        if request.changes() && peer.uid != 0 {
            connection.send(&Response::Refused(Refusal {
                class: "root-only".into(),
                message: "only root can ask this of the guard".into(),
                hint: Some("say it with sudo".into()),
            }))?;
            continue;
        }
        if let Request::Follow { all } = request {
            return follow(guard, connection, all);
        }
        let stops = request == Request::Stop;
        connection.send(&guard.answer(request))?;
        if stops {
            guard.end();
            return Ok(());
        }
    }
}

fn follow(guard: &Guard, connection: &mut Connection, all: bool) -> Result<(), ProtocolError> {
    let decisions = guard.follow(all);
    connection.send(&Response::Done { said: "following".into() })?;
    loop {
        match decisions.recv_timeout(Duration::from_millis(500)) {
            Ok(decided) => connection.send(&Response::Decided(Box::new(decided)))?,
            Err(RecvTimeoutError::Timeout) => {
                if guard.is_stopping() {
                    return Ok(());
                }
                // Whoever follows says nothing any more, so that it says something means that it has gone.
                match connection.receive_within::<Request>(Some(Duration::from_millis(1))) {
                    Err(ProtocolError::TooSlow) => {}
                    _ => return Ok(()),
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}
