// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade guard explain`: says whether an open or exec would be allowed, and why.

use super::{GuardError, Places, change, files};
use crate::output;
use crate::palisaded;
use crate::verb::{self, Exit, Failure, NO, YES};
use clap::ValueHint;
use palisade_event::{Detail, Event, Guard, Verdict};
use palisade_guard::explain::{self, ExplainError};
use palisade_guard::facts::Access;
use palisade_guard::supposed::Who;
use palisade_protocol::client::{Client, DaemonError};
use palisade_protocol::guard::{Request, Response, Supposition};
use palisade_text::harmless;
use serde::Serialize;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What to suppose.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The file
    #[arg(value_name = "PATH", value_hint = ValueHint::FilePath)]
    path: PathBuf,
    /// It is executed: what is supposed of files that may be
    #[arg(long, conflicts_with = "open")]
    execute: bool,
    /// It is opened: what is supposed of others
    #[arg(long)]
    open: bool,
    /// By this process; otherwise by root's /bin/sh
    #[arg(long, value_name = "N")]
    pid: Option<u32>,
    /// Answer as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// The answer.
#[derive(Serialize)]
struct Document<'a> {
    allowed: bool,
    /// Whether palisaded decided, or the files on the disk.
    judged_by: JudgedBy,
    /// The event that palisaded would report.
    event: &'a Event,
    /// The sources that trust the file, as far as this user may know.
    trusted_by: &'a [String],
    /// The command that would permit it.
    #[serde(skip_serializing_if = "Option::is_none")]
    permit: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum JudgedBy {
    Daemon,
    Files,
}

/// Returns yes if it would be allowed.
pub(super) fn explain(places: &Places, options: &Options) -> Exit {
    let path = options.path.canonicalize().map_err(|source| read(&options.path, source))?;
    let metadata = std::fs::metadata(&path).map_err(|source| read(&path, source))?;
    let may_execute = metadata.is_file() && metadata.permissions().mode() & 0o111 != 0;
    let execute = !options.open && (options.execute || may_execute);
    let (event, judged_by) = match asked(places, &path, execute, options.pid)? {
        Some(event) => (event, JudgedBy::Daemon),
        None => (judged(places, &path, execute, options.pid)?, JudgedBy::Files),
    };
    let Detail::Guard(guard) = &event.detail else { return Err(DaemonError::Strange.into()) };
    // This user may not be allowed to read the database.
    let store = files::store(places).ok().flatten();
    let trusted_by = store.map_or_else(Vec::new, |store| explain::trusted_by(&store, &path));
    let allowed = guard.decision.allows();
    let permit = (!allowed).then(|| permit(&event, guard, &path));
    if options.json {
        verb::print_json(&Document { allowed, judged_by, event: &event, trusted_by: &trusted_by, permit })?;
    } else {
        verb::print(&words(&event, guard, judged_by, &trusted_by))?;
        if let Some(permit) = permit {
            output::say(&format!("hint: {}\n", harmless(output::as_typed(&permit))));
        }
    }
    Ok(if allowed { YES } else { NO })
}

fn read(path: &Path, source: std::io::Error) -> Failure {
    Failure::Read { path: path.to_owned(), source }
}

/// The daemon's decision. `None` if it doesn't run, or doesn't answer ordinary users.
fn asked(places: &Places, path: &Path, execute: bool, pid: Option<u32>) -> Result<Option<Event>, Failure> {
    let mut talk = match Client::begin(&places.socket) {
        Err(DaemonError::NotRunning { .. }) => return Ok(None),
        talk => talk?,
    };
    let supposition = Supposition { path: change::text(path)?, execute, pid };
    match talk.ask(&Request::Judge(supposition)) {
        Ok(Response::Judged(event)) => Ok(Some(*event)),
        Ok(_) => Err(DaemonError::Strange.into()),
        Err(DaemonError::Refused(refusal)) if refusal.class == "root-only" => {
            output::note(&"palisaded answers only root; this answer comes from the files");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// The decision by the files on the disk.
fn judged(places: &Places, path: &Path, execute: bool, pid: Option<u32>) -> Result<Event, Failure> {
    let setup = files::setup(places, None)?;
    let trust = files::trusted(places, setup.settings.trust.integrity)?;
    let who = match pid {
        Some(pid) => Who::process(pid).ok_or(GuardError::NoProcess { pid })?,
        None => Who::root(Path::new("/bin/sh")),
    };
    let access = if execute { Access::Execute } else { Access::Open };
    explain::explain(setup, &trust, access, path, &who).map_err(|error| match error {
        ExplainError::File(source) => read(path, source),
        ExplainError::Setup(error) => GuardError::from(error).into(),
    })
}

/// A command that would permit it.
fn permit(event: &Event, guard: &Guard, path: &Path) -> String {
    let shown = palisade_sandbox::error::quoted(&path.to_string_lossy());
    if guard.trusted != Some(true) {
        return format!("sudo palisade guard trust add {shown}");
    }
    let place = event.why.origin.as_ref().map_or("the rules".to_owned(), ToString::to_string);
    format!("a rule before {place}: allow perm={} all : path={shown}", event.operation)
}

fn words(event: &Event, guard: &Guard, judged_by: JudgedBy, trusted_by: &[String]) -> String {
    let Event { operation, object, subject, .. } = event;
    let verdict = match event.verdict {
        Verdict::Refused => "refused",
        Verdict::WouldBeRefused => "denied, but permissive mode only reports it",
        _ => "allowed",
    };
    let says = match judged_by {
        JudgedBy::Daemon => "palisaded says",
        JudgedBy::Files => "the files say; palisaded wasn't asked",
    };
    let mut lines = vec![format!("{operation} {object}: {verdict} ({says})")];
    lines.push(match (guard.rule, &event.why.origin) {
        (Some(number), Some(origin)) => format!("  by rule {number}, {origin}: {}", guard.decision),
        _ => "  by no rule: what no rule matches is allowed".to_owned(),
    });
    let trust = match (guard.trusted == Some(true), trusted_by) {
        (true, []) => "trusted".to_owned(),
        (true, by) => format!("trusted by {}", by.join(", ")),
        (false, []) => "not trusted".to_owned(),
        (false, by) => format!("not trusted: it differs from the file that {} trusts", by.join(", ")),
    };
    lines.push(format!("  the file: {}, {trust}", guard.file_kind));
    let comm = subject.comm.as_deref().unwrap_or("?");
    let [pid, uid] = [subject.pid, subject.uid].map(palisaded::number);
    lines.push(format!("  the process: {} ({comm}, process {pid}, user {uid})", subject.program));
    if let Some((last, before)) = guard.steps.split_last() {
        if !before.is_empty() {
            lines.push("  earlier rules, and why they don't match:".to_owned());
            lines.extend(before.iter().map(|step| format!("    {step}")));
        }
        let last = last.strip_suffix(": matches").unwrap_or(last);
        lines.push(format!("  {last}"));
    }
    lines.iter().map(|line| harmless(line) + "\n").collect()
}
