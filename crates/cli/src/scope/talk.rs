// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asking palisaded.

use super::ScopeError;
use palisade_protocol::scope::{Request, Response};
use palisade_protocol::{Connection, ProtocolError};
use std::path::Path;

/// What this side calls itself.
const OWN_NAME: &str = concat!("palisade ", env!("CARGO_PKG_VERSION"));

/// A conversation with the daemon that answers at the socket.
pub(super) fn begin(socket: &Path) -> Result<Connection, ScopeError> {
    Connection::open(socket, OWN_NAME).map_err(|error| match error {
        ProtocolError::Unreachable { path, source } => ScopeError::NotRunning { path, source },
        error => ScopeError::Talk(error),
    })
}

/// One question, one answer; a refusal is an error.
pub(super) fn ask(socket: &Path, request: &Request) -> Result<Response, ScopeError> {
    let mut connection = begin(socket)?;
    connection.send(request)?;
    match connection.receive()? {
        Response::Refused(refusal) => Err(ScopeError::Refused(refusal)),
        response => Ok(response),
    }
}
