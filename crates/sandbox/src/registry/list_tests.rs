// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the list: launches that run, have ended or were killed, and entries that are removed.

use super::*;
use crate::plan::Listing;
use crate::plan::text::Text;
use crate::registry::Number;
use crate::registry::entry::{Entry, Launched};
use crate::registry::record::{Bytes, encoded};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A registry for one test.
struct Registry {
    _above: tempfile::TempDir,
    path: PathBuf,
    file: File,
}

impl Registry {
    fn new() -> Self {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("palisade");
        let file = File::from(crate::registry::directory::open(&path).unwrap());
        Self { _above: above, path, file }
    }

    /// Writes a record as a launcher that was killed afterwards.
    fn leave(&self, slot: u64, record: &Record<'_>) {
        let mut bytes = [0; SIZE];
        let bytes = encoded(record, &mut bytes).unwrap();
        self.file.write_all_at(bytes, slot::offset(slot)).unwrap();
    }

    fn look(&self) -> Listed {
        let listed = list([(self.path.as_path(), uid())]);
        assert!(listed.errors.is_empty(), "{:?}", listed.errors);
        listed
    }

    /// The number of sandboxes, and of removed entries.
    fn counts(&self) -> (usize, usize) {
        let listed = self.look();
        (listed.sandboxes.len(), listed.removed)
    }

    fn states(&self) -> Vec<State> {
        self.look().sandboxes.iter().map(|sandbox| sandbox.state).collect()
    }
}

fn record(command: i32, init: Option<i32>) -> Record<'static> {
    Record {
        number: Number { launcher: 1, began: 1_700_000_000_000_000 },
        written: since_boot(),
        replaced: false,
        command,
        init,
        view: 0,
        boot: crate::registry::boot(since_boot()),
        tier: Tier::Full,
        network: NetworkMode::Host,
        name: None,
        profile: None,
        policies: Bytes(b""),
        more_policies: 0,
        words: Bytes(b"sleep\0"),
        more_words: false,
    }
}

/// A number that no process has.
const NOBODY: i32 = i32::MAX;

/// A running process that was started a moment before.
struct Living(Child);

impl Living {
    fn new() -> Self {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        Self(child)
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }

