// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests which text is accepted as rules, which is refused and with which message, and that fapolicyd's own rules load.

use std::path::{Path, PathBuf};
use std::process::Command;

use palisade_guard::facts::{Access, Start};
use palisade_guard::known::Known;
use palisade_guard::linear;
use palisade_guard::rule::error::LoadError;
use palisade_guard::rule::lint::{Finding, lint};
use palisade_guard::rule::parse::{Parser, Placeholder, parse};
use palisade_guard::rule::{RuleId, RuleSet};

use crate::sample::{self, Names};

fn read(text: &str) -> Result<RuleSet, LoadError> {
    parse(Path::new("x.rules"), text.as_bytes(), &Names)
}

fn rules(text: &str) -> RuleSet {
    read(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// The first complaint: its class, column and text.
fn refused(text: &str) -> (String, u32, String) {
    match read(text) {
        Err(LoadError::Refused { complaints, .. }) => {
            let first = &complaints[0];
            (first.error.class().to_owned(), first.column, first.text.clone())
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn every_construct_is_read() {
    for (text, printed) in [
        ("allow perm=any all : all", "allow perm=any all : all"),
        ("deny_log all : all", "deny_log perm=open all : all"),
        ("allow all all", "allow perm=open all : all"),
        ("  allow\tperm=any   uid=root,0,alice : trust=1 \r", "allow perm=any uid=0,1000 : trust=1"),
        (
            "allow perm=open gid=wheel,5 : dir=execdirs,systemdirs",
            "allow perm=open gid=10,5 : dir=execdirs,systemdirs",
        ),
        (
            "deny_audit exe_dir=/tmp/ exe_type=text/x-python ftype=any trust=0",
            "deny_audit perm=open dir=/tmp/ ftype=text/x-python : ftype=any trust=0",
        ),
        (
            "allow perm=any exe=\"/a b/c\",/d : path=\"/x \\\"y\\\\\"",
            "allow perm=any exe=\"/a b/c\",/d : path=\"/x \\\"y\\\\\"",
        ),
        ("allow perm=any all : path=\"/a\\,b\",/c", "allow perm=any all : path=\"/a\\,b\",/c"),
        (
            "allow perm=any exe=glob:/home/*/x : path=\"glob:/a b/\\*\"",
            "allow perm=any exe=glob:/home/*/x : path=\"glob:/a b/\\\\*\"",
        ),
        (
            "allow perm=any pid=-1,1 ppid=2 sessionid=4294967295 auid=alice comm=nfsd : device=/dev/sda1",
            "allow perm=any pid=-1,1 ppid=2 sessionid=4294967295 auid=1000 comm=nfsd : device=/dev/sda1",
        ),
        (
            "deny_syslog perm=any pattern=ld_preload trust=1 : all",
            "deny_syslog perm=any pattern=ld_preload trust=1 : all",
        ),
        ("allow perm=execute all : path= trust=1", "allow perm=execute all : path= trust=1"),
        ("allow perm=any exe=/a,,/b,/a : all", "allow perm=any exe=/a,/b : all"),
        ("allow perm=any exe=/a=b : path=/c\"d", "allow perm=any exe=/a=b : path=\"/c\\\"d\""),
    ] {
        let rules = rules(text);
        assert_eq!(rules.len(), 1, "{text}");
        assert_eq!(rules.show(RuleId(0)), printed, "{text}");
    }
    let hash = "0".repeat(64);
    for name in ["filehash", "sha256hash", "FILE_HASH", "SHA256HASH"] {
        let rules = rules(&format!("allow perm=any all : {name}={hash}"));
        assert_eq!(rules.show(RuleId(0)), format!("allow perm=any all : filehash={hash}"));
    }
}

#[test]
fn values_are_bytes() {
    let rules = parse(Path::new("x"), b"deny perm=any all : path=/tmp/\xff\xfe", &Names).unwrap();
    let facts = Known { path: b"/tmp/\xff\xfe".to_vec(), ..Known::default() };
    assert!(!linear::decide(&rules, &facts).decision.allow);
    assert!(rules.print(RuleId(0)).ends_with(b"/tmp/\xff\xfe"));
}

#[test]
fn sets_are_read_and_languages_grow() {
    let rules = rules(
        "%languages=text/x-a\n%ids=0,1000\n%names=1x,2\ndeny perm=any uid=%ids comm=%names : ftype=%languages\n\
         %languages+=text/x-b,text/x-a\n",
    );
    assert_eq!(
        rules.to_string(),
        "%languages=text/x-a,text/x-b\n%ids=0,1000\n%names=1x,2\ndeny perm=any uid=%ids comm=%names : ftype=%languages\n"
    );
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let of = |class: &str, column, text: &str| (class.to_owned(), column, text.to_owned());
    for (text, expected) in [
        ("alow perm=any all : all", of("rules.unknown-decision", 1, "alow")),
        ("allow perm=exec all : all", of("rules.unknown-permission", 7, "perm=exec")),
        ("allow uid=0 perm=any : all", of("rules.misplaced-permission", 13, "perm=any")),
        ("allow perm=any all", of("rules.misplaced-permission", 7, "perm=any")),
        ("allow perm=any exec=/x : all", of("rules.unknown-field", 16, "exec=/x")),
        ("allow perm=any all : exe=/x", of("rules.unknown-field", 22, "exe=/x")),
        ("allow perm=any device=/dev/sda : all", of("rules.dropped-field", 16, "device=/dev/sda")),
        ("allow perm=any all : mode=755", of("rules.dropped-field", 22, "mode=755")),
        ("allow perm=any pattern ld_so : all", of("rules.missing-equals", 16, "pattern")),
        ("allow perm=any all : all : all", of("rules.missing-equals", 26, ":")),
        ("allow perm=any all : all # why", of("rules.missing-equals", 26, "#")),
        ("allow perm=any : all", of("rules.missing-subject", 21, "")),
        ("allow perm=any all :", of("rules.missing-object", 21, "")),
        ("allow all", of("rules.missing-object", 10, "")),
        ("allow perm=any exe=\"/a : all", of("rules.open-quote", 20, "\"/a : all")),
        ("allow perm=any exe=\"/a\"b : all", of("rules.after-quote", 20, "\"/a\"b")),
        ("allow perm=any exe=\"/a,/b\" : all", of("rules.comma-in-quote", 20, "\"/a,")),
        ("allow perm=any exe=/a\0b : all", of("rules.nul", 22, "\\u{0}")),
        ("%set", of("rules.set-without-values", 1, "%set")),
        ("%a-b=c", of("rules.set-name", 1, "%a-b=c")),
        ("%a=", of("rules.empty-set", 1, "%a=")),
        ("%a=b\n%a=c", of("rules.redefined-set", 1, "%a=c")),
        ("%a=/x /y", of("rules.after-set", 7, "/y")),
        ("%a=1,x", of("rules.mixed-set", 6, "x")),
        ("%a+=1", of("rules.not-extendable", 1, "%a+=1")),
        ("%languages+=a", of("rules.undefined-set", 1, "%languages+=a")),
        ("allow perm=any exe=%none : all", of("rules.undefined-set", 20, "%none")),
        ("%n=1,2\nallow perm=any exe=%n : all", of("rules.set-type", 20, "%n")),
        ("%n=a\nallow perm=any uid=%n : all", of("rules.set-type", 20, "%n")),
        ("%n=-1\nallow perm=any uid=%n : all", of("rules.number", 20, "%n")),
        ("%n=1\nallow perm=any trust=%n : all", of("rules.single-value", 22, "%n")),
        ("allow perm=any pattern=normal,static : all", of("rules.single-value", 24, "normal")),
        ("allow perm=any uid= : all", of("rules.no-value", 16, "uid=")),
        ("allow perm=any trust= : all", of("rules.no-value", 16, "trust=")),
        ("allow perm=any uid=0,12abc : all", of("rules.number", 22, "12abc")),
        ("allow perm=any auid=-1 : all", of("rules.number", 21, "-1")),
        ("allow perm=any uid=4294967296 : all", of("rules.number", 20, "4294967296")),
        ("allow perm=any uid=0,bob : all", of("rules.unknown-user", 22, "bob")),
        ("allow perm=any gid=bob : all", of("rules.unknown-group", 20, "bob")),
        ("allow perm=any all : trust=2", of("rules.trust", 28, "2")),
        ("allow perm=any pattern=ld_os : all", of("rules.unknown-pattern", 24, "ld_os")),
        ("allow perm=any all : dir=/a,glob:/x/*", of("rules.glob", 29, "glob:/x/*")),
        ("allow perm=any all : path=glob:x", of("rules.bad-glob", 27, "glob:x")),
        ("allow perm=any all : filehash=0xABC", of("rules.bad-hash", 31, "0xABC")),
        ("allow gid=0 all", of("rules.unknown-field", 7, "gid=0")),
    ] {
        assert_eq!(refused(text), expected, "{text}");
    }
    let said = read("\nallow perm=any exxe=/x : all").unwrap_err().to_string();
    assert_eq!(
        said,
        "x.rules:2:16: unknown subject field: `exxe=/x` [rules.unknown-field]\n  hint: did you mean `exe`?"
    );
}

#[test]
fn twenty_complaints_are_kept_and_the_rest_counted() {
    let Err(LoadError::Refused { complaints, more }) = read(&"nonsense\n".repeat(25)) else { panic!() };
    assert_eq!((complaints.len(), more), (20, 5));
}

#[test]
fn a_set_that_was_refused_is_complained_of_once() {
    let Err(LoadError::Refused { complaints, .. }) = read("%a=1,x\nallow uid=%a : all\nallow exe=%a : all\n")
    else {
        panic!()
    };
    assert_eq!(complaints.len(), 1, "{complaints:?}");
}

#[test]
fn meanings_that_are_easy_to_get_wrong() {
    let allows = |text: &str, facts: &Known| linear::decide(&rules(text), facts).decision.allow;
    let tmp = Known { path: b"/tmp2/x".to_vec(), ..Known::default() };
    assert!(!allows("deny perm=any all : dir=/tmp", &tmp), "dir compares bytes");
    assert!(allows("deny perm=any all : dir=/tmp/", &tmp));
    assert!(allows("deny perm=execute all : all", &tmp), "execute isn't open");
    assert!(!allows("deny all : all", &tmp), "open is the default");
    assert!(allows(
        "deny perm=any all : filehash=0000000000000000000000000000000000000000000000000000000000000000",
        &tmp
    ));
    assert!(!allows("deny perm=any all : dir=execdirs,/tmp2", &tmp), "keywords are alternatives");
    // The old cross-reference: a path at the position of the subject's `untrusted` requires an untrusted object.
    let facts = |trusted| Known { exe: b"/x".to_vec(), path: b"/y".to_vec(), trusted, ..Known::default() };
    assert!(!allows("deny perm=any exe=untrusted : path=/y", &facts(false)));
    assert!(allows("deny perm=any exe=untrusted : path=/y", &facts(true)));
    assert!(!allows(
        "deny perm=any uid=4294967295 exe=untrusted : path=/y",
        &Known { uids: vec![u32::MAX], ..facts(true) }
    ));
    let linker = Known { access: Access::Execute, start: Start::LinkerItself, ..Known::default() };
    assert!(!allows("deny_audit perm=any pattern=ld_so : all", &linker));
}

#[test]
fn toml_is_the_same_rules() {
    let text = r#"
        [guard.sets]
        python = ["/usr/bin/python3", "/usr/bin/py,thon"]

        [[guard.rule]]
        deny = "execute"
        log = "both"
        subject = { uid = ["alice", 5], exe = "%python" }
        object = { trust = false, dir = ["/tmp/", "/a b/"] }
        because = "why not"

        [[guard.rule]]
        allow = "any"
    "#;
    let mut parser = Parser::new(&Names, &[]);
    parser.toml(Path::new("p.toml"), text.as_bytes());
    let rules = parser.finish().unwrap();
    assert_eq!(
        rules.to_string(),
        "%python=/usr/bin/python3,\"/usr/bin/py\\,thon\"\ndeny_log perm=execute uid=1000,5 exe=%python : trust=0 dir=/tmp/,\"/a b/\"\nallow perm=any all : all\n"
    );
    assert_eq!(rules.origin(RuleId(0)).because.as_deref(), Some("why not"));
    assert_eq!(rules.origin(RuleId(1)).place.line, 12);
}

#[test]
fn what_the_build_of_fapolicyd_fills_in_can_be_given() {
    let placeholders =
        [Placeholder { name: "ld_so_path".into(), values: vec![Box::from(&b"/lib64/ld.so"[..])] }];
    let read = |text: &str| {
        let mut parser = Parser::new(&Names, &placeholders);
        parser.file(Path::new("x"), text.as_bytes());
        parser.finish()
    };
    let known = read("allow perm=execute all : path=%ld_so_path% trust=1").unwrap();
    assert_eq!(known.show(RuleId(0)), "allow perm=execute all : path=/lib64/ld.so trust=1");
    assert!(read("allow perm=execute all : path=%other_path% trust=1").is_err());
}

#[test]
fn any_toml_is_read_or_refused() {
    const PIECES: &[&str] = &[
        "[guard]\n",
        "[guard.sets]\n",
        "[[guard.rule]]\n",
        "a = ",
        "rule = ",
        "allow = ",
        "deny = ",
        "subject = ",
        "object = ",
        "\"any\"\n",
        "\"open\"\n",
        "{ uid = [0, \"root\"] }\n",
        "{ exe = \"%a\" }\n",
        "{ path = [\"/x,y\"] }\n",
        "{ trust = true }\n",
        "[1, 2]\n",
        "[\"b\"]\n",
        "log = \"both\"\n",
        "because = \"\"\n",
        "[",
        "]",
        "\n",
        "1\n",
        "\u{e9}",
    ];
    bolero::check!().with_type::<Vec<u8>>().for_each(|picks| {
        let text: String = picks.iter().map(|&pick| PIECES[usize::from(pick) % PIECES.len()]).collect();
        let mut parser = Parser::new(&Names, &[]);
        parser.toml(Path::new("fuzz.toml"), text.as_bytes());
        match parser.finish() {
            Ok(rules) => check(&rules.print_all()),
            Err(error) => drop(error.to_string()),
        }
        let mut parser = Parser::new(&Names, &[]);
        parser.toml(Path::new("fuzz.toml"), picks);
        let _ = parser.finish();
    });
}

#[test]
fn toml_is_refused_with_its_place() {
    for (text, class, at) in [
        ("[guard]\nruls = 1", "rules.unknown-key", "2:1"),
        ("[[guard.rule]]\nalow = \"any\"", "rules.unknown-key", "2:1"),
        ("[[guard.rule]]\nallow = \"any\"\ndeny = \"any\"", "rules.allow-or-deny", "3:1"),
        ("[[guard.rule]]\nlog = \"audit\"", "rules.allow-or-deny", "1:1"),
        ("[[guard.rule]]\nallow = \"any\"\nsubject = { uid = [0, \"bob\"] }", "rules.unknown-user", "3:23"),
        ("[[guard.rule]]\nallow = \"any\"\nobject = { trust = 1 }", "rules.wrong-type", "3:20"),
        (
            "[[guard.rule]]\nallow = \"any\"\nobject = { path = \"untrusted\" }",
            "rules.untrusted-word",
            "3:19",
        ),
        ("[guard", "rules.toml", "1:7"),
    ] {
        let mut parser = Parser::new(&Names, &[]);
        parser.toml(Path::new("p.toml"), text.as_bytes());
        let said = parser.finish().unwrap_err().to_string();
        assert!(said.contains(class) && said.starts_with(&format!("p.toml:{at}: ")), "{text}\n{said}");
    }
}

fn classes(text: &str) -> Vec<String> {
    let rules = rules(text);
    lint(&rules).iter().map(|finding| format!("{} {}", finding.class(), finding.message(&rules))).collect()
}

#[test]
fn lint_finds_what_was_not_meant() {
    const END: &str = "deny perm=any all : all\n";
    for (text, class) in [
        ("allow perm=any all : dir=/usr/\ndeny perm=open uid=0 : path=/usr/bin/x\n", "lint.shadowed"),
        ("allow perm=any uid=0,1 : all\ndeny perm=open uid=1 trust=0 : all\n", "lint.shadowed"),
        ("deny perm=open uid=1 : all\ndeny perm=open uid=1 : all\n", "lint.duplicate"),
        ("deny perm=any all : dir=/usr/ path=/etc/x\n", "lint.never-matches"),
        ("deny perm=any all : path=\n", "lint.never-matches"),
        ("deny perm=any trust=1 trust=0 : all\n", "lint.never-matches"),
        ("%a=/x\n", "lint.unused-set"),
        ("deny perm=any exe=untrusted : all\n", "lint.deprecated"),
        ("deny exe=/x all\n", "lint.deprecated"),
        (
            "deny all : sha256hash=0000000000000000000000000000000000000000000000000000000000000000\n",
            "lint.deprecated",
        ),
        ("deny perm=any all trust=1 : all\n", "lint.needless-all"),
        ("deny perm=any all : dir=/tmp\n", "lint.open-ended-directory"),
        ("deny_audit perm=any uid=5 : all\n", "lint.audits"),
    ] {
        let found = classes(&format!("{text}{END}"));
        assert!(found.len() == 1 && found[0].starts_with(class), "{text}{found:?}");
    }
    assert_eq!(classes(END), Vec::<String>::new());
    assert_eq!(classes("deny perm=execute all : all").len(), 1);
    assert_eq!(
        classes("allow perm=any all : dir=/usr/\nallow perm=any all : dir=/us\n")
            .iter()
            .filter(|it| it.contains("shadowed"))
            .count(),
        0
    );
}

/// Removing a rule that is reported as shadowed changes nothing.
#[test]
fn shadowed_rules_can_go() {
    use proptest::prelude::*;
    proptest!(ProptestConfig::with_cases(60), |(
        lines in proptest::collection::vec(sample::line(), 0..12),
        accesses in proptest::collection::vec((sample::subject(), sample::object()), 20),
    )| {
        let text = String::from_utf8(lines.concat()).unwrap();
        let whole = rules(&text);
        let gone: Vec<usize> = lint(&whole).iter().filter_map(|finding| match finding {
            Finding::Shadowed { rule, .. } | Finding::Duplicate { rule, .. } | Finding::NeverMatches { rule, .. } => Some(rule.0 as usize),
            _ => None,
        }).collect();
        let kept: Vec<&str> = text.lines().enumerate().filter(|(at, _)| !gone.contains(at)).map(|(_, line)| line).collect();
        let less = rules(&kept.join("\n"));
        for (subject, object) in &accesses {
            let facts = sample::join(subject, object);
            prop_assert_eq!(linear::decide(&whole, &facts).decision, linear::decide(&less, &facts).decision);
        }
    });
}

#[test]
fn the_rules_that_fapolicyd_ships_load_as_they_are() {
    struct Mock;
    impl palisade_guard::rule::accounts::Accounts for Mock {
        fn user(&self, name: &[u8]) -> Option<u32> {
            Names.user(name).or((name == b"mock").then_some(990))
        }
        fn group(&self, name: &[u8]) -> Option<u32> {
            Names.group(name)
        }
    }
    let mut units: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    let installed = Path::new("/usr/share/fapolicyd/sample-rules");
    match std::fs::read_dir(installed) {
        Ok(entries) => units.extend(entries.filter_map(|entry| {
            let path = entry.unwrap().path();
            (path.extension()? == "rules").then(|| (path.clone(), std::fs::read(&path).unwrap()))
        })),
        Err(_) => println!("skipped: no {}", installed.display()),
    }
    // The sources of a newer version, if available: FAPOLICYD_SOURCES is the path of their git directory.
    if let Some(git) = std::env::var_os("FAPOLICYD_SOURCES") {
        let show = |what: &str| {
            Command::new("git").arg("--git-dir").arg(&git).args(["show", what]).output().unwrap().stdout
        };
        let list = String::from_utf8(show("HEAD:rules.d")).unwrap();
        units.extend(
            list.lines()
                .filter(|name| name.ends_with(".rules"))
                .map(|name| (PathBuf::from("new").join(name), show(&format!("HEAD:rules.d/{name}")))),
        );
    }
    units.sort();
    for directory in ["/usr/share/fapolicyd/sample-rules", "new"] {
        let placeholders = ["ld_so_path", "python2_path", "python3_path"]
            .map(|name| Placeholder { name: name.into(), values: vec![Box::from(&b"/usr/bin/x"[..])] });
        let mut parser = Parser::new(&Mock, &placeholders);
        for (path, content) in units.iter().filter(|(path, _)| path.starts_with(directory)) {
            parser.file(path, content);
        }
        let rules = parser.finish().unwrap_or_else(|error| panic!("{error}"));
        println!("{directory}: {} rules", rules.len());
    }
}

#[test]
fn any_bytes_are_read_or_refused() {
    bolero::check!().for_each(|bytes: &[u8]| check(bytes));
}

/// Pieces of lines, so that random input gets past the first word.
#[test]
fn any_pieces_are_read_or_refused() {
    const PIECES: &[&str] = &[
        "allow",
        "deny_audit",
        " ",
        " ",
        "perm=",
        "any",
        "execute",
        "all",
        " : ",
        "\n",
        "\r\n",
        "uid=",
        "0",
        "root",
        "-1",
        ",",
        "exe=",
        "/usr/bin/vi",
        "\"",
        "\\",
        "\\\"",
        "glob:",
        "/home/*",
        "dir=",
        "untrusted",
        "trust=",
        "1",
        "%a",
        "%a=",
        "%languages",
        "+=",
        "path=",
        "ftype=",
        "pattern=",
        "ld_so",
        "#",
        "\t",
        "\0",
        "=",
        "filehash=",
        "%",
    ];
    bolero::check!().with_type::<Vec<u8>>().for_each(|picks| {
        let text: String = picks.iter().map(|&pick| PIECES[usize::from(pick) % PIECES.len()]).collect();
        check(text.as_bytes());
    });
}

fn check(bytes: &[u8]) {
    match parse(Path::new("fuzz"), bytes, &Names) {
        Ok(rules) => {
            let printed = rules.print_all();
            let again = parse(Path::new("printed"), &printed, &Names)
                .unwrap_or_else(|error| panic!("{}\n{error}", printed.escape_ascii()));
            assert_eq!(printed, again.print_all());
            let _ = lint(&rules);
        }
        Err(error) => drop(error.to_string()),
    }
}
