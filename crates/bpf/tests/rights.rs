// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests how far the scope of an ordinary user reaches: up to a program that has more rights than that user. Needs root.
#![expect(clippy::unwrap_used, reason = "a test")]

use crate::scope::{Waiting, programs, root, scope};
use palisade_bpf::scope::{Depth, Outcome, Scope, Verdict};
use rustix::fs::XattrFlags;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

const OWNER: u32 = 47_110;

/// With an argument: waits for a line, and executes the program of that name. Without: executes `/bin/true` in a child, and
/// again in a child that has dropped its additional rights; prints how each ended.
const HELPER: &str = r#"#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    int status; char byte;
    if (count > 1) { puts("ready"); fflush(stdout); read(0, &byte, 1); execl(words[1], words[1], (char *)0); return 1; }
    for (int back = 0; back < 2; back++) {
        if (fork() == 0) { if (back) setresuid(getuid(), getuid(), getuid()); execl("/bin/true", "true", (char *)0); _exit(1); }
        wait(&status);
        printf("%d\n", WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    }
}"#;

/// `struct vfs_cap_data`, revision 2, effective: `CAP_NET_RAW`.
const CAPABILITIES: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The helper as files that give other rights to the process that executes them.
fn make(directory: &Path) {
    std::fs::set_permissions(directory, PermissionsExt::from_mode(0o755)).unwrap();
    let at = |name: &str| directory.join(name);
    std::fs::write(at("helper.c"), HELPER).unwrap();
    let compiled = Command::new("gcc").args(["-w", "-o"]).args([at("helper"), at("helper.c")]).status();
    assert!(compiled.unwrap().success());
    for name in ["of-root", "of-nobody", "with-capabilities"] {
        std::fs::copy(at("helper"), at(name)).unwrap();
    }
    chown(at("of-nobody"), Some(65534), None).unwrap();
    for name in ["of-root", "of-nobody"] {
        std::fs::set_permissions(at(name), PermissionsExt::from_mode(0o4755)).unwrap();
    }
    let attribute = "security.capability";
    rustix::fs::setxattr(at("with-capabilities"), attribute, &CAPABILITIES, XattrFlags::empty()).unwrap();
}

/// The owner's scope may end a program of that kind at its exec, but not what the program executes.
#[test]
fn a_mark_ends_where_other_rights_begin() {
    if !root() {
        return;
    }
    let directory = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
    make(directory.path());
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let user = OWNER.to_string();
    // The marked process becomes the program: as the launch, or below it.
    let run = |depth, owner, name: &str, below| {
        let programs = programs(depth);
        let id = scope(&programs, Verdict::Watch);
        programs.open_scope(&Scope { id, verdict: Verdict::Kill, owner, ..Scope::default() }).unwrap();
        let words = ["--reuid", &user, "--regid", &user, "--clear-groups", &at("helper"), &at(name)];
        let waiting = Waiting::start("setpriv", &words);
        assert_eq!(programs.mark(waiting.pid(), id, below).unwrap(), Outcome::Done);
        waiting.go()
    };
    for depth in [Depth::Inherit, Depth::Ancestry(4)] {
        for (owner, name, wanted) in [
            (OWNER, "helper", "137\n137\n"),
            (OWNER, "of-root", "0\n0\n"),
            (OWNER, "of-nobody", "0\n0\n"),
            (OWNER, "with-capabilities", "0\n0\n"),
            // A scope of root may end every process.
            (0, "of-root", "137\n137\n"),
            (0, "with-capabilities", "137\n137\n"),
        ] {
            assert_eq!(run(depth, owner, name, false).1, wanted, "{depth:?}, {owner}: {name}");
            // `timeout` ends with the status of the program that it started.
            assert_eq!(run(depth, owner, name, true), (None, String::new()), "{depth:?}, {owner}: {name}");
        }
    }
}
