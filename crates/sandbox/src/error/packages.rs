// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which command installs a package on this host, for hints.
//!
//! Names of packages are Debian's. Another distribution has other ones, a release may lack a package, and nobody can install
//! one on a host whose lists have never been fetched. So apt itself is asked before a hint names it. That takes about a second,
//! in which nobody waits for a program: there is none.

use palisade_host::executable::{self, Found};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

/// The program that is asked. `apt` installs the same, and warns scripts that its output may change.
const APT: &str = "/usr/bin/apt-get";

/// The command that installs Debian's package `name`. `None`: it would fail here, or change nothing.
#[must_use]
pub fn install(name: &str) -> Option<String> {
    let prefix = become_root()?;
    would_install(name).then(|| format!("{prefix}apt install {}", super::quoted(name)))
}

/// What this user types in front of a command that only root may run. `None`: this user has no such program.
fn become_root() -> Option<&'static str> {
    if rustix::process::geteuid().is_root() {
        return Some("");
    }
    let path = std::env::var_os("PATH");
    let found = executable::find(OsStr::new("sudo"), path.as_deref(), Path::new("/"));
    matches!(found, Found::Program(_)).then_some("sudo ")
}

/// Whether apt would install the package. The simulation needs no right and no lock, and these options keep it from writing
/// its caches.
fn would_install(name: &str) -> bool {
    let mut apt = Command::new(APT);
    apt.args(["--simulate", "--quiet", "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="]);
    apt.args(["install", "--", name])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C");
    let ended = apt.stdin(Stdio::null()).stderr(Stdio::null()).output();
    ended.is_ok_and(|ended| ended.status.success() && names(&String::from_utf8_lossy(&ended.stdout), name))
}

/// Whether this is among what apt says that it installs. A package that is there already isn't.
fn names(said: &str, name: &str) -> bool {
    said.lines()
        .any(|line| line.strip_prefix("Inst ").is_some_and(|rest| rest.split(' ').next() == Some(name)))
}

#[test]
fn a_package_is_among_what_apt_installs() {
    let said = "Reading package lists...\nInst gimp-data (2.10 Debian:12 [all])\nInst gimp (2.10 Debian:12 [amd64])\nConf gimp (2.10)\n";
    assert!(names(said, "gimp") && names(said, "gimp-data"));
    assert!(!names(said, "gim") && !names("gimp is already the newest version (2.10).\n", "gimp"));
}
