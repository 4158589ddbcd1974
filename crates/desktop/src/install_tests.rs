// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of making and removing files, also if the process stops before any step.

use super::*;
use palisade_host::places::Trustee;
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;

const TYPES: [&str; 2] = ["application/pdf", "image/tiff"];

struct Home {
    root: tempfile::TempDir,
}

/// Everything below a directory: a file's content, a link's target, or a directory's name.
type Tree = BTreeMap<PathBuf, String>;

impl Home {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(below)
    }

    fn store(&self) -> Store {
        let uid = rustix::process::geteuid().as_raw();
        Store::new(&self.path(""), &self.path(".local/state/palisade"), Trustee { uid, private_group: None })
    }

    fn write(&self, below: &str, text: &str) {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn order(&self, version: &str) -> Order {
        let file = |kind, below: &str, text: &str| Wanted {
            kind,
            path: self.path(below),
            what: What::File(format!("{text} {version}\n").into()),
            origin: None,
        };
        let types = TYPES.map(str::to_owned).to_vec();
        Order {
            name: "app".into(),
            binary: "/opt/palisade".into(),
            choices: Choices { mime: types, ..Choices::default() },
            files: vec![
                Wanted {
                    kind: Kind::Link,
                    path: self.path(".local/bin/app"),
                    what: What::Link(format!("/opt/palisade{version}").into()),
                    origin: None,
                },
                file(Kind::DesktopEntry, ".local/share/applications/sub/app.desktop", "entry"),
                file(Kind::Unit, ".config/systemd/user/app.service", "unit"),
            ],
            defaults: Some(WantedDefaults {
                file: self.path(".config/mimeapps.list"),
                entry: "app.desktop".into(),
            }),
            force: false,
        }
    }

    fn enable(&self, order: &Order) -> Result<Outcome, InstallError> {
        enable(&Disk::default(), &self.store(), order)
    }

    fn disable(&self) -> Option<Outcome> {
        disable(&Disk::default(), &self.store(), "app").unwrap()
    }

    fn tree(&self) -> Tree {
        fn walk(top: &Path, below: &Path, tree: &mut Tree) {
            for entry in std::fs::read_dir(top.join(below)).unwrap().map(Result::unwrap) {
                let (path, below) = (entry.path(), below.join(entry.file_name()));
                if entry.file_type().unwrap().is_dir() {
                    tree.insert(below.clone(), "directory".into());
                    walk(top, &below, tree);
                } else if let Ok(target) = std::fs::read_link(&path) {
                    tree.insert(below, format!("to {}", target.display()));
                } else {
                    tree.insert(below, std::fs::read_to_string(&path).unwrap());
                }
            }
        }
        let mut tree = Tree::new();
        walk(&self.path(""), Path::new(""), &mut tree);
        tree
    }

    /// Everything except the directories that exist for the list of what was made.
    fn tree_but_state(&self) -> Tree {
        let mut tree = self.tree();
        let state = Path::new(".local/state");
        tree.retain(|path, _what| !state.starts_with(path) && !path.starts_with(state));
        tree
    }
}

fn stopped_after(steps: usize) -> Disk {
    let disk = Disk::default();
    disk.remaining.set(Some(steps));
    disk
}

#[test]
fn what_was_made_goes_without_a_trace() {
    let home = Home::new();
    home.write(".config/other", "x");
    let before = home.tree();
    let outcome = home.enable(&home.order("")).unwrap();
    assert_eq!(outcome.made.len(), 3);
    assert_eq!(std::fs::read_link(home.path(".local/bin/app")).unwrap(), Path::new("/opt/palisade"));
    let list = std::fs::read_to_string(home.path(".config/mimeapps.list")).unwrap();
    assert!(list.contains("application/pdf=app.desktop;\n"), "{list}");
    let enabled = home.tree();
    home.enable(&home.order("")).unwrap();
    assert_eq!(home.tree(), enabled, "once more changes nothing");
    assert_eq!(home.disable().unwrap().removed.len(), 3);
    assert_eq!(home.tree(), before);
    assert_eq!(home.disable(), None);
    assert_eq!(home.tree(), before);
}

#[test]
fn what_is_no_longer_asked_for_goes() {
    let home = Home::new();
    let before = home.tree();
    home.enable(&home.order("")).unwrap();
    let mut less = home.order("2");
    less.files.pop();
    less.defaults = None;
    let outcome = home.enable(&less).unwrap();
    assert_eq!(outcome.removed, [home.path(".config/systemd/user/app.service")]);
    assert!(!home.path(".config").exists(), "nor are empty directories left");
    assert_eq!(std::fs::read_link(home.path(".local/bin/app")).unwrap(), Path::new("/opt/palisade2"));
    home.disable().unwrap();
    assert_eq!(home.tree(), before);
}

