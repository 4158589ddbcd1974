// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of packages (crate `package`) in planning: which paths a package holds, and a plan in which its files
//! replace the system's (`view`).

pub(crate) mod view;

use crate::arrangement::Arrangement;
use palisade_host::environment::Environment;
use palisade_policy::LayerPolicy;
use palisade_policy::word::{Choice, Switch};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Directories that a package takes from the host where it is made, and that come only from the package where it runs.
const PACKED: [&str; 18] = [
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr",
    "/etc",
    "/opt",
    "/nix/store",
    "/nix/var/nix/profiles",
    "/run/current-system",
    "/gnu/store",
    "/var/guix/profiles",
    "/var/cache/fontconfig",
    "/var/lib/ca-certificates",
    "/var/lib/gems",
    "/var/lib/texmf",
];

/// Files below these directories that describe the host and its users: never packed, always the host's.
const HOSTS: [&str; 16] = [
    "/etc/passwd",
    "/etc/group",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/resolv.conf",
    "/etc/machine-id",
    "/etc/machine-info",
    "/etc/adjtime",
    "/etc/fstab",
    "/etc/mtab",
    "/etc/subuid",
    "/etc/subgid",
    "/etc/palisade",
    "/usr/share/palisade",
];

/// Of these, the files that every program may read.
pub const READ_BY_ALL: [&str; 5] =
    ["/etc/passwd", "/etc/group", "/etc/hosts", "/etc/localtime", "/etc/timezone"];
/// The file that a program with network access reads, too.
pub const RESOLVER: &str = "/etc/resolv.conf";

/// Whether packages take this path of the host.
#[must_use]
pub fn is_packed(path: &Path) -> bool {
    PACKED.iter().any(|packed| path.starts_with(packed)) && !is_hosts(path)
}

/// Whether a path describes the host, although it lies in a directory that packages take.
#[must_use]
pub fn is_hosts(path: &Path) -> bool {
    HOSTS.iter().any(|hosts| path.starts_with(hosts))
}

/// The environment with only the system's directories in `PATH`, because a package takes no files from elsewhere.
#[must_use]
pub fn of_system(environment: &Environment) -> Environment {
    let directories = environment.absolute_list("PATH").into_iter().filter(|path| is_packed(path));
    let path = std::env::join_paths(directories).unwrap_or_default();
    let others = environment.iter().filter(|(name, _value)| *name != "PATH");
    others
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .chain([(OsString::from("PATH"), path)])
        .collect()
}

/// Statements that count while a package is made, and not where it runs: no home, no working directory.
#[must_use]
pub fn only_now() -> LayerPolicy {
    let mut only_now = LayerPolicy::command_line();
    if let Some(none) = Choice::HomePolicy.parse("none") {
        only_now.choose(none, 0);
    }
    only_now.set_switch(Switch::WorkingDirectory, false, 0);
    only_now
}

/// The purpose of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PlanMode {
    /// A launch with this host's files.
    #[default]
    Launch,
    /// To determine which files a package must hold.
    Pack,
    /// A launch with a package's files.
    Packed(Unpacked),
    /// A launch with the tree that the caller states.
    Arranged(Arrangement),
}

/// A package, unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacked {
    /// The directory of its files, by a path without links.
    pub root: PathBuf,
    /// The path of its program inside.
    pub program: PathBuf,
}

impl Unpacked {
    /// The host's path of the file that is at `inside`.
    #[must_use]
    pub fn host(&self, inside: &Path) -> PathBuf {
        self.root.join(inside.strip_prefix("/").unwrap_or(inside))
    }

    /// The path inside of a file that is below the package's directory.
    #[must_use]
    pub fn inside(&self, host: &Path) -> PathBuf {
        host.strip_prefix(&self.root).map_or_else(|_other| host.to_owned(), |rest| Path::new("/").join(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_of_a_host_stays_there() {
        for packed in ["/usr/lib/x.so", "/etc/fonts", "/lib64/ld-linux-x86-64.so.2", "/opt/x", "/etc/passwdx"]
        {
            assert!(is_packed(Path::new(packed)), "{packed}");
        }
        for hosts in [
            "/etc/passwd",
            "/etc/resolv.conf",
            "/run/user/1",
            "/home/x/usr",
            "/usrx",
            "/sys",
            "/etc/palisade/x",
        ] {
            assert!(!is_packed(Path::new(hosts)), "{hosts}");
        }
    }

    #[test]
    fn inside_and_host_are_each_others_reverse() {
        let package = Unpacked { root: "/c/p".into(), program: "/usr/bin/x".into() };
        assert_eq!(package.host(Path::new("/usr/x")), Path::new("/c/p/usr/x"));
        assert_eq!(package.inside(Path::new("/c/p/usr/x")), Path::new("/usr/x"));
    }
}
