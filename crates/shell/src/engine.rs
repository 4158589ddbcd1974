// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shell proxy's logic without its descriptors: it turns bytes of the keyboard into bytes for the shell, and bytes
//! of programs into bytes for the terminal.
//!
//! - `incoming`: handles what is typed
//! - `outgoing`: handles what programs print
//! - `overlay`: draws ghost text and hints
//! - `bar`: the status line
//!
//! The engine acts only in one situation: the shell's hooks have said that its editor has the keyboard, and the text in
//! the editor is certain. In all other situations, bytes pass unchanged.

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

/// The question to the shell's hooks: what is in the editor?
pub const ASK: &[u8] = b"\x1b[7717~";
/// How long to wait for the answer. After that, the kept keys are sent on unchanged.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long keys that were typed before a prompt wait for the editor. If they were passed on too early, they would come
/// before the keys that the shell has taken from the terminal and gives back.
const EDITOR: Duration = Duration::from_secs(1);
/// How long keys that were typed before the prompt, and that the shell gave back, wait for the answer at the prompt.
const PROMPT: Duration = Duration::from_secs(2);
/// If no key is pressed for this time, bash is asked about an uncertain line, without waiting for Enter.
const THOUGHT: Duration = Duration::from_millis(40);
/// The number of bytes of keys that are kept meanwhile.
const KEPT: usize = 64 << 10;

/// Which program has the keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Unknown: the hooks have sent no mark yet.
    Unknown,
    /// The shell; a prompt is coming.
    Prompt,
    /// The shell's editor.
    Edit,
    /// The shell; Enter was pressed.
    Submitted,
    /// A command.
    Running,
}

/// What is needed to turn paths into links.
#[derive(Debug)]
struct PathsOf {
    home: String,
    memory: (String, String),
}

/// This machine's name, without the characters that may not stand in an address.
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

/// The state of the proxy's logic.
#[derive(Debug)]
pub struct Engine {
    nonce: Nonce,
    /// Absent only while the scanner reads.
    scanner: Option<Scanner>,
    decoder: Decoder,
    chain: Chain,
    acts: Acts,
    phase: Phase,
    shell: Option<Shell>,
    /// The keys of the shell's editor are those that [`Line`] knows.
    followed: bool,
    line: Line,
    /// The shell has confirmed the expected effect of the last keys on the line.
    exact: bool,
    /// The number of keys whose effect zsh hasn't reported yet: it reports after each key.
    pending: usize,
    /// The cursor isn't where it should be according to the line.
    doubted: bool,
    column: Column,
    /// The column in which the line begins.
    start: Option<usize>,
    modes: Modes,
    /// A command has switched kitty's protocol on and hasn't switched it off.
    kitty: bool,
    /// The reading program reads whole lines, and the kernel handles its control keys.
    cooked: bool,
    /// The window's columns and rows, and then the size that programs see.
    window: (u16, u16),
    size: (u16, u16),
    bar: Bar,
    foreground: Foreground,
    /// `foreground` was read for the command that runs.
    looked: bool,
    /// The terminal belongs to another program than the shell, although the shell's marks say that its editor is there.
    away: bool,
    /// The shell was given a line, and hasn't said that it is done with it.
    given: bool,
    /// bash was asked what is in its editor, and draws its prompt again after the answer.
    redraws: bool,
    directory: String,
    /// This machine's name.
    host: String,
    incognito: bool,
    asking: Asking,
    overlay: Overlay,
    /// Addresses become links.
    links: bool,
    /// Paths become links, too; with what is needed for that.
    paths: Option<PathsOf>,
    /// The bytes that are being read began between two sequences.
    between: bool,
    /// How many rows ghost text may take.
    rows: usize,
    /// The line that runs, and since when.
    running: String,
    since: Instant,
    /// Keys went to another program since the last prompt. The shell may receive them.
    ahead: bool,
    /// Something was printed since the last key.
    echoed: bool,
    last_key: Instant,
    /// The time of the key before the last one.
    key_before: Instant,
    /// Text to print when the command is over.
    notices: String,
    /// When a hint was shown last.
    hinted: Instant,
    /// The beginning of a sequence that may be a mark.
    held: Vec<u8>,
    /// The last byte of text that was printed.
    last_text: u8,
    /// The number of bytes of the last character that are still missing.
    missing: u8,
    now: Instant,
}

