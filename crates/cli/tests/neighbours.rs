// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests other programs that use the same directory during a sandbox's life or after it: the user's own programs, another
//! sandbox, the next launch. The broker sees the calls of none of them.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{Place, Run, eventually, everybody, has, job};
use std::io::Write;
use std::process::{Child, Stdio};
use std::time::Duration;

/// A line of shell inside, that waits between steps (`step N`) until the host has done its part.
struct Lived<'p> {
    place: &'p Place,
    child: Child,
}

impl<'p> Lived<'p> {
    fn start(place: &'p Place, options: &[&str], line: &str) -> Self {
        let line = format!("step() {{ : >step-$1; read -r _; }}\n{line}");
        let mut palisade = place.palisade(&[&["--quiet"], options].concat(), &["sh", "-c", &line]);
        palisade.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { place, child: palisade.spawn().unwrap() }
    }

    /// Waits until it has come to `step N`; does `line` on the host; lets it go on.
    fn meanwhile(&mut self, step: u32, line: &str) {
        let reached = self.place.work.join(format!("step-{step}"));
        assert!(eventually(|| reached.exists()), "step {step}");
        self.place.outside(line);
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
    }

    fn end(self) -> Run {
        job::wait(self.child)
    }
}

/// What is tried on names that are there; each must leave them as they are.
const ATTACK: &str = "
    { echo mine >.git/hooks/pre-commit; echo mine >>.git/hooks/pre-commit; mv f .git/hooks/pre-commit
    chmod 777 .git/hooks/pre-commit; rm -f .git/hooks/pre-commit; ln -f .git/hooks/pre-commit out && echo mine >out
    echo mine >.git/hooks/post-commit; mkdir .git/hooks/new
    printf '[core]\\n\\tfsmonitor = ./mine\\n' >>.git/config; git config core.fsmonitor ./mine
    printf '[core]\\n\\tfsmonitor = ./mine\\n' >c; mv c .git/config; mv .git away; } 2>/dev/null; true";

/// A program that saves as editors do: writes a new file and renames it over the old one.
const SAVE: &str = "save() { cat >\"$1.new\"; chmod 755 \"$1.new\"; mv \"$1.new\" \"$1\"; };";

#[test]
fn what_the_host_saves_meanwhile_stays_protected() {
    let steps = [
        // One after the other, as the launch goes on: new files, new directories, a new repository.
        "printf new-hook | save .git/hooks/pre-commit; sed 's/bare/bare/' .git/config | save .git/config",
        "mv .git/hooks .git/hooks.old; mkdir .git/hooks; printf newer-hook | save .git/hooks/pre-commit",
        "rm -r .git; git init -q .; printf newest-hook | save .git/hooks/pre-commit",
    ];
    let hook = ["new-hook", "newer-hook", "newest-hook"];
    let inside = (1..=3).map(|step| format!("step {step}\n{ATTACK}\n")).collect::<String>() + "step 4";
    for place in everybody().iter().filter(|_| has("git")) {
        for protect in ["broker", "off"] {
            let run = |line: &str| place.outside(&format!("cd ~/work; {SAVE} {line}"));
            run(
                "rm -rf .git away step-*; git init -q .; printf old-hook | save .git/hooks/pre-commit; echo x >f",
            );
            let mut lived = Lived::start(place, &["--protect", protect], &inside);
            for (step, line) in (1..).zip(steps) {
                // That the one before had no effect is seen before the next is saved.
                if step > 1 && protect == "broker" {
                    assert!(eventually(|| place.work.join(format!("step-{step}")).exists()));
                    unharmed(place, hook[step as usize - 2]);
                }
                let line = if protect == "broker" { line } else { ":" };
                lived.meanwhile(step, &format!("cd ~/work; {SAVE} {line}; echo x >f"));
            }
            lived.meanwhile(4, "true");
            lived.end().ok();
            if protect == "broker" {
                unharmed(place, hook[2]);
            } else {
                assert!(place.read("work/away/config").contains("fsmonitor"));
            }
        }
    }
}

