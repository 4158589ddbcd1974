// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks whether the rules would stop the host.
//!
//! If init, a shell, the package manager or the guard itself could not be started any more, only a user who is already
//! logged in could take such rules back. Palisade refuses these rules unless the administrator insists.
//!
//! The same files must be known to be allowed before the guard dies, if nothing else may start after that.

use crate::decide::Decider;
use crate::facts::{Access, Facts};
use crate::kind::Recognizer;
use crate::rule::RuleId;
use crate::supposed::{Supposed, Who};
use crate::trusted::Trusted;
use crate::watch::label::Use;
use palisade_host::closure::Libraries;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Programs that a host can't do without, each with its purpose. Those that don't exist are skipped.
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

/// A file that the host can't do without and that the rules refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// What would not work, and the reason if it is more than the rule.
    pub what: String,
    /// The file.
    pub path: PathBuf,
    /// Opening or executing it.
    pub access: Access,
    /// The rule that refuses.
    pub rule: Option<RuleId>,
}

/// The reason for a file that would be trusted if its content were protected against changes.
const UNPROTECTED: &str = "; integrity = \"verity\", and fs-verity doesn't protect it";

/// What the rules would refuse of this host's essential programs, of their interpreters and libraries, and of `own`,
/// the guard's own programs.
#[must_use]
pub fn stopped(decider: &Decider, trust: &Trusted, own: &[PathBuf]) -> Vec<Stopped> {
    let mut stopped = Vec::new();
    walk(decider, trust, own, |what, asked, rule| {
        if let Err(rule) = rule {
            let path = asked.supposed.real_path().to_owned();
            let unprotected = if asked.supposed.lacks_verity() { UNPROTECTED } else { "" };
            let what = format!("{what}{unprotected}");
            stopped.push(Stopped { what, path, access: asked.supposed.access(), rule });
        }
    });
    stopped
}

/// A file that the host can't do without, and that the rules allow.
#[derive(Debug)]
pub struct Needed {
    /// Where it is, with links followed.
    pub path: PathBuf,
    /// What the rules allow: executing, which the program and its linker need, or only mapping.
    pub wanted: Use,
    /// The process that opens the file, and the process that executes it.
    opener: Who,
    executor: Option<Who>,
}

impl Needed {
    /// Whether the rules allow this for the open file now, and it is the file at the path.
    #[must_use]
    pub fn is_allowed(&self, file: BorrowedFd<'_>, decider: &Decider, trust: &Trusted) -> bool {
        let recognizer = Recognizer::own();
        let allows = |access: Access, who: &Who| {
            Supposed::new(access, &self.path, who, trust, &recognizer).is_ok_and(|supposed| {
                supposed.is_of(file) && decider.decide(&supposed).decision.allow && supposed.is_of(file)
            })
        };
        allows(Access::Open, &self.opener)
            && self.executor.as_ref().is_none_or(|who| allows(Access::Execute, who))
    }
}

/// The files that [`stopped`] checks and that the rules allow.
#[must_use]
pub fn needed(decider: &Decider, trust: &Trusted, own: &[PathBuf]) -> Vec<Needed> {
    let (mut opened, mut executed) = (BTreeMap::new(), BTreeMap::new());
    walk(decider, trust, own, |_, asked, rule| {
        if rule.is_ok() {
            let by = if asked.supposed.access() == Access::Execute { &mut executed } else { &mut opened };
            by.insert(asked.supposed.real_path().to_owned(), asked.who.clone());
        }
    });
    // A file that may not be opened can't be executed either: the kernel asks for both.
    let needed = opened.into_iter().map(|(path, opener)| {
        let executor = executed.remove(&path);
        let wanted = if executor.is_some() { Use::Execute } else { Use::Map };
        Needed { path, wanted, opener, executor }
    });
    needed.collect()
}

/// An open or exec that the host can't do without.
struct Asked<'a> {
    supposed: &'a Supposed<'a>,
    who: &'a Who,
}

