// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests what a program that embeds Palisade can do.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::everybody::{Place, children, helper};
use palisade::{Answer, Error, ExitStatus, Message, Stream};
use palisade_acceptance::patience::{Patience, eventually};
use palisade_policy::{NetworkMode, View};
use std::io::{Read, Write};
use std::time::Duration;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_command_runs_inside_and_its_end_is_told() {
    let place = Place::new();
    let sandbox = place.sandbox();
    let run = sandbox.command("sh").args(["-c", "echo out; echo err >&2; exit 3"]).output().unwrap();
    assert_eq!((run.status, text(&run.stdout), text(&run.stderr)), (ExitStatus::Exited(3), "out\n", "err\n"));
    let killed = sandbox.command("sh").args(["-c", "kill -TERM $$"]).status().unwrap();
    assert_eq!((killed, killed.signal(), killed.success()), (ExitStatus::Killed(15), Some(15), false));
    // Other processes can't be seen, and the working directory can be written.
    let run =
        sandbox.command("sh").args(["-c", "ls -d /proc/[0-9]* | wc -l; echo here > made"]).output().unwrap();
    let seen: usize = text(&run.stdout).trim().parse().unwrap();
    assert!((1..8).contains(&seen), "{run:?}");
    assert_eq!(std::fs::read_to_string(place.work().join("made")).unwrap(), "here\n");
    assert_eq!(children(), Vec::<u32>::new());
}

#[test]
fn streams_are_pipes_or_files() {
    let place = Place::new();
    let mut child =
        place.sandbox().command("cat").stdin(Stream::piped()).stdout(Stream::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"through the pipe").unwrap();
    let mut read = String::new();
    child.stdout.take().unwrap().read_to_string(&mut read).unwrap();
    assert_eq!((read.as_str(), child.wait().unwrap()), ("through the pipe", ExitStatus::Exited(0)));
    let to = std::fs::File::create(place.work().join("log")).unwrap();
    place.sandbox().command("echo").arg("filed").stdin(Stream::null()).stdout(to).status().unwrap();
    assert_eq!(std::fs::read_to_string(place.work().join("log")).unwrap(), "filed\n");
}

#[test]
fn what_is_stated_holds() {
    let place = Place::new();
    let secret = place.work().parent().unwrap().join("secret");
    std::fs::write(&secret, "s").unwrap();
    let cat = |sandbox: palisade::Sandbox| sandbox.command("cat").arg(&secret).output().unwrap().status;
    assert_ne!(cat(place.sandbox()), ExitStatus::Exited(0));
    assert_eq!(cat(place.sandbox().read(&secret)), ExitStatus::Exited(0));
    assert_ne!(cat(place.sandbox().read(&secret).deny(&secret)), ExitStatus::Exited(0));
    let run = place
        .sandbox()
        .view(View::Closure)
        .env("GREETING", "hello")
        .hostname("inside")
        .network(NetworkMode::Host)
        .command("sh")
        .args(["-c", "echo $GREETING; cat /proc/sys/kernel/hostname; ls /usr | wc -l"])
        .output()
        .unwrap();
    assert!(text(&run.stdout).starts_with("hello\ninside\n"), "{run:?}");
    // The same statements make the same plan as on the command line.
    let plan = place.sandbox().read(&secret).command("cat").plan().unwrap();
    assert!(plan.steps.iter().any(|step| format!("{step:?}").contains("secret")));
}

#[test]
fn what_cannot_be_is_told_with_a_hint() {
    let place = Place::new();
    let error = place.sandbox().allow("no host!").command("true").spawn().unwrap_err();
    assert!(matches!(error, Error::Statement { what: "a host to allow", .. }), "{error:?}");
    let error = place.sandbox().command("no-such-program").spawn().unwrap_err();
    let Error::Launch { code, hint, .. } = &error else { panic!("{error:?}") };
    assert!(*code == 127 && error.to_string().contains("no-such-program") && hint.is_some(), "{error:?}");
    let error = place.sandbox().read("/no/such/path").command("true").spawn().unwrap_err();
    assert!(matches!(error, Error::Planning(_)) && error.hint().is_some(), "{error:?}");
    let error = place.sandbox().current_dir("/no/such/directory").command("true").spawn().unwrap_err();
    assert!(error.to_string().contains("director"), "{error}");
    assert_eq!(children(), Vec::<u32>::new());
}

