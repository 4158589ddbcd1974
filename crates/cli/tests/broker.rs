// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the broker from a user's view: protected names and sockets of other processes, what is reported and recorded, and
//! what happens when the broker has ended. (The attacks themselves are in the acceptance suite.)
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::job::below;
use crate::support::{self, Place, eventually, everybody, give, has, job};

use palisade_acceptance::patience::pause;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::process::Stdio;

#[test]
fn a_refusal_says_what_and_why_and_how_and_is_kept() {
    for place in everybody() {
        let run = place.sh(&[], "mkdir .vscode");
        assert_eq!(run.code, 1);
        for words in
            ["refused: write", "work/.vscode by mkdir", "built in", "palisade run --allow-name .vscode"]
        {
            assert!(run.err.contains(words), "{words}: {}", run.err);
        }
        assert!(!place.home.join("work/.vscode").exists());
        let watch = job::finish(place.command(place.binary()).args(["watch", "--no-follow", "--json"]));
        let line = watch.ok().lines().last().unwrap();
        assert!(line.contains("work/.vscode") && line.contains("\"refused\""), "{line}");
        // The command of the hint works.
        place.sh(&["--allow-name", ".vscode"], "mkdir .vscode").ok();
        assert!(place.home.join("work/.vscode").is_dir());
    }
}

#[test]
fn what_git_will_find_is_told_at_the_end() {
    for place in everybody() {
        let run = place.sh(
            &[],
            "git init -q new; git init -q gone; rm -rf gone; mkdir odd; echo 'gitdir: ../elsewhere' >odd/.git",
        );
        assert_eq!(run.ok(), "");
        assert!(
            run.err.contains("a repository was made inside: ") && run.err.contains("work/new"),
            "{run:?}"
        );
        assert!(run.err.contains("work/odd/.git was made inside and leads git to ../elsewhere"), "{run:?}");
        assert!(!run.err.contains("gone"), "{run:?}");
    }
}

#[test]
fn quiet_is_quiet() {
    for place in everybody() {
        let run = place.sh(&["--quiet"], "mkdir .vscode 2>/dev/null; echo $?");
        assert_eq!((run.ok(), run.err.as_str()), ("1", ""));
    }
}

#[test]
fn what_keeps_names_can_be_chosen() {
    for place in everybody() {
        place.outside("git init -q ~/work/repository; echo old >~/work/repository/.git/hooks/pre-commit");
        let attack = "cd repository; echo new >.git/hooks/pre-commit; mv .git .git2; mkdir .idea; cat .git*/hooks/pre-commit; ls -d .idea";
        let broker = place.sh(&["--quiet"], attack);
        assert_eq!(broker.out, "old\n", "{broker:?}");
        // Only existing files are protected.
        let mounts = place.sh(&["--quiet", "--protect", "mounts"], attack);
        assert_eq!(mounts.out, "old\n.idea\n", "{mounts:?}");
        place.outside("rmdir ~/work/repository/.idea");
        let off = place.sh(&["--quiet", "--protect", "off"], attack);
        assert_eq!(off.out, "new\n.idea\n", "{off:?}");
    }
}

#[test]
fn a_path_can_be_protected() {
    for place in everybody() {
        place.write("work/migrations/1.sql", "old");
        let profile =
            place.write("config.toml", "schema = 1\n[filesystem]\nprotect_paths = [\"./migrations\"]\n");
        let profile = profile.to_str().unwrap();
        let run = place.sh(&["--profile", profile, "--quiet"], "echo x >migrations/1.sql; echo x >migrations/2.sql; mv migrations m; ln -s m migrations2; echo x >other; ls");
        assert_eq!(run.out, "migrations\nmigrations2\nother\n", "{run:?}");
        assert_eq!(place.read("work/migrations/1.sql"), "old");
    }
}

