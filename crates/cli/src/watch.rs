// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade watch`: what is being refused, in all sandboxes of this user.

use crate::answer::{self, Failure, YES};
use crate::output;
use crate::situation;
use palisade_event::{Event, Launch, Verdict};
use palisade_events::{Changes, Entry, Filter, Store, StoreError, Style};
use palisade_text::harmless;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use serde::Serialize;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// There is no answer.
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
    /// Only the sandbox with this name or number, or whose launcher has this process number
    #[arg(long, value_name = "ID")]
    sandbox: Option<String>,
    /// Print at most so many, of what is recorded the newest, and end
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

/// Why there is nothing more to show.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    /// What other verbs may meet, too.
    #[error(transparent)]
    Answer(#[from] Failure),
    /// The store can't be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The kernel doesn't tell of signals or changes.
    #[error("can't wait for {what}: {source}")]
    Wait {
        /// For what.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
}

/// Why there is nothing more to show, for programs: one line, as everything here.
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

/// Shows refusals until it is interrupted or nobody reads any more: 0; 2 error.
pub(crate) fn run(options: &Options) -> u8 {
    let (class, message, hint) = match watch(options) {
        Ok(()) => return YES,
        Err(Trouble::Answer(failure)) => return answer::finish(options.json, Err(failure)),
        Err(Trouble::Store(error)) => ("store", error.to_string(), error.hint()),
        Err(error @ Trouble::Wait { .. }) => ("surroundings", error.to_string(), None),
    };
    output::error(&message, hint.as_deref());
    if options.json {
        let error = ProblemBody { class, message: &message, hint: hint.as_deref() };
        if let Ok(line) = serde_json::to_string(&Problem { schema: answer::SCHEMA, error }) {
            let _told_in_words = answer::print_exactly(&(palisade_text::json(line) + "\n"));
        }
    }
    ERROR
}

fn watch(options: &Options) -> Result<(), Trouble> {
    let path = situation::facts()?.places.events();
    let follow = !options.no_follow;
    // Before the store is looked at, so that nothing happens unseen.
    let mut awaited = if follow { Some(Awaited::new(&path)?) } else { None };
    let mut watching = Watching::new(options, path);
    loop {
        watching.look()?;
        let Some(awaited) = &mut awaited else { break };
        if watching.left == Some(0) || awaited.end()? {
            break;
        }
    }
    if !follow && watching.printed == 0 {
        output::note(&format_args!("nothing that fits is recorded in {:?}", watching.path));
    }
    Ok(())
}

/// What ends a wait.
struct Awaited {
    changes: Changes,
    /// Readable once it was interrupted.
    interrupted: UnixStream,
}

impl Awaited {
    fn new(path: &std::path::Path) -> Result<Self, Trouble> {
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

    /// Waits for something to look at; says whether it is the end instead.
    fn end(&mut self) -> Result<bool, Trouble> {
        let patience = self.changes.patience();
        let timeout = Timespec::try_from(patience).ok();
        let stdout = rustix::stdio::stdout();
        // A pipe without a reader is an error, which is told without being asked for.
        let mut descriptors = vec![
            PollFd::from_borrowed_fd(self.interrupted.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stdout, PollFlags::empty()),
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

/// What has been shown so far, and of what.
struct Watching<'a> {
    options: &'a Options,
    path: PathBuf,
    filter: Filter,
    begun: SystemTime,
    style: Style,
    store: Option<Store>,
    /// In the store; none before the first look.
    position: Option<i64>,
    printed: u64,
    left: Option<u32>,
    /// The sandbox of the last line.
    sandbox: Option<std::sync::Arc<str>>,
    said_waiting: bool,
    said_damaged: bool,
}

impl<'a> Watching<'a> {
    fn new(options: &'a Options, path: PathBuf) -> Self {
        let begun = SystemTime::now();
        let since = options.since.map(|ago| begun.checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH));
        Self {
            options,
            path,
            filter: Filter { since, sandbox: options.sandbox.clone() },
            begun,
            style: Style::of(&std::io::stdout()),
            store: None,
            position: None,
            printed: 0,
            left: options.limit,
            sandbox: None,
            said_waiting: false,
            said_damaged: false,
        }
    }

    /// Shows what is new.
    fn look(&mut self) -> Result<(), Trouble> {
        match self.read() {
            Ok(()) => self.said_damaged = false,
            // The next refusal moves it aside.
            Err(Trouble::Store(error @ StoreError::Damaged { .. })) if !self.options.no_follow => {
                self.store = None;
                if !std::mem::replace(&mut self.said_damaged, true) {
                    output::note(&format_args!("{error}; waiting for another"));
                }
            }
            Err(Trouble::Store(StoreError::Busy { .. })) if !self.options.no_follow => {}
            // It went away or was replaced while it was read.
            Err(Trouble::Store(StoreError::Sqlite { .. }))
                if self.store.as_ref().is_some_and(|store| !store.is_current()) =>
            {
                self.store = None;
            }
            Err(error) => return Err(error),
        }
        if self.printed == 0 && !self.options.no_follow && !std::mem::replace(&mut self.said_waiting, true) {
            self.say_waiting();
        }
        Ok(())
    }

    fn say_waiting(&self) {
        let recorded = self.store.as_ref().is_some_and(|store| store.end().is_ok_and(|end| end > 0));
        if recorded {
            output::note(&"waiting for refusals; for those before: palisade watch --all");
        } else {
            output::note(&format_args!("nothing was refused yet; waiting for {:?} to be written", self.path));
        }
    }

    fn read(&mut self) -> Result<(), Trouble> {
        if self.store.as_ref().is_some_and(|store| !store.is_current()) {
            self.store = None;
        }
        if self.store.is_none() {
            let Some(store) = Store::find(&self.path)? else {
                // What comes to be from now on is new.
                self.position.get_or_insert(0);
                return Ok(());
            };
            self.position = Some(self.start(&store)?);
            self.store = Some(store);
        }
        loop {
            let (Some(store), Some(position)) = (&self.store, self.position) else { return Ok(()) };
            let page = store.after(position, &self.filter)?;
            let most = self.left.and_then(|left| usize::try_from(left).ok()).unwrap_or(usize::MAX);
            let shown: Vec<Entry> = page.entries.into_iter().take(most).collect();
            if page.strange > 0 {
                output::note(&format_args!("{} events of a newer palisade aren't shown", page.strange));
            }
            self.position = Some(page.position);
            self.show(&shown)?;
            if !page.more || self.left == Some(0) {
                return Ok(());
            }
        }
    }

    /// Where to begin in a store.
    fn start(&mut self, store: &Store) -> Result<i64, StoreError> {
        if self.position.is_some() {
            // It has come to be since, or has taken the place of another: what is in it is new, unless
            // somebody put an old one there.
            if !self.options.all && self.filter.since.is_none() {
                self.filter.since = Some(self.begun);
            }
            return Ok(0);
        }
        let backlog = self.options.all || self.options.no_follow || self.filter.since.is_some();
        match self.left.and_then(|left| usize::try_from(left).ok()) {
            _ if !backlog => store.end(),
            Some(left) => store.before_newest(left, &self.filter),
            None => Ok(0),
        }
    }

    fn show(&mut self, entries: &[Entry]) -> Result<(), Trouble> {
        let Some(store) = &self.store else { return Ok(()) };
        let today = store.clock(SystemTime::now())?;
        let mut text = String::new();
        for entry in entries {
            if self.options.json {
                let line =
                    serde_json::to_string(entry).map_err(|error| Failure::Output { source: error.into() })?;
                text.push_str(&palisade_text::json(line));
                text.push('\n');
            } else {
                let launch = entry.event.launch.as_ref();
                if let Some(launch) = launch.filter(|launch| self.sandbox.as_ref() != Some(&launch.sandbox)) {
                    text.push_str(&heading(&entry.event, launch, self.style));
                    self.sandbox = Some(std::sync::Arc::clone(&launch.sandbox));
                }
                let clock = store.clock(entry.event.time)?;
                text.push_str(&words(&entry.event, since_midnight(&clock, &today), self.style));
            }
        }
        let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        self.printed += u64::from(count);
        self.left = self.left.map(|left| left.saturating_sub(count));
        if text.is_empty() { Ok(()) } else { Ok(answer::print_exactly(&text)?) }
    }
}

/// Only the time, of a time today.
fn since_midnight<'a>(clock: &'a str, today: &str) -> &'a str {
    match (clock.split_once(' '), today.split_once(' ')) {
        (Some((day, time)), Some((today, _))) if day == today => time,
        _ => clock,
    }
}

/// Whose refusals follow.
fn heading(event: &Event, launch: &Launch, style: Style) -> String {
    let name = event.subject.sandbox.as_ref().map(|name| format!(" ({})", harmless(name)));
    let line = format!(
        "sandbox {}{}: {}",
        harmless(&launch.sandbox),
        name.unwrap_or_default(),
        harmless(&launch.command)
    );
    format!("{}\n", coloured(style, "1", &line))
}

/// What was refused, by which rule, and what would permit it.
fn words(event: &Event, clock: &str, style: Style) -> String {
    let pid = event.subject.pid.map(|pid| format!(" ({pid})")).unwrap_or_default();
    let rule = event.why.origin.as_ref().map(|origin| format!(", {origin}")).unwrap_or_default();
    let times = if event.count > 1 { format!(" ({} times)", event.count) } else { String::new() };
    let colour = match event.verdict {
        Verdict::Allowed => "32",
        Verdict::Refused | Verdict::Killed => "31",
        Verdict::Downgraded | Verdict::Warned | Verdict::WouldBeRefused => "33",
    };
    let mut text = format!(
        "{} {}{pid}: {} {} {}: {}{}{times}\n",
        coloured(style, "2", clock),
        harmless(&event.subject.program),
        coloured(style, colour, &event.verdict.to_string()),
        event.operation,
        coloured(style, "1", &harmless(&event.object.to_string())),
        harmless(&event.why.text),
        harmless(&rule),
    );
    if let Some(hint) = &event.hint {
        text.push_str(&format!("    {} {}\n", coloured(style, "36", "hint:"), harmless(hint)));
    }
    text
}

fn coloured(style: Style, code: &str, text: &str) -> String {
    match style {
        Style::Plain => text.to_owned(),
        Style::Colour => format!("\x1b[{code}m{text}\x1b[0m"),
    }
}

/// `90s`, `15m`, `1h30m`, `2d`, `1w`.
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

    #[test]
    fn today_needs_no_date() {
        assert_eq!(since_midnight("2026-01-02 03:04:05", "2026-01-02 10:00:00"), "03:04:05");
        assert_eq!(since_midnight("2026-01-01 03:04:05", "2026-01-02 10:00:00"), "2026-01-01 03:04:05");
    }
}