/// A repository is as the host left it.
#[track_caller]
fn unharmed(place: &Place, hook: &str) {
    assert_eq!(place.read("work/.git/hooks/pre-commit"), hook);
    assert!(!place.read("work/.git/config").contains("fsmonitor"));
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(place.work.join(".git/hooks/pre-commit")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o7777, 0o755);
    for name in [".git/hooks/post-commit", ".git/hooks/new", "away"] {
        assert!(!place.work.join(name).exists(), "{name}");
    }
}

#[test]
fn what_was_made_inside_is_protected_from_the_next_launch() {
    for place in everybody().iter().filter(|_| has("git")) {
        let identity = "-c user.name=a -c user.email=a@example.org";
        let made = format!(
            "git init -q new && cd new && echo first >first && git add . && git {identity} commit -q -m first && \
             echo reached; {{ echo mine >.git/hooks/pre-commit; git config core.fsmonitor ./mine; echo mine >.envrc; }} \
             2>/dev/null; true"
        );
        assert_eq!(place.sh(&["--quiet"], &made).ok(), "reached");
        for name in [".git/hooks/pre-commit", ".envrc"] {
            assert!(
                !place.work.join("new").join(name).exists(),
                "not even by who made the directory: {name}"
            );
        }
        place.outside(
            "cd ~/work/new && echo old >.git/hooks/pre-commit && chmod 755 .git/hooks/pre-commit && \
             echo first >.envrc && mkdir .vscode && echo first >.vscode/tasks.json",
        );

        let attack = format!(
            "cd new; echo x >f; {ATTACK}\n {{ echo mine >.envrc; mkdir .idea; rm -r .vscode; mv .vscode x; \
             cd ..; mv new/.git new/git; }} 2>/dev/null; \
             cd new && echo harmless >file && git add file && git {identity} commit -q -n -m second && git log --format=%s"
        );
        let snapshot = "cd ~/work/new && ls -A .git/hooks . && cat .envrc .vscode/tasks.json .git/hooks/pre-commit .git/config";
        let before = place.outside(snapshot);
        let run = place.sh(&["--quiet"], &attack);
        assert_eq!(run.ok(), "second\nfirst", "what is harmless works: {run:?}");
        place.outside("cd ~/work/new && rm -f f c file out");
        assert_eq!(place.outside(snapshot), before);
        // The same does harm where nothing is protected.
        place.sh(&["--quiet", "--protect", "off"], &attack);
        assert_ne!(place.outside("cd ~/work/new; cat away/hooks/post-commit; ls -A .idea"), "");
    }
}

/// The host puts an old directory in the place of one that the sandbox made; the files made inside are no longer in it.
#[test]
fn what_the_host_puts_in_the_place_of_something_made_is_not_made() {
    for place in everybody() {
        place.outside("mkdir -p ~/work/old/.vscode; echo old >~/work/old/.vscode/tasks.json");
        let inside = "mkdir made; step 1; { echo mine >made/.vscode/tasks.json; echo mine >made/.envrc; } 2>/dev/null; true";
        let mut lived = Lived::start(&place, &[], inside);
        lived.meanwhile(1, "cd ~/work; rmdir made; mv old made");
        lived.end().ok();
        assert_eq!(place.read("work/made/.vscode/tasks.json"), "old\n");
        assert!(!place.work.join("made/.envrc").exists());
    }
}

/// The same among sandboxes: one makes a directory, others put an old one in its place, the first changes what is
/// in it and moves it back to where it is trusted.
#[test]
fn sandboxes_that_work_together_come_no_further() {
    for place in everybody() {
        place.outside("mkdir -p ~/work/old/.vscode; echo old >~/work/old/.vscode/tasks.json");
        let inside =
            "mkdir made; step 1; { echo mine >made/.vscode/tasks.json; mv made old; } 2>/dev/null; true";
        let mut lived = Lived::start(&place, &[], inside);
        assert!(eventually(|| place.work.join("step-1").exists()));
        place.sh(&["--quiet"], "rmdir made").ok();
        place.sh(&["--quiet"], "mv old made");
        lived.meanwhile(1, "true");
        lived.end().ok();
        let kept = place.outside("cd ~/work; cat */.vscode/tasks.json");
        assert_eq!(kept, "old\n");
    }
}

