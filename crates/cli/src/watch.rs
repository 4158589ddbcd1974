// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade watch`: shows what all sandboxes of this user refuse, what the guard decides about the user's processes,
//! and what happens in the user's scopes.
//!
//! - [`printer`], [`words`]: the form of the output

mod printer;
mod words;

use crate::verb::{self, Failure, YES};
use crate::{output, palisaded, situation};
use clap::ValueHint;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use palisade_event::{Kind, Verdict};
use palisade_events::{Beginning, Changes, Filter, Look, Page, StoreError, StoreFollower};
use palisade_protocol::follow::{Follower, Remark, Wanted};
use palisade_protocol::guard::SOCKET;
use printer::Printer;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use serde::Serialize;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The exit code if there is no answer.
const ERROR: u8 = 2;

/// What to show.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Begin with everything that is recorded
    #[arg(long, conflicts_with = "since")]
    all: bool,
    /// Begin with what happened this long ago: 90s, 15m, 1h30m, 2d, 1w
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    since: Option<Duration>,
    /// Go on with what happens from now on (the default)
    #[arg(long, overrides_with = "no_follow")]
    follow: bool,
    /// Print what is recorded and end
    #[arg(long, overrides_with = "follow")]
    no_follow: bool,
    /// Only events of these kinds
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',', value_parser = kinds())]
    kinds: Vec<Kind>,
    /// Only the sandbox with this name or number, or whose launcher has this process number
    #[arg(long, value_name = "ID")]
    sandbox: Option<String>,
    /// Only the process with this number
    #[arg(long, value_name = "N")]
    pid: Option<u32>,
    /// Only what ended so
    #[arg(long, value_name = "VERDICT", value_parser = verdicts())]
    verdict: Option<Verdict>,
    /// Print at most so many, of what is recorded the newest, and end
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Where palisaded answers about the guard
    #[arg(long, value_name = "SOCKET", default_value = SOCKET, value_hint = ValueHint::FilePath)]
    socket: PathBuf,
    /// Where palisaded answers about scopes; otherwise scope.sock beside the other
    #[arg(long, value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    scope_socket: Option<PathBuf>,
}

fn kinds() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.iter().map(|kind| kind.word())).try_map(|word| word.parse::<Kind>())
}

fn verdicts() -> impl TypedValueParser<Value = Verdict> {
    PossibleValuesParser::new(Verdict::ALL.iter().map(|verdict| verdict.word()))
        .try_map(|word| word.parse::<Verdict>())
}

impl Options {
    /// Whether it begins with recorded events.
    fn backlog(&self) -> bool {
        self.all || self.no_follow || self.since.is_some()
    }

    fn filter(&self, now: SystemTime) -> Filter {
        let since = self.since.map(|ago| now.checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH));
        Filter {
            since,
            sandbox: self.sandbox.clone(),
            pid: self.pid,
            verdict: self.verdict,
            kinds: self.kinds.clone(),
        }
    }

    /// The events in the store that the user asks for.
    fn recorded(&self, path: &Path, filter: Filter, begun: SystemTime) -> StoreFollower {
        let beginning = match self.limit.and_then(|limit| usize::try_from(limit).ok()) {
            _ if !self.backlog() => Beginning::Now,
            Some(limit) => Beginning::Newest(limit),
            None => Beginning::All,
        };
        StoreFollower::new(path, filter, beginning, (self.all, self.no_follow), begun)
    }

    /// The request to palisaded.
    fn wanted(&self, filter: &Filter) -> Wanted {
        let scope = || self.scope_socket.clone().unwrap_or_else(|| self.socket.with_file_name("scope.sock"));
        Wanted {
            guard: filter.wants_kind(Kind::Guard).then(|| self.socket.clone()),
            scope: filter.wants_kind(Kind::Scope).then(scope),
            past: self.backlog(),
            ends: self.no_follow,
            refused: self.verdict.is_some_and(Verdict::stopped_it),
        }
    }
}

