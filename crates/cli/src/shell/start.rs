// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts the shell proxy; where that isn't possible, the shell alone.

use super::Kind;
use crate::output;
use crate::verb::{self, Failure};
use clap::ValueHint;
use palisade_protocol::scope::SOCKET;
use palisade_shell::mark::Shell;
use palisade_shell::proxy::{self, ProxyError};
use palisade_shell::start::{self, OFF, Surroundings};
use palisade_text::Show as _;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The exit code when nothing could be started.
const NOTHING: u8 = 125;

/// A shell with what is on its screen written to a file.
#[derive(Debug, clap::Args)]
pub(super) struct Record {
    /// Where to
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// The shell, instead of $SHELL
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::ExecutablePath)]
    shell: Option<PathBuf>,
    /// Where palisaded answers about scopes
    #[arg(long, value_name = "SOCKET", default_value = SOCKET, value_hint = ValueHint::FilePath)]
    scope_socket: PathBuf,
    /// What the shell is started with
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    arguments: Vec<OsString>,
}

/// Runs the shell behind the proxy. Without a terminal, or where the proxy can't run, it runs the shell alone.
pub(super) fn shell(asked: &super::Options) -> u8 {
    let arguments = &asked.arguments;
    let shell = asked.shell.clone().unwrap_or_else(start::usual);
    // The proxy runs in this terminal already. A second one isn't started.
    if Surroundings::now().inside {
        return plainly(&shell, arguments);
    }
    let options = proxy::Options {
        shell,
        arguments: arguments.clone(),
        settings: start::settings(),
        state: start::state(),
        record: None,
        scopes: asked.scope_socket.clone(),
        scope_wait: Duration::from_millis(asked.scope_wait),
        bare: std::env::var_os("PALISADE_SHELL_BARE").is_some(),
    };
    match proxy::run(&options) {
        Ok(code) => code,
        Err(ProxyError::NoTerminal) => plainly(&options.shell, arguments),
        Err(error) => {
            output::error_in_lines(
                &error,
                Some("your shell starts without it; palisade shell status says more"),
            );
            plainly(&options.shell, arguments)
        }
    }
}

/// Executes the shell in place of this process. Returns only on failure. The shell's start-up file must not try the
/// proxy again.
fn plainly(shell: &Path, arguments: &[OsString]) -> u8 {
    let error = Command::new(shell).args(arguments).env(OFF, start::terminal().to_string()).exec();
    output::error(
        &format_args!("can't start {}: {error}", shell.shown()),
        Some("palisade shell --shell /bin/sh   # or set SHELL"),
    );
    NOTHING
}

/// As [`shell`], but it starts nothing that can't be recorded.
pub(super) fn record(record: &Record) -> u8 {
    let options = proxy::Options {
        shell: record.shell.clone().unwrap_or_else(start::usual),
        arguments: record.arguments.clone(),
        settings: start::settings(),
        state: start::state(),
        record: Some(record.file.clone()),
        scopes: record.scope_socket.clone(),
        scope_wait: palisade_shell::link::PATIENCE,
        bare: false,
    };
    match proxy::run(&options) {
        Ok(code) => code,
        Err(error) => {
            let hint = match &error {
                ProxyError::NoTerminal => Some("run it in a terminal, without redirections"),
                ProxyError::Record { .. } => {
                    Some("palisade shell record ~/session.cast   # or another file that you can write")
                }
                ProxyError::Start { .. } => {
                    Some("palisade shell record --shell /bin/sh FILE   # or set SHELL")
                }
                _ => None,
            };
            output::error_in_lines(&error, hint);
            NOTHING
        }
    }
}

/// Prints what was typed before the prompt and no program has read.
pub(super) fn ahead() -> Result<u8, Failure> {
    use std::io::Write;
    let keys = palisade_shell::ahead::take(rustix::stdio::stdin());
    std::io::stdout().write_all(&keys).map_err(|source| Failure::Output { source })?;
    Ok(verb::YES)
}

/// Prints what a shell's start-up file evaluates.
pub(super) fn init(kind: Kind) -> Result<u8, Failure> {
    let kind = match kind {
        Kind::Bash => Shell::Bash,
        Kind::Zsh => Shell::Zsh,
        Kind::Fish => Shell::Fish,
    };
    let program =
        std::env::current_exe().map_err(|source| Failure::Read { path: "/proc/self/exe".into(), source })?;
    // A shell evaluates this script. The script names the program of that shell.
    let parent = rustix::process::getppid();
    let shell = parent
        .and_then(|pid| std::fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero())).ok())
        .filter(|path| path.is_file());
    verb::print_exactly(&start::script(kind, &Surroundings::now(), &program, shell.as_deref()))?;
    Ok(verb::YES)
}
