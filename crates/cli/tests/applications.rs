// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that common programs work inside by default, as root and as an ordinary user. Each test checks an effect
//! that a user would notice. On a terminal: `interactive.rs`.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{self, Place, everybody, has, job};
use std::os::unix::fs::MetadataExt;

const PYTHON: &str = "/usr/bin/python3";

fn python(place: &Place, program: &str) -> support::Run {
    place.run(&[], &[PYTHON, "-c", program])
}

#[test]
fn a_command_runs_with_its_arguments_and_writes_to_the_working_directory() {
    for place in everybody() {
        assert_eq!(place.run(&[], &["printf", "%s|", "a b", "", "--", "-x"]).ok(), "a b||--|-x|");
        assert_eq!(
            place.sh(&[], "pwd; echo done >file; id -u").ok(),
            format!("{}\n{}", place.work.display(), place.uid)
        );
        assert_eq!(place.read("work/file"), "done\n");
        let owner = place.work.join("file").metadata().unwrap();
        assert_eq!(
            (owner.uid(), owner.gid()),
            (place.uid, place.gid),
            "a file made inside is the caller's outside"
        );
    }
}

#[test]
fn a_line_of_shell_runs() {
    for place in everybody() {
        let mut command = place.command(place.binary());
        let run = job::finish(command.args(["run", "-c", "echo one; echo two | tr a-z A-Z"]));
        assert_eq!(run.ok(), "one\nTWO");
    }
}

#[test]
fn python_has_processes_files_terminals_and_users() {
    for place in everybody() {
        let run = python(&place, "\
import multiprocessing, os, pwd, pty, subprocess, tempfile, threading
def square(n): return n * n
with multiprocessing.Pool(3) as pool: print(pool.map(square, range(5)))
print(subprocess.run(['sh', '-c', 'echo sub'], capture_output=True, text=True).stdout.strip())
with tempfile.NamedTemporaryFile() as file: file.write(b'x'); file.flush(); print(os.path.getsize(file.name))
print(pwd.getpwuid(os.getuid()).pw_name)
master, slave = pty.openpty()
os.write(slave, b'tty'); print(os.read(master, 3).decode(), os.ttyname(slave))
lock = multiprocessing.Lock(); queue = multiprocessing.Queue()
child = multiprocessing.Process(target=queue.put, args=('queued',)); child.start(); print(queue.get()); child.join()
thread = threading.Thread(target=print, args=('thread',)); thread.start(); thread.join()
");
        assert_eq!(
            run.ok(),
            format!("[0, 1, 4, 9, 16]\nsub\n1\n{}\ntty /dev/pts/0\nqueued\nthread", place.name())
        );
    }
}

#[test]
fn python_talks_to_itself_by_loopback() {
    for place in everybody() {
        let run = python(
            &place,
            "\
import socket
for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_UNIX, 'socket')):
    server = socket.socket(family)
    server.bind((address, 0) if family == socket.AF_INET else address); server.listen()
    client = socket.socket(family); client.connect(server.getsockname())
    served, _ = server.accept(); client.send(b'hello'); print(served.recv(5).decode())
",
        );
        assert_eq!(run.ok(), "hello\nhello");
    }
}

#[test]
fn a_virtual_environment_is_made_and_used() {
    if !has("venv") {
        return;
    }
    for place in everybody() {
        place.run(&[], &[PYTHON, "-m", "venv", "venv"]).ok();
        let run = place.sh(&[], "venv/bin/python -c 'import sys; print(sys.prefix)'; . venv/bin/activate; python -m pip --version");
        let out = run.ok();
        assert_eq!(out.lines().next(), Some(place.work.join("venv").to_str().unwrap()), "{run:?}");
        assert!(out.contains(&format!("{}/venv/lib", place.work.display())), "{run:?}");
        // The host sees it as a repository, too.
        let outside = place.outside("venv/bin/python -c 'import sys; print(sys.prefix)'");
        assert_eq!(outside.trim(), place.work.join("venv").to_str().unwrap());
    }
}

