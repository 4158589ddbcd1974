// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints lines about a launch's refusals while the command runs.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::time::{Duration, Instant};

use palisade_event::{Event, ForModel, Refusal};
use rustix::termios::LocalModes;

use crate::{Sink, Style, Words};

/// The most lines about refusals in one launch: the command's own output matters more.
const MOST: usize = 5;
/// How many refusals are repeated after a failure.
const LAST: usize = 3;
/// After this time later output has covered a line.
const COVERED: Duration = Duration::from_secs(2);

/// Prints some lines to standard error, then where to find more. While the command uses the whole screen, the lines
/// wait.
pub struct Notices {
    words: Words<Box<dyn Write + Send>>,
    quiet: bool,
    for_model: bool,
    drawing: fn() -> bool,
    asking: fn() -> bool,
    hasher: RandomState,
    seen: HashSet<u64>,
    referred: bool,
    waiting: Vec<String>,
    /// The last refusals, and when they were printed. `None`: they weren't.
    last: VecDeque<(String, Option<Instant>)>,
}

impl std::fmt::Debug for Notices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notices").field("seen", &self.seen.len()).finish_non_exhaustive()
    }
}

impl Notices {
    /// Prints to standard error. `quiet` suppresses all lines.
    #[must_use]
    pub fn stderr(quiet: bool) -> Self {
        let stderr = std::io::stderr();
        let style = Style::of(&stderr);
        Self { drawing: stderr_is_raw, quiet, ..Self::new(Box::new(stderr), style) }
    }

    /// Also waits while `asking`: a question to the user is on the screen.
    #[must_use]
    pub fn waiting_while(self, asking: fn() -> bool) -> Self {
        Self { asking, ..self }
    }

    /// Prints each refusal as a sentence for a program that acts on what it reads ([`ForModel`]).
    #[must_use]
    pub fn for_model(self, for_model: bool) -> Self {
        Self { for_model, ..self }
    }

    /// Prints to `writer`.
    #[must_use]
    pub fn new(writer: Box<dyn Write + Send>, style: Style) -> Self {
        Self {
            words: Words::new(writer, style),
            quiet: false,
            for_model: false,
            drawing: || false,
            asking: || false,
            hasher: RandomState::new(),
            seen: HashSet::new(),
            referred: false,
            waiting: Vec::new(),
            last: VecDeque::new(),
        }
    }

    /// Prints a refusal, if it wasn't printed before.
    pub(crate) fn refused(&mut self, event: &Event) {
        let like = self.hasher.hash_one(event.likeness());
        // The launcher prints its own findings elsewhere.
        let own = event.subject.pid == Some(std::process::id());
        if own || self.quiet || self.seen.contains(&like) {
            return;
        }
        let line = if self.for_model && Refusal::is_one(event) {
            ForModel(event).to_string()
        } else {
            let hint = event.hint.as_ref().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
            format!("{event}{hint}")
        };
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        let printed = self.seen.len() < MOST;
        self.last.push_back((line.clone(), printed.then(Instant::now)));
        if printed {
            self.seen.insert(like);
            self.say(line);
        } else if !self.referred {
            self.referred = true;
            let sandbox = event.launch.as_ref().map(|launch| format!(" --sandbox {}", launch.sandbox));
            self.say(format!("further refusals: palisade watch --all{}", sandbox.unwrap_or_default()));
        }
    }

    /// Prints another useful line.
    pub(crate) fn note(&mut self, text: &str) {
        if !self.quiet {
            self.say(format!("note: {text}"));
        }
    }

    /// The command has failed: repeats the last refusals, if they weren't printed or its later output has covered them.
    pub(crate) fn failed(&mut self, now: Instant) {
        let covered = |(_line, printed): &(String, Option<Instant>)| {
            printed.is_none_or(|printed| now.duration_since(printed) >= COVERED)
        };
        if !self.last.iter().any(covered) {
            return;
        }
        for (line, _printed) in std::mem::take(&mut self.last) {
            self.say(format!("perhaps why it failed: {}", line.strip_prefix("refused: ").unwrap_or(&line)));
        }
    }

    fn say(&mut self, line: String) {
        self.waiting.push(line);
        if !(self.drawing)() && !(self.asking)() {
            self.flush();
        }
    }

    /// Prints the lines that waited.
    pub(crate) fn flush(&mut self) {
        for line in self.waiting.drain(..) {
            self.words.emit(line.as_str());
        }
    }
}

