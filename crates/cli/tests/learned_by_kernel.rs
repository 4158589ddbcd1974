// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that palisaded, for which the kernel records system calls, learns the same calls as a broker.
//!
//! The daemon uses its usual paths, in a mount namespace of the test. The test needs root, which starts the daemon. The
//! commands run as root and as an ordinary user.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PYTHON: &str = "\
import os, subprocess, threading
def work(): print(os.getpriority(os.PRIO_PROCESS, 0))
one = threading.Thread(target=work); one.start(); one.join()
if os.fork() == 0: os.execv('/usr/bin/nice', ['nice', '-n', '1', 'true'])
os.wait()
subprocess.run(['sync', '-f', '.'])";

/// Threads and a child that make calls that nothing else in the program makes.
const C: &str = r#"
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void *work(void *unused) { struct timespec t; sched_rr_get_interval(0, &t); return unused; }
int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, 0, work, 0) || pthread_join(thread, 0)) return 1;
    pid_t child = fork();
    if (!child) _exit(getpriority(PRIO_PROCESS, 0) < -20);
    int status;
    return waitpid(child, &status, 0) != child || status;
}
"#;

/// Runs a command twice, with the daemon and without, each with its own state. The learned calls are written to
/// `kernel.json` and `broker.json`.
const SCRIPT: &str = r#"
set -e
mount -t tmpfs none /run
mkdir /run/palisade
"$PALISADED" --only scopes --config "$BASE/config" --state "$BASE/daemon" --socket /run/palisade/guard.sock \
    --scope-pins "$BASE/pins" --other-calls kill 2>"$BASE/log" &
daemon=$!
trap 'kill $daemon 2>/dev/null || true' EXIT
tries=0
until [ -S /run/palisade/learn.sock ]; do
    tries=$((tries + 1))
    [ $tries -lt 600 ]
    sleep 0.05
done
learn() {
    export XDG_STATE_HOME="$BASE/home/$1" XDG_CACHE_HOME="$BASE/home/$1-cache"
    name=$1
    shift
    cd "$BASE/home/work"
    $AS "$BASE/palisade" run --dry-run --syscalls learn -- "$@" >"$BASE/$name.plan"
    $AS "$BASE/palisade" run --quiet --syscalls learn --ro "$BASE" -- "$@" >"$BASE/$name.out"
    $AS "$BASE/palisade" syscalls show "$1" --json >"$BASE/$name.json"
}
learn kernel "$@"
kill $daemon
wait $daemon || true
[ ! -e /run/palisade/learn.sock ]
learn broker "$@"
"#;

/// The daemon that was built beside the command line, or is now.
fn palisaded() -> PathBuf {
    palisade_acceptance::programs::palisaded(Path::new(env!("CARGO_BIN_EXE_palisade")))
}

/// Calls by program.
fn calls(file: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let shown: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let binaries = shown["binaries"].as_array().unwrap().iter();
    binaries
        .map(|one| (text(&one["path"]), one["calls"].as_array().unwrap().iter().map(text).collect()))
        .collect()
}

fn compare(uid: u32, command: impl Fn(&Path) -> Vec<String>, wanted: &[&str]) {
    let base = tempfile::Builder::new().prefix("palisade-learn-").tempdir_in("/var/tmp").unwrap();
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    open(base.path(), 0o755);
    for directory in ["config", "daemon", "pins", "home", "home/work"] {
        fs::create_dir(base.path().join(directory)).unwrap();
        rustix::fs::chown(
            base.path().join(directory),
            directory.starts_with("home").then(|| rustix::fs::Uid::from_raw(uid)),
            None,
        )
        .unwrap();
    }
    fs::write(base.path().join("config/scopes.toml"), "schema = 1\n").unwrap();
    fs::copy(env!("CARGO_BIN_EXE_palisade"), base.path().join("palisade")).unwrap();
    open(&base.path().join("palisade"), 0o755);
    let mut script = Command::new("timeout");
    script.args([
        "-k",
        "1",
        "120",
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        SCRIPT,
        "sh",
    ]);
    script.args(command(base.path())).env("BASE", base.path()).env("PALISADED", palisaded());
    let user = format!("setpriv --reuid={uid} --regid={uid} --clear-groups --");
    script.env("AS", if uid == 0 { "" } else { &user });
    script.env("HOME", base.path().join("home")).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let output = script.stdin(Stdio::null()).output().unwrap();
    let log = fs::read_to_string(base.path().join("log")).unwrap_or_default();
    assert!(output.status.success(), "{output:?}\n{log}");
    let read = |name: &str| fs::read_to_string(base.path().join(name)).unwrap();
    assert!(read("kernel.plan").contains("made, and recorded by the kernel"), "{}", read("kernel.plan"));
    assert!(read("broker.plan").contains("made, and recorded"), "{}", read("broker.plan"));
    assert_eq!(read("kernel.out"), read("broker.out"));
    let (kernel, broker) = (calls(&base.path().join("kernel.json")), calls(&base.path().join("broker.json")));
    assert_eq!(kernel, broker);
    let all: BTreeSet<&String> = kernel.values().flatten().collect();
    for call in wanted {
        assert!(all.iter().any(|known| known == call), "{call}: {kernel:?}");
    }
}

fn users() -> Vec<u32> {
    if rustix::process::geteuid().is_root() {
        return vec![0, 47_212];
    }
    eprintln!("not tried: palisaded is root's");
    Vec::new()
}

#[test]
fn of_python_with_threads_and_children_the_same_is_learned() {
    for uid in users() {
        let command = |_: &Path| ["/usr/bin/python3", "-c", PYTHON].map(str::to_owned).to_vec();
        compare(uid, command, &["getpriority", "setpriority", "syncfs", "wait4"]);
    }
}

#[test]
fn of_a_program_in_c_the_same_is_learned() {
    for uid in users() {
        let command = |base: &Path| {
            let (source, program) = (base.join("program.c"), base.join("program"));
            fs::write(&source, C).unwrap();
            let compiled = Command::new("cc").arg("-pthread").arg(&source).arg("-o").arg(&program).status();
            assert!(compiled.unwrap().success());
            vec![program.to_str().unwrap().to_owned()]
        };
        compare(uid, command, &["getpriority", "sched_rr_get_interval", "wait4"]);
    }
}
