// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a plan has to do with packages (crate `package`): which paths a package takes along, and a plan in which its files are in
//! the system's places (`view`).

pub(crate) mod view;

use palisade_host::environment::Environment;
use palisade_policy::LayerPolicy;
use palisade_policy::word::{Choice, Switch};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Directories that a package takes from the host where it is made, and that come from it alone where it runs.
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

/// Files in these that tell of the host and its users: never taken along, always the host's.
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

/// Of those, what every program may read.
pub const READ_BY_ALL: [&str; 5] =
    ["/etc/passwd", "/etc/group", "/etc/hosts", "/etc/localtime", "/etc/timezone"];
/// And what is read by one that reaches the network.
pub const RESOLVER: &str = "/etc/resolv.conf";

/// Whether a path of the host is one that packages take along.
#[must_use]
pub fn is_packed(path: &Path) -> bool {
    PACKED.iter().any(|packed| path.starts_with(packed)) && !is_hosts(path)
}

/// Whether a path tells of a host, though it lies where packages take theirs from.
#[must_use]
pub fn is_hosts(path: &Path) -> bool {
    HOSTS.iter().any(|hosts| path.starts_with(hosts))
}

/// Variables with only the system's directories on the path: a package takes nothing from elsewhere.
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

/// What holds while it is seen what a package takes along, and not where it runs: no home, no working directory.
#[must_use]
pub fn only_now() -> LayerPolicy {
    let mut only_now = LayerPolicy::command_line();
    if let Some(none) = Choice::HomePolicy.parse("none") {
        only_now.choose(none, 0);
    }
    only_now.set_switch(Switch::WorkingDirectory, false, 0);
    only_now
}

/// What a plan is made for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PlanMode {
    /// A launch of what this host has.
    #[default]
    Launch,
    /// To see what a package is to take along.
    Pack,
    /// A launch of what is in a package.
    Packed(Unpacked),
}

/// A package, unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacked {
    /// Where its files are, by a path without links.
    pub root: PathBuf,
    /// Its program, by its path inside.
    pub program: PathBuf,
}

impl Unpacked {
    /// Where on this host that is which is at `inside`.
    #[must_use]
    pub fn host(&self, inside: &Path) -> PathBuf {
        self.root.join(inside.strip_prefix("/").unwrap_or(inside))
    }

    /// What a path below the package's files is inside.
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
