// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shows a progress bar on a terminal, if the work takes long.

use crate::output;
use palisade_text::harmless;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// A bar appears only when the user has to wait longer than this.
const PATIENCE: Duration = Duration::from_millis(500);
/// The shortest time between two updates: faster changes can't be read.
const PAUSE: Duration = Duration::from_millis(50);
const WIDTH: u64 = 30;

/// A bar. It disappears when this value is dropped.
pub(crate) struct Bar {
    begun: Instant,
    shown: Option<Instant>,
}

impl Bar {
    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), shown: None }
    }

    /// Shows how much of the total is done, followed by words.
    pub(crate) fn show(&mut self, done: u64, all: u64, words: &str) {
        let early = self.begun.elapsed() < PATIENCE || self.shown.is_some_and(|last| last.elapsed() < PAUSE);
        if early || !std::io::stderr().is_terminal() {
            return;
        }
        self.shown = Some(Instant::now());
        let full = WIDTH.saturating_mul(done) / all.max(1);
        let bar: String = (0..WIDTH).map(|at| if at < full { '=' } else { ' ' }).collect();
        output::draw(&format!("\r\u{1b}[K[{bar}] {}", harmless(words)));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.shown.is_some() {
            output::draw("\r\u{1b}[K");
        }
    }
}
