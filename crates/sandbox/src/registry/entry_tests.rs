// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of slots that are taken and released, and of names.

use super::*;
use crate::registry::list::{State, list};
use crate::registry::process::Processes;
use palisade_policy::NetworkMode;

fn listing(above: &Path) -> Listing<'static> {
    Listing {
        directory: Text::path(&above.join("palisade")).unwrap(),
        profile: Some(Text::new("npm").unwrap()),
        policies: vec![Text::new("/etc/palisade/config.toml").unwrap()],
        network: NetworkMode::None,
    }
}

/// A launch whose command is this process.
fn launched<'a>(words: &'a [Text<'a>], name: Option<&'a Name>) -> Launched<'a> {
    let command = rustix::process::getpid().as_raw_pid();
    Launched {
        number: Number::now(),
        name,
        words,
        command,
        init: None,
        tier: Tier::Landlock,
        replaced: false,
    }
}

fn words(text: &str) -> Vec<Text<'static>> {
    text.split(' ').map(|word| Text::new(word).unwrap()).collect()
}

fn running(listing: &Listing<'_>) -> Vec<crate::registry::list::Sandbox> {
    let uid = rustix::process::geteuid().as_raw();
    let listed = list([(listing.directory.as_path(), uid)]);
    assert!(listed.errors.is_empty(), "{:?}", listed.errors);
    listed.sandboxes
}

#[test]
fn a_launch_is_listed_until_its_entry_is_dropped() {
    let above = tempfile::tempdir().unwrap();
    let listing = listing(above.path());
    let (words, name) = (words("npm install"), Name::take("web", Some(&listing)).unwrap());
    assert!(running(&listing).is_empty());
    let launched = launched(&words, Some(&name));
    let entry = Entry::write(&listing, &launched).unwrap();
    let found = running(&listing);
    let [one] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((one.id.as_str(), one.name.as_deref()), (launched.number.to_string().as_str(), Some("web")));
    assert_eq!((one.state, one.tier, one.network), (State::Running, Tier::Landlock, NetworkMode::None));
    assert_eq!((one.launcher, one.command), (std::process::id(), launched.command));
    assert_eq!(one.words, [&b"npm"[..], b"install"]);
    assert_eq!(one.policies, [b"/etc/palisade/config.toml"]);
    assert_eq!(one.profile.as_deref(), Some(&b"npm"[..]));
    assert!(matches!(one.processes, Processes::AtLeast(1..)), "{:?}", one.processes);
    assert!(one.age.as_secs() < 60 && one.started.elapsed().unwrap().as_secs() < 60);
    drop(entry);
    assert!(running(&listing).is_empty());
}

#[test]
fn launches_at_the_same_time_take_slots_of_their_own() {
    let above = tempfile::tempdir().unwrap();
    let listing = listing(above.path());
    let words = words("sleep 1");
    // More entries than the slots that are tried first.
    let mut entries: Vec<Entry> = std::thread::scope(|scope| {
        let take = || (0..20).map(|_| Entry::write(&listing, &launched(&words, None)).unwrap()).collect();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        threads.into_iter().flat_map(|thread| -> Vec<Entry> { thread.join().unwrap() }).collect()
    });
    let mut slots: Vec<u64> = entries.iter().map(|entry| entry.slot).collect();
    slots.sort_unstable();
    slots.dedup();
    assert_eq!((slots.len(), running(&listing).len()), (80, 80));
    assert!(slots.iter().take(8).copied().eq(0..8), "the first are used first: {slots:?}");
    entries.truncate(3);
    assert_eq!(running(&listing).len(), 3);
}

#[test]
fn what_is_too_long_is_cut_and_counted() {
    let above = tempfile::tempdir().unwrap();
    let mut listing = listing(above.path());
    listing.policies =
        (0..100).map(|number| Text::new(format!("/etc/palisade/{number:030}")).unwrap()).collect();
    listing.profile = Some(Text::new("p".repeat(4000)).unwrap());
    let words = words(&format!("sh -c {}", "x".repeat(100_000)));
    let _entry = Entry::write(&listing, &launched(&words, None)).unwrap();
    let one = running(&listing).remove(0);
    assert_eq!(one.policies.len() + usize::try_from(one.more_policies).unwrap(), 100);
    assert!(one.policies.len() > 10 && one.more_words);
    assert!(one.words[2].len() > 500 && one.words[2].iter().all(|byte| *byte == b'x'));
    assert_eq!(one.profile.unwrap().len(), 255);
}

#[test]
fn a_header_alone_shows_most_that_have_ended() {
    let own = i32::try_from(std::process::id()).unwrap();
    let header = |pid: i32, view: u32| {
        let mut slot = [0; SIZE];
        record::encoded(&Record { init: None, command: pid, view, ..record::tests::example() }, &mut slot);
        *slot.first_chunk::<HEADER>().unwrap()
    };
    assert!(has_ended(&[0; HEADER]));
    assert!(has_ended(&header(i32::MAX, 0)) && has_ended(&header(i32::MAX, process::own_view())));
    // A number that another `/proc` shows says nothing here. Whether a process is the same one is looked up.
    assert!(!has_ended(&header(i32::MAX, 1)) && !has_ended(&header(own, 0)));
}

#[test]
fn no_room_is_an_error_and_nothing_is_left() {
    let above = tempfile::tempdir().unwrap();
    let listing = listing(above.path());
    let words = words("true");
    drop(Entry::write(&listing, &launched(&words, None)).unwrap());
    let holder = directory::open(listing.directory.as_path()).unwrap();
    assert_eq!(record_lock::take(holder.as_fd(), 0..slot::offset(slot::MOST)), Ok(true));
    let full = Entry::write(&listing, &launched(&words, None));
    assert!(matches!(full, Err(RegistryError::Full { .. })), "{full:?}");
    drop(holder);
    Entry::write(&listing, &launched(&words, None)).unwrap();
}

#[test]
fn a_name_is_one_sandboxs_at_a_time() {
    let above = tempfile::tempdir().unwrap();
    let listing = listing(above.path());
    let first = Name::take("web", Some(&listing)).unwrap();
    assert!(matches!(Name::take("web", Some(&listing)), Err(RegistryError::NameTaken { .. })));
    let _other = Name::take("web2", Some(&listing)).unwrap();
    drop(first);
    Name::take("web", Some(&listing)).unwrap();
    // Without a registry no other sandbox can have the name.
    Name::take("web", None).unwrap();
}

#[test]
fn names_are_plain_and_no_numbers() {
    for name in ["web", "a", "A.b-c_9", "7zip", &"x".repeat(64), "1-a", "12-0a1b2x"] {
        assert_eq!(Name::check(name), Ok(()), "{name}");
    }
    for name in ["", "-a", ".a", "_a", "a b", "ä", "a/b", "a\n", &"x".repeat(65), "12", "4711-0a1b2c", "1-2"]
    {
        assert!(Name::check(name).is_err(), "{name}");
    }
    assert!(Name::check(&Number::now().to_string()).is_err());
}
