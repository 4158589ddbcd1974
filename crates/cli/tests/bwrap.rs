// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade bwrap`, without bubblewrap beside it: what its callers depend on, and attacks on the building of the tree.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use crate::support::job::{self, Run};
use crate::support::{Place, eventually, everybody, has};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The people, where bubblewrap's own namespaces can be made.
fn people() -> Vec<Place> {
    everybody().into_iter().filter(|_| has("userns")).collect()
}

fn bwrap(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.command(place.binary());
    command.arg("bwrap").args(arguments);
    command
}

fn run(place: &Place, arguments: &[&str]) -> Run {
    job::finish(&mut bwrap(place, arguments))
}

/// A link by which the program is bubblewrap's.
fn link(place: &Place) -> PathBuf {
    let link = place.work.join("bwrap");
    symlink(place.binary(), &link).unwrap();
    link
}

const HOST: [&str; 3] = ["--ro-bind", "/", "/"];

#[test]
fn the_verb_and_the_name_are_the_same() {
    for place in people() {
        let by_name = job::finish(place.command(link(&place)).arg("--version"));
        assert_eq!(by_name.ok(), "bubblewrap 0.11.1");
        assert_eq!(run(&place, &["--version"]).ok(), "bubblewrap 0.11.1");
        let help = run(&place, &["--help"]);
        assert!(help.ok().starts_with("usage: bwrap [OPTIONS...] [--] COMMAND [ARGS...]"), "{help:?}");
        for arguments in [&[][..], &["--ro-bind", "/", "/"]] {
            let none = run(&place, arguments);
            assert_eq!((none.code, none.out.as_str()), (1, ""), "{none:?}");
            assert!(none.err.starts_with("usage: bwrap "), "{none:?}");
        }
        let unknown = run(&place, &["--no-such"]);
        assert_eq!((unknown.code, unknown.err.as_str()), (1, "bwrap: Unknown option --no-such\n"));
    }
}

#[test]
fn the_command_is_a_child_of_process_1_and_its_exit_code_is_returned() {
    for place in people() {
        let inside = |line: &'static str| {
            let own = ["--unshare-pid", "--proc", "/proc", "--dev", "/dev", "sh", "-c", line];
            run(&place, &[&HOST[..], &own].concat())
        };
        let own = "grep -E '^(NSpid|PPid):' /proc/self/status | tr -s '\\t' ' '; exit 7";
        let found = inside(own);
        // `sh` is process 2, and its children have higher numbers.
        assert_eq!(found.code, 7, "{found:?}");
        assert!(found.out.contains("PPid: 2\n"), "{found:?}");
        assert_eq!(inside("kill -9 $$").code, 128 + 9);
        assert_eq!(inside("ps -o pid=,ppid=,args= -p 1,2 | wc -l").ok(), "2");
    }
}

#[test]
fn nothing_is_added_to_what_is_asked_for() {
    for place in people() {
        let status = run(
            &place,
            &[&HOST[..], &["grep", "-E", "^(Seccomp|NoNewPrivs):", "/proc/self/status"]].concat(),
        );
        assert_eq!(status.ok(), "NoNewPrivs:\t1\nSeccomp:\t0");
        let nested = ["--dev-bind", "/", "/", "unshare", "-Ur", "id", "-u"];
        assert_eq!(run(&place, &nested).ok(), "0");
        let environment = job::finish(
            bwrap(&place, &[&HOST[..], &["sh", "-c", "echo $TOKEN $PWD"]].concat()).env("TOKEN", "t"),
        );
        assert_eq!(environment.ok(), format!("t {}", place.work.display()));
    }
}

