// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A writer that stops writing after an error, instead of failing.

use std::io::{Error, ErrorKind, Write};

#[derive(Debug)]
pub(crate) struct Outlet<W> {
    writer: W,
    state: State,
}

#[derive(Debug)]
enum State {
    Open,
    /// The reader is gone.
    Abandoned,
    Failed(Error),
}

impl<W: Write> Outlet<W> {
    pub(crate) fn new(writer: W) -> Self {
        Self { writer, state: State::Open }
    }

    /// Writes a whole line with one write, so that lines of several processes don't mix on a pipe. After an error no
    /// more is written: the next line could follow half of this one.
    pub(crate) fn line(&mut self, line: &[u8]) {
        if !matches!(self.state, State::Open) {
            return;
        }
        // The Rust runtime ignores SIGPIPE from the start, so a missing reader is an error and no signal.
        if let Err(error) = self.writer.write_all(line).and_then(|()| self.writer.flush()) {
            self.state = match error.kind() {
                ErrorKind::BrokenPipe => State::Abandoned,
                _ => State::Failed(error),
            };
        }
    }

    pub(crate) fn fail(&mut self, error: Error) {
        self.state = State::Failed(error);
    }

    pub(crate) fn failure(&self) -> Option<&Error> {
        match &self.state {
            State::Failed(error) => Some(error),
            State::Open | State::Abandoned => None,
        }
    }
}
