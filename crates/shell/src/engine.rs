// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The proxy without its descriptors: bytes of the keyboard become bytes for the shell, bytes of programs become bytes
//! for the terminal.
//!
//! - `incoming`: what is typed
//! - `outgoing`: what programs print
//! - `overlay`: what is drawn beside it
//! - `bar`: the status line
//!
//! It acts in one situation only: the shell's own hooks have said that its editor has the keyboard, and what is in the
//! editor is certain. Else bytes pass as they are.

mod bar;
mod incoming;
mod outgoing;
mod overlay;

use crate::chain::{Acts, Chain, View};
use crate::column::Column;
use crate::foreground::Foreground;
use crate::key::Decoder;
use crate::line::{LONGEST, Line};
use crate::mark::{Nonce, Shell};
use crate::vt::Scanner;
use bar::Bar;
use incoming::Asking;
use overlay::Overlay;
use palisade_sys::terminal::Modes;
use std::time::{Duration, Instant};

/// What the shell's hooks answer by telling what is in the editor.
pub const ASK: &[u8] = b"\x1b[7717~";
/// So long an answer is waited for; then what is typed goes on as it is.
const PATIENCE: Duration = Duration::from_millis(300);
/// So long what is typed before a prompt waits for its editor. What is passed on too early comes in front of what the shell
/// has taken from the terminal and gives back.
const EDITOR: Duration = Duration::from_secs(1);
/// So long the prompt is waited for by what was typed before it and was given back by the shell.
const PROMPT: Duration = Duration::from_secs(2);
/// So long nothing is typed before the shell is asked though nobody has pressed Enter.
const THOUGHT: Duration = Duration::from_millis(40);
/// Keys that are kept meanwhile, in bytes.
const KEPT: usize = 64 << 10;

/// Who has the keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nobody has said.
    Unknown,
    /// A prompt is coming.
    Prompt,
    /// The shell's editor.
    Edit,
    /// The shell: Enter was pressed.
    Submitted,
    /// A command.
    Running,
}

/// What paths are links of.
#[derive(Debug)]
struct PathsOf {
    home: String,
    memory: (String, String),
}

/// This machine's name, of letters that may stand in an address.
fn host() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '.' | '_');
    host.trim_end().chars().filter(|character| plain(*character)).collect()
}

impl PathsOf {
    fn here() -> Self {
        Self {
            home: std::env::var("HOME").unwrap_or_default(),
            memory: (String::with_capacity(1024), String::with_capacity(2048)),
        }
    }
}

/// The proxy's state.
#[derive(Debug)]
pub struct Engine {
    nonce: Nonce,
    /// Absent only while it reads.
    scanner: Option<Scanner>,
    decoder: Decoder,
    chain: Chain,
    acts: Acts,
    phase: Phase,
    shell: Option<Shell>,
    /// The shell's editor understands keys as [`Line`] does.
    followed: bool,
    line: Line,
    /// The shell has told what keys were expected to make of the line.
    exact: bool,
    /// Keys of which zsh has yet to tell what they made of the line: it does after each.
    pending: usize,
    /// The cursor isn't where the line says.
    doubted: bool,
    column: Column,
    /// The column in which the line begins.
    start: Option<usize>,
    modes: Modes,
    /// A command has switched kitty's protocol on and has left it so.
    kitty: bool,
    /// Who reads reads lines, and the kernel knows its control keys.
    cooked: bool,
    /// The window's columns and rows, and those that programs have.
    window: (u16, u16),
    size: (u16, u16),
    bar: Bar,
    foreground: Foreground,
    /// It is that of the command that runs.
    looked: bool,
    /// Lines are typed that aren't the shell's, though its marks say so.
    away: bool,
    /// The shell has a line, and hasn't said that it is done with it.
    given: bool,
    /// bash was asked what is in its editor, and draws its prompt anew behind the answer.
    redraws: bool,
    directory: String,
    /// This machine's name.
    host: String,
    incognito: bool,
    asking: Asking,
    overlay: Overlay,
    /// Addresses become links.
    links: bool,
    /// So do paths, with what is needed for that.
    paths: Option<PathsOf>,
    /// What is being read began between sequences.
    between: bool,
    /// How many rows ghost text may take.
    rows: usize,
    /// What runs, since when.
    running: String,
    since: Instant,
    /// Keys went to somebody else since the last prompt; the shell may get them.
    ahead: bool,
    /// Something was printed since the last key.
    echoed: bool,
    last_key: Instant,
    /// When the one before it was typed.
    key_before: Instant,
    /// Words that are printed when the command is over.
    notices: String,
    /// When words were shown last.
    hinted: Instant,
    /// The beginning of what may be a mark.
    held: Vec<u8>,
    /// The last byte of text that was printed.
    last_text: u8,
    /// So many bytes of the last character are still to come.
    missing: u8,
    now: Instant,
}

