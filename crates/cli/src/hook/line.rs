// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A line of Claude Code, which is the one argument of `CLAUDE_CODE_SHELL_PREFIX`.
//!
//! The line ends by writing the shell's working directory into a file below `/tmp`, from where Claude Code's next command
//! starts. The sandbox has a `/tmp` of its own. So the file is made here, with the directory in which the line begins,
//! and is shown to lines that may change the directory. To show it to every line would cost each one a plan of its own,
//! because the file has another name each time.

use super::{Started, run, server, shell};
use crate::hook_error::HookError;
use crate::kept::Launch;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What writes the directory.
const WRITES: &str = " && pwd -P >| ";

pub(super) fn arguments(launch: &Launch, arguments: &[OsString]) -> Result<Started, HookError> {
    let [line] = arguments else {
        return Err(HookError::Arguments { name: super::LINE, count: arguments.len() });
    };
    // It starts the servers of its configuration as lines, too. One that is wrapped has its own policy, and a sandbox in
    // a sandbox can't be made.
    if let Some(words) = line.to_str().and_then(server::wrapped) {
        return Ok(Started::Launch(words));
    }
    let mut more = Vec::new();
    if let Some((command, file)) = line.to_str().and_then(directory_file)
        && remember(file)
        && may_change_directory(command)
    {
        more.push(OsString::from(format!("--rw={file}")));
    }
    Ok(run(launch, &more, vec![shell(), "-c".into(), line.clone()]))
}

/// The command of a line, and the file into which it writes the directory.
fn directory_file(line: &str) -> Option<(&str, &str)> {
    let (command, file) = line.rsplit_once(WRITES)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let name = Path::new(file).file_name()?.to_str()?;
    let is_ours = name.starts_with("claude-") && name.ends_with("-cwd");
    (file.starts_with('/') && file.chars().all(plain) && !file.contains("..") && is_ours)
        .then_some((command, file))
}

/// Whether a line has a word that changes the directory.
fn may_change_directory(command: &str) -> bool {
    let word = |c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-' && c != '.';
    command.split(word).any(|word| matches!(word, "cd" | "pushd" | "popd"))
}

/// Makes the file with the working directory in it. It must be new: another user may have put a link there.
fn remember(file: &str) -> bool {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let write = || -> std::io::Result<()> {
        let cwd = std::env::current_dir()?;
        let mut made = File::from(rustix::fs::open(file, flags, Mode::RUSR | Mode::WUSR)?);
        made.write_all(cwd.as_os_str().as_bytes())?;
        made.write_all(b"\n")
    };
    write().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_agents_own_file_is_shown() {
        let line = |file: &str| format!("eval 'ls' && pwd -P >| {file}");
        assert_eq!(directory_file(&line("/tmp/claude-1f-cwd")), Some(("eval 'ls'", "/tmp/claude-1f-cwd")));
        for file in [
            "/etc/passwd",
            "/tmp/../etc/claude-1-cwd",
            "/tmp/claude-1-cwd; id",
            "'/tmp/claude-1-cwd'",
            "claude-1-cwd",
            "/tmp/claude-1-cwd/x",
        ] {
            assert_eq!(directory_file(&line(file)), None, "{file}");
        }
    }

    #[test]
    fn words_that_change_the_directory_are_seen() {
        for line in ["eval 'cd sub'", "eval 'ls;cd sub'", "eval '(pushd x)'", "eval \"popd\""] {
            assert!(may_change_directory(line), "{line}");
        }
        for line in ["eval 'ls'", "eval 'cat abcd'", "eval './cd-rom x'", "eval 'cmp a.cd b'"] {
            assert!(!may_change_directory(line), "{line}");
        }
    }
}
