// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests with genuine layouts as git writes them, and with layouts that a hostile project would write.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;

struct World {
    _dir: tempfile::TempDir,
    home: PathBuf,
    uid: u32,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap().join("home");
        fs::create_dir(&home).unwrap();
        Self { _dir: dir, home, uid: rustix::process::geteuid().as_raw() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.home.join(path)
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn repository(&self, path: &str) {
        fs::create_dir_all(self.path(path).join("objects")).unwrap();
        fs::create_dir_all(self.path(path).join("refs")).unwrap();
        self.write(&format!("{path}/HEAD"), "ref: refs/heads/main\n");
    }

    /// `main/.git` and its linked worktree `tree`.
    fn with_worktree() -> Self {
        let world = Self::new();
        world.repository("main/.git");
        let home = world.home.display();
        world.write("tree/.git", &format!("gitdir: {home}/main/.git/worktrees/tree\n"));
        world.write("main/.git/worktrees/tree/gitdir", &format!("{home}/tree/.git\n"));
        world.write("main/.git/worktrees/tree/commondir", "../..\n");
        world
    }

    fn find(&self, cwd: &str) -> Found {
        find(&self.path(cwd), &self.home, self.uid)
    }

    fn rejection(&self, cwd: &str) -> Rejection {
        match self.find(cwd) {
            Found::Rejected { reason, .. } => reason,
            other => panic!("{other:?}"),
        }
    }

    fn git(&self, cwd: &str) -> GitDirectory {
        match self.find(cwd) {
            Found::Repository(repository) => repository.git,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_ordinary_repository_from_a_subdirectory() {
    let world = World::new();
    world.repository("p/.git");
    fs::create_dir_all(world.path("p/a/b")).unwrap();
    let Found::Repository(repository) = world.find("p/a/b") else {
        panic!("not found");
    };
    assert_eq!(repository.root, world.path("p"));
    assert_eq!(repository.git, GitDirectory::Inside(world.path("p/.git")));
    assert_eq!(repository.git.outside(), None);
}

#[test]
fn none_at_home_nor_above() {
    let world = World::new();
    world.repository(".git");
    world.repository("../.git");
    fs::create_dir(world.path("p")).unwrap();
    assert_eq!(world.find("p"), Found::Nothing);
    assert_eq!(world.find(""), Found::Nothing);
    assert_eq!(world.find("missing"), Found::Nothing);
    assert_eq!(find(Path::new("/"), &world.home, world.uid), Found::Nothing);
}

#[test]
fn an_empty_git_directory_is_passed_by() {
    let world = World::new();
    world.repository("p/.git");
    fs::create_dir_all(world.path("p/sub/.git")).unwrap();
    assert_eq!(world.git("p/sub"), GitDirectory::Inside(world.path("p/.git")));
}

#[test]
fn a_genuine_worktree() {
    let world = World::with_worktree();
    let git = world.git("tree");
    assert_eq!(
        git,
        GitDirectory::Worktree {
            gitdir: world.path("main/.git/worktrees/tree"),
            common: world.path("main/.git"),
        }
    );
    assert_eq!(git.outside(), Some(world.path("main/.git").as_path()));
}

#[test]
fn a_worktree_with_relative_pointers_and_a_bare_repository() {
    let world = World::new();
    world.repository("bare.git");
    world.write("bare.git/worktrees/t/gitdir", "../../../tree/.git\n");
    world.write("bare.git/worktrees/t/commondir", "../..\n");
    world.write("tree/.git", "gitdir: ../bare.git/worktrees/t\n");
    assert!(matches!(world.git("tree"), GitDirectory::Worktree { common, .. }
        if common == world.path("bare.git")));
}

#[test]
fn a_genuine_submodule() {
    let world = World::new();
    world.repository("super/.git");
    world.repository("super/.git/modules/sub");
    world.write("super/.git/modules/sub/config", "[core]\n\tworktree = ../../../sub\n");
    world.write("super/sub/.git", "gitdir: ../.git/modules/sub\n");
    let gitdir = world.path("super/.git/modules/sub");
    assert_eq!(world.git("super/sub"), GitDirectory::Submodule { gitdir });
}

#[test]
fn a_git_file_that_names_a_place_inside_gets_nothing_outside() {
    let world = World::new();
    world.repository("p/.bare");
    world.write("p/.git", "gitdir: ./.bare\n");
    world.write("p/.bare/commondir", "../../.ssh\n");
    let git = world.git("p");
    assert_eq!(git, GitDirectory::Inside(world.path("p/.bare")));
    assert_eq!(git.outside(), None);
}

#[test]
fn hostile_git_file_naming_secrets() {
    let world = World::new();
    world.write(".ssh/id", "secret");
    for text in ["gitdir: ../.ssh\n", "gitdir: ../.ssh", "gitdir: x/../../.ssh\n"] {
        fs::create_dir_all(world.path("evil/x")).unwrap();
        world.write("evil/.git", text);
        let path = world.path(".ssh");
        assert_eq!(world.rejection("evil"), Rejection::NotRepository { path });
    }
    world.write("evil/.git", "gitdir: ../../home\n");
    let path = world.home.clone();
    assert_eq!(world.rejection("evil"), Rejection::Home { path });
    world.write("evil/.git", "gitdir: /\n");
    assert_eq!(world.rejection("evil"), Rejection::Home { path: "/".into() });
    world.write("evil/.git", "gitdir: ../nowhere\n");
    assert!(matches!(world.rejection("evil"), Rejection::Missing { .. }));
}

#[test]
fn hostile_git_file_naming_another_repository() {
    let world = World::with_worktree();
    // A repository that doesn't refer to us …
    world.write("evil/.git", "gitdir: ../main/.git\n");
    let path = world.path("main/.git");
    assert_eq!(world.rejection("evil"), Rejection::NotMutual { path });
    // … the worktree data of another tree …
    world.write("evil/.git", "gitdir: ../main/.git/worktrees/tree\n");
    let path = world.path("main/.git/worktrees/tree");
    assert_eq!(world.rejection("evil"), Rejection::NotMutual { path });
    // … and the submodule of another repository.
    world.repository("main/.git/modules/sub");
    world.write("main/.git/modules/sub/config", "[core]\nworktree = ../../../sub\n");
    world.write("evil/.git", "gitdir: ../main/.git/modules/sub\n");
    let path = world.path("main/.git/modules/sub");
    assert_eq!(world.rejection("evil"), Rejection::NotMutual { path });
}

#[test]
fn hostile_link_through_the_project() {
    let world = World::new();
    world.write(".ssh/id", "secret");
    fs::create_dir_all(world.path("evil")).unwrap();
    symlink(world.path(".ssh"), world.path("evil/data")).unwrap();
    world.write("evil/.git", "gitdir: data\n");
    let path = world.path(".ssh");
    assert_eq!(world.rejection("evil"), Rejection::NotRepository { path });
    fs::remove_file(world.path("evil/.git")).unwrap();
    symlink(world.path(".ssh"), world.path("evil/.git")).unwrap();
    assert_eq!(world.rejection("evil"), Rejection::Kind);
}

#[test]
fn hostile_commondir_leading_elsewhere() {
    let world = World::with_worktree();
    world.repository("other.git");
    world.write("main/.git/worktrees/tree/commondir", "../../../../other.git\n");
    let path = world.path("main/.git/worktrees/tree");
    assert_eq!(world.rejection("tree"), Rejection::NotRepository { path });
}

#[test]
fn hostile_shapes_of_the_git_file() {
    let world = World::new();
    for text in ["", "gitdir:", "gitdir: \n", "nonsense", "gitdir: a\nb\n", "gitdir: a\0b"] {
        world.write("evil/.git", text);
        assert_eq!(world.rejection("evil"), Rejection::Unreadable, "{text:?}");
    }
    world.write("evil/.git", &format!("gitdir: {}", "x/".repeat(POINTER_CAP)));
    assert_eq!(world.rejection("evil"), Rejection::Unreadable);
}

#[test]
fn somebody_elses_repository() {
    let world = World::with_worktree();
    let found = find(&world.path("tree"), &world.home, world.uid + 1);
    assert!(matches!(found, Found::Rejected { reason: Rejection::Owner { .. }, .. }));
}
