// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The mishaps that can happen around a guard: memory runs out, or a disk or an automounter doesn't answer.

use super::Scene;
use super::kinds::{Mishap, QUIET, begin_again};
use crate::confinement::child;
use crate::libmagic::{asked, nursery};
use crate::stopped::{signal, standby};
use crate::support::{Bed, ORDINARY, has};
use palisade_acceptance::patience::Patience;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(super) const ALL: &[Mishap] = &[
    Mishap {
        name: "memory runs out",
        act: run_out_of_memory,
        opens: true,
        needs: &["cgroup-limits"],
        ..QUIET
    },
    Mishap {
        name: "a disk doesn't answer",
        act: |scene| {
            let disk = Disk::new(&scene.bed);
            signal("-STOP", disk.server());
            // More readers than the guard has threads, of root and of two other users.
            let readers: Vec<_> = (0..FILES)
                .map(|number| disk.open(&scene.bed, [0, ORDINARY, ORDINARY + 1][number % 3], number))
                .collect();
            std::thread::sleep(scene.stopped);
            signal("-CONT", disk.server());
            for reader in readers {
                assert!(reader.wait_with_output().unwrap().status.success());
            }
            disk.remove(&scene.bed);
        },
        needs: &["fuse", "loop"],
        ..QUIET
    },
    Mishap {
        name: "the process that asks libmagic is killed",
        act: |scene| lose_nursery(scene, "-KILL"),
        said: Some("alarm: the libmagic process has ended"),
        ..QUIET
    },
    Mishap {
        name: "the process that asks libmagic is stopped",
        act: |scene| lose_nursery(scene, "-STOP"),
        said: Some("alarm: the libmagic process has ended"),
        ..QUIET
    },
    Mishap {
        name: "an automounter doesn't answer",
        act: mount_meanwhile,
        needs: &["autofs", "python3"],
        ..QUIET
    },
];

/// The nursery gets a signal while files are opened that need libmagic, and another nursery replaces it.
fn lose_nursery(scene: &mut Scene, name: &str) {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let bed = &scene.bed;
    let ask = || {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let file = bed.write(bed.at(&format!("text/{number}")), "from os import getpid\nprint(getpid())\n");
        bed.run_as_user(&format!("cat {}", file.display()))
    };
    ask().refused();
    let before = nursery(bed);
    asked(before).into_iter().for_each(|pid| signal("-KILL", pid));
    signal(name, before);
    // palisaded knows this kind without libmagic.
    ask().refused();
    // A thread that asks detects a stopped process, but it may have asked a dying child instead.
    bed.wait("another one", |bed| {
        ask().refused();
        child(bed.pid(), "--tell-kinds").is_some_and(|pid| pid != before)
    });
    nursery(bed);
}

const LIMIT: [&str; 2] = ["memory.limit_in_bytes", "memory.max"];
const SWAP: [&str; 2] = ["memory.memsw.limit_in_bytes", "memory.swap.max"];

/// A control group that contains only a guard and its standby.
pub(super) struct MemoryGroup {
    directory: PathBuf,
    /// Whether it is of version 2: the file names depend on it.
    is_second: bool,
}

impl MemoryGroup {
    pub(super) fn new() -> Option<Self> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        if !has("cgroup-limits") {
            return None;
        }
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        let fields = || mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let first =
            fields().find(|mount| mount[2] == "cgroup" && mount[3].split(',').any(|word| word == "memory"));
        let is_second = first.is_none();
        let top = first.or_else(|| fields().find(|mount| mount[2] == "cgroup2"))?;
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let directory =
            PathBuf::from(top[1]).join(format!("palisade-mishaps-{}-{number}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        Some(Self { directory, is_second })
    }

    /// A command that moves itself into the group before it executes another command.
    pub(super) fn starter(&self) -> Vec<&'static str> {
        let script = format!("echo $$ >{}/cgroup.procs && exec \"$@\"", self.directory.display());
        vec!["/bin/sh", "-c", script.leak(), "sh"]
    }

    fn file(&self, names: [&str; 2]) -> PathBuf {
        self.directory.join(names[usize::from(self.is_second)])
    }

    /// Sets the limit to the memory that is used now without caches, and allows no swap.
    fn close(&self) {
        let used = std::fs::read_to_string(self.file(["memory.usage_in_bytes", "memory.current"])).unwrap();
        let (before, mut most): (u64, u64) = (self.killed(), used.trim().parse().unwrap());
        let _has_no_swap = self.is_second.then(|| std::fs::write(self.file(SWAP), "0"));
        // Version 1 refuses a limit below the use after the caches are dropped; version 2 ends a process.
        while self.killed() == before && std::fs::write(self.file(LIMIT), most.to_string()).is_ok() {
            most -= 1 << 18;
        }
        let limit = std::fs::read_to_string(self.file(LIMIT)).unwrap();
        let _has_no_swap = (!self.is_second).then(|| std::fs::write(self.file(SWAP), limit.trim()));
    }

    /// Removes the limit.
    fn open(&self) {
        let most = ["-1", "max"][usize::from(self.is_second)];
        // The limit of memory and swap together can't be below the limit of memory.
        let _has_no_swap = std::fs::write(self.file(SWAP), most);
        std::fs::write(self.file(LIMIT), most).unwrap();
    }

