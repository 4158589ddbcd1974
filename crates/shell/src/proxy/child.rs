// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts the shell behind the pseudo-terminal, and the recording of its output.

use super::{Options, ProxyError};
use crate::mark::Nonce;
use crate::modules::recorder::Recorder;
use crate::start::{self, Asked, INSIDE};
use palisade_sys::terminal::{self, Raw};
use rustix::termios::Winsize;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::SystemTime;

pub(super) fn begin_recording(
    path: &PathBuf,
    options: &Options,
    size: Winsize,
) -> Result<Recorder, ProxyError> {
    let failed = |source| ProxyError::Record { path: path.clone(), source };
    let file = File::options().write(true).create(true).truncate(true).open(path).map_err(failed)?;
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let terminal = std::env::var("TERM").unwrap_or_default();
    Recorder::begin(file, size.ws_col, size.ws_row, time, &options.shell.to_string_lossy(), &terminal)
        .map_err(failed)
}

pub(super) fn start_shell(
    options: &Options,
    pair: &terminal::Pair,
    nonce: &Nonce,
    raw: &Raw,
) -> Result<Child, ProxyError> {
    let failed = |source| ProxyError::Start { shell: options.shell.clone(), source };
    raw.give(&pair.inner).map_err(ProxyError::Pair)?;
    let number = start::number(pair.inner.as_fd()).map_err(ProxyError::Pair)?;
    let (reader, mut writer) = io::pipe().map_err(ProxyError::Nonce)?;
    writer.write_all(nonce.digits()).map_err(ProxyError::Nonce)?;
    drop(writer);
    let reader = OwnedFd::from(reader);
    // With arguments, the user may want no start-up files at all.
    let asked = if options.arguments.is_empty() {
        let program = std::env::current_exe().map_err(failed)?;
        Asked::of(&options.shell, &program, &options.state).unwrap_or_default()
    } else {
        Asked::default()
    };
    let mut command = Command::new(&options.shell);
    command.args(&asked.arguments).args(&options.arguments).envs(asked.variables);
    command.env(INSIDE, format!("{number}:{}", std::os::fd::AsRawFd::as_raw_fd(&reader)));
    let kept = [Some(&reader), asked.file.as_ref()];
    let kept: Vec<_> = kept.into_iter().flatten().map(AsFd::as_fd).collect();
    terminal::start(&mut command, &pair.inner, &kept).map_err(failed)
}