impl Engine {
    /// One for a shell that has this nonce, behind a window of so many columns and rows.
    #[must_use]
    pub fn new(nonce: Nonce, chain: Chain, columns: u16, rows: u16, now: Instant) -> Self {
        Self {
            nonce,
            scanner: Some(Scanner::new()),
            decoder: Decoder::default(),
            chain,
            acts: Acts::default(),
            phase: Phase::Unknown,
            shell: None,
            followed: true,
            line: Line::default(),
            exact: false,
            pending: 0,
            doubted: false,
            column: Column::of_width(usize::from(columns)),
            start: None,
            modes: Modes::default(),
            kitty: false,
            cooked: false,
            window: (columns, rows),
            size: (columns, rows),
            bar: Bar::default(),
            foreground: Foreground::default(),
            looked: false,
            away: false,
            given: false,
            redraws: false,
            directory: String::with_capacity(4096),
            host: host(),
            incognito: false,
            asking: Asking::default(),
            overlay: Overlay::default(),
            links: false,
            paths: None,
            between: true,
            rows: 3,
            running: String::with_capacity(LONGEST),
            since: now,
            ahead: false,
            echoed: false,
            last_key: now,
            key_before: now,
            notices: String::new(),
            hinted: now,
            held: Vec::with_capacity(crate::vt::LONGEST + 64),
            last_text: b'\n',
            missing: 0,
            now,
        }
    }

    /// Who has the keyboard.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the shell was given a line and hasn't said that it is done with it.
    #[must_use]
    pub fn has_line(&self) -> bool {
        self.given
    }

    /// What is in the shell's editor.
    #[must_use]
    pub fn line(&self) -> &Line {
        &self.line
    }

    /// Which shell has said that its hooks are there.
    #[must_use]
    pub fn shell(&self) -> Option<Shell> {
        self.shell
    }

    /// What programs have told the terminal, with what is to be undone at the end.
    #[must_use]
    pub fn modes(&self) -> Modes {
        self.modes
    }

    /// Whether nothing is to be remembered.
    #[must_use]
    pub fn is_incognito(&self) -> bool {
        self.incognito
    }

    /// From now on nothing is, or everything.
    pub fn set_incognito(&mut self, on: bool) {
        self.incognito = on;
        self.bar.outdate();
    }

    /// What is shown dim behind the cursor.
    #[must_use]
    pub fn ghost(&self) -> &str {
        self.overlay.tail()
    }

    /// Addresses in what commands print become links, or don't; and so do paths of files that are there.
    pub fn set_links(&mut self, on: bool, paths: bool) {
        self.links = on;
        self.paths = (on && paths).then(PathsOf::here);
    }

    /// Ghost text may take so many rows.
    pub fn set_rows(&mut self, rows: usize) {
        self.rows = rows.max(1);
    }

    /// Other modules; what they had begun is lost.
    pub fn set_chain(&mut self, chain: Chain) {
        self.chain = chain;
    }

    /// The modules, to be told something.
    pub fn chain(&mut self) -> &mut Chain {
        &mut self.chain
    }

    /// Whether who reads reads lines, with control keys that are the kernel's. Matters while [`Modes::KITTY`] is set.
    pub fn set_cooked(&mut self, cooked: bool) {
        self.cooked = cooked;
    }

    /// Time has come to `now`.
    pub fn at(&mut self, now: Instant) {
        self.now = now;
    }

