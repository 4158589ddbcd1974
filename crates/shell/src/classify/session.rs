// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What earlier lines of a session mean for the next line.

use std::collections::VecDeque;
use std::path::PathBuf;

use super::verdict::Verdict;

/// This many names of downloaded files are remembered.
const DOWNLOADS: usize = 64;

/// Where a line would run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Context {
    /// The shell's working directory, if it is known.
    pub directory: Option<PathBuf>,
    /// The shell runs as root.
    pub root: bool,
    /// What was run before. The caller keeps it from line to line.
    pub session: Session,
}

/// The sum of what earlier lines mean. It is small and cheap to copy.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Session {
    heat: u32,
    downloads: VecDeque<String>,
}

impl Session {
    /// Adds a line that was run. The score of earlier lines is multiplied by two thirds.
    pub fn note(&mut self, verdict: &Verdict) {
        self.heat = self.heat.saturating_mul(2) / 3;
        self.heat = self.heat.saturating_add(verdict.score.min(100));
        for file in &verdict.downloads {
            if self.downloads.contains(file) {
                continue;
            }
            self.downloads.push_back(file.clone());
            if self.downloads.len() > DOWNLOADS {
                self.downloads.pop_front();
            }
        }
    }

    /// What earlier lines add to the score of the next.
    #[must_use]
    pub fn heat(&self) -> u32 {
        self.heat
    }

    pub(super) fn downloaded(&self, file: &str) -> bool {
        self.downloads.iter().any(|other| other == file)
    }
}
