// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests copies of repositories. Programs other than git make repositories, too, and git itself copies a configuration. Its
//! harmless content is written, whichever call writes it, and nothing else is.

use crate::support::{Place, everybody, has};

/// A repository with a sparse tree: `a` and not `b`.
const SPARSE: &str = "git init -q r && cd r && git config user.name a && git config user.email a@example.org && \
     mkdir a b && echo 1 >a/f && echo 2 >b/f && git add -A && git commit -q -m one && git sparse-checkout set a";

/// Of a configuration all that git needs, and its hooks: what `git init` makes.
const HARMLESS: &str =
    "[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n[user]\\n\\tname = ann\\n";

fn has_worktree_alone(place: &Place, path: &str) {
    assert!(place.work.join(path).join("a/f").exists(), "{path}");
    assert!(!place.work.join(path).join("b").exists(), "{path} isn't sparse");
}

#[test]
fn a_worktree_of_a_sparse_tree_is_sparse() {
    for place in everybody().iter().filter(|_| has("git")) {
        // Of a repository that is made inside.
        let run = place.sh(&[], &format!("{SPARSE} && git worktree add -q ../inside"));
        assert_eq!((run.code, run.err.contains("refused")), (0, false), "{run:?}");
        has_worktree_alone(place, "r");
        has_worktree_alone(place, "inside");
        // Of the user's, which is made sparse inside.
        place.outside("mv ~/work/r/.git/worktrees ~/old; rm -rf ~/work/r ~/work/inside");
        place.outside(&format!("cd ~/work && {}", SPARSE.replace("&& git sparse-checkout set a", "")));
        let run = place.sh(&[], "cd r && git sparse-checkout set a && git worktree add -q ../other");
        assert_eq!((run.code, run.err.contains("refused")), (0, false), "{run:?}");
        has_worktree_alone(place, "r");
        has_worktree_alone(place, "other");
    }
}

#[test]
fn a_copy_of_a_repository_is_one() {
    for place in everybody().iter().filter(|_| has("git")) {
        let run = place.sh(
            &[],
            &format!(
                "({SPARSE}); cp -r r copy && tar -cf r.tar r && mkdir x && tar -xf r.tar -C x && git init -q --bare b.git && \
                 cp -a b.git c.git && git -C copy status --porcelain && git -C x/r config --worktree core.sparseCheckout"
            ),
        );
        assert_eq!((run.code, run.out.as_str()), (0, "true\n"), "{run:?}");
        assert!(!run.err.contains("refused"), "{run:?}");
        for file in ["config", "config.worktree"] {
            let text = place.read(&format!("work/r/.git/{file}"));
            assert!(!text.is_empty());
            for copy in ["copy", "x/r"] {
                assert_eq!(place.read(&format!("work/{copy}/.git/{file}")), text, "{copy} {file}");
            }
        }
        assert_eq!(place.read("work/c.git/config"), place.read("work/b.git/config"));
    }
}

/// A file that was written just before the last process ended is there before the launch ends.
#[test]
fn the_last_file_arrives_too() {
    for place in everybody() {
        let run = place.sh(&[], &format!("mkdir -p n/.git; exec 9>n/.git/config; printf '{HARMLESS}' >&9"));
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(place.read("work/n/.git/config"), HARMLESS.replace("\\n", "\n").replace("\\t", "\t"));
    }
}

#[test]
fn a_copy_of_one_that_names_a_command_is_none_and_is_told() {
    for place in everybody().iter().filter(|_| has("git")) {
        place.outside(
            "git init -q ~/work/mine && git -C ~/work/mine config core.fsmonitor ./run && \
             printf '#!/bin/sh\\n' >~/work/mine/.git/hooks/update",
        );
        let run =
            place.sh(&[], "cp -r mine copy; ls copy/.git/config copy/.git/hooks/update; ls copy/.git/HEAD");
        assert_eq!(run.out, "copy/.git/HEAD\n", "{run:?}");
        assert!(
            run.err.contains("core.fsmonitor = …: git runs what it names; the file isn't there"),
            "{run:?}"
        );
        assert!(run.err.contains("copy/.git/hooks/update by cp: "), "{run:?}");
        assert!(!place.work.join("copy/.git/config").exists());
        let run = place.sh(&["--quiet", "--protect", "off"], "cp -r mine other");
        assert_eq!(run.code, 0, "{run:?}");
        assert!(place.read("work/other/.git/config").contains("fsmonitor"));
    }
}

