// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads exported texts as the other sandboxes would.

use super::{Subject, seatbelt, srt};
use palisade_policy::{Context, Layer, Policy, Resolved, built_in, merge, parse};
use std::collections::BTreeSet;

const PROFILE: &str = r#"
schema = 1
name = "work"
[default.filesystem]
write = [".", "~/out"]
execute = [".", "~/a\"b"]
read = ["~/data"]
[filesystem]
view = "host"
working_directory = false
hide = ["~/.ssh", "./**/.env", "*.p[em]"]
deny = ["~/out/kept"]
tmpfs = ["./scratch"]
protect_paths = ["./dist", "~/out/**/*.key"]
[network]
mode = "filtered"
allow = ["example.com", "*.example.org:443", "*", "10.0.0.0/8", "single"]
deny = ["bad.example.com", "*:22"]
reach = [5432]
publish = ["8080:80"]
[limits]
open_files = 64
[environment]
remove = ["SECRET"]
"#;

fn read(text: &str) -> (Policy, Resolved) {
    let policy = merge(vec![built_in(), parse(text, None, Layer::User).unwrap()]);
    let context = Context {
        home: "/home/ann".into(),
        cwd: "/srv/w".into(),
        user: "ann".to_owned(),
        uid: 1000,
        ..Context::default()
    };
    let resolved = policy.resolve(&context).unwrap();
    (policy, resolved)
}

/// An expression of Seatbelt's language.
#[derive(Debug, PartialEq)]
enum Expression {
    Word(String),
    Text(String),
    Regex(String),
    List(Vec<Expression>),
}

/// Reads all expressions of a text.
fn expressions(text: &str) -> Result<Vec<Expression>, String> {
    let mut open: Vec<Vec<Expression>> = vec![Vec::new()];
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let made = match c {
            ';' => {
                while rest.next_if(|c| *c != '\n').is_some() {}
                continue;
            }
            c if c.is_whitespace() => continue,
            '(' => {
                open.push(Vec::new());
                continue;
            }
            ')' if open.len() > 1 => Expression::List(open.pop().unwrap()),
            ')' => return Err("a list is closed that isn't open".to_owned()),
            '"' => {
                let mut text = String::new();
                loop {
                    match rest.next().ok_or("a text has no end")? {
                        '"' => break,
                        '\\' => text.push(rest.next().ok_or("a text has no end")?),
                        c => text.push(c),
                    }
                }
                Expression::Text(text)
            }
            '#' if rest.next_if_eq(&'"').is_some() => {
                let mut regex = String::new();
                loop {
                    match rest.next().ok_or("an expression has no end")? {
                        '"' => break,
                        c => regex.push(c),
                    }
                }
                Expression::Regex(regex)
            }
            c => {
                let mut word = c.to_string();
                while let Some(c) = rest.next_if(|c| !c.is_whitespace() && !"()\";".contains(*c)) {
                    word.push(c);
                }
                Expression::Word(word)
            }
        };
        open.last_mut().unwrap().push(made);
    }
    if open.len() == 1 { Ok(open.remove(0)) } else { Err("a list isn't closed".to_owned()) }
}

const OPERATIONS: [&str; 17] = [
    "default",
    "file-ioctl",
    "file-read*",
    "file-read-metadata",
    "file-write*",
    "file-write-data",
    "network*",
    "network-bind",
    "network-inbound",
    "network-outbound",
    "process-exec",
    "process-fork",
    "process-info*",
    "pseudo-tty",
    "signal",
    "sysctl-read",
    "mach-lookup",
];

