// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs fapolicyd without risk to the host. It gets a private mount namespace, in which the bed is the only file system of
//! its kind. Its configuration, its database and its files in /run are the bench's.
//!
//! fapolicyd marks mounts and not file systems. The mounts of a private namespace are separate mounts, so fapolicyd is never
//! asked about processes outside.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, mount_bind, unmount};

use super::GuardError;
use super::bed::Bed;
use super::load::LoadError;
use super::policy::Policy;

/// The message that fapolicyd logs when it is ready. Before it, there is one message for each mount that it watches.
pub(crate) const READY: &str = "Starting to listen for events";
const ADDED: [&str; 2] = ["added ", " mount point"];
/// The kind of file system that it watches.
const WATCHED: &str = "tmpfs";
/// More mounts on top of each other mean that something is wrong.
const MOST_MOUNTS: usize = 1000;

/// Directories of the host, and the directories below the daemon's own that replace them.
const REPLACED: [(&str, &str); 3] =
    [("/etc/fapolicyd", "config"), ("/var/lib/fapolicyd", "state"), ("/run", "run")];

/// Writes fapolicyd's configuration.
pub(crate) fn configure(own: &Path, bed: &Bed, policy: &Policy) -> Result<(), GuardError> {
    let write = |name: &str, text: &str| {
        let path = own.join(name);
        fs::write(&path, text).map_err(GuardError::prepare("write", &path))
    };
    for name in ["config/trust.d", "config/rules.d", "state", "run/fapolicyd"] {
        let path = own.join(name);
        fs::create_dir_all(&path).map_err(GuardError::prepare("create", &path))?;
    }
    let megabytes = 50 + policy.trusted / 2000;
    write(
        "config/fapolicyd.conf",
        &format!(
            "permissive = 1\nnice_val = 14\nq_size = 640\nuid = 0\ngid = 0\ndo_stat_report = 0\ndetailed_report = 0\n\
             db_max_size = {megabytes}\nsubj_cache_size = 1549\nobj_cache_size = 8191\nwatch_fs = {WATCHED}\ntrust = file\n\
             integrity = none\nsyslog_format = rule,dec,perm,pid,:,path\nallow_filesystem_mark = 0\n"
        ),
    )?;
    write("config/compiled.rules", &policy.rules(&bed.path))?;
    write("config/fapolicyd.trust", "")?;
    let trust = own.join("config/trust.d/bench.trust");
    policy.write_trust(bed, &trust).map_err(GuardError::prepare("write", &trust))
}

/// Runs in the process that becomes the daemon. `own` is the daemon's directory; a file in it names the bed.
pub(crate) fn enter_view(own: &Path) -> Result<(), LoadError> {
    let step = |what: &'static str| move |source: io::Error| LoadError::Prepare { what, source };
    let bed = PathBuf::from(fs::read_to_string(own.join("bed")).map_err(step("read which bed is watched"))?);
    palisade_sys::mount::of_ones_own().map_err(|errno| step("have mounts of its own")(errno.into()))?;
    for (path, name) in REPLACED {
        fs::create_dir_all(path).map_err(step("make a mount point"))?;
        mount_bind(own.join(name), path).map_err(|errno| step("replace a directory")(errno.into()))?;
    }
    for _ in 0..MOST_MOUNTS {
        let mounts = fs::read_to_string("/proc/self/mounts").map_err(step("read the mounts"))?;
        let Some(other) = watched(&mounts).into_iter().rfind(|mount| *mount != bed) else { return Ok(()) };
        unmount(&other, UnmountFlags::DETACH).map_err(|errno| step("hide a mount")(errno.into()))?;
    }
    Err(step("hide the other mounts")(io::ErrorKind::ResourceBusy.into()))
}

/// The mounts of the watched kind in `/proc/self/mounts`.
fn watched(mounts: &str) -> Vec<PathBuf> {
    let of = |line: &str| {
        let mut fields = line.split(' ');
        let (_source, path, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == WATCHED).then(|| PathBuf::from(path.replace("\\040", " ")))
    };
    mounts.lines().filter_map(of).collect()
}

/// Whether the log so far says that it watches the bed and nothing else. `None` if it isn't ready yet.
pub(crate) fn watches_only(said: &str, bed: &Path) -> Option<bool> {
    said.contains(READY).then(|| {
        let added: Vec<&str> =
            said.lines().filter_map(|line| line.strip_prefix(ADDED[0])?.strip_suffix(ADDED[1])).collect();
        added.len() == 1 && added.iter().all(|path| Path::new(path) == bed)
    })
}

/// How often it has denied what every policy denies.
pub(crate) fn denials(said: &str, bed: &Path) -> usize {
    let path = format!("path={}", bed.join("refused").display());
    said.lines().filter(|line| line.contains("dec=deny") && line.contains(&path)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_bed_may_be_watched() {
        let bed = Path::new("/b");
        let said = |mounts: &str| format!("Loaded 2 rules\n{mounts}Starting to listen for events\n");
        assert_eq!(watches_only("Loaded 2 rules\n", bed), None);
        assert_eq!(watches_only(&said("added /b mount point\n"), bed), Some(true));
        assert_eq!(watches_only(&said("added /b mount point\nadded / mount point\n"), bed), Some(false));
        assert_eq!(watches_only(&said(""), bed), Some(false));
    }

    #[test]
    fn mounts_of_the_kind_are_found() {
        let mounts = "devtmpfs /dev devtmpfs rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\nx /a\\040b tmpfs rw 0 0\n";
        assert_eq!(watched(mounts), [PathBuf::from("/dev/shm"), PathBuf::from("/a b")]);
    }

    #[test]
    fn denials_are_counted() {
        let said = "rule=1 dec=deny perm=execute pid=7 : path=/b/refused\nrule=2 dec=allow perm=open pid=7 : path=/b/refused\n";
        assert_eq!(denials(said, Path::new("/b")), 1);
    }
}