    fn end(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
fn a_killed_launchers_sandbox_is_seen_until_its_init_has_ended() {
    let (registry, init) = (Registry::new(), Living::new());
    registry.leave(3, &record(NOBODY, Some(init.pid())));
    assert_eq!(registry.states(), [State::Ending]);
    assert_eq!(registry.look().sandboxes[0].processes, Processes::All(0));
    init.end();
    assert_eq!((registry.counts(), registry.counts()), ((0, 1), (0, 0)));
}

#[test]
fn an_entry_whose_process_ends_meanwhile_is_listed_or_removed() {
    let registry = Registry::new();
    for nth in 0..20 {
        let init = Living::new();
        let entries = 300;
        for slot in 0..entries {
            registry.leave(slot, &record(NOBODY, Some(init.pid())));
        }
        let (listed, removed) = std::thread::scope(|scope| {
            let look = scope.spawn(|| registry.counts());
            std::thread::sleep(Duration::from_micros(200 * nth));
            init.end();
            look.join().unwrap()
        });
        assert_eq!(u64::try_from(listed + removed).unwrap(), entries);
        assert_eq!(registry.counts(), (0, listed));
    }
}

#[test]
fn a_command_without_init_is_seen_until_it_has_ended() {
    let (registry, command) = (Registry::new(), Living::new());
    registry.leave(0, &record(command.pid(), None));
    registry.leave(1, &Record { replaced: true, ..record(command.pid(), None) });
    let mut states = registry.states();
    states.sort_by_key(|state| state.word());
    assert_eq!(states, [State::Running, State::Unattended]);
    command.end();
    assert_eq!(registry.counts(), (0, 2));
}

#[test]
fn a_number_that_came_again_is_another_process() {
    let (registry, later) = (Registry::new(), Living::new());
    let before = since_boot() - 1_000_000_000;
    registry.leave(0, &Record { written: before, ..record(NOBODY, Some(later.pid())) });
    registry.leave(1, &Record { written: before, replaced: true, ..record(later.pid(), None) });
    assert_eq!(registry.counts(), (0, 2));
}

#[test]
fn of_another_pid_namespace_nobody_here_can_tell() {
    let (registry, living) = (Registry::new(), Living::new());
    let (own, other) = (process::own_view(), 1);
    registry.leave(0, &Record { replaced: true, view: other, ..record(NOBODY, None) });
    registry.leave(1, &Record { replaced: true, view: own, ..record(NOBODY, None) });
    // This may be the same namespace, shown by another mount of /proc.
    registry.leave(2, &Record { replaced: true, view: other, ..record(living.pid(), None) });
    let old = since_boot().saturating_sub(FORGOTTEN + 1);
    registry.leave(3, &Record { replaced: true, view: other, written: old, ..record(NOBODY, None) });
    let listed = registry.look();
    let removed = if since_boot() > FORGOTTEN { 2 } else { 1 };
    assert_eq!((listed.sandboxes.len(), listed.removed), (1, removed));
    assert_eq!(listed.sandboxes[0].processes, Processes::Unknown);
}

#[test]
fn after_another_start_of_the_machine_a_number_may_be_anybodys() {
    let (registry, living) = (Registry::new(), Living::new());
    let earlier = crate::registry::boot(since_boot()) - 3_600_000_000_000;
    // By the clock, the machine was started an hour earlier. The directory still exists.
    registry.leave(0, &Record { boot: earlier, words: Bytes(b"make\0"), ..record(living.pid(), None) });
    registry.leave(1, &Record { boot: earlier, ..record(NOBODY, Some(living.pid())) });
    assert_eq!(registry.counts(), (0, 2));
    // The clock was set, and the process is the same.
    let words = Bytes(b"/bin/sleep\x00600\0");
    registry.leave(2, &Record { boot: earlier, words, ..record(living.pid(), None) });
    let words = Bytes(b"sleep\x00cut shor\0");
    registry.leave(3, &Record { boot: earlier, words, more_words: true, ..record(living.pid(), None) });
    assert_eq!(registry.counts(), (2, 0));
    living.end();
    assert_eq!(registry.counts(), (0, 2));
}

#[test]
fn half_records_and_garbage_are_removed_and_newer_ones_stay() {
    let registry = Registry::new();
    let mut bytes = [0; SIZE];
    let whole = encoded(&record(NOBODY, None), &mut bytes).unwrap().to_vec();
    registry.file.write_all_at(&whole[..40], slot::offset(0)).unwrap();
    registry.file.write_all_at(&[0xff; SIZE], slot::offset(1)).unwrap();
    let mut newer = whole;
    newer[0] += 1;
    registry.file.write_all_at(&newer, slot::offset(2)).unwrap();
    let listed = registry.look();
    assert_eq!((listed.sandboxes.len(), listed.removed, listed.newer), (0, 2, 1));
    let listed = registry.look();
    assert_eq!((listed.removed, listed.newer), (0, 1));
}

#[test]
fn whoever_holds_a_slot_is_waited_for_while_it_is_written() {
    let (registry, init) = (Registry::new(), Living::new());
    let held = record_lock::take(registry.file.as_fd(), slot::change(5));
    assert_eq!(held, Ok(true));
    registry.file.write_all_at(b"half", slot::offset(5)).unwrap();
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| registry.look());
        std::thread::sleep(Duration::from_millis(5));
        registry.leave(5, &record(init.pid(), Some(init.pid())));
        assert_eq!(record_lock::take(registry.file.as_fd(), slot::life(5)), Ok(true));
        let listed = looking.join().unwrap();
        assert_eq!((listed.sandboxes.len(), listed.removed), (1, 0));
        assert_eq!(listed.sandboxes[0].state, State::Running);
    });
    // A process that holds a slot and never writes doesn't block readers for long, and its slot isn't removed.
    registry.file.write_all_at(b"half", slot::offset(6)).unwrap();
    assert_eq!(record_lock::take(registry.file.as_fd(), slot::change(6)), Ok(true));
    assert_eq!(registry.counts(), (1, 0));
}

#[test]
fn a_file_full_of_slots_that_are_held_and_never_written_keeps_nobody_for_long() {
    let registry = Registry::new();
    for slot in 0..1000 {
        registry.file.write_all_at(b"never written", slot::offset(slot)).unwrap();
    }
    let all = slot::change(0).start..slot::change(999).end;
    assert_eq!(record_lock::take(registry.file.as_fd(), all), Ok(true));
    let begun = std::time::Instant::now();
    assert_eq!(registry.counts(), (0, 0));
    // Fifty reads of each slot would take fifty seconds.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let other = list([(registry.path.as_path(), uid() + 1)]);
    assert_eq!(other.errors.len(), 1);
}

