// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes the administrator's own trust files.

use super::{only_root, rebuild};
use crate::guard::{GuardError, Places, count, files};
use crate::output;
use crate::verb::{Exit, Failure, NO, YES};
use palisade_guard::trust::edit::Editor;
use palisade_guard::trust::entry::{Digest, from_hexadecimal};
use palisade_guard::trust::measure::{self, Measured};
use palisade_protocol::client::{Client, DaemonError};
use palisade_protocol::guard::{Request, Response};
use palisade_text::Show as _;
use palisade_text::harmless;
use std::fs::DirBuilder;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const TRUST_FILES: &str = "which files are trusted";

/// Opens the trust files for changes, and makes the directory of a new one.
fn editor(places: &Places, file: Option<&str>) -> Result<Editor, Failure> {
    only_root(places, TRUST_FILES)?;
    let directory = places.config.join("trust.d");
    if file.is_some() && !directory.exists() {
        let made = DirBuilder::new().mode(0o755).recursive(true).create(&directory);
        made.map_err(|source| Failure::Write { path: directory, source })?;
    }
    let mut editor = files::trust_files(places).edit().map_err(GuardError::from)?;
    let socket = places.socket.clone();
    editor.help_by(Box::new(move |file| hashed_by_the_guard(&socket, file)));
    Ok(editor)
}

/// Asks the guard for a file's hash. A guard that enforces may refuse root access to a file that isn't trusted yet. The
/// guard itself can read the file.
fn hashed_by_the_guard(socket: &Path, file: BorrowedFd<'_>) -> Result<Measured, measure::Error> {
    // Without a guard, something else refused the access.
    let mut talk = Client::begin(socket).map_err(|_nobody| measure::Error::Unreadable)?;
    let failed = |error: DaemonError| measure::Error::Read(std::io::Error::other(error.to_string()));
    talk.ask::<Response>(&Request::Measure).map_err(failed)?;
    let connection = talk.connection();
    let broken = |error| failed(DaemonError::Talk(error));
    connection.pass(file).map_err(broken)?;
    match connection.receive().map_err(broken)? {
        Response::Measured { size, sha256 } => {
            let digest = from_hexadecimal(sha256.as_bytes()).and_then(|bytes| bytes.try_into().ok());
            let digest = digest.ok_or_else(|| failed(DaemonError::Strange))?;
            Ok(Measured { size, sha256: Digest::Sha256(digest), md5: None, seen: None })
        }
        Response::Refused(refusal) => Err(failed(DaemonError::Refused(refusal))),
        _ => Err(failed(DaemonError::Strange)),
    }
}

/// Trusts files as they are now. For a directory it takes all files below.
pub(super) fn add(places: &Places, paths: &[PathBuf], file: Option<&str>) -> Exit {
    let mut editor = editor(places, file)?;
    let mut added = 0;
    for path in paths {
        let more = editor.add(path, file, |_| true).map_err(GuardError::from)?;
        if more == 0 {
            output::note(&format_args!("all files below {} were trusted already", path.shown()));
        }
        added += more as u64;
    }
    drop(editor);
    output::say(&format!("{} added\n", count(added, "file", "files")));
    rebuild::trust_files_changed(places)?;
    Ok(YES)
}

/// Ends the trust in files.
pub(super) fn delete(places: &Places, paths: &[PathBuf], file: Option<&str>) -> Exit {
    let mut editor = editor(places, None)?;
    let mut deleted = 0;
    for path in paths {
        let path = absolute(path)?;
        let less = editor.delete(&path, file).map_err(GuardError::from)?;
        if less == 0 {
            return Err(GuardError::NotListed { path }.into());
        }
        deleted += less as u64;
    }
    drop(editor);
    output::say(&format!("{} deleted\n", count(deleted, "file", "files")));
    rebuild::trust_files_changed(places)?;
    Ok(YES)
}

/// Trusts listed files as they are now. Returns no if some can't be read any more; their entries stay.
pub(super) fn update(places: &Places, paths: &[PathBuf], file: Option<&str>) -> Exit {
    let mut editor = editor(places, None)?;
    let everything = [PathBuf::from("/")];
    let meant = if paths.is_empty() { &everything } else { paths };
    let (mut updated, mut kept) = (0, Vec::new());
    for path in meant {
        let path = absolute(path)?;
        let done = editor.update(&path, file).map_err(GuardError::from)?;
        if done.updated == 0 && done.kept.is_empty() && !paths.is_empty() {
            return Err(GuardError::NotListed { path }.into());
        }
        updated += done.updated as u64;
        kept.extend(done.kept);
    }
    drop(editor);
    for path in &kept {
        let path = String::from_utf8_lossy(path);
        output::note(&format_args!("{} can't be read: its entry stays unchanged", harmless(&path)));
    }
    output::say(&format!("{} updated\n", count(updated, "file", "files")));
    rebuild::trust_files_changed(places)?;
    Ok(if kept.is_empty() { YES } else { NO })
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|source| Failure::Cwd { source })
}
