// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Selects which file systems are watched.
//!
//! A fanotify mark covers a whole file system, wherever it is mounted, in every mount namespace. So a mount point that
//! is left out stays watched if another mount point of its file system is watched.

use crate::settings::{FILE_SYSTEMS, SERVED, Watch};
use palisade_host::mounts::Mount;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The selection from the mounts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// One mount point for each file system that is watched, by its device.
    pub watched: BTreeMap<(u32, u32), PathBuf>,
    /// Mount points where files could be executed and that aren't watched, each with the reason.
    pub unwatched: Vec<(PathBuf, &'static str)>,
}

/// Types of file systems that hold no files of users: no program can be stored there.
const NOT_FILES: &[&str] = &[
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "pipefs",
    "proc",
    "pstore",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
];

const SERVED_BY_OTHERS: &str = "another process or machine serves its files: a process that opens one waits for that server, \
                                and so would all others; to watch it, name it in watch.filesystems or watch.only";
const BELOW_SERVED: &str = "it lies below files that another process or machine serves: to find it, palisaded would wait for \
                            that server; to watch it, name it in watch.only";

/// Selects from `mounts` by the settings.
#[must_use]
pub fn select(mounts: &[Mount], watch: &Watch) -> Selection {
    let mut selection = Selection::default();
    let mut wholes = Vec::new();
    for mount in mounts {
        if !holds_files(mount) {
            continue;
        }
        match reason_against(mount, watch) {
            None if lies_below_served(mount, mounts, watch) => {
                selection.unwatched.push((mount.point.clone(), BELOW_SERVED));
            }
            None => {
                // Prefer a mount point that shows all of the file system, because files are found again through it.
                let whole = mount.root == Path::new("/");
                let known = selection.watched.entry(mount.device).or_insert_with(|| mount.point.clone());
                if whole && !wholes.contains(&mount.device) {
                    known.clone_from(&mount.point);
                    wholes.push(mount.device);
                }
            }
            Some(reason) => selection.unwatched.push((mount.point.clone(), reason)),
        }
    }
    // A mount point is watched after all if its file system is also mounted where it is watched.
    let also = |point: &Path| {
        mounts.iter().any(|mount| mount.point == point && selection.watched.contains_key(&mount.device))
    };
    let unwatched = selection.unwatched.iter().filter(|(point, _)| !also(point)).cloned().collect();
    selection.unwatched = unwatched;
    selection
}

/// Devices of the file systems that the settings leave out: by `only`, by `exclude`, or because a type that is watched
/// by default isn't among `filesystems`. Types that never hold programs aren't included.
#[must_use]
pub fn left_out(mounts: &[Mount], watch: &Watch) -> BTreeSet<(u32, u32)> {
    let watched = select(mounts, watch).watched;
    mounts
        .iter()
        .filter(|mount| !watched.contains_key(&mount.device) && !lies_below_served(mount, mounts, watch))
        .filter(|mount| {
            watch.exclude.contains(&mount.point)
                || FILE_SYSTEMS.iter().any(|usual| *usual == mount.kind || *usual == kind(mount))
        })
        .map(|mount| mount.device)
        .collect()
}

/// Whether files of users can be there. Even a look at an automounter's mount point waits for the automounter.
#[must_use]
pub fn holds_files(mount: &Mount) -> bool {
    !NOT_FILES.contains(&mount.kind.as_str())
}

/// Whether the path to a mount point leads through a file system that isn't watched because another machine or a
/// process serves it. A process that looks for the mount would wait for that server, too.
#[must_use]
pub fn lies_below_served(mount: &Mount, all: &[Mount], watch: &Watch) -> bool {
    !watch.only.contains(&mount.point)
        && all.iter().any(|other| {
            is_served(other)
                && other.point != mount.point
                && mount.point.starts_with(&other.point)
                && reason_against(other, watch).is_some()
        })
}

fn reason_against(mount: &Mount, watch: &Watch) -> Option<&'static str> {
    let chosen = watch.only.contains(&mount.point);
    if !watch.only.is_empty() && !chosen {
        return Some("not among watch.only");
    }
    if watch.exclude.contains(&mount.point) {
        return Some("among watch.exclude");
    }
    if chosen {
        return None;
    }
    let is = |named: &str| named == mount.kind || named == kind(mount);
    match watch.filesystems.iter().any(|wanted| is(wanted)) {
        true => None,
        // If the root file system is served, the host hangs with its server anyway, with or without the guard.
        false if is_served(mount) && mount.point == Path::new("/") => None,
        false if is_served(mount) => Some(SERVED_BY_OTHERS),
        false => Some("its type isn't among watch.filesystems"),
    }
}

