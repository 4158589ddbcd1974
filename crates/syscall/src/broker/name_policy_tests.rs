// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use palisade_policy::names::repository::MARKS;
use palisade_policy::{Layer, Origin};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

const REMOVE: Operation = Operation::Remove { directory: false };

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

fn name_policy() -> NamePolicy {
    let names = NameRules::new(vec![
        rule(".git/hooks", false, Content::Never),
        rule(".git/config", false, Content::GitConfig),
        rule(".vscode", true, Content::Never),
        rule(".git/modules/**/hooks", false, Content::Never),
        rule(".cargo/config.toml", true, Content::Never),
        rule(".git/worktrees/*/commondir", false, Content::WithDirectory),
        NameRule {
            except_below: vec!["node_modules".into(), ".cargo/registry".into()],
            ..rule(".idea", true, Content::Never)
        },
    ]);
    let root = |inside: &str, host: Option<&str>| Root {
        inside: inside.into(),
        host: host.map(|host| host.into()),
        write: true,
        above: false,
    };
    let roots =
        vec![root("/w", Some("/home/u/w")), root("/w/tmp", None), root("/link", Some("/home/u/r/.git"))];
    NamePolicy::new(ProtectedPaths { roots, names, paths: NameRules::default(), pinned: Vec::new() })
}

/// A name policy, and the files that it can look up, by their paths inside.
struct World {
    name_policy: NamePolicy,
    /// Directories that were made after the launch began.
    fresh: BTreeSet<Vec<u8>>,
    /// The names by which git recognises repositories.
    marks: BTreeSet<Vec<u8>>,
}

struct Walked<'w>(&'w World, Vec<u8>);

impl Walked<'_> {
    fn above(&self, up: usize) -> &[u8] {
        (0..up).fold(self.1.as_slice(), |path, _up| parent(path))
    }
}

impl Way for Walked<'_> {
    fn open(&self, _up: usize) -> Result<OwnedFd, Errno> {
        Err(Errno::NOENT)
    }

    fn marks(&self, up: usize, _locks: &Locks) -> Option<Marks> {
        let there = |mark: usize| [self.above(up), b"/", MARKS[mark].as_bytes()].concat();
        Some(Marks::ask(|mark| self.0.marks.contains(&there(mark))))
    }

    fn is_fresh(&self, _start: Moment) -> bool {
        self.0.fresh.contains(self.above(1))
    }
}

impl World {
    fn new() -> Self {
        Self { name_policy: name_policy(), fresh: BTreeSet::new(), marks: BTreeSet::new() }
    }

    fn way(&self, path: &str) -> Walked<'_> {
        Walked(self, path.into())
    }

    fn refuses(&self, operation: Operation, path: &str) -> bool {
        self.refusal(operation, path).is_some()
    }

    fn refusal(&self, operation: Operation, path: &str) -> Option<Box<Refused>> {
        self.name_policy.check(operation, path.as_bytes(), &self.way(path), &Locks::default()).err()
    }

    /// Adds the names by which git treats a directory as a repository.
    fn mark(&mut self, directory: &str, marks: &[&str]) {
        self.marks.extend(marks.iter().map(|mark| format!("{directory}/{mark}").into_bytes()));
    }

    fn make(&mut self, path: &str) {
        self.fresh.insert(path.into());
    }
}

#[test]
fn names_are_judged_where_others_see_them() {
    let world = World::new();
    assert!(world.refuses(Operation::MakeFile, "/w/.git/hooks/pre-commit"));
    assert!(world.refuses(Operation::MakeFile, "/w/a/b/.git/hooks/pre-commit"));
    assert!(!world.refuses(Operation::MakeFile, "/w/tmp/.git/hooks/pre-commit"));
    assert!(!world.refuses(Operation::MakeFile, "/elsewhere/.git/hooks/pre-commit"));
    assert!(!world.refuses(Operation::MakeFile, "/wider/.git/hooks/pre-commit"));
    assert!(world.refuses(Operation::MakeFile, "/link/hooks/pre-commit"), "by the host's path");
    let refused = world.refusal(Operation::Change, "/link/config").unwrap();
    assert_eq!(refused.path, b"/home/u/r/.git/config");
    assert!(refused.content);
}

