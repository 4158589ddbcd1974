// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of sessions in `docs/agents.md`.

use std::io::{Read, Seek, Write};
use std::path::Path;

/// What a row says of an agent.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) agent: &'static str,
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    pub(super) steps: usize,
    pub(super) refused: usize,
    /// The times of `--version` outside and inside, in milliseconds, if they were measured.
    pub(super) start: Option<(u128, u128)>,
}

/// Whether the page is to be written.
pub(super) fn writes() -> bool {
    std::env::var_os("PALISADE_SESSIONS").is_some_and(|word| word == "write")
}

impl Row {
    /// The part that is the same on every machine.
    fn beginning(&self) -> String {
        format!("| {} | {} | {} | {} |", self.agent, self.version, self.steps, self.refused)
    }

    /// Checks that the page has the row, or writes it.
    pub(super) fn compare_or_write(&self) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agents.md");
        let mut file = std::fs::File::options().read(true).write(writes()).open(&path).unwrap();
        // The tests of other agents write their rows.
        file.lock().unwrap();
        let mut page = String::new();
        file.read_to_string(&mut page).unwrap();
        let row = page
            .lines()
            .find(|line| line.starts_with(&format!("| {} | ", self.agent)) && line.ends_with(" ms |"));
        match (self.start, row) {
            (Some((outside, inside)), Some(row)) => {
                let page = page.replace(row, &format!("{} {outside} ms | {inside} ms |", self.beginning()));
                file.set_len(0).unwrap();
                file.rewind().unwrap();
                file.write_all(page.as_bytes()).unwrap();
            }
            (_, row) => assert!(
                row.is_some_and(|row| row.starts_with(&self.beginning())),
                "docs/agents.md has {row:?} and not {}\nhint: PALISADE_SESSIONS=write ./x test cli/integration/sessions::of_{}",
                self.beginning(),
                self.name
            ),
        }
    }
}