#[test]
fn git_commits_under_the_name_of_its_user() {
    for place in everybody() {
        place.write(
            ".gitconfig",
            "[user]\n\tname = Ann Test\n\temail = ann@example.org\n[credential]\n\thelper = store --file x\n",
        );
        let run = place.sh(&[], "\
git init -q -b main . && echo text >file && git add file && git commit -q -m first && git status --short && git log --format='%an <%ae> %s'");
        assert_eq!(run.ok(), "Ann Test <ann@example.org> first");
        assert_eq!(place.outside("git log --format=%s; git status --short"), "first\n");
        // What could lead to secrets isn't there.
        assert_eq!(place.sh(&[], "git config --get credential.helper").code, 1);
    }
}

#[test]
fn git_works_in_a_worktree() {
    for place in everybody() {
        place.write(".gitconfig", "[user]\n\tname = Ann Test\n\temail = ann@example.org\n");
        place.outside(
            "git init -q -b main . && git commit -q --allow-empty -m first && git worktree add -q ../tree",
        );
        let mut palisade =
            place.palisade(&[], &["sh", "-c", "git status --short --branch && git log --format=%s"]);
        let run = job::finish(palisade.current_dir(place.home.join("tree")));
        assert_eq!(run.ok(), "## tree\nfirst");
        // Its repository lies elsewhere and is read-only.
        let mut palisade = place.palisade(&[], &["git", "commit", "-q", "--allow-empty", "-m", "second"]);
        let run = job::finish(palisade.current_dir(place.home.join("tree")));
        assert_ne!(run.code, 0, "{run:?}");
        let mut palisade = place.palisade(
            &["--rw", place.work.join(".git").to_str().unwrap()],
            &["git", "commit", "-q", "--allow-empty", "-m", "second"],
        );
        job::finish(palisade.current_dir(place.home.join("tree"))).ok();
        assert_eq!(place.outside("git log --format=%s tree"), "second\nfirst\n");
    }
}

#[test]
fn git_sees_its_repository_from_a_directory_in_it() {
    for place in everybody() {
        place.outside("git init -q -b main . && mkdir sub && echo text >top && git add top");
        let mut palisade = place.palisade(&[], &["git", "status", "--short"]);
        let run = job::finish(palisade.current_dir(place.work.join("sub")));
        assert_eq!(run.ok(), "A  ../top");
    }
}

#[test]
fn c_is_compiled_and_made() {
    if !has("gcc") {
        return;
    }
    for place in everybody() {
        place.write("work/main.c", "#include <stdio.h>\nint main(void) { puts(\"compiled\"); }\n");
        place.write("work/Makefile", "all: main\n\t./main >output\nmain: main.c\n\tgcc -O1 -o $@ $<\n");
        assert_eq!(place.sh(&[], "gcc -o here main.c && ./here").ok(), "compiled");
        place.run(&[], &["make", "-s", "-j2"]).ok();
        assert_eq!(place.read("work/output"), "compiled\n");
    }
}