/// Keeps access to a file after the broker has judged it: by a second open file, a mapping, or another name.
const KEEPS: &str = r##"
import mmap, os, sys, time
os.makedirs("n/.git")
evil = b"[core]\n\tfsmonitor = ./run\n"
good = b"[user]\n\tname = ann\n" + b"#" * (len(evil) - 19) + b"\n"
first = os.open("n/.git/config", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
os.write(first, good)
again = os.open(f"/proc/self/fd/{first}", os.O_RDWR)
mapped = mmap.mmap(again, len(good))
try:
    os.link(f"/proc/self/fd/{first}", "n/kept", src_dir_fd=os.open(".", os.O_RDONLY), follow_symlinks=True)
except OSError as error:
    print("link", error.errno)
os.close(first)
for _ in range(2000):
    if os.path.exists("n/.git/config"):
        break
    time.sleep(0.001)
assert open("n/.git/config", "rb").read() == good
mapped[:len(evil)] = evil
os.pwrite(again, evil, 0)
os.ftruncate(again, len(evil))
os.close(again)
mapped.close()
"##;

/// Writes other content all the time while the broker judges a file, and moves the directory.
const RACES: &str = r##"
import os, threading
evil = b"[core]\n\tfsmonitor = ./run\n"
good = b"[core]\n\tbare = false\n#\n#\n\n"
assert len(evil) == len(good)
over = False
def moves():
    while not over:
        for one, other in (("m/.git", "m/git"), ("m/git", "m/.git")):
            try: os.rename(one, other)
            except OSError: pass
os.makedirs("m/.git")
mover = threading.Thread(target=moves, daemon=True)
mover.start()
for number in range(40):
    for directory in (f"r{number}/.git", "m/.git"):
        try:
            os.makedirs(directory, exist_ok=True)
            file = os.open(directory + "/config", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except OSError: continue
        again = os.open(f"/proc/self/fd/{file}", os.O_WRONLY)
        os.write(file, good)
        os.close(file)
        # The first file stays good: some file is judged good, whichever process is slow.
        for turn in range(20 if number else 0):
            os.pwrite(again, (evil, good)[turn % 2], 0)
        os.pwrite(again, evil if number else good, 0)
        os.close(again)
    for directory in ("m/.git", "m/git"):
        try: os.unlink(directory + "/config")
        except OSError: pass
over = True
mover.join()
"##;

#[test]
fn who_keeps_the_file_open_writes_to_none() {
    for place in everybody().iter().filter(|_| has("python3")) {
        place.write("work/keeps.py", KEEPS);
        let run = place.sh(&[], "python3 keeps.py");
        assert_eq!((run.code, run.out.as_str()), (0, "link 2\n"), "{run:?}");
        let text = place.read("work/n/.git/config");
        assert!(text.starts_with("[user]") && !text.contains("fsmonitor"), "{text}");
        // What is written so is obeyed where nothing protects it.
        place.outside("rm -rf ~/work/n");
        let run = place.sh(&["--quiet", "--protect", "off"], "python3 keeps.py");
        assert_eq!(run.code, 0, "{run:?}");
        assert!(place.read("work/n/.git/config").contains("fsmonitor"));
    }
}

#[test]
fn who_writes_while_it_is_judged_gains_nothing() {
    for place in everybody().iter().filter(|_| has("python3")) {
        place.write("work/races.py", RACES);
        place.sh(&["--quiet"], "python3 races.py").ok();
        let count = "cd ~/work && grep -l fsmonitor r*/.git/config m/.git/config 2>/dev/null | wc -l";
        assert_eq!(place.outside(count).trim(), "0");
        // Some were good when they were read.
        assert_ne!(place.outside("cd ~/work && cat r*/.git/config | grep -c bare").trim(), "0");
        place.outside("rm -rf ~/work/r* ~/work/m");
        place.write("work/races.py", RACES);
        place.sh(&["--quiet", "--protect", "off"], "python3 races.py").ok();
        assert_ne!(place.outside(count).trim(), "0");
    }
}