#[test]
fn without_the_broker_nothing_is_written() {
    for place in everybody() {
        let mut child = place
            .palisade(
                &[],
                &["sh", "-c", "echo a >a && touch a2 && echo ready; read -r go; echo b >b; echo $?"],
            )
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut broker = None;
        assert!(eventually(|| {
            broker = below(child.id(), "palisade-broker");
            place.home.join("work/a2").exists() && broker.is_some()
        }));
        // The file is there a moment before the call returns.
        pause(std::time::Duration::from_millis(100));
        kill_process(broker.unwrap(), Signal::KILL).unwrap();
        // The broker's parent reports its end to the launcher.
        assert!(eventually(|| {
            ["palisade-broker", "palisade-stub"].iter().all(|name| below(child.id(), name).is_none())
        }));
        use std::io::Write;
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let run = job::wait(child);
        assert!(run.out.contains("ready") && !run.out.contains("\n0"), "{run:?}");
        assert!(run.err.contains("the broker has ended"), "{run:?}");
        assert!(!place.home.join("work/b").exists());
    }
}

/// Five threads make calls until one fails: four that write without end, one that waits for a reader.
const CALLS: &str = r#"
import errno, os, threading, time
ended = []
def until_it_fails(call):
    try:
        number = 0
        while True: call(number); number += 1
    except OSError as error: ended.append(errno.errorcode[error.errno])
os.mkfifo("fifo")
calls = [lambda _: os.open("fifo", os.O_WRONLY)]
calls += [lambda number, thread=thread: os.close(os.open(f"{thread}-{number % 100}", os.O_WRONLY | os.O_CREAT)) for thread in range(4)]
threads = [threading.Thread(target=until_it_fails, args=(call,)) for call in calls]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(*ended)
for name in "late", ".git/hooks/pre-commit", ".git/hooks/late":
    try: open(name, "w")
    except OSError as error: print(errno.errorcode[error.errno])
# For the launcher to hear of the broker's end before it hears of this one's.
time.sleep(0.5)
"#;

#[test]
fn calls_under_way_fail_when_the_broker_is_killed() {
    // If the stub is killed, the broker has no parent left to report its end, so it ends as well.
    for victim in ["palisade-broker", "palisade-stub"] {
        for place in everybody().iter().filter(|_| has("python3")) {
            place.outside("git init -q . && echo old >.git/hooks/pre-commit");
            let mut palisade = place.palisade(&[], &["/usr/bin/python3", "-c", CALLS]);
            palisade.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let child = palisade.spawn().unwrap();
            // All four threads are making calls.
            assert!(eventually(|| (0..4).all(|thread| place.work.join(format!("{thread}-99")).exists())));
            kill_process(below(child.id(), victim).unwrap(), Signal::KILL).unwrap();
            let run = job::wait(child);
            assert_eq!(
                run.out,
                format!("{}ENOSYS\n{}", "ENOSYS ".repeat(4), "ENOSYS\n".repeat(3)),
                "{run:?}"
            );
            assert!(run.err.contains("the broker has ended"), "{victim}: {run:?}");
            let watched = job::finish(place.command(place.binary()).args(["watch", "--all", "--no-follow"]));
            assert!(watched.ok().contains("the broker has ended"), "an event of it: {watched:?}");
            assert!(!place.work.join("late").exists() && !place.work.join(".git/hooks/late").exists());
            assert_eq!(place.read("work/.git/hooks/pre-commit"), "old\n");
            place.assert_all_dead();
        }
    }
}

#[test]
fn odd_names_are_told_in_one_line() {
    for place in &everybody() {
        let odd = std::ffi::OsStr::from_bytes(b"a\nb\x1b[2J\xff\xfe");
        let directory = place.work.join(odd).join("n".repeat(255));
        std::fs::create_dir_all(&directory).unwrap();
        give(place, &place.work.join(odd));
        let run = place.sh(&[], "cd a*/n* && mkdir .vscode");
        assert_eq!((run.code, directory.join(".vscode").exists()), (1, false), "{run:?}");
        let told: Vec<&str> = run.err.lines().filter(|line| line.contains("refused: write")).collect();
        assert!(matches!(told[..], [line] if line.contains(".vscode")), "{run:?}");
        assert!(!run.err.contains('\x1b'), "{run:?}");
        let watch = job::finish(place.command(place.binary()).args(["watch", "--no-follow", "--json"]));
        let kept: serde_json::Value = serde_json::from_str(watch.ok()).unwrap();
        assert!(kept.to_string().contains(".vscode"), "{kept}");
    }
}

