// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds out how control groups are laid out on this host, and which limits Palisade may set with them.
//!
//! Three layouts exist: v2 alone (`/sys/fs/cgroup`), hybrid (v1 hierarchies, and v2 in addition for systemd's own
//! use, usually without controllers), and v1 alone. This module only reads facts: the planner decides whether a group
//! is made.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use serde::{Deserialize, Serialize};

use crate::file::{self, FileError, Links};
use crate::mounts;

/// `mountinfo` of a host with thousands of containers has some megabytes.
const CAP: usize = 16 * 1024 * 1024;

/// The controllers that limits need.
pub const WANTED: [&str; 3] = ["memory", "pids", "cpu"];

/// The layout as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hierarchy {
    /// v2 alone.
    Unified,
    /// v1, with v2 mounted beside it.
    Hybrid,
    /// v1 alone.
    Legacy,
    /// No control groups are mounted.
    None,
}

/// The version of a hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Version {
    /// One hierarchy per controller.
    V1,
    /// The unified hierarchy.
    V2,
}

/// A controller that is available to our own group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Controller {
    /// Such as `memory`.
    pub name: String,
    /// Its version.
    pub version: Version,
    /// Our own group in its hierarchy.
    pub own: PathBuf,
    /// Where a group that has this controller can be made: in our own group, or on v2 next to it, because a group
    /// that has processes can't give controllers to children ("no internal processes", cgroups(7)).
    pub parent: PathBuf,
    /// Whether we may make a group there, which has the controller immediately, and move our processes into it.
    pub usable: bool,
}

/// The facts about control groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroups {
    /// The layout.
    pub hierarchy: Hierarchy,
    /// Our own group in v2, if v2 is mounted.
    pub unified: Option<PathBuf>,
    /// Those of [`WANTED`] that our own group has.
    pub controllers: Vec<Controller>,
}

/// Why control groups couldn't be examined.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// `/proc/self/cgroup` or `/proc/self/mountinfo` can't be read.
    #[error("can't examine control groups: {0}")]
    Proc(#[from] FileError),
}

impl Cgroups {
    /// Reads the facts of the calling process; `proc_self` is `/proc/self` except in tests. A kernel without control
    /// groups gives [`Hierarchy::None`].
    ///
    /// # Errors
    /// When the files are there and can't be read.
    pub fn read(proc_self: &Path) -> Result<Self, CgroupError> {
        let own = match file::read(&proc_self.join("cgroup"), CAP, Links::Follow) {
            Err(error) if error.is_absent() => Vec::new(),
            other => other?,
        };
        let mountinfo = file::read(&proc_self.join("mountinfo"), CAP, Links::Follow)?;
        let mounts: Vec<Mount> = lines(&mountinfo).filter_map(Mount::parse).collect();
        let groups: Vec<Group> = lines(&own).filter_map(Group::parse).collect();

        let mounted = mounts.iter().find(|mount| mount.version == Version::V2);
        let unified = mounted
            .zip(groups.iter().find(|group| group.controllers.is_empty()))
            .map(|(mount, group)| (mount.directory(&group.path), mount.point.as_path()));
        let has_v1 = mounts.iter().any(|mount| mount.version == Version::V1);
        let hierarchy = match (mounts.iter().any(|m| m.version == Version::V2), has_v1) {
            (true, false) => Hierarchy::Unified,
            (true, true) => Hierarchy::Hybrid,
            (false, true) => Hierarchy::Legacy,
            (false, false) => Hierarchy::None,
        };
        let controllers = WANTED
            .iter()
            .filter_map(|name| {
                controller_v1(name, &mounts, &groups).or_else(|| {
                    let (own, top) = unified.as_ref()?;
                    controller_v2(name, own, top)
                })
            })
            .collect();
        Ok(Self { hierarchy, unified: unified.map(|(own, _top)| own), controllers })
    }

    /// The controller of that name, if our group has it.
    #[must_use]
    pub fn controller(&self, name: &str) -> Option<&Controller> {
        self.controllers.iter().find(|controller| controller.name == name)
    }
}

