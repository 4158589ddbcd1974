// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests with changes that git itself makes, with the git of this machine.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::*;

/// A home with repositories in it.
struct World {
    _directory: tempfile::TempDir,
    top: PathBuf,
}

impl World {
    /// `None` if the test environment says that the machine has no git.
    fn new() -> Option<Self> {
        let has = std::env::var("PALISADE_TEST_HAS").ok();
        if has.is_some_and(|has| !has.split(',').any(|feature| feature.trim() == "git")) {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let world = Self { top: directory.path().canonicalize().unwrap(), _directory: directory };
        world.git("", "init -q -b main up");
        world.git("up", "commit -q --allow-empty -m one");
        world.git("up", "branch topic");
        world.git("", "init -q --bare bare.git");
        Some(world)
    }

    fn git(&self, cwd: &str, arguments: &str) {
        let output = Command::new("git")
            .args(["-c", "protocol.file.allow=always", "-c", "advice.detachedHead=false"])
            .args(arguments.split(' ').map(|argument| argument.replace("$TOP", self.top.to_str().unwrap())))
            .current_dir(self.top.join(cwd))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", &self.top)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"].map(|name| (name, "Ann")))
            .envs(["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"].map(|name| (name, "ann@example.org")))
            .env("GIT_EDITOR", "sh -c 'echo described > \"$0\"'")
            .output()
            .unwrap();
        assert!(output.status.success(), "git {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(self.top.join(path)).ok()
    }

    /// Lets git change the configuration of a working tree's repository; returns the judgement.
    fn change(&self, tree: &str, arguments: &str) -> Result<(), Refusal> {
        let old = self.read(&format!("{tree}/.git/config"));
        self.git(tree, arguments);
        self.judge(old.as_deref(), tree, ".git")
    }

    /// Judges the new content of a configuration file. Git writes line by line: each intermediate step must pass as
    /// well, which [`Baseline`] ensures.
    fn judge(&self, old: Option<&[u8]>, tree: &str, git: &str) -> Result<(), Refusal> {
        let work_tree_top = self.top.join(tree);
        let place = Place { git_directory: &work_tree_top.join(git), work_tree_top: &work_tree_top };
        let new = self.read(&format!("{tree}/{git}/config")).unwrap();
        if old.is_none() {
            let mut baseline = Baseline::new(None);
            let mut last: Option<Vec<u8>> = None;
            for line in new.split_inclusive(|byte| *byte == b'\n') {
                let next = [last.as_deref().unwrap_or_default(), line].concat();
                baseline.judge(last.as_deref(), &next, &place)?;
                last = Some(next);
            }
        }
        judge(old, &new, &place)
    }
}

#[test]
fn repositories_made_inside() {
    let Some(world) = World::new() else { return };
    for arguments in [
        "init -q new",
        "init -q --object-format=sha256 new",
        "clone -q up new",
        "clone -q $TOP/up new",
        "clone -q -b topic file://$TOP/up new",
        "clone -q --depth 1 --no-tags file://$TOP/up new",
        "clone -q --filter=blob:none --no-checkout file://$TOP/up new",
        "clone -q -o other --single-branch up new",
        "-c url.$TOP/up.insteadOf=https://example.org/up clone -q https://example.org/up new",
    ] {
        world.git("", arguments);
        assert_eq!(world.judge(None, "new", ".git"), Ok(()), "{arguments}");
        fs::remove_dir_all(world.top.join("new")).unwrap();
    }
    // A setting that is given with the command is judged like any other.
    world.git("", "clone -q -c core.hooksPath=x up new");
    assert_eq!(world.judge(None, "new", ".git").unwrap_err().key, "core.hookspath");
}