    /// When something is to be done though nothing comes, from now: see [`Engine::settle`].
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        const QUIET: Duration = Duration::from_millis(2);
        const SPLIT: Duration = Duration::from_millis(25);
        /// A command that is over by then is in nobody's way.
        const SETTLED: Duration = Duration::from_millis(100);
        if let Some(left) = self.asking.left(self.now) {
            return Some(left);
        }
        if let Some(left) = self.asking.patience(self.now) {
            return Some(left);
        }
        if self.decoder.is_waiting() || self.may_let_go() {
            return Some(SPLIT);
        }
        if self.wants_foreground() {
            return Some(SETTLED.saturating_sub(self.now.saturating_duration_since(self.since)));
        }
        if self.bar.is_due() && !self.is_ours() {
            return Some(SPLIT);
        }
        if self.wants_to_ask() {
            return Some(
                THOUGHT.saturating_sub(self.now.saturating_duration_since(self.last_key)).max(QUIET),
            );
        }
        (self.is_ours() && (self.bar.is_due() || !self.overlay.is_current() || self.acts.hinted))
            .then_some(QUIET)
    }

    /// The window has another size. What is drawn is forgotten: the terminal has wrapped it anew.
    pub fn resize(&mut self, columns: u16, rows: u16, to: &mut dyn FnMut(&[u8])) {
        self.erase(to);
        self.window = (columns, rows);
        self.column.resize(usize::from(columns));
        self.start = None;
        self.find_row(to);
        let (columns, rows) = self.size;
        self.chain.each(|module| module.resize(columns, rows));
    }

    /// A second has passed.
    pub fn tick(&mut self) {
        self.with_view(|chain, view, acts| chain.each(|module| module.tick(view, acts)));
        self.settings_of_acts();
    }

    /// Says something below the line, as soon as the shell's editor is there.
    pub fn say(&mut self, words: &str) {
        self.acts.say(words);
    }

    /// Says something about the line that runs: behind what it prints, as soon as it is over and the terminal shows its
    /// normal screen; what comes too late for that, below the next line.
    pub fn notify(&mut self, words: &str) {
        const MOST: usize = 4096;
        for line in words.lines().filter(|line| !line.is_empty()) {
            if self.notices.len() + line.len() < MOST {
                self.notices.push_str(&palisade_text::harmless(line));
                self.notices.push('\n');
            }
        }
        self.mention();
    }

    /// Shows below the line what was to be said before it.
    fn mention(&mut self) {
        if self.is_ours() && !self.notices.is_empty() {
            let notices = core::mem::take(&mut self.notices);
            self.acts.say(notices.trim_end());
        }
    }

    /// What is worth knowing, in a few words.
    pub fn status(&self, into: &mut String) {
        let view = self.view();
        self.chain.ask(|module| module.status(&view, into));
    }

    /// Marks say that the shell's editor is there, and this is who has the terminal. If that is somebody else, the lines
    /// that are typed are nobody's to know.
    pub fn set_editing(&mut self, foreground: Foreground) {
        self.away = foreground.is_foreign();
        if self.away {
            self.line.lose();
        }
        self.set_foreground(foreground);
    }

    /// Whether the shell's editor has the keyboard and the screen.
    fn is_ours(&self) -> bool {
        self.phase == Phase::Edit && !self.away && !self.modes.has(Modes::ALTERNATE)
    }

    fn view(&self) -> View<'_> {
        View {
            line: &self.line,
            shell: self.shell,
            directory: &self.directory,
            size: self.size,
            foreground: &self.foreground,
            incognito: self.incognito,
            ghost: self.overlay.tail(),
            now: self.now,
        }
    }

    /// Lets the modules do something with the state in view.
    fn with_view<T>(&mut self, what: impl FnOnce(&mut Chain, &View<'_>, &mut Acts) -> T) -> T {
        let view = View {
            line: &self.line,
            shell: self.shell,
            directory: &self.directory,
            size: self.size,
            foreground: &self.foreground,
            incognito: self.incognito,
            ghost: self.overlay.tail(),
            now: self.now,
        };
        what(&mut self.chain, &view, &mut self.acts)
    }

    fn settings_of_acts(&mut self) {
        if let Some(incognito) = self.acts.incognito.take() {
            self.incognito = incognito;
            self.bar.outdate();
        }
        if core::mem::take(&mut self.acts.renew) {
            self.overlay.outdate();
        }
    }
}

#[cfg(test)]
mod tests;
