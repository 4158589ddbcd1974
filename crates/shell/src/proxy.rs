// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loop between the terminal and the shell: poll, read, write; no thread of its own, no runtime.
//!
//! Nothing is written that could wait: while the terminal doesn't take output none is read, and while the shell doesn't
//! take keys no more than so many are kept. So neither waits for the other through us.

mod signals;
mod streams;

use crate::chain::{Chain, Module};
use crate::classify::Scope;
use crate::counts::Tally;
use crate::engine::{Engine, Phase};
use crate::foreground::Foreground;
use crate::history::Privacy;
use crate::link::Link;
use crate::mark::Nonce;
use crate::modules::recorder::Recorder;
use crate::modules::{counts, ghost, guard, history, incognito, keymap, recorder};
use crate::settings::{Name, Settings, SettingsError};
use crate::start::{self, Asked, INSIDE};
use palisade_sys::terminal::{self, Guardian, Modes, Raw};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, Winsize, isatty, tcgetattr, tcgetwinsize, tcsetwinsize};
use signals::Signals;
use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};
use streams::{Keyboard, Screen};

/// Why there is no proxy. The shell can still be started without.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// Standard input or output is no terminal.
    #[error("standard input and output aren't a terminal")]
    NoTerminal,
    /// There is no pseudo-terminal.
    #[error("can't open a pseudo-terminal: {0}")]
    Pair(#[source] io::Error),
    /// Nobody would restore the terminal.
    #[error("can't have the terminal's settings kept: {0}")]
    Guardian(#[source] io::Error),
    /// There is nothing to be told of signals with.
    #[error("can't be told of signals: {0}")]
    Signals(#[source] io::Error),
    /// There is no nonce.
    #[error("can't make a secret for the shell: {0}")]
    Nonce(#[source] io::Error),
    /// The shell can't be started.
    #[error("can't start {}: {source}", shell.display())]
    Start {
        /// Which.
        shell: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The recording can't be written.
    #[error("can't write {}: {source}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What is started, and how.
#[derive(Debug)]
pub struct Options {
    /// The shell.
    pub shell: PathBuf,
    /// What it is started with.
    pub arguments: Vec<OsString>,
    /// Where the settings are.
    pub settings: PathBuf,
    /// Where what was typed is kept.
    pub state: PathBuf,
    /// Where what is on the screen is written.
    pub record: Option<PathBuf>,
    /// Where palisaded answers about scopes.
    pub scopes: PathBuf,
    /// No module but what records: to compare with.
    pub bare: bool,
}

/// Starts the shell and stands before it until it ends. Returns its exit code; 128 and the signal's number if one ended
/// it, or this process.
///
/// To be called while this process has one thread.
///
/// # Errors
/// [`ProxyError`]: nothing was changed, and nothing runs.
pub fn run(options: &Options) -> Result<u8, ProxyError> {
    let (keyboard, screen) = (rustix::stdio::stdin(), rustix::stdio::stdout());
    if !isatty(keyboard) || !isatty(screen) {
        return Err(ProxyError::NoTerminal);
    }
    let size = tcgetwinsize(screen).map_err(|error| ProxyError::Pair(error.into()))?;
    let pair = terminal::open(size).map_err(ProxyError::Pair)?;
    let nonce = start::new_nonce().map_err(ProxyError::Nonce)?;
    let recorder = options.record.as_ref().map(|path| begin_recording(path, options, size)).transpose()?;
    // Before there are handlers: it is to end by signals.
    let (guardian, raw) = Guardian::start(keyboard).map_err(ProxyError::Guardian)?;
    let started = start_shell(options, &pair, &nonce, &raw);
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
    let link = Rc::new(RefCell::new(Link::of(child.id(), &options.scopes)));
    let mut session = Session {
        link,
        tally: Rc::default(),
        shell: Keyboard::of(pair.outer),
        screen: Screen::of(screen),
        child,
        guardian,
        raw,
        signals,
        settings_time: time_of(&options.settings),
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

fn begin_recording(path: &PathBuf, options: &Options, size: Winsize) -> Result<Recorder, ProxyError> {
    let failed = |source| ProxyError::Record { path: path.clone(), source };
    let file = File::options().write(true).create(true).truncate(true).open(path).map_err(failed)?;
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let terminal = std::env::var("TERM").unwrap_or_default();
    Recorder::begin(file, size.ws_col, size.ws_row, time, &options.shell.to_string_lossy(), &terminal)
        .map_err(failed)
}

fn start_shell(
    options: &Options,
    pair: &terminal::Pair,
    nonce: &Nonce,
    raw: &Raw,
) -> Result<Child, ProxyError> {
    let failed = |source| ProxyError::Start { shell: options.shell.clone(), source };
    raw.give(&pair.inner).map_err(ProxyError::Pair)?;
    let number = start::number(pair.inner.as_fd()).map_err(ProxyError::Pair)?;
    let (reader, mut writer) = io::pipe().map_err(ProxyError::Nonce)?;
    writer.write_all(nonce.digits()).map_err(ProxyError::Nonce)?;
    drop(writer);
    let reader = OwnedFd::from(reader);
    // Who gives arguments may want no start-up files at all.
    let asked = if options.arguments.is_empty() {
        let program = std::env::current_exe().map_err(failed)?;
        Asked::of(&options.shell, &program, &options.state).unwrap_or_default()
    } else {
        Asked::default()
    };
    let mut command = Command::new(&options.shell);
    command.args(&asked.arguments).args(&options.arguments).envs(asked.variables);
    command.env(INSIDE, format!("{number}:{}", std::os::fd::AsRawFd::as_raw_fd(&reader)));
    let kept = [Some(&reader), asked.file.as_ref()];
    let kept: Vec<_> = kept.into_iter().flatten().map(AsFd::as_fd).collect();
    terminal::start(&mut command, &pair.inner, &kept).map_err(failed)
}

fn privacy(settings: &Settings) -> Privacy {
    Privacy { leading_space: settings.history.ignore_space, secrets: settings.history.ignore_secrets }
}

fn time_of(path: &PathBuf) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// Why it is over.
enum End {
    /// The shell has ended.
    Shell(Option<ExitStatus>),
    /// Somebody has asked this process to end, by that signal.
    Signal(i32),
}

struct Session<'a> {
    link: Rc<RefCell<Link>>,
    /// What happens, in numbers.
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
    /// The process group that the shell's editor has: known once there was a prompt.
    home: Option<i32>,
    title: String,
    ticked: Instant,
    /// Something has happened since the last tick.
    active: bool,
}

/// What is read in one piece is all that there is, if it is shorter than this, in bytes.
const SHORT: usize = 512;
const SECOND: Duration = Duration::from_secs(1);

impl Session<'_> {
    /// Puts the modules in that the settings ask for.
    fn set(&mut self, engine: &mut Engine, settings: &Settings) {
        let mut modules: Vec<Box<dyn Module>> = Vec::new();
        let mut kept: Vec<Box<dyn Module>> = ["history", "guard", counts::NAME]
            .iter()
            .filter_map(|name| engine.chain().take(name))
            .filter_map(|mut module| module.renew(settings).then_some(module))
            .collect();
        let mut keep = |name| Some(kept.remove(kept.iter().position(|module| module.name() == name)?));
        // Who wants no history wants no numbers. In front: it counts what others keep to themselves.
        if !self.options.bare && settings.modules.contains(&Name::History) {
            modules.push(keep(counts::NAME).unwrap_or_else(|| Box::new(self.counting(settings))));
        }
        for name in settings.modules.iter().filter(|_| !self.options.bare) {
            match name {
                Name::Keymap => modules.push(Box::new(keymap::Keymap::new(&settings.keys))),
                Name::Incognito => modules.push(Box::new(incognito::Incognito)),
                Name::Ghost => modules.push(Box::new(ghost::Ghost)),
                // What these two have learned since the start is kept.
                Name::History => modules.push(match keep("history") {
                    Some(before) => before,
                    None => Box::new(self.history(settings)),
                }),
                Name::Guard => {
                    if let Some(before) = keep("guard") {
                        modules.push(before);
                        continue;
                    }
                    let mut wanted = settings.guard.clone();
                    wanted.state = Some(self.options.state.clone());
                    match guard::Guard::new(&wanted) {
                        Ok(guard) => {
                            if wanted.enabled && wanted.scope != Scope::Off {
                                self.link.borrow_mut().begin();
                            }
                            let guard =
                                guard.with_link(Rc::clone(&self.link)).with_tally(Rc::clone(&self.tally));
                            modules.push(Box::new(guard));
                        }
                        Err(error) => engine.say(&format!("palisade: no guard: {error}")),
                    }
                }
                // Parts of others: the list is the history's, and what there is to say is theirs.
                Name::Pick | Name::Links | Name::Status => {}
            }
        }
        // A recording goes on when the settings change.
        let begins = self.recorder.take().map(|recorder| Box::new(recorder) as Box<dyn Module>);
        modules.extend(begins.or_else(|| engine.chain().take(recorder::NAME)));
        let links = !self.options.bare && settings.modules.contains(&Name::Links);
        engine.set_links(links, settings.links.paths);
        engine.set_rows(settings.ghost.rows);
        engine.set_incognito(settings.history.incognito);
        engine.set_chain(Chain::of(modules));
        let bar = !self.options.bare && settings.modules.contains(&Name::Status) && settings.status.row;
        let screen = &mut self.screen;
        let before = engine.inner_size();
        engine.set_bar(bar.then_some(&settings.status.show), &mut |bytes| screen.put(bytes));
        if engine.inner_size() != before {
            self.tell_size(engine);
        }
    }

    fn counting(&self, settings: &Settings) -> counts::Counting {
        let tally = Rc::clone(&self.tally);
        counts::Counting::in_directory(&self.options.state, tally, privacy(settings))
    }

    fn history(&self, settings: &Settings) -> history::History {
        let mut history = history::History::with_store(&self.options.state, privacy(settings));
        let has = |name| settings.modules.contains(&name);
        history.show(has(Name::Ghost).then_some(settings.ghost.from), has(Name::Pick));
        history
    }

    fn complain(&self, engine: &mut Engine, error: &SettingsError) {
        let mut words = format!("palisade: {error}");
        if let Some(hint) = error.hint() {
            words.push_str("\nhint: ");
            words.push_str(&hint);
        }
        engine.say(&words);
    }

    fn run(&mut self, engine: &mut Engine) -> End {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let ready = match self.wait(engine) {
                Ok(ready) => ready,
                Err(_) => return End::Shell(None),
            };
            engine.at(Instant::now());
            // Who changes the window's size and types then is to find the new size.
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
            // Keys are the shell's from the mark on that says so: what it has printed before they came is looked at first.
            // Else they would be passed to a shell that has just taken up what was typed ahead, and would come before it.
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
            if matches!(engine.phase(), Phase::Prompt | Phase::Edit) {
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

    /// The process group that has the shell's terminal; `None`: the kernel doesn't say.
    fn in_front(&self) -> Option<i32> {
        rustix::termios::tcgetpgrp(self.shell.fd()).ok().map(rustix::process::Pid::as_raw_pid)
    }

    /// Who runs now, if not the shell.
    fn look_who_runs(&self, engine: &mut Engine) {
        let Some((group, home)) = self.in_front().zip(self.home) else { return };
        engine.set_foreground(Foreground::read(group, home));
    }

    /// The shell's marks say that its editor is there: whether it has the terminal, too. Who learns the nonce, from the
    /// shell's memory say, isn't taken for the shell as long as it runs behind somebody else.
    fn look_who_edits(&mut self, engine: &mut Engine) {
        let Some(group) = self.in_front() else { return };
        let home = *self.home.get_or_insert(group);
        let foreground = if group == home { Foreground::default() } else { Foreground::read(group, home) };
        engine.set_editing(foreground);
    }

    /// Whether the shell's side reads lines that the kernel edits.
    fn is_cooked(&self) -> bool {
        tcgetattr(self.shell.fd())
            .is_ok_and(|settings| settings.local_modes.contains(LocalModes::ICANON | LocalModes::ISIG))
    }

    /// Passes on what was printed. Says whether there is still somebody who prints.
    fn take_output(&mut self, engine: &mut Engine, buffer: &mut [u8]) -> bool {
        let before = engine.phase();
        let open = self.pass_output(engine, buffer, false);
        if before != Phase::Edit && engine.phase() == Phase::Edit {
            self.look_who_edits(engine);
        }
        open
    }

    /// Reads what there is, or `all` of it, and passes it on; whether there may be more.
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
                    // An echo, say: to ask whether there is more takes as long as to be told of it.
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
        // Before the terminal hears of it: this process may be killed in between.
        self.guardian.tell_ahead(engine.modes());
        self.screen.flush();
        open
    }

    fn wait(&mut self, engine: &Engine) -> io::Result<Ready> {
        let until_tick = self.active.then(|| SECOND.saturating_sub(self.ticked.elapsed()));
        let due = engine.due();
        let timeout = match (due, until_tick) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(1),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        let when = |wanted: bool, flag: PollFlags| if wanted { flag } else { PollFlags::empty() };
        let stdin = rustix::stdio::stdin();
        let keys = when(!self.shell.is_full(), PollFlags::IN);
        let output =
            when(!self.screen.is_waiting(), PollFlags::IN) | when(self.shell.is_waiting(), PollFlags::OUT);
        let link = self.link.borrow();
        // Who isn't there is the shell, of which nothing is wanted here.
        let nobody = (self.shell.fd(), PollFlags::empty());
        let [ask, watch] = link.polled().map(|talk| talk.unwrap_or(nobody));
        let mut sets = [
            PollFd::from_borrowed_fd(stdin, keys),
            PollFd::from_borrowed_fd(self.shell.fd(), output),
            PollFd::from_borrowed_fd(self.signals.fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.screen.fd(), when(self.screen.is_waiting(), PollFlags::OUT)),
            PollFd::from_borrowed_fd(ask.0, ask.1),
            PollFd::from_borrowed_fd(watch.0, watch.1),
        ];
        let count = match poll(&mut sets, timeout.as_ref()) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => return Ok(Ready { nothing: false, ..Ready::default() }),
            Err(error) => return Err(error.into()),
        };
        let [keys, shell, _, screen, asked, watched] = sets.each_ref().map(PollFd::revents);
        let heard = (!ask.1.is_empty() && !asked.is_empty()) || (!watch.1.is_empty() && !watched.is_empty());
        drop(link);
        let gone = PollFlags::HUP | PollFlags::ERR;
        let ready = Ready {
            nothing: count == 0 && due.is_some(),
            link: heard,
            keys: keys.intersects(PollFlags::IN | gone),
            output: shell.intersects(PollFlags::IN | gone) && !self.screen.is_waiting(),
            shell_takes: shell.contains(PollFlags::OUT),
            screen_takes: screen.intersects(PollFlags::OUT | gone),
        };
        if ready.keys || ready.output {
            self.active = true;
        } else if count == 0 && self.active && self.ticked.elapsed() >= SECOND {
            self.tick_due();
        }
        Ok(ready)
    }

    /// The tick that follows is the last until something happens.
    fn tick_due(&mut self) {
        self.ticked = self.ticked.checked_sub(SECOND).unwrap_or(self.ticked);
    }

    fn tick(&mut self, engine: &mut Engine) {
        self.ticked = Instant::now();
        self.active = false;
        engine.tick();
        if engine.phase() == Phase::Running {
            self.look_who_runs(engine);
        }
        let screen = &mut self.screen;
        engine.show_bar(&mut |bytes| screen.put(bytes));
        let time = time_of(&self.options.settings);
        if time != self.settings_time {
            self.settings_time = time;
            match Settings::read(&self.options.settings) {
                Ok(settings) if !self.options.bare => {
                    self.set(engine, &settings);
                    engine.say("palisade: the settings are read again");
                }
                Ok(_) => {}
                Err(error) => self.complain(engine, &error),
            }
        }
        let mut title = String::new();
        engine.status(&mut title);
        if title != self.title && engine.phase() == Phase::Edit && engine.inner_size() == engine.window() {
            let shown: String = title.chars().filter(|character| !character.is_control()).collect();
            self.screen.put(format!("\x1b]2;{shown}\x07").as_bytes());
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
            // What it had to say last is still there. Others may hold the terminal and talk on.
            self.pass_output(engine, buffer, true);
            return Some(End::Shell(Some(status)));
        }
        None
    }

    fn resize(&mut self, engine: &mut Engine) {
        if let Ok(size) = tcgetwinsize(rustix::stdio::stdout()) {
            let screen = &mut self.screen;
            engine.resize(size.ws_col, size.ws_row, &mut |bytes| screen.put(bytes));
            self.tell_size(engine);
        }
    }

    /// Tells the shell the size of what it has of the window.
    fn tell_size(&self, engine: &Engine) {
        let Ok(mut size) = tcgetwinsize(rustix::stdio::stdout()) else { return };
        let (_, rows) = engine.inner_size();
        if rows != size.ws_row {
            // The height in pixels is that of these rows, too.
            let pixels = u32::from(size.ws_ypixel) * u32::from(rows) / u32::from(size.ws_row.max(1));
            size.ws_ypixel = u16::try_from(pixels).unwrap_or(size.ws_ypixel);
            size.ws_row = rows;
        }
        let _told = tcsetwinsize(self.shell.fd(), size);
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

/// What poll has found.
#[derive(Default)]
struct Ready {
    /// Time has passed, and nothing else happened.
    nothing: bool,
    /// Palisaded has said something.
    link: bool,
    keys: bool,
    output: bool,
    shell_takes: bool,
    screen_takes: bool,
}

/// The standard streams' descriptors, as long as the process lives.
type Stream = BorrowedFd<'static>;