#[test]
fn sockets_of_others_are_granted_one_by_one() {
    let mut name_policy = name_policy();
    name_policy.protected_paths.roots.push(Root {
        inside: b"/run/s".into(),
        host: Some(b"/run/s".into()),
        write: true,
        above: false,
    });
    name_policy.protected_paths.roots.push(Root {
        inside: b"/etc".into(),
        host: Some(b"/etc".into()),
        write: false,
        above: false,
    });
    for (path, may) in
        [("/w/sock", false), ("/w/tmp/sock", true), ("/run/s", true), ("/etc/s", false), ("/tmp/s", true)]
    {
        assert_eq!(name_policy.may_connect(path.as_bytes()), may, "{path}");
    }
}

#[test]
fn what_holds_protected_names_stays_where_it_is() {
    let mut world = World::new();
    assert!(world.refuses(Operation::MoveTo { directory: true }, "/w/.git"));
    assert!(world.refuses(Operation::MakeLink, "/w/.git"));
    assert!(world.refuses(Operation::MakeFile, "/w/.git"), "git follows such a file");
    assert!(world.refuses(Operation::MakeFile, "/w/.Git"), "and so it does where case doesn't count");
    world.make("/w/made");
    let path = "/w/made/.git";
    assert!(!world.refuses(Operation::MakeFile, path), "a worktree's or a submodule's");
    assert!(!world.refuses(Operation::Change, path));
    assert!(world.refuses(Operation::LinkTo, path));
    assert!(world.refuses(Operation::LinkFrom, path), "it could be written by its other name");
    assert!(world.refuses(Operation::MoveTo { directory: false }, path));
    assert!(world.refuses(Operation::MoveTo { directory: true }, path));
    assert!(!world.refuses(Operation::MakeDirectory, "/w/.git"));
    assert!(!world.refuses(Operation::MoveFrom { directory: true }, "/w/project"));
}

#[test]
fn git_may_try_whether_there_are_links() {
    let world = World::new();
    let stays = |link: &str, target: &str| world.name_policy.link_stays(link.as_bytes(), target.as_bytes());
    assert!(stays("/w/.git/modules/m/tXXXXXX", "testing"));
    assert!(!stays("/w/.git/modules/m/tXXXXXX", "../../../x"));
    assert!(!stays("/w/.git/modules/m/info", "testing"), "attributes could be written there");
    assert!(!stays("/w/.git/modules/m/testing", "testing"));
    assert!(!stays("/w/.git", ".git"));
    assert!(!stays("/w/tXXXXXX", "testing"), "that is an ordinary one");
}

#[test]
fn a_repository_made_inside_has_templates_and_no_hooks() {
    let mut world = World::new();
    world.make("/w/new/.git");
    world.make("/w/new/.git/hooks");
    assert!(!world.refuses(Operation::MakeDirectory, "/w/new/.git/hooks"));
    assert!(!world.refuses(Operation::MakeFile, "/w/new/.git/hooks/pre-commit.sample"));
    assert!(!world.refuses(Operation::Attributes, "/w/new/.git/hooks/pre-commit.sample"));
    for operation in [
        Operation::MakeFile,
        Operation::Change,
        Operation::MoveTo { directory: false },
        Operation::LinkTo,
        Operation::MakeLink,
    ] {
        assert!(world.refuses(operation, "/w/new/.git/hooks/pre-commit"), "{operation:?}");
    }
    assert!(world.refuses(Operation::MakeLink, "/w/new/.git/hooks/a.sample"), "its target could be written");
    assert!(world.refuses(Operation::MakeDirectory, "/w/new/.git/hooks/a.sample"));
    assert!(world.refuses(Operation::MakeLink, "/w/new/.git/hooks"));
    assert!(world.refuses(Operation::MoveTo { directory: true }, "/w/new/.git/hooks"));
    assert!(world.refuses(Operation::MakeDirectory, "/w/new/.git/hooks/pre-commit"));
    assert!(
        world.refuses(Operation::LinkFrom, "/w/new/.git/config"),
        "it could be written by its other name"
    );
    assert!(!world.refuses(REMOVE, "/w/new/.git/config"), "what was made is removed again");
    assert!(world.refuses(REMOVE, "/w/.git/config"));
    assert!(!world.refuses(REMOVE, "/w/.git/hooks/pre-commit.sample"));
    assert!(world.refuses(REMOVE, "/w/.git/hooks/pre-commit"));
    assert!(world.refuses(REMOVE, "/w/new/.git/hooks/pre-commit"), "it can't have been made here");
    assert!(world.refuses(Operation::Attributes, "/w/new/.git/hooks/pre-commit"));
    assert!(!world.refuses(Operation::Attributes, "/w/new/.git/hooks"));
    assert!(!world.refuses(Operation::Remove { directory: true }, "/w/new/.git/hooks"));
}

