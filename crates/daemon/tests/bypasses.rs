// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests ways around a guard with the default policy, in pairs: each works without a guard. Most are refused. Those that
//! fanotify can't refuse are known, and the table says so. `docs/guard-bypasses.md` is made from the table.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::lines::tell;
use crate::support::{self, Bed, compile, has, host};
use palisade_protocol::guard::Status;
use std::fmt::Write;
use std::path::Path;

/// The expected outcome.
enum Fate {
    Refused,
    /// It still works; the reason, what closes it, and the words by which `palisade guard status` names it.
    Known(&'static str, &'static str, &'static str),
}

use Fate::{Known, Refused};

struct Way {
    /// A description of what is done.
    name: &'static str,
    /// Run by an ordinary user in an own directory; prints `ran` if it worked.
    script: &'static str,
    fate: Fate,
}

const fn refused(name: &'static str, script: &'static str) -> Way {
    Way { name, script, fate: Refused }
}

const IN_MEMORY: &str = "programs in memory (memfd_create) can be executed";
const NAMESPACE: &str = "a tmpfs that a user mounts in a user namespace isn't watched";
const SERVED: &str = "file systems that a process serves";
const TOLD: &str = "code on a trusted interpreter's command line";
const UNMARKED: &str = "text files without a mark of a program";

/// `ran` is an untrusted program that prints `ran`. `library.so` prints it when it is loaded. `launch` is trusted, and
/// makes system calls that a shell can't make.
const WAYS: &[Way] = &[
    refused("an untrusted program", "./ran"),
    refused("an untrusted program in a new user and mount namespace", "unshare -Urm ./ran"),
    refused(
        "an untrusted program as an argument of the run-time linker",
        "/lib64/ld-linux-x86-64.so.2 ./ran",
    ),
    refused("the same in a user namespace", "unshare -Urm /lib64/ld-linux-x86-64.so.2 ./ran"),
    refused("an untrusted library by LD_PRELOAD", "LD_PRELOAD=$PWD/library.so /bin/true"),
    refused("an untrusted library by LD_AUDIT", "LD_AUDIT=$PWD/library.so /bin/true"),
    refused(
        "an untrusted library by LD_LIBRARY_PATH",
        "mkdir l; ln library.so l/libselinux.so.1; LD_LIBRARY_PATH=$PWD/l /bin/ls / && echo",
    ),
    refused(
        "an untrusted library by dlopen()",
        "/usr/bin/python3 -c 'import ctypes; ctypes.CDLL(\"./library.so\")'",
    ),
    refused(
        "an untrusted library as a module of an interpreter",
        "perl -e 'require DynaLoader; DynaLoader::dl_load_file(\"./library.so\", 1) or die DynaLoader::dl_error()'",
    ),
    refused("a Python script with #!", "./script.py"),
    refused("a Python script as an argument", "/usr/bin/python3 script.py"),
    refused("a Python script without #! as an argument", "/usr/bin/python3 marked"),
    refused("a Python script without #! on standard input", "/usr/bin/python3 < marked"),
    refused("a Perl script with #!", "./script.pl"),
    refused("a Perl script as an argument", "perl script.pl"),
    refused("a Perl script on standard input", "perl < script.pl"),
    refused("a script whose interpreter is untrusted", "./script.odd"),
    refused("a hard link to an untrusted program", "ln ran link && ./link"),
    refused("a symbolic link to an untrusted program", "ln -s ran symbolic && ./symbolic"),
    refused(
        "a symbolic link to an untrusted program, with the name of a trusted one",
        "ln -s $PWD/ran /tmp/true && PATH=/tmp true && /tmp/true",
    ),
    refused(
        "a bind mount of an untrusted program",
        "touch here && unshare -Urm sh -c 'mount --bind ran here && ./here'",
    ),
    refused(
        "a bind mount of an untrusted program over a trusted one",
        "unshare -Urm sh -c 'mount --bind ran /usr/bin/true && /usr/bin/true'",
    ),
    refused(
        "the same, padded to the size of the trusted program",
        "unshare -Urm sh -c 'mount --bind padded /usr/bin/gdb && /usr/bin/gdb'",
    ),
    refused(
        "an untrusted program at a trusted path in another root directory (chroot)",
        "mkdir -p r/usr/bin && ln padded r/usr/bin/gdb && unshare -Ur /usr/sbin/chroot r /usr/bin/gdb",
    ),
    refused(
        "an untrusted program that is renamed while it starts",
        "(for i in 1 2 3 4 5 6 7 8 9; do mv ran other; mv other ran; done 2> /dev/null) & for i in 1 2 3 4 5 6 7 8 9; do ./ran && break; ./other && break; done",
    ),
    refused(
        "an untrusted program with the name that the kernel shows for a deleted one",
        "ln ran 'launch (deleted)' && './launch (deleted)'",
    ),
    refused("a copy of a trusted program in another directory", "cp /usr/bin/true t && ./t && echo ran"),
    refused("an untrusted program executed by descriptor (execveat)", "./launch execveat ./ran"),
    refused("an untrusted program executed as /proc/self/fd/N", "./launch proc ./ran"),
    refused("a file that is created, written and then executed", "./launch written ./ran"),
    refused("an untrusted program mapped for execution (mmap)", "./launch map ./ran"),
    refused(
        "an untrusted program mapped for reading and then made executable (mprotect)",
        "./launch protect ./ran",
    ),
    Way {
        name: "a program in memory (memfd_create, then execveat)",
        script: "./launch memory ./carried",
        fate: Known(
            "a file in memory isn't on a file system that fanotify can watch",
            "`sysctl vm.memfd_noexec=2`",
            IN_MEMORY,
        ),
    },
    Way {
        name: "a program on a tmpfs that a user mounts in a user namespace",
        script: "unshare -Urm sh -c 'mkdir m; mount -t tmpfs m m && ./launch decode ./carried m/ran && m/ran'",
        fate: Known(
            "the file system is mounted after palisaded began, in a mount namespace that palisaded doesn't see",
            "`sysctl user.max_user_namespaces=0`",
            NAMESPACE,
        ),
    },
    Way {
        name: "a program on a file system that a process serves (squashfuse)",
        script: "mkdir m; squashfuse image m && m/ran; fusermount3 -u m",
        fate: Known(
            "an open waits for that process, and so would palisaded and the whole host",
            "`chmod 600 /dev/fuse`; or `watch.filesystems` with `fuse`, if you accept that risk",
            SERVED,
        ),
    },
    Way {
        name: "a program as an interpreter's argument (`python3 -c`, `perl -e`)",
        script: "/usr/bin/python3 -c 'print(\"ran\")' && perl -e 'print \"ran\\n\"'",
        fate: Known(
            "no file is opened",
            "rules that restrict which processes may start the interpreter",
            TOLD,
        ),
    },
    Way {
        name: "a program that is piped to an interpreter",
        script: "echo 'print(\"ran\")' | /usr/bin/python3",
        fate: Known(
            "no file is opened",
            "rules that restrict which processes may start the interpreter",
            TOLD,
        ),
    },
    Way {
        name: "a script without `#!` or other signs of a script, given to an interpreter",
        script: "/usr/bin/python3 unmarked",
        fate: Known(
            "it can't be distinguished from data",
            "rules that allow the interpreter to open trusted files only",
            UNMARKED,
        ),
    },
    Way {
        name: "a shell script, run or sourced",
        script: "./script.sh && sh script.sh && . ./script.sh",
        fate: Known("the default policy allows it", "`rules = \"restrictive\"`", "shell scripts"),
    },
    Way {
        name: "a program that a process opened before palisaded began",
        script: "/usr/bin/cat /proc/$HOLDER/fd/9 > /dev/null 2>&1; echo go > fifo; sleep 0.5; cat said",
        fate: Known(
            "palisaded checks only the open",
            "start palisaded before any user logs in",
            "files that were open or mapped before the guard began",
        ),
    },
];

/// Does what a shell can't do. It is trusted; the programs that it starts are judged.
const LAUNCH: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
static char *none[] = {"ran", 0};
static void copy(int from, int to, int key) {
    unsigned char b[4096]; int n;
    while ((n = read(from, b, sizeof b)) > 0) { for (int i = 0; i < n; i++) b[i] ^= key; if (write(to, b, n) != n) exit(9); }
}
int main(int c, char **v) {
    char *how = v[1], name[64];
    int f = -1;
    if (!strcmp(how, "execveat")) {
        f = open(v[2], O_PATH);
        syscall(SYS_execveat, f, "", none, none + 1, AT_EMPTY_PATH);
    } else if (!strcmp(how, "proc")) {
        f = open(v[2], O_PATH);
        sprintf(name, "/proc/self/fd/%d", f);
        execv(name, none);
    } else if (!strcmp(how, "written")) {
        f = open("new", O_CREAT | O_RDWR, 0755);
        int from = open("carried", O_RDONLY);
        copy(from, f, 0x55);
        close(f);
        execv("./new", none);
    } else if (!strcmp(how, "map") || !strcmp(how, "protect")) {
        f = open(v[2], O_RDONLY);
        int execute = !strcmp(how, "map");
        char *at = mmap(0, 4096, execute ? PROT_READ | PROT_EXEC : PROT_READ, MAP_PRIVATE, f, 0);
        if (at != MAP_FAILED && (execute || !mprotect(at, 4096, PROT_READ | PROT_EXEC))) { puts("ran"); return 0; }
    } else if (!strcmp(how, "memory")) {
        f = syscall(SYS_memfd_create, "m", 0);
        copy(open(v[2], O_RDONLY), f, 0x55);
        syscall(SYS_execveat, f, "", none, none + 1, AT_EMPTY_PATH);
    } else if (!strcmp(how, "decode")) {
        f = open(v[3], O_CREAT | O_WRONLY, 0755);
        copy(open(v[2], O_RDONLY), f, 0x55);
        return 0;
    }
    perror(how);
    return 1;
}
"#;

/// Fills the directory in which each way is tried.
fn fill(bed: &Bed) {
    let at = |name: &str| Path::new("/home/stranger").join(name);
    let ran = compile("#include <stdio.h>\nint main() { puts(\"ran\"); return 0; }", &["-static"]);
    bed.program(at("ran"), &ran);
    bed.write(at("carried"), ran.iter().map(|byte| byte ^ 0x55).collect::<Vec<u8>>());
    let length = usize::try_from(std::fs::metadata("/usr/bin/gdb").unwrap().len()).unwrap();
    let mut padded = ran.clone();
    assert!(padded.len() <= length);
    padded.resize(length, 0);
    // None of these files may be copied later: a copy is refused in any case.
    bed.program(at("padded"), padded);
    let library = "#include <stdio.h>\n#include <stdlib.h>\n__attribute__((constructor)) void loaded() { puts(\"ran\"); exit(0); }
unsigned la_version(unsigned v) { return v; }";
    bed.program(at("library.so"), compile(library, &["-shared", "-fPIC"]));
    bed.program(at("launch"), compile(LAUNCH, &["-static"]));
    bed.program(at("script.py"), "#!/usr/bin/python3\nprint('ran')\n");
    bed.write(at("marked"), "from os import path\n\nprint('ran')\n");
    bed.write(at("unmarked"), "print('ran')\n");
    bed.program(at("script.pl"), "#!/usr/bin/perl\nprint \"ran\\n\";\n");
    bed.program(at("script.odd"), "#!/home/stranger/ran\n");
    bed.program(at("script.sh"), "#!/bin/sh\necho ran\n");
    bed.trust("20-launch", &[&at("launch")]);
    // Every user may use /dev/fuse, as on most machines. fusermount needs an account.
    bed.run(
        "cd /home/stranger; mkdir image.d; cp ran image.d/; mksquashfs image.d image -quiet -no-progress >/dev/null || true; rm -r image.d; \
         echo stranger:x:47110:47110::/home/stranger:/bin/sh >>/etc/passwd; \
         mknod /run/fuse c 10 229; chmod 666 /run/fuse; { [ ! -c /dev/fuse ] || mount --bind /run/fuse /dev/fuse; }",
    )
    .ok();
    bed.run("chown -R 47110 /home/stranger; chown 0 /home/stranger/launch; rm -f /tmp/true").ok();
}

/// Tries one way in a copy of the directory. Files that may not be read are linked.
fn attempt(bed: &Bed, way: &Way, holder: u32) -> bool {
    let script = format!("export HOLDER={holder}; cd /home/stranger; {}", way.script);
    let run = bed.run_as_user(&format!("timeout 20 sh -c '{}' < /dev/null", script.replace('\'', "'\\''")));
    bed.run("cd /home/stranger; rm -rf 'launch (deleted)' link symbolic here p r t l m new said /tmp/true; [ -e ran ] || mv other ran").ok();
    run.out.contains("ran")
}

/// An ordinary user's process that opens a program, and later executes it by the descriptor.
fn holder(bed: &Bed) -> std::process::Child {
    bed.run_as_user("cd /home/stranger; rm -f fifo; mkfifo fifo").ok();
    let script = "import os
file = os.open('ran', os.O_RDONLY)
while True:
    open('fifo').read()
    if os.fork() == 0:
        os.dup2(os.open('said', os.O_CREAT | os.O_WRONLY), 1)
        data = os.pread(file, 1 << 24, 0)
        memory = os.memfd_create('m', 0)
        os.write(memory, data)
        os.execve(memory, ['ran'], {})";
    let words = ["/bin/sh", "-c", &format!("cd /home/stranger; exec /usr/bin/python3 -c \"{script}\"")];
    bed.command(support::ORDINARY, "200", &words).spawn().unwrap()
}

#[test]
fn each_way_around_is_refused_or_known() {
    if !["fanotify", "overlay", "gcc", "python3", "perl"].into_iter().all(has) {
        return;
    }
    let mut bed = host::unguarded(host::PYTHON);
    fill(&bed);
    let mut holder = holder(&bed);
    let needs_fuse = |way: &&Way| matches!(way.fate, Known(_, _, SERVED));
    let ways: Vec<&Way> = WAYS.iter().filter(|way| has("fuse") || !needs_fuse(way)).collect();
    let before: Vec<bool> = ways.iter().map(|way| attempt(&bed, way, holder.id())).collect();
    bed.start();
    let after: Vec<bool> = ways.iter().map(|way| attempt(&bed, way, holder.id())).collect();
    let status = bed.status();
    let _gone = std::process::Command::new("kill").arg(holder.id().to_string()).status();
    holder.wait().unwrap();
    let mut wrong = Vec::new();
    for ((way, before), after) in ways.iter().zip(before).zip(after) {
        let (expected, named) = match &way.fate {
            Refused => (false, true),
            Known(_, _, words) => (true, is_named(&status, words)),
        };
        let word = if after { "works" } else { "refused" };
        tell(&format!("{word:8} {}", way.name));
        if !before || after != expected || !named {
            wrong.push(format!(
                "{}: without a guard {before}, with one {after}, named by status: {named}",
                way.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}\n{:?}", status.blind);
}

fn is_named(status: &Status, words: &str) -> bool {
    status.blind.iter().any(|spot| spot.contains(words))
}

/// The text of the page.
fn section() -> String {
    let mut text = String::from(
        "<!-- Made of crates/daemon/tests/bypasses.rs, which tries each of these: PALISADE_WRITE_DOCS=1 ./x test \
         daemon/integration/bypasses:: -->\n\n# Ways around exec control\n\nThis page lists ways to execute untrusted code \
         in spite of [exec control](guard.md), for administrators who want\nto know its limits. A test tries each way. The \
         host has the default policy in the mode `enforce`, and no other\nsetting. Each way works without exec control.\n\n\
         ## Refused\n\nWith exec control these ways are refused:\n\n",
    );
    for way in WAYS.iter().filter(|way| matches!(way.fate, Refused)) {
        writeln!(text, "- {}", way.name).unwrap();
    }
    text.push_str(
        "\n## Known\n\nThese ways work. `palisade guard status` lists those that are open on your host.\n\n\
         | way | why palisaded doesn't refuse it | remedy |\n|---|---|---|\n",
    );
    for way in WAYS {
        if let Known(why, closes, _) = way.fate {
            writeln!(text, "| {} | {why} | {closes} |", way.name).unwrap();
        }
    }
    text
}

#[test]
fn the_documentation_says_so() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guard-bypasses.md");
    if std::env::var_os("PALISADE_WRITE_DOCS").is_some() {
        std::fs::write(&path, section()).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&path).unwrap_or_default(),
        section(),
        "PALISADE_WRITE_DOCS=1 writes it anew"
    );
}
