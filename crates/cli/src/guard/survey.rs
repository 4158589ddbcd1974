// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kinds of files, programs that aren't trusted, and file systems that aren't watched.

use super::talk::Talk;
use super::{Answer, Places, files};
use crate::answer::{self, Failure, NO, YES};
use crate::output;
use palisade_event::Detail;
use palisade_guard::facts::{Access, Facts};
use palisade_guard::kind::{Recognizer, Stat};
use palisade_guard::supposed::{Supposed, Who};
use palisade_guard::watch::mounts::select;
use palisade_host::mounts;
use palisade_protocol::guard::{Request, Response, Supposition};
use palisade_text::{Show as _, harmless};
use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

#[derive(Serialize)]
struct Kinds {
    files: Vec<KindOf>,
}

#[derive(Serialize)]
struct KindOf {
    path: String,
    kind: String,
}

/// Prints kinds as rules write them; of several files with their names. The daemon, which has libmagic, is asked if it
/// answers: what it sees is what counts.
pub(super) fn kinds(places: &Places, paths: &[PathBuf], json: bool) -> Answer {
    let recognizer = Recognizer::own();
    let mut talk = Talk::begin(&places.socket).ok();
    let mut files = Vec::new();
    for path in paths {
        let kind = match talk.as_mut().and_then(|talk| seen(talk, path)) {
            Some(kind) => kind,
            None => kind(path, &recognizer).map_err(|source| Failure::Read { path: path.clone(), source })?,
        };
        files.push(KindOf { path: path.to_string_lossy().into_owned(), kind });
    }
    if json {
        answer::print_json(&Kinds { files })?;
    } else if let [only] = files.as_slice() {
        answer::print(&format!("{}\n", only.kind))?;
    } else {
        let text: String =
            files.iter().map(|file| format!("{}: {}\n", harmless(&file.path), file.kind)).collect();
        answer::print(&text)?;
    }
    Ok(YES)
}

/// What the daemon takes a file for, if it says.
fn seen(talk: &mut Talk, path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?.into_os_string().into_string().ok()?;
    match talk.ask(&Request::Judge(Supposition { path, execute: false, pid: None })) {
        Ok(Response::Judged(event)) => match event.detail {
            Detail::Guard(guard) => Some(guard.file_kind),
            _ => None,
        },
        _ => None,
    }
}

fn kind(path: &Path, recognizer: &Recognizer) -> std::io::Result<String> {
    let real = path.canonicalize()?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(&real, flags, Mode::empty())?;
    let status = Stat::of(file.as_fd()).map_err(std::io::Error::other)?;
    Ok(recognizer.kind_of(file.as_fd(), real.as_os_str().as_bytes(), status).as_str().to_owned())
}

#[derive(Serialize)]
struct Untrusted {
    looked_at: usize,
    untrusted: Vec<String>,
    /// Those that may not be looked at.
    unknown: Vec<String>,
}

/// Lists programs of PATH that aren't trusted.
pub(super) fn path(places: &Places, json: bool) -> Answer {
    let setup = files::setup(places, None)?;
    let trust =
        palisade_guard::trusted::Trusted::new(Some(files::database(places)?), setup.settings.trust.integrity);
    let recognizer = Recognizer::own();
    let who = Who::root(Path::new("/bin/sh"));
    let programs = programs();
    let mut answer = Untrusted { looked_at: programs.len(), untrusted: Vec::new(), unknown: Vec::new() };
    for program in &programs {
        let shown = program.to_string_lossy().into_owned();
        match Supposed::new(Access::Execute, program, &who, &trust, &recognizer) {
            Ok(supposed) if supposed.trusted() => {}
            Ok(_) => answer.untrusted.push(shown),
            Err(_) => answer.unknown.push(shown),
        }
    }
    let all = answer.untrusted.is_empty();
    if json {
        answer::print_json(&answer)?;
    } else {
        let text: String = answer.untrusted.iter().map(|path| harmless(path) + "\n").collect();
        answer::print(&text)?;
        for path in &answer.unknown {
            output::note(&format_args!("{} can't be looked at", harmless(path)));
        }
        let found = if all {
            "are trusted".to_owned()
        } else {
            format!("of which {} aren't trusted", answer.untrusted.len())
        };
        output::say(&format!("{} programs in PATH {found}\n", answer.looked_at));
    }
    Ok(if all { YES } else { NO })
}

/// What can be executed in the directories of PATH, where it really is.
fn programs() -> BTreeSet<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut programs = BTreeSet::new();
    for directory in std::env::split_paths(&path).filter(|directory| directory.is_absolute()) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(real) = entry.path().canonicalize() else { continue };
            let may_execute = std::fs::metadata(&real)
                .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0);
            if may_execute {
                programs.insert(real);
            }
        }
    }
    programs
}

#[derive(Serialize)]
struct Unwatched {
    watched: Vec<String>,
    unwatched: Vec<Left>,
}

#[derive(Serialize)]
struct Left {
    mount: String,
    kind: String,
    because: &'static str,
    /// Nothing can be executed there anyway; what is there can be read by interpreters.
    noexec: bool,
}

/// Lists mounted file systems that the settings leave unwatched.
pub(super) fn mounts(places: &Places, json: bool) -> Answer {
    const MOUNTS: &str = "/proc/self/mountinfo";
    let setup = files::setup(places, None)?;
    let text = std::fs::read(MOUNTS).map_err(|source| Failure::Read { path: MOUNTS.into(), source })?;
    let mounts = mounts::parse(&text);
    let selection = select(&mounts, &setup.settings.watch);
    let unwatched: Vec<Left> = selection
        .unwatched
        .iter()
        .map(|(point, because)| {
            // What was mounted last is what is seen.
            let mount = mounts.iter().rfind(|mount| mount.point == *point);
            Left {
                mount: point.to_string_lossy().into_owned(),
                kind: mount.map(|mount| mount.kind.clone()).unwrap_or_default(),
                because,
                noexec: mount.is_some_and(|mount| mount.noexec),
            }
        })
        .collect();
    let none = unwatched.is_empty();
    let watched = selection.watched.values().map(|point| point.to_string_lossy().into_owned()).collect();
    if json {
        answer::print_json(&Unwatched { watched, unwatched })?;
    } else {
        let line = |left: &Left| {
            let noexec = if left.noexec { ", noexec" } else { "" };
            format!("{} ({}{noexec}): {}\n", left.mount.shown(), left.kind.shown(), left.because)
        };
        answer::print(&unwatched.iter().map(line).collect::<String>())?;
        output::say(&format!("{} file systems are watched, {} aren't\n", watched.len(), unwatched.len()));
    }
    Ok(if none { YES } else { NO })
}
