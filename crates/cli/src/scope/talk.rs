// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asking palisaded.

use super::ScopeError;
use crate::palisaded::{self, DaemonError};
use palisade_protocol::scope::{Request, Response};
use std::path::Path;

/// One question, one answer; a refusal is an error.
pub(super) fn ask(socket: &Path, request: &Request) -> Result<Response, ScopeError> {
    let mut connection = palisaded::begin(socket)?;
    connection.send(request).map_err(DaemonError::Talk)?;
    match connection.receive().map_err(DaemonError::Talk)? {
        Response::Refused(refusal) => Err(DaemonError::Refused(refusal).into()),
        response => Ok(response),
    }
}
