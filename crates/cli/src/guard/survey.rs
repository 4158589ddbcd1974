// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists kinds of files, programs that aren't trusted, and file systems that aren't watched.

use super::{Places, files};
use crate::output;
use crate::verb::{self, Exit, Failure, NO, YES};
use palisade_event::Detail;
use palisade_guard::kind::Recognizer;
use palisade_guard::survey::{self, Mounts, Programs};
use palisade_protocol::client::Client;
use palisade_protocol::guard::{Request, Response, Supposition};
use palisade_text::{Show as _, harmless};
use serde::Serialize;
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

/// Prints kinds as rules write them; for several files, with the files' names. It asks the daemon if the daemon
/// answers: the daemon has libmagic, and its result decides.
pub(super) fn kinds(places: &Places, paths: &[PathBuf], json: bool) -> Exit {
    let recognizer = Recognizer::own();
    let mut talk = Client::begin(&places.socket).ok();
    let mut files = Vec::new();
    for path in paths {
        let kind = match talk.as_mut().and_then(|talk| seen(talk, path)) {
            Some(kind) => kind,
            None => survey::kind(path, &recognizer)
                .map_err(|source| Failure::Read { path: path.clone(), source })?,
        };
        files.push(KindOf { path: path.to_string_lossy().into_owned(), kind });
    }
    if json {
        verb::print_json(&Kinds { files })?;
    } else if let [only] = files.as_slice() {
        verb::print(&format!("{}\n", only.kind))?;
    } else {
        let text: String =
            files.iter().map(|file| format!("{}: {}\n", harmless(&file.path), file.kind)).collect();
        verb::print(&text)?;
    }
    Ok(YES)
}

/// The kind that the daemon sees in a file, if it answers.
fn seen(talk: &mut Client, path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?.into_os_string().into_string().ok()?;
    match talk.ask(&Request::Judge(Supposition { path, execute: false, pid: None })) {
        Ok(Response::Judged(event)) => match event.detail {
            Detail::Guard(guard) => Some(guard.file_kind),
            _ => None,
        },
        _ => None,
    }
}

#[derive(Serialize)]
struct Untrusted {
    looked_at: usize,
    untrusted: Vec<String>,
    /// Files that this user may not look at.
    unknown: Vec<String>,
}

/// Lists programs of PATH that aren't trusted.
pub(super) fn path(places: &Places, json: bool) -> Exit {
    let setup = files::setup(places, None)?;
    let trust =
        palisade_guard::trusted::Trusted::new(Some(files::database(places)?), setup.settings.trust.integrity);
    let programs = Programs::of(&std::env::var_os("PATH").unwrap_or_default(), &trust);
    let texts = |paths: Vec<PathBuf>| -> Vec<String> {
        paths.into_iter().map(|path| path.to_string_lossy().into_owned()).collect()
    };
    let answer = Untrusted {
        looked_at: programs.looked_at,
        untrusted: texts(programs.untrusted),
        unknown: texts(programs.unknown),
    };
    let all = answer.untrusted.is_empty();
    if json {
        verb::print_json(&answer)?;
    } else {
        let text: String = answer.untrusted.iter().map(|path| harmless(path) + "\n").collect();
        verb::print(&text)?;
        for path in &answer.unknown {
            output::note(&format_args!("{} can't be examined", harmless(path)));
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
    /// Nothing can be executed there. Interpreters can still read files there.
    noexec: bool,
}

/// Lists mounted file systems that the settings leave unwatched.
pub(super) fn mounts(places: &Places, json: bool) -> Exit {
    const MOUNTS: &str = "/proc/self/mountinfo";
    let setup = files::setup(places, None)?;
    let text = std::fs::read(MOUNTS).map_err(|source| Failure::Read { path: MOUNTS.into(), source })?;
    let mounts = Mounts::of(&text, &setup.settings.watch);
    let left = |left: survey::Unwatched| {
        let survey::Unwatched { mount, kind, because, noexec } = left;
        Left { mount: mount.to_string_lossy().into_owned(), kind, because, noexec }
    };
    let unwatched: Vec<Left> = mounts.unwatched.into_iter().map(left).collect();
    let none = unwatched.is_empty();
    let watched: Vec<String> =
        mounts.watched.iter().map(|point| point.to_string_lossy().into_owned()).collect();
    if json {
        verb::print_json(&Unwatched { watched, unwatched })?;
    } else {
        let line = |left: &Left| {
            let noexec = if left.noexec { ", noexec" } else { "" };
            format!("{} ({}{noexec}): {}\n", left.mount.shown(), left.kind.shown(), left.because)
        };
        verb::print(&unwatched.iter().map(line).collect::<String>())?;
        output::say(&format!("{} file systems are watched, {} aren't\n", watched.len(), unwatched.len()));
    }
    Ok(if none { YES } else { NO })
}
