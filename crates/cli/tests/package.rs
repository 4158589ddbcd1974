// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests packages: they run on a system that has nothing else, are unpacked once even if launches are killed, and are confined.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

mod menu;
mod parcel;

use crate::support::{self, Place, eventually, everybody, has, job};
use parcel::{Parcel, bare, no_room, packages, unfinished};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// What these tests can't be made with: a launcher that needs the host's libraries.
fn places() -> Vec<Place> {
    let places = everybody();
    if parcel::is_static(places[0].binary()) {
        return places;
    }
    eprintln!("not tried: this palisade isn't static");
    Vec::new()
}

#[test]
fn it_runs_where_there_is_nothing_of_the_system() {
    for place in places() {
        let parcel = Parcel::shell(&place);
        // The root is really empty.
        let control = job::finish(bare(&place, Path::new("/usr/bin/env")).arg("true"));
        assert_ne!(control.code, 0, "{control:?}");
        for _cold_and_hot in 0..2 {
            let run = job::finish(bare(&place, &parcel.file).args([
                "-c",
                "echo $((6 * 7)) \"$0\" | cat; exit 3",
                "a b",
            ]));
            assert_eq!((run.code, run.out.as_str()), (3, "42 a b\n"), "{run:?}");
        }
        assert_eq!(packages(&place).len(), 1);
        place.assert_all_dead();
    }
}

#[test]
fn python_comes_with_its_library() {
    let place = support::ordinary();
    if !Path::new("/usr/bin/python3").exists() || !parcel::is_static(place.binary()) {
        eprintln!("not tried: no python, or no static palisade here");
        return;
    }
    // What a developer has installed for all of the host's python may be large, and isn't needed.
    let parcel = Parcel::with(
        &place,
        "[program]\npath = \"/usr/bin/python3\"\n[filesystem]\nhide = [\"/usr/lib/python3/dist-packages\"]\n",
    );
    let line = "import json, sqlite3, sys; print(json.dumps(sqlite3.connect(':memory:').execute('select 6*7').fetchone()))";
    let mut python = bare(&place, &parcel.file);
    assert_eq!(job::finish(python.args(["-c", line])).ok(), "[42]");
    // The package doesn't contain what the profile hides.
    let files = parcel.run(&place, &["--palisade-files"]);
    assert!(
        files.ok().contains("/json/decoder.py") && !files.out.contains("/python3/dist-packages/"),
        "{:?}",
        files.err
    );
    // Its compiled modules go by the times of the sources: they are those of this host.
    let line = "import json.decoder as d; import os; print(int(os.stat(d.__file__).st_mtime))";
    let outside = place.outside(&format!("/usr/bin/python3 -c '{line}'"));
    assert_eq!(format!("{}\n", parcel.run(&place, &["-c", line]).ok()), outside);
}

#[test]
fn nothing_else_of_the_host_is_in_sight() {
    for place in places() {
        let parcel = Parcel::shell(&place);
        place.write("secret", "secret");
        // Each works outside.
        for line in ["cat ~/secret", "ls /usr/bin/find", "ls /usr/share/doc", "ls ~/.cache/palisade"] {
            if line.ends_with("palisade") {
                parcel.run(&place, &["-c", "true"]).ok();
            }
            place.outside(line);
            let run = parcel.run(&place, &["-c", line]);
            assert!(run.code != 0 && run.err.contains("No such file"), "{line}: {run:?}");
        }
        // The packed files can't be changed.
        for line in ["echo x >>/usr/bin/cat", "echo x >/usr/new", "mv /usr/bin/cat /usr/bin/dog"] {
            let run = parcel.run(&place, &["-c", line]);
            assert_ne!(run.code, 0, "{line}: {run:?}");
        }
        assert_eq!(parcel.run(&place, &["-c", "echo whole | cat"]).ok(), "whole");
        // Users are this host's, the path is the package's.
        let run = parcel.run(&place, &["-c", "cat /etc/passwd; echo $PATH"]);
        assert!(run.out.starts_with(&std::fs::read_to_string("/etc/passwd").unwrap()), "{run:?}");
        assert!(run.out.ends_with("/usr/games\n"), "{run:?}");
    }
}

