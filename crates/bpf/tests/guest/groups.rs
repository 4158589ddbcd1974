// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests a sandbox's limits by control groups version 2, in the layout of systemd: a slice that delegates controllers and
//! has no processes, and in it a scope with its own limits that contains the launcher.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::mount::MountFlags;

use crate::archive::PALISADE;
use crate::scenario::{Outcome, Result, ensure, expect, report};

const TOP: &str = "/sys/fs/cgroup";
const SLICE: &str = "/sys/fs/cgroup/app.slice";
const SCOPE: &str = "/sys/fs/cgroup/app.slice/own.scope";
const HOME: &str = "/home/user";
/// With a writable directory the launch has a broker.
const WORK: &str = "/home/user/work";
const USER: u32 = 1000;
const MIB: usize = 1 << 20;

pub(crate) fn all() {
    report("limits-by-groups-of-version-2", || {
        lay_out().map_err(|error| format!("lay groups out: {error}"))?;
        for user in [0, USER] {
            give_to(user).map_err(|error| format!("give the slice to {user}: {error}"))?;
            limits_hold(user).map_err(|why| format!("user {user}: {why}"))?;
        }
        give_to(0).map_err(|error| format!("give the slice back: {error}"))?;
        match finished(USER, &["--limit", "memory=64M"], &["nothing"])? {
            Outcome::Failed(why) if why.contains("exit Some(125)") && why.contains("beside") => Ok(()),
            other => Err(format!("in a slice of root's: {other:?}")),
        }
    });
}

fn lay_out() -> io::Result<()> {
    fs::create_dir_all(WORK)?;
    [HOME, WORK].iter().try_for_each(|place| std::os::unix::fs::chown(place, Some(USER), Some(USER)))?;
    fs::write("/etc/passwd", format!("root:x:0:0::/:/bin/sh\nuser:x:{USER}:{USER}::{HOME}:/bin/sh\n"))?;
    rustix::mount::mount("cgroup2", TOP, "cgroup2", MountFlags::empty(), None)?;
    fs::write(format!("{TOP}/cgroup.subtree_control"), "+memory +pids")?;
    fs::create_dir(SLICE)?;
    fs::write(format!("{SLICE}/cgroup.subtree_control"), "+memory +pids")?;
    fs::create_dir(SCOPE)?;
    fs::write(format!("{SCOPE}/pids.max"), "50")
}

fn give_to(user: u32) -> io::Result<()> {
    let files = ["", "/cgroup.procs", "/cgroup.subtree_control"].map(|file| format!("{SLICE}{file}"));
    let mut all = files.iter().map(String::as_str).chain([WORK]);
    all.try_for_each(|file| std::os::unix::fs::chown(file, Some(user), Some(user)))
}

fn limits_hold(user: u32) -> Result {
    let few = ["--limit", "memory=64M"];
    expect("little memory", &finished(user, &few, &["memory", "16"])?, &Outcome::Done)?;
    let outcome = finished(user, &few, &["memory", "256"])?;
    ensure(
        matches!(&outcome, Outcome::Failed(why) if why.contains("exit Some(137)")),
        format!("{outcome:?}"),
    )?;

    let mut child = launched(user, &["--limit", "memory=64M", "--limit", "processes=20"], &["ready-wait"])?;
    let mut said = [0; 6];
    let ready = child.stdout.as_mut().map_or(Ok(()), |stdout| stdout.read_exact(&mut said));
    let found = ready.map_err(|error| format!("it isn't ready: {error}")).and_then(|()| {
        let group = format!("/app.slice/palisade-{}", child.id());
        let broker = group_of("palisade-broker")?;
        ensure(broker == group, format!("the broker is in {broker}, not in {group}"))?;
        let limit = |name: &str| fs::read_to_string(format!("{TOP}{group}/{name}")).unwrap_or_default();
        let limits = [limit("memory.max"), limit("pids.max")];
        ensure(limits == ["67108864\n", "25\n"], format!("{limits:?}"))?;
        let inside = fs::read_to_string(format!("{TOP}{group}/cgroup.procs")).unwrap_or_default();
        ensure(inside.lines().count() >= 2, format!("in it: {inside:?}"))
    });
    let mut word = child.stdin.take();
    let _it_may_have_failed = word.as_mut().map(|stdin| stdin.write_all(b"."));
    expect("its end", &outcome_of(child)?, &Outcome::Done)?;
    found?;

    // Only the scope's own limit of processes exists, and applies.
    let mut child = launched(user, &["--limit", "memory=64M"], &["ready-wait"])?;
    let ready = child.stdout.as_mut().map_or(Ok(()), |stdout| stdout.read_exact(&mut said));
    let path = format!("{SLICE}/palisade-{}/pids.max", child.id());
    let limit = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"));
    drop(child.stdin.take());
    expect("its end", &outcome_of(child)?, &Outcome::Done)?;
    ready.map_err(|error| format!("it isn't ready: {error}"))?;
    ensure(limit.as_deref() == Ok("55\n"), format!("{limit:?}"))?;

    let left = fs::read_dir(SLICE).map_err(|error| error.to_string())?;
    let left = left.flatten().filter(|entry| entry.path().is_dir() && entry.path() != Path::new(SCOPE));
    ensure(left.count() == 0, "a group is left")
}