/// `fuse.sshfs` is a file system of type `fuse`.
fn kind(mount: &Mount) -> &str {
    mount.kind.split('.').next().unwrap_or(&mount.kind)
}

/// Whether its files are served by another machine or a process.
#[must_use]
pub fn is_served(mount: &Mount) -> bool {
    SERVED.contains(&kind(mount)) || SERVED.contains(&mount.kind.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts() -> Vec<Mount> {
        palisade_host::mounts::parse(
            b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /srv rw - xfs /dev/sdb rw\n\
              3 1 8:2 /a /home/a rw - xfs /dev/sdb rw\n4 1 0:5 / /proc rw - proc proc rw\n\
              5 1 0:6 / /mnt rw - fuse.sshfs h rw\n6 1 0:7 / /odd rw - oddfs x rw\n",
        )
    }

    #[test]
    fn every_file_system_once() {
        let selection = select(&mounts(), &Watch::default());
        let points: Vec<&str> = selection.watched.values().filter_map(|point| point.to_str()).collect();
        assert_eq!(points, ["/", "/srv"]);
        assert_eq!(selection.unwatched.len(), 2, "{selection:?}");
    }

    #[test]
    fn what_a_process_serves_is_watched_where_it_is_named() {
        let points =
            |watch: &Watch| -> Vec<PathBuf> { select(&mounts(), watch).watched.into_values().collect() };
        let mnt = PathBuf::from("/mnt");
        assert!(!points(&Watch::default()).contains(&mnt));
        assert!(points(&Watch { filesystems: vec!["fuse".into()], ..Watch::default() }).contains(&mnt));
        assert!(points(&Watch { filesystems: vec!["fuse.sshfs".into()], ..Watch::default() }).contains(&mnt));
        assert_eq!(points(&Watch { only: vec![mnt.clone()], ..Watch::default() }), [mnt]);
        // A host on such a file system has no other one.
        let whole = palisade_host::mounts::parse(b"1 0 0:9 / / rw - virtiofs host rw\n");
        assert_eq!(select(&whole, &Watch::default()).watched.len(), 1);
        // Only those that the security hook doesn't handle.
        assert!(!left_out(&mounts(), &Watch::default()).contains(&(0, 6)));
    }

    #[test]
    fn what_lies_below_is_not_looked_for() {
        let all = palisade_host::mounts::parse(
            b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n5 1 0:6 / /mnt rw - fuse.sshfs h rw\n6 5 0:7 / /mnt/a rw - tmpfs x rw\n\
              7 1 0:8 / /mntx rw - tmpfs x rw\n",
        );
        let points = |watch: &Watch| -> Vec<PathBuf> { select(&all, watch).watched.into_values().collect() };
        assert_eq!(points(&Watch::default()), [PathBuf::from("/mntx"), "/".into()]);
        assert!(
            !left_out(&all, &Watch::default()).contains(&(0, 7)),
            "the security hook doesn't leave it alone"
        );
        let named = Watch { filesystems: vec!["tmpfs".into(), "fuse".into()], ..Watch::default() };
        assert_eq!(points(&named).len(), 3, "who takes the risk for the one takes it for the other");
        assert_eq!(
            points(&Watch { only: vec!["/mnt/a".into()], ..Watch::default() }),
            [PathBuf::from("/mnt/a")]
        );
    }

    #[test]
    fn what_is_left_out_at_one_place_is_watched_at_another() {
        let watch = Watch { exclude: vec!["/srv".into()], ..Watch::default() };
        let selection = select(&mounts(), &watch);
        assert_eq!(selection.watched[&(8, 2)], PathBuf::from("/home/a"));
        assert!(!selection.unwatched.iter().any(|(point, _)| point == Path::new("/srv")));
    }

    #[test]
    fn only_some() {
        let watch = Watch { only: vec!["/odd".into()], ..Watch::default() };
        let selection = select(&mounts(), &watch);
        assert_eq!(selection.watched.into_values().collect::<Vec<_>>(), [PathBuf::from("/odd")]);
        assert_eq!(selection.unwatched.len(), 4);
    }
}
