// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade ps`: what it lists, what happens when processes are killed, and which processes can influence the list.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{Place, Run, eventually, everybody, job, ordinary, root};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A duration that no other test sleeps: by it a command is known.
fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("600.{}{:04}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Starts something that stays.
fn start(command: &mut Command) -> Started {
    Started(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// Something that was started, and ends with its test.
struct Started(Child);

impl Deref for Started {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Started {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ended_already = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// A place with its own session directory, so that no other sandbox is listed there.
struct Session {
    place: Place,
    runtime: PathBuf,
}

impl Session {
    fn of(place: Place) -> Self {
        let runtime = place.home.join("runtime");
        fs::DirBuilder::new().mode(0o700).create(&runtime).unwrap();
        chown(&runtime, Some(place.uid), Some(place.gid)).unwrap();
        Self { place, runtime }
    }

    fn everybodys() -> Vec<Self> {
        everybody().into_iter().map(Self::of).collect()
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.place.command(program);
        command.env("XDG_RUNTIME_DIR", &self.runtime);
        command
    }

    /// `palisade ARGUMENTS`.
    fn palisade(&self, arguments: &[&str]) -> Command {
        let mut palisade = self.command(self.place.binary());
        palisade.args(arguments);
        palisade
    }

    fn run(&self, arguments: &[&str]) -> Run {
        job::finish(&mut self.palisade(arguments))
    }

    /// Starts something that stays.
    fn start(&self, arguments: &[&str]) -> Started {
        start(&mut self.palisade(arguments))
    }

    /// All listed sandboxes whose command has this word. Others may be listed, too: of places without a session, and for root
    /// those of all users.
    fn all(&self, word: &str) -> Vec<Value> {
        let run = self.run(&["ps", "--json"]);
        let json: Value = serde_json::from_str(run.ok()).unwrap();
        assert_eq!(json["schema"], 1);
        let has = |sandbox: &&Value| {
            sandbox["command"].as_array().unwrap().iter().any(|own| own.as_str().unwrap().contains(word))
        };
        json["sandboxes"].as_array().unwrap().iter().filter(has).cloned().collect()
    }

    /// What is listed of the command with this word, if it is.
    fn find(&self, word: &str) -> Option<Value> {
        let mut found = self.all(word);
        assert!(found.len() < 2, "{found:?}");
        found.pop()
    }

    /// Waits until it is.
    #[track_caller]
    fn found(&self, word: &str) -> Value {
        let mut found = None;
        assert!(
            eventually(|| {
                found = self.find(word);
                found.is_some()
            }),
            "{word} isn't listed"
        );
        found.unwrap()
    }

    #[track_caller]
    fn assert_gone(&self, word: &str) {
        assert!(eventually(|| self.find(word).is_none()), "{:?}", self.find(word));
    }

    /// The registry's file.
    fn file(&self) -> PathBuf {
        self.runtime.join("palisade/sandboxes")
    }

    /// Whether no slot of the file is in use.
    fn is_empty(&self) -> bool {
        fs::read(self.file()).unwrap().chunks(2048).all(|slot| slot.iter().take(16).all(|byte| *byte == 0))
    }
}

fn pid(of: &Value, which: &str) -> Pid {
    let number = of["pids"][which].as_i64().unwrap_or_else(|| panic!("no {which} in {of}"));
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

fn kill(of: &Value, which: &str) {
    kill_process(pid(of, which), Signal::KILL).unwrap();
}

#[test]
fn what_runs_is_listed_with_how_it_is_kept() {
    for session in Session::everybodys() {
        let profile = session.place.write("web.toml", "schema = 1\n[process]\nhostname = \"web\"\n");
        let profile = profile.to_str().unwrap();
        let (name, duration) = ("a-name", unique());
        let mut child =
            session.start(&["run", "--name", name, "--profile", profile, "--", "sleep", &duration]);
        let found = session.found(&duration);
        assert_eq!(found["name"], name);
        assert_eq!((&found["tier"], &found["network"]), (&"full".into(), &"none".into()));
        assert_eq!((&found["state"], &found["user"]), (&"running".into(), &session.place.uid.into()));
        assert_eq!(found["profile"], "web");
        assert_eq!(found["policies"], serde_json::json!([profile]));
        assert_eq!(found["command"], serde_json::json!(["sleep", duration]));
        assert_eq!((&found["processes"], &found["at_least"]), (&1.into(), &false.into()));
        assert_eq!(found["pids"]["launcher"], child.id());
        let id = found["id"].as_str().unwrap();
        assert!(id.starts_with(&format!("{}-", child.id())), "{id}");
        let comm = |which: &str| {
            fs::read_to_string(format!("/proc/{}/comm", pid(&found, which).as_raw_nonzero())).unwrap()
        };
        assert_eq!((comm("init").as_str(), comm("command").as_str()), ("palisade-init\n", "sleep\n"));

        assert!(session.run(&["ps", "-q"]).ok().lines().any(|line| line == id));
        let table = session.run(&["ps"]);
        let heading = table.ok().lines().next().unwrap();
        let line = table.ok().lines().find(|line| line.starts_with(id)).unwrap();
        assert!(heading.starts_with("ID ") && heading.ends_with("COMMAND"), "{table:?}");
        assert_eq!(heading.contains(" USER "), session.place.is_root());
        for word in [id, name, "web", "full", "none", "1", "ago", &format!("sleep {duration}")] {
            assert!(line.contains(word), "{word:?} in {table:?}");
        }
        kill(&found, "command");
        child.wait().unwrap();
        assert!(session.find(&duration).is_none() && session.is_empty());
        assert!(!session.run(&["ps", "-q"]).ok().contains(id));
    }
}

#[test]
fn every_kind_of_launch_is_listed() {
    for session in Session::everybodys() {
        let application = "schema = 1\n[program]\npath = \"/bin/sleep\"\n";
        let application = session.place.write("sleeper.toml", application);
        let open = ["open", application.to_str().unwrap()];
        let mut kinds: Vec<(&[&str], &str, &str)> = vec![
            (&["run", "--", "sleep"], "full", "none"),
            (&["run", "--net", "host", "--", "sleep"], "full", "host"),
            (&["run", "--allow", "example.org", "--", "sleep"], "full", "filtered"),
            (&["run", "--protect", "off", "--", "sleep"], "full", "none"),
            (&["learn", "--dry-run", "--", "sleep"], "full", "none"),
            (&open, "full", "none"),
        ];
        kinds.push((&["run", "--namespaces", "none", "--", "sleep"], "landlock", "none"));
        kinds.push((&["run", "--namespaces", "none", "--net", "host", "--", "sleep"], "landlock", "host"));
        kinds.push((&["run", "--namespaces", "none", "--timings", "--", "sleep"], "landlock", "none"));
        // Twice, the second time by a kept plan.
        for (arguments, tier, network) in kinds.iter().chain(&kinds) {
            let duration = unique();
            let mut child = session.start(&[arguments, &[duration.as_str()][..]].concat());
            let found = session.found(&duration);
            assert_eq!((&found["tier"], &found["network"]), (&(*tier).into(), &(*network).into()), "{found}");
            assert_eq!((&found["state"], &found["processes"]), (&"running".into(), &1.into()), "{found}");
            assert_eq!(found["at_least"], *tier == "landlock", "{found}");
            let opened = arguments[0] == "open";
            assert_eq!(found["profile"] == "sleeper", opened, "{found}");
            kill(&found, "command");
            child.wait().unwrap();
            session.assert_gone(&duration);
        }
        assert!(session.is_empty());
    }
}

#[test]
fn processes_are_counted() {
    for session in Session::everybodys() {
        let duration = unique();
        // One becomes an orphan.
        let line = format!("(sleep {duration} &); sleep {duration} & sleep {duration} & wait");
        let mut child = session.start(&["run", "--", "sh", "-c", &line]);
        assert!(eventually(|| session.find(&duration).is_some_and(|found| found["processes"] == 4)));
        let found = session.found(&duration);
        kill(&found, "launcher");
        child.wait().unwrap();
        session.assert_gone(&duration);
        let mut child = session.start(&["run", "--namespaces", "none", "--", "sh", "-c", &line]);
        let seen = |found: Value| found["processes"] == 3 && found["at_least"] == true;
        assert!(eventually(|| session.find(&duration).is_some_and(seen)));
        assert!(session.run(&["ps"]).ok().contains("  3+ "));
        let all =
            format!("for p in $(pgrep -xf 'sleep {duration}'); do kill -9 $p; done; kill -9 {}", child.id());
        session.place.outside(&all);
        child.wait().unwrap();
    }
}

#[test]
fn whoever_is_killed_nothing_stays_listed() {
    for session in Session::everybodys() {
        for which in ["launcher", "init", "command"] {
            let duration = unique();
            let mut child = session.start(&["run", "--", "sleep", &duration]);
            let found = session.found(&duration);
            kill(&found, which);
            child.wait().unwrap();
            session.assert_gone(&duration);
            assert!(session.is_empty(), "{which}");
        }
    }
}

#[test]
fn many_launchers_killed_at_once_leave_nothing() {
    for session in Session::everybodys() {
        let duration = unique();
        let mut children: Vec<Started> =
            (0..40).map(|_| session.start(&["run", "--", "sleep", &duration])).collect();
        assert!(eventually(|| session.all(&duration).len() == 40), "{}", session.all(&duration).len());
        let ids: std::collections::BTreeSet<String> =
            session.all(&duration).iter().map(|found| found["id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(ids.len(), 40);
        children.iter_mut().for_each(|child| child.kill().unwrap());
        children.iter_mut().for_each(|child| _ = child.wait().unwrap());
        assert!(eventually(|| session.all(&duration).is_empty()), "{:?}", session.all(&duration));
        assert!(session.is_empty());
        // The entries that killed launchers left don't hinder new launches either, without a `palisade ps` in between.
        let mut children: Vec<Started> =
            (0..10).map(|_| session.start(&["run", "--", "sleep", &duration])).collect();
        assert!(eventually(|| session.all(&duration).len() == 10));
        children.iter_mut().for_each(|child| _ = child.kill().and_then(|()| child.wait()).unwrap());
        for _ in 0..10 {
            session.run(&["run", "--", "true"]).ok();
        }
        assert!(eventually(|| session.all(&duration).is_empty()));
    }
}

#[test]
fn a_command_that_only_landlock_holds_is_listed_for_as_long_as_it_lives() {
    for session in Session::everybodys() {
        let duration = unique();
        // The launcher has become the command.
        let alone = ["run", "--namespaces", "none", "--protect", "off"];
        let mut child = session.start(&[&alone[..], &["--", "sleep", &duration]].concat());
        let found = session.found(&duration);
        assert_eq!(found["pids"]["launcher"], found["pids"]["command"]);
        assert!(!session.is_empty());
        child.kill().unwrap();
        // It has ended, although its parent hasn't waited for it yet.
        session.assert_gone(&duration);
        child.wait().unwrap();
        assert!(session.is_empty());

        // It has a launcher, which is killed.
        let duration = unique();
        let mut child = session.start(&[&alone[..], &["--timings", "--", "sleep", &duration]].concat());
        let found = session.found(&duration);
        assert_ne!(found["pids"]["launcher"], found["pids"]["command"]);
        child.kill().unwrap();
        child.wait().unwrap();
        let left = session.found(&duration);
        assert_eq!((&left["state"], &left["id"]), (&"unattended".into(), &found["id"]));
        // New launches don't overwrite its entry.
        for _ in 0..20 {
            session.run(&["run", "--", "true"]).ok();
        }
        session.found(&duration);
        kill(&found, "command");
        session.assert_gone(&duration);
        assert!(session.is_empty());
    }
}

#[test]
fn one_that_could_not_become_its_command_is_not_listed() {
    for session in Session::everybodys() {
        let run = session.run(&["run", "--namespaces", "none", "--protect", "off", "--", "/no/such/program"]);
        assert_eq!(run.code, 127, "{run:?}");
        assert!(session.all("/no/such/program").is_empty() && session.is_empty());
    }
}

#[test]
fn a_name_is_one_sandboxs() {
    for session in Session::everybodys() {
        let duration = unique();
        let mut child = session.start(&["run", "--name", "web", "--", "sleep", &duration]);
        let found = session.found(&duration);
        // The first time by the long way, then by a kept plan.
        for _ in 0..3 {
            session
                .run(&["run", "--name", "web", "--", "true"])
                .refused(125, &["\"web\" is running"])
                .with_hint();
            session.run(&["run", "--name=web", "--", "true"]).refused(125, &["palisade ps"]);
        }
        session.run(&["run", "--name", "web2", "--", "true"]).ok();
        session.run(&["run", "--", "true"]).ok();
        kill(&found, "launcher");
        child.wait().unwrap();
        assert!(eventually(|| session.run(&["run", "--name", "web", "--", "true"]).code == 0));
        for bad in ["", "-x", "a b", "a/b", "12-abcdef", "web\u{1b}[2J"] {
            let run = session.run(&["run", &format!("--name={bad}"), "--", "true"]);
            assert_eq!(run.code, 125, "{bad:?}: {run:?}");
            assert!(!run.err.contains('\u{1b}'), "{run:?}");
        }
        // With a name the launcher stays, because a process must hold the name.
        let duration = unique();
        let mut child =
            session.start(&["run", "--namespaces", "none", "--name", "web", "--", "sleep", &duration]);
        let found = session.found(&duration);
        assert_ne!(found["pids"]["launcher"], found["pids"]["command"]);
        session.run(&["run", "--name", "web", "--", "true"]).refused(125, &["\"web\" is running"]);
        kill(&found, "command");
        child.wait().unwrap();
    }
}

#[test]
fn refusals_have_the_number_and_the_name_that_are_listed() {
    for session in Session::everybodys() {
        let duration = unique();
        let line =
            format!("mkdir -p .git; mkdir .git/hooks; echo x >.git/hooks/pre-commit; sleep {duration}");
        let mut child = session.start(&["run", "--name", "web", "--", "sh", "-c", &line]);
        let found = session.found(&duration);
        let id = found["id"].as_str().unwrap();
        let events = |filter: &str| -> Vec<Value> {
            let run = session.run(&["watch", "--all", "--no-follow", "--json", "--sandbox", filter]);
            run.ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        assert!(eventually(|| !events(id).is_empty()));
        for event in events(id) {
            assert_eq!(
                (&event["sandbox"], &event["subject"]["sandbox"]),
                (&id.into(), &"web".into()),
                "{event}"
            );
        }
        assert_eq!(events(id), events("web"));
        kill(&found, "command");
        child.wait().unwrap();
    }
}

/// Outside the file can be read and written; inside, whatever of the places above it is granted, neither.
#[test]
fn nothing_inside_reads_or_forges_an_entry() {
    for session in Session::everybodys() {
        let duration = unique();
        let mut child = session.start(&["run", "--name", "web", "--", "sleep", &duration]);
        let found = session.found(&duration);
        let (file, runtime) = (session.file(), session.runtime.to_str().unwrap().to_owned());
        let (file, home) = (file.to_str().unwrap(), session.place.home.to_str().unwrap().to_owned());
        let mut before = fs::read(file).unwrap();
        let at = before.chunks(2048).position(|slot| slot.iter().any(|byte| *byte != 0)).unwrap() * 2048;
        before.resize(at + 200, 0);
        let launcher = pid(&found, "launcher").as_raw_nonzero();
        let attack = format!(
            "cat {file}; echo forged >>{file}; echo forged >{runtime}/palisade/other; \
             mv {runtime}/palisade {runtime}/aside; mv {runtime} {runtime}-aside; rm -rf {runtime}/palisade; \
             mkdir -p {runtime}/palisade && echo forged >{file}; \
             for fd in /proc/{launcher}/fd/*; do cat $fd </dev/null; echo forged >$fd; done"
        );
        let by_hand = session.place.outside(&format!("cat {file} | tr -d '\\0'"));
        assert!(by_hand.contains(&duration), "it can be read outside");
        let mut options: Vec<Vec<&str>> = vec![
            vec![],
            vec!["--view", "host"],
            vec!["--ro", &runtime],
            vec!["--rw", &runtime],
            vec!["--rw", &home],
            vec!["--net", "host", "--rw", &home],
        ];
        options.push(vec!["--namespaces", "none"]);
        for options in options {
            let run = session.run(&[&["run"], options.as_slice(), &["--", "sh", "-c", &attack]].concat());
            assert!(!run.out.contains(&duration), "{options:?}: {run:?}");
            // The entries of the attackers came and went. This one is unchanged, and no other process has written to the file.
            let mut now = fs::read(file).unwrap();
            now.resize(now.len() + 2048, 0);
            assert!(now[at..at + 200] == before[at..], "{options:?}: {run:?}");
            assert!(!now.windows(7).any(|bytes| bytes == b"forged\n"), "{options:?}: {run:?}");
            let names = fs::read_dir(session.runtime.join("palisade")).unwrap().count();
            assert_eq!(names, 1, "{options:?}");
        }
        let directory = format!("{runtime}/palisade");
        session.run(&["run", "--rw", &directory, "--", "true"]).refused(125, &["Palisade itself obeys"]);
        let run = session.run(&["run", "--ro", &directory, "--", "ls", "-A", &directory]);
        assert_eq!(run.out, "", "{run:?}");
        for option in ["--ro", "--rw"] {
            for path in [&directory, &runtime, &home] {
                let options = ["run", "--namespaces", "none", option, path, "--", "sh", "-c", &attack];
                session.run(&options).refused(125, &["Palisade's own files stay outside"]).with_hint();
            }
        }
        assert_eq!(session.found(&duration)["name"], "web");
        kill(&found, "command");
        child.wait().unwrap();
    }
}

/// The same without a session, where the directory lies in `/tmp`; also when it isn't there yet.
#[test]
fn nothing_inside_reaches_the_directory_in_tmp() {
    for place in everybody() {
        let directory = format!("/tmp/palisade-{}", place.uid);
        let attack = format!("mkdir -p {directory}; echo forged >{directory}/forged && cat {directory}/*");
        for options in [&["--rw", "/tmp"][..], &["--ro", "/tmp"], &["--view", "host", "--rw", "/tmp"]] {
            let run = place.sh(options, &attack);
            assert!(!run.out.contains("forged") || !Path::new(&directory).join("forged").exists(), "{run:?}");
            assert!(!Path::new(&directory).join("forged").exists(), "{options:?}: {run:?}");
        }
        // Outside it can be.
        place.outside(&format!("echo x >{directory}/palisade-test && rm {directory}/palisade-test"));
        let mut command = place.palisade(&["--namespaces", "none"], &["sh", "-c", &attack]);
        let run = job::finish(command.current_dir("/tmp"));
        assert!(run.err.contains("the working directory isn't shown"), "{run:?}");
        assert!(!Path::new(&directory).join("forged").exists(), "{run:?}");
    }
}

/// Runs a script as root where `/tmp` is empty and private; `$P` is palisade as the user of the place.
fn in_private_tmp(place: &Place, options: &str, script: &str) -> Run {
    let binary = place.binary().display().to_string();
    let (uid, gid) = (place.uid, place.gid);
    let person = format!("setpriv --reuid {uid} --regid {gid} --clear-groups {binary}");
    let script = format!(
        "mount -t tmpfs {options} tmpfs /tmp || exit 99\nP='{person}'\nD=/tmp/palisade-{uid}\n{script}"
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", &script]).current_dir(&place.work).env_clear();
    unshare.env("PATH", crate::support::PATH).env("HOME", &place.home).env("USER", place.name());
    job::finish(&mut unshare)
}

#[test]
fn a_directory_that_others_have_a_hand_in_is_refused_once_and_the_launch_goes_on() {
    if root().is_none() {
        return;
    }
    for place in everybody() {
        let other = place.uid + 1;
        for (squat, reason) in [
            (format!("mkdir -m 700 $D; chown {other} $D"), format!("belongs to user {other}")),
            (format!("mkdir -m 770 $D; chown {}:{other} $D", place.uid), "mode 0770".to_owned()),
            (
                format!("mkdir -m 700 /tmp/x; chown {} /tmp/x; ln -s x $D", place.uid),
                "no directory".to_owned(),
            ),
            ("echo >$D".to_owned(), "no directory".to_owned()),
        ] {
            let script = format!(
                "{squat}; look() {{ ls -ldn --full-time $D; ls -lAn --full-time $D/; }}; look >/tmp/before\n\
                 $P run -- echo ran; $P run -- echo again; $P run --quiet -- echo quietly\n\
                 $P ps; echo code $?; look | cmp - /tmp/before"
            );
            let run = in_private_tmp(&place, "-o mode=1777", &script);
            assert!(run.out.contains("ran\nagain\nquietly\n") && run.out.contains("code 2\n"), "{run:?}");
            let notes = run.err.matches("palisade: note: palisade ps won't list this sandbox").count();
            assert_eq!(notes, 2, "once in each launch: {run:?}");
            assert!(run.err.contains("palisade: error: ") && run.err.contains("hint: ls -ld"), "{run:?}");
            assert_eq!(run.err.matches(&reason).count(), 3, "{reason}: {run:?}");
            assert_eq!(run.code, 0, "nothing is changed there: {run:?}");
        }
    }
}

#[test]
fn a_full_disk_and_no_directory_at_all_are_no_reason_not_to_run() {
    if root().is_none() {
        return;
    }
    for place in everybody() {
        // Room for the directory and the file, and for nothing in it.
        let script = "mkdir -m 700 $D; chown --reference=/proc/self/fd/9 $D 9<.\n\
                      dd if=/dev/zero of=/tmp/full bs=4096 2>/dev/null\n\
                      $P run -- echo ran; $P ps -q; echo code $?; rm /tmp/full\n\
                      $P run -- echo again";
        let run = in_private_tmp(&place, "-o mode=1777,size=64k", script);
        assert_eq!((run.code, run.out.as_str()), (0, "ran\ncode 0\nagain\n"), "{run:?}");
        assert_eq!(run.err.matches("won't list this sandbox").count(), 1, "{run:?}");
        assert!(run.err.contains("No space left"), "{run:?}");

        let script = "mount -o remount,ro /tmp\n$P run -- echo ran; $P ps -q; echo code $?";
        let run = in_private_tmp(&place, "-o mode=1777", script);
        assert_eq!((run.code, run.out.as_str()), (0, "ran\ncode 0\n"), "{run:?}");
        assert!(!run.err.contains("won't list"), "{run:?}");
        assert!(
            run.err.contains("note: launches from here aren't listed") && run.err.contains("hint: "),
            "{run:?}"
        );
    }
}

#[test]
fn half_entries_and_garbage_go() {
    for session in Session::everybodys() {
        let duration = unique();
        let mut child = session.start(&["run", "--", "sleep", &duration]);
        let found = session.found(&duration);
        let path = session.file();
        let file = fs::File::options().read(true).write(true).open(&path).unwrap();
        // Half of a record, and bytes that aren't a record.
        let whole = fs::read(&path).unwrap();
        let at = whole.chunks(2048).position(|slot| slot.iter().any(|byte| *byte != 0)).unwrap();
        let record = &whole[at * 2048..];
        file.write_all_at(&record[..30], 20 * 2048).unwrap();
        file.write_all_at(&[0x55; 2048], 21 * 2048).unwrap();
        assert_eq!(session.all(&duration).len(), 1);
        let now = fs::read(&path).unwrap();
        assert!(now[20 * 2048..20 * 2048 + 16].iter().all(|byte| *byte == 0));
        assert!(now[21 * 2048..21 * 2048 + 16].iter().all(|byte| *byte == 0));
        kill(&found, "command");
        child.wait().unwrap();
        // A file that can't be a registry doesn't stop a launch either.
        drop(file);
        fs::remove_file(&path).unwrap();
        symlink("/etc/passwd", &path).unwrap();
        let run = session.run(&["run", "--", "true"]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.err.contains("won't list this sandbox"), "{run:?}");
        session.run(&["ps"]).refused(2, &["list of running sandboxes"]).with_hint();
        session.run(&["ps", "--json"]).refused(2, &[]);
    }
}

#[test]
fn root_sees_everybodys_and_an_ordinary_user_their_own() {
    let Some(root) = root() else { return };
    let (user, root) = (ordinary(), Session::of(root));
    let (users, roots) = (unique(), unique());
    let mut command =
        user.palisade(&["--quiet"], &["sh", "-c", &format!("sleep {users}; : \u{1b}[2J\u{202e}")]);
    let mut users_child = start(&mut command);
    let mut roots_child = root.start(&["run", "--", "sleep", &roots]);
    let found = root.found(&users);
    assert_eq!(found["user"], user.uid);
    let own = root.found(&roots);
    let table = root.run(&["ps"]);
    let line = table.ok().lines().find(|line| line.contains(&users)).unwrap().to_owned();
    assert!(line.contains(&format!(" {} ", user.name())) && line.contains("\\u{1b}[2J\\u{202e}"), "{line}");
    assert!(!root.run(&["ps", "--json"]).ok().contains('\u{1b}'));
    // The user's root isn't this one.
    let seen = job::finish(user.command(user.binary()).args(["ps", "--json"]));
    assert!(seen.ok().contains(&users) && !seen.ok().contains(&roots), "{seen:?}");
    kill(&found, "launcher");
    users_child.wait().unwrap();
    // Root reads what others have; it is theirs to remove.
    assert!(eventually(|| root.find(&users).is_none()));
    assert!(job::finish(user.command(user.binary()).args(["ps", "-q"])).code == 0);
    kill(&own, "command");
    roots_child.wait().unwrap();
}

#[test]
fn what_users_make_up_misleads_root_about_nobody_else() {
    let Some(root) = root() else { return };
    let place = ordinary();
    let (uid, other) = (place.uid, place.uid + 7);
    let duration = unique();
    // A directory of a user's that is called like another's, one that leads elsewhere, and one with a link for a file.
    let script = format!(
        "cd /tmp; setpriv --reuid {uid} --regid {uid} --clear-groups sh -ec '\
           mkdir -m 700 palisade-{other}; ln -s / palisade-{}; mkdir -m 700 palisade-{uid}; mkfifo palisade-{uid}/sandboxes'\n\
         $P ps; echo code $?\n\
         rm palisade-{uid}/sandboxes\n\
         setpriv --reuid {uid} --regid {uid} --clear-groups {} run -- sleep {duration} & \n\
         for n in $(seq 100); do $P ps | grep {duration} && break; sleep 0.05; done\n\
         cp palisade-{uid}/sandboxes palisade-{other}/sandboxes; $P ps | grep -c {duration}; kill $!; wait",
        other + 1,
        place.binary().display()
    );
    let run = in_private_tmp(&root, "-o mode=1777", &script);
    assert!(run.out.contains("code 0\n"), "{run:?}");
    assert!(
        run.err.contains(&format!("palisade-{other}\" isn't trusted: it belongs to user {uid}")),
        "{run:?}"
    );
    assert!(
        run.err.contains("no directory") && run.err.contains("isn't a regular file that only its user"),
        "{run:?}"
    );
    assert!(run.out.trim_end().ends_with("\n1"), "{run:?}");
}

#[test]
fn the_directory_is_private_whatever_the_mask() {
    for session in Session::everybodys() {
        let binary = session.place.binary().display().to_string();
        let mut shell = session.command("/bin/sh");
        let run = job::finish(shell.args(["-c", &format!("umask 000; {binary} run -- true")]));
        assert_eq!(run.code, 0, "{run:?}");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(&session.runtime.join("palisade")), 0o700);
        assert_eq!(mode(&session.file()), 0o600);
    }
}

#[test]
fn a_session_that_is_not_theirs_is_left_for_tmp() {
    for place in everybody() {
        let duration = unique();
        for runtime in ["/nonexistent", "/proc/1", "relative"] {
            let mut command = place.palisade(&["--quiet"], &["sleep", &duration]);
            let mut child = start(command.env("XDG_RUNTIME_DIR", runtime));
            let listed = || {
                let mut ps = place.command(place.binary());
                let run = job::finish(ps.args(["ps"]).env("XDG_RUNTIME_DIR", runtime));
                assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
                run.out.contains(&duration)
            };
            assert!(eventually(listed), "{runtime}");
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(eventually(|| !listed()));
        }
    }
}

#[test]
fn nobody_who_reads_no_more_is_a_failure() {
    for session in Session::everybodys() {
        let binary = session.place.binary().display().to_string();
        let run = job::finish(
            session
                .command("/bin/sh")
                .args(["-c", &format!("{binary} ps | true; {binary} ps >/dev/full; echo $?")]),
        );
        assert!(run.out.ends_with("2\n") && !run.err.contains("panicked"), "{run:?}");
        session.run(&["ps", "--json", "--quiet"]).refused(2, &[]);
        session.run(&["ps", "extra"]).refused(2, &[]);
    }
}
