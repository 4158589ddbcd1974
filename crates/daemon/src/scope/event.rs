// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns the kernel's reports into events. Adds what the kernel doesn't report: the time of day, the file's whole path, and
//! the parents' names.

use super::translation::{boot_time, verdict};
use super::{process, rare};
use palisade_bpf::scope::event::{Event as Reported, Kind, Why as Reason};
use palisade_event::{
    Detail, Device, Event, File, Mechanism, Object, Operation, Parent, Scope, Subject, Verdict, Why,
};
use std::os::linux::fs::MetadataExt;
use std::time::{Duration, SystemTime};

/// The event for a report. The process may have executed another file since, so what is read from `/proc` counts only if
/// the file is the reported one.
pub(super) fn of(reported: &Reported) -> Event {
    let operation = match reported.kind {
        Kind::Began => Operation::Launch,
        Kind::Exec => Operation::Execute,
        Kind::Call { .. } => Operation::Syscall,
        Kind::Unmarked => Operation::Fork,
    };
    let verdict = match reported.kind {
        // The scope's verdict applies to what the command executes, not to the command itself.
        Kind::Began | Kind::Call { .. } => Verdict::Allowed,
        Kind::Unmarked => Verdict::Downgraded,
        Kind::Exec => verdict(reported.verdict),
    };
    let enforced_by = if verdict == Verdict::Refused { Mechanism::BpfLsm } else { Mechanism::Bpf };
    let subject = Subject {
        pid: Some(reported.process),
        uid: Some(reported.uid),
        program: text(&reported.comm),
        thread: (reported.thread != reported.process).then_some(reported.thread),
        scope: Some(reported.scope),
        ..Subject::default()
    };
    Event::new(
        ago(boot_time().saturating_sub(reported.time)),
        Detail::Scope(detail(reported)),
        subject,
        (operation, object(reported)),
        (verdict, enforced_by),
        Why::text(why(reported)),
    )
}

fn why(reported: &Reported) -> &'static str {
    match (reported.kind, reported.why) {
        (Kind::Unmarked, _) => "no memory for a mark",
        (Kind::Call { .. }, _) => "a rare system call",
        (Kind::Began, _) => "the scope's command",
        (_, Reason::Watched) => "it is in the scope",
        (_, Reason::Mark) => "nothing more may be executed in the scope",
        (_, Reason::File) => "the file is denied",
        (_, Reason::Name) => "the name is denied",
        (_, Reason::Memory) => "programs that are only in memory are denied",
    }
}

fn object(reported: &Reported) -> Object {
    if let Kind::Call { number, argument } = reported.kind {
        let name = rare::name(number, argument);
        return Object::Syscall { name, number: Some(number), argument: Some(argument) };
    }
    if reported.kind == Kind::Unmarked && reported.path.is_empty() {
        return Object::words("a child");
    }
    let exe = format!("/proc/{}/exe", reported.process);
    let same = std::fs::metadata(&exe).is_ok_and(|found| found.st_ino() == reported.inode);
    let script = same.then(|| std::fs::read_link(&exe).ok()).flatten();
    // Keep a script's path as it was called: `/proc` names only its interpreter.
    let path = match script {
        Some(path) if !reported.path.starts_with(b"/") => path.to_string_lossy().into_owned(),
        _ => text(&reported.path),
    };
    let (major, minor) = reported.device;
    let known = reported.inode != 0;
    Object::File(File {
        path,
        device: known.then_some(Device { major, minor }),
        inode: known.then_some(reported.inode),
    })
}

fn detail(reported: &Reported) -> Scope {
    let parent = |pid: &u32| Parent { pid: *pid, comm: process::name(*pid).unwrap_or_default() };
    let arguments = reported.arguments.as_ref();
    Scope {
        owner: reported.owner,
        distance: reported.distance,
        parents: reported.parents.iter().map(parent).collect(),
        arguments: arguments.map(|arguments| arguments.iter().map(|argument| text(argument)).collect()),
        arguments_cut: !reported.arguments_whole,
        memory: reported.memory,
    }
}

/// The event that a scope is empty and has ended.
pub(super) fn ended(scope: u32, owner: u32) -> Event {
    Event::new(
        SystemTime::now(),
        Detail::Scope(Scope { owner, ..Scope::default() }),
        Subject { scope: Some(scope), ..Subject::default() },
        (Operation::Exit, Object::words(format!("scope {scope}"))),
        (Verdict::Allowed, Mechanism::Bpf),
        Why::text("the last process has ended"),
    )
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The time of day that lies this long ago.
fn ago(time: Duration) -> SystemTime {
    SystemTime::now().checked_sub(time).unwrap_or(SystemTime::UNIX_EPOCH)
}
