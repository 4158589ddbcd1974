// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The chain of modules between the keyboard and the shell.
//!
//! A key passes the modules in the settings' order until one module keeps it. Modules put what they want done into
//! [`Acts`]. The memory of [`Acts`] is allocated before the first key, so that no key causes an allocation.

use crate::foreground::Foreground;
use crate::key::Input;
use crate::line::Line;
use crate::mark::Shell;
use crate::settings::Settings;
use palisade_text::Show as _;
use serde::Deserialize;
use std::fmt::Write as _;
use std::time::Instant;

/// An action that a key can be bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// No action: the key goes to the shell.
    None,
    /// Take all of the ghost text.
    Accept,
    /// Take the next word of the ghost text.
    AcceptWord,
    /// Take the ghost text up to the next slash.
    AcceptPart,
    /// Open the pick list.
    Pick,
    /// Switch incognito on or off.
    Incognito,
    /// Forget the line that is shown as ghost text.
    Forget,
}

/// What happens to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The key goes on to the next module.
    Forward,
    /// The key ends here.
    Swallow,
    /// The key ends here, and [`Acts::typed`] is typed in its place.
    Replace,
}

/// What happens to a line at Enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    /// The line is run.
    Run,
    /// The line isn't run, now or at all. The hint says why.
    Hold,
}

/// The state that modules see.
#[derive(Debug)]
pub struct View<'a> {
    /// What is in the shell's editor.
    pub line: &'a Line,
    /// Which shell it is.
    pub shell: Option<Shell>,
    /// The shell's working directory.
    pub directory: &'a str,
    /// Columns and rows.
    pub size: (u16, u16),
    /// Which program has the terminal.
    pub foreground: &'a Foreground,
    /// Nothing is remembered at the moment.
    pub incognito: bool,
    /// The ghost text on the screen: only the part after what was typed.
    pub ghost: &'a str,
    /// The current time.
    pub now: Instant,
}

/// The changes that modules request.
#[derive(Debug)]
pub struct Acts {
    /// Text to type to the shell.
    pub typed: String,
    /// The action that the pressed key means.
    pub action: Option<Action>,
    /// Text below the line; it stays until the next key.
    pub hint: String,
    /// Whether [`Acts::hint`] is new.
    pub hinted: bool,
    /// Text to print when the line begins to run.
    pub warning: String,
    /// The new state of incognito, if it changes.
    pub incognito: Option<bool>,
    /// The ghost text must be computed again.
    pub renew: bool,
}

impl Default for Acts {
    fn default() -> Self {
        Self {
            typed: String::with_capacity(crate::line::LONGEST),
            action: None,
            hint: String::with_capacity(4096),
            hinted: false,
            warning: String::with_capacity(4096),
            incognito: None,
            renew: false,
        }
    }
}

impl Acts {
    /// Shows a text below the line.
    pub fn say(&mut self, words: &str) {
        self.hint.clear();
        let end = words.floor_char_boundary(self.hint.capacity());
        let _cannot_fail = write!(self.hint, "{}", words.get(..end).unwrap_or_default().shown().lines());
        self.hinted = true;
    }

    /// Shows a text when the line begins to run.
    pub fn warn(&mut self, words: &str) {
        self.warning.clear();
        let _cannot_fail = write!(self.warning, "{}", words.shown());
    }

    /// Types a text, if [`Acts::typed`] has room for it.
    pub fn type_text(&mut self, text: &str) {
        if self.typed.len() + text.len() <= self.typed.capacity() {
            self.typed.push_str(text);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.typed.clear();
        self.action = None;
        self.incognito = None;
        self.renew = false;
    }
}

/// A line that was run, and its result.
#[derive(Debug, Clone, Copy)]
pub struct Ended<'a> {
    /// The line.
    pub line: &'a str,
    /// The directory in which it ran.
    pub directory: &'a str,
    /// The exit code.
    pub code: i32,
    /// How long it took.
    pub duration: std::time::Duration,
}

/// Something between the keyboard and the shell.
pub trait Module {
    /// The module's name in the settings.
    fn name(&self) -> &'static str;

    /// Other settings are in force. Returns true if the module goes on under them with its present state. Otherwise the
    /// caller replaces it by a new module.
    fn renew(&mut self, _settings: &Settings) -> bool {
        false
    }

    /// A key, while the shell's editor has the keyboard.
    fn input(&mut self, _input: &Input<'_>, _view: &View<'_>, _acts: &mut Acts) -> Flow {
        Flow::Forward
    }

    /// An action was requested. Returns whether this module did something. If no module did, the key goes to the shell.
    fn action(&mut self, _action: Action, _view: &View<'_>, _acts: &mut Acts) -> bool {
        false
    }

