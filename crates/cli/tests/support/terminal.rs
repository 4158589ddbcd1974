// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A terminal for a test to type into and read: a tmux server of its own.

use super::{Place, eventually, job};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What stands where palisade takes an answer.
const READY: &str = "Your answer:";

/// A screen of 80 by 24. The server ends with it.
pub struct Terminal<'p> {
    place: &'p Place,
    socket: String,
}

impl<'p> Terminal<'p> {
    /// Opens one with `bash` in it, whose prompt is `$ `.
    pub fn open(place: &'p Place) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // The server of another one at this place may be about to end.
        let socket = format!("{}-{}", place.mark, NEXT.fetch_add(1, Ordering::Relaxed));
        let terminal = Self { place, socket };
        terminal.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
            "env PS1='$ ' PROMPT_COMMAND= HISTFILE= bash --norc --noprofile",
        ]);
        terminal.wait_for_line("$");
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = self.place.command("tmux");
        command
            .env("TMUX_TMPDIR", &self.place.home)
            .env("TERM", "xterm")
            .args(["-L", &self.socket])
            .args(arguments);
        let run = job::finish(&mut command);
        assert_eq!(run.code, 0, "tmux {arguments:?}: {run:?}");
        run.out
    }

    /// Types.
    pub fn text(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// Types a line and Enter.
    pub fn line(&self, line: &str) {
        self.text(line);
        self.key("Enter");
    }

    /// Waits until palisade asks about something that contains `question`, and types a line in answer.
    #[track_caller]
    pub fn answer(&self, question: &str, word: &str) {
        self.wait_for_question(question);
        self.line(word);
        let typed = format!("{READY} {word}");
        self.wait_until("another screen", |screen| !screen.contains(&typed));
    }

    /// Waits until palisade takes an answer to something that contains `question`.
    #[track_caller]
    pub fn wait_for_question(&self, question: &str) {
        self.wait_until(question, |screen| screen.contains(question) && screen.contains(READY));
    }

    /// Presses one key, as tmux names it.
    pub fn key(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Changes its size.
    pub fn resize(&self, columns: u32, rows: u32) {
        self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    /// What is on the screen.
    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until `text` is on the screen.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        self.wait_until(text, |screen| screen.contains(text));
    }

    /// Waits until a line of the screen is exactly `line`.
    #[track_caller]
    pub fn wait_for_line(&self, line: &str) {
        self.wait_until(line, |screen| screen.lines().any(|found| found == line));
    }

    /// Waits until the screen is as wanted.
    #[track_caller]
    pub fn wait_until(&self, what: &str, condition: impl Fn(&str) -> bool) {
        let mut screen = String::new();
        let seen = eventually(|| {
            screen = self.screen();
            condition(&screen)
        });
        assert!(seen, "{what:?} isn't on the screen:\n{screen}");
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let mut command = self.place.command("tmux");
        command.env("TMUX_TMPDIR", &self.place.home).args(["-L", &self.socket, "kill-server"]);
        let _gone = command.output();
    }
}

/// A command as a shell reads it.
pub fn words(command: &Command) -> String {
    let quote = |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap().replace('\'', r"'\''"));
    let arguments = command.get_args().map(quote);
    std::iter::once(quote(command.get_program())).chain(arguments).collect::<Vec<_>>().join(" ")
}
