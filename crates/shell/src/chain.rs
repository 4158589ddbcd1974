// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stands between the keyboard and the shell: modules, one behind the other.
//!
//! A key passes the modules in the settings' order until one keeps it. What they want done they put into [`Acts`],
//! whose memory is there before the first key: nothing is allocated on a key's way.

use crate::foreground::Foreground;
use crate::key::Input;
use crate::line::Line;
use crate::mark::Shell;
use crate::settings::Settings;
use palisade_text::Show as _;
use serde::Deserialize;
use std::fmt::Write as _;
use std::time::Instant;

/// What a key can mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Nothing: the key is the shell's.
    None,
    /// Take all of the ghost text.
    Accept,
    /// Take its next word.
    AcceptWord,
    /// Take it up to the next slash.
    AcceptPart,
    /// Open the list to pick from.
    Pick,
    /// Remember no more, or again.
    Incognito,
    /// Forget the line that is shown as ghost text.
    Forget,
}

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// It goes on.
    Forward,
    /// It ends here.
    Swallow,
    /// It ends here, and what is in [`Acts::typed`] is typed instead.
    Replace,
}

/// What becomes of a line at Enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    /// It is run.
    Run,
    /// It isn't, yet or at all; the hint says why.
    Hold,
}

/// What modules see.
#[derive(Debug)]
pub struct View<'a> {
    /// What is in the shell's editor.
    pub line: &'a Line,
    /// Which shell.
    pub shell: Option<Shell>,
    /// Where it is.
    pub directory: &'a str,
    /// Columns and rows.
    pub size: (u16, u16),
    /// Who has the terminal.
    pub foreground: &'a Foreground,
    /// Nothing is to be remembered.
    pub incognito: bool,
    /// What is shown as ghost text at the moment: the tail, beyond what was typed.
    pub ghost: &'a str,
    /// The present.
    pub now: Instant,
}

/// What modules want done.
#[derive(Debug)]
pub struct Acts {
    /// What is typed to the shell.
    pub typed: String,
    /// An action that a key means.
    pub action: Option<Action>,
    /// Words below the line; kept until the next key.
    pub hint: String,
    /// Whether [`Acts::hint`] is new.
    pub hinted: bool,
    /// Words that are printed when the line begins to run.
    pub warning: String,
    /// Incognito is to be this.
    pub incognito: Option<bool>,
    /// The ghost text is to be found anew.
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
    /// Says something below the line.
    pub fn say(&mut self, words: &str) {
        self.hint.clear();
        let end = words.floor_char_boundary(self.hint.capacity());
        let _cannot_fail = write!(self.hint, "{}", words.get(..end).unwrap_or_default().shown().lines());
        self.hinted = true;
    }

    /// Says something when the line begins to run.
    pub fn warn(&mut self, words: &str) {
        self.warning.clear();
        let _cannot_fail = write!(self.warning, "{}", words.shown());
    }

    /// Types a text, if there is room for it.
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

/// A line that was run, and what came of it.
#[derive(Debug, Clone, Copy)]
pub struct Ended<'a> {
    /// The line.
    pub line: &'a str,
    /// Where.
    pub directory: &'a str,
    /// The exit code.
    pub code: i32,
    /// How long it took.
    pub duration: std::time::Duration,
}

/// Something between the keyboard and the shell.
pub trait Module {
    /// What it is called in the settings.
    fn name(&self) -> &'static str;

    /// Other settings are in force. Says whether it goes on under them with what it knows; else a new one takes its place.
    fn renew(&mut self, _settings: &Settings) -> bool {
        false
    }

    /// A key, while the shell's editor has the keyboard.
    fn input(&mut self, _input: &Input<'_>, _view: &View<'_>, _acts: &mut Acts) -> Flow {
        Flow::Forward
    }

    /// An action; whether it did something. If nobody does, the key goes to the shell.
    fn action(&mut self, _action: Action, _view: &View<'_>, _acts: &mut Acts) -> bool {
        false
    }

    /// Enter was pressed; the line is certain.
    fn commit(&mut self, _view: &View<'_>, _acts: &mut Acts) -> Ruling {
        Ruling::Run
    }

    /// Enter was pressed, and nobody knows what the line is.
    fn unread(&mut self, _view: &View<'_>) {}

    /// A line begins to run.
    fn started(&mut self, _line: &str, _view: &View<'_>) {}

    /// The kernel was asked who has the terminal while a line runs.
    fn foreground(&mut self, _view: &View<'_>) {}

    /// A line has ended.
    fn ended(&mut self, _ended: &Ended<'_>, _view: &View<'_>) {}

    /// Whether it wants to see output.
    fn observes(&self) -> bool {
        false
    }

    /// What a program prints, as it comes.
    fn output(&mut self, _bytes: &[u8]) {}

    /// The window has another size.
    fn resize(&mut self, _columns: u16, _rows: u16) {}

    /// A mouse button on a place, from 1.
    fn click(&mut self, _column: u16, _row: u16, _view: &View<'_>, _acts: &mut Acts) {}

    /// Time has passed: about a second.
    fn tick(&mut self, _view: &View<'_>, _acts: &mut Acts) {}

    /// A whole line that begins with what is in the editor, if one is likely to be meant.
    fn ghost<'a>(&'a self, _view: &View<'_>) -> Option<&'a str> {
        None
    }

    /// Appends what is worth knowing now.
    fn status(&self, _view: &View<'_>, _into: &mut String) {}

    /// Appends lines to be shown below the editor's, each ended by a line end.
    fn list(&self, _view: &View<'_>, _into: &mut String) {}
}

/// The modules.
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
    /// These, in this order.
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

    /// Takes one module out, by its name.
    pub fn take(&mut self, name: &str) -> Option<Box<dyn Module>> {
        let place = self.modules.iter().position(|module| module.name() == name)?;
        Some(self.modules.remove(place))
    }

    /// What becomes of a key.
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

    /// Does an action.
    pub fn action(&mut self, action: Action, view: &View<'_>, acts: &mut Acts) -> bool {
        self.modules.iter_mut().any(|module| module.action(action, view, acts))
    }

    /// Whether a line is run: if nobody is against it.
    pub fn commit(&mut self, view: &View<'_>, acts: &mut Acts) -> Ruling {
        let held = self.modules.iter_mut().any(|module| module.commit(view, acts) == Ruling::Hold);
        if held { Ruling::Hold } else { Ruling::Run }
    }

    /// The first ghost text that there is, as a whole line.
    #[must_use]
    pub fn ghost<'a>(&'a self, view: &View<'_>) -> Option<&'a str> {
        self.modules.iter().find_map(|module| module.ghost(view))
    }

    /// What programs print.
    pub fn output(&mut self, bytes: &[u8]) {
        if self.observed {
            self.each(|module| module.output(bytes));
        }
    }

    /// Each of them.
    pub fn each(&mut self, mut what: impl FnMut(&mut dyn Module)) {
        for module in &mut self.modules {
            what(module.as_mut());
        }
    }

    /// Each of them, to be asked.
    pub fn ask(&self, mut what: impl FnMut(&dyn Module)) {
        for module in &self.modules {
            what(module.as_ref());
        }
    }
}
