// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asks palisaded for the system calls that the kernel records while a command runs.

use crate::plan::Plan;
use palisade_protocol::client::{OWN_NAME, restart_hint};
use palisade_protocol::guard::Refusal;
use palisade_protocol::learn::{Program, Request, Response, SOCKET};
use palisade_protocol::{Connection, ProtocolError};
use std::path::Path;

/// The kernel records system calls.
#[derive(Debug)]
pub struct Learner(Connection);

/// Why calls aren't recorded, or can't be read.
#[derive(Debug, thiserror::Error)]
pub enum LearnerError {
    /// palisaded doesn't answer, or violates the protocol.
    #[error("palisaded can't record system calls: {0}")]
    Talk(#[from] ProtocolError),
    /// Another process answers.
    #[error("palisaded can't record system calls: user {0} answers at {SOCKET}, not root")]
    Impostor(u32),
    /// palisaded refused the request.
    #[error("palisaded can't record system calls: {}", .0.message)]
    Refused(Refusal),
    /// palisaded sent an answer to another request.
    #[error("palisaded can't record system calls: its answer doesn't match the request")]
    Unexpected,
}

impl LearnerError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &str {
        match self {
            Self::Refused(Refusal { hint: Some(hint), .. }) => hint,
            // Without palisaded the broker records the calls.
            _ => restart_hint(),
        }
    }
}

impl Learner {
    /// Starts to record, if the plan says that the kernel does it.
    ///
    /// # Errors
    /// When palisaded doesn't record calls.
    pub fn begin(plan: &Plan<'_>) -> Result<Option<Self>, LearnerError> {
        let by_kernel = plan.broker.as_ref().and_then(|broker| broker.calls.as_ref());
        if !by_kernel.is_some_and(|calls| calls.by_kernel) {
            return Ok(None);
        }
        let mut connection = Connection::open(Path::new(SOCKET), OWN_NAME)?;
        let uid = connection.peer()?.uid;
        if uid != 0 {
            return Err(LearnerError::Impostor(uid));
        }
        connection.send(&Request::Begin)?;
        match connection.receive()? {
            Response::Begun => Ok(Some(Self(connection))),
            Response::Refused(refusal) => Err(LearnerError::Refused(refusal)),
            _ => Err(LearnerError::Unexpected),
        }
    }

    /// The recorded calls, and how many calls may be missing.
    ///
    /// # Errors
    /// When palisaded can't report them.
    pub fn end(mut self) -> Result<(Vec<Program>, u64), LearnerError> {
        self.0.send(&Request::End)?;
        let mut programs = Vec::new();
        loop {
            match self.0.receive()? {
                Response::Called(program) => programs.push(program),
                Response::Done { lost } => return Ok((programs, lost)),
                Response::Refused(refusal) => return Err(LearnerError::Refused(refusal)),
                Response::Begun => return Err(LearnerError::Unexpected),
            }
        }
    }
}