    /// Enter was pressed, and the text of the line is known.
    fn commit(&mut self, _view: &View<'_>, _acts: &mut Acts) -> Ruling {
        Ruling::Run
    }

    /// Enter was pressed, and the text of the line is not known.
    fn unread(&mut self, _view: &View<'_>) {}

    /// A line begins to run.
    fn started(&mut self, _line: &str, _view: &View<'_>) {}

    /// The kernel was asked which process group has the terminal while a line runs.
    fn foreground(&mut self, _view: &View<'_>) {}

    /// A line has ended.
    fn ended(&mut self, _ended: &Ended<'_>, _view: &View<'_>) {}

    /// Whether the module wants to see output.
    fn observes(&self) -> bool {
        false
    }

    /// Output of a program, as it arrives.
    fn output(&mut self, _bytes: &[u8]) {}

    /// The window has another size.
    fn resize(&mut self, _columns: u16, _rows: u16) {}

    /// A mouse button was pressed at a place, counted from 1.
    fn click(&mut self, _column: u16, _row: u16, _view: &View<'_>, _acts: &mut Acts) {}

    /// About a second has passed.
    fn tick(&mut self, _view: &View<'_>, _acts: &mut Acts) {}

    /// Whether a thread is at work that has something for the next tick, so that a tick comes although nothing happens.
    fn awaits_tick(&self) -> bool {
        false
    }

    /// A whole line that begins with the text in the editor, if the user probably means it.
    fn ghost<'a>(&'a self, _view: &View<'_>) -> Option<&'a str> {
        None
    }

    /// Appends text for the status line.
    fn status(&self, _view: &View<'_>, _into: &mut String) {}

    /// Appends lines to be shown below the editor's, each ended by a line end.
    fn list(&self, _view: &View<'_>, _into: &mut String) {}
}

/// The modules, in order.
#[derive(Default)]
pub struct Chain {
    modules: Vec<Box<dyn Module>>,
    observed: bool,
}

impl core::fmt::Debug for Chain {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        to.debug_list().entries(self.modules.iter().map(|module| module.name())).finish()
    }
}

impl Chain {
    /// A chain of these modules, in this order.
    #[must_use]
    pub fn of(modules: Vec<Box<dyn Module>>) -> Self {
        let observed = modules.iter().any(|module| module.observes());
        Self { modules, observed }
    }

    /// Whether there is a module of that name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.modules.iter().any(|module| module.name() == name)
    }

    /// Removes one module by its name and returns it.
    pub fn take(&mut self, name: &str) -> Option<Box<dyn Module>> {
        let place = self.modules.iter().position(|module| module.name() == name)?;
        Some(self.modules.remove(place))
    }

    /// Passes a key through the modules. Returns what happens to it.
    pub fn input(&mut self, input: &Input<'_>, view: &View<'_>, acts: &mut Acts) -> Flow {
        for index in 0..self.modules.len() {
            let Some(module) = self.modules.get_mut(index) else { break };
            match module.input(input, view, acts) {
                Flow::Forward => {}
                other => return other,
            }
            if let Some(action) = acts.action.take()
                && self.action(action, view, acts)
            {
                return if acts.typed.is_empty() { Flow::Swallow } else { Flow::Replace };
            }
        }
        Flow::Forward
    }

    /// Has an action done by the first module that can do it.
    pub fn action(&mut self, action: Action, view: &View<'_>, acts: &mut Acts) -> bool {
        self.modules.iter_mut().any(|module| module.action(action, view, acts))
    }

    /// Whether a line is run: only if no module holds it.
    pub fn commit(&mut self, view: &View<'_>, acts: &mut Acts) -> Ruling {
        let held = self.modules.iter_mut().any(|module| module.commit(view, acts) == Ruling::Hold);
        if held { Ruling::Hold } else { Ruling::Run }
    }

    /// The ghost text of the first module that has one, as a whole line.
    #[must_use]
    pub fn ghost<'a>(&'a self, view: &View<'_>) -> Option<&'a str> {
        self.modules.iter().find_map(|module| module.ghost(view))
    }

    /// Whether a module needs a tick although nothing happens.
    #[must_use]
    pub fn awaits_tick(&self) -> bool {
        self.modules.iter().any(|module| module.awaits_tick())
    }

    /// Passes output of programs to the modules that observe it.
    pub fn output(&mut self, bytes: &[u8]) {
        if self.observed {
            self.each(|module| module.output(bytes));
        }
    }

    /// Calls `what` for each module.
    pub fn each(&mut self, mut what: impl FnMut(&mut dyn Module)) {
        for module in &mut self.modules {
            what(module.as_mut());
        }
    }

    /// Calls `what` for each module, without changing it.
    pub fn ask(&self, mut what: impl FnMut(&dyn Module)) {
        for module in &self.modules {
            what(module.as_ref());
        }
    }
}
