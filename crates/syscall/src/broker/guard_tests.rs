// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::broker::history::upwards;
use palisade_policy::names::repository::MARKS;
use palisade_policy::{Layer, Origin};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

fn rule(path: &str, carried: bool, content: Content) -> NameRule {
    let origin = Origin { layer: Layer::BuiltIn, file: None, line: 1, column: 1 };
    NameRule {
        path: path.into(),
        reason: "a test".into(),
        origin,
        carried,
        except_below: Vec::new(),
        content,
        anchored: false,
        locked: false,
    }
}

fn guard() -> Guard {
    let names = NameRules::new(vec![
        rule(".git/hooks", false, Content::Never),
        rule(".git/config", false, Content::GitConfig),
        rule(".vscode", true, Content::Never),
        rule(".git/modules/**/hooks", false, Content::Never),
        rule(".cargo/config.toml", true, Content::Never),
    ]);
    let root = |inside: &str, host: Option<&str>| Root {
        inside: inside.into(),
        host: host.map(|host| host.into()),
        write: true,
    };
    let roots =
        vec![root("/w", Some("/home/u/w")), root("/w/tmp", None), root("/link", Some("/home/u/r/.git"))];
    Guard::new(Wards { roots, names, paths: NameRules::default() })
}

/// A guard, and directories by their path inside; what isn't known is somebody else's.
struct World {
    guard: Guard,
    directories: BTreeMap<Vec<u8>, u64>,
    /// What git knows repositories by.
    marks: BTreeSet<Vec<u8>>,
}

struct Walked<'w>(&'w World, Vec<u8>);

impl Way for Walked<'_> {
    fn directory(&self, up: usize) -> Option<Identity> {
        let path = upwards(&self.1).nth(up)?;
        match self.0.directories.get(path) {
            Some(number) => Some(Identity::numbered(*number)),
            None => (up > 0).then(|| Identity::numbered(0)),
        }
    }

    fn open(&self, _up: usize) -> Result<OwnedFd, Errno> {
        Err(Errno::NOENT)
    }

    fn marks(&self, up: usize, _locks: &Locks) -> Option<Marks> {
        let directory = upwards(&self.1).nth(up).unwrap_or_default();
        let there = |mark: usize| [directory, b"/", MARKS[mark].as_bytes()].concat();
        Some(Marks::ask(|mark| self.0.marks.contains(&there(mark))))
    }
}

impl World {
    fn new() -> Self {
        Self { guard: guard(), directories: BTreeMap::new(), marks: BTreeSet::new() }
    }

    fn way(&self, path: &str) -> Walked<'_> {
        Walked(self, path.into())
    }

    fn refuses(&self, deed: Deed, path: &str) -> bool {
        self.refusal(deed, path).is_some()
    }

    fn refusal(&self, deed: Deed, path: &str) -> Option<Box<Refused>> {
        self.guard.check(deed, path.as_bytes(), &self.way(path), &Locks::default()).err()
    }

    /// Makes git take a directory for a repository.
    fn mark(&mut self, directory: &str, marks: &[&str]) {
        self.marks.extend(marks.iter().map(|mark| format!("{directory}/{mark}").into_bytes()));
    }

    fn make(&mut self, path: &str) {
        let number = self.directories.len() as u64 + 1;
        self.directories.insert(path.into(), number);
        self.guard.made_directory(path.as_bytes(), Some(Identity::numbered(number)));
    }

    /// A directory of somebody else's, whoever put it there.
    fn put(&mut self, path: &str) {
        let number = self.directories.len() as u64 + 1000;
        self.directories.insert(path.into(), number);
    }

    fn remove(&mut self, path: &str) {
        let was = self.way(path).directory(0);
        self.directories.remove(path.as_bytes());
        self.guard.removed_directory(path.as_bytes(), was);
    }

    fn rename(&mut self, from: &str, to: &str) {
        let was = self.way(from).directory(0);
        let moved = self.directories.iter().map(|(path, number)| match path.strip_prefix(from.as_bytes()) {
            Some(rest) if is_below(path, from.as_bytes()) => ([to.as_bytes(), rest].concat(), *number),
            _ => (path.clone(), *number),
        });
        self.directories = moved.collect();
        self.guard.moved_directory(from.as_bytes(), was);
    }
}