/// Checks one rule, and returns its verdict, its operations and its filters.
fn rule(expression: &Expression) -> (bool, Vec<String>, Vec<String>) {
    let Expression::List(parts) = expression else { panic!("{expression:?}") };
    let [Expression::Word(verb), rest @ ..] = parts.as_slice() else { panic!("{parts:?}") };
    assert!(["allow", "deny"].contains(&verb.as_str()), "{verb}");
    let (mut operations, mut filters) = (Vec::new(), Vec::new());
    for part in rest {
        match part {
            Expression::Word(operation) => {
                assert!(filters.is_empty(), "operations come first: {parts:?}");
                assert!(OPERATIONS.contains(&operation.as_str()), "{operation}");
                operations.push(operation.clone());
            }
            Expression::List(filter) => match filter.as_slice() {
                [Expression::Word(word), Expression::Text(path)]
                    if word == "subpath" || word == "literal" =>
                {
                    assert!(path.starts_with('/'), "{path}");
                    filters.push(path.clone());
                }
                [Expression::Word(word), Expression::Regex(regex)] if word == "regex" => {
                    filters.push(regex.clone());
                }
                [Expression::Word(word), Expression::Word(target)] if word == "target" => {
                    assert_eq!(target, "same-sandbox");
                }
                [Expression::Word(word), Expression::Word(kind), Expression::Text(place)] => {
                    assert!(["local", "remote"].contains(&word.as_str()) && kind == "tcp", "{filter:?}");
                    filters.push(place.clone());
                }
                _ => panic!("{filter:?}"),
            },
            _ => panic!("{part:?}"),
        }
    }
    assert!(!operations.is_empty(), "{parts:?}");
    (verb == "allow", operations, filters)
}

#[test]
fn a_seatbelt_profile_is_well_formed_and_refuses_last() {
    let (policy, resolved) = read(PROFILE);
    let exported =
        seatbelt::export(&Subject { name: "work\n(allow default)", policy: &policy, resolved: &resolved });
    let all = expressions(&exported.text).unwrap_or_else(|error| panic!("{error}\n{}", exported.text));
    let [Expression::List(version), rules @ ..] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(
        version.as_slice(),
        [Expression::Word("version".to_owned()), Expression::Word("1".to_owned())]
    );
    let rules: Vec<_> = rules.iter().map(rule).collect();
    assert_eq!(rules[0], (false, vec!["default".to_owned()], Vec::new()));
    // The last rule on an operation at a path that is named plainly.
    let verdict = |operation: &str, path: &str| {
        let on = |filters: &[String]| {
            filters
                .iter()
                .any(|filter| filter == "/" || path == filter || path.starts_with(&format!("{filter}/")))
        };
        let last = rules.iter().rev().find(|(_, operations, filters)| {
            operations.iter().any(|known| known == operation) && on(filters)
        });
        last.is_some_and(|(allow, ..)| *allow)
    };
    for (operation, path, allowed) in [
        ("file-read*", "/etc/passwd", true),
        ("file-write*", "/etc/passwd", false),
        ("file-write*", "/srv/w/x", true),
        ("process-exec", "/srv/w/x", true),
        ("file-write*", "/srv/w/dist/x", false),
        ("file-read*", "/srv/w/scratch/x", false),
        ("file-read*", "/home/ann/.ssh/id", false),
        ("file-write*", "/home/ann/out/x", true),
        ("file-read*", "/home/ann/out/kept", false),
        ("process-exec", "/home/ann/data/x", false),
        ("process-exec", "/home/ann/a\"b", true),
    ] {
        assert_eq!(verdict(operation, path), allowed, "{operation} {path}\n{}", exported.text);
    }
    let regexes: BTreeSet<&str> = rules
        .iter()
        .filter(|(allow, ..)| !allow)
        .flat_map(|(_, _, filters)| filters.iter().map(String::as_str))
        .collect();
    for regex in [
        "^/srv/w/([^/]+/)*\\.env(/.*)?$",
        "^/srv/w/([^/]+/)*[^/]*\\.p[em](/.*)?$",
        "^/home/ann/out/([^/]+/)*[^/]*\\.key(/.*)?$",
        "/\\.git/hooks(/.*)?$",
    ] {
        assert!(regexes.contains(regex), "{regex} in {regexes:#?}");
    }
    let missing: Vec<String> = exported.missing.iter().map(ToString::to_string).collect();
    for part in ["network.allow = \"example.com\"", "tmpfs", "limits.open_files = 64", "environment.remove"] {
        assert!(missing.iter().any(|line| line.contains(part)), "{part}: {missing:#?}");
    }
    assert!(!exported.text.contains("network-outbound (remote tcp \"example.com"), "{}", exported.text);
    assert!(exported.text.contains("(allow network-outbound (remote tcp \"localhost:5432\"))"));
    assert!(expressions("(a").is_err() && expressions("a)").is_err() && expressions("\"").is_err());
}

