// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `packaging/palisaded.service`: the daemon works with the restrictions that the unit puts on it.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{Bed, Run, Settings, compile, has};
use palisade_syscall::{Arch, Syscall};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const UNIT: &str = include_str!("../../../packaging/palisaded.service");

fn value(key: &str) -> &'static str {
    UNIT.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap()
}

#[test]
fn the_guard_works_with_the_units_capabilities_alone() {
    if !has("fanotify") {
        return;
    }
    let names = value("CapabilityBoundingSet").split(' ').map(|name| name.to_ascii_lowercase());
    let bounds: String = names.map(|name| name.replace("cap_", ",+")).collect();
    assert_eq!(value("NoNewPrivileges"), "yes");
    let mut bed = Bed::new();
    for name in ["a", "refused"] {
        bed.copy("/bin/true", bed.at(name));
    }
    let bounds: &'static str = format!("--bounding-set=-all{bounds}").leak();
    bed.starter = vec!["setpriv", bounds, "--inh-caps=-all", "--no-new-privs", "--"];
    // The process without rights that reads what is trusted must start, too.
    let own = bed.at("a");
    bed.trust("10-own", &[&own]);
    bed.settings(&Settings::enforce());
    bed.rules("allow perm=any all : trust=1\ndeny_audit perm=any all : all\n");
    bed.start();
    bed.run("./a").ok();
    bed.run("./refused").refused();
    bed.run_as_user("./a").ok();
    bed.run_as_user("./refused").refused();
    let bounded = std::fs::read_to_string(format!("/proc/{}/status", bed.pid())).unwrap();
    let of = |key: &str| bounded.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().to_owned();
    assert_eq!((of("CapBnd:"), of("NoNewPrivs:")), (of("CapPrm:"), "1".to_owned()));
    assert!(!bed.log().contains("can't be dropped"), "{}", bed.log());
}

#[test]
fn systemd_finds_little_exposed() {
    let exposure = |text: &str| {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("palisaded.service");
        std::fs::write(&file, text).unwrap();
        let options = ["security", "--offline=true", "--no-pager"];
        let output = Command::new("systemd-analyze").args(options).arg(&file).output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let figure = said.split("Overall exposure level for palisaded.service: ").nth(1)?;
        figure.split(' ').next()?.parse::<f64>().ok()
    };
    let Some(found) = exposure(UNIT) else { return };
    assert!(found <= 4.0, "{found}");
    let without =
        exposure(&UNIT.replace("\nIPAddressDeny=any", "").replace("\nDevicePolicy=closed", "")).unwrap();
    assert!(without > found, "{without}");
}

/// The calls that the unit's filter refuses, by number. `None`: no program here knows systemd's groups of calls.
fn refused_calls() -> Option<Vec<String>> {
    let groups = value("SystemCallFilter").strip_prefix('~').unwrap().split(' ');
    let output = Command::new("systemd-analyze").arg("syscall-filter").args(groups).output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    // Groups within groups are also on the list, or are shown with their content.
    let names = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', '@']));
    let numbers = names.filter_map(|name| name.parse::<Syscall>().ok()?.number(Arch::NATIVE));
    Some(numbers.map(|number| number.to_string()).collect())
}

/// The devices of `DeviceAllow=`, and those that `DevicePolicy=closed` includes: TYPE:MAJOR:MINOR:ACCESS.
fn devices() -> Vec<String> {
    const STANDARD: [&str; 7] = ["2:1:3:7", "2:1:5:7", "2:1:7:7", "2:1:8:7", "2:1:9:7", "2:5:0:7", "2:5:2:7"];
    assert_eq!(value("DevicePolicy"), "closed");
    let known = std::fs::read_to_string("/proc/devices").unwrap();
    let mut devices: Vec<String> = STANDARD.map(str::to_owned).to_vec();
    for line in UNIT.lines().filter_map(|line| line.strip_prefix("DeviceAllow=")) {
        let (name, access) = line.split_once(' ').unwrap();
        let access: u32 = access.chars().map(|letter| 1 << "mrw".find(letter).unwrap()).sum();
        let Some(name) = name.strip_prefix("char-") else {
            assert_eq!(name, "block-*");
            devices.push(format!("1:-1:-1:{access}"));
            continue;
        };
        let named = |found: &str| match name.strip_suffix('*') {
            Some(start) => found.starts_with(start),
            None => found == name,
        };
        let characters =
            known.split("\n\n").next().unwrap().lines().filter_map(|line| line.trim().split_once(' '));
        for (major, _) in characters.filter(|(_, found)| named(found)) {
            devices.push(format!("2:{major}:-1:{access}"));
        }
    }
    devices
}

/// A control group, in the hierarchy that supports device programs.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        let top = mounts.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[2] == "cgroup2").then(|| PathBuf::from(words[1]))
        })?;
        let group = top.join(format!("palisade-unit-{}", std::process::id()));
        std::fs::create_dir(&group).ok()?;
        Some(Self(group))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