#[test]
fn refusals_are_heard_as_events() {
    let place = Place::new();
    let script = "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; exit 0";
    let mut child =
        place.sandbox().command("sh").args(["-c", script]).stderr(Stream::null()).spawn().unwrap();
    let messages: Vec<Message> = child.messages().collect();
    let refused = messages.iter().find_map(|message| match message {
        Message::Event(event) if event.object.to_string().contains(".git/hooks") => Some(event),
        _ => None,
    });
    let event = refused.unwrap_or_else(|| panic!("{messages:?}"));
    assert_eq!(event.verdict, palisade_event::Verdict::Refused);
    assert!(event.hint.as_ref().is_some_and(|hint| hint.starts_with("palisade run ")), "{event:?}");
    assert_eq!(child.wait().unwrap(), ExitStatus::Exited(0));
}

/// A sandbox that asks about every host of the internet. The answer is no, so nothing is sent there.
fn asking(place: &Place) -> palisade::Sandbox {
    place.sandbox().words(|words| {
        words.set_network(NetworkMode::Filtered, 1);
        words.set_fallback(palisade_policy::network::Fallback::Ask, 2);
    })
}

/// A connection is accepted inside, and ended as soon as it is known that it leads nowhere.
const CONNECT: &str = "exec 3<>/dev/tcp/8.8.8.8/80 && cat <&3; exec 3<>/dev/tcp/8.8.8.8/80 && cat <&3; true";

#[test]
fn questions_are_answered_by_the_embedding_program() {
    let place = Place::new();
    // A host that is refused for the session isn't asked about again.
    for (answer, times) in [(Answer::No, 2), (Answer::Never, 1)] {
        let mut command = asking(&place).command("bash");
        let mut child = command.args(["-c", CONNECT]).stderr(Stream::null()).spawn().unwrap();
        let mut asked = Vec::new();
        let mut refused = 0;
        let mut messages = child.messages();
        while let Some(message) = messages.next() {
            match message {
                Message::Question(question) => {
                    messages.answer(&question, answer).unwrap();
                    asked.push(question.action);
                }
                Message::Event(event) if event.object.to_string() == "8.8.8.8:80" => refused += 1,
                _ => {}
            }
        }
        assert_eq!(child.wait().unwrap(), ExitStatus::Exited(0));
        assert_eq!(asked, vec!["reach 8.8.8.8:80"; times], "{answer:?}");
        assert!(refused > 0);
    }
}

#[test]
fn who_waits_answers_no() {
    let place = Place::new();
    let mut patience = Patience::new(Duration::from_secs(30));
    let run = asking(&place).command("bash").args(["-c", CONNECT]).output().unwrap();
    assert!(run.stdout.is_empty() && !patience.is_spent(), "{run:?}");
}

#[test]
fn a_sandbox_that_is_killed_or_dropped_is_gone() {
    let place = Place::new();
    let alive = |pid: i32| std::path::Path::new(&format!("/proc/{pid}")).exists();
    for kill in [true, false] {
        let script = "sleep 600 & sleep 600 & wait";
        let mut child = place.sandbox().command("sh").args(["-c", script]).spawn().unwrap();
        let (command, init) = (child.id(), child.init().unwrap());
        assert!(alive(command) && alive(init) && child.try_wait().unwrap().is_none());
        if kill {
            child.kill().unwrap();
            assert_eq!(child.wait().unwrap(), ExitStatus::Killed(9));
        } else {
            drop(child);
        }
        assert!(eventually(Duration::from_secs(10), || !alive(command) && !alive(init)));
        assert_eq!(children(), Vec::<u32>::new());
    }
    let mut child = place.sandbox().command("sleep").arg("600").spawn().unwrap();
    child.signal(15).unwrap();
    assert_eq!(child.wait().unwrap(), ExitStatus::Killed(15));
}

