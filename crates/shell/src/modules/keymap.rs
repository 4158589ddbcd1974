// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys that are bound to actions. If no module can do the action, the key goes to the shell.

use crate::chain::{Action, Acts, Flow, Module, View};
use crate::key::{Chord, Input};

/// The module.
#[derive(Debug)]
pub struct Keymap {
    keys: Box<[(Chord, Action)]>,
}

impl Keymap {
    /// The module with these bindings.
    #[must_use]
    pub fn new(keys: &[(Chord, Action)]) -> Self {
        Self { keys: keys.into() }
    }

    /// The action that a key is bound to.
    #[must_use]
    pub fn find(&self, chord: Chord) -> Option<Action> {
        self.keys.iter().find(|(key, _)| *key == chord).map(|(_, action)| *action)
    }
}

impl Module for Keymap {
    fn name(&self) -> &'static str {
        "keymap"
    }

    fn input(&mut self, input: &Input<'_>, _view: &View<'_>, acts: &mut Acts) -> Flow {
        if let Input::Key(chord) = input {
            acts.action = self.find(*chord);
        }
        Flow::Forward
    }
}