#[test]
fn what_waits_holds_nobody_up() {
    for place in everybody() {
        let run = place.sh(
            &[],
            "mkfifo p q r; for fifo in p q r; do echo $fifo >$fifo & done; \
             i=0; while [ $i -lt 200 ]; do echo x >f$i; i=$((i+1)); done; cat p q r | sort; ls f* | wc -l; wait",
        );
        assert_eq!(run.ok(), "p\nq\nr\n200");
    }
}

fn connect(place: &Place, options: &[&str], path: &str) -> (i32, String) {
    let program =
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print('connected')";
    let run = place.run(options, &["/usr/bin/python3", "-c", program, path]);
    (run.code, run.out + &run.err)
}

#[test]
fn sockets_of_others_are_granted_one_by_one() {
    for place in everybody() {
        let path = place.home.join("work/agent.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        place.outside("true");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        place.outside("ln -s agent.sock ~/work/link");
        for name in ["agent.sock", "link", "./../work/agent.sock"] {
            let (code, said) = connect(&place, &[], name);
            assert!(code == 1 && said.contains("Permission denied"), "{name}: {said}");
            assert!(said.contains("refused: connect") && said.contains("--rw"), "{said}");
        }
        let (code, said) = connect(&place, &["--rw", path.to_str().unwrap()], "agent.sock");
        assert_eq!((code, said.trim()), (0, "connected"));
        let (code, said) = connect(&place, &["--protect", "off"], "agent.sock");
        assert_eq!((code, said.trim()), (0, "connected"), "it works outside the broker's reach");
    }
}

#[test]
fn calls_that_reach_past_the_broker_stay_refused() {
    for place in everybody() {
        let profile = place.write("config.toml", "schema = 1\n[syscalls]\nallow = [\"io_uring_setup\"]\n");
        let profile = profile.to_str().unwrap();
        place
            .sh(&["--profile", profile], "true")
            .refused(125, &["io_uring_setup", "names can't be protected"]);
        place.sh(&["--profile", profile, "--protect", "off"], "true").ok();
    }
}

/// A policy that allows a call, or asks about it, doesn't allow every mode in its arguments.
#[test]
fn no_policy_allows_set_user_id() {
    let policies = [
        ("[process]\nnamespaces = true\n", &[][..]),
        ("[syscalls]\nallow = [\"chmod\", \"fchmodat\", \"fchmodat2\", \"openat2\"]\n", &[]),
        ("[syscalls]\nallow = [\"chmod\", \"fchmodat\", \"fchmodat2\"]\n", &["--protect", "off"]),
    ];
    for place in everybody() {
        for (policy, options) in policies {
            let profile = place.write("config.toml", format!("schema = 1\n{policy}"));
            let options = [&["--quiet", "--profile", profile.to_str().unwrap()], options].concat();
            let run =
                place.sh(&options, "cp /bin/true s; chmod 755 s && chmod 4755 s; chmod 2755 s; stat -c %a s");
            assert_eq!(run.out, "755\n", "{policy} {run:?}");
            assert_eq!(run.err.matches("Operation not permitted").count(), 2, "{policy} {run:?}");
        }
    }
}

#[test]
fn the_broker_has_no_environment() {
    for place in everybody() {
        let mut palisade = place.palisade(&[], &["sh", "-c", "echo x >made; sleep 60"]);
        let mut child = palisade.env("GITHUB_TOKEN", "hunter2-hunter2").spawn().unwrap();
        assert!(eventually(|| place.work.join("made").exists()));
        let broker = below(child.id(), "palisade-broker").unwrap();
        let environ = std::fs::read(format!("/proc/{}/environ", broker.as_raw_pid())).unwrap_or_default();
        // Only root can read the file; for another user it is empty here.
        assert!(!String::from_utf8_lossy(&environ).contains("hunter2"), "{environ:?}");
        if support::is_root() {
            assert!(environ.len() > 20 && environ.iter().all(|byte| *byte == 0), "{environ:?}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        place.assert_all_dead();
    }
}

/// A frozen file system: every process that writes to it waits until it is thawed or dropped.
struct Frozen(std::path::PathBuf);

impl Drop for Frozen {
    fn drop(&mut self) {
        for (program, option) in [("fsfreeze", "-u"), ("umount", "-l")] {
            let _gone = std::process::Command::new(program).arg(option).arg(&self.0).status();
        }
    }
}

#[test]
fn a_file_system_that_stands_still_holds_nobody_else_up() {
    let Some(place) = support::root().filter(|_| has("loop")) else { return };
    place.outside(
        "truncate -s 8M image && mkfs.ext4 -q image && mkdir mnt && mount -o loop image mnt && mkdir mnt/d",
    );
    let frozen = Frozen(place.work.join("mnt"));
    let line = "(echo held >mnt/d/file; echo thawed) & sleep 1; for n in 1 2 3 4 5; do echo $n >free-$n; done; \
                echo free >done; wait";
    place.outside("fsfreeze -f mnt");
    let child = place.palisade(&[], &["sh", "-c", line]).stdout(Stdio::piped()).spawn().unwrap();
    assert!(eventually(|| place.work.join("done").exists()), "somebody else is held up");
    assert!(place.work.join("free-5").exists());
    place.outside("fsfreeze -u mnt");
    assert_eq!(job::wait(child).ok(), "thawed");
    drop(frozen);
}

/// Behind the mounts there is Landlock, with and without a broker: the placeholder of what is hidden lies in the
/// new tree's root, where mounts and permissions let it be read and no rule does.
#[test]
fn landlock_is_in_force_whoever_keeps_names() {
    for place in everybody() {
        place.write("work/hidden", "x");
        for keeper in ["broker", "mounts", "off"] {
            let options = ["--hide", "hidden", "--protect", keeper];
            let run = place.sh(&options, "ls -l /.palisade/hidden-file && cat /.palisade/hidden-file");
            assert!(run.out.starts_with("-r--r--r--"), "{keeper}: {run:?}");
            assert!(run.code != 0 && run.err.contains("Permission denied"), "{keeper}: {run:?}");
        }
    }
}

/// Opens paths in all the ways in which paths can be written, and prints the results.
const OPENING: &str = r#"
import errno, fcntl, os, stat, sys
base = sys.argv[1]
def opened(path, flags, mode=0o666):
    try:
        file = os.open(path, flags | os.O_NONBLOCK, mode)
    except OSError as error:
        return errno.errorcode[error.errno]
    found, status = os.fstat(file), fcntl.fcntl(file, fcntl.F_GETFL)
    os.close(file)
    return f"{stat.filemode(found.st_mode)} {found.st_size} {status:o}"
W, C, E, T, A = os.O_WRONLY, os.O_CREAT, os.O_EXCL, os.O_TRUNC, os.O_APPEND
os.umask(0o27)
for path, flags in [
    ("there", W), ("there", os.O_RDWR | A), ("there", W | C), ("there", W | C | E), ("there", W | T), ("missing", W),
    ("d/new", W | C), ("d/new", W | C | E), ("d/only", W | C | E | os.O_CLOEXEC), ("d", W), ("d", W | C), ("none/x", W | C),
    ("there/x", W | C), ("link", W), ("link", W | os.O_NOFOLLOW), ("dangling", W | C), ("to-d/../d/new", W), ("to-d/through", W | C),
    ("./d/./new", W), ("d//new", W), ("d/new/", W), ("fifo", os.O_RDWR), ("fifo", W), ("d/\u00e4", W | C), ("closed", W),
    ("HEAD", W | C), ("config", W | C),
]:
    print(path, oct(flags), opened(base + path, flags))
print(opened("/dev/null", W), opened("/dev/null", W | T), opened("/proc/self/fd/1", W)[:4], opened("/nowhere", W | C)[:1])
"#;

#[test]
fn a_path_from_the_root_is_opened_as_any_other() {
    for place in everybody() {
        let prepare = "rm -rf t && mkdir -p t/d && echo text >t/there && ln -s there t/link && ln -s d t/to-d && \
                       ln -s d/made t/dangling && mkfifo t/fifo && touch t/closed && chmod 400 t/closed";
        let whole = format!("{}/t/", place.work.display());
        let results = ["t/", &whole].map(|base| {
            let inside = |options: &[&str]| {
                place.outside(prepare);
                place.run(options, &["python3", "-c", OPENING, base]).ok().to_owned()
            };
            let brokered = inside(&[]);
            assert_eq!(brokered, inside(&["--protect", "off"]), "{base}");
            brokered
        });
        let [short, long] = results;
        assert!(short.lines().count() == 28 && short.contains("-rw-r-----"), "{short}");
        assert_eq!(short, long);
    }
}

#[test]
fn a_path_from_the_root_leads_to_no_protected_name() {
    for place in everybody() {
        place.outside("git init -q r && mkdir r/sub && ln -s .git r/renamed && ln -s ../.git r/sub/up && ln -s r/.git/hooks short && ln -s r/.git/config leaf");
        place.outside("git init -q --bare bare");
        let base = place.work.display().to_string();
        for (path, free) in [
            ("r/.git/hooks/post-checkout", "r/.git/free"),
            ("r/.git/config", "r/.git/description"),
            ("r/.GIT/hooks/x", "r/GIT"),
            ("r/renamed/hooks/x", "r/renamed/free"),
            ("r/sub/up/hooks/x", "r/sub/free"),
            ("r/sub/../.git/hooks/x", "r/sub/../free"),
            ("r//.git/./hooks//x", "r/./other"),
            // Nothing in these names says where they lead.
            ("short/x", "r/short"),
            ("leaf", "r/leaf"),
            ("bare/hooks/x", "bare/free"),
            ("bare/config", "bare/description"),
        ] {
            for (path, goes) in [(path, false), (free, true)] {
                let line = format!("mkdir -p r/.GIT/hooks && echo x >>'{base}/{path}'");
                let inside = place.sh(&[], &format!("echo x >>'{base}/{path}'"));
                // Without a file system that knows no case, the name in capitals is another one, protected as well.
                assert_eq!((inside.code == 0, path), (goes, path), "{inside:?}");
                place.outside(&line);
            }
        }
    }
}

/// Group, session and terminal of a process.
fn standing(process: Pid) -> [i64; 3] {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid())).unwrap();
    // After the name in parentheses come state and parent.
    let numbers = text.rsplit_once(')').unwrap().1.split_whitespace().skip(2);
    let numbers: Vec<i64> = numbers.take(3).map(|number| number.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

/// The kernel shares processors out among sessions: a brokered call that changes between two waits twice where they are busy.
#[test]
fn the_broker_is_of_the_launchers_session_and_has_no_terminal() {
    const UNTIL_TOLD: &str = "echo x >made; i=0; while [ ! -e stop ] && [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done; rm -f stop";
    const ON_A_TERMINAL: &str = "import pty, sys; pty.spawn(sys.argv[1:])";
    for on_terminal in [false, true] {
        for place in everybody().iter().filter(|_| has("python3")) {
            let run = place.palisade(&[], &["sh", "-c", UNTIL_TOLD]);
            let mut command = place.command("/usr/bin/python3");
            let program = if on_terminal {
                ON_A_TERMINAL
            } else {
                "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"
            };
            command.args(["-c", program]).arg(run.get_program()).args(run.get_args());
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn().unwrap();
            let found = |name| below(child.id(), name);
            assert!(eventually(|| place.work.join("made").exists() && found("palisade-broker").is_some()));
            let (keeper, broker) = (found("palisade-stub").unwrap(), found("palisade-broker").unwrap());
            let ([group, session, terminal], [_, launchers, its]) = (standing(broker), standing(keeper));
            assert!(its != 0 || !on_terminal, "{its}");
            assert_eq!((session, terminal), (launchers, 0));
            assert_eq!(group, i64::from(broker.as_raw_pid()));
            std::fs::write(place.work.join("stop"), "").unwrap();
            assert!(child.wait().unwrap().success());
            place.assert_all_dead();
        }
    }
}
