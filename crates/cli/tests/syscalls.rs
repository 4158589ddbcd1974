// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade syscalls` from a user's view: what it prints, what it changes, what it refuses.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use crate::support::home::{self, Answer};
use palisade_syscall::Syscall;
use palisade_syscall::store::{Binary, Learned, Store};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// A home with a store in it.
struct Home(home::Home);

impl Deref for Home {
    type Target = home::Home;

    fn deref(&self) -> &home::Home {
        &self.0
    }
}

impl Home {
    /// With nothing learned.
    fn empty() -> Self {
        Self(home::Home::new(&["syscalls"]))
    }

    /// `web` runs python, which makes calls, and a program that makes none; `files` runs python, too.
    fn new() -> Self {
        let home = Self::empty();
        let [python, quiet] = [("python", "py"), ("quiet", "q")].map(|(name, text)| {
            std::fs::write(home.path(name), text).unwrap();
            Binary::of(&home.path(name)).unwrap()
        });
        let mut store = home.store();
        let web = BTreeMap::from([(python.clone(), calls(&["bind", "openat"])), (quiet, calls(&[]))]);
        assert_eq!(store.learn("web", &web).unwrap(), 2);
        store.learn("files", &BTreeMap::from([(python, calls(&["renameat2"]))])).unwrap();
        store.add("web", &[Learned { binary: None, calls: calls(&["kill"]) }]).unwrap();
        home
    }

    fn file(&self) -> PathBuf {
        self.path(".local/state/palisade/syscalls.sqlite")
    }

    fn store(&self) -> Store {
        Store::open(&self.file()).unwrap()
    }

    fn allowed(&self, profile: &str) -> Vec<&'static str> {
        self.store().allowed(profile).unwrap().unwrap().into_iter().map(Syscall::name).collect()
    }

    /// The message when it can't be done.
    fn problem(&self, arguments: &[&str]) -> String {
        let Answer { code, out, err } = self.run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(err.starts_with("palisade: error: "), "{err}");
        err
    }
}

fn calls(names: &[&str]) -> BTreeSet<Syscall> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[test]
fn list_names_profiles_with_their_numbers() {
    let home = Home::new();
    let text = home.text(0, &["list"]);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines,
        [vec!["files", "1", "binary,", "1", "call"], vec!["web", "2", "binaries,", "3", "calls"],]
    );
    let json = home.json(0, &["list"]);
    assert_eq!(json["profiles"][1], json!({ "name": "web", "binaries": 2, "calls": 3 }));

    let home = Home::empty();
    assert_eq!(home.json(0, &["list"])["profiles"], json!([]));
    assert!(home.run(&["list"]).err.contains("nothing was learned yet"));
    assert!(!home.file().exists(), "reading makes nothing");
}

#[test]
fn show_prints_calls_by_binary_and_group() {
    let home = Home::new();
    let text = home.text(0, &["show", "web"]);
    let python = Binary::of(&home.path("python")).unwrap();
    let expected = format!(
        "web: 3 calls of 2 binaries\n\
         stated for the profile\n  @signal      kill\n\
         {} ({:02x}{:02x}{:02x}{:02x})\n  @files       openat\n  @network     bind\n",
        shown(&home.path("python")),
        python.hash[0],
        python.hash[1],
        python.hash[2],
        python.hash[3],
    );
    assert!(text.starts_with(&expected), "{text}\n{expected}");
    assert!(text.ends_with("  nothing outside @base\n"), "{text}");
    let json = home.json(0, &["show", "web"]);
    assert_eq!(json["calls"], json!(["bind", "kill", "openat"]));
    assert_eq!((&json["stated"], &json["unknown"]), (&json!(["kill"]), &json!([])));
    assert_eq!(json["binaries"][0]["profiles"], json!(["files", "web"]));
    assert_eq!(json["binaries"][0]["hash"].as_str().unwrap().len(), 64);

    let text = home.text(0, &["show", "./python"]);
    assert!(text.contains("bind") && text.ends_with("  runs under files, web\n"), "{text}");
    let json = home.json(0, &["show", &shown(&home.path("python"))]);
    assert_eq!(json["calls"], json!(["bind", "openat", "renameat2"]));
}