fn controller_v1(name: &str, mounts: &[Mount], groups: &[Group]) -> Option<Controller> {
    let mount = mounts.iter().find(|mount| mount.version == Version::V1 && mount.has(name))?;
    let group = groups.iter().find(|group| group.controllers.split(',').any(|own| own == name))?;
    let directory = mount.directory(&group.path);
    Some(Controller {
        name: name.to_owned(),
        version: Version::V1,
        // On v1, moving a process only needs write access to the target's file.
        usable: may_write(&directory),
        parent: directory.clone(),
        own: directory,
    })
}

fn controller_v2(name: &str, own: &Path, top: &Path) -> Option<Controller> {
    let lists = |group: &Path, file: &str| {
        file::read_attribute(&group.join(file))
            .is_some_and(|text| text.split_ascii_whitespace().any(|listed| listed == name))
    };
    // Moving a process needs write access to the common ancestor of both groups.
    let serves = |group: &Path| {
        lists(group, "cgroup.subtree_control") && may_write(group) && may_write(&group.join("cgroup.procs"))
    };
    let beside = own.parent().filter(|above| above.starts_with(top));
    lists(own, "cgroup.controllers").then(|| {
        let parent = [Some(own), beside].into_iter().flatten().find(|group| serves(group));
        Controller {
            name: name.to_owned(),
            version: Version::V2,
            own: own.to_owned(),
            usable: parent.is_some(),
            parent: parent.unwrap_or(own).to_owned(),
        }
    })
}

/// Asks the kernel, which considers capabilities and read-only mounts.
fn may_write(path: &Path) -> bool {
    rustix::fs::access(path, Access::WRITE_OK).is_ok()
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty())
}

/// A line of `/proc/self/cgroup`: `ID:CONTROLLERS:PATH`.
struct Group {
    /// Comma-separated; empty on v2.
    controllers: String,
    path: PathBuf,
}

impl Group {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.splitn(3, |&byte| byte == b':');
        let _id = fields.next()?;
        let controllers = String::from_utf8(fields.next()?.to_vec()).ok()?;
        let path = PathBuf::from(OsString::from_vec(fields.next()?.to_vec()));
        Some(Self { controllers, path })
    }
}

/// A mounted hierarchy.
struct Mount {
    version: Version,
    /// The group that is mounted.
    root: PathBuf,
    /// Where it is mounted.
    point: PathBuf,
    /// Super block options, among which v1 names its controllers.
    options: String,
}