    /// How many processes in it were ended because memory ran out.
    fn killed(&self) -> u64 {
        let text = std::fs::read_to_string(self.file(["memory.oom_control", "memory.events"])).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.map_or(0, |count| count.trim().parse().unwrap())
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Its processes have been reaped, but the kernel may take a moment to see the group empty.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// No more memory is available than is in use, and the guard reads settings that are larger than before.
fn run_out_of_memory(scene: &mut Scene) {
    let pids = [scene.bed.pid(), standby(&scene.bed).unwrap()];
    let memory = scene.memory.as_ref().unwrap();
    let before = memory.killed();
    let more = scene.bed.config("guard.d/60-more.rules");
    let line = |number: u32| format!("deny perm=any all : path=/of/nobody/{number}\n");
    scene.bed.write(&more, (0..200_000).map(line).collect::<String>());
    memory.close();
    let mut patience = Patience::new(Duration::from_secs(10));
    while memory.killed() == before && !patience.is_spent() {
        if scene.bed.guard_lives() {
            scene.bed.signal("-HUP");
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    let killed = memory.killed() - before;
    memory.open();
    std::fs::remove_file(scene.bed.outside(more)).unwrap();
    assert_ne!(killed, 0, "it was more than there is");
    let is_gone = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z"))
    };
    // The guard uses more memory than the standby.
    assert!(is_gone(&pids[0]), "the guard wasn't ended");
    begin_again(scene);
}

/// How many files are on a disk.
const FILES: usize = 18;

/// A file system in a file that a process serves.
struct Disk {
    served: Child,
}

impl Disk {
    fn new(bed: &Bed) -> Self {
        bed.run(
            "mkdir ../served ../mirror disk && truncate -s 32M ../served/image && mkfs.ext4 -q -F ../served/image && \
             mkdir ../made && mount -o loop ../served/image ../made && for n in $(seq 0 17); do echo $n >../made/$n; done && umount ../made",
        )
        .ok();
        let [from, to] = ["served", "mirror"].map(|name| bed.base.join(name).display().to_string());
        // The server ends in any case, and the processes that wait for it get an error.
        let served = bed.command(0, "60", &["bindfs", "-f", &from, &to]).spawn().unwrap();
        bed.wait("the image is served", |bed| bed.run("[ -e ../mirror/image ]").worked());
        bed.run("mount -t ext4 -o loop,ro,noload ../mirror/image disk").ok();
        let point = format!("{}/disk", bed.point.display());
        bed.wait("the disk is watched", |bed| bed.status().watched.contains(&point));
        // The kernel now has the files' inodes in its cache, but not their content.
        bed.run("ls -l disk && dd if=../mirror/image iflag=nocache count=0 status=none").ok();
        Self { served }
    }

    /// The process that serves the image: the child of `timeout`, which limits its life.
    fn server(&self) -> u32 {
        let pid = self.served.id();
        let below = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        below.trim().parse().unwrap()
    }

    /// A process that opens a file of the disk, and waits.
    fn open(&self, bed: &Bed, user: u32, number: usize) -> Child {
        let path = format!("{}/disk/{number}", bed.point.display());
        bed.command(user, "60", &["cat", &path]).stdout(Stdio::null()).spawn().unwrap()
    }

    fn remove(mut self, bed: &Bed) {
        bed.run("umount disk && umount ../mirror && rmdir disk ../mirror ../made && rm -r ../served").ok();
        self.served.wait().unwrap();
    }
}

/// Doesn't answer until its standard input ends. Then it tells the kernel that it won't answer any more
/// (`AUTOFS_IOC_CATATONIC`).
const AUTOMOUNTER: &str = r#"
import fcntl, os, subprocess, sys
os.chdir(os.environ["BED"])
asked, ask = os.pipe()
options = f"fd={ask},pgrp={os.getpgrp()},minproto=5,maxproto=5,direct"
os.mkdir("auto")
subprocess.run(["mount", "-i", "-t", "autofs", "-o", options, "automounter", "auto"], check=True, pass_fds=[ask])
top = os.open("auto", os.O_RDONLY)
print("ready", flush=True)
sys.stdin.read()
fcntl.ioctl(top, 0x9362)"#;

/// A process waits for an automounter while another file system is mounted: that file system is watched.
fn mount_meanwhile(scene: &mut Scene) {
    let bed = &scene.bed;
    let mut automounter = bed
        .command(0, "60", &["/usr/bin/python3", "-c", AUTOMOUNTER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(automounter.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let auto = format!("{}/auto", bed.point.display());
    let mut waiting = bed.command(0, "60", &["ls", &auto]);
    let mut waiting = waiting.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(waiting.try_wait().unwrap().is_none(), "it waits for the automounter");
    bed.run("mkdir more && mount -t tmpfs more more && cp untrusted more/untrusted").ok();
    bed.wait("what is mounted meanwhile is watched", |bed| bed.run("more/untrusted").code == Some(126));
    std::thread::sleep(scene.stopped);
    drop(automounter.stdin.take());
    assert!(automounter.wait().unwrap().success());
    waiting.wait().unwrap();
    bed.run("umount more && umount auto && rmdir auto more").ok();
}