#[test]
fn what_is_obeyed_is_nowhere_made() {
    let mut world = World::new();
    world.make("/w/new");
    world.make("/w/new/.vscode");
    world.make("/w/new/.cargo");
    for path in ["/w/new/.vscode", "/w/new/.vscode/tasks.json", "/w/new/.cargo/config.toml", "/w/.vscode"] {
        for operation in [
            Operation::MakeFile,
            Operation::Change,
            Operation::MakeDirectory,
            Operation::MakeLink,
            Operation::LinkTo,
            Operation::LinkFrom,
            Operation::MoveTo { directory: false },
            Operation::MoveTo { directory: true },
        ] {
            assert!(
                world.refusal(operation, path).is_some_and(|refused| refused.carried),
                "{operation:?} {path}"
            );
        }
    }
    assert!(!world.refuses(Operation::Remove { directory: true }, "/w/new/.vscode"));
    assert!(world.refuses(REMOVE, "/w/new/.vscode/tasks.json"), "somebody else has put it there");
    assert!(!world.refusal(Operation::MakeFile, "/w/.git/hooks/x").unwrap().carried);
}

#[test]
fn names_that_lead_a_worktree_are_made_with_it() {
    let mut world = World::new();
    assert!(world.refuses(Operation::MakeFile, "/w/.git/worktrees/w/commondir"));
    world.make("/w/.git/worktrees/w");
    assert!(!world.refuses(Operation::MakeFile, "/w/.git/worktrees/w/commondir"));
    assert!(world.refuses(Operation::MakeLink, "/w/.git/worktrees/w/commondir"));
    assert!(!world.refuses(Operation::MoveTo { directory: false }, "/w/.git/worktrees/w/commondir"));
    assert!(world.refuses(Operation::MoveTo { directory: true }, "/w/.git/worktrees/w/commondir"));
}

#[test]
fn directories_stay_on_their_side_of_the_border() {
    let name_policy = World::new().name_policy;
    let stays = |one: &str, other: &str| {
        assert_eq!(
            name_policy.border_between(one.as_bytes(), other.as_bytes()).is_some(),
            name_policy.border_between(other.as_bytes(), one.as_bytes()).is_some()
        );
        name_policy.border_between(one.as_bytes(), other.as_bytes()).is_none()
    };
    assert!(stays("/w/node_modules/a", "/w/node_modules/.a-x"));
    assert!(stays("/w/node_modules", "/w/p/node_modules"));
    assert!(stays("/w/a", "/w/b"));
    assert!(stays("/w/.cargo/other/a", "/w/b"));
    assert!(!stays("/w/node_modules/a", "/w/b"));
    assert!(!stays("/w/node_modules", "/w/old"));
    assert!(!stays("/w/.cargo/registry/src/a", "/w/b"));
    let leads = |link: &str, to: &str| name_policy.leads_where_judged(link.as_bytes(), to.as_bytes()).is_ok();
    assert!(leads("/w/node_modules/l", "/w/packages/l"));
    assert!(leads("/w/p/node_modules", "/w/node_modules"));
    assert!(leads("/w/l", "/usr/lib/node_modules/npm"), "nothing is written there");
    assert!(!leads("/w/src", "/w/node_modules/evil"));
    assert!(!leads("/w/src", "/w/node_modules"));
}

