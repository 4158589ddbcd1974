// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests files that aren't profiles, and where imported profiles are written.

use super::world::{World, at, list};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn files_that_are_no_profiles_are_refused_with_what_to_do() {
    let world = World::new();
    let too_large = world.write("foreign/large.profile", vec![b'#'; (1 << 20) + 1]);
    let no_text = world.write("foreign/latin.profile", b"blacklist /caf\xe9\n");
    let unknown = world.write("foreign/x.profile", "net none\nfrobnicate all\n?HAS_WINGS: net none\n");
    let key = world.write("foreign/x.toml", "path = \"x\"\nfeature = [\"x\"]\n\n[home]\npath2 = 1\n");
    let junk = world.write("foreign/junk.profile", b"\x7fELF\x02\x01\x01\0\0");
    let empty = world.write("foreign/empty.profile", "");
    let silent = world.write("foreign/silent.toml", "# nothing\n");
    let directory = world.path("foreign");
    let cut = world.write("foreign/cut.toml", "path = \"x\"\n[home]\npolicy = \"Ena");
    let outside = world.write("outside/x.inc", "net none\n");
    std::os::unix::fs::symlink(&outside, world.path("foreign/link.inc")).unwrap();
    let circle = world.write("foreign/a.profile", "include b.inc\n");
    world.write("foreign/b.inc", "include a.profile\n");
    let missing = world.write("foreign/missing.profile", "net none\ninclude no-such-file.inc\n");
    let leaves = world.write("foreign/leaves.profile", format!("include {outside}\n"));
    let linked = world.write("foreign/linked.profile", "include link.inc\n");
    let fine = world.write("foreign/fine.profile", "net none\n");
    let fifo = world.path("foreign/fifo.profile");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let fifo = fifo.to_str().unwrap();
    for (from, file, more, class, words) in [
        ("firejail", too_large.as_str(), &[][..], "read", "more than 1024 KiB"),
        ("firejail", &no_text, &[], "read", "isn't UTF-8 after its first 14 bytes"),
        ("firejail", fifo, &[], "read", "no regular file"),
        ("firejail", "/dev/zero", &[], "read", "no regular file"),
        ("firejail", "/none/such.profile", &[], "read", "No such file"),
        ("firejail", directory.to_str().unwrap(), &[], "read", "no regular file"),
        ("firejail", &unknown, &[], "syntax", "line 2: Firejail doesn't know \"frobnicate all\", and 1 more"),
        (
            "antimony",
            &key,
            &[],
            "syntax",
            "line 2: Antimony doesn't know \"feature = [\\\"x\\\"]\", and 1 more",
        ),
        ("firejail", &key, &[], "syntax", "hint: palisade import --from antimony"),
        ("antimony", &unknown, &[], "syntax", "hint: palisade import --from firejail"),
        ("firejail", &junk, &[], "syntax", "doesn't know"),
        ("firejail", &empty, &[], "syntax", "has no statements"),
        ("antimony", &silent, &[], "syntax", "has no statements"),
        ("antimony", &cut, &[], "syntax", "line 3"),
        ("firejail", &circle, &[], "include", "includes itself"),
        ("firejail", &missing, &[], "include", "line 2: include no-such-file.inc"),
        ("firejail", &leaves, &[], "include", "neither beside the profile nor"),
        ("firejail", &linked, &[], "include", "neither beside the profile nor"),
        ("firejail", &fine, &["--feature"], "usage", "as a feature"),
        ("firejail", &fine, &["--name", "../x"], "usage", "can't be the name"),
        ("firejail", &fine, &["--output", "/proc/none/x.toml"], "write", "can't write"),
    ] {
        let answer = world.import(from, file, &[more, &["--json"]].concat());
        assert_eq!(answer.code, 2, "{file}: {answer:?}");
        let report: Value = serde_json::from_str(&answer.out).unwrap();
        assert_eq!(report["error"]["class"], class, "{file}: {answer:?}");
        assert!(answer.err.contains(words), "{file}: {words} in {answer:?}");
        assert!(!world.path("home/.config").exists(), "{file}: nothing is written");
    }
    let deep: String = (0..200).map(|number| format!("a.b{number}.")).collect();
    let deep = world
        .write("foreign/deep.toml", format!("x = {}1{}\n", "[".repeat(20_000), "]".repeat(20_000)) + &deep);
    assert_eq!(world.import("antimony", &deep, &[]).code, 2, "and doesn't end by a signal");
}

