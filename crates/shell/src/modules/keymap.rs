// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys that mean actions. They are the shell's as long as nobody can do what they mean.

use crate::chain::{Action, Acts, Flow, Module, View};
use crate::key::{Chord, Input};

/// The module.
#[derive(Debug)]
pub struct Keymap {
    keys: Box<[(Chord, Action)]>,
}

impl Keymap {
    /// Of these keys.
    #[must_use]
    pub fn new(keys: &[(Chord, Action)]) -> Self {
        Self { keys: keys.into() }
    }

    /// What a key means.
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