#[test]
fn settings_of_sandbox_runtime_have_the_members_that_it_takes() {
    let (policy, resolved) = read(PROFILE);
    let exported = srt::export(&Subject { name: "work", policy: &policy, resolved: &resolved });
    let settings: serde_json::Value = serde_json::from_str(&exported.text).unwrap();
    let list = |path: &str| -> Vec<String> {
        let list = settings.pointer(path).unwrap().as_array().unwrap();
        list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let allowed: BTreeSet<String> = list("/network/allowedDomains").into_iter().collect();
    assert_eq!(allowed, ["example.com", "*.example.org:443"].map(str::to_owned).into());
    assert_eq!(list("/network/deniedDomains"), ["bad.example.com", "*:22"]);
    for domain in list("/network/allowedDomains") {
        assert!(srt::is_domain(srt::split(&domain).0), "{domain}");
    }
    let refused = list("/filesystem/denyRead");
    for path in ["/home/ann/.ssh", "/home/ann/out/kept", "/srv/w/scratch", "/srv/w/**/.env"] {
        assert!(refused.contains(&path.to_owned()), "{path}: {refused:?}");
    }
    assert_eq!(list("/filesystem/allowWrite"), ["/srv/w", "/home/ann/out"]);
    assert!(list("/filesystem/denyWrite").contains(&"/srv/w/dist".to_owned()));
    let missing: Vec<String> = exported.missing.iter().map(ToString::to_string).collect();
    for part in
        ["network.allow = \"*\"", "10.0.0.0/8", "\"single\"", "network.reach = 5432", "without execution"]
    {
        assert!(missing.iter().any(|line| line.contains(part)), "{part}: {missing:#?}");
    }
    // Members and their types, as the schema of its version 0.0.78 has them.
    let members = |value: &serde_json::Value| -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(members(&settings), ["filesystem", "network"].map(str::to_owned).into());
    assert!(
        members(&settings["network"])
            .is_subset(&["allowedDomains", "deniedDomains", "strictAllowlist"].map(str::to_owned).into())
    );
    assert!(
        members(&settings["filesystem"])
            .is_subset(&["denyRead", "allowRead", "allowWrite", "denyWrite"].map(str::to_owned).into())
    );
    for text in ["localhost", "[::1]", "a.b", "*.a.b"] {
        assert!(srt::is_domain(text), "{text}");
    }
    for text in ["*", "*.com", "single", "10.0.0.0/8", "a.", "*a.b.c"] {
        assert!(!srt::is_domain(text), "{text}");
    }
}

#[test]
fn settings_that_are_exported_and_imported_again_allow_no_more() {
    let text = PROFILE.replace("view = \"host\"", "view = \"system\"");
    let (policy, resolved) = read(&text);
    let exported = srt::export(&Subject { name: "work", policy: &policy, resolved: &resolved });
    let mut draft = crate::draft::Draft::default();
    let host = crate::profile::Host {
        home: std::path::Path::new("/home/ann"),
        config: std::path::Path::new("/home/ann/.config"),
        uid: 1000,
    };
    let file = std::path::Path::new("/nonexistent/x.json");
    crate::agents::import(crate::profile::Agent::Srt, file, &exported.text, &host, &mut draft).unwrap();
    let (_again, again) = read(&draft.document.render());
    for path in [
        "/home/ann/.ssh/id",
        "/home/ann/other",
        "/srv/w/x",
        "/srv/w/.env",
        "/srv/w/a/.env",
        "/srv/w/dist/x",
        "/srv/w/scratch/x",
        "/home/ann/out/x",
        "/home/ann/out/a/b.key",
        "/home/ann/out/kept/x",
        "/home/ann/data/x",
    ] {
        let (before, after) = (resolved.decide(path.as_ref()), again.decide(path.as_ref()));
        let write = |decision: &palisade_policy::Decision| {
            matches!(decision.grant, palisade_policy::Grant::Allowed { write: true, .. })
                && decision.protected.is_none()
        };
        let read = |decision: &palisade_policy::Decision| {
            matches!(decision.grant, palisade_policy::Grant::Allowed { .. })
        };
        assert!(read(&before) || !read(&after), "{path}: {before:?} {after:?}");
        assert!(write(&before) || !write(&after), "{path}: {before:?} {after:?}");
    }
}