#[test]
fn no_text_breaks_out_of_its_place() {
    let world = World::new();
    let nasty = "\"]\n[network]\nmode = \"host\"\n# \u{202e}\u{1b}[2J";
    // JSON's strings are TOML's, too.
    let quoted = serde_json::to_string(nasty).unwrap();
    let file = world.write(
        "foreign/x.toml",
        format!(
            "path = {quoted}\nid = {quoted}\nnotes = {quoted}\nfeatures = [{quoted}]\narguments = [{quoted}]\n\
             binaries = [{quoted}]\n[environment]\nA = {quoted}\n{quoted} = \"x\"\n[files.direct.ro]\n\"/etc/x\" = {quoted}\n\
             {quoted} = \"y\"\n[configuration.{quoted}]\nid = \"a.b\"\n"
        ),
    );
    let (profile, report) = world.imported("antimony", &file, &[]);
    assert!(profile.get("network").is_none(), "{profile}");
    assert_eq!(list(&profile, "program.arguments"), [nasty]);
    assert_eq!(at(&profile, "files.read./etc/x").as_str(), Some(nasty));
    let text = report["text"].as_str().unwrap();
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
    let answer = world.import("antimony", &file, &[]);
    assert!(!answer.err.contains('\u{1b}') && !answer.err.contains('\u{202e}'), "{answer:?}");
}

#[test]
fn a_profile_is_written_whole_and_replaces_none_unless_it_may() {
    let world = World::new();
    let file = world.write("foreign/x.profile", "net none\n");
    let written = world.path("home/.config/palisade/profiles/mine.toml");
    let answer = world.import("firejail", &file, &["--name", "mine"]);
    assert_eq!((answer.code, answer.out.as_str()), (0, ""), "{answer:?}");
    assert!(answer.err.contains(&format!("{} is written", written.display())), "{answer:?}");
    assert_eq!(std::fs::metadata(&written).unwrap().permissions().mode() & 0o777, 0o644);
    let text = std::fs::read_to_string(&written).unwrap();
    assert!(
        text.contains("name = \"mine\"") && text.contains("path = \"x\""),
        "for the program of the file: {text}"
    );
    // It is there, and can be used.
    let shown = world.run(&["profile", "list"]);
    assert!(shown.out.lines().any(|line| line.starts_with("mine ")), "{shown:?}");

    std::fs::write(&written, "schema = 1\n# mine\n").unwrap();
    let again = world.import("firejail", &file, &["--name", "mine"]);
    assert_eq!(again.code, 2);
    assert!(
        again.err.contains("it exists") && again.err.contains("hint: ") && again.err.contains("--force"),
        "{again:?}"
    );
    assert_eq!(std::fs::read_to_string(&written).unwrap(), "schema = 1\n# mine\n");
    assert_eq!(world.import("firejail", &file, &["--name", "mine", "--force"]).code, 0);
    assert_eq!(std::fs::read_to_string(&written).unwrap(), text);
    let beside = std::fs::read_dir(written.parent().unwrap()).unwrap().count();
    assert_eq!(beside, 1, "nothing else is left there");

    let feature =
        world.write("foreign/f.toml", "name = \"f\"\ndescription = \"d\"\ndevices = [\"/dev/dri\"]\n");
    assert_eq!(world.import("antimony", &feature, &["--feature", "--name", "mine"]).code, 0);
    assert!(world.path("home/.config/palisade/features/mine.toml").exists());

    let elsewhere = world.path("foreign/out.toml");
    let output = elsewhere.to_str().unwrap();
    assert_eq!(world.import("firejail", &file, &["--name", "other", "--output", output]).code, 0);
    assert!(std::fs::read_to_string(&elsewhere).unwrap().contains("name = \"other\""));
    let to_standard_output = world.import("firejail", &file, &["--name", "other", "--output", "-"]);
    assert!(to_standard_output.out.contains("name = \"other\""), "{to_standard_output:?}");
    assert!(!world.path("home/.config/palisade/profiles/other.toml").exists());
}

#[test]
fn strict_takes_over_all_or_writes_nothing() {
    let world = World::new();
    let exact = world.write("foreign/exact.profile", "net none\nprivate\nx11 none\n");
    assert_eq!(world.import("firejail", &exact, &["--strict"]).code, 0);
    let lossy = world.write("foreign/lossy.profile", "net none\nnogroups\n");
    assert_eq!(world.import("firejail", &lossy, &[]).code, 0);
    let strict = world.import("firejail", &lossy, &["--strict", "--name", "lossy"]);
    assert_eq!(strict.code, 1, "{strict:?}");
    assert!(strict.err.contains("nothing is written"), "{strict:?}");
    assert!(!world.path("home/.config/palisade").exists());
    let report = world.import("firejail", &lossy, &["--strict", "--json"]);
    let report: Value = serde_json::from_str(&report.out).unwrap();
    assert_eq!(report["left_out"][0]["line"], 2);
}