#[test]
fn a_later_run_unpacks_and_reads_nothing() {
    if !has("strace") {
        return;
    }
    for place in places() {
        let parcel = Parcel::shell(&place);
        for _cold_and_kept in 0..2 {
            assert_eq!(parcel.run(&place, &["-c", "echo x"]).ok(), "x");
        }
        let mut strace = place.command("strace");
        strace.args(["-f", "-qq", "-e", "signal=none", "-o", "trace"]).arg(&parcel.file);
        let run = job::finish(strace.args(["-c", "echo x"]));
        assert_eq!(run.ok(), "x");
        let trace = place.read("work/trace");
        let lines: Vec<&str> = trace.lines().collect();
        let executed: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].contains(" execve(")).collect();
        assert_eq!(executed.len(), 2, "the launcher's own and the command's\n{trace}");
        let launcher = &lines[..executed[1]];
        let opened =
            |name: &str| launcher.iter().filter(|line| line.contains(" open") && line.contains(name)).count();
        for never in
            [".toml", "/proc/self/exe", ".lock-", ".unfinished-", "/etc/passwd\", O_RDONLY|O_CLOEXEC)"]
        {
            assert_eq!(opened(never), 0, "{never} is opened\n{trace}");
        }
        assert_eq!(opened(".plan"), 1, "{trace}");
        assert!(
            !launcher.iter().any(|line| line.contains(" getdents") || line.contains(" pread")),
            "{trace}"
        );
    }
}

