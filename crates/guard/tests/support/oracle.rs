// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the real fapolicyd, with real opens and execs.
//!
//! It runs permissive in separate mount and process namespaces, in a root made for it. `/usr` is this machine's. `/lib`
//! and `/mnt/w` have a type of file system that nothing else here has (ramfs), and fapolicyd watches only these. `/lib`
//! is a directory, not a symbolic link, so that the run-time linker is where fapolicyd expects it. When the shell that
//! is the namespace's first process ends, or is killed, the kernel ends all the others.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::observed::Observed;

/// The path of the files for the watched processes.
pub(crate) const WATCHED: &str = "/mnt/w";

/// Every field that it can log, except `dir`, which is `path` again.
pub(crate) const FORMAT: &str =
    "rule,dec,perm,auid,uid,gid,sessionid,pid,ppid,trust,comm,exe,:,path,device,ftype,trust,sha256hash";

const BOUND: Duration = Duration::from_secs(55);

/// The input of one run.
pub(crate) struct Oracle {
    /// Files to be watched, relative to [`WATCHED`].
    stage: tempfile::TempDir,
    trusted: Vec<String>,
}

impl Oracle {
    pub(crate) fn new() -> Self {
        Self { stage: tempfile::tempdir().expect("a directory"), trusted: Vec::new() }
    }

    /// Puts a file at this place below [`WATCHED`].
    pub(crate) fn file(&self, name: impl AsRef<OsStr>, content: &[u8], mode: u32) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.files().join(name.as_ref());
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(&path, content).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    }

    /// Adds a path to the trust database.
    pub(crate) fn trust(&mut self, path: &str) {
        self.trusted.push(path.to_owned());
    }

    fn files(&self) -> PathBuf {
        self.stage.path().join("files")
    }

    /// The path outside of a file of the watched side, to read it.
    pub(crate) fn here(&self, path: &[u8]) -> PathBuf {
        match path.strip_prefix(b"/mnt/w/") {
            Some(rest) => self.files().join(OsStr::from_bytes(rest)),
            None => PathBuf::from(OsStr::from_bytes(path)),
        }
    }

    /// Runs the commands (a shell's, as root, in the made root) while fapolicyd decides by the rules, and returns
    /// what it decided, in order, and how many lines were too long for its log.
    pub(crate) fn observe(&self, rules: &str, commands: &str) -> (Vec<Observed>, usize) {
        let stage = self.stage.path();
        let write = |name: &str, text: &str| std::fs::write(stage.join(name), text).expect("a file");
        write("rules", rules);
        write("trusted", &(self.trusted.join("\n") + "\n"));
        write("commands", commands);
        write("outer", OUTER);
        write("inner", INNER);
        write(
            "conf",
            &format!(
                "permissive = 1\nnice_val = 0\nq_size = 4096\nuid = 0\ngid = 0\ndo_stat_report = 0\n\
                 detailed_report = 0\nwatch_fs = ramfs\ntrust = file\nintegrity = none\nsyslog_format = {FORMAT}\n"
            ),
        );
        run(stage);
        let log = std::fs::read(stage.join("log")).expect("fapolicyd's log");
        let lines: Vec<&[u8]> =
            log.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"rule=")).collect();
        let mut elves = HashMap::new();
        let mut seen = HashMap::new();
        let read: Vec<Observed> = lines
            .iter()
            .filter_map(|line| Observed::read(line, |path| self.here(path), &mut elves, &mut seen))
            .collect();
        let cut = lines.len() - read.len();
        (read, cut)
    }
}

/// Runs the outer script in namespaces, and ends all of it if it takes too long.
fn run(stage: &Path) {
    let output = std::fs::File::create(stage.join("output")).expect("a file");
    let mut child = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
        ])
        .arg(stage.join("outer"))
        .arg(stage)
        .stdin(Stdio::null())
        .stdout(output.try_clone().expect("a descriptor"))
        .stderr(output)
        .spawn()
        .expect("unshare of util-linux");
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break Some(status);
        }
        if start.elapsed() > BOUND {
            child.kill().expect("a child");
            child.wait().expect("a child");
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut said = std::fs::read_to_string(stage.join("output")).unwrap_or_default();
    let log = std::fs::read(stage.join("log")).unwrap_or_default();
    said += &String::from_utf8_lossy(&log[log.len().saturating_sub(2_000)..]);
    assert!(
        status.is_some_and(|status| status.success()),
        "the run failed or took too long: {status:?}\n{said}"
    );
}

/// Makes the root, and changes to it. `$1` is the stage.
const OUTER: &str = r#"
set -e
stage=$1
root=$stage/root
mkdir $root
mount -t tmpfs none $root
cd $root
mkdir usr etc proc dev run run/fapolicyd var var/lib var/lib/fapolicyd tmp mnt mnt/w lib lib64
chmod 755 . && chmod 1777 tmp
mount --bind /usr usr
mount --bind /dev dev
mount --rbind /proc proc
ln -s usr/bin bin
ln -s usr/sbin sbin
mkdir etc/fapolicyd
cp /etc/passwd /etc/group /etc/ld.so.cache /etc/nsswitch.conf etc
cp $stage/conf etc/fapolicyd/fapolicyd.conf
cp $stage/rules etc/fapolicyd/compiled.rules
mount -t ramfs none lib
mount -t ramfs none mnt/w
chmod 755 lib mnt/w
mkdir lib/x86_64-linux-gnu
for name in ld-linux-x86-64.so.2 libc.so.6 libtinfo.so.6 libm.so.6; do
    cp -L /lib/x86_64-linux-gnu/$name lib/x86_64-linux-gnu/
done
ln -s /lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 lib64/ld-linux-x86-64.so.2
cp -a $stage/files/. mnt/w/
chmod 755 mnt/w
cp $stage/commands $stage/inner run/
while read -r path; do
    [ -n "$path" ] || continue
    set -- $(sha256sum "$root$path")
    echo "$path $(stat -c %s "$root$path") $1"
done <$stage/trusted >etc/fapolicyd/fapolicyd.trust
exec chroot $root /bin/sh /run/inner 3>$stage/log
"#;

/// Starts fapolicyd, runs the commands, ends it.
const INNER: &str = r#"
/usr/sbin/fapolicyd --debug --permissive --no-details 2>&3 3>&- &
daemon=$!
waited=0
until [ -e /run/fapolicyd.pid ] && [ $waited -gt 10 ]; do
    sleep 0.1
    waited=$((waited + 1))
    kill -0 $daemon 2>/dev/null || { echo fapolicyd ended; exit 1; }
    [ $waited -lt 100 ] || { echo fapolicyd does not start; kill -9 $daemon; exit 1; }
done
exec 3>&-
. /run/commands
sleep 0.3
kill $daemon
wait $daemon
"#;