/// Whether standard error is a terminal in raw mode. Then an editor or an agent draws on it, and a line from the
/// launcher would disturb the picture.
fn stderr_is_raw() -> bool {
    rustix::termios::tcgetattr(rustix::stdio::stderr())
        .is_ok_and(|settings| !settings.local_modes.contains(LocalModes::ICANON))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{launch, refusal};
    use std::io::{PipeReader, Read};
    use std::sync::atomic::{AtomicBool, Ordering};

    fn piped() -> (PipeReader, Notices) {
        let (reader, writer) = std::io::pipe().unwrap();
        (reader, Notices::new(Box::new(writer), Style::Plain))
    }

    fn all(mut reader: PipeReader, notices: Notices) -> String {
        drop(notices);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn five_are_told_once_each_then_where_to_find_more() {
        let (reader, mut notices) = piped();
        let launch = launch(&["x"]);
        for number in [0, 0, 1, 2, 3, 4, 0, 5, 6, 7] {
            let hint = (number == 0).then(|| "palisade run --rw /0".to_owned());
            let event = refusal(&format!("/{number}")).with_hint(hint);
            notices.refused(&Event { launch: Some(launch.clone()), ..event });
        }
        let text = all(reader, notices);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 6, "{text}");
        assert_eq!(
            lines[0],
            "palisade: refused: write /0 by sed: protected, /c/config.toml:3 (broker); hint: palisade run --rw /0"
        );
        assert_eq!(
            lines[5],
            format!("palisade: further refusals: palisade watch --all --sandbox {}", launch.sandbox)
        );
    }

    #[test]
    fn after_a_failure_the_last_ones_are_repeated_if_they_were_covered() {
        let said = |numbers: std::ops::Range<u32>, later: Duration| {
            let (reader, mut notices) = piped();
            for number in numbers {
                notices.refused(&refusal(&format!("/{number}")));
            }
            notices.failed(Instant::now() + later);
            let text = all(reader, notices);
            let again =
                text.lines().filter_map(|line| line.strip_prefix("palisade: perhaps why it failed: "));
            again.map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert!(said(0..3, Duration::ZERO).is_empty(), "they were just printed");
        assert_eq!(said(0..2, COVERED), ["/0", "/1"]);
        assert_eq!(said(0..9, Duration::ZERO), ["/6", "/7", "/8"], "these weren't printed");
    }

    #[test]
    fn a_name_cant_break_the_line() {
        let (reader, mut notices) = piped();
        notices.refused(&refusal("/a\n\x1b[2J"));
        assert_eq!(all(reader, notices).lines().count(), 1);
    }

    #[test]
    fn while_the_command_draws_they_wait() {
        static DRAWING: AtomicBool = AtomicBool::new(true);
        static ASKING: AtomicBool = AtomicBool::new(true);
        let (reader, notices) = piped();
        let notices = Notices { drawing: || DRAWING.load(Ordering::Relaxed), ..notices };
        let mut notices = notices.waiting_while(|| ASKING.load(Ordering::Relaxed));
        notices.refused(&refusal("/a"));
        assert_eq!(notices.waiting.len(), 1);
        DRAWING.store(false, Ordering::Relaxed);
        notices.refused(&refusal("/c"));
        assert_eq!(notices.waiting.len(), 2);
        ASKING.store(false, Ordering::Relaxed);
        notices.note("b");
        assert!(notices.waiting.is_empty());
        let text = all(reader, notices);
        assert!(text.lines().next().unwrap().contains(" /a ") && text.ends_with("palisade: note: b\n"));
    }

    #[test]
    fn a_model_is_told_not_to_retry() {
        let (reader, notices) = piped();
        let mut notices = notices.for_model(true);
        for _again in 0..3 {
            notices.refused(&refusal("/a").with_hint(Some("palisade run --rw /a …".into())));
        }
        let said = "palisade: refused: write /a by sed: protected, /c/config.toml:3 (broker). Do not retry. \
                    Only the user can permit it: palisade run --rw /a …\n";
        assert_eq!(all(reader, notices), said);
    }

    #[test]
    fn quiet_is_quiet() {
        let (reader, notices) = piped();
        let mut notices = Notices { quiet: true, ..notices };
        notices.refused(&refusal("/a"));
        notices.note("b");
        assert_eq!(all(reader, notices), "");
    }
}