/// While one sandbox changes a setting that it may, another opens whatever turns up beside the configuration, and
/// writes to it once it is in its place.
#[test]
fn a_configuration_is_not_written_by_who_caught_it_on_its_way() {
    const THIEF: &str = r#"
import os
known, caught = set(os.listdir(".git")) | {"config.lock"}, []
open("watching", "w").close()
while not os.path.exists("stop"):
    for name in set(os.listdir(".git")) - known:
        try: caught = caught[-20:] + [os.open(".git/" + name, os.O_WRONLY)]
        except OSError: continue
    for fd in caught: os.pwrite(fd, b"[core]\n\tfsmonitor = ./mine\n#", 0)
"#;
    for place in everybody().iter().filter(|_| has("git") && has("python3")) {
        place.outside("cd ~/work && git init -q .");
        let mut thief = place.palisade(&["--quiet"], &["/usr/bin/python3", "-c", THIEF]);
        thief.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let thief = thief.spawn().unwrap();
        assert!(eventually(|| place.work.join("watching").exists()));
        for number in 0..60 {
            let url = format!("https://example.org/{number}");
            let run = place.sh(&["--quiet"], &format!("git remote add r{number} {url}"));
            std::thread::sleep(Duration::from_millis(5));
            let text = place.read("work/.git/config");
            assert!(!text.contains("fsmonitor"), "after {number}: {text}");
            assert!(text.contains(&url), "{run:?}: {text}");
        }
        place.outside("touch ~/work/stop");
        job::wait(thief).ok();
    }
}

/// A server of the host's in the working directory. `keep` is its socket.
const SERVER: &str = r#"
import os, socket, time
end = socket.socket(socket.AF_UNIX); end.bind("keep"); end.listen(64); end.settimeout(0.2)
open("ready", "w").close()
end_of_time = time.time() + 60
while not os.path.exists("over") and time.time() < end_of_time:
    try: one, _ = end.accept()
    except TimeoutError: continue
    one.send(b"host", socket.MSG_NOSIGNAL); one.close()
"#;

/// Moves the server's socket to a name that another process binds, again and again.
const ACCOMPLICE: &str = r#"
import os, time
open("moves", "w").close()
end_of_time = time.time() + 60
while not os.path.exists("over") and time.time() < end_of_time:
    for step in (lambda: os.link("keep", "t"), lambda: os.rename("t", "x"), lambda: os.unlink("x")):
        try: step()
        except OSError: pass
    time.sleep(0.0003)
"#;

/// Gives a socket that name, and connects to the server's, until the server is reached.
const TAKER: &str = r#"
import os, socket, sys, time
tries, reached, end_of_time = 0, False, time.time() + 1.5
while time.time() < end_of_time and not reached:
    try: os.unlink("x")
    except OSError: pass
    end = socket.socket(socket.AF_UNIX)
    try:
        if sys.argv[1] == "bind": end.bind("x"); end.listen()
        else: os.mknod("x", 0o140600)
    except OSError: continue
    finally: end.close()
    tries += 1
    one = socket.socket(socket.AF_UNIX)
    try: one.connect("keep"); reached = one.recv(9) == b"host"
    except (PermissionError, ConnectionRefusedError): pass
    one.close()
print("enough" if tries > 100 else tries, reached)
"#;

/// Which socket lies at a name once it was bound another sandbox may have decided.
#[test]
fn a_socket_of_the_hosts_that_is_moved_to_a_name_isnt_taken_for_the_one_that_was_bound() {
    for place in everybody().iter().filter(|_| has("python3")) {
        let started = |mut command: std::process::Command| {
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        for how in ["bind", "mknod"] {
            place.outside("rm -f keep ready over moves x t");
            let mut server = place.command("python3");
            server.args(["-c", SERVER]);
            let server = started(server);
            let is_ready = eventually(|| place.work.join("ready").exists());
            let accomplice = started(place.palisade(&["--quiet"], &["python3", "-c", ACCOMPLICE]));
            let moves = eventually(|| place.work.join("moves").exists());
            let run = place.run(&["--quiet"], &["python3", "-c", TAKER, how]);
            place.outside("touch over");
            for process in [accomplice, server] {
                job::wait(process);
            }
            assert!(is_ready && moves, "{how}");
            assert_eq!(run.ok(), "enough False", "{how}: {run:?}");
        }
    }
}