#[test]
fn names_are_judged_where_others_see_them() {
    let world = World::new();
    assert!(world.refuses(Deed::MakeFile, "/w/.git/hooks/pre-commit"));
    assert!(world.refuses(Deed::MakeFile, "/w/a/b/.git/hooks/pre-commit"));
    assert!(!world.refuses(Deed::MakeFile, "/w/tmp/.git/hooks/pre-commit"));
    assert!(!world.refuses(Deed::MakeFile, "/elsewhere/.git/hooks/pre-commit"));
    assert!(!world.refuses(Deed::MakeFile, "/wider/.git/hooks/pre-commit"));
    assert!(world.refuses(Deed::MakeFile, "/link/hooks/pre-commit"), "by the host's path");
    let refused = world.refusal(Deed::Change, "/link/config").unwrap();
    assert_eq!(refused.path, b"/home/u/r/.git/config");
    assert!(refused.content);
}

#[test]
fn sockets_of_others_are_granted_one_by_one() {
    let mut guard = guard();
    guard.wards.roots.push(Root { inside: b"/run/s".into(), host: Some(b"/run/s".into()), write: true });
    guard.wards.roots.push(Root { inside: b"/etc".into(), host: Some(b"/etc".into()), write: false });
    for (path, may) in
        [("/w/sock", false), ("/w/tmp/sock", true), ("/run/s", true), ("/etc/s", false), ("/tmp/s", true)]
    {
        assert_eq!(guard.may_connect(path.as_bytes()), may, "{path}");
    }
}

#[test]
fn what_holds_protected_names_stays_where_it_is() {
    let mut world = World::new();
    assert!(world.refuses(Deed::MoveFrom { directory: true }, "/w/.git"));
    assert!(world.refuses(Deed::MoveTo { directory: true }, "/w/.git"));
    assert!(world.refuses(Deed::MakeLink, "/w/.git"));
    assert!(world.refuses(Deed::MakeFile, "/w/.git"), "git follows such a file");
    assert!(world.refuses(Deed::MakeFile, "/w/.Git"), "and so it does where case doesn't count");
    world.make("/w/made");
    assert!(!world.refuses(Deed::MakeFile, "/w/made/.git"), "a worktree's or a submodule's");
    assert!(!world.refuses(Deed::MakeDirectory, "/w/.git"));
    assert!(!world.refuses(Deed::MoveFrom { directory: true }, "/w/project"));
}

#[test]
fn a_link_to_its_own_directory_leads_nowhere_else() {
    let world = World::new();
    assert!(world.guard.link_stays(b"/w/.git/modules/m/tXXXX", b"testing"));
    assert!(!world.guard.link_stays(b"/w/.git/modules/m/tXXXX", b"../../../x"));
    assert!(!world.guard.link_stays(b"/w/.git/modules/m/tXXXX", b".."));
    assert!(!world.guard.link_stays(b"/w/.git", b"other"));
    assert!(!world.guard.link_stays(b"/w/.git/modules/m/hooks", b"testing"));
}