#[test]
fn a_name_that_is_unknown_is_answered_with_one_that_may_be_meant() {
    let home = Home::new();
    for (arguments, words) in [
        (&["show", "wbe"][..], "for the profile \"wbe\"; did you mean `web`?\nhint: palisade syscalls list"),
        (&["show", "/usr/bin/none"], "for the binary \"/usr/bin/none\"\nhint: "),
        (&["diff", "web", "flies"], "did you mean `files`?"),
        (&["merge", "wbe", "--into", "x"], "did you mean `web`?"),
        (&["export", "wbe"], "did you mean `web`?"),
        (&["clean", "wbe", "--yes"], "did you mean `web`?"),
        (&["explain", "bind", "--profile", "wbe"], "did you mean `web`?"),
        (&["explain", "ptarce"], "unknown system call `ptarce`; did you mean `ptrace`?"),
        (
            &["groups", "netwrok"],
            "unknown group `@netwrok`; did you mean `@network`?\nhint: palisade syscalls groups",
        ),
        (&["merge", "web", "--into", ""], "\"\" can't be a profile's name"),
        (&["import", "python", "--profile", "a\nb"], "can't be a profile's name"),
    ] {
        let said = home.problem(arguments);
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    assert_eq!(home.store().profiles().unwrap(), ["files", "web"], "none of them made one");
    let json = home.json(2, &["show", "wbe"]);
    assert_eq!(json["error"]["class"], "unknown-profile");
    let empty = Home::empty();
    assert!(empty.problem(&["show", "web"]).contains("nothing was learned for the profile \"web\""));
    assert!(!empty.file().exists());
}

#[test]
fn diff_answers_one_if_they_differ() {
    let home = Home::new();
    for pair in [["web", "files"], ["files", "web"]] {
        let text = home.text(1, &["diff", pair[0], pair[1]]);
        assert!(text.contains("only web\n") && text.contains("  @signal      kill\n"), "{text}");
        assert!(text.contains("only files\n  @files       renameat2\n"), "{text}");
    }
    assert_eq!(home.text(0, &["diff", "web", "web"]), "");
    let json = home.json(1, &["diff", "files", "web"]);
    assert_eq!(json["same"], false);
    assert_eq!(json["only"][1], json!({ "profile": "web", "calls": ["bind", "kill", "openat"] }));
}

#[test]
fn merge_gives_a_profile_what_others_have() {
    let home = Home::new();
    let answer = home.run(&["merge", "web", "files", "--into", "all"]);
    assert_eq!((answer.code, answer.err.as_str()), (0, "all: 4 calls now\n"));
    assert_eq!(home.allowed("all"), ["bind", "kill", "openat", "renameat2"]);
    assert_eq!(home.json(0, &["merge", "web", "--into", "all"])["new"], 0);
}

#[test]
fn what_is_exported_can_be_imported_elsewhere() {
    let home = Home::new();
    let expected = home.allowed("web");
    for format in ["palisade", "json", "oci"] {
        let other = Home::empty();
        let file = shown(&home.path(&format!("web.{format}")));
        assert_eq!(home.text(0, &["export", "web", "--format", format, "--output", &file]), "");
        assert_eq!(
            home.text(0, &["export", "web", "--format", format]),
            std::fs::read_to_string(&file).unwrap()
        );
        let answer = other.run(&["import", &file, "--profile", "mine"]);
        assert_eq!((answer.code, answer.err.as_str()), (0, "mine: 3 new calls\n"), "{format}");
        assert_eq!(other.allowed("mine"), expected, "{format}");
        if format != "oci" {
            assert_eq!(other.store().profile("mine").unwrap(), home.store().profile("web").unwrap());
        }
        assert_eq!(other.json(0, &["import", &file, "--profile", "mine"])["new"], 0);
    }
    let oci: Value = serde_json::from_str(&home.text(0, &["export", "web", "--format", "oci"])).unwrap();
    assert_eq!((&oci["defaultAction"], &oci["defaultErrnoRet"]), (&"SCMP_ACT_ERRNO".into(), &1.into()));
    let names = oci["syscalls"][0]["names"].as_array().unwrap();
    assert!(names.contains(&"execve".into()) && names.contains(&"bind".into()), "{names:?}");
}

#[test]
fn import_says_what_it_leaves_out() {
    let home = Home::new();
    std::fs::write(
        home.path("oci.json"),
        json!({
            "defaultAction": "SCMP_ACT_ERRNO",
            "syscalls": [
                { "names": ["bind", "read", "teleport"], "action": "SCMP_ACT_ALLOW" },
                { "names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [{ "index": 0, "value": 0, "op": "SCMP_CMP_EQ" }] },
            ],
        })
        .to_string(),
    )
    .unwrap();
    let answer = home.run(&["import", "oci.json", "--profile", "c"]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    assert!(answer.err.contains("note: left out, unknown to this palisade: `teleport`\n"), "{}", answer.err);
    assert!(answer.err.contains("kernels only): clone\n"), "{}", answer.err);
    assert_eq!(home.allowed("c"), ["bind"]);
    assert_eq!(
        home.json(0, &["import", "oci.json", "--profile", "c"])["warnings"].as_array().unwrap().len(),
        2
    );
}

#[test]
fn what_is_imported_for_one_profile_permits_nothing_to_another() {
    let home = Home::new();
    let text = home.text(0, &["export", "files"]);
    std::fs::write(home.path("more.toml"), text.replace("\"renameat2\"", "\"renameat2\", \"ptrace\""))
        .unwrap();
    let answer = home.run(&["import", "more.toml", "--profile", "files"]);
    assert_eq!((answer.code, answer.err.as_str()), (0, "files: 1 new call\n"));
    assert!(home.allowed("files").contains(&"ptrace"));
    assert!(!home.allowed("web").contains(&"ptrace"));
}

#[test]
fn import_refuses_what_it_cannot_understand_and_changes_nothing() {
    let home = Home::new();
    let long = " ".repeat((4 << 20) + 1);
    for (content, words) in [
        (&b"{"[..], "EOF while parsing"),
        (b"schema = 7\nprofile = \"\"", "its schema is 7"),
        (b"calls = [", "can't import"),
        (b"{\"defaultAction\": \"SCMP_ACT_WHAT\"}", "unknown action \"SCMP_ACT_WHAT\""),
        (b"{\"calls\": 5}", "can't import"),
        (b"\xff", "it isn't text"),
        (long.as_bytes(), "it is longer than 4194304 bytes"),
    ] {
        std::fs::write(home.path("file"), content).unwrap();
        let said = home.problem(&["import", "file", "--profile", "new"]);
        assert!(said.contains(words), "{said}");
    }
    assert!(home.problem(&["import", "absent", "--profile", "new"]).contains("can't read \"absent\""));
    assert_eq!(home.store().profiles().unwrap(), ["files", "web"]);
}

#[test]
fn clean_forgets_what_it_is_told_to() {
    let home = Home::new();
    let said = home.problem(&["clean", "web"]);
    assert!(said.contains("no terminal to ask on\nhint: palisade syscalls clean web --yes"), "{said}");
    for wrong in [
        &["clean"][..],
        &["clean", "--yes"],
        &["clean", "--json", "--yes"],
        &["clean", "web", "--all", "--yes"],
    ] {
        assert_eq!(home.run(wrong).code, 2, "{wrong:?}");
    }
    assert_eq!(home.store().profiles().unwrap(), ["files", "web"]);
    let answer = home.run(&["clean", "web", "--yes"]);
    assert_eq!((answer.code, answer.err.as_str()), (0, "forgot 1 profile\n"));
    assert_eq!(home.store().profiles().unwrap(), ["files"]);
    assert_eq!(home.store().binaries().unwrap().len(), 1);
    assert_eq!(home.json(0, &["clean", "--all", "--yes"])["profiles"], json!(["files"]));
    assert_eq!(home.store().profiles().unwrap(), [""; 0]);
    assert_eq!(home.run(&["clean", "--all", "--yes"]).err, "nothing to forget\n");
}

#[test]
fn clean_gone_forgets_binaries_that_went_or_changed() {
    let home = Home::new();
    let left = || home.store().binaries().unwrap().len();
    assert_eq!(home.run(&["clean", "--gone"]).err, "nothing to forget\n");
    std::fs::write(home.path("python"), "newer").unwrap();
    assert_eq!(home.run(&["clean", "--gone"]).code, 2, "it asks");
    assert_eq!(left(), 2);
    let json = home.json(0, &["clean", "web", "--gone", "--yes"]);
    assert_eq!(json["binaries"], json!([shown(&home.path("python"))]));
    assert_eq!(left(), 1);
    std::fs::remove_file(home.path("quiet")).unwrap();
    assert_eq!(home.run(&["clean", "files", "--gone", "--yes"]).err, "nothing to forget\n", "not its");
    assert_eq!(home.run(&["clean", "--gone", "--yes"]).err, "forgot 1 binary\n");
    assert_eq!(left(), 0);
    assert_eq!(home.allowed("web"), ["kill"], "what was stated stays");
}

#[test]
fn explain_says_groups_rules_and_by_whom_it_was_learned() {
    let home = Home::new();
    let text = home.text(0, &["explain", "bind"]);
    for words in [
        "bind (system call ",
        "  allowed\n",
        "  in @network: ",
        &format!("  learned for web: {}\n", shown(&home.path("python"))),
    ] {
        assert!(text.contains(words), "{text}");
    }
    let text = home.text(0, &["explain", "ptrace"]);
    assert!(text.contains("refused with EPERM: reads and steers other processes\n  in @debug: "), "{text}");
    assert!(text.ends_with("  learned for no profile\n"), "{text}");
    let text = home.text(0, &["explain", "fchmod"]);
    assert!(text.contains("  refused with EPERM when arg1 has S_ISUID=0x800: "), "{text}");
    assert!(text.contains("  allowed otherwise\n"), "{text}");
    assert!(home.text(0, &["explain", "kill"]).ends_with("  learned for web: stated for it\n"));
    assert!(home.text(1, &["explain", "kill", "--profile", "files"]).ends_with("  not learned for files\n"));
    assert!(home.text(0, &["explain", "read", "--profile", "files"]).contains("always allowed"));
    let json = home.json(1, &["explain", "kill", "--profile", "files"]);
    assert_eq!(
        (&json["allowed"], &json["learned"], &json["groups"]),
        (&false.into(), &json!([]), &json!(["@signal"]))
    );
    let json = home.json(0, &["explain", "kill"]);
    assert_eq!(json["learned"], json!([{ "profile": "web", "stated": true, "binaries": [] }]));
}

#[test]
fn groups_lists_groups_and_their_calls() {
    let home = Home::empty();
    let all = home.text(0, &["groups"]);
    assert!(all.starts_with("@base ") && all.lines().any(|line| line.starts_with("@network ")), "{all}");
    let network = home.text(0, &["groups", "@network"]);
    assert!(network.lines().any(|line| line == "connect") && network == home.text(0, &["groups", "network"]));
    let json = home.json(0, &["groups", "@bpf"]);
    assert_eq!((&json["groups"][0]["name"], &json["groups"][0]["calls"]), (&"@bpf".into(), &json!(["bpf"])));
}

#[test]
fn a_store_that_cannot_be_used_is_said_with_what_to_do() {
    let home = Home::new();
    std::fs::write(home.file(), "no database").unwrap();
    for arguments in [&["list"][..], &["merge", "web", "--into", "x"], &["explain", "bind"]] {
        let said = home.problem(arguments);
        assert!(said.contains("syscalls.sqlite\" is damaged: ") && said.contains("\nhint: mv "), "{said}");
    }
    assert_eq!(home.json(2, &["list"])["error"]["class"], "store");
}