#[test]
fn first_runs_at_once_unpack_once() {
    for place in places() {
        let parcel = Parcel::shell(&place);
        let start = || {
            let mut run = place.command(&parcel.file);
            run.args(["-c", "echo x"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            run.spawn().unwrap()
        };
        let all: Vec<_> = (0..6).map(|_| start()).collect();
        for child in all {
            assert_eq!(job::wait(child).ok(), "x");
        }
        assert_eq!(packages(&place).len(), 1);
        assert_eq!(unfinished(&place), Vec::<String>::new());
    }
}

#[test]
fn a_killed_first_run_leaves_nothing_that_counts() {
    for place in places() {
        let parcel = Parcel::shell(&place);
        let mut run = place.command(&parcel.file);
        let mut child = run.args(["-c", "echo x"]).stdout(Stdio::null()).spawn().unwrap();
        assert!(eventually(|| !unfinished(&place).is_empty()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((packages(&place).len(), unfinished(&place).len()), (0, 1), "killed in the middle");
        assert_eq!(parcel.run(&place, &["-c", "echo x | cat"]).ok(), "x");
        assert_eq!((packages(&place).len(), unfinished(&place).len()), (1, 0));
    }
}

#[test]
fn what_is_damaged_is_refused() {
    for place in places() {
        let parcel = Parcel::shell(&place);
        let whole = std::fs::read(&parcel.file).unwrap();
        let front = usize::try_from(std::fs::metadata(place.binary()).unwrap().len()).unwrap();
        let list = whole.windows(12).rposition(|word| word == b"palisade-pkg").unwrap();
        assert!(list > front);
        let with = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = whole.clone();
            change(&mut bytes);
            let file = place.write("work/bad", bytes);
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
            let run = job::finish(place.command(&file).args(["-c", "echo x"]));
            assert_eq!((packages(&place).len(), unfinished(&place).len()), (0, 0), "{run:?}");
            run
        };
        for length in [front + 1000, list, list + 20, whole.len() - 1] {
            with(&|bytes| bytes.truncate(length)).refused(125, &["cut off"]).with_hint();
        }
        for at in [front, front + 70_000, list - 1, list + 17, whole.len() - 1] {
            with(&|bytes| bytes[at] ^= 4).refused(125, &["damaged"]).with_hint();
        }
        with(&|bytes| bytes[list + 12] = 9).refused(125, &["format 9"]).with_hint();
        // An unchanged copy runs.
        assert_eq!(parcel.run(&place, &["-c", "echo x"]).ok(), "x");
    }
}

#[test]
fn without_room_it_says_so_and_leaves_nothing() {
    for place in places() {
        let parcel = Parcel::shell(&place);
        let cache = place.work.join("small");
        let mut run = no_room(&place, &cache);
        let run = job::finish(run.arg(&parcel.file).args(["-c", "echo x"]).env("XDG_CACHE_HOME", &cache));
        run.refused(125, &["are needed", "are free", "XDG_CACHE_HOME"]).with_hint();
        let line = "\"$0\" package sh --output small/x; code=$?; ls -A small; exit $code";
        let mut pack = no_room(&place, &cache);
        let run = job::finish(pack.args(["/bin/sh", "-c", line]).arg(place.binary()));
        run.refused(2, &["can't write", "No space left", "make room"]).with_hint();
        assert_eq!(run.out, "", "nothing is left of it");
        assert_eq!(parcel.run(&place, &["-c", "echo x"]).ok(), "x");
    }
}

#[test]
fn the_launchers_own_arguments_are_in_front() {
    for place in places() {
        let parcel = Parcel::shell(&place);
        let ask = |option: &str| parcel.run(&place, &[option]);
        let run = ask("--palisade-info");
        for word in ["app", "/sh", "x86_64", "not yet; it will be in"] {
            assert!(run.ok().contains(word), "{word} in {run:?}");
        }
        assert!(ask("--palisade-help").ok().contains("--palisade-remove"));
        assert!(ask("--palisade-files").ok().contains("/usr/bin/cat"));
        assert!(ask("--palisade-policy").ok().contains("programs = [\"cat\""));
        ask("--palisade-nothing").refused(125, &["--palisade-nothing"]).with_hint();
        assert!(ask("--palisade-remove").err.contains("nothing was unpacked"));
        assert!(ask("--palisade-dry-run").ok().contains("read-only at /usr"));
        ask("--palisade-unpack").ok();
        assert!(!ask("--palisade-info").out.contains("not now"));
        let run = parcel.run(&place, &["--palisade-end", "-c", "echo \"$*\"", "", "--palisade-info", "x"]);
        assert_eq!(run.ok(), "--palisade-info x");

        // While it runs it can't be removed.
        let mut running = place.command(&parcel.file);
        let mut running = running
            .args(["-c", "echo up; read x; cat /etc/nsswitch.conf"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut up = [0; 3];
        std::io::Read::read_exact(running.stdout.as_mut().unwrap(), &mut up).unwrap();
        ask("--palisade-remove").refused(125, &["in use"]).with_hint();
        assert_eq!(
            job::wait({
                drop(running.stdin.take());
                running
            })
            .code,
            0
        );
        ask("--palisade-remove").ok();
        assert_eq!(packages(&place).len(), 0);
        // A plan that was kept doesn't help where nothing is: it is unpacked again.
        assert_eq!(parcel.run(&place, &["-c", "echo x"]).ok(), "x");

        let run = job::finish(place.command(place.binary()).args(["package", "--info"]).arg(&parcel.file));
        assert!(run.ok().contains("programs = [\"cat\""), "{run:?}");
    }
}

/// A launch that keeps a plan removes packages that have not been used for long.
#[test]
fn an_old_package_goes_when_a_plan_is_kept() {
    for place in everybody() {
        let made = place.outside(
            "cd; mkdir -p -m 700 .cache/palisade/packages/old .cache/palisade/packages/new && \
             touch -d '100 days ago' .cache/palisade/packages/old && echo made",
        );
        assert_eq!(made.trim(), "made");
        assert_eq!(packages(&place).len(), 2);
        assert!(eventually(|| {
            place.run(&[], &["true"]).ok();
            packages(&place) == ["new"]
        }));
    }
}

/// Options that are given when a package is made apply on every host.
#[test]
fn the_options_of_its_maker_hold() {
    for place in places() {
        parcel::profile(&place, "app", "");
        let options = ["--env", "GREETING=hello", "--hostname", "box", "--ro", "/etc/hostname=/etc/theirs"];
        let stated = Parcel::stating(&place, "app", &options);
        let line = "echo $GREETING; cat /proc/sys/kernel/hostname; test -s /etc/theirs && echo shown";
        assert_eq!(stated.run(&place, &["-c", line]).ok(), "hello\nbox\nshown");
        std::fs::remove_file(&stated.file).unwrap();
        assert!(!Parcel::of(&place, "app").run(&place, &["-c", line]).out.contains("hello"));
    }
}

/// The user's configuration doesn't apply to a package, but an administrator's locks do.
#[test]
fn only_the_administrator_has_a_say() {
    for place in places() {
        let parcel = Parcel::shell(&place);
        place.write("secret", "secret");
        place.write(".config/palisade/config.toml", "schema = 1\n[filesystem]\nread = [\"~/secret\"]\n");
        let line = "cat ~/secret";
        assert_eq!(place.sh(&[], line).ok(), "secret");
        assert_ne!(parcel.run(&place, &["-c", line]).code, 0);
        place.write("work/.palisade.toml", "schema = 1\n");
        if !place.is_root() {
            continue;
        }
        // An /etc with a lock in it, in this run only.
        let etc = place.home.join("etc");
        std::fs::create_dir_all(etc.join("palisade")).unwrap();
        std::fs::copy("/etc/passwd", etc.join("passwd")).unwrap();
        let with = |config: &str| {
            std::fs::write(etc.join("palisade/config.toml"), config).unwrap();
            let mut bwrap = place.command("bwrap");
            bwrap.args(["--dev-bind", "/", "/", "--bind"]).args([etc.as_path(), Path::new("/etc")]);
            job::finish(
                bwrap.arg(&parcel.file).args(["-c", "cat ~/shown; cat /usr/bin/cat | head -c 4; echo $?"]),
            )
        };
        place.write("shown", "shown");
        let shown = with("schema = 1\n[filesystem]\nread = [\"~/shown\"]\n");
        assert!(shown.out.starts_with("shown"), "an administrator's configuration counts: {shown:?}");
        let hidden = with(
            "schema = 1\n[filesystem]\nread = [\"~/shown\"]\n[locked.filesystem]\ndeny = [\"~/shown\", \"/usr/bin/head\"]\n",
        );
        assert!(!hidden.out.contains("shown") && hidden.err.contains("Permission denied"), "{hidden:?}");
        assert!(!hidden.out.contains("ELF"), "what is packed can be locked, too: {hidden:?}");
    }
}

/// A package that was made without a display uses the display of the host where it runs.
#[test]
fn conditions_of_the_session_are_judged_where_it_runs() {
    for place in places() {
        place.write(
            ".config/palisade/features/session.toml",
            "schema = 1\nname = \"session\"\nwhen = [\"variable PALISADE_SESSION\"]\n[environment]\nset = { SEEN = \"yes\" }\n",
        );
        place.write(
            ".config/palisade/features/absent.toml",
            "schema = 1\nname = \"absent\"\nwhen = [\"exists /usr/no/such\"]\n[environment]\nset = { SEEN = \"no\" }\n",
        );
        let parcel = Parcel::with(&place, "features = [\"session\", \"absent\"]\n");
        // The files from which it was made are no longer used.
        std::fs::remove_dir_all(place.home.join(".config")).unwrap();
        let run = |value: &str| {
            let mut run = place.command(&parcel.file);
            job::finish(run.env("PALISADE_SESSION", value).args(["-c", "echo seen ${SEEN-nothing}"]))
        };
        for _cold_and_hot in 0..2 {
            assert_eq!(run("").ok(), "seen nothing");
            assert_eq!(run("x").ok(), "seen yes");
        }
    }
}

#[test]
fn what_cannot_be_packaged_is_said() {
    for place in places() {
        parcel::profile(&place, "app", "");
        let pack = |profile: &str, more: &[&str]| {
            let mut pack = place.command(place.binary());
            job::finish(pack.args(["package", profile, "--output", "x"]).args(more))
        };
        let bad = |body: &str, words: &[&str]| {
            parcel::profile(&place, "bad", body);
            pack("bad", &[]).refused(2, words).with_hint();
            assert!(!place.work.join("x").exists());
        };
        pack("appp", &[]).refused(2, &["no profile", "did you mean app"]).with_hint();
        bad("[program]\npath = \"no-such-program\"\n", &["isn't on this host"]);
        bad("[filesystem]\nview = \"system\"\n", &["view \"system\"", "closure"]);
        bad("[[hooks.before]]\ncommand = [\"/bin/true\"]\n", &["hooks"]);
        bad("[filesystem]\nwrite = [\"/usr/share\"]\n", &["/usr/share", "files in a package can't change"]);
        let own = place.write("own", "#!/bin/sh\n");
        std::fs::set_permissions(&own, PermissionsExt::from_mode(0o755)).unwrap();
        let run = pack("app", &["--program", &own.to_string_lossy()]);
        run.refused(2, &["own", "system's directories"]).with_hint();
        pack("app", &["--launcher", "/usr/bin/env"]).refused(2, &["no palisade"]).with_hint();
        pack("app", &["--config", "none"]).refused(2, &["no configuration"]).with_hint();
        place.write("work/x", "mine");
        pack("app", &[]).refused(2, &["is there already", "--force"]).with_hint();
        assert_eq!(place.read("work/x"), "mine");
        pack("app", &["--force"]).ok();
        let again = pack("app", &["--launcher", "x", "--force"]);
        again.refused(2, &["is a package already"]).with_hint();
        let mut info = Command::new(place.binary());
        let run = job::finish(info.args(["package", "--info", "/usr/bin/env"]));
        run.refused(2, &["no package"]).with_hint();
    }
}

/// A package is given to others, so it contains no file that only some users of this host may read.
#[test]
fn what_is_private_stays_here() {
    let Some(place) = support::root().filter(|place| parcel::is_static(place.binary())) else {
        eprintln!("not tried: not root, or no static palisade here");
        return;
    };
    let parcel = Parcel::with(&place, "[filesystem]\nread = [\"/etc/shadow\", \"/etc/shells\"]\n");
    place.outside("cat /etc/shadow");
    let files = parcel.run(&place, &["--palisade-files"]);
    assert!(files.ok().contains("/etc/shells") && !files.out.contains("shadow"), "{files:?}");
    assert!(parcel.said.contains("/etc/shadow"), "{}", parcel.said);
}
