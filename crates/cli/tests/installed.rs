// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the forms in which `palisade` is installed. Each is made by its script in `packaging`, installed by the real tool
//! as an ordinary user, started, and described by `palisade self`. Then the commands that `palisade self` prints are
//! executed: the first ones update it, and after the second ones nothing is left.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

mod action;
mod cargo;
mod homebrew;
mod licences;
mod nix;
mod npm;
mod system;
mod wheel;

use crate::support::{Place, Run, give, job, ordinary};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that an update installs.
const NEWER: &str = "99.0.0";
/// The version of this program.
const CURRENT: &str = env!("CARGO_PKG_VERSION");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// What the script of a form makes of the tested program: the files, in a directory of the place's own.
fn made(place: &Place, form: &str, version: &str) -> PathBuf {
    let output = place.home.join(format!("made/{form}-{version}"));
    let again = place.home.join(format!("made/{form}-{version}-again"));
    // One version shows that the same files give the same bytes.
    let directories = if version == CURRENT { vec![&output, &again] } else { vec![&output] };
    for directory in directories {
        std::fs::create_dir_all(directory).unwrap();
        let mut build = Command::new(root().join("packaging").join(form).join("build"));
        build
            .env("PACKAGE_ROOT", root())
            .env("PACKAGE_BINARIES", place.binary().parent().unwrap())
            .env("PACKAGE_VERSION", version)
            .env("PACKAGE_OUTPUT", directory)
            .env("SOURCE_DATE_EPOCH", "1700000000");
        job::finish(&mut build).ok();
    }
    assert!(place_tree(&output).len() > 1, "packaging/{form}/build has made nothing");
    if again.exists() {
        let differ = job::finish(Command::new("diff").arg("-r").args([&output, &again]));
        assert_eq!((differ.code, differ.out.as_str()), (0, ""), "{form}: two builds differ");
        std::fs::remove_dir_all(again).unwrap();
    }
    give(place, &place.home.join("made"));
    output
}

/// The only file of a directory whose name ends so.
fn file(directory: &Path, end: &str) -> PathBuf {
    let found: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect();
    assert_eq!(found.len(), 1, "{end}: {found:?}");
    found[0].clone()
}

/// Everything below a directory, without what interpreters keep.
fn place_tree(directory: &Path) -> Vec<String> {
    let mut find = Command::new("sh");
    find.args(["-c", "find . ! -path '*/__pycache__*' | LC_ALL=C sort"]).current_dir(directory);
    job::finish(&mut find).ok().lines().map(str::to_owned).collect()
}

/// A line of shell as the place's user.
fn shell(place: &Place, line: &str) -> Run {
    job::finish(place.command("sh").args(["-c", line]))
}

/// The answer of `PROGRAM self --json`. The same program must say its version and start a sandbox.
fn described(place: &Place, program: &Path) -> Value {
    let run = |arguments: &[&str]| job::finish(place.command(program).args(arguments));
    assert_eq!(run(&["--version"]).ok(), format!("palisade {CURRENT}"));
    assert_eq!(run(&["run", "--", "echo", "inside"]).ok(), "inside");
    let words = run(&["self"]);
    let answer: Value = serde_json::from_str(run(&["self", "--json"]).ok()).unwrap();
    assert_eq!(answer["version"], CURRENT);
    assert_eq!(answer["architecture"], std::env::consts::ARCH);
    assert_eq!(answer["static"], true, "the tested program is the one that is shipped");
    for command in commands(&answer, "update").iter().chain(&commands(&answer, "remove")) {
        assert!(words.ok().contains(command.as_str()), "no {command:?} in {words:?}");
    }
    answer
}

/// The commands of a description, as they are typed.
fn commands(answer: &Value, what: &str) -> Vec<String> {
    let commands = answer[what].as_array().unwrap().iter().map(|command| command.as_str().unwrap());
    commands.map(|command| command.split("   #").next().unwrap().to_owned()).collect()
}

/// Executes the commands, where each question gets the answer yes.
fn execute(place: &Place, commands: &[String], variables: &str) {
    assert!(!commands.is_empty());
    for command in commands {
        let run = shell(place, &format!("export {variables}; yes | {command}"));
        assert_eq!(run.code, 0, "{command}: {run:?}");
    }
}

#[test]
fn a_copied_program_names_commands_that_replace_and_remove_it() {
    let place = ordinary();
    let program = place.write("a b/palisade", std::fs::read(place.binary()).unwrap());
    shell(
        &place,
        "chmod 755 ~/'a b/palisade'; printf '#!/bin/sh\necho newer\n' >~/newer; mkdir ~/.config ~/.config/palisade",
    )
    .ok();
    let answer = described(&place, &program);
    assert_eq!(
        (&answer["installed_by"], &answer["path"]),
        (&"copy".into(), &program.to_str().unwrap().into())
    );
    let config = place.home.join(".config/palisade");
    assert!(answer["stays"].as_array().unwrap().contains(&config.to_str().unwrap().into()), "{answer}");
    let update: Vec<String> =
        commands(&answer, "update").iter().map(|line| line.replace("FILE", "~/newer")).collect();
    execute(&place, &update, "X=1");
    assert_eq!(job::finish(&mut place.command(&program)).ok(), "newer");
    execute(&place, &commands(&answer, "remove"), "X=1");
    assert!(!program.exists());
}

