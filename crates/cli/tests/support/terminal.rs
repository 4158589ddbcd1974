// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A terminal to type into and look at: a tmux server of its own.

use super::{Place, eventually, job};
use std::process::Command;

/// A screen of 80 by 24. The server ends with it.
pub struct Terminal<'p> {
    place: &'p Place,
    socket: String,
}

impl<'p> Terminal<'p> {
    /// Opens one with `bash` in it, whose prompt is `$ `.
    pub fn open(place: &'p Place) -> Self {
        let terminal = Self { place, socket: place.mark.clone() };
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