#[test]
fn what_somebody_else_made_is_not_touched() {
    for place in
        [".local/bin/app", ".local/share/applications/sub/app.desktop", ".config/systemd/user/app.service"]
    {
        let home = Home::new();
        home.write(place, "mine");
        let before = home.tree();
        let error = home.enable(&home.order("")).unwrap_err();
        assert!(
            matches!(&error, InstallError::Foreign { path, changed: false } if *path == home.path(place)),
            "{error}"
        );
        assert_eq!(home.tree(), before);

        let mut force = home.order("");
        force.force = true;
        let outcome = home.enable(&force).unwrap();
        let aside = home.path(&format!("{place}.palisade-saved"));
        assert_eq!(outcome.aside, [(home.path(place), aside.clone())]);
        assert_eq!(std::fs::read_to_string(&aside).unwrap(), "mine");
        // If it is enabled again without force, the list still names the earlier file.
        home.enable(&home.order("2")).unwrap();
        assert_eq!(home.disable().unwrap().restored, [home.path(place)]);
        assert_eq!(home.tree(), before);
    }
}

#[test]
fn directories_links_and_pipes_in_the_way_are_kept_aside_too() {
    let home = Home::new();
    std::fs::create_dir_all(home.path(".local/bin/app/sub")).unwrap();
    std::fs::create_dir_all(home.path(".local/share/applications/sub")).unwrap();
    symlink("/dev/zero", home.path(".local/share/applications/sub/app.desktop")).unwrap();
    let before = home.tree();
    assert!(home.enable(&home.order("")).is_err());
    let mut force = home.order("");
    force.force = true;
    assert_eq!(home.enable(&force).unwrap().aside.len(), 2);
    home.disable().unwrap();
    assert_eq!(home.tree(), before);
}

#[test]
fn a_second_thing_is_not_kept_aside_over_the_first() {
    let home = Home::new();
    home.write(".local/bin/app", "mine");
    home.write(".local/bin/app.palisade-saved", "also mine");
    let before = home.tree();
    let mut force = home.order("");
    force.force = true;
    let error = home.enable(&force).unwrap_err();
    assert!(matches!(error, InstallError::Aside { .. }), "{error}");
    assert_eq!(home.tree(), before);
}

#[test]
fn changed_files_stay_and_are_named() {
    let home = Home::new();
    home.enable(&home.order("")).unwrap();
    home.write(".local/share/applications/sub/app.desktop", "changed");
    let error = home.enable(&home.order("2")).unwrap_err();
    assert!(matches!(error, InstallError::Foreign { changed: true, .. }), "{error}");
    assert_eq!(std::fs::read_link(home.path(".local/bin/app")).unwrap(), Path::new("/opt/palisade"));
    std::fs::remove_file(home.path(".local/bin/app")).unwrap();
    let outcome = home.disable().unwrap();
    assert_eq!(outcome.left, [home.path(".local/share/applications/sub/app.desktop")]);
    assert_eq!(outcome.removed, [home.path(".config/systemd/user/app.service")]);
    let left: Vec<PathBuf> = home.tree().into_keys().collect();
    let expected = [
        ".local",
        ".local/share",
        ".local/share/applications",
        ".local/share/applications/sub",
        ".local/share/applications/sub/app.desktop",
    ];
    assert_eq!(left, expected.map(PathBuf::from));
}

#[test]
fn a_list_of_defaults_that_is_a_link_is_not_replaced() {
    let home = Home::new();
    home.write("dotfiles/mimeapps.list", "");
    std::fs::create_dir(home.path(".config")).unwrap();
    symlink(home.path("dotfiles/mimeapps.list"), home.path(".config/mimeapps.list")).unwrap();
    let before = home.tree();
    assert!(matches!(home.enable(&home.order("")).unwrap_err(), InstallError::Link { .. }));
    assert_eq!(home.tree(), before);
    // A list of defaults that has become a link doesn't prevent disabling.
    let home = Home::new();
    home.enable(&home.order("")).unwrap();
    let list = home.path(".config/mimeapps.list");
    std::fs::rename(&list, home.path("list")).unwrap();
    symlink(home.path("list"), &list).unwrap();
    assert_eq!(home.disable().unwrap().left, [list]);
}

#[test]
fn the_last_of_two_applications_takes_the_directories_with_it() {
    let home = Home::new();
    let before = home.tree();
    home.enable(&home.order("")).unwrap();
    let mut second = home.order("");
    second.name = "second".into();
    second.files = vec![Wanted {
        kind: Kind::Link,
        path: home.path(".local/bin/second"),
        what: What::Link("/opt/palisade".into()),
        origin: None,
    }];
    home.enable(&second).unwrap();
    home.disable().unwrap();
    assert!(home.path(".local/bin/second").is_symlink());
    disable(&Disk::default(), &home.store(), "second").unwrap().unwrap();
    assert_eq!(home.tree(), before);
}

#[test]
fn a_file_of_another_application_is_not_taken() {
    let home = Home::new();
    home.enable(&home.order("")).unwrap();
    let before = home.tree();
    let mut second = home.order("2");
    (second.name, second.force) = ("second".into(), true);
    let error = home.enable(&second).unwrap_err();
    assert!(matches!(&error, InstallError::Taken { by, .. } if by == "app"), "{error}");
    assert_eq!(home.tree(), before);
}