/// A guard without the devices and calls that the unit removes, and with the unit's umask.
fn taken() -> Option<(Group, Bed)> {
    if !has("fanotify") {
        return None;
    }
    let (calls, group) = (refused_calls()?, Group::new()?);
    assert!(calls.len() > 40, "{calls:?}");
    let mut bed = Bed::new();
    let starter = bed.base.join("taken");
    std::fs::write(&starter, compile(include_str!("support/taken.c"), &[])).unwrap();
    std::fs::set_permissions(&starter, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut words =
        vec!["sh".to_owned(), "-c".into(), format!("umask {}; exec \"$@\"", value("UMask")), "sh".into()];
    words.extend([starter.display().to_string(), group.0.display().to_string()]);
    words.extend(devices());
    words.push("--".into());
    words.extend(calls);
    words.push("--".into());
    bed.starter = words.into_iter().map(|word| &*word.leak()).collect();
    for name in ["a", "refused"] {
        bed.copy("/bin/true", bed.at(name));
    }
    let own = bed.at("a");
    bed.trust("10-own", &[&own]);
    // The process without rights reads this file.
    let apart = bed.base.join("apart");
    std::fs::create_dir(&apart).unwrap();
    std::fs::copy("/bin/true", apart.join("true")).unwrap();
    let directories = format!("directories = [\"{}\"]", apart.display());
    bed.settings(&Settings::enforce().trust(&directories).log("terminal = true"));
    bed.rules("allow perm=any all : trust=1\ndeny_audit perm=execute all : all\nallow perm=open all : all\n");
    bed.options.push("--ask-always");
    bed.start();
    Some((group, bed))
}

#[test]
fn the_guard_works_without_the_units_devices_and_calls() {
    // Drop the bed first, and the guard with it: then the group is empty.
    let Some((_group, mut bed)) = taken() else { return };
    bed.run("./a").ok();
    bed.run("./refused").refused();
    // The socket is accessible for every user, whatever the umask is.
    bed.run_as_user("./a").ok();
    bed.run_as_user("./refused").refused();
    let socket = std::fs::metadata(bed.socket()).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o666);
    let seen = bed.status();
    assert!(seen.enforcing && seen.alarms.is_empty(), "{seen:?}");
    assert!(bed.log().contains("2 files are trusted"), "{}", bed.log());
    let typescript = bed.base.join("typescript");
    let told = || std::fs::read_to_string(&typescript).unwrap_or_default();
    let line = format!(
        "script -qefc 'while [ ! -e heard ]; do ./refused; sleep 0.3; done' '{}'",
        typescript.display()
    );
    let mut session = bed.command(0, "60", &["/bin/sh", "-c", &format!("cd \"$BED\"; {line}")]);
    let mut session = session.stdout(Stdio::null()).spawn().unwrap();
    bed.wait("the terminal is told", |_| told().contains("palisade: refused to execute"));
    bed.write(bed.at("heard"), "");
    session.wait().unwrap();
    // If the kernel asks about devices, too, it opens them for the guard.
    open_disk(&bed).ok();
    bed.run("mknod null c 1 3; mknod kmsg c 1 11; : < null; exec 3< kmsg").ok();
    bed.stop();
}

/// Makes the node of a block device that can be opened without the guard, and opens it with the guard.
fn open_disk(bed: &Bed) -> Run {
    let node = bed.outside(bed.at("disk"));
    let disks = std::fs::read_dir("/sys/block").unwrap().map(|disk| disk.unwrap().path().join("dev"));
    let found = disks.map(|number| std::fs::read_to_string(number).unwrap()).find(|number| {
        let words: Vec<&str> = number.trim().split(':').collect();
        let made = Command::new("mknod").arg(&node).args(["b", words[0], words[1]]).status().unwrap();
        // A file outside of the bed's file system isn't asked about.
        let apart = bed.base.join("disk");
        let twin = Command::new("mknod").arg(&apart).args(["b", words[0], words[1]]).status().unwrap();
        let opens = std::fs::File::open(&apart).is_ok();
        std::fs::remove_file(apart).unwrap();
        if !opens {
            std::fs::remove_file(&node).unwrap();
        }
        made.success() && twin.success() && opens
    });
    assert!(found.is_some(), "no block device can be opened here");
    bed.run("exec 3< disk")
}

/// systemd ignores settings that it doesn't know, and reports that only in its journal.
#[test]
fn systemd_knows_every_line() {
    let checked = |text: &str| {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("palisaded.service");
        std::fs::write(&file, text.replace("/usr/sbin/palisaded", "/bin/true")).unwrap();
        let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output().ok()?;
        Some(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let Some(said) = checked(UNIT) else { return };
    assert!(!said.contains("palisaded.service"), "{said}");
    let said = checked(&UNIT.replace("RestrictRealtime", "RestrictRealtimes")).unwrap();
    assert!(said.contains("RestrictRealtimes"), "{said}");
}