#[test]
fn a_program_that_its_user_cant_change_names_sudo() {
    let Some(root) = crate::support::root() else { return };
    // Root's place isn't open to others, and the copy of the program that all tests use is.
    let (place, program) = (ordinary(), root.binary());
    let answer = described(&place, program);
    assert_eq!(answer["remove"], serde_json::json!([format!("sudo rm {}", program.display())]));
    let answer = described(&root, program);
    assert_eq!(answer["remove"], serde_json::json!([format!("rm {}", program.display())]));
}

#[test]
fn a_program_of_a_checkout_names_the_build() {
    let place = ordinary();
    for file in ["checkout/x", "checkout/crates/cli/Cargo.toml", "checkout/target/CACHEDIR.TAG"] {
        place.write(file, "");
    }
    let program = place.write("checkout/target/m/release/palisade", std::fs::read(place.binary()).unwrap());
    shell(&place, "chmod 755 ~/checkout/target/m/release/palisade; printf '#!/bin/sh\\necho \"$@\" >~/built\\n' >~/checkout/x; chmod 755 ~/checkout/x").ok();
    let answer = described(&place, &program);
    assert_eq!(answer["installed_by"], "checkout");
    let update = commands(&answer, "update");
    let checkout = place.home.join("checkout");
    assert_eq!(update[0], format!("git -C {} pull", checkout.display()));
    if crate::support::has("git") {
        let line = "cd ~ && git init -q --bare upstream && git init -q -b main checkout && cd checkout && git remote add origin ../upstream && \
                    git add x && git -c user.name=a -c user.email=a@example.com commit -qm one && git push -q -u origin main";
        shell(&place, line).ok();
        execute(&place, &update, "X=1");
        assert_eq!(place.read("built"), "build palisade\n");
    }
    execute(&place, &commands(&answer, "remove"), "X=1");
    assert!(!checkout.join("target").exists() && checkout.join("x").exists());
}

/// Nothing else has these names: a file of the same name alone is no record.
#[test]
fn records_that_dont_name_the_program_dont_count() {
    let place = ordinary();
    let bytes = std::fs::read(place.binary()).unwrap();
    let others = [
        (
            "venv/bin/palisade",
            "venv/lib/python3.11/site-packages/palisade_sandbox-1.dist-info/RECORD",
            "../../../bin/other,,\n../../../../x/bin/palisade,,\n",
        ),
        (
            "cargo/bin/palisade",
            "cargo/.crates.toml",
            "[v1]\n\"palisade-clip 1.0.0 (registry+x)\" = [\"palisade\"]\n",
        ),
        ("node_modules/@other/linux-x64/bin/palisade", "node_modules/@other/linux-x64/package.json", "{}"),
        ("node_modules/@palisade-sandbox/linux-x64/bin/palisade", "package.json", "{}"),
        ("Cellar/palisade/1.0/bin/palisade", "Cellar/palisade/INSTALL_RECEIPT.json", "{}"),
        ("nix/store/abc-palisade-1/bin/palisade", "nix/store/x", ""),
        ("other/target/release/palisade", "other/target/CACHEDIR.TAG", ""),
    ];
    for (program, record, text) in others {
        let program = place.write(program, &bytes);
        place.write(record, text);
        shell(&place, &format!("chmod 755 '{}'", program.display())).ok();
        let run = job::finish(place.command(&program).args(["self", "--json"]));
        let answer: Value = serde_json::from_str(run.ok()).unwrap();
        assert_eq!(answer["installed_by"], "copy", "{}", program.display());
    }
}

#[test]
fn other_programs_of_the_name_are_named() {
    let place = ordinary();
    let program = place.write("one/palisade", std::fs::read(place.binary()).unwrap());
    place.write("two/palisade", "");
    shell(&place, "chmod 755 ~/*/palisade; mkdir ~/three; ln -s ../one/palisade ~/three/palisade").ok();
    let path =
        ["one", "two", "three", "two"].map(|name| place.home.join(name).display().to_string()).join(":");
    let run = job::finish(place.command(&program).args(["self", "--json"]).env("PATH", path));
    let answer: Value = serde_json::from_str(run.ok()).unwrap();
    assert_eq!(
        answer["others"],
        serde_json::json!([place.home.join("two/palisade")]),
        "links to the program aren't others"
    );
}

/// A program that was removed while it ran can't be told about, and no command is printed for it.
#[test]
fn a_removed_program_is_an_error() {
    let place = ordinary();
    let program = place.write("gone/palisade", std::fs::read(place.binary()).unwrap());
    shell(&place, "chmod 755 ~/gone/palisade").ok();
    // The shell holds the file open, and executes it after it was removed.
    let line =
        format!("exec 9<'{0}'; rm '{0}'; exec -a palisade /proc/self/fd/9 self --json", program.display());
    let run = job::finish(place.command("bash").args(["-c", &line]));
    run.refused(2, &["can't read", "(deleted)"]);
    assert!(!run.out.contains("rm "), "{run:?}");
}