impl Mount {
    /// `ID PARENT DEV ROOT POINT OPTIONS [TAG…] - TYPE SOURCE SUPER`, see proc(5).
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|&byte| byte == b' ');
        let root = mounts::unescape(fields.nth(3)?);
        let point = mounts::unescape(fields.next()?);
        let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
        let version = match fields.next()? {
            b"cgroup" => Version::V1,
            b"cgroup2" => Version::V2,
            _ => return None,
        };
        let options = fields.nth(1).unwrap_or_default();
        Some(Self { version, root, point, options: String::from_utf8_lossy(options).into_owned() })
    }

    fn has(&self, controller: &str) -> bool {
        self.options.split(',').any(|option| option == controller)
    }

    /// The directory of a group. A group outside the mounted part (in a container with the host's
    /// `/proc/self/cgroup`) gets the mounted group's directory: this is the nearest visible group.
    fn directory(&self, group: &Path) -> PathBuf {
        match group.strip_prefix(&self.root) {
            Ok(rest) if rest.as_os_str().is_empty() => self.point.clone(),
            Ok(rest) => self.point.join(rest),
            Err(_) => self.point.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn facts(cgroup: &str, mountinfo: &str, tree: &[(&str, &str)]) -> (tempfile::TempDir, Cgroups) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_str().unwrap();
        for (path, content) in tree {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        fs::write(dir.path().join("cgroup"), cgroup).unwrap();
        fs::write(dir.path().join("mountinfo"), mountinfo.replace("ROOT", root)).unwrap();
        let cgroups = Cgroups::read(dir.path()).unwrap();
        (dir, cgroups)
    }

    #[test]
    fn unified() {
        let (dir, cgroups) = facts(
            "0::/user.slice/a b\n",
            "30 23 0:26 / ROOT/fs\\040cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
            &[
                ("fs cgroup/user.slice/a b/cgroup.controllers", "cpu memory io\n"),
                ("fs cgroup/user.slice/a b/cgroup.subtree_control", "memory\n"),
                ("fs cgroup/user.slice/a b/cgroup.procs", ""),
            ],
        );
        assert_eq!(cgroups.hierarchy, Hierarchy::Unified);
        let own = dir.path().join("fs cgroup/user.slice/a b");
        assert_eq!(cgroups.unified.as_ref(), Some(&own));
        let memory = cgroups.controller("memory").unwrap();
        assert!(memory.usable);
        assert_eq!((&memory.own, &memory.parent), (&own, &own));
        assert!(!cgroups.controller("cpu").unwrap().usable);
        assert!(cgroups.controller("pids").is_none());
    }

    /// As with systemd: processes are in groups that give no controllers to children.
    #[test]
    fn a_group_with_processes_has_others_beside_it() {
        let tree = [
            ("cg/app.slice/x.scope/cgroup.controllers", "memory pids\n"),
            ("cg/app.slice/x.scope/cgroup.subtree_control", "\n"),
            ("cg/app.slice/x.scope/cgroup.procs", ""),
            ("cg/app.slice/cgroup.subtree_control", "memory pids\n"),
            ("cg/app.slice/cgroup.procs", ""),
        ];
        let mount = "30 23 0:26 / ROOT/cg rw - cgroup2 cgroup2 rw\n";
        let (dir, cgroups) = facts("0::/app.slice/x.scope\n", mount, &tree);
        let memory = cgroups.controller("memory").unwrap();
        assert!(memory.usable);
        assert_eq!(memory.own, dir.path().join("cg/app.slice/x.scope"));
        assert_eq!(memory.parent, dir.path().join("cg/app.slice"));
        assert!(!cgroups.controllers.iter().any(|controller| controller.name == "cpu"));

        // The groups above the mount aren't visible.
        let mount = "30 23 0:26 /app.slice/x.scope ROOT/cg/app.slice/x.scope rw - cgroup2 cgroup2 rw\n";
        let (_dir, cgroups) = facts("0::/app.slice/x.scope\n", mount, &tree);
        assert!(!cgroups.controller("memory").unwrap().usable);
    }

    #[test]
    fn hybrid_with_controllers_on_v1() {
        let (dir, cgroups) = facts(
            "9:name=systemd:/\n8:pids:/\n4:memory:/box/x\n1:cpu,cpuacct:/outside\n0::/\n",
            "1 0 0:1 / ROOT/memory rw - cgroup cgroup rw,memory\n\
             2 0 0:2 / ROOT/pids rw - cgroup cgroup rw,pids\n\
             3 0 0:3 /mounted ROOT/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
             4 0 0:4 / ROOT/unified rw - cgroup2 cgroup2 rw\n",
            &[("memory/box/x/tasks", ""), ("cpu/tasks", ""), ("unified/cgroup.controllers", "")],
        );
        assert_eq!(cgroups.hierarchy, Hierarchy::Hybrid);
        let memory = cgroups.controller("memory").unwrap();
        assert_eq!(memory.version, Version::V1);
        assert_eq!(memory.parent, dir.path().join("memory/box/x"));
        assert!(memory.usable);
        let pids = cgroups.controller("pids").unwrap();
        assert!(!pids.usable, "the directory isn't there");
        assert_eq!(cgroups.controller("cpu").unwrap().own, dir.path().join("cpu"));
    }

    #[test]
    fn none_and_legacy() {
        let (_dir, cgroups) = facts("", "1 0 0:1 / /proc rw - proc proc rw\n", &[]);
        assert_eq!(cgroups.hierarchy, Hierarchy::None);
        let (_dir, cgroups) = facts("1:cpu:/\n", "1 0 0:1 / /x rw - cgroup cgroup rw,cpu\n", &[]);
        assert_eq!(cgroups.hierarchy, Hierarchy::Legacy);
        assert!(cgroups.unified.is_none());
    }

    #[test]
    fn this_host() {
        Cgroups::read(Path::new("/proc/self")).unwrap();
    }
}