/// Another process kills the launcher.
#[test]
fn without_who_launches_nothing_goes_on() {
    let place = Place::new();
    let mut child = place.sandbox().command("sleep").arg("600").spawn().unwrap();
    let launcher = children();
    let [launcher] = launcher.as_slice() else { panic!("{launcher:?}") };
    let status = std::process::Command::new("kill").args(["-KILL", &launcher.to_string()]).status().unwrap();
    assert!(status.success());
    assert_eq!(child.wait().unwrap(), ExitStatus::Killed(9));
    let gone = || !std::path::Path::new(&format!("/proc/{}", child.id())).exists();
    assert!(eventually(Duration::from_secs(10), gone));
}

/// A plan is made once. It is made again when its inputs have changed.
#[test]
fn plans_are_kept_until_they_are_stale() {
    let place = Place::new();
    let config = place.work().parent().unwrap().join("config/palisade");
    std::fs::create_dir_all(&config).unwrap();
    let file = config.join("config.toml");
    std::fs::write(&file, "schema = 1\n").unwrap();
    let sandbox = place.sandbox();
    let name = || {
        let run = sandbox.command("cat").arg("/proc/sys/kernel/hostname").output().unwrap();
        text(&run.stdout).trim().to_owned()
    };
    let before = name();
    assert_eq!(name(), before);
    std::fs::write(&file, "schema = 1\n[process]\nhostname = \"another\"\n").unwrap();
    assert_eq!(name(), "another");
}

/// `palisade ps` lists what a program has started, by name and number.
#[test]
fn a_sandbox_is_listed_by_its_name() {
    let place = Place::new();
    let runtime = place.work().join("runtime");
    std::fs::create_dir(&runtime).unwrap();
    let sandbox = place.sandbox().variable("XDG_RUNTIME_DIR", &runtime);
    let mut command = sandbox.command("sleep");
    let mut child = command.arg("612").name("web").spawn().unwrap();
    let list = || {
        let mut ps = std::process::Command::new(helper().path());
        let output = ps.arg("ps").env("XDG_RUNTIME_DIR", &runtime).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let line = list().lines().find(|line| line.contains("sleep 612")).unwrap().to_owned();
    assert!(line.starts_with(child.number()) && line.contains(" web "), "{line} {}", child.number());
    // Two running sandboxes can't have the same name, and not every text is a name.
    for (name, why) in [("web", "web"), ("../web", "only letters")] {
        let Err(Error::Launch { message, .. }) = command.name(name).spawn() else { panic!("{name}") };
        assert!(message.contains(why), "{message}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!list().contains("sleep 612"));
}

/// Programs inside can cause refusals without end. Each refusal is reported or counted.
#[test]
fn however_many_refusals_there_are_each_counts() {
    let place = Place::new();
    let script =
        "mkdir -p .git/hooks; i=0; while [ $i -lt 6000 ]; do echo > .git/hooks/n$i; i=$((i+1)); done; true";
    let mut command = place.sandbox().command("sh");
    let mut child = command.args(["-c", script]).stderr(Stream::null()).spawn().unwrap();
    assert_eq!(child.wait().unwrap(), ExitStatus::Exited(0));
    let (mut refusals, mut events) = (0, 0);
    for message in child.messages() {
        match message {
            Message::Event(event) => (refusals, events) = (refusals + event.count, events + 1),
            Message::Lost(count) => refusals += count,
            _ => {}
        }
    }
    assert!(refusals == 6000 && events < 6000, "{refusals} {events}");
}

/// Without namespaces, no init exists whose end ends everything. The command itself is ended.
#[test]
fn without_namespaces_a_command_that_is_dropped_is_gone_too() {
    let place = Place::new();
    let sandbox = place.sandbox().without_namespaces().best_effort(true).network(NetworkMode::Host);
    let mut command = sandbox.protect(palisade::Protect::Off).command("sleep");
    let child = command.arg("611").spawn().unwrap();
    let command = child.id();
    let gone = || !std::path::Path::new(&format!("/proc/{command}")).exists();
    assert!(!gone());
    drop(child);
    assert!(eventually(Duration::from_secs(10), gone));
}