/// A tree of the host has links that lead out of it. While the new tree is built, they must not lead to the host's files.
#[test]
fn no_link_in_a_tree_leads_the_builder_to_the_host() {
    for place in people() {
        let tree = place.work.join("tree");
        let outside = place.work.join("outside");
        for directory in [&tree, &outside] {
            std::fs::create_dir(directory).unwrap();
            crate::support::give(&place, directory);
        }
        symlink(&outside, tree.join("absolute")).unwrap();
        symlink("../outside", tree.join("relative")).unwrap();
        let many = ["../"; 20].concat();
        symlink(format!("{many}{}", outside.display()), tree.join("above")).unwrap();
        let tree = tree.to_str().unwrap();
        for name in ["absolute", "relative", "above"] {
            // Outside, the link leads there.
            let touched =
                place.outside(&format!("touch tree/{name}/there && ls outside && rm outside/there"));
            assert_eq!(touched.trim(), "there");
            let dest = format!("/t/{name}/made");
            for step in [
                &["--dir", &dest][..],
                &["--tmpfs", &dest],
                &["--symlink", "/x", &dest],
                &["--ro-bind", "/etc", &dest],
            ] {
                let built = run(&place, &[&["--bind", tree, "/t"][..], step, &["true"]].concat());
                assert_ne!(built.code, 0, "{name}, {step:?}: {built:?}");
                let left: Vec<_> = std::fs::read_dir(&outside).unwrap().collect();
                assert!(left.is_empty(), "{name}, {step:?}: {left:?}");
            }
        }
    }
}

/// With every capability of a user namespace, a process inside can change its mounts, but beneath them isn't the host's tree.
#[test]
fn the_hosts_tree_is_not_beneath_the_root() {
    for place in people() {
        let secret = place.write("secret", "outside");
        let tree = [
            "--unshare-user",
            "--uid",
            "0",
            "--gid",
            "0",
            "--cap-add",
            "ALL",
            "--ro-bind",
            "/usr",
            "/usr",
            "--symlink",
            "usr/bin",
            "/bin",
            "--symlink",
            "usr/sbin",
            "/sbin",
            "--symlink",
            "usr/lib",
            "/lib",
            "--symlink",
            "usr/lib64",
            "/lib64",
            "--proc",
            "/proc",
            "sh",
            "-c",
        ];
        let seen = |line: &str| run(&place, &[&tree[..], &[line]].concat());
        let secret = secret.display();
        for line in [
            format!("cat {secret}"),
            format!("nsenter --mount=/proc/self/ns/mnt cat {secret}"),
            format!("umount -l /proc; umount -l /usr; umount -l /; cat {secret}"),
            format!("cd /; for i in 1 2 3; do umount -l .; done; chroot . /bin/cat {secret}"),
        ] {
            let attempt = seen(&line);
            assert_ne!(attempt.code, 0, "{line}: {attempt:?}");
            assert!(!attempt.out.contains("outside"), "{line}: {attempt:?}");
        }
        assert_eq!(seen("ls /").ok().lines().collect::<Vec<_>>().join(" "), "bin lib lib64 proc sbin usr");
    }
}

#[test]
fn a_sandbox_dies_with_its_parent_only_if_asked_to() {
    for place in people() {
        for (option, dies) in [(&["--die-with-parent"][..], true), (&[], false)] {
            let own = ["--unshare-pid", "sh", "-c", "echo started; exec sleep 300"];
            let mut child = bwrap(&place, &[&HOST[..], option, &own].concat())
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
            std::io::BufRead::read_line(&mut out, &mut String::new()).unwrap();
            let mut command = None;
            assert!(eventually(|| {
                command = job::below(child.id(), "sleep");
                command.is_some()
            }));
            let command = command.unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            let is_dead = || rustix::process::test_kill_process(command).is_err();
            if dies {
                assert!(eventually(is_dead));
            } else {
                assert!(!is_dead());
                rustix::process::kill_process(command, rustix::process::Signal::KILL).unwrap();
                assert!(eventually(is_dead));
            }
        }
    }
}

