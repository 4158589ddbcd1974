// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the dependencies between crates: they point down only, and siblings never import each other, except where
//! the design says so. It reads `cargo metadata`, so it judges what is compiled.
#![expect(clippy::expect_used, reason = "a test may die of what cargo should have said")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Every crate, its layer (high to low), and the crates it may import. A crate that is missing
/// here fails the test: its place must be decided when it is made.
const ALLOWED: &[(&str, &[&str])] = &[
    // test-only, outside the pile
    ("palisade-acceptance", &[]),
    ("palisade-runner", &["palisade-acceptance"]),
    // faces
    (
        "palisade-cli",
        &[
            "palisade",
            "palisade-bwrap",
            "palisade-desktop",
            "palisade-import",
            "palisade-package",
            "palisade-guard",
            "palisade-interpose",
            "palisade-scopes",
            "palisade-settings",
            "palisade-shell",
            "palisade-sandbox",
            "palisade-network",
            "palisade-syscall",
            "palisade-policy",
            "palisade-protocol",
            "palisade-host",
            "palisade-event",
            "palisade-events",
            "palisade-http",
            "palisade-sys",
            "palisade-text",
        ],
    ),
    (
        "palisade-bench",
        &[
            "palisade-interpose",
            "palisade-scopes",
            "palisade-shell",
            "palisade-protocol",
            "palisade-sandbox",
            "palisade-syscall",
            "palisade-policy",
            "palisade-host",
            "palisade-events",
            "palisade-sys",
        ],
    ),
    (
        "palisade-daemon",
        &[
            "palisade-guard",
            "palisade-scopes",
            "palisade-bpf",
            "palisade-syscall",
            "palisade-event",
            "palisade-protocol",
            "palisade-host",
            "palisade-sys",
            "palisade-text",
        ],
    ),
    // library
    (
        "palisade",
        &[
            "palisade-sandbox",
            "palisade-syscall",
            "palisade-policy",
            "palisade-host",
            "palisade-protocol",
            "palisade-event",
            "palisade-sys",
            "palisade-text",
        ],
    ),
    // between faces and planes: what a face renders, and an embedder could call
    (
        "palisade-import",
        &["palisade-guard", "palisade-sandbox", "palisade-syscall", "palisade-policy", "palisade-text"],
    ),
    ("palisade-desktop", &["palisade-sandbox", "palisade-policy", "palisade-host", "palisade-text"]),
    ("palisade-package", &["palisade-sandbox", "palisade-host", "palisade-sys"]),
    // planes
    ("palisade-bwrap", &["palisade-sys", "palisade-text"]),
    (
        "palisade-shell",
        &[
            "palisade-policy",
            "palisade-event",
            "palisade-protocol",
            "palisade-http",
            "palisade-database",
            "palisade-shell-syntax",
            "palisade-sys",
            "palisade-text",
        ],
    ),
    ("palisade-scopes", &["palisade-policy", "palisade-protocol", "palisade-sys", "palisade-text"]),
    (
        "palisade-guard",
        &[
            "palisade-policy",
            "palisade-event",
            "palisade-protocol",
            "palisade-host",
            "palisade-sys",
            "palisade-text",
        ],
    ),
    (
        "palisade-sandbox",
        &[
            "palisade-syscall",
            "palisade-policy",
            "palisade-protocol",
            "palisade-host",
            "palisade-event",
            "palisade-events",
            "palisade-sys",
            "palisade-text",
        ],
    ),
    // engines
    ("palisade-syscall", &["palisade-policy", "palisade-host", "palisade-database", "palisade-sys"]),
    ("palisade-network", &["palisade-event", "palisade-policy", "palisade-protocol", "palisade-sys"]),
    ("palisade-bpf", &["palisade-policy", "palisade-sys"]),
    ("palisade-interpose", &["palisade-syscall", "palisade-sys"]),
    // ground: `sys`, `database`, `settings`, `shell-syntax` and `text` are lowest, then `event`; `policy` uses its places of rules
    ("palisade-event", &["palisade-text"]),
    ("palisade-policy", &["palisade-event", "palisade-text"]),
    ("palisade-protocol", &["palisade-event", "palisade-text"]),
    ("palisade-host", &["palisade-shell-syntax", "palisade-sys", "palisade-text"]),
    ("palisade-events", &["palisade-event", "palisade-database", "palisade-text"]),
    ("palisade-database", &["palisade-text"]),
    ("palisade-http", &[]),
    ("palisade-settings", &[]),
    ("palisade-shell-syntax", &[]),
    ("palisade-sys", &[]),
    ("palisade-text", &[]),
];