/// Gives the person of `place` a toolchain in its home, by links to files that it may read only.
pub(crate) fn install_toolchain(place: &Place) {
    let own = std::env::var("HOME").unwrap();
    let cargo = std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{own}/.cargo"));
    let rustup = std::env::var("RUSTUP_HOME").unwrap_or_else(|_| format!("{own}/.rustup"));
    let output = std::process::Command::new(format!("{cargo}/bin/rustc"))
        .args(["--print", "sysroot"])
        .current_dir("/")
        .output()
        .unwrap();
    let toolchain = String::from_utf8(output.stdout).unwrap().trim_end().to_owned();
    let script = "set -e
mkdir -p \"$H/.rustup/toolchains\" \"$H/.rustup/update-hashes\" \"$H/.cargo/bin\"
cp -al \"$T\" \"$H/.rustup/toolchains/\" 2>/dev/null || cp -a \"$T\" \"$H/.rustup/toolchains/\"
cp \"$R/settings.toml\" \"$H/.rustup/\"
cp -a \"$C/bin/.\" \"$H/.cargo/bin/\"
echo '[registry]' >\"$H/.cargo/credentials.toml\"
chown \"$U:$G\" \"$H/.rustup\" \"$H/.rustup/settings.toml\" \"$H/.cargo\" \"$H/.cargo/bin\" \"$H/.cargo/credentials.toml\"";
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", script]).env("H", &place.home).env("T", toolchain).env("R", rustup).env("C", cargo);
    let run = job::finish(command.env("U", place.uid.to_string()).env("G", place.gid.to_string()));
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn cargo_builds_a_crate_offline() {
    if !has("rustup") || !has("gcc") {
        return;
    }
    for place in everybody() {
        install_toolchain(&place);
        place.write(
            "work/Cargo.toml",
            "[package]\nname = \"hello\"\nversion = \"0.1.0\"\nedition = \"2024\"\n",
        );
        place.write("work/src/main.rs", "fn main() { println!(\"built\"); }\n");
        let path = format!("{}/.cargo/bin:{}", place.home.display(), support::PATH);
        let run = job::finish(place.palisade(&[], &["cargo", "build", "--offline", "-q"]).env("PATH", &path));
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(place.outside("target/debug/hello"), "built\n");
        let run = job::finish(
            place
                .palisade(
                    &[],
                    &[
                        "sh",
                        "-c",
                        "touch ~/.cargo/bin/new; touch ~/.rustup/new; ls ~/.cargo/credentials.toml",
                    ],
                )
                .env("PATH", &path),
        );
        assert_ne!(run.code, 0, "{run:?}");
        assert!(
            !place.home.join(".cargo/bin/new").exists() && !place.home.join(".rustup/new").exists(),
            "{run:?}"
        );
        assert!(!run.out.contains("credentials"), "{run:?}");
    }
}

#[test]
fn npm_tests_a_package() {
    if !has("npm") {
        return;
    }
    for place in everybody() {
        place.write(
            "work/package.json",
            r#"{"name": "tiny", "version": "1.0.0", "scripts": {"test": "node test.js"}}"#,
        );
        place.write("work/test.js", "require('fs').writeFileSync('tested', String(6 * 7)); console.log('passed', require('os').userInfo().username)");
        place.write(".npmrc", "//example.org/:_authToken=secret-of-npm\n");
        let run = place.run(&[], &["npm", "test"]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.out.contains(&format!("passed {}", place.name())), "{run:?}");
        assert_eq!(place.read("work/tested"), "42");
        assert!(!place.sh(&[], "cat ~/.npmrc").out.contains("secret"), "the token isn't there");
    }
}

#[test]
fn perl_and_sqlite_keep_what_they_write() {
    for place in everybody() {
        if has("perl") {
            assert_eq!(
                place.run(&[], &["perl", "-e", "open F, '>', 'perl' or die; print F 'x'; print 6*7"]).ok(),
                "42"
            );
            assert_eq!(place.read("work/perl"), "x");
        }
        if has("sqlite3") {
            let run = place.run(
                &[],
                &[
                    "sqlite3",
                    "base.db",
                    "pragma journal_mode=wal; create table t(n); insert into t values(42);",
                ],
            );
            assert_eq!(run.ok(), "wal");
            assert_eq!(place.run(&[], &["sqlite3", "base.db", "select n from t"]).ok(), "42");
        }
    }
}

#[test]
fn a_script_in_the_working_directory_runs_by_its_path() {
    for place in everybody() {
        let script = place.write("work/script", "#!/bin/sh\necho \"script $1\"\n");
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(place.run(&[], &["./script", "one"]).ok(), "script one");
        assert_eq!(place.run(&[], &[script.to_str().unwrap(), "two"]).ok(), "script two");
    }
}

#[test]
fn standard_streams_are_the_callers() {
    for place in everybody() {
        let out = place.write("out", "");
        // The user that root's command runs as owns no file outside, so reopening the file by name needs this mode.
        std::fs::set_permissions(&out, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        let input = place.write("in", "from outside\n");
        let mut palisade = place.palisade(&[], &["sh", "-c", "cat; echo again >>/dev/stdout; echo err >&2"]);
        palisade.stdin(std::fs::File::open(input).unwrap());
        palisade.stdout(std::fs::OpenOptions::new().append(true).open(out).unwrap());
        let status = job::bounded(&mut palisade.spawn().unwrap());
        assert!(status.success());
        assert_eq!(place.read("out"), "from outside\nagain\n");
    }
}
