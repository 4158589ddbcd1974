// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shows that names need protection because tools obey them: it tries each tool of `names/obeyed.toml` that is installed. A
//! tool doesn't obey a missing file, obeys a file that was written outside, and inside the file can't be written.
//!
//! `PALISADE_TEST_TOOLS` names more directories in which programs are looked for, as `PATH` does. Slow tools are tried with
//! `PALISADE_OBEYED=all`, as in `./x test all`.

use crate::support::{Place, everybody, has, job, ordinary, root};
use palisade_policy::names::{BuiltInName, built_in};
use palisade_policy::{LayerPolicy, NameStatus, merge};
use serde::Deserialize;
use std::process::Stdio;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// The feature that the machine must have.
    tool: String,
    /// It is left to the long run.
    #[serde(default)]
    slow: bool,
    paths: Vec<String>,
    before: String,
    write: String,
    then: String,
}

fn cases() -> Vec<Case> {
    toml::from_str::<File>(include_str!("names/obeyed.toml")).unwrap_or_else(|error| panic!("{error}")).case
}

/// The built-in name that protects a path, whether it is on or not.
fn protector(path: &str) -> &'static BuiltInName {
    let mut layer = LayerPolicy::command_line();
    for name in built_in() {
        layer.add_name(&name.rule.path, true, 0).unwrap_or_else(|error| panic!("{error}"));
    }
    let names = merge(vec![layer]).names();
    let NameStatus::Protected(rule) = names.judge(format!("/w/{path}").as_bytes(), 1) else {
        panic!("nothing protects {path}")
    };
    built_in().iter().find(|name| name.rule.path == rule.path).unwrap_or_else(|| panic!("{path}"))
}

/// Runs a line outside with the tools. What it says and how it ends doesn't matter.
fn tool(place: &Place, line: &str, path: &str) -> String {
    let more = std::env::var("PALISADE_TEST_TOOLS").unwrap_or_default();
    let mut shell = place.command("/bin/sh");
    // A tool that manages its own versions would download them.
    shell.args(["-c", line]).env("PATH", format!("{}:{more}", crate::support::PATH)).env("NAME", path);
    shell.env("GIT_CONFIG_COUNT", "2").env("GIT_CONFIG_KEY_0", "user.name").env("GIT_CONFIG_VALUE_0", "a");
    shell.env("GIT_CONFIG_KEY_1", "user.email").env("GIT_CONFIG_VALUE_1", "a@example.org");
    let run = job::finish(shell.stdin(Stdio::null()));
    format!("{run:?}")
}

fn obeyed(place: &Place) -> bool {
    place.work.join("obeyed").exists()
}

/// Tries one name.
fn try_one(case: &Case, path: &str) {
    let name = protector(path);
    // As the user that runs the tests: tools may be installed for this user in directories that are closed to others.
    let place = root().unwrap_or_else(ordinary);
    let before = tool(&place, &case.before, path);
    let there = || std::fs::read(place.work.join(path)).ok();
    let then = tool(&place, &case.then, path);
    let own = there();
    assert!(!obeyed(&place), "{path} isn't written yet: {before} {then}");
    let group = format!("group:{}", name.group);
    let options: &[&str] = if name.on { &[] } else { &["--protect-name", &group] };
    let inside = place.sh(options, &format!("NAME={path}; {}", case.write));
    assert!(
        inside.err.contains(&format!("{} is protected: {}", name.rule.path, name.rule.reason)),
        "{path}: {inside:?}"
    );
    let then = tool(&place, &case.then, path);
    assert!(
        there().unwrap_or_default() == own.clone().unwrap_or_default() && !obeyed(&place),
        "{path}: {then}"
    );
    let write = tool(&place, &case.write, path);
    assert_ne!(there(), own, "{path}: {write}");
    let then = tool(&place, &case.then, path);
    assert!(obeyed(&place), "nobody obeyed {path}: {write} {then}");
}

#[test]
fn tools_obey_the_names() {
    let mut tried = 0;
    // The test user is removed with the last place that uses it, so keep one for all cases.
    let _place = ordinary();
    let all = std::env::var("PALISADE_OBEYED").is_ok_and(|which| which == "all");
    for case in cases().iter().filter(|case| (all || !case.slow) && has(&case.tool)) {
        for path in &case.paths {
            let started = std::time::Instant::now();
            try_one(case, path);
            tried += 1;
            println!("{path}: {} obeys it ({:.1} s)", case.tool, started.elapsed().as_secs_f32());
        }
    }
    println!("{tried} names tried");
}

/// What is tried is a protected name, and for each one there is a way to see whether the tool is there.
#[test]
fn what_is_tried_is_protected() {
    let mut tried = 0;
    for case in cases() {
        let _whichever = has(&case.tool);
        for path in &case.paths {
            assert!(!protector(path).rule.reason.is_empty());
            tried += 1;
        }
    }
    assert!(tried > 40, "{tried}");
}

/// Jujutsu follows a file `.jj/repo` to the repository that it names, as `jj workspace add` makes it.
#[test]
fn a_file_leads_jujutsu_elsewhere_and_a_directory_does_not() {
    for place in everybody() {
        place.outside(
            "mkdir -p ~/work/old/.jj ~/work/kept/.jj; echo own >~/work/kept/.jj/repo; mkdir ~/work/elsewhere",
        );
        let run = place.sh(
            &[],
            "echo x >file; for way in 'cp file' 'mv file' 'ln file' 'ln -s ../../elsewhere'; do \
             $way old/.jj/repo; echo x >file; done; echo x >kept/.jj/repo; echo x >old/.jj/REPO; \
             mv elsewhere kept/.jj/other; ls old/.jj",
        );
        assert_eq!((run.out.as_str(), place.read("work/kept/.jj/repo").as_str()), ("", "own\n"), "{run:?}");
        assert!(run.err.contains(".jj/repo"), "{run:?}");
        // What Jujutsu does in a repository of its own, and in a workspace that it makes.
        let run = place.sh(
            &[],
            "mkdir old/.jj/repo && mkdir old/.jj/repo/store && echo git >old/.jj/repo/store/type && \
             mkdir -p new/.jj && echo ../../old/.jj/repo >new/.jj/repo && cat old/.jj/repo/store/type new/.jj/repo",
        );
        assert_eq!(run.out, "git\n../../old/.jj/repo\n", "{run:?}");
        let run = place.sh(&["--allow-name", ".jj/repo"], "echo x >kept/.jj/repo");
        assert_eq!((run.code, place.read("work/kept/.jj/repo").as_str()), (0, "x\n"), "{run:?}");
        let run =
            place.sh(&["--protect", "mounts"], "echo y >kept/.jj/repo; echo y >old/.jj/repo/store/type");
        assert_eq!(place.read("work/kept/.jj/repo"), "x\n", "{run:?}");
        assert_eq!(place.read("work/old/.jj/repo/store/type"), "y\n", "{run:?}");
        let explain = |path: &str| {
            let mut explain = place.command(place.binary());
            job::finish(explain.args(["explain", "--access", "write", path]).current_dir(&place.work)).out
        };
        assert!(
            explain("kept/.jj/repo").contains("palisade run --allow-name .jj/repo"),
            "{}",
            explain("kept/.jj/repo")
        );
        assert!(explain("old/.jj/repo").contains("write: yes"), "{}", explain("old/.jj/repo"));
    }
}