impl Engine {
    /// An engine for a shell that has this nonce, in a window of this size.
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

    /// Which program has the keyboard.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the shell was given a line and hasn't said that it is done with it.
    #[must_use]
    pub fn has_line(&self) -> bool {
        self.given
    }

    /// The line in the shell's editor.
    #[must_use]
    pub fn line(&self) -> &Line {
        &self.line
    }

    /// The shell that has said that its hooks are there.
    #[must_use]
    pub fn shell(&self) -> Option<Shell> {
        self.shell
    }

    /// The modes that programs have set on the terminal, including those that must be undone at the end.
    #[must_use]
    pub fn modes(&self) -> Modes {
        self.modes
    }

    /// Whether nothing is to be remembered.
    #[must_use]
    pub fn is_incognito(&self) -> bool {
        self.incognito
    }

    /// Switches incognito on or off.
    pub fn set_incognito(&mut self, on: bool) {
        self.incognito = on;
        self.bar.outdate();
    }

    /// The ghost text behind the cursor.
    #[must_use]
    pub fn ghost(&self) -> &str {
        self.overlay.tail()
    }

    /// Switches links on or off: for addresses that commands print, and for paths of existing files.
    pub fn set_links(&mut self, on: bool, paths: bool) {
        self.links = on;
        self.paths = (on && paths).then(PathsOf::here);
    }

    /// Sets how many rows ghost text may take.
    pub fn set_rows(&mut self, rows: usize) {
        self.rows = rows.max(1);
    }

    /// Replaces the modules. What the old ones had begun is lost.
    pub fn set_chain(&mut self, chain: Chain) {
        self.chain = chain;
    }

    /// The modules, for telling them something.
    pub fn chain(&mut self) -> &mut Chain {
        &mut self.chain
    }

    /// Sets whether the reading program reads whole lines, with control keys that the kernel handles. This matters
    /// while [`Modes::KITTY`] is set.
    pub fn set_cooked(&mut self, cooked: bool) {
        self.cooked = cooked;
    }

    /// Sets the current time.
    pub fn at(&mut self, now: Instant) {
        self.now = now;
    }

    /// In how much time [`Engine::settle`] must be called if nothing happens before.
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        const QUIET: Duration = Duration::from_millis(2);
        const SPLIT: Duration = Duration::from_millis(25);
        /// A command that ends within this time isn't examined.
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

    /// The window has another size. The drawn text is forgotten, because the terminal has wrapped it again.
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

    /// Whether another tick is to come although nothing happens.
    #[must_use]
    pub fn awaits_tick(&self) -> bool {
        self.chain.awaits_tick()
    }

    /// Shows a text below the line, as soon as the shell's editor is there.
    pub fn say(&mut self, words: &str) {
        self.acts.say(words);
    }

    /// Reports something about the line that runs. The text is printed after the line's output, as soon as the line is
    /// over and the terminal shows its normal screen. If it comes too late for that, it is shown below the next line.
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

    /// Shows reports that came too late to be printed before the prompt.
    fn mention(&mut self) {
        if self.is_ours() && !self.notices.is_empty() {
            let notices = core::mem::take(&mut self.notices);
            self.acts.say(notices.trim_end());
        }
    }

    /// Appends the modules' text for the status line.
    pub fn status(&self, into: &mut String) {
        let view = self.view();
        self.chain.ask(|module| module.status(&view, into));
    }

    /// The marks say that the shell's editor is there; `foreground` says which program has the terminal. If it is not
    /// the shell, the engine must not know the lines that are typed.
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

    /// Calls `what` with the modules and a view of the state.
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
