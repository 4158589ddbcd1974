// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the documentation's examples unchanged: the `console` blocks of the README, of
//! `docs/policy.md` and of `docs/examples`. Also checks that its example policies are valid.
//!
//! The binary is `PALISADE_BIN`, else the one that cargo has built. `TRYCMD=overwrite` writes the
//! output into the documents; a person must read it before it is committed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

use palisade_acceptance::case::data_directory;
use palisade_acceptance::feature::Features;
use palisade_policy::Layer;
use std::path::{Path, PathBuf};

#[test]
fn the_examples_do_what_they_say() {
    let features = Features::find(&data_directory()).unwrap_or_else(|error| panic!("{error}"));
    for feature in ["userns", "python3"] {
        if !features.has(feature) {
            eprintln!("not tried: no {feature} here");
            return;
        }
    }
    let binary =
        std::env::var_os("PALISADE_BIN").map_or_else(|| env!("CARGO_BIN_EXE_palisade").into(), PathBuf::from);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let state = tempfile::tempdir().expect("there is room for a directory");
    let tests = trycmd::TestCases::new();
    tests.register_bin("palisade", binary);
    // The messages of coreutils as in the documents, and without the configuration of the user that runs the tests.
    tests.env("LC_ALL", "C");
    tests.env("XDG_CONFIG_HOME", "/nonexistent");
    // Refusals are recorded there.
    tests.env("XDG_STATE_HOME", state.path().to_str().expect("a temporary path is text"));
    let data = tempfile::tempdir().expect("there is room for a directory");
    // Homes of applications are there.
    tests.env("XDG_DATA_HOME", data.path().to_str().expect("a temporary path is text"));
    for documents in ["README.md", "docs/policy.md", "docs/profiles.md", "docs/examples/*.md"] {
        tests.case(root.join(documents));
    }
    tests.run();
}

/// Each command of the cookbook and the README has a plan, in a directory below the top of a repository.
#[test]
fn the_cookbooks_commands_can_be_planned() {
    if !crate::support::has("git") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text =
        ["docs/cookbook.md", "README.md"].map(|page| std::fs::read_to_string(root.join(page)).unwrap());
    let text = text.concat();
    let place = crate::support::ordinary();
    place.outside("git init -q ~/work; mkdir -p ~/work/deep ~/data");
    place.write("work/deep/build.toml", "schema = 1\n");
    let mut planned = 0;
    for line in text.lines().filter_map(|line| line.strip_prefix("palisade run ")) {
        // What is piped on is no part of the launch.
        let line = line.split(['|', '#']).next().unwrap_or_default();
        let plan = format!("cd ~/work/deep && '{}' run --dry-run {line}", place.binary().display());
        let run = crate::support::job::finish(place.command("/bin/sh").args(["-c", &plan]));
        assert!(run.code == 0 && run.out.contains("command: "), "palisade run {line}: {run:?}");
        planned += 1;
    }
    assert!(planned > 45, "{planned} commands found");
}

#[test]
fn the_policies_are_policies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut seen = 0;
    for document in ["docs/policy.md", "docs/profiles.md"] {
        let text = std::fs::read_to_string(root.join(document)).unwrap();
        for block in text.split("```toml\n").skip(1) {
            let policy = block.split("```").next().unwrap_or_default();
            // Most show one section only.
            let schema = if policy.contains("schema = 1") { "" } else { "schema = 1\n" };
            let policy = format!("{schema}{policy}");
            if let Err(errors) = palisade_policy::parse(&policy, None, Layer::Administrator) {
                panic!("{policy}\n{}", errors[0].render(false));
            }
            seen += 1;
        }
    }
    assert!(seen > 8, "{seen} policies found");
}
