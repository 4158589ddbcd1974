// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of precedence. Each row: the rules as (layer, strength, list, path), a path, and the policy's decision
//! about it.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::Path;

use palisade_policy::{
    Access, Context, Grant, Hint, Layer, LayerPolicy, Origin, PathPattern, PathRule, Policy, Resolved,
    Strength, Wanted, merge,
};

use Access::{Deny, Execute, Hide, Read, Tmpfs, Write};
use Layer::{Administrator, BuiltIn, CommandLine, Distribution, Project, User};
use Strength::{Default, Locked, Set};

type Rule = (Layer, Strength, Access, &'static str);

const R: Grant = Grant::Allowed { write: false, execute: false };
const RW: Grant = Grant::Allowed { write: true, execute: false };
const RX: Grant = Grant::Allowed { write: false, execute: true };
const RWX: Grant = Grant::Allowed { write: true, execute: true };

fn context() -> Context {
    Context {
        home: "/home/ann".into(),
        cwd: "/home/ann/app".into(),
        project: Some("/home/ann/app".into()),
        user: "ann".into(),
        uid: 1000,
        runtime_dir: None,
        ..Context::default()
    }
}

fn policy(rules: &[Rule]) -> Policy {
    merge(
        rules
            .iter()
            .map(|&(layer, strength, access, text)| {
                let (pattern, destination) = PathPattern::with_destination(text).unwrap();
                let mut policy = LayerPolicy::empty(layer, None);
                policy.settings.paths.push(PathRule {
                    pattern,
                    destination,
                    access,
                    origin: Origin { layer, file: None, line: 0, column: 0 },
                    strength,
                });
                policy
            })
            .collect(),
    )
}

fn resolved(rules: &[Rule]) -> Resolved {
    policy(rules).resolve(&context()).unwrap()
}

#[rustfmt::skip]
const TABLE: &[(&str, &[Rule], &str, Grant)] = &[
    ("nothing speaks", &[(User, Set, Read, "/a")], "/b", Grant::Absent),
    ("a name is not a prefix", &[(User, Set, Read, "/a")], "/ab", Grant::Absent),
    ("below a rule", &[(User, Set, Read, "/a")], "/a/b/c", R),

    // Inside one layer: the most specific path.
    ("deeper allows", &[(User, Set, Deny, "/a"), (User, Set, Read, "/a/b")], "/a/b/c", R),
    ("deeper denies", &[(User, Set, Write, "/a"), (User, Set, Deny, "/a/b")], "/a/b/c", Grant::Denied),
    ("deeper narrows", &[(User, Set, Execute, "/a"), (User, Set, Write, "/a/b")], "/a/b", RW),
    ("a glob deeper", &[(User, Set, Write, "."), (User, Set, Hide, "**/.env")], "/home/ann/app/x/.env", Grant::Hidden),
    ("a bare glob, any depth", &[(User, Set, Write, "."), (User, Set, Hide, "*.pem")], "/home/ann/app/x/k.pem", Grant::Hidden),
    ("below a glob's match", &[(User, Set, Write, "."), (User, Set, Hide, "**/.git")], "/home/ann/app/.git/config", Grant::Hidden),
    ("a plain path beats a glob", &[(User, Set, Read, "./.env"), (User, Set, Hide, "**/.env")], "/home/ann/app/.env", R),
    ("an exception to everything below", &[(User, Set, Hide, "/a/**"), (User, Set, Read, "/a/b")], "/a/b/c", R),
    ("the longer plain beginning", &[(User, Set, Hide, "/a/**/x"), (User, Set, Read, "/a/b/**/x")], "/a/b/x", R),

    // Equally specific: deny, hide, tmpfs; grants add up.
    ("grants add up", &[(User, Set, Write, "/a"), (User, Set, Execute, "/a")], "/a", RWX),
    ("write does not execute", &[(User, Set, Write, "/a")], "/a", RW),
    ("execute does not write", &[(User, Set, Execute, "/a")], "/a", RX),
    ("deny beats hide", &[(User, Set, Deny, "/a"), (User, Set, Hide, "/a")], "/a", Grant::Denied),
    ("deny beats grants", &[(User, Set, Deny, "/a"), (User, Set, Write, "/a")], "/a", Grant::Denied),
    ("hide beats grants", &[(User, Set, Write, "/a"), (User, Set, Hide, "/a")], "/a", Grant::Hidden),
    ("tmpfs beats grants", &[(User, Set, Write, "/a"), (User, Set, Tmpfs, "/a")], "/a", Grant::Tmpfs),
    ("spelling does not count", &[(User, Set, Deny, "~/app"), (User, Set, Write, ".")], "/home/ann/app", Grant::Denied),

    // Across layers: the later one, however specific.
    ("later allows", &[(BuiltIn, Set, Deny, "/a"), (User, Set, Read, "/a")], "/a", R),
    ("later denies", &[(User, Set, Write, "/a"), (CommandLine, Set, Deny, "/a")], "/a", Grant::Denied),
    ("later and wider", &[(BuiltIn, Set, Hide, "/a/b"), (User, Set, Read, "/a")], "/a/b", R),
    ("later and wider, over a glob", &[(User, Set, Hide, "**/.env"), (CommandLine, Set, Read, ".")], "/home/ann/app/.env", R),
    ("later replaces", &[(User, Set, Write, "/a"), (CommandLine, Set, Execute, "/a")], "/a", RX),
    ("order given does not count", &[(CommandLine, Set, Read, "/a"), (User, Set, Write, "/a")], "/a", R),
    ("each layer over the one before", &[
        (BuiltIn, Set, Write, "/a"), (Distribution, Set, Deny, "/a"), (Administrator, Set, Read, "/a"),
        (User, Set, Hide, "/a"), (Project, Set, Execute, "/a"), (CommandLine, Set, Tmpfs, "/a"),
    ], "/a", Grant::Tmpfs),

    // Strengths inside a layer.
    ("set beats default", &[(User, Set, Read, "/a"), (User, Default, Deny, "/a/b")], "/a/b", R),
    ("locked beats set", &[(Administrator, Locked, Deny, "/a"), (Administrator, Set, Read, "/a/b")], "/a/b", Grant::Denied),
    ("a later default still wins", &[(User, Set, Write, "/a"), (Project, Default, Read, "/a")], "/a", R),

    // Locks.
    ("a lock beats what came before", &[(BuiltIn, Set, Write, "/a"), (Administrator, Locked, Read, "/a")], "/a", R),
    ("a lock is not loosened", &[(Administrator, Locked, Deny, "/a"), (User, Set, Read, "/a")], "/a", Grant::Denied),
    ("not below either", &[(Administrator, Locked, Deny, "/a"), (CommandLine, Set, Read, "/a/b")], "/a/b", Grant::Denied),
    ("not from above either", &[(Administrator, Locked, Hide, "/a/b"), (CommandLine, Set, Write, "/a")], "/a/b", Grant::Hidden),
    ("not by a glob", &[(Administrator, Locked, Hide, "/a/b"), (CommandLine, Set, Write, "/a/*")], "/a/b", Grant::Hidden),
    ("not by a private place", &[(Administrator, Locked, Deny, "/a"), (User, Set, Tmpfs, "/a")], "/a", Grant::Denied),
    ("not by another lock", &[(Distribution, Locked, Deny, "/a"), (Administrator, Locked, Read, "/a")], "/a", Grant::Denied),
    ("not bit by bit", &[(Administrator, Locked, Write, "/a"), (User, Set, Execute, "/a")], "/a", R),
    ("a lock can be tightened", &[(Administrator, Locked, Write, "/a"), (User, Set, Deny, "/a")], "/a", Grant::Denied),
    ("and tightened in part", &[(Administrator, Locked, Write, "/a"), (User, Set, Read, "/a")], "/a", R),
    ("and loosened again to the lock", &[(Administrator, Locked, Write, "/a"), (User, Set, Deny, "/a"), (CommandLine, Set, Write, "/a")], "/a", RW),
    ("by another lock", &[(Distribution, Locked, Write, "/a"), (Administrator, Locked, Read, "/a"), (User, Set, Write, "/a")], "/a", R),
    ("locks inside one layer: the closer", &[(Administrator, Locked, Deny, "/a"), (Administrator, Locked, Read, "/a/b"), (User, Set, Write, "/a/b")], "/a/b", R),
    ("a lock elsewhere does not count", &[(Administrator, Locked, Deny, "/a"), (User, Set, Read, "/b")], "/b", R),

    // Paths that are mapped elsewhere.
    ("mapped", &[(User, Set, Read, "/a=/b")], "/b/x", R),
    ("not where it came from", &[(User, Set, Read, "/a=/b")], "/a/x", Grant::Absent),
    ("a lock follows", &[(Administrator, Locked, Deny, "/a/s"), (User, Set, Write, "/a=/b")], "/b/s/x", Grant::Denied),
    ("a lock follows from above", &[(Administrator, Locked, Read, "/a"), (User, Set, Write, "/a/s=/b")], "/b/x", R),
    ("a locked glob follows", &[(Administrator, Locked, Hide, "/a/**/.env"), (User, Set, Write, "/a/s=/b")], "/b/x/.env", Grant::Hidden),
    ("a locked glob above follows", &[(Administrator, Locked, Hide, "/a/*"), (User, Set, Write, "/a/s/t=/b")], "/b/x", Grant::Hidden),
    ("a hidden name follows", &[(User, Set, Hide, "/a/s"), (User, Set, Write, "/a=/b")], "/b/s", Grant::Hidden),
    ("and can be overridden", &[(BuiltIn, Set, Hide, "/a/s"), (User, Set, Write, "/a=/b")], "/b/s", RW),
    ("an exception stays one", &[(User, Set, Hide, "/a"), (User, Set, Read, "/a/s=/b")], "/b", R),
    ("nothing else in a locked place", &[(Administrator, Locked, Read, "/etc"), (User, Set, Read, "/x=/etc/ssl")], "/etc/ssl", R),
];

#[test]
fn the_truth_table() {
    for (what, rules, path, expected) in TABLE {
        let decision = resolved(rules).decide(Path::new(path));
        assert_eq!(decision.grant, *expected, "{what}: {decision:#?}");
        assert_eq!(decision.because.is_empty(), *expected == Grant::Absent, "{what}");
    }
}

#[test]
fn what_is_locked_in_a_place_stays_what_it_is() {
    let resolved = resolved(&[(Administrator, Locked, Read, "/etc"), (User, Set, Read, "/x=/etc/ssl")]);
    let decision = resolved.decide(Path::new("/etc/ssl/certs"));
    assert_eq!(decision.source.as_deref(), Some(Path::new("/etc/ssl/certs")));
    assert_eq!(decision.overridden.len(), 1);
}

#[test]
fn what_is_wholly_overridden_is_gone() {
    let resolved = resolved(&[
        (BuiltIn, Set, Hide, "/a/b"),
        (BuiltIn, Set, Hide, "/a/**/.env"),
        (BuiltIn, Set, Read, "/c"),
        (User, Set, Write, "/a"),
        (User, Set, Read, "/a/b/c=/d"),
    ]);
    let paths: Vec<_> =
        resolved.effective().into_iter().map(|path| (path.source, path.destination, path.grant)).collect();
    assert_eq!(
        paths,
        [("/a".into(), "/a".into(), RW), ("/c".into(), "/c".into(), R), ("/a/b/c".into(), "/d".into(), R),]
    );
    // What remains of the glob is its copy for the mapped path, which is also overridden there.
    assert_eq!(resolved.globs(), []);
}

#[test]
fn a_hint_works_and_never_proposes_what_a_lock_forbids() {
    let resolved = resolved(&[
        (Administrator, Locked, Deny, "/srv"),
        (Administrator, Locked, Read, "/opt"),
        (User, Set, Hide, "~/.ssh"),
        (User, Set, Read, "~/it's"),
        (User, Set, Read, "/a=/b"),
    ]);
    let hint = |path: &str, wanted| resolved.hint(Path::new(path), wanted);
    let option = |text: &str| Hint::Option(text.to_owned());
    assert_eq!(hint("/opt/x", Wanted::Read), Hint::Allowed);
    assert!(matches!(hint("/opt/x", Wanted::Write), Hint::Locked(_)));
    assert!(matches!(hint("/opt/x", Wanted::Execute), Hint::Locked(_)));
    assert!(matches!(hint("/srv/x", Wanted::Read), Hint::Locked(_)));
    assert_eq!(hint("/home/ann/.ssh", Wanted::Read), option("--ro /home/ann/.ssh"));
    assert_eq!(hint("/home/ann/it's", Wanted::Write), option(r"--rw '/home/ann/it'\''s'"));
    assert_eq!(hint("/x=[1]", Wanted::Write), option(r"--rw '/x\=\[1\]'"));
    assert_eq!(hint("/b/x", Wanted::Write), option("--rw /a/x=/b/x"));
}

#[test]
fn single_values_follow_the_same_order() {
    let text = |strength: &str, mode: &str| format!("schema = 1\n[{strength}network]\nmode = \"{mode}\"\n");
    let parse = |layer, strength, mode| palisade_policy::parse(&text(strength, mode), None, layer).unwrap();
    let mode = |layers: Vec<LayerPolicy>| {
        let network = merge(layers).network();
        (network.value.key(), network.origin.layer)
    };
    assert_eq!(mode(vec![]), ("none", BuiltIn));
    assert_eq!(mode(vec![parse(User, "", "host"), parse(BuiltIn, "", "none")]), ("host", User));
    assert_eq!(mode(vec![parse(User, "", "host"), parse(Project, "default.", "none")]), ("none", Project));
    let lock = parse(Administrator, "locked.", "none");
    assert_eq!(mode(vec![lock.clone(), parse(CommandLine, "", "host")]), ("none", Administrator));
    assert_eq!(mode(vec![parse(Distribution, "", "host"), lock]), ("none", Administrator));
    let open = parse(Administrator, "locked.", "host");
    assert_eq!(mode(vec![open, parse(User, "", "none")]), ("none", User));
}

#[test]
fn limits_and_calls_follow_it_too() {
    let parse =
        |layer, text: &str| palisade_policy::parse(&format!("schema = 1\n{text}"), None, layer).unwrap();
    let policy = merge(vec![
        parse(Administrator, "[locked.limits]\nmemory = \"1G\"\n[locked.syscalls]\ndeny = [\"bpf\"]"),
        parse(
            User,
            "[limits]\nmemory = \"2G\"\nopen_files = 10\n[syscalls]\nallow = [\"bpf\", \"ptrace\", \"mount\"]\ndeny = [\"mount\"]",
        ),
        parse(CommandLine, "[limits]\nmemory = \"512M\"\nopen_files = \"unlimited\"\n"),
    ]);
    let limits: Vec<String> = policy
        .limits()
        .into_iter()
        .map(|(limit, amount)| format!("{limit} {}", limit.unit().display(amount.value)))
        .collect();
    assert_eq!(limits, ["memory 512M", "open_files unlimited"]);
    let calls = policy.syscalls();
    let names = |list: Vec<palisade_policy::Sourced<String>>| -> Vec<String> {
        list.into_iter().map(|call| call.value).collect()
    };
    assert_eq!(names(calls.allow), ["ptrace"]);
    assert_eq!(names(calls.deny), ["bpf", "mount"]);
}

#[test]
fn what_this_launch_does_not_have_is_left_out_only_if_that_allows_less() {
    let granted = policy(&[(User, Set, Read, "${runtime}/bus")]);
    assert_eq!(granted.resolve(&context()).unwrap().skipped().len(), 1);
    let hidden = policy(&[(User, Set, Hide, "${runtime}/bus")]);
    assert!(hidden.resolve(&context()).is_err());
}
