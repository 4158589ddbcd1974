// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data of the page, at one moment.

use super::command;
use crate::counts::{self, Counts};
use crate::history::{Filter, Store, now};
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;

/// The length of each table.
const MOST: usize = 10;
/// The number of newest entries among which the slowest ones are searched.
const LOOKED_AT: usize = 100_000;

/// A thing and how often it occurred.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Often {
    /// The thing.
    pub what: String,
    /// How often.
    pub count: u64,
}

/// A command that took long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Slow {
    /// The line.
    pub line: String,
    /// The directory in which it ran.
    pub directory: String,
    /// When, in nanoseconds since 1970, UTC.
    pub started: i64,
    /// How long it took, in nanoseconds.
    pub duration: i64,
    /// Its exit code, if it has ended.
    pub exit: Option<i32>,
}

/// What happened in the shell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The time of this data, in nanoseconds since 1970, UTC.
    pub time: i64,
    /// The counts.
    pub counts: Counts,
    /// The number of entries in the history.
    pub entries: u64,
    /// Of these, the entries that ended with another code than 0.
    pub failed: u64,
    /// Of these, the imported entries.
    pub imported: u64,
    /// The commands used most.
    pub commands: Vec<Often>,
    /// The directories used most.
    pub directories: Vec<Often>,
    /// The slowest commands among the newest hundred thousand entries.
    pub slowest: Vec<Slow>,
    /// What can't be shown, and why.
    pub problems: Vec<String>,
}

impl Facts {
    /// Reads the data from a state directory. What can't be read is recorded as a problem.
    #[must_use]
    pub fn read(state: &Path) -> Self {
        let mut facts = Self { time: now(), ..Self::default() };
        match counts::read(state) {
            Ok(counts) => facts.counts = counts.unwrap_or_default(),
            Err(error) => facts.problems.push(format!("{error}. hint: {}", error.hint())),
        }
        match Store::read(&state.join("history.sqlite")) {
            Ok(Some(store)) => {
                if let Err(error) = facts.look_into(&store) {
                    facts.problems.push(error.to_string());
                }
            }
            Ok(None) => {}
            Err(error) => facts.problems.push(error.to_string()),
        }
        facts
    }

    fn look_into(&mut self, store: &Store) -> Result<(), crate::history::StoreError> {
        let number = |number: i64| u64::try_from(number).unwrap_or_default();
        let statistics = store.statistics(usize::MAX)?;
        self.entries = number(statistics.entries);
        self.failed = number(statistics.failed);
        self.imported = number(statistics.imported);
        let mut commands: HashMap<&str, u64> = HashMap::new();
        for (line, count) in &statistics.frequent {
            if let Some(name) = command::name(line) {
                *commands.entry(name).or_default() += number(*count);
            }
        }
        self.commands = most(commands.into_iter().map(|(what, count)| (what.to_owned(), count)));
        let directories = statistics.directories.iter().filter(|(what, _)| !what.is_empty());
        self.directories = most(directories.map(|(what, count)| (what.clone(), number(*count))));
        let mut slowest: Vec<Slow> = Vec::new();
        let filter = Filter { most: Some(LOOKED_AT), ..Filter::default() };
        store.each(&filter, |row| {
            let entry = row.entry;
            if let Some(duration) = entry.duration
                && (slowest.len() < MOST || slowest.last().is_some_and(|last| last.duration < duration))
            {
                let at = slowest.partition_point(|slow| slow.duration >= duration);
                let (line, directory) = (entry.line, entry.directory);
                slowest
                    .insert(at, Slow { line, directory, started: entry.started, duration, exit: entry.exit });
                slowest.truncate(MOST);
            }
            true
        })?;
        self.slowest = slowest;
        Ok(())
    }
}

/// The most frequent ones. Equally frequent ones are ordered by name.
fn most(all: impl Iterator<Item = (String, u64)>) -> Vec<Often> {
    let mut all: Vec<Often> = all.map(|(what, count)| Often { what, count }).collect();
    all.sort_by(|one, other| (other.count, &one.what).cmp(&(one.count, &other.what)));
    all.truncate(MOST);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Entry, Writer};
    use std::time::Duration;

    #[test]
    fn the_history_is_counted_by_command_and_directory() {
        let home = tempfile::tempdir().unwrap();
        let writer = Writer::new(&home.path().join("history.sqlite"));
        for number in 0..30_u64 {
            let line =
                if number % 3 == 0 { format!("sudo apt install {number}") } else { "git status".into() };
            let directory = if number % 2 == 0 { "/srv" } else { "" }.to_owned();
            let started = i64::try_from(number).unwrap();
            let id = writer.started(Entry { line, directory, started, ..Entry::default() });
            writer.finished(id, Some(i32::from(number == 4)), Some(Duration::from_secs(number)), "");
        }
        drop(writer);
        let store = home.path().join("history.sqlite");
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while Store::read(&store)
            .ok()
            .flatten()
            .and_then(|store| store.statistics(1).ok())
            .map(|all| all.entries)
            != Some(30)
        {
            assert!(std::time::Instant::now() < until, "the history isn't written");
            std::thread::sleep(Duration::from_millis(5));
        }
        let facts = Facts::read(home.path());
        assert_eq!((facts.entries, facts.failed, facts.imported), (30, 1, 0), "{:?}", facts.problems);
        let often = |what: &str, count| Often { what: what.to_owned(), count };
        assert_eq!(facts.commands, [often("git", 20), often("apt", 10)]);
        assert_eq!(facts.directories, [often("/srv", 15)]);
        let seconds: Vec<i64> = facts.slowest.iter().map(|slow| slow.duration / 1_000_000_000).collect();
        assert_eq!(seconds, [29, 28, 27, 26, 25, 24, 23, 22, 21, 20]);
    }

    #[test]
    fn nothing_is_made_by_looking_and_what_is_broken_is_said() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("none");
        let facts = Facts::read(&state);
        assert!(facts.problems.is_empty() && facts.entries == 0 && facts.counts.is_empty());
        assert!(!state.exists());
        std::fs::create_dir(&state).unwrap();
        std::fs::write(state.join("history.sqlite"), "no database").unwrap();
        std::fs::write(state.join(counts::FILE), "{").unwrap();
        let facts = Facts::read(&state);
        assert_eq!(facts.problems.len(), 2, "{:?}", facts.problems);
    }
}