#[test]
fn a_failure_in_the_middle_takes_back_what_was_done() {
    let home = Home::new();
    // There is a file where a directory must be.
    home.write(".config/systemd", "mine");
    home.write(".local/bin/app", "mine, too");
    let before = home.tree();
    let mut force = home.order("");
    force.force = true;
    home.enable(&force).unwrap_err();
    assert_eq!(home.tree(), before);
}

/// A home with something in the way, and the order that keeps it aside.
fn crowded() -> (Home, Order) {
    let home = Home::new();
    home.write(".local/share/applications/sub/app.desktop", "mine");
    home.write(".config/mimeapps.list", "[Default Applications]\nimage/tiff=mine.desktop\n");
    let mut force = home.order("");
    force.force = true;
    (home, force)
}

#[test]
fn stopped_anywhere_enabling_is_put_right_by_either() {
    let (reference, force) = crowded();
    reference.enable(&force).unwrap();
    let enabled = reference.tree_but_state();
    let mut steps = 0;
    loop {
        let (home, force) = crowded();
        let before = home.tree_but_state();
        let done = enable(&stopped_after(steps), &home.store(), &force).is_ok();
        home.disable();
        assert_eq!(home.tree_but_state(), before, "stopped after {steps} steps, then disabled");

        let (home, force) = crowded();
        let _stopped = enable(&stopped_after(steps), &home.store(), &force);
        home.enable(&force).unwrap();
        assert_eq!(home.tree_but_state(), enabled, "stopped after {steps} steps, then enabled");
        home.disable().unwrap();
        assert_eq!(home.tree_but_state(), before, "and disabled");
        if done {
            break;
        }
        steps += 1;
    }
    assert!(steps >= 20, "{steps}");
}

#[test]
fn stopped_anywhere_renewing_is_put_right_by_either() {
    let mut steps = 0;
    loop {
        let mut done = false;
        for then_enable in [false, true] {
            let (home, force) = crowded();
            let before = home.tree_but_state();
            home.enable(&force).unwrap();
            let mut other = home.order("2");
            other.files.pop();
            other.choices.mime.pop();
            done = enable(&stopped_after(steps), &home.store(), &other).is_ok();
            if then_enable {
                let outcome = home.enable(&other).unwrap();
                assert!(outcome.left.is_empty());
                assert!(!home.path(".config/systemd").exists(), "{steps}");
                let list = std::fs::read_to_string(home.path(".config/mimeapps.list")).unwrap();
                let pdf = "application/pdf=app.desktop;\n";
                let expected = format!(
                    "[Default Applications]\n{pdf}image/tiff=mine.desktop\n[Added Associations]\n{pdf}"
                );
                assert_eq!(list, expected);
            }
            let outcome = home.disable().unwrap();
            assert!(outcome.left.is_empty(), "stopped after {steps} steps: {outcome:?}");
            assert_eq!(home.tree_but_state(), before, "stopped after {steps} steps");
        }
        if done {
            break;
        }
        steps += 1;
    }
    assert!(steps > 15, "{steps}");
}

#[test]
fn stopped_anywhere_disabling_is_put_right_by_either() {
    let mut steps = 0;
    loop {
        let mut done = false;
        for then_enable in [false, true] {
            let (home, force) = crowded();
            let before = home.tree_but_state();
            home.enable(&force).unwrap();
            done = disable(&stopped_after(steps), &home.store(), "app").is_ok();
            if then_enable {
                // A file that was restored is in the way again.
                home.enable(&force).unwrap();
            }
            home.disable();
            assert_eq!(home.tree_but_state(), before, "stopped after {steps} steps");
        }
        if done {
            break;
        }
        steps += 1;
    }
    assert!(steps >= 10, "{steps}");
}

#[test]
fn a_list_that_others_could_have_written_is_not_obeyed() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    home.enable(&home.order("")).unwrap();
    let list = home.store().file("app");
    std::fs::set_permissions(&list, std::fs::Permissions::from_mode(0o666)).unwrap();
    let error = disable(&Disk::default(), &home.store(), "app").unwrap_err();
    assert!(matches!(error, InstallError::Manifest(ManifestError::Distrusted(_))), "{error}");
    std::fs::set_permissions(&list, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&list, "{}").unwrap();
    let error = home.enable(&home.order("")).unwrap_err();
    assert!(matches!(error, InstallError::Manifest(ManifestError::Broken { .. })), "{error}");
    assert!(home.path(".local/bin/app").is_symlink(), "nothing is taken back for that");
}

#[test]
fn two_at_once_leave_one_whole_state() {
    let home = Home::new();
    let before = home.tree();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let home = &home;
            scope.spawn(move || {
                for round in 0..20 {
                    if (number + round) % 2 == 0 {
                        home.enable(&home.order("")).unwrap();
                    } else {
                        home.disable();
                    }
                }
            });
        }
    });
    home.enable(&home.order("")).unwrap();
    home.disable().unwrap();
    assert_eq!(home.tree(), before);
}
