// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts what happens in the shell. Keys and lines pass unchanged, and nothing is written before a second has passed.
//!
//! A line that must not be remembered (incognito, a space in front) isn't counted. Of a line that contains a secret,
//! only the guard's rule is counted.

use crate::chain::{Action, Acts, Ended, Flow, Module, View};
use crate::counts::{Counts, MetricsThread, Tally, Told};
use crate::history::{Privacy, Reason, now};
use crate::key::Input;
use crate::settings::Settings;
use std::path::Path;
use std::rc::Rc;

/// The module's name.
pub const NAME: &str = "counts";

/// The module. It must be first in the chain, so that it also sees the keys that other modules keep.
#[derive(Debug)]
pub struct Counting {
    tally: Rc<Tally>,
    privacy: Privacy,
    metrics: MetricsThread,
    /// Ghost text was shown for this line.
    shown: bool,
    /// The line that runs is counted.
    runs: bool,
}

impl Counting {
    /// The module with the file in a state directory.
    #[must_use]
    pub fn in_directory(state: &Path, tally: Rc<Tally>, privacy: Privacy) -> Self {
        Self { tally, privacy, metrics: MetricsThread::in_directory(state), shown: false, runs: false }
    }

    /// What was counted since the last call.
    fn take(&self) -> Counts {
        let keeps = |mut told: Told| {
            let line = told.line.take()?;
            match self.privacy.keeps_out(&line) {
                Some(Reason::LeadingSpace) => return None,
                Some(_) => {}
                None => told.line = Some(line),
            }
            Some(told)
        };
        self.tally.take(now(), keeps)
    }
}

impl Module for Counting {
    fn name(&self) -> &'static str {
        NAME
    }

    fn renew(&mut self, settings: &Settings) -> bool {
        self.privacy = Privacy {
            leading_space: settings.history.ignore_space,
            secrets: settings.history.ignore_secrets,
        };
        true
    }

    fn input(&mut self, _input: &Input<'_>, view: &View<'_>, _acts: &mut Acts) -> Flow {
        if view.line.text().is_empty() {
            self.shown = false;
        }
        if !view.ghost.is_empty() && !self.shown && !view.incognito {
            self.shown = true;
            Tally::count(&self.tally.ghost_shown);
        }
        Flow::Forward
    }

    fn action(&mut self, action: Action, view: &View<'_>, _acts: &mut Acts) -> bool {
        let takes = matches!(action, Action::Accept | Action::AcceptWord | Action::AcceptPart);
        // The same condition as in the module `ghost`.
        if takes
            && !view.incognito
            && !view.ghost.is_empty()
            && view.line.is_certain()
            && view.line.is_at_end()
        {
            Tally::count(&self.tally.ghost_taken);
        }
        false
    }

    fn started(&mut self, line: &str, view: &View<'_>) {
        self.shown = false;
        self.runs = !view.foreground.is_foreign()
            && !view.incognito
            && !line.trim().is_empty()
            && !matches!(self.privacy.keeps_out(line), Some(Reason::LeadingSpace));
        if self.runs {
            Tally::count(&self.tally.lines);
        }
    }

    fn ended(&mut self, ended: &Ended<'_>, _view: &View<'_>) {
        if core::mem::take(&mut self.runs) && ended.code != 0 {
            Tally::count(&self.tally.failed);
        }
    }

    fn tick(&mut self, _view: &View<'_>, acts: &mut Acts) {
        let counts = self.take();
        self.metrics.add(counts);
        // The history's message has priority: both have the same disk, and so the same cause.
        if !acts.hinted
            && let Some(problem) = self.metrics.problem()
        {
            acts.say(&format!("palisade: {problem}"));
        }
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let counts = self.take();
        self.metrics.add(counts);
    }
}