#[test]
fn a_repository_made_inside_has_templates_and_no_hooks() {
    let mut world = World::new();
    world.make("/w/new");
    world.make("/w/new/.git");
    assert!(!world.refuses(Deed::MakeDirectory, "/w/new/.git/hooks"));
    world.make("/w/new/.git/hooks");
    assert!(!world.refuses(Deed::MakeDirectory, "/w/new/.vscode"));
    world.make("/w/new/.vscode");
    assert!(!world.refuses(Deed::MakeFile, "/w/new/.git/hooks/pre-commit.sample"));
    assert!(world.refuses(Deed::MakeFile, "/w/new/.git/hooks/pre-commit"));
    assert!(world.refuses(Deed::MoveTo { directory: false }, "/w/new/.git/hooks/pre-commit"));
    assert!(world.refuses(Deed::MakeLink, "/w/new/.git/hooks"));
    assert!(world.refuses(Deed::MoveTo { directory: true }, "/w/new/.git/hooks"));
    assert!(world.refuses(Deed::LinkFrom, "/w/new/.git/config"), "it could be written by its other name");
    assert!(!world.refuses(Deed::MakeFile, "/w/new/.vscode/tasks.json"), "a checkout writes it");
    assert!(world.refuses(Deed::MakeFile, "/w/.vscode/tasks.json"));
    world.make("/w/.cargo");
    assert!(world.refuses(Deed::MakeFile, "/w/.cargo/config.toml"), "the directory alone was made");
    world.make("/w/new/.cargo");
    assert!(!world.refuses(Deed::MakeFile, "/w/new/.cargo/config.toml"));
    assert!(world.refuses(Deed::MakeDirectory, "/w/new/.git/hooks/pre-commit"));
    assert!(!world.refuses(Deed::Remove, "/w/new/.git/config"));
}

#[test]
fn a_place_that_somebody_trusted_is_not_made_anew() {
    let mut world = World::new();
    world.rename("/w/trusted", "/w/old");
    assert!(world.guard.is_vacated(b"/w/trusted"));
    world.make("/w/trusted");
    assert!(world.refuses(Deed::MakeFile, "/w/trusted/.vscode/tasks.json"));
    world.remove("/w/other");
    world.make("/w/other");
    assert!(world.refuses(Deed::MakeFile, "/w/other/.vscode/tasks.json"));
}

#[test]
fn what_was_made_inside_moves_as_such() {
    let mut world = World::new();
    world.make("/w/a");
    world.rename("/w/a", "/w/b");
    assert!(!world.refuses(Deed::MakeDirectory, "/w/b/.vscode"));
    assert!(world.refuses(Deed::MakeDirectory, "/w/a/.vscode"));
    // Not made here, but moved to where something was.
    world.rename("/w/old", "/w/c");
    assert!(world.refuses(Deed::MakeDirectory, "/w/c/.vscode"));
    world.make("/w/p/q");
    world.rename("/w/p", "/w/r");
    assert!(!world.refuses(Deed::MakeDirectory, "/w/r/q/.vscode"));
    world.guard.exchanged_directory(b"/w/r");
    assert!(world.refuses(Deed::MakeDirectory, "/w/r/q/.vscode"));
}

#[test]
fn a_repository_made_inside_may_be_renamed_to_another_that_is_judged_alike() {
    let mut world = World::new();
    world.make("/w/x/.git");
    assert!(world.guard.may_move_holder(b"/w/x/.git", &world.way("/w/x/.git"), b"/w/y/.git"));
    assert!(!world.guard.may_move_holder(b"/w/.git", &world.way("/w/.git"), b"/w/y/.git"));
    assert!(!world.guard.may_move_holder(b"/w/x/.git", &world.way("/w/x/.git"), b"/w/y/plain"));
}

#[test]
fn made_is_what_was_made_and_not_what_lies_there_now() {
    let mut world = World::new();
    world.make("/w/m");
    world.put("/w/old");
    world.rename("/w/old", "/w/m/old");
    assert!(world.refuses(Deed::MakeFile, "/w/m/old/.vscode/x"), "somebody else's, moved in");
    world.make("/w/m/.vscode");
    assert!(!world.refuses(Deed::MakeFile, "/w/m/.vscode/x"));
    world.put("/w/m/.vscode");
    assert!(world.refuses(Deed::MakeFile, "/w/m/.vscode/x"), "put there by somebody else");
    world.put("/w/m");
    assert!(world.refuses(Deed::MakeFile, "/w/m/.vscode"), "in its place");
}

