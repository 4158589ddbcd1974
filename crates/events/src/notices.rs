// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints lines about a launch's refusals while the command runs.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;

use palisade_event::Event;
use rustix::termios::LocalModes;

use crate::{Sink, Style, Words};

/// The most lines about refusals in one launch: the command's own output matters more.
const MOST: usize = 5;

/// Prints some lines to standard error, then where to find more. While the command uses the whole screen, the lines
/// wait.
pub struct Notices {
    words: Words<Box<dyn Write + Send>>,
    quiet: bool,
    drawing: fn() -> bool,
    hasher: RandomState,
    seen: HashSet<u64>,
    referred: bool,
    waiting: Vec<String>,
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

    /// Prints to `writer`.
    #[must_use]
    pub fn new(writer: Box<dyn Write + Send>, style: Style) -> Self {
        Self {
            words: Words::new(writer, style),
            quiet: false,
            drawing: || false,
            hasher: RandomState::new(),
            seen: HashSet::new(),
            referred: false,
            waiting: Vec::new(),
        }
    }

    /// Prints a refusal, if it wasn't printed before.
    pub(crate) fn refused(&mut self, event: &Event) {
        let like = self.hasher.hash_one(event.likeness());
        // The launcher prints its own findings elsewhere.
        let own = event.subject.pid == Some(std::process::id());
        if own || self.quiet || self.referred || self.seen.contains(&like) {
            return;
        }
        if self.seen.len() < MOST {
            self.seen.insert(like);
            let hint = event.hint.as_ref().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
            self.say(format!("{event}{hint}"));
        } else {
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

    fn say(&mut self, line: String) {
        self.waiting.push(line);
        if !(self.drawing)() {
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
    fn a_name_cant_break_the_line() {
        let (reader, mut notices) = piped();
        notices.refused(&refusal("/a\n\x1b[2J"));
        assert_eq!(all(reader, notices).lines().count(), 1);
    }

    #[test]
    fn while_the_command_draws_they_wait() {
        static DRAWING: AtomicBool = AtomicBool::new(true);
        let (reader, notices) = piped();
        let mut notices = Notices { drawing: || DRAWING.load(Ordering::Relaxed), ..notices };
        notices.refused(&refusal("/a"));
        assert_eq!(notices.waiting.len(), 1);
        DRAWING.store(false, Ordering::Relaxed);
        notices.note("b");
        assert!(notices.waiting.is_empty());
        let text = all(reader, notices);
        assert!(text.lines().next().unwrap().contains(" /a ") && text.ends_with("palisade: note: b\n"));
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