#[test]
fn what_is_far_behind_is_found() {
    let (registry, init) = (Registry::new(), Living::new());
    registry.leave(slot::MOST - 1, &record(init.pid(), Some(init.pid())));
    registry.leave(70, &record(init.pid(), Some(init.pid())));
    assert_eq!(registry.counts(), (2, 0));
    // No launch writes there.
    registry.leave(slot::MOST, &record(init.pid(), Some(init.pid())));
    assert_eq!(registry.counts(), (2, 0));
}

#[test]
fn a_thousand_dead_entries_are_removed_once_by_several_who_look_while_others_launch() {
    let registry = Registry::new();
    for slot in 0..1000 {
        registry.leave(slot, &record(NOBODY, Some(NOBODY)));
    }
    let listing = Listing {
        directory: Text::path(&registry.path).unwrap(),
        profile: None,
        policies: Vec::new(),
        network: NetworkMode::None,
    };
    let (removed, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let own = rustix::process::getpid().as_raw_pid();
    std::thread::scope(|scope| {
        let launch = || {
            while !ended.load(Ordering::Relaxed) {
                let launched = Launched {
                    number: Number::now(),
                    name: None,
                    words: &[],
                    command: own,
                    init: None,
                    tier: Tier::Full,
                    replaced: false,
                };
                let entry = Entry::write(&listing, &launched).unwrap();
                let id = launched.number.to_string();
                // Every reader sees the entry, whatever readers remove.
                assert!(registry.look().sandboxes.iter().any(|sandbox| sandbox.id == id));
                drop(entry);
            }
        };
        let launchers: Vec<_> = (0..2).map(|_| scope.spawn(launch)).collect();
        let look = || {
            for _ in 0..20 {
                removed.fetch_add(registry.look().removed, Ordering::Relaxed);
            }
        };
        let lookers: Vec<_> = (0..2).map(|_| scope.spawn(look)).collect();
        lookers.into_iter().for_each(|looker| looker.join().unwrap());
        ended.store(true, Ordering::Relaxed);
        launchers.into_iter().for_each(|launcher| launcher.join().unwrap());
    });
    // Some entries were removed by readers of the launching threads, and some were reused by their launches.
    assert!(removed.into_inner() <= 1000);
    assert_eq!(registry.counts(), (0, 0));
}

#[test]
fn a_launch_takes_the_slot_of_one_that_has_ended_and_of_none_that_lives() {
    let (registry, init) = (Registry::new(), Living::new());
    for slot in 0..8 {
        registry.leave(slot, &record(NOBODY, Some(if slot == 4 { init.pid() } else { NOBODY })));
    }
    let listing = Listing {
        directory: Text::path(&registry.path).unwrap(),
        profile: None,
        policies: Vec::new(),
        network: NetworkMode::None,
    };
    let own = rustix::process::getpid().as_raw_pid();
    let entries: Vec<Entry> = (0..7)
        .map(|began| {
            let number = Number { launcher: 1, began };
            let launched = Launched {
                number,
                name: None,
                words: &[],
                command: own,
                init: None,
                tier: Tier::Full,
                replaced: false,
            };
            Entry::write(&listing, &launched).unwrap()
        })
        .collect();
    let listed = registry.look();
    assert_eq!(listed.sandboxes.len(), 8, "the living one is still there");
    assert!(listed.sandboxes.iter().any(|sandbox| sandbox.init == Some(init.pid())));
    drop(entries);
}

#[test]
fn a_directory_of_others_is_an_error_and_the_rest_is_seen() {
    let (registry, init) = (Registry::new(), Living::new());
    registry.leave(0, &record(init.pid(), Some(init.pid())));
    let foreign = tempfile::tempdir().unwrap();
    let absent = foreign.path().join("absent");
    let asked = [(foreign.path(), uid() + 1), (absent.as_path(), uid()), (registry.path.as_path(), uid())];
    let listed = list(asked);
    assert_eq!(listed.sandboxes.len(), 1);
    assert!(matches!(listed.errors.as_slice(), [RegistryError::Distrusted { .. }]), "{:?}", listed.errors);
}