#[test]
fn a_copy_on_its_way_is_nobodys() {
    let mut world = World::new();
    world.make("/w/new");
    world.make("/w/new/.git");
    for path in ["/w/.git/.config.palisade-1", "/w/new/.git/.Config.palisade-77"] {
        for deed in [Deed::Change, Deed::Remove, Deed::Attributes, Deed::LinkFrom, Deed::MakeFile] {
            assert!(world.refuses(deed, path), "{deed:?} {path}");
        }
    }
}

#[test]
fn a_file_that_leads_git_has_no_other_name() {
    let world = World::new();
    assert!(world.refuses(Deed::LinkFrom, "/w/tree/.git"));
}

#[test]
fn a_repository_has_any_name() {
    let mut world = World::new();
    assert!(!world.refuses(Deed::MakeFile, "/w/x/hooks/update"));
    assert!(!world.refuses(Deed::MakeFile, "/w/x/config"));
    world.mark("/w/x", &["objects", "refs"]);
    assert!(world.refuses(Deed::MakeFile, "/w/x/hooks/update"));
    assert!(world.refuses(Deed::MoveTo { directory: true }, "/w/x/hooks"));
    assert!(world.refuses(Deed::MakeFile, "/w/x/modules/a/hooks/update"));
    assert!(!world.refuses(Deed::MakeFile, "/w/x/objects/hooks"));
    assert!(!world.refuses(Deed::MakeFile, "/w/x/y/hooks/update"));
    let refused = world.refusal(Deed::MoveTo { directory: false }, "/w/x/config").unwrap();
    assert_eq!((refused.path.as_slice(), refused.content), (b"/home/u/w/x/config".as_slice(), true));
    assert!(!world.refuses(Deed::MoveFrom { directory: true }, "/w/x"), "by another name it is one, too");
    world.mark("/w", &["HEAD", "commondir"]);
    assert!(world.refuses(Deed::MakeFile, "/w/config"), "the tree itself");
}

#[test]
fn a_repository_of_somebody_elses_stays_one() {
    let mut world = World::new();
    world.mark("/w/x", &["HEAD", "objects", "refs"]);
    assert!(world.refuses(Deed::Remove, "/w/x/refs"));
    assert!(world.refuses(Deed::MoveFrom { directory: true }, "/w/x/OBJECTS"));
    assert!(!world.refuses(Deed::MoveFrom { directory: false }, "/w/x/HEAD"), "it is one without");
    world.make("/w/made");
    world.mark("/w/made", &["objects", "refs"]);
    assert!(!world.refuses(Deed::Remove, "/w/made/refs"));
    assert!(!world.refuses(Deed::Remove, "/w/.git/refs"), "that name is enough");
}

#[test]
fn what_becomes_a_repository_is_looked_at() {
    let guard = guard();
    let check = |deed, path: &str| guard.check_in_new(deed, path.as_bytes(), b"/w/x");
    assert_eq!(check(Deed::MakeDirectory, "/w/x/hooks"), Ok(true));
    assert_eq!(check(Deed::MakeFile, "/w/x/hooks/update.sample"), Ok(true));
    assert!(check(Deed::MakeFile, "/w/x/hooks/update").is_err());
    assert!(check(Deed::MakeLink, "/w/x/hooks").is_err());
    assert!(check(Deed::MakeFile, "/w/x/config").is_err_and(|refused| refused.content));
    assert_eq!(check(Deed::MakeFile, "/w/x/HEAD"), Ok(false));
    assert_eq!(check(Deed::MakeDirectory, "/w/x/src"), Ok(false));
    assert_eq!(check(Deed::MakeDirectory, "/w/x/.git"), Ok(false), "that is judged by its name");
    assert_eq!(check(Deed::MakeFile, "/w/x/.git/config"), Ok(false));
    assert!(guard.unnamed_repository(b"/w/x").is_some());
    assert!(guard.unnamed_repository(b"/w/.git").is_none());
    assert!(guard.unnamed_repository(b"/w/tmp/x").is_none(), "nobody else sees it");
}
