// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Would these rules stop the host?
//!
//! Rules under which init, a shell, the package manager or the guard itself could not be started any more can't be
//! taken back by anybody who isn't logged in already. They are refused, unless somebody insists.

use crate::decide::Decider;
use crate::facts::{Access, Facts};
use crate::kind::Recognizer;
use crate::rule::RuleId;
use crate::supposed::{Supposed, Who};
use crate::trusted::Trusted;
use palisade_host::closure::Libraries;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a host can't do without, each with what it is; those that aren't there aren't missed.
const ESSENTIAL: &[(&str, &str)] = &[
    ("/proc/1/exe", "init"),
    ("/sbin/init", "init"),
    ("/bin/sh", "the system's shell"),
    ("/bin/bash", "a shell"),
    ("/usr/bin/dpkg", "the package manager"),
    ("/usr/bin/dpkg-deb", "the package manager"),
    ("/usr/bin/apt-get", "the package manager"),
    ("/usr/bin/tar", "the package manager's tar"),
    ("/usr/bin/rpm", "the package manager"),
    ("/usr/bin/dnf", "the package manager"),
    ("/usr/lib/systemd/systemd", "systemd"),
    ("/usr/lib/systemd/systemd-executor", "systemd"),
    ("/usr/lib/systemd/systemd-journald", "systemd"),
    ("/usr/lib/systemd/systemd-logind", "systemd"),
    ("/usr/bin/systemctl", "systemd"),
    ("/usr/sbin/agetty", "logging in"),
    ("/usr/bin/login", "logging in"),
    ("/usr/sbin/sshd", "logging in"),
    ("/usr/lib/openssh/sshd-session", "logging in"),
    ("/usr/bin/sudo", "becoming root"),
    ("/usr/bin/su", "becoming root"),
    ("/usr/sbin/reboot", "restarting"),
];

/// Something that the host can't do without and could not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// What would not work.
    pub what: String,
    /// The file.
    pub path: PathBuf,
    /// Opening or executing it.
    pub access: Access,
    /// The rule that refuses.
    pub rule: Option<RuleId>,
}

/// What would be refused of the essential programs of this host, of their interpreters and libraries, and of `own`,
/// the guard's own programs.
#[must_use]
pub fn stopped(decider: &Decider, trust: &Trusted, own: &[PathBuf]) -> Vec<Stopped> {
    let recognizer = Recognizer::own();
    let root_shell = root_shell();
    let programs = ESSENTIAL
        .iter()
        .map(|(path, what)| (PathBuf::from(path), *what))
        .chain(root_shell.map(|shell| (shell, "root's shell")))
        .chain(own.iter().map(|path| (path.clone(), "the guard itself")));
    let init = Path::new("/proc/1/exe").canonicalize().unwrap_or_else(|_| "/sbin/init".into());
    let starter = Who::root(&init);
    let libraries = Libraries::default();
    let mut seen = BTreeSet::new();
    let mut stopped = Vec::new();
    for (path, what) in programs {
        let Ok(path) = path.canonicalize() else { continue };
        let who = Who::root(&path);
        let mut ask = |path: &Path, access: Access, who: &Who| {
            if !seen.insert((path.to_owned(), access == Access::Execute)) {
                return;
            }
            let Ok(supposed) = Supposed::new(access, path, who, trust, &recognizer) else { return };
            let outcome = decider.decide(&supposed);
            if !outcome.decision.allow {
                let path = supposed.real_path().to_owned();
                stopped.push(Stopped {
                    what: what.into(),
                    path,
                    access: supposed.access(),
                    rule: outcome.rule,
                });
            }
        };
        ask(&path, Access::Execute, &starter);
        ask(&path, Access::Open, &starter);
        // Without one it is no ELF file, or a broken one: then there is nothing more to it.
        let Ok(closure) = libraries.closure(&path) else { continue };
        for object in closure.objects.iter().skip(1) {
            // Only the loader is executed, and it doesn't hurt to ask of the others, but it wouldn't be true.
            if object.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-")) {
                ask(object, Access::Execute, &starter);
            }
            ask(object, Access::Open, &who);
        }
    }
    stopped
}

fn root_shell() -> Option<PathBuf> {
    let passwd = std::fs::read("/etc/passwd").ok()?;
    let root = passwd.split(|&byte| byte == b'\n').find(|line| line.starts_with(b"root:"))?;
    let shell = root.split(|&byte| byte == b':').nth(6)?;
    Some(PathBuf::from(std::str::from_utf8(shell).ok()?))
}
