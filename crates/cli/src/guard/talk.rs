// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asking palisaded.

use super::{GuardError, Places};
use palisade_protocol::guard::{Request, Response};
use palisade_protocol::{Connection, ProtocolError};
use std::path::Path;

/// What this side calls itself.
const OWN_NAME: &str = concat!("palisade ", env!("CARGO_PKG_VERSION"));

/// A conversation.
pub(super) struct Talk(Connection);

impl Talk {
    /// Begins one with the daemon that answers at the socket.
    pub(super) fn begin(socket: &Path) -> Result<Self, GuardError> {
        Connection::open(socket, OWN_NAME).map(Self).map_err(|error| match error {
            ProtocolError::Unreachable { path, source } => GuardError::NotRunning { path, source },
            error => GuardError::Talk(error),
        })
    }

    /// Asks, and waits for the answer; a refusal is an error.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Response, GuardError> {
        self.0.send(request)?;
        match self.0.receive()? {
            Response::Refused(refusal) => Err(GuardError::Refused(refusal)),
            response => Ok(response),
        }
    }

    /// The connection, for more than questions.
    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.0
    }
}

/// One question, one answer.
pub(super) fn ask(places: &Places, request: &Request) -> Result<Response, GuardError> {
    Talk::begin(&places.socket)?.ask(request)
}
