// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ordinary user whose launches are to work. Root itself is never refused, so each trial runs as that user.

use super::error::SetupError;
use palisade_sandbox::error::user_namespaces::{self, Cause};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The user `nobody` of most hosts: for a root who hasn't come by `sudo`.
const NOBODY: u32 = 65534;

/// The user, and whether this process is that user's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker {
    pub(super) uid: u32,
    gid: u32,
    is_me: bool,
}

/// What a user needs.
pub(super) enum Need {
    /// Nothing: user namespaces work.
    Nothing,
    /// A profile, for this reason.
    Profile(String),
    /// Something else, which was said already.
    Else,
}

impl Asker {
    /// The caller; for root, the user who typed `sudo`.
    pub(super) fn find() -> Self {
        let me = rustix::process::geteuid();
        if !me.is_root() {
            return Self { uid: me.as_raw(), gid: rustix::process::getegid().as_raw(), is_me: true };
        }
        if !is_mapped(NOBODY) {
            // Root of a user namespace with one user: there is nobody else, and this root may be refused.
            return Self { uid: 0, gid: 0, is_me: true };
        }
        let number = |name| std::env::var(name).ok()?.parse().ok().filter(|number: &u32| *number != 0);
        let uid = number("SUDO_UID").unwrap_or(NOBODY);
        Self { uid, gid: number("SUDO_GID").unwrap_or(uid), is_me: false }
    }

    /// What this user needs for this very program.
    pub(super) fn need(&self) -> Result<Need, SetupError> {
        if self.is_me {
            return match user_namespaces::examine() {
                None => Ok(Need::Nothing),
                Some(cause @ Cause::AppArmor { .. }) => Ok(Need::Profile(user_namespaces::words(&cause))),
                Some(cause) => Err(SetupError::NoHelp { cause }),
            };
        }
        // The directories of the program may be root's own. This way leads past them.
        let program = Path::new("/proc/self/exe");
        let mut trial = self.command(program);
        trial.args(["setup", "--check"]).stderr(Stdio::inherit());
        let Output { status, stdout, .. } = self.end(program, trial)?;
        Ok(match status.code() {
            Some(0) => Need::Nothing,
            Some(1) => Need::Profile(String::from_utf8_lossy(&stdout).trim().to_owned()),
            _ => Need::Else,
        })
    }

    /// Whether a launch by `program` works, and else what it says.
    pub(super) fn launch(&self, program: &Path) -> Result<(), SetupError> {
        let mut trial = self.command(program);
        trial.arg("run").arg("--ro").arg(program).arg("--").arg(program).arg("--version");
        let Output { status, stderr, .. } = self.end(program, trial)?;
        if status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&stderr).trim().to_owned();
        Err(SetupError::Launch { uid: self.uid, said })
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // The name decides what the program does.
        command.arg0("palisade").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if !self.is_me {
            // Root's variables name root's directories.
            command.uid(self.uid).gid(self.gid).current_dir("/");
            command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        }
        command
    }

    fn end(&self, program: &Path, mut command: Command) -> Result<Output, SetupError> {
        let failed = |source| SetupError::Child { program: program.to_owned(), uid: self.uid, source };
        command.spawn().and_then(std::process::Child::wait_with_output).map_err(failed)
    }
}

/// Whether this process's user namespace has the user.
fn is_mapped(uid: u32) -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map(|word| word.parse::<u32>().unwrap_or(0));
        let (first, _outside, count) = (numbers.next(), numbers.next(), numbers.next());
        first.zip(count).is_some_and(|(first, count)| uid.checked_sub(first).is_some_and(|far| far < count))
    })
}
