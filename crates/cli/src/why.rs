// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade why`: says what the last launch from this terminal was refused, and what would permit it.
//!
//! A launch that failed or was refused something leaves a note about itself, one for each terminal. What was refused is
//! in the store of events.

use crate::verb::{self, Exit, Failure, NO, YES};
use crate::{ps, situation};
use palisade_event::{Event, Launch};
use palisade_events::{Filter, Store, StoreError};
use palisade_text::{harmless, quoted};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The directory of the notes, below the user's state.
const DIRECTORY: &str = "last";
/// How long the end of a launch waits for the note to be written.
const PATIENCE: Duration = Duration::from_secs(1);
/// A longer file is none of these notes.
const LONGEST: u64 = 1 << 16;

/// What to print.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A launch counts if the command failed or something was refused.

Examples:
  palisade run -- npm install; palisade why")]
pub(crate) struct Options {
    /// Answer as JSON
    #[arg(long)]
    json: bool,
}

/// The note about a launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastLaunch {
    /// Its number, as `palisade watch` shows it.
    sandbox: String,
    /// The command line, on one line.
    command: String,
    /// The exit code.
    code: u8,
    /// When it ended, in seconds since 1970.
    time: u64,
    /// The command that does the same and says which paths are missing inside. `None`: it was traced.
    trace: Option<String>,
}

/// The answer.
#[derive(Debug, Serialize)]
struct Output {
    launch: LastLaunch,
    events: Vec<Event>,
}

impl LastLaunch {
    /// The note about a launch that ends now. `arguments` are those of this process.
    pub(crate) fn now(launch: &Launch, code: u8, arguments: &[OsString]) -> Self {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let (sandbox, command) = (launch.sandbox.to_string(), launch.command.to_string());
        Self { sandbox, command, code, time, trace: traced(arguments) }
    }

    /// Leaves the note. If it can't be written, `palisade why` tells of an earlier launch, with its time. The end of a
    /// launch doesn't wait for a disk that doesn't answer.
    pub(crate) fn keep(self, place: impl FnOnce() -> Option<PathBuf> + Send + 'static) {
        let (written, done) = std::sync::mpsc::channel();
        let work = move || {
            let _not_kept = place().map(|state| self.write(&state.join(DIRECTORY)));
            let _nobody_waits = written.send(());
        };
        if std::thread::Builder::new().spawn(work).is_ok() {
            let _too_slow = done.recv_timeout(PATIENCE);
        }
    }

    fn write(&self, directory: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(directory)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.persist(directory.join(terminal()))?;
        Ok(())
    }

    fn read(state: &Path) -> Option<Self> {
        let file = state.join(DIRECTORY).join(terminal());
        let small = file.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() < LONGEST);
        serde_json::from_slice(&std::fs::read(file).ok().filter(|_| small)?).ok()
    }
}

/// The command line with `--trace`. `None` if it has that already, or isn't one of `run`.
fn traced(arguments: &[OsString]) -> Option<String> {
    let (verb, rest) = arguments.get(1..)?.split_first()?;
    let options = rest.iter().take_while(|word| *word != "--");
    if verb != "run" || options.into_iter().any(|word| word == "--trace") {
        return None;
    }
    let words: Vec<String> = rest.iter().map(|word| quoted(&word.to_string_lossy())).collect();
    Some(format!("palisade run --trace {}", harmless(&words.join(" "))))
}

/// The hint for a command that failed although nothing was refused.
pub(crate) fn without_refusal(arguments: &[OsString]) -> Option<String> {
    let trace = traced(arguments)?;
    Some(format!(
        "nothing was refused that Palisade sees; missing paths leave no trace, to see them: {trace}"
    ))
}

/// The name of the file for this process's terminal. Processes without one share a file.
fn terminal() -> String {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name, which may hold anything: state, parent, group, session, terminal.
    let number = stat.rsplit_once(") ").and_then(|(_name, rest)| rest.split(' ').nth(4)).unwrap_or("0");
    format!("{number}.json")
}

/// Answers. Returns 1 if there is nothing to tell of.
pub(crate) fn run(options: &Options) -> u8 {
    verb::finish(options.json, answer(options.json))
}

/// The answer for `palisade why` and for `palisade explain` without an operand.
pub(crate) fn answer(json: bool) -> Exit {
    let places = situation::facts()?.places;
    let Some(launch) = LastLaunch::read(&places.state) else {
        crate::output::note(&"no launch from this terminal has failed or was refused anything");
        return Ok(NO);
    };
    let events = recorded(places.events(), &launch.sandbox).map_err(Failure::Events)?;
    verb::tell(json, &Output { launch, events }, words)?;
    Ok(YES)
}

fn recorded(path: PathBuf, sandbox: &str) -> Result<Vec<Event>, StoreError> {
    let Some(store) = Store::find(&path)? else { return Ok(Vec::new()) };
    let filter = Filter { sandbox: Some(sandbox.to_owned()), ..Filter::default() };
    let (mut events, mut position) = (Vec::new(), 0);
    loop {
        let page = store.after(position, &filter)?;
        events.extend(page.entries.into_iter().map(|entry| entry.event));
        if !page.more {
            return Ok(events);
        }
        position = page.position;
    }
}

/// Refusals that programs expect are named last: many programs try what an older kernel lacks.
fn words(output: &Output) -> String {
    let Output { launch, events } = output;
    let age = SystemTime::now().duration_since(UNIX_EPOCH + Duration::from_secs(launch.time));
    let mut text = format!(
        "{} ended with code {}, {} (sandbox {})\n",
        launch.command,
        launch.code,
        ps::ago(age.unwrap_or_default()),
        launch.sandbox
    );
    let expected =
        |event: &&Event| matches!(&event.detail, palisade_event::Detail::Sandbox(of) if of.expected);
    let (usual, told): (Vec<&Event>, Vec<&Event>) = events.iter().partition(expected);
    for event in told.iter().chain(&usual) {
        let times = if event.count > 1 { format!(", {} times", event.count) } else { String::new() };
        let _infallible = writeln!(text, "  {}{times}", harmless(&event.to_string()));
        if let Some(hint) = &event.hint {
            let _infallible = writeln!(text, "    {}", harmless(hint));
        }
    }
    if told.is_empty() {
        text.push_str("  nothing that matters was refused, as far as Palisade sees\n");
    }
    if let Some(trace) = &launch.trace {
        let _infallible =
            writeln!(text, "  what it looked for and didn't find leaves no trace; to see that:\n    {trace}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_traces_is_the_users_own() {
        let of = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            traced(&words)
        };
        assert_eq!(
            of(&["palisade", "run", "--ro", "/a b", "--", "make", "-j"]).unwrap(),
            "palisade run --trace --ro '/a b' -- make -j"
        );
        assert_eq!(of(&["palisade", "run", "--trace", "--", "make"]), None);
        assert!(of(&["palisade", "run", "--", "make", "--trace"]).is_some());
        assert_eq!(of(&["palisade", "open", "x"]), None);
    }

    #[test]
    fn a_note_is_read_back_and_a_damaged_one_is_none() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(LastLaunch::read(state.path()), None);
        let launch = Launch::new(&["make"], 7, UNIX_EPOCH);
        let ended =
            LastLaunch::now(&launch, 2, &["palisade".into(), "run".into(), "--".into(), "make".into()]);
        let place = state.path().to_owned();
        ended.clone().keep(move || Some(place));
        assert_eq!(LastLaunch::read(state.path()), Some(ended));
        std::fs::write(state.path().join(DIRECTORY).join(terminal()), "{").unwrap();
        assert_eq!(LastLaunch::read(state.path()), None);
    }
}