#[test]
fn every_days_changes() {
    let Some(world) = World::new() else { return };
    world.git("", "clone -q up w");
    world.git("w", "remote add bare $TOP/bare.git");
    for arguments in [
        "checkout -q -b x origin/topic",
        "branch y x",
        "branch --set-upstream-to=origin/topic y",
        "branch --unset-upstream y",
        "branch -m y z",
        "branch -q -D z",
        "checkout -q --no-track -b pushed origin/topic",
        "push -q -u bare pushed",
        "branch --edit-description x",
        "branch -c x copy",
        "remote add fork https://example.org/fork",
        "remote add -t main --no-tags ssh git@example.org:ann/x",
        "remote set-branches --add origin topic",
        "worktree add -q -b elsewhere ../linked origin/topic",
        "config user.name Ann",
        "config user.email ann@example.org",
        "config pull.rebase true",
        "config core.autocrlf input",
        "gc -q",
        "init -q",
        "fetch -q --prune origin",
    ] {
        assert_eq!(world.change("w", arguments), Ok(()), "{arguments}");
    }
}

#[test]
fn changes_that_lead_elsewhere() {
    let Some(world) = World::new() else { return };
    for (arguments, key) in [
        ("remote add near ../bare.git", "remote.near.url"),
        ("remote set-url origin https://example.org/x", "remote.origin.url"),
        ("remote set-url --push origin https://example.org/x", "remote.origin.pushurl"),
        ("remote set-url --add origin https://example.org/x", "remote.origin.url"),
        ("remote rename origin upstream", "remote.origin.url"),
        ("remote remove origin", "remote.origin.url"),
        ("branch -q --set-upstream-to=bare/main main", "branch.main.remote"),
        ("push -q -u $TOP/bare.git main", "branch.main.remote"),
        ("config core.hooksPath x", "core.hookspath"),
        ("config --add filter.lfs.process x", "filter.lfs.process"),
        ("config --unset core.sshCommand", "core.sshcommand"),
    ] {
        world.git("", "clone -q up w");
        world.git("w", "config core.sshCommand true");
        world.git("w", "config core.untrackedCache true");
        world.git("w", "remote add bare $TOP/bare.git");
        world.git("w", "push -q bare main");
        // A rename first writes the new values, in another section.
        let refusal = world.change("w", arguments).expect_err(arguments);
        let renamed = arguments.starts_with("remote rename");
        assert!(
            refusal.key == key || (renamed && refusal.key.starts_with("branch.main")),
            "{arguments}: {refusal}"
        );
        fs::remove_dir_all(world.top.join("w")).unwrap();
    }
}

#[test]
fn submodules() {
    let Some(world) = World::new() else { return };
    world.git("", "clone -q up w");
    let old = world.read("w/.git/config");
    world.git(
        "w",
        "-c url.$TOP/up.insteadOf=https://example.org/up submodule --quiet add https://example.org/up libs/a",
    );
    assert_eq!(world.judge(old.as_deref(), "w", ".git"), Ok(()));
    assert_eq!(world.judge(None, "w", ".git/modules/libs/a"), Ok(()));
    assert_eq!(world.change("w", "submodule --quiet deinit -f libs/a"), Ok(()));
    assert_eq!(
        world.change("w", "-c url.$TOP/up.insteadOf=https://example.org/up submodule --quiet update --init"),
        Ok(())
    );

    let old = world.read("w/.git/config");
    world.git("w", "submodule --quiet add $TOP/up near");
    let refusal = world.judge(old.as_deref(), "w", ".git").unwrap_err();
    assert_eq!(refusal.key, "submodule.near.url");
    assert_eq!(world.judge(None, "w", ".git/modules/near"), Ok(()));
}

#[test]
fn sparse_checkouts() {
    let Some(world) = World::new() else { return };
    world.git("", "clone -q up w");
    assert_eq!(world.change("w", "sparse-checkout set a"), Ok(()));
}

/// As `git lfs install --local` writes it; the filter is a program that git runs.
#[test]
fn large_file_storage() {
    let Some(world) = World::new() else { return };
    world.git("", "clone -q up w");
    assert_eq!(world.change("w", "config lfs.repositoryformatversion 0"), Ok(()));
    assert_eq!(world.change("w", "config lfs.https://example.org/up.git/info/lfs.access basic"), Ok(()));
    let refusal = world.change("w", "config filter.lfs.smudge git-lfs").unwrap_err();
    assert_eq!(refusal.key, "filter.lfs.smudge");
}
