// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table "To add something" in ARCHITECTURE.md holds: `tests/extending` has a patch for each of its kinds, which is
//! applied, built and tried. The long run does that.
#![expect(clippy::unwrap_used, reason = "a test may die of what the repository should have")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// One patch. Lines before the diff say what it adds and how to see that.
struct Example {
    name: String,
    path: PathBuf,
    /// What it adds, as ARCHITECTURE.md names it.
    adds: String,
    /// Shell command lines. Each succeeds only with the patch.
    tries: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn examples() -> Vec<Example> {
    let directory = root().join("tests/extending");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let head = text.split("\ndiff --git ").next().unwrap();
        let lines = |key: &str| -> Vec<String> {
            head.lines().filter_map(|line| line.strip_prefix(key)).map(str::to_owned).collect()
        };
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let adds = lines("To add: ").pop().unwrap_or_else(|| panic!("{name} doesn't say what it adds"));
        let tries = lines("Try: ");
        assert!(!tries.is_empty(), "{name} has no line `Try:`");
        Example { name, path, adds, tries }
    };
    paths.into_iter().map(read).collect()
}

/// Runs a program in `directory` and returns whether it succeeds, and what it prints.
fn run(directory: &Path, command: &mut Command) -> (bool, String) {
    let output = command.current_dir(directory).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn git(directory: &Path, arguments: &[&str]) {
    let (good, said) = run(directory, Command::new("git").args(arguments));
    assert!(good, "git {arguments:?}: {said}");
}

/// Every kind that the table lists first has an example, by the words in bold.
#[test]
fn each_kind_has_an_example() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let examples = examples();
    for kind in [
        "run option",
        "protected name",
        "seccomp rule",
        "event kind",
        "profile",
        "shell rule",
        "bench row",
        "verb",
    ] {
        assert!(
            page.contains(&format!("| a **{kind}**")) || page.contains(&format!("| an **{kind}**")),
            "{kind}"
        );
        let of_kind = examples.iter().filter(|example| example.adds.contains(kind)).count();
        assert_eq!(of_kind, 1, "examples of {kind}");
    }
}

#[test]
fn each_example_applies_and_works() {
    let examples = examples();
    let scratch = scratch();
    let tree = scratch.join("tree");
    // The files as they are now, with what isn't committed.
    git(&root(), &["clone", "--quiet", "--shared", ".", tree.to_str().unwrap()]);
    let (_good, changed) = run(&root(), Command::new("git").args(["diff", "HEAD", "--binary"]));
    if !changed.is_empty() {
        let patch = scratch.join("uncommitted");
        std::fs::write(&patch, changed).unwrap();
        git(&tree, &["apply", patch.to_str().unwrap()]);
    }
    let target = root().join("target/extending");
    let attempt = |line: &str, program: &Path| {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).env("PALISADE", program).env("CARGO_TARGET_DIR", &target);
        run(&tree, shell.env_remove("PALISADE_BIN").env_remove("RUSTC_WORKSPACE_WRAPPER"))
    };
    let unpatched = palisade_acceptance::tool::find_palisade().unwrap();
    for Example { name, tries, .. } in &examples {
        // A line of cargo's is no control: cargo succeeds if it finds no test of that name.
        for line in tries.iter().filter(|line| line.contains("$PALISADE")) {
            let (works, said) = attempt(line, &unpatched);
            assert!(!works, "{name}: `{line}` succeeds without the patch: {said}");
        }
    }
    for Example { path, .. } in &examples {
        git(&tree, &["apply", "--check", path.to_str().unwrap()]);
    }
    for Example { path, .. } in &examples {
        git(&tree, &["apply", path.to_str().unwrap()]);
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "-p", "palisade-cli", "-p", "palisade-bench"]);
    cargo.env("CARGO_TARGET_DIR", &target).env_remove("RUSTC_WORKSPACE_WRAPPER");
    let (good, said) = run(&tree, &mut cargo);
    assert!(good, "the examples don't build: {said}");
    let built = target.join("debug/palisade");
    for Example { name, adds, tries, .. } in &examples {
        for line in tries {
            let (works, said) = attempt(line, &built);
            assert!(works, "{name} adds a {adds}, and `{line}` fails: {said}");
        }
    }
    std::fs::remove_dir_all(scratch).unwrap();
}

/// A directory for this process alone.
fn scratch() -> PathBuf {
    let path = std::env::temp_dir().join(format!("palisade-extending-{}", std::process::id()));
    std::fs::create_dir(&path).unwrap();
    path
}