/// Decides about each essential program, its interpreter and its libraries, once each. Calls `told` with the purpose
/// that needs the file, and, if it is refused, the rule that refuses it.
fn walk(
    decider: &Decider,
    trust: &Trusted,
    own: &[PathBuf],
    mut told: impl FnMut(&str, &Asked<'_>, Result<(), Option<RuleId>>),
) {
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
    for (path, what) in programs {
        let Ok(path) = path.canonicalize() else { continue };
        let who = Who::root(&path);
        let mut ask = |path: &Path, access: Access, who: &Who| {
            if !seen.insert((path.to_owned(), access == Access::Execute)) {
                return;
            }
            let Ok(supposed) = Supposed::new(access, path, who, trust, &recognizer) else { return };
            let outcome = decider.decide(&supposed);
            let allowed = if outcome.decision.allow { Ok(()) } else { Err(outcome.rule) };
            told(what, &Asked { supposed: &supposed, who }, allowed);
        };
        ask(&path, Access::Execute, &starter);
        ask(&path, Access::Open, &starter);
        // Without a closure it isn't an ELF file, or is a broken one: it has no further files then.
        let Ok(closure) = libraries.closure(&path) else { continue };
        for object in closure.objects.iter().skip(1) {
            // Only the loader is executed, so the others are not checked for execution.
            if object.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-")) {
                ask(object, Access::Execute, &starter);
            }
            ask(object, Access::Open, &who);
        }
    }
}

fn root_shell() -> Option<PathBuf> {
    let passwd = std::fs::read("/etc/passwd").ok()?;
    let root = passwd.split(|&byte| byte == b'\n').find(|line| line.starts_with(b"root:"))?;
    let shell = root.split(|&byte| byte == b':').nth(6)?;
    Some(PathBuf::from(std::str::from_utf8(shell).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::accounts::AccountFiles;
    use crate::rule::parse::parse;
    use crate::settings::Recognised;
    use std::fs::File;
    use std::os::fd::AsFd;

    fn by(rules: &str) -> (BTreeMap<PathBuf, Use>, Vec<Stopped>) {
        let rules =
            parse(Path::new("rules"), rules.as_bytes(), &AccountFiles::host()).expect("they are right");
        let (decider, trust) = (Decider::new(&rules), Trusted::new(None, Recognised::Size));
        let needed = needed(&decider, &trust, &[]);
        (
            needed.iter().map(|needed| (needed.path.clone(), needed.wanted)).collect(),
            stopped(&decider, &trust, &[]),
        )
    }

    #[test]
    fn what_is_not_stopped_is_needed() {
        let shell = Path::new("/bin/sh").canonicalize().expect("a host has a shell");
        let closure = Libraries::default().closure(&shell).expect("it is an ELF file");
        let objects = || closure.objects.iter().skip(1);
        let is_linker =
            |path: &Path| path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-"));
        let (needed, stopped) = by("allow perm=any all : all\n");
        assert_eq!((needed.get(&shell), stopped), (Some(&Use::Execute), Vec::new()));
        for object in objects() {
            let wanted = if is_linker(object) { Use::Execute } else { Use::Map };
            let object = object.canonicalize().expect("it is there");
            assert_eq!(needed.get(&object), Some(&wanted), "{}", object.display());
        }
        // A file that may be opened may be mapped.
        let (needed, stopped) = by("deny perm=execute all : all\nallow perm=any all : all\n");
        assert!(needed.values().all(|wanted| *wanted == Use::Map) && needed.contains_key(&shell));
        assert!(stopped.iter().all(|stopped| stopped.access == Access::Execute) && !stopped.is_empty());
        // A file that may not be opened isn't labelled for execution either.
        let (needed, _) =
            by(&format!("deny perm=open all : path={}\nallow perm=any all : all\n", shell.display()));
        assert!(!needed.contains_key(&shell) && !needed.is_empty());
        assert_eq!(by("deny perm=any all : all\n").0, BTreeMap::new());
    }

    #[test]
    fn it_is_the_file_that_is_allowed() {
        let parsed = |text: &str| {
            parse(Path::new("rules"), text.as_bytes(), &AccountFiles::host()).expect("they are right")
        };
        let (allow, deny) = (parsed("allow perm=any all : all\n"), parsed("deny perm=any all : all\n"));
        let trust = Trusted::new(None, Recognised::Size);
        let found = needed(&Decider::new(&allow), &trust, &[]);
        let shell = Path::new("/bin/sh").canonicalize().expect("a host has a shell");
        let needed = found.iter().find(|needed| needed.path == shell).expect("it is needed");
        let (own, other) =
            (File::open(&shell).expect("it is there"), File::open("/proc/self/exe").expect("it runs"));
        assert!(needed.is_allowed(own.as_fd(), &Decider::new(&allow), &trust));
        assert!(!needed.is_allowed(own.as_fd(), &Decider::new(&deny), &trust));
        assert!(!needed.is_allowed(other.as_fd(), &Decider::new(&allow), &trust), "another file");
    }
}
