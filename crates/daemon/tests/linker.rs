// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `pattern=ld_so`, with which rules from fapolicyd begin: a program that was started by the run-time linker.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{Bed, Settings, compile, has};

const RULES: &str = "deny_log perm=any pattern=ld_so : all\nallow perm=any all : all\n";

/// Executes its second argument in one of several ways. Each makes it look as if the kernel had opened the run-time linker
/// for a program, which is the first argument.
const EVASION: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
static char *program;
static int gate[2];
static void *executes(void *unused) {
    static char large[1 << 17];
    static char *words[64];
    memset(large, 'x', sizeof large - 1);
    for (int i = 0; i < 63; i++)
        words[i] = large;
    // It has been asked about when the words are copied; that takes a while.
    syscall(SYS_execve, program, words, 0);
    return 0;
}
int main(int count, char **v) {
    char *words[] = {v[3], "/usr/bin/true", 0};
    program = v[2];
    if (!strcmp(v[1], "words that aren't there")) {
        if (syscall(SYS_execve, program, (char **)1, 0) != -1 || errno != EFAULT)
            return 3;
    } else if (!strcmp(v[1], "too many words")) {
        struct rlimit small = {1 << 16, 1 << 16};
        setrlimit(RLIMIT_STACK, &small);
        executes(0);
        if (errno != E2BIG)
            return 4;
    } else if (!strcmp(v[1], "another thread")) {
        pthread_t thread;
        pthread_create(&thread, 0, executes, 0);
        usleep(atoi(v[4]));
    }
    execv(v[3], words);
    return 5;
}"#;

fn host() -> Option<Bed> {
    if !["fanotify", "gcc"].into_iter().all(has) {
        return None;
    }
    let mut bed = Bed::host();
    bed.settings(&Settings { trust: "sources = []".into(), ..Settings::enforce() });
    bed.rules(RULES);
    bed.program("/root/evade", compile(EVASION, &["-static", "-pthread"]));
    bed.program("/root/script", "#!/bin/sh\n/usr/bin/true\n");
    bed.start();
    Some(bed)
}

/// The run-time linker of this host's programs.
fn linker() -> String {
    let found = std::fs::canonicalize("/lib64/ld-linux-x86-64.so.2")
        .or_else(|_| std::fs::canonicalize("/lib/ld-linux-aarch64.so.1"));
    found.unwrap().to_str().unwrap().to_owned()
}

#[test]
fn no_exec_before_hides_the_linker() {
    let Some(mut bed) = host() else { return };
    let linker = linker();
    bed.run("/usr/bin/true").ok();
    assert!(!bed.run(&format!("{linker} /usr/bin/true")).worked());
    for way in ["nothing", "words that aren't there", "too many words"] {
        let run = bed.run(&format!("/root/evade \"{way}\" /usr/bin/true {linker}"));
        assert!(!run.worked(), "{way}: {run:?}");
        assert!(![Some(3), Some(4)].contains(&run.code), "{way}: {run:?}");
    }
    // The other thread's exec fails in the end: it has too many words. The guard waits for no linker at scripts.
    for program in ["/usr/bin/true", "/root/script"] {
        for pause in [0, 20, 50, 100, 200, 500, 1000, 2000] {
            let run = bed.run(&format!("/root/evade \"another thread\" {program} {linker} {pause}"));
            assert!(!run.worked(), "{program} {pause}: {run:?}");
        }
    }
    // A file that any program opens isn't an open by the linker.
    bed.run("cat /etc/passwd && /root/script").ok();
    // Preloading a file that the linker may open doesn't help either: the program itself isn't such a file.
    let run = bed.run(&format!("{linker} --preload /usr/lib/x86_64-linux-gnu/libc.so.6 /usr/bin/true"));
    assert!(!run.worked(), "{run:?}");
    let said = bed.log();
    assert!(said.contains(&format!("exe={linker} : path=/usr/bin/true")), "{said}");
    bed.stop();
}

/// In an own namespace a user may mount an overlay over the linker's directory. The linker is another file there, and the
/// kernel doesn't ask about it.
#[test]
fn no_overlay_of_a_users_hides_the_linker() {
    let Some(mut bed) = host() else { return };
    let linker = linker();
    let (directory, name) = linker.rsplit_once('/').unwrap();
    let script = format!(
        "mkdir -p /tmp/u/up /tmp/u/work /tmp/u/at && mount -t tmpfs tmpfs /tmp/u && mkdir /tmp/u/up /tmp/u/work /tmp/u/at && \
         mount -t overlay overlay -o lowerdir={directory},upperdir=/tmp/u/up,workdir=/tmp/u/work,userxattr /tmp/u/at && \
         echo mounted && /tmp/u/at/{name} /usr/bin/true && echo through"
    );
    bed.run("mkdir -m 777 /tmp/u && chmod 755 /root").ok();
    let inside = format!("unshare -Urm /bin/sh -c '{script}'");
    let run = bed.run_as_user(&inside);
    if !run.out.contains("mounted") {
        return crate::support::lines::tell(&format!(
            "not tried: no overlay in a user namespace here: {run:?}"
        ));
    }
    assert!(!run.out.contains("through"), "{run:?}");
    bed.stop();
}

/// Only the linker's opens must be seen. So the kernel asks about the open of a program, and not about its exec or the
/// linker's.
#[test]
fn an_exec_is_asked_about_once() {
    const TIMES: u64 = 50;
    let Some(mut bed) = host() else { return };
    let times = |count| format!("n=0; while [ $n -lt {count} ]; do /usr/bin/true; n=$((n+1)); done");
    bed.run(&times(5)).ok();
    let of = |count: u64| {
        let before = bed.metrics().questions;
        bed.run(&times(count)).ok();
        bed.metrics().questions - before
    };
    // The questions for starting the shell are in both counts.
    let [few, many] = [1, 1 + TIMES].map(of);
    let more = many - few;
    assert!((TIMES..TIMES + 10).contains(&more), "{more} questions for {TIMES} execs");
    bed.stop();
}
