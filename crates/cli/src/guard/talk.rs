// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asking palisaded.

use super::{GuardError, Places};
use crate::palisaded::{self, DaemonError};
use palisade_protocol::Connection;
use palisade_protocol::guard::{Request, Response};
use std::path::Path;
use std::time::Duration;

/// A conversation.
pub(super) struct Talk(Connection);

impl Talk {
    /// Begins one with the daemon that answers at the socket.
    pub(super) fn begin(socket: &Path) -> Result<Self, GuardError> {
        Ok(Self(palisaded::begin(socket)?))
    }

    /// Asks, and waits for the answer; a refusal is an error.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Response, GuardError> {
        self.ask_within(request, None)
    }

    /// The same; no answer in that time is an error.
    pub(super) fn ask_within(
        &mut self,
        request: &Request,
        patience: Option<Duration>,
    ) -> Result<Response, GuardError> {
        self.0.send(request).map_err(DaemonError::Talk)?;
        match self.0.receive_within(patience).map_err(DaemonError::Talk)? {
            Response::Refused(refusal) => Err(DaemonError::Refused(refusal).into()),
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