/// Starts `palisade run` with one of our acts, as a user, in the scope.
fn launched(user: u32, options: &[&str], act: &[&str]) -> Result<Child> {
    let mut command = Command::new("/init");
    command.args(["act", "in-scope", &user.to_string(), PALISADE, "run", "--view", "host"]);
    command.args(options).args(["--", "/init", "act"]).args(act);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map_err(|error| format!("start: {error}"))
}

fn finished(user: u32, options: &[&str], act: &[&str]) -> Result<Outcome> {
    outcome_of(launched(user, options, act)?)
}

fn outcome_of(child: Child) -> Result<Outcome> {
    let output = child.wait_with_output().map_err(|error| format!("wait: {error}"))?;
    Ok(match output.status.code() {
        Some(0) => Outcome::Done,
        code => Outcome::Failed(format!(
            "exit {code:?}, signal {:?}: {}",
            output.status.signal(),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    })
}

/// The group of the only process with this name. Of an earlier process only its number may be left.
fn group_of(name: &str) -> Result<String> {
    let processes = fs::read_dir("/proc").map_err(|error| error.to_string())?;
    let mut found = processes.flatten().filter_map(|entry| {
        let of = |file: &str| fs::read_to_string(entry.path().join(file)).ok();
        let group = (of("comm")?.trim_end() == name).then(|| of("cgroup"))??;
        (!group.trim_end().ends_with("(deleted)")).then_some(group)
    });
    let group = found.next().ok_or_else(|| format!("no process is called {name}: {}", names()))?;
    Ok(group.trim_end().strip_prefix("0::").unwrap_or(&group).to_owned())
}

/// The names of all processes.
fn names() -> String {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = processes.filter_map(|entry| fs::read_to_string(entry.path().join("comm")).ok());
    names.map(|name| name.replace('\n', " ")).collect()
}

/// As a child: joins the scope, becomes a user, and executes a program.
pub(crate) fn in_scope(user: &str, program: &str, arguments: &[&str]) -> io::Result<()> {
    fs::write(format!("{SCOPE}/cgroup.procs"), std::process::id().to_string())?;
    let user: u32 = user.parse().map_err(io::Error::other)?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(WORK).env("HOME", HOME);
    Err(command.gid(user).uid(user).exec())
}

/// As a child: makes a call that the broker answers, and waits. The broker starts at the first such call.
pub(crate) fn wait() -> io::Result<()> {
    fs::create_dir("made")?;
    fs::remove_dir("made")?;
    println!("ready");
    io::stdin().read(&mut [0]).map(|_| ())
}

/// As a child: uses this much memory.
pub(crate) fn memory(mebibytes: &str) -> io::Result<()> {
    let size = mebibytes.parse::<usize>().map_err(io::Error::other)? * MIB;
    let bytes = vec![1u8; size];
    std::hint::black_box(&bytes);
    Ok(())
}