/// What callers read: the numbers of processes and namespaces, and the exit code.
#[test]
fn callers_are_told() {
    for place in people() {
        let line = format!(
            "{} bwrap --ro-bind / / --unshare-pid --info-fd 8 --json-status-fd 9 sh -c 'ls /proc/self/fd | wc -l; exit 3' 8>~/info 9>~/status",
            place.binary().display()
        );
        let told = job::finish(place.command("sh").args(["-c", &line]));
        assert_eq!(told.code, 3, "{told:?}");
        let info: serde_json::Value = serde_json::from_str(&place.read("info")).unwrap();
        assert!(info["child-pid"].as_u64() > Some(1) && info["pid-namespace"].is_u64(), "{info}");
        assert!(info["net-namespace"].is_null(), "{info}");
        let status = place.read("status");
        let documents: Vec<serde_json::Value> =
            status.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(documents.len(), 2, "{status}");
        assert_eq!(documents[0]["child-pid"], info["child-pid"]);
        assert_eq!(documents[1]["exit-code"], 3);
    }
}

/// The sandbox waits for what its caller is told. If the caller can't be told, nothing is left behind.
#[test]
fn a_sandbox_whose_caller_cannot_be_told_ends() {
    for place in people() {
        let line =
            format!("{} bwrap --ro-bind / / --info-fd 8 sleep 300 8</dev/null", place.binary().display());
        let failed = job::finish(place.command("sh").args(["-c", &line]));
        assert_eq!((failed.code, failed.err.as_str()), (1, "bwrap: Write to info_fd: Bad file descriptor\n"));
        place.assert_all_dead();
    }
}

/// A process inside makes a sandbox of its own: by the same program, also by its own file.
#[test]
fn a_sandbox_in_a_sandbox() {
    for place in people() {
        let link = link(&place);
        let link = link.to_str().unwrap();
        let outer = ["--unshare-user", "--dev-bind", "/", "/"];
        let inner = [link, "--unshare-user", "--dev-bind", "/", "/", "echo", "inside"];
        assert_eq!(run(&place, &[&outer[..], &inner].concat()).ok(), "inside");
        let own = ["/proc/self/exe", "--dev-bind", "/", "/", "echo", "inside"];
        assert_eq!(job::finish(place.command(link).args(outer).args(own)).ok(), "inside");
        let closed = ["--unshare-user", "--disable-userns", "--dev-bind", "/", "/"];
        let refused = run(&place, &[&closed[..], &inner].concat());
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.err.starts_with("bwrap: Creating new namespace failed"), "{refused:?}");
    }
}

#[test]
fn a_host_that_refuses_user_namespaces_is_named_behind_bubblewraps_words() {
    let words = "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)";
    for place in people() {
        let palisade = place.binary().display();
        let start = |limit: &str, options: &str, command: &str| {
            let line = format!(
                "{limit}{palisade} bwrap {options} --unshare-user --ro-bind / / {command}; echo code $?"
            );
            place.outside(&format!("unshare -Ur sh -c '{line}' 2>&1"))
        };
        let none = "echo 0 >/proc/sys/user/max_user_namespaces || exit 99; ";
        let note = "palisade: note: this host refuses user namespaces: user.max_user_namespaces is 0";
        let hint = "hint: sysctl -w user.max_user_namespaces=10000   # until the next boot; a file in /etc/sysctl.d sets it for good";
        assert_eq!(
            start(none, "", "true").lines().collect::<Vec<_>>(),
            [words, note, hint, "code 1"],
            "clone refuses"
        );
        let prefixed = [words, note, hint].map(|line| format!("<3>{line}"));
        assert_eq!(
            start(none, "--level-prefix", "true").lines().collect::<Vec<_>>(),
            [&prefixed[0], &prefixed[1], &prefixed[2], "code 1"]
        );
        // Other failures have bubblewrap's words alone, and a command's own exit code is no failure of the sandbox.
        assert_eq!(start("", "--ro-bind /missing /x", "true").lines().count(), 2);
        assert_eq!(start("", "", "sh -c \"exit 1\""), "code 1\n");
        let line = start("", "", "sh -c \"echo 0 >/proc/sys/user/max_user_namespaces; exit 1\"");
        assert!(line.ends_with("code 1\n") && !line.contains("note: "), "{line}");
    }
}
