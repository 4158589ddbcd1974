// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The proxy's loop between the terminal and the shell: poll, read, write. It needs no thread of its own and no
//! runtime.
//!
//! No write blocks. While the terminal doesn't take output, no output is read. While the shell doesn't take keys, only
//! a limited number of keys is kept. So the terminal and the shell never block each other through the proxy.
//!
//! - `child`: starts the shell
//! - `modules`: builds the chain that the settings ask for
//! - `wait`: waits for the next event
//! - `front`: finds out which program has the shell's terminal
//! - `signals`, `streams`, `window`: signals, the streams of bytes, and the window's size

mod child;
mod front;
mod modules;
mod signals;
mod streams;
mod wait;
mod window;

use crate::chain::Chain;
use crate::counts::Tally;
use crate::engine::{Engine, Phase};
use crate::link::Link;
use crate::modules::recorder::Recorder;
use crate::settings::Settings;
use crate::start;
use palisade_sys::terminal::{self, Guardian, Modes, Raw};
use palisade_text::Show as _;
use rustix::termios::{isatty, tcgetwinsize};
use signals::Signals;
use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};
use streams::{Keyboard, Screen};

/// Why the proxy can't run. The shell can still be started without it.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// Standard input or output isn't a terminal.
    #[error("standard input and output aren't a terminal")]
    NoTerminal,
    /// No pseudo-terminal is available.
    #[error("can't open a pseudo-terminal: {0}")]
    Pair(#[source] io::Error),
    /// No process would restore the terminal's settings at the end.
    #[error("can't start the process that restores the terminal's settings: {0}")]
    Guardian(#[source] io::Error),
    /// Signals can't be received.
    #[error("can't receive signals: {0}")]
    Signals(#[source] io::Error),
    /// No nonce could be made.
    #[error("can't make a secret for the shell: {0}")]
    Nonce(#[source] io::Error),
    /// The shell can't be started.
    #[error("can't start {}: {source}", shell.shown())]
    Start {
        /// The shell's program.
        shell: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The recording can't be written.
    #[error("can't write {}: {source}", path.shown())]
    Record {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// What to start, and how.
#[derive(Debug)]
pub struct Options {
    /// The shell.
    pub shell: PathBuf,
    /// The shell's arguments.
    pub arguments: Vec<OsString>,
    /// The path of the settings file.
    pub settings: PathBuf,
    /// The directory of the history and other state.
    pub state: PathBuf,
    /// The file for the recording of the screen, if there is one.
    pub record: Option<PathBuf>,
    /// The socket at which palisaded answers about scopes.
    pub scopes: PathBuf,
    /// How long a line waits for palisaded.
    pub scope_wait: Duration,
    /// Use no module except the recorder, as a baseline for comparisons.
    pub bare: bool,
}

/// Starts the shell and serves it until it ends. Returns the shell's exit code. If a signal ended the shell or this
/// process, returns 128 plus the signal's number.
///
/// Call it while this process has only one thread.
///
/// # Errors
/// [`ProxyError`]: nothing was changed, and no process was started.
pub fn run(options: &Options) -> Result<u8, ProxyError> {
    let (keyboard, screen) = (rustix::stdio::stdin(), rustix::stdio::stdout());
    if !isatty(keyboard) || !isatty(screen) {
        return Err(ProxyError::NoTerminal);
    }
    let size = tcgetwinsize(screen).map_err(|error| ProxyError::Pair(error.into()))?;
    let pair = terminal::open(size).map_err(ProxyError::Pair)?;
    let nonce = start::new_nonce().map_err(ProxyError::Nonce)?;
    let recorder =
        options.record.as_ref().map(|path| child::begin_recording(path, options, size)).transpose()?;
    // Start the guardian before the signal handlers: it must end by signals.
    let (guardian, raw) = Guardian::start(keyboard).map_err(ProxyError::Guardian)?;
    let started = child::start_shell(options, &pair, &nonce, &raw);
    let child = match started {
        Ok(child) => child,
        Err(error) => {
            guardian.dismiss();
            return Err(error);
        }
    };
    drop(pair.inner);
    let signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(source) => {
            guardian.dismiss();
            return Err(ProxyError::Signals(source));
        }
    };
    let (settings, wrong) = match Settings::read(&options.settings) {
        Ok(settings) => (settings, None),
        Err(error) => (Settings::default(), Some(error)),
    };
    let now = Instant::now();
    let mut engine = Engine::new(nonce, Chain::default(), size.ws_col, size.ws_row, now);
    let _started_in = raw.enter(keyboard);
    let link = Rc::new(RefCell::new(Link::of(child.id(), &options.scopes, options.scope_wait)));
    let mut session = Session {
        link,
        tally: Rc::default(),
        shell: Keyboard::of(pair.outer),
        screen: Screen::of(screen),
        child,
        guardian,
        raw,
        signals,
        settings_time: modules::time_of(&options.settings),
        options,
        recorder,
        home: None,
        title: String::new(),
        ticked: now,
        active: true,
    };
    session.set(&mut engine, &settings);
    if let Some(error) = wrong {
        session.complain(&mut engine, &error);
    }
    let end = session.run(&mut engine);
    let screen = &mut session.screen;
    engine.set_bar(None, &mut |bytes| screen.put(bytes));
    Ok(session.finish(end, engine.modes()))
}

/// Why the loop ended.
enum End {
    /// The shell has ended.
    Shell(Option<ExitStatus>),
    /// Another process asked this process to end, by this signal.
    Signal(i32),
}

struct Session<'a> {
    link: Rc<RefCell<Link>>,
    /// Counts of what happens.
    tally: Rc<Tally>,
    shell: Keyboard,
    screen: Screen<'a>,
    child: Child,
    guardian: Guardian,
    raw: Raw,
    signals: Signals,
    settings_time: Option<SystemTime>,
    options: &'a Options,
    recorder: Option<Recorder>,
    /// The process group of the shell's editor. It is known after the first prompt.
    home: Option<i32>,
    title: String,
    ticked: Instant,
    /// An event has occurred since the last tick.
    active: bool,
}

/// If one read returns fewer bytes than this, there is nothing more to read.
const SHORT: usize = 512;
const SECOND: Duration = Duration::from_secs(1);

impl Session<'_> {
    fn run(&mut self, engine: &mut Engine) -> End {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let ready = match self.wait(engine) {
                Ok(ready) => ready,
                Err(_) => return End::Shell(None),
            };
            engine.at(Instant::now());
            // If the window's size changed before a key was typed, the key must find the new size.
            if let Some(end) = self.heed_signals(engine, &mut buffer) {
                return end;
            }
            if ready.nothing {
                let (shell, screen) = (&mut self.shell, &mut self.screen);
                engine.settle(&mut |bytes| shell.put(bytes), &mut |bytes| screen.put(bytes));
            }
            if ready.link {
                self.link.borrow_mut().hear();
            }
            let words = self.link.borrow_mut().words();
            if let Some(words) = words {
                engine.notify(&words);
            }
            if ready.screen_takes {
                self.screen.flush();
            }
            if ready.shell_takes {
                self.shell.flush();
            }
            // Keys go to the shell's editor only after the mark that reports it. So output that arrived before the keys
            // is handled first. Otherwise the keys would go to a shell that has just taken the keys that were typed
            // ahead, and would come before them.
            let first = ready.keys && engine.phase() != Phase::Edit && !self.screen.is_waiting();
            if first && !self.take_output(engine, &mut buffer) {
                return End::Shell(self.child.wait().ok());
            }
            if ready.keys {
                match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
                    Ok(0) | Err(rustix::io::Errno::IO) => return End::Signal(signal_hook::consts::SIGHUP),
                    Ok(count) => {
                        if engine.modes().has(Modes::KITTY) {
                            engine.set_cooked(self.is_cooked());
                        }
                        let shell = &mut self.shell;
                        engine.input(buffer.get(..count).unwrap_or_default(), &mut |bytes| shell.put(bytes));
                    }
                    Err(_) => {}
                }
            }
            if ready.output && !first && !self.take_output(engine, &mut buffer) {
                return End::Shell(self.child.wait().ok());
            }
            if ready.nothing && engine.wants_foreground() {
                self.look_who_runs(engine);
            }
            if matches!(engine.phase(), Phase::Prompt | Phase::Edit) && !engine.has_line() {
                self.link.borrow_mut().over();
            }
            self.shell.flush();
            self.guardian.tell_ahead(engine.modes());
            self.screen.flush();
            self.guardian.tell(engine.modes());
            if self.active && self.ticked.elapsed() >= SECOND {
                self.tick(engine);
            }
        }
    }

    /// Passes on output. Returns whether more output can come.
    fn take_output(&mut self, engine: &mut Engine, buffer: &mut [u8]) -> bool {
        let before = engine.phase();
        let open = self.pass_output(engine, buffer, false);
        if before != Phase::Edit && engine.phase() == Phase::Edit {
            self.look_who_edits(engine);
        }
        open
    }

    /// Reads the available output, or all of it if `all`, and passes it on. Returns whether there may be more.
    fn pass_output(&mut self, engine: &mut Engine, buffer: &mut [u8], all: bool) -> bool {
        let mut count = 0;
        let mut open = true;
        while let Some(rest) = buffer.get_mut(count..).filter(|rest| rest.len() >= 4096) {
            match rustix::io::read(self.shell.fd(), rest) {
                Ok(0) | Err(rustix::io::Errno::IO) => {
                    open = false;
                    break;
                }
                Ok(read) => {
                    count += read;
                    // Probably an echo. Checking for more would take as long as the next poll.
                    if read < SHORT && !all {
                        break;
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        let (shell, screen) = (&mut self.shell, &mut self.screen);
        if count > 0 {
            let bytes = buffer.get(..count).unwrap_or_default();
            engine.output(bytes, &mut |bytes| screen.put(bytes), &mut |bytes| shell.put(bytes));
        }
        // Tell the guardian the modes before the terminal gets them: this process may be killed in between.
        self.guardian.tell_ahead(engine.modes());
        self.screen.flush();
        open
    }

    fn tick(&mut self, engine: &mut Engine) {
        self.ticked = Instant::now();
        // Asked before the tick: what a thread has to say after that comes with the next one.
        self.active = engine.awaits_tick();
        engine.tick();
        if engine.phase() == Phase::Running {
            self.look_who_runs(engine);
        }
        let screen = &mut self.screen;
        engine.show_bar(&mut |bytes| screen.put(bytes));
        self.heed_settings(engine);
        let mut title = String::new();
        engine.status(&mut title);
        if title != self.title && engine.phase() == Phase::Edit && engine.inner_size() == engine.window() {
            self.screen.put(format!("\x1b]2;{}\x07", title.shown()).as_bytes());
            self.title = title;
        }
    }

    fn heed_signals(&mut self, engine: &mut Engine, buffer: &mut [u8]) -> Option<End> {
        let heard = self.signals.heard()?;
        if heard.resized || heard.continued {
            self.resize(engine);
        }
        if heard.stop {
            let screen = &mut self.screen;
            engine.hide_bar(&mut |bytes| screen.put(bytes));
            screen.flush();
            let _restored = self.raw.leave(rustix::stdio::stdin());
            let _stopped =
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
        }
        if heard.stop || heard.continued {
            let _changed = self.raw.enter(rustix::stdio::stdin());
        }
        if let Some(signal) = heard.end {
            return Some(End::Signal(signal));
        }
        if heard.child
            && let Ok(Some(status)) = self.child.try_wait()
        {
            // The shell's last output is still to be read. Other processes may still hold the terminal and write.
            self.pass_output(engine, buffer, true);
            return Some(End::Shell(Some(status)));
        }
        None
    }

    fn finish(mut self, end: End, modes: Modes) -> u8 {
        let screen = &mut self.screen;
        modes.undo(|bytes| screen.put(bytes));
        self.screen.finish();
        let _restored = self.raw.leave(rustix::stdio::stdin());
        self.guardian.dismiss();
        let signalled = |signal: i32| u8::try_from(128 + signal).unwrap_or(255);
        match end {
            End::Shell(Some(status)) => match (status.code(), status.signal()) {
                (Some(code), _) => u8::try_from(code).unwrap_or(255),
                (None, Some(signal)) => signalled(signal),
                (None, None) => 255,
            },
            End::Shell(None) => 255,
            End::Signal(signal) => signalled(signal),
        }
    }
}

/// A descriptor of a standard stream. It stays open as long as the process lives.
type Stream = BorrowedFd<'static>;