/// Crates that have no I/O.
const PURE: &[&str] = &["palisade-event", "palisade-policy", "palisade-shell-syntax", "palisade-text"];
/// What these must never come to depend on.
const IMPURE: &[&str] = &["rustix", "libc", "nix", "tokio", "walkdir", "tempfile"];

fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs this test, so it can be run");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    metadata["packages"].as_array().expect("it lists packages").clone()
}

/// Names of what `package` needs to be built and run; tests may use what they like.
fn dependencies(package: &Value) -> BTreeSet<String> {
    package["dependencies"]
        .as_array()
        .expect("a package lists its dependencies")
        .iter()
        .filter(|dependency| dependency["kind"] != "dev")
        .filter_map(|dependency| dependency["name"].as_str().map(String::from))
        .collect()
}

#[test]
fn arrows_point_down() {
    let mut wrong = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().expect("a package has a name");
        let Some((_, allowed)) = ALLOWED.iter().find(|(crate_name, _)| *crate_name == name) else {
            wrong.push(format!("{name} has no place in the design: add it to this test's table"));
            continue;
        };
        for dependency in dependencies(&package) {
            if dependency.starts_with("palisade") && !allowed.contains(&dependency.as_str()) {
                wrong.push(format!("{name} imports {dependency}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pure_crates_have_no_way_to_do_io() {
    let mut found = 0;
    for package in packages() {
        let name = package["name"].as_str().expect("a package has a name");
        if PURE.contains(&name) {
            let dependencies = dependencies(&package);
            let impure: Vec<_> = IMPURE.iter().filter(|name| dependencies.contains(**name)).collect();
            assert!(impure.is_empty(), "{name} imports {impure:?}");
            found += 1;
        }
    }
    assert_eq!(found, PURE.len());
}

/// Plans are made in one place, so what is explained, checked, learned and packed is the same as what runs.
#[test]
fn the_library_alone_makes_plans() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut callers = BTreeSet::new();
    let mut directories = vec![crates.clone()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).expect("the sources can be read").flatten() {
            let path = entry.path();
            let below = path.strip_prefix(&crates).expect("it lies below");
            let own = below.starts_with("sandbox") || below.iter().any(|part| part == "tests");
            if path.is_dir() && !own {
                directories.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source is text");
                if ["planner::make(", "planner::learn("].iter().any(|call| text.contains(call)) {
                    callers.insert(path.file_name().expect("a file has a name").to_owned());
                }
            }
        }
    }
    assert_eq!(callers, BTreeSet::from(["situation.rs".into()]), "in crates/palisade");
}

/// A full parser of bash's grammar brings dozens of crates. Only tests may use it, to state what our own reader should find.
#[test]
fn nothing_is_built_with_the_parser_that_tests_ask() {
    for package in packages() {
        assert!(!dependencies(&package).contains("brush-parser"), "{} imports brush-parser", package["name"]);
    }
}

#[test]
fn the_command_line_links_no_async_runtime_and_no_libbpf() {
    for package in packages() {
        if package["name"] == "palisade-cli" {
            let dependencies = dependencies(&package);
            for name in ["tokio", "libbpf-rs", "libbpf-sys", "async-std", "smol"] {
                assert!(!dependencies.contains(name), "palisade-cli imports {name}");
            }
        }
    }
}
