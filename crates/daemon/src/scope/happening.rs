// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An event with what the kernel doesn't tell: the time of day, the file's whole path, the parents' names.

use super::translation::{boot_time, verdict};
use super::{process, rare};
use palisade_bpf::scope::event::{Event, Kind, Why};
use palisade_protocol::scope::{Happened, Parent};
use std::os::linux::fs::MetadataExt;
use std::time::{Duration, SystemTime};

/// What is said of an event. The process may have gone on: what is read of it counts only if the file is the event's.
pub(super) fn of(event: &Event) -> Happened {
    let ago = boot_time().saturating_sub(event.time);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let exe = format!("/proc/{}/exe", event.process);
    let same = std::fs::metadata(&exe).is_ok_and(|found| found.st_ino() == event.inode);
    let script = same.then(|| std::fs::read_link(&exe).ok()).flatten();
    // A script is called as it was; its interpreter is what runs.
    let path = match script {
        Some(path) if !event.path.starts_with(b"/") => path.to_string_lossy().into_owned(),
        _ => text(&event.path),
    };
    let what = match event.kind {
        Kind::Began => "began",
        Kind::Exec => "exec",
        Kind::Call { .. } => "call",
        Kind::Unmarked => "unmarked",
    };
    let why = match (event.kind, event.why) {
        (Kind::Unmarked, _) => "no memory for a mark",
        (Kind::Call { .. }, _) => "a rare system call",
        (Kind::Began, _) => "the scope's command",
        (_, Why::Watched) => "it is in the scope",
        (_, Why::Mark) => "nothing more may be executed in the scope",
        (_, Why::File) => "the file is denied",
        (_, Why::Name) => "the name is denied",
        (_, Why::Memory) => "programs that are only in memory are denied",
    };
    let call = match event.kind {
        Kind::Call { number, argument } => Some((rare::name(number, argument), argument)),
        _ => None,
    };
    Happened {
        time: nanoseconds(ago),
        what: what.into(),
        scope: event.scope,
        owner: event.owner,
        verdict: verdict(event.verdict),
        why: why.into(),
        distance: event.distance,
        pid: event.process,
        thread: event.thread,
        uid: event.uid,
        comm: text(&event.comm),
        parents: event
            .parents
            .iter()
            .map(|pid| Parent { pid: *pid, comm: process::name(*pid).unwrap_or_default() })
            .collect(),
        path,
        device: format!("{}:{}", event.device.0, event.device.1),
        inode: event.inode,
        memory: event.memory,
        arguments: event
            .arguments
            .as_ref()
            .map(|arguments| arguments.iter().map(|argument| text(argument)).collect()),
        arguments_cut: !event.arguments_whole,
        call,
    }
}

/// That nobody is in a scope any more.
pub(super) fn ended(scope: u32, owner: u32) -> Happened {
    Happened {
        time: nanoseconds(Duration::ZERO),
        what: "ended".into(),
        scope,
        owner,
        why: "the last process has ended".into(),
        ..Happened::default()
    }
}

/// So long ago, in nanoseconds since 1970.
fn nanoseconds(ago: Duration) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.saturating_sub(ago).as_nanos()).unwrap_or(0)
}
