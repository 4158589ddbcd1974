// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The baseline for proxies between a terminal and a shell: `palisade-bench relay COMMAND…` only reads and writes, and
//! interprets nothing. Its cost is that of a second terminal, not that of a proxy's work.

use clap::Args;
use palisade_sys::terminal;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, tcgetattr, tcgetwinsize, tcsetattr};
use std::io;
use std::os::fd::BorrowedFd;
use std::process::Command;

/// More than a terminal returns in one read, in bytes.
const BUFFER: usize = 64 << 10;

/// A command on a terminal of its own behind this one; the bench starts it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Relay {
    /// The command
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<String>,
}

/// Why the relay ended.
#[derive(Debug, thiserror::Error)]
#[error("can't pass on what goes between two terminals: {0}")]
pub(crate) struct RelayError(#[from] io::Error);

impl Relay {
    /// Relays until one side ends.
    pub(crate) fn run(&self) -> Result<(), RelayError> {
        let here = rustix::stdio::stdin();
        let mut settings = tcgetattr(here).map_err(io::Error::from)?;
        let pair = terminal::open(tcgetwinsize(here).map_err(io::Error::from)?)?;
        tcsetattr(&pair.inner, OptionalActions::Now, &settings).map_err(io::Error::from)?;
        settings.make_raw();
        tcsetattr(here, OptionalActions::Now, &settings).map_err(io::Error::from)?;
        let (program, arguments) =
            self.command.split_first().ok_or(io::ErrorKind::InvalidInput).map_err(io::Error::from)?;
        let mut child = terminal::start(Command::new(program).args(arguments), &pair.inner, &[])?;
        drop(pair.inner);
        let mut buffer = vec![0; BUFFER];
        loop {
            let mut sets = [PollFd::new(&here, PollFlags::IN), PollFd::new(&pair.outer, PollFlags::IN)];
            match poll(&mut sets, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
            let [keys, output] = sets.each_ref().map(|set| !set.revents().is_empty());
            let open = (!keys || pass(here, &pair.outer, &mut buffer)?)
                && (!output || pass(&pair.outer, rustix::stdio::stdout(), &mut buffer)?);
            if !open {
                break;
            }
        }
        // The command ends when its terminal is closed.
        drop(pair.outer);
        child.wait()?;
        Ok(())
    }
}

/// Relays the available bytes. Returns whether there can be more.
fn pass(from: impl std::os::fd::AsFd, to: impl std::os::fd::AsFd, buffer: &mut [u8]) -> io::Result<bool> {
    let to: BorrowedFd<'_> = to.as_fd();
    let count = match rustix::io::read(from, &mut *buffer) {
        // The other end of the terminal is closed.
        Ok(0) | Err(Errno::IO) => return Ok(false),
        Ok(count) => count,
        Err(Errno::INTR) => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    let mut rest = buffer.get(..count).unwrap_or_default();
    while !rest.is_empty() {
        match rustix::io::write(to, rest) {
            Ok(done) => rest = rest.get(done..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::IO) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}