/// Why no more events can be shown.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    /// An error that other verbs can have, too.
    #[error(transparent)]
    Answer(#[from] Failure),
    /// The store can't be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The kernel can't report signals or changes, or has no descriptors or threads left.
    #[error("can't wait for {what}: {source}")]
    Wait {
        /// For what.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// The time of day can't be determined.
    #[error("can't show times: {0}")]
    Clock(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The reason why no more events can be shown, as JSON on one line, like all output here.
#[derive(Serialize)]
struct Problem<'a> {
    schema: u32,
    error: ProblemBody<'a>,
}

#[derive(Serialize)]
struct ProblemBody<'a> {
    class: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

/// Shows events until the user interrupts it or standard output is closed. Returns 0, or 2 for an error.
pub(crate) fn run(options: &Options) -> u8 {
    let (class, message, hint) = match watch(options) {
        Ok(()) => return YES,
        Err(Trouble::Answer(failure)) => return verb::finish(options.json, Err(failure)),
        Err(Trouble::Store(error)) => ("store", error.to_string(), error.hint()),
        Err(error @ (Trouble::Wait { .. } | Trouble::Clock(_))) => ("surroundings", error.to_string(), None),
    };
    output::error(&message, hint.as_deref());
    if options.json {
        let error = ProblemBody { class, message: &message, hint: hint.as_deref() };
        if let Ok(line) = serde_json::to_string(&Problem { schema: verb::SCHEMA, error }) {
            let _told_in_words = verb::print_exactly(&(palisade_text::json(line) + "\n"));
        }
    }
    ERROR
}

fn watch(options: &Options) -> Result<(), Trouble> {
    let begun = SystemTime::now();
    let path = situation::facts()?.places.events();
    let filter = options.filter(begun);
    // Follow palisaded before reading the store, so that no event is missed.
    let threads = |source| Trouble::Wait { what: "palisaded", source };
    let mut daemon = Follower::begin(&options.wanted(&filter)).map_err(threads)?;
    let mut awaited = if options.no_follow { None } else { Some(Awaited::new(&path)?) };
    let mut printer = Printer::new(options.json, options.limit).map_err(Trouble::Clock)?;
    if options.backlog() {
        printer.hold(daemon.remembered(&mut say), &filter);
    }
    let mut recorded = options.recorded(&path, filter, begun);
    let mut said_waiting = false;
    loop {
        look(&mut recorded, &mut printer)?;
        printer.release()?;
        let Some(awaited) = &mut awaited else { break };
        if printer.printed() == 0 && !std::mem::replace(&mut said_waiting, true) {
            say_waiting(&recorded, &path);
        }
        if printer.is_full() || awaited.end(&daemon)? {
            break;
        }
        printer.hold(daemon.news(&mut say), recorded.filter());
    }
    if options.no_follow && printer.printed() == 0 {
        output::note(&format_args!("no matching event is recorded in {path:?}"));
    }
    Ok(())
}

/// Whether the store can hold what the filter wants.
fn is_recorded(filter: &Filter) -> bool {
    [Kind::Sandbox, Kind::Network].into_iter().any(|kind| filter.wants_kind(kind))
}

/// Prints what is new in the store.
fn look(recorded: &mut StoreFollower, printer: &mut Printer) -> Result<(), Trouble> {
    if !is_recorded(recorded.filter()) {
        return Ok(());
    }
    let look = recorded.look(&mut |page: Page| {
        if page.strange > 0 {
            output::note(&format_args!("{} events of a newer palisade aren't shown", page.strange));
        }
        printer.print(page.entries)?;
        Ok::<_, Trouble>(!printer.is_full())
    })?;
    if let Look::Damaged(error) = look {
        output::note(&format_args!("{error}; waiting for another"));
    }
    Ok(())
}

/// Prints that there are no events yet.
fn say_waiting(recorded: &StoreFollower, path: &Path) {
    if !is_recorded(recorded.filter()) {
        output::note(&"waiting for events from palisaded");
    } else if recorded.has_something() {
        output::note(&"waiting for refusals; for those before: palisade watch --all");
    } else {
        output::note(&format_args!("nothing was refused yet; waiting for {path:?} to be written"));
    }
}

/// Prints a remark that comes with palisaded's events.
fn say(remark: Remark) {
    match remark {
        Remark::Missed(count) => palisaded::missed(count),
        Remark::Unanswered => output::note(&"palisaded doesn't answer: its events aren't shown"),
        Remark::Unreadable(error) => {
            output::note(&format_args!("palisaded sent an event that this palisade can't read: {error}"));
        }
        Remark::Ended(kind) => {
            output::note(&format_args!("palisaded has ended: no events of the {kind} until it runs again"));
        }
        Remark::Interrupted(kind, error) => {
            output::note(&format_args!("no events of the {kind} are shown: {error}"));
        }
        Remark::Refused(kind, error) => {
            let hint = error.hint().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
            output::note(&format_args!("no events of the {kind} are shown: {error}{hint}"));
        }
    }
}

/// What ends a wait.
struct Awaited {
    changes: Changes,
    /// Readable after the user has interrupted.
    interrupted: UnixStream,
}

impl Awaited {
    fn new(path: &Path) -> Result<Self, Trouble> {
        use signal_hook::consts::{SIGINT, SIGTERM};
        let signals = |source| Trouble::Wait { what: "signals", source };
        let changes = Changes::new(path).map_err(|source| Trouble::Wait { what: "changes", source })?;
        let (interrupted, told) = UnixStream::pair().map_err(signals)?;
        for signal in [SIGINT, SIGTERM] {
            let told = told.try_clone().map_err(signals)?;
            signal_hook::low_level::pipe::register(signal, told).map_err(signals)?;
        }
        Ok(Self { changes, interrupted })
    }

    /// Waits for something to show. Returns whether the end has come instead.
    fn end(&mut self, daemon: &Follower) -> Result<bool, Trouble> {
        let patience = self.changes.patience();
        let timeout = Timespec::try_from(patience).ok();
        let stdout = rustix::stdio::stdout();
        // `poll` reports a pipe without a reader as an error even if no events are requested.
        let mut descriptors = vec![
            PollFd::from_borrowed_fd(self.interrupted.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stdout, PollFlags::empty()),
            PollFd::from_borrowed_fd(daemon.descriptor(), PollFlags::IN),
        ];
        let changes = self.changes.descriptor();
        descriptors.extend(changes.map(|changes| PollFd::from_borrowed_fd(changes, PollFlags::IN)));
        match rustix::event::poll(&mut descriptors, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Trouble::Wait { what: "changes", source: errno.into() }),
        }
        let end = descriptors.iter().take(2).any(|descriptor| !descriptor.revents().is_empty());
        self.changes.take();
        Ok(end)
    }
}

/// Parses `90s`, `15m`, `1h30m`, `2d`, `1w`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected numbers with units, such as 90s, 15m, 1h30m, 2d or 1w".to_owned();
    let mut seconds: u64 = 0;
    let mut number: Option<u64> = None;
    for character in text.chars() {
        if let Some(digit) = character.to_digit(10) {
            let before = number.unwrap_or(0).checked_mul(10);
            number = before.and_then(|before| before.checked_add(u64::from(digit)));
            number.ok_or_else(wrong)?;
            continue;
        }
        let unit = match character {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 24 * 3600,
            'w' => 7 * 24 * 3600,
            _ => return Err(wrong()),
        };
        let part = number.take().and_then(|number| number.checked_mul(unit));
        seconds = part.and_then(|part| seconds.checked_add(part)).ok_or_else(wrong)?;
    }
    if number.is_some() || text.is_empty() { Err(wrong()) } else { Ok(Duration::from_secs(seconds)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let seconds = |text| duration(text).map(|duration| duration.as_secs());
        assert_eq!(seconds("90s"), Ok(90));
        assert_eq!(seconds("1h30m"), Ok(5400));
        assert_eq!(seconds("2d"), Ok(172_800));
        assert_eq!(seconds("1w"), Ok(604_800));
        for wrong in ["", "5", "s", "1x", "1h5", "-1s", "99999999999999999999s", "9999999999999999w"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