#[test]
fn a_copy_on_its_way_is_nobodys() {
    let mut world = World::new();
    world.make("/w/new");
    world.make("/w/new/.git");
    for path in ["/w/.git/.config.palisade-1", "/w/new/.git/.Config.palisade-77"] {
        for operation in
            [Operation::Change, REMOVE, Operation::Attributes, Operation::LinkFrom, Operation::MakeFile]
        {
            assert!(world.refuses(operation, path), "{operation:?} {path}");
        }
    }
}

#[test]
fn a_file_that_leads_git_has_no_other_name() {
    let world = World::new();
    assert!(world.refuses(Operation::LinkFrom, "/w/tree/.git"));
}

#[test]
fn a_repository_has_any_name() {
    let mut world = World::new();
    assert!(!world.refuses(Operation::MakeFile, "/w/x/hooks/update"));
    assert!(!world.refuses(Operation::MakeFile, "/w/x/config"));
    world.mark("/w/x", &["objects", "refs"]);
    assert!(world.refuses(Operation::MakeFile, "/w/x/hooks/update"));
    assert!(world.refuses(Operation::MoveTo { directory: true }, "/w/x/hooks"));
    assert!(world.refuses(Operation::MakeFile, "/w/x/modules/a/hooks/update"));
    assert!(!world.refuses(Operation::MakeFile, "/w/x/objects/hooks"));
    assert!(!world.refuses(Operation::MakeFile, "/w/x/y/hooks/update"));
    let refused = world.refusal(Operation::MoveTo { directory: false }, "/w/x/config").unwrap();
    assert_eq!((refused.path.as_slice(), refused.content), (b"/home/u/w/x/config".as_slice(), true));
    assert!(
        !world.refuses(Operation::MoveFrom { directory: true }, "/w/x"),
        "by another name it is one, too"
    );
    world.mark("/w", &["HEAD", "commondir"]);
    assert!(world.refuses(Operation::MakeFile, "/w/config"), "the tree itself");
}

#[test]
fn a_repository_of_somebody_elses_stays_one() {
    let mut world = World::new();
    world.mark("/w/x", &["HEAD", "objects", "refs"]);
    assert!(world.refuses(REMOVE, "/w/x/refs"));
    assert!(world.refuses(Operation::MoveFrom { directory: true }, "/w/x/OBJECTS"));
    assert!(!world.refuses(Operation::MoveFrom { directory: false }, "/w/x/HEAD"), "it is one without");
    world.make("/w/made");
    world.mark("/w/made", &["objects", "refs"]);
    assert!(!world.refuses(REMOVE, "/w/made/refs"));
    assert!(!world.refuses(REMOVE, "/w/.git/refs"), "that name is enough");
}

#[test]
fn what_becomes_a_repository_is_looked_at() {
    let name_policy = name_policy();
    let check = |operation, path: &str| name_policy.check_in_new(operation, path.as_bytes(), b"/w/x");
    assert_eq!(check(Operation::MakeDirectory, "/w/x/hooks"), Ok(true));
    assert_eq!(check(Operation::MakeFile, "/w/x/hooks/update.sample"), Ok(true));
    assert!(check(Operation::MakeFile, "/w/x/hooks/update").is_err());
    assert!(check(Operation::MakeLink, "/w/x/hooks").is_err());
    assert!(check(Operation::MakeFile, "/w/x/config").is_err_and(|refused| refused.content));
    assert_eq!(check(Operation::MakeFile, "/w/x/HEAD"), Ok(false));
    assert_eq!(check(Operation::MakeDirectory, "/w/x/src"), Ok(false));
    assert_eq!(check(Operation::MakeDirectory, "/w/x/.git"), Ok(false), "that is judged by its name");
    assert_eq!(check(Operation::MakeFile, "/w/x/.git/config"), Ok(false));
    assert!(name_policy.unnamed_repository(b"/w/x").is_some());
    assert!(name_policy.unnamed_repository(b"/w/.git").is_none());
    assert!(name_policy.unnamed_repository(b"/w/tmp/x").is_none(), "nobody else sees it");
}
