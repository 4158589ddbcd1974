// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the program that measures scopes.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::{Line, ScopesError};
use crate::workload::first_line;

const TICK: Duration = Duration::from_millis(50);

/// Finds the program: the named one, or the one that was built beside this program.
pub(crate) fn find(named: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = named {
        return path.is_file().then(|| path.to_owned());
    }
    let own = std::env::current_exe().ok()?;
    let beside = own.parent()?.join("examples/scopes");
    beside.is_file().then_some(beside)
}

/// The names of its cases: `who depth load`, and `pressure`.
pub(crate) fn names(path: &Path) -> Result<Vec<String>, ScopesError> {
    let run = |source| ScopesError::Run { path: path.to_owned(), source };
    let output = Command::new(path).arg("--list").stdin(Stdio::null()).output().map_err(run)?;
    if !output.status.success() {
        let said = first_line(&output.stderr);
        return Err(ScopesError::Ended { path: path.to_owned(), status: output.status.to_string(), said });
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// Runs the cases with these names. Returns the program's lines, and whether a signal ended the run.
pub(crate) fn measure(
    path: &Path,
    commands: usize,
    rounds: usize,
    names: &[String],
    stop: &AtomicBool,
) -> Result<(Vec<Line>, bool), ScopesError> {
    let run = |source| ScopesError::Run { path: path.to_owned(), source };
    let mut command = Command::new(path);
    command.args(["--commands", &commands.to_string(), "--rounds", &rounds.to_string()]);
    for name in names {
        command.args(["--only", name]);
    }
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(run)?;
    let (sender, receiver) = channel();
    let said = child.stdout.take();
    let mut complaints = child.stderr.take();
    let complained = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A message that can't be read isn't quoted.
        let _ = complaints.as_mut().map(|complaints| complaints.read_to_end(&mut bytes));
        bytes
    });
    // The thread ends with the pipe, or when the receiver is gone.
    std::thread::spawn(move || {
        let lines = said.into_iter().flat_map(|said| BufReader::new(said).lines());
        for line in lines.map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut lines = Vec::new();
    loop {
        match receiver.recv_timeout(TICK) {
            Ok(line) => match serde_json::from_str(&line) {
                Ok(understood) => lines.push(understood),
                Err(source) => {
                    end(&mut child);
                    return Err(ScopesError::Line { path: path.to_owned(), line, source });
                }
            },
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {
                end(&mut child);
                return Ok((lines, true));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait().map_err(run)?;
    if status.success() {
        return Ok((lines, false));
    }
    if stop.load(Ordering::Relaxed) {
        return Ok((lines, true));
    }
    let said = first_line(&complained.join().unwrap_or_default());
    Err(ScopesError::Ended { path: path.to_owned(), status: status.to_string(), said })
}

/// The program's load and its eBPF programs end with it.
fn end(child: &mut std::process::Child) {
    let _ = child.kill();
    let _ = child.wait();
}
