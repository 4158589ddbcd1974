// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the facts that the planner reads, on a host that changes meanwhile.

use super::*;

#[test]
fn roots_configuration_is_not_the_callers() {
    if !rustix::process::geteuid().is_root() {
        // Only root can change the owner of a directory.
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let gather = || {
        let environment = Environment::from_iter([("HOME", home.path())]);
        Facts::gather(environment, "/".into()).unwrap()
    };
    assert_eq!(gather().places.config, home.path().join(".config/palisade"));
    std::os::unix::fs::chown(home.path(), Some(12345), None).unwrap();
    let facts = gather();
    assert!(!facts.places.config.starts_with(home.path()));
    assert!(!facts.account.home.starts_with(home.path()));
}

fn tree() -> (tempfile::TempDir, PathBuf, Facts) {
    let home = tempfile::tempdir().unwrap();
    let base = home.path().canonicalize().unwrap().join("w");
    std::fs::create_dir_all(base.join("first/a")).unwrap();
    std::os::unix::fs::symlink("nowhere", base.join("second")).unwrap();
    // After this time the kernel's clock distinguishes a change from what was before.
    std::thread::sleep(Duration::from_millis(50));
    let environment = Environment::from_iter([("HOME", home.path())]);
    let facts = Facts::gather(environment, base.clone()).unwrap();
    (home, base, facts)
}

fn exchange(base: &Path) {
    let [first, second] = ["first", "second"].map(|name| base.join(name));
    let (at, flags) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
    rustix::fs::renameat_with(at, first, at, second, flags).unwrap();
}

#[test]
fn what_is_moved_about_while_a_pattern_is_looked_up_is_looked_for_again() {
    let (_home, base, facts) = tree();
    let exchanged = std::cell::Cell::new(false);
    let found = facts.look_up(&base, None, |path| {
        if !exchanged.replace(true) {
            exchange(&base);
        }
        path.ends_with("a")
    });
    assert_eq!(found.unwrap(), [base.join("second/a")]);
}

/// The walk itself sees every entry as it was listed.
#[test]
fn what_becomes_a_link_once_it_is_found_is_looked_for_again() {
    let (_home, base, facts) = tree();
    let visited = Cell::new(0);
    let found = facts.look_up(&base, None, |_path| {
        visited.set(visited.get() + 1);
        if visited.get() == 2 {
            exchange(&base);
        }
        true
    });
    let mut found = found.unwrap();
    found.sort();
    assert_eq!(found, ["first", "second"].map(|name| base.join(name)));
    assert_eq!(visited.get(), 4);
    assert!(!found.iter().any(|path| facts.has_moved(path)));
}

#[test]
fn what_never_stays_in_its_place_is_an_error() {
    let (_home, base, facts) = tree();
    let found = facts.look_up(&base, None, |path| {
        // This is after the directory was listed, and before its entries are read.
        if path.ends_with("first") {
            exchange(&base);
        }
        path.ends_with("a")
    });
    assert!(matches!(found, Err(WalkError::Moving { .. })), "{found:?}");
}

/// A match counts as a link if it was one when this pattern was looked up, not when another one was.
#[test]
fn what_was_a_link_for_an_earlier_pattern_has_moved_where_it_is_one_again() {
    let (_home, base, facts) = tree();
    let second = base.join("second");
    let look_up = || facts.look_up(&base, None, |path| path == second).unwrap();
    assert_eq!(look_up().as_slice(), std::slice::from_ref(&second));
    assert!(!facts.has_moved(&second));
    exchange(&base);
    assert_eq!(look_up().as_slice(), std::slice::from_ref(&second));
    assert!(!facts.has_moved(&second));
    exchange(&base);
    assert!(facts.has_moved(&second));
}

#[test]
fn a_second_attempt_forgets_nothing_of_other_patterns() {
    let (_home, base, facts) = tree();
    let other = base.parent().unwrap().join("other");
    std::fs::create_dir(&other).unwrap();
    facts.look_up(&other, None, |_path| false).unwrap();
    let exchanged = Cell::new(false);
    let found = facts.look_up(&base, None, |path| {
        if !exchanged.replace(true) {
            exchange(&base);
        }
        path.ends_with("a")
    });
    assert_eq!(found.unwrap(), [base.join("second/a")]);
    let (inputs, _absent) = facts.inputs();
    let listed = |directory: &Path| {
        let is_this = |input: &&Input| input.path.as_bytes() == directory.as_os_str().as_bytes();
        inputs.iter().filter(is_this).any(|input| matches!(input.was, Was::Listing(_)))
    };
    assert!(listed(&other) && listed(&base) && listed(&base.join("second")));
    assert!(!listed(&base.join("first")), "of the first attempt");
}

/// A plan that was made while names were added is valid only as long as the names stay the same.
#[test]
fn what_changes_while_a_pattern_is_looked_up_changes_the_plan() {
    let (_home, base, facts) = tree();
    let made = std::cell::Cell::new(false);
    facts
        .look_up(&base, None, |_path| {
            if !made.replace(true) {
                std::fs::create_dir(base.join("late")).unwrap();
            }
            false
        })
        .unwrap();
    let (inputs, _absent) = facts.inputs();
    let changed = inputs.iter().any(|input| match input.was {
        Was::Listing(found) => {
            Fingerprint::of(Path::new(OsStr::from_bytes(input.path.as_bytes()))).unwrap() != found
        }
        _ => false,
    });
    assert!(changed || facts.is_volatile());
}
