// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests scopes with a real palisaded and a real `palisade scope`, on a kernel that calls programs at its security hook,
//! and (`plain`) on one that doesn't.
//!
//! - [`attempt`]: ways to have a program run
//! - [`evasions`]: tries each way outside of a scope and inside
//! - [`lives`]: the daemon is killed, its programs are reused and cleared
//! - [`plain`]: the features that older kernels lack, one by one

pub(crate) mod attempt;
mod evasions;
mod lives;
pub(crate) mod plain;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use palisade_event::{Detail, Event, Object, Operation, Scope as Detailed, Verdict as Told};
use palisade_protocol::Connection;
use palisade_protocol::scope::{Request, Response, SOCKET, Status};
use rustix::process::Signal;

use crate::archive::{DAEMON, PALISADE};
use crate::daemon::PATIENCE;
use crate::scenario::{Result, copy, ensure, report};

const LOG: &str = "/log";
pub(crate) const PINS: &str = "/sys/fs/bpf/palisade/scope";

pub(crate) struct Daemon(Child);

impl Daemon {
    /// Starts it with these settings and options, and waits until it answers.
    pub(crate) fn start(settings: &str, options: &[&str]) -> Result<Self> {
        let failed = |what: &'static str| move |error: std::io::Error| format!("{what}: {error}");
        for directory in ["/etc/palisade", "/run/palisade", "/var/lib/palisade", "/tmp", "/bin"] {
            fs::create_dir_all(directory).map_err(failed("make a directory"))?;
        }
        fs::write("/etc/palisade/scopes.toml", format!("schema = 1\n{settings}\n"))
            .map_err(failed("settings"))?;
        let log = File::options().create(true).append(true).open(LOG).map_err(failed("log"))?;
        let child = Command::new(DAEMON)
            // A system call that the daemon should not need ends it.
            .args(["--only", "scopes", "--other-calls", "kill"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(failed("start palisaded"))?;
        let mut daemon = Self(child);
        let end = Instant::now() + PATIENCE;
        while std::os::unix::net::UnixStream::connect(SOCKET).is_err() {
            if let Ok(Some(ended)) = daemon.0.try_wait() {
                return Err(format!("palisaded ended ({ended}): {}", said()));
            }
            ensure(Instant::now() < end, format!("palisaded isn't ready: {}", said()))?;
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(daemon)
    }

    pub(crate) fn end(mut self, signal: Signal) -> Result {
        let pid = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.ok_or("no process")?, signal)
            .map_err(|error| format!("kill: {error}"))?;
        self.0.wait().map(drop).map_err(|error| format!("wait: {error}"))
    }
}

/// A daemon for one scenario. Afterwards nothing of it is left, whatever the result is.
pub(crate) fn served(settings: &str, options: &[&str], scenario: impl FnOnce() -> Result) -> Result {
    let daemon = Daemon::start(settings, options)?;
    let result = scenario();
    let cleared = ask(&Request::Clear { scope: None });
    daemon.end(Signal::TERM)?;
    result?;
    cleared?;
    ensure(!fs::exists(PINS).unwrap_or(true), "the pins are still there")
}

pub(crate) fn said() -> String {
    fs::read_to_string(LOG).unwrap_or_default()
}

fn converse() -> Result<Connection> {
    Connection::open(std::path::Path::new(SOCKET), "guest").map_err(|error| format!("connect: {error}"))
}

pub(crate) fn ask(request: &Request) -> Result<Response> {
    let mut connection = converse()?;
    connection.send(request).map_err(|error| error.to_string())?;
    connection.receive_within(Some(PATIENCE)).map_err(|error| error.to_string())
}

pub(crate) fn status() -> Result<Status> {
    match ask(&Request::Status)? {
        Response::Status(status) => Ok(*status),
        other => Err(format!("{other:?}")),
    }
}

/// The remembered events.
pub(crate) fn events() -> Result<Vec<Event>> {
    let mut connection = converse()?;
    let request = Request::Follow { scope: None, past: true, end: true, refused: false };
    connection.send(&request).map_err(|error| error.to_string())?;
    let mut events = Vec::new();
    while let Ok(response) = connection.receive_within::<Response>(Some(PATIENCE)) {
        if let Response::Event(event) = response {
            events.push(Event::clone(&event));
        }
    }
    Ok(events)
}

/// Whether an event is about the file at a path.
pub(crate) fn is_at(event: &Event, path: &str) -> bool {
    event.object.path() == Some(path)
}

/// The part of an event that only a scope's event has.
pub(crate) fn detail(event: &Event) -> Result<&Detailed> {
    match &event.detail {
        Detail::Scope(detail) => Ok(detail),
        other => Err(format!("{other:?}")),
    }
}

/// Waits for an event that matches.
pub(crate) fn told(what: &str, so: impl Fn(&Event) -> bool) -> Result<Event> {
    let end = Instant::now() + PATIENCE;
    loop {
        let events = events()?;
        if let Some(event) = events.iter().rev().find(|event| so(event)) {
            return Ok(event.clone());
        }
        ensure(Instant::now() < end, format!("{what} isn't told: {events:?}"))?;
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn command(words: &[&str]) -> Result<Ended> {
    let (program, words) = words.split_first().ok_or("no command")?;
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    Ok(Ended {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// `palisade scope …`
pub(crate) fn scope(words: &[&str]) -> Result<Ended> {
    command(&[&[PALISADE, "scope"], words].concat())
}

/// The same; fails unless the request is done.
pub(crate) fn done(words: &[&str]) -> Result<String> {
    let ended = scope(words)?;
    ensure(ended.code == Some(0), format!("palisade scope {words:?}: {ended:?}"))?;
    Ok(ended.out)
}

/// `WAY:FILE OUTCOME`, a line each.
pub(crate) fn lines(expected: &[(&str, &str)]) -> String {
    expected.iter().map(|(attempt, outcome)| format!("{attempt} {outcome}\n")).collect()
}

/// Makes attempts outside of any scope, where each must run.
pub(crate) fn outside(attempts: &[&str]) -> Result {
    let ended = command(&[&["/init", "act", "attempts"], attempts].concat())?;
    let all: Vec<_> = attempts.iter().map(|attempt| (*attempt, "ran")).collect();
    ensure(ended.out == lines(&all), format!("outside: {ended:?}"))
}

/// Makes attempts in a scope of their own with these options; each must have the given outcome.
pub(crate) fn inside(options: &[&str], expected: &[(&str, &str)]) -> Result {
    let attempts: Vec<&str> = expected.iter().map(|(attempt, _)| *attempt).collect();
    let ended = scope(&[&["run"], options, &["--", "/init", "act", "attempts"], &attempts].concat())?;
    if ended.out == lines(expected) {
        return Ok(());
    }
    let told = events()?.into_iter().rev().take(2 * expected.len());
    let told = told.map(|event| format!("{:?}: {}", event.object, event.why.text));
    Err(format!("inside: {ended:?}; expected {expected:?}; told: {:?}", told.collect::<Vec<_>>()))
}

/// A process that waits before it makes its attempts.
pub(crate) struct Waiting(Child, BufReader<ChildStdout>);

impl Waiting {
    pub(crate) fn start(before: &[&str], attempts: &[&str]) -> Result<Self> {
        let words = [before, &["/init", "act", "wait-attempts"], attempts].concat();
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("start: {error}"))?;
        let mut said = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut line = String::new();
        said.read_line(&mut line).map_err(|error| format!("listen: {error}"))?;
        ensure(line == "ready\n", format!("it says {line:?}"))?;
        Ok(Self(child, said))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Lets it continue; its attempts must have these outcomes.
    pub(crate) fn go(mut self, expected: &[(&str, &str)]) -> Result {
        let go = self.0.stdin.take().ok_or("no input")?.write_all(b"\n");
        let mut said = String::new();
        self.1.read_to_string(&mut said).map_err(|error| format!("listen: {error}"))?;
        self.0.wait().map_err(|error| format!("wait: {error}"))?;
        ensure(go.is_ok() && said == lines(expected), format!("{said:?}; expected {expected:?}"))
    }
}

pub(crate) fn all() {
    if let Err(error) = prepare().and_then(|()| evasions::prepare()) {
        println!("cannot prepare: {error}");
        return;
    }
    // One daemon for all of these: without acceleration, loading the programs takes longer than the attempts.
    let mut daemon = None;
    report("scope-says-that-it-refuses", || {
        daemon = Some(Daemon::start(&evasions::settings("audit")?, &[])?);
        ensure(!fs::exists(PINS).unwrap_or(true), "something is pinned before anybody asks")?;
        let words = done(&["status"])?;
        ensure(words.contains("refuse     fails the exec with EPERM") && words.contains(PINS), &words)?;
        ensure(words.contains("0 seen, 0 killed, 0 killed by the daemon, 0 refused"), words)?;
        ensure(events()?.is_empty(), "something is told before anything happened")
    });
    report("scope-watch-warn-kill-refuse", verdicts);
    report("scope-depths-refuse", depths);
    report("scope-control-group-refuses", control_group);
    report("scope-marks-in-tasks-refuse", overflow);
    report("scope-mark-list-verdict-clear", mark);
    report("scope-rare-calls-told", rare_calls);
    evasions::all();
    report("scope-orderly-end-leaves-nothing", || {
        // This process must wait for orphans of the attempts: until then they are listed.
        while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
        let end = Instant::now() + PATIENCE;
        while !done(&["list"])?.is_empty() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
        }
        let list = done(&["list"])?;
        daemon.take().ok_or("it doesn't run")?.end(Signal::TERM)?;
        ensure(!fs::exists(PINS).unwrap_or(true), format!("the pins are still there; {list}"))
    });
    lives::all();
    println!("palisaded said:\n{}", said());
}

pub(crate) fn prepare() -> Result {
    copy("program")?;
    fs::create_dir_all("/bin")
        .and_then(|()| fs::copy("/init", attempt::SHELL))
        .map(drop)
        .map_err(|error| format!("prepare: {error}"))
}

fn verdicts() -> Result {
    outside(&["plain:/work/program"])?;
    let verdicts = [
        ("watch", "ran", Told::Allowed),
        ("warn", "ran", Told::Warned),
        ("kill", "killed", Told::Killed),
        ("refuse", "refused", Told::Refused),
    ];
    for (verdict, outcome, said) in verdicts {
        inside(&["--verdict", verdict], &[("plain:/work/program", outcome)])?;
        let event = told(verdict, |event| {
            event.operation == Operation::Execute && event.verdict == said && is_at(event, "/work/program")
        })?;
        let because = if outcome == "ran" { "it is in the scope" } else { "nothing more may be executed" };
        let right = event.why.text.contains(because)
            && matches!(&event.object, Object::File(file) if file.inode.is_some())
            && detail(&event)?.parents.len() > 1
            && (detail(&event)?.arguments.is_none() == (verdict == "refuse"));
        ensure(right, format!("{event:?}"))?;
    }
    let status = status()?;
    ensure((status.killed, status.refused, status.lost) == (1, 1, 0), format!("{status:?}"))
}

fn depths() -> Result {
    const BELOW: [&str; 6] = ["deep1", "deep2", "deep3", "deep8", "deep9", "deep20"];
    let tried = |refused: usize| {
        let attempts = BELOW.map(|way| format!("{way}:/work/program"));
        let outcome = |number| if number < refused { "refused" } else { "ran" };
        let expected: Vec<_> =
            attempts.iter().enumerate().map(|(number, way)| (way.as_str(), outcome(number))).collect();
        inside(&["--verdict", "refuse"], &expected)
    };
    let attempts = BELOW.map(|way| format!("{way}:/work/program"));
    outside(&attempts.each_ref().map(String::as_str))?;
    for (depth, refused) in
        [("one_level", 1), ("ancestry(2)", 2), ("ancestry(8)", 4), ("propagate_on_fork", 6)]
    {
        done(&["depth", depth])?;
        tried(refused).map_err(|error| format!("{depth}: {error}"))?;
    }
    Ok(())
}

/// Without a cgroup hierarchy the daemon reports that and starts nothing; with one, no process inside can leave.
fn control_group() -> Result {
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
    let attempts = [
        ("plain:/work/program", "refused"),
        ("deep9:/work/program", "refused"),
        ("orphan:/work/program", "refused"),
    ];
    done(&["depth", "cgroup"])?;
    let tried = || {
        let ended = scope(&["run", "--verdict", "refuse", "--", "/init", "act", "ran"])?;
        let said =
            ended.code == Some(125) && ended.err.contains("control group") && ended.err.contains("hint:");
        ensure(said, format!("without a hierarchy: {ended:?}"))?;
        mount("cgroup2", "/sys/fs/cgroup", "cgroup2", MountFlags::empty(), None)
            .map_err(|error| format!("mount: {error}"))?;
        let result = inside(&["--verdict", "refuse"], &attempts)
            .and_then(|()| told("its beginning", |event| event.operation == Operation::Launch))
            .and_then(|began| {
                told("its end", |event| {
                    event.operation == Operation::Exit && event.subject.scope == began.subject.scope
                })
            })
            .and_then(|_| {
                ensure(!fs::exists("/sys/fs/cgroup/palisade").unwrap_or(true), "the group is left")
            });
        unmount("/sys/fs/cgroup", UnmountFlags::DETACH).map_err(|error| format!("unmount: {error}"))?;
        result
    };
    let result = tried();
    done(&["depth", "propagate_on_fork"])?;
    result
}

/// A table with room for four: further processes are marked in task storage, and refused like the others.
fn overflow() -> Result {
    use palisade_bpf::scope::{Depth, Outcome, Scope, ScopePrograms, Verdict};
    let tried = || -> std::result::Result<(), Box<dyn std::error::Error>> {
        let mut programs = ScopePrograms::load_with_table_of(Some(4))?;
        programs.refuse_at_hook()?;
        programs.change(|settings| settings.depth = Depth::Inherit)?;
        programs.open_scope(&Scope { id: 1, verdict: Verdict::Refuse, ..Scope::default() })?;
        let waiting =
            Waiting::start(&[], &["deep20:/work/program", "thread:/work/program", "orphan:/work/program"])?;
        if programs.mark(waiting.pid(), 1, true)? != Outcome::Done {
            return Err("it isn't marked".into());
        }
        waiting.go(&[
            ("deep20:/work/program", "refused"),
            ("thread:/work/program", "refused"),
            ("orphan:/work/program", "refused"),
        ])?;
        let totals = programs.totals()?;
        let right = totals.overflowed >= 16 && totals.unmarked == 0 && totals.refused == 3;
        if right { Ok(()) } else { Err(format!("{totals:?}").into()) }
    };
    tried().map_err(|error| error.to_string())
}

fn mark() -> Result {
    let all = ["plain:/work/program", "thread:/work/program"];
    let (held, let_go) = (Waiting::start(&[], &all)?, Waiting::start(&[], &all)?);
    let pids = [held.pid().to_string(), let_go.pid().to_string()];
    let first = done(&["mark", "--verdict", "refuse", "--label", "held", &pids[0]])?;
    let second = done(&["mark", "--verdict", "refuse", &pids[1]])?;
    let list = done(&["list"])?;
    ensure(list.lines().count() == 3 && pids.iter().all(|pid| list.contains(pid.as_str())), &list)?;
    done(&["clear", second.trim()])?;
    ensure(!done(&["list"])?.contains(pids[1].as_str()), "it is still listed")?;
    let_go.go(&all.map(|attempt| (attempt, "ran")))?;
    done(&["verdict", first.trim(), "watch"])?;
    done(&["verdict", first.trim(), "refuse"])?;
    held.go(&all.map(|attempt| (attempt, "refused")))?;
    let printed = done(&["events", "--json", "--scope", first.trim()])?;
    let refused = |line: &&str| line.contains("\"verdict\":\"refused\"") && line.contains("/work/program");
    ensure(printed.lines().filter(refused).count() == 2, printed)
}

fn rare_calls() -> Result {
    inside(&["--calls"], &[("alg:", "ran"), ("memory:/work/program", "ran")])?;
    told(
        "AF_ALG",
        |event| matches!(&event.object, Object::Syscall { name, argument: Some(38), .. } if name == "socket(AF_ALG)"),
    )?;
    inside(&[], &[("alg:", "ran")])?;
    let calls = events()?.iter().filter(|event| event.operation == Operation::Syscall).count();
    ensure(calls == 1, format!("{calls} calls are told"))
}
