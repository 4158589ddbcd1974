// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::layer::Layer;

fn rule(layer: Layer, strength: Strength, value: EnvironmentRule) -> Sourced<EnvironmentRule> {
    Sourced { value, origin: Origin { layer, file: None, line: 0, column: 0 }, strength }
}

fn keep(glob: &str) -> EnvironmentRule {
    EnvironmentRule::keep(glob).unwrap()
}

fn remove(glob: &str) -> EnvironmentRule {
    EnvironmentRule::remove(glob).unwrap()
}

fn set(name: &str, value: &str) -> EnvironmentRule {
    EnvironmentRule::set(name, value).unwrap()
}

#[test]
fn stars_match_any_bytes() {
    for (glob, name, expected) in [
        ("*", "", true),
        ("A*", "A", true),
        ("*_TOKEN", "X_TOKEN", true),
        ("*_TOKEN", "X_TOKEN_Y", false),
        ("A*B*C", "AxxBxxC", true),
        ("A*B*C", "AxxBxx", false),
        ("*AB", "AAB", true),
        ("A*A", "A", false),
        ("A*A", "AA", true),
        ("*B*", "ABC", true),
        ("*B*", "AC", false),
        ("A**C", "AC", true),
        ("", "", true),
        ("", "a", false),
    ] {
        assert_eq!(matches(glob.as_bytes(), name.as_bytes()), expected, "{glob} {name}");
    }
    assert!(matches(b"A*", b"A\xff"));
}

#[test]
fn the_layers_and_strengths_of_rules_count() {
    use Layer::{Administrator, CommandLine, User};
    use Strength::{Locked, Set};
    let filter = Filter::new(vec![
        rule(Administrator, Locked, remove("CORP_*")),
        rule(Administrator, Locked, set("PROXY", "http://p")),
        rule(User, Set, keep("GITHUB_TOKEN")),
        rule(User, Set, remove("FOO*")),
        rule(User, Set, keep("FOO_BAR")),
        rule(User, Set, keep("BOTH")),
        rule(User, Set, remove("BOTH")),
        rule(User, Set, set("TWICE", "1")),
        rule(CommandLine, Set, set("TWICE", "2")),
        rule(CommandLine, Set, keep("CORP_ID")),
        rule(CommandLine, Set, set("CORP_X", "x")),
        rule(CommandLine, Set, remove("PROXY")),
    ]);
    let fate = |name: &str| filter.judge(name.as_bytes()).0;
    assert_eq!(fate("GITHUB_TOKEN"), Fate::Kept);
    assert_eq!(fate("GITLAB_TOKEN"), Fate::Removed);
    assert_eq!(fate("FOO_BAR"), Fate::Kept);
    assert_eq!(fate("FOO_BAZ"), Fate::Removed);
    assert_eq!(fate("BOTH"), Fate::Removed);
    assert_eq!(fate("CORP_ID"), Fate::Removed, "a lock is not loosened");
    assert_eq!(fate("CORP_X"), Fate::Removed, "not by a value either");
    assert_eq!(fate("PROXY"), Fate::Set("http://p"));
    assert_eq!(fate("TWICE"), Fate::Set("2"));
    let values: Vec<_> = filter.values().map(|(name, value, _)| (name, value)).collect();
    assert_eq!(values, [("PROXY", "http://p"), ("TWICE", "2")]);

    let inherited: [(&[u8], &[u8]); 4] =
        [(b"PATH", b"/bin"), (b"TWICE", b"0"), (b"LD_PRELOAD", b"x.so"), (b"\xff", b"\xfe")];
    assert_eq!(
        filter.apply(inherited),
        [(&b"PATH"[..], &b"/bin"[..]), (b"\xff", b"\xfe"), (b"PROXY", b"http://p"), (b"TWICE", b"2"),]
    );
    let changed = filter.changed(inherited);
    assert_eq!(changed.len(), 2);
    assert_eq!(changed[1].2, Reason::BuiltIn("LD_*"));
}

#[test]
fn a_secret_in_a_value_goes_unless_a_rule_keeps_it() {
    let filter = Filter::new(vec![rule(Layer::User, Strength::Set, keep("KEPT"))]);
    let secret = b"postgres://u:p@db/app";
    assert_eq!(
        filter.judge_value(b"DATABASE_URL", secret),
        (Fate::Removed, Reason::Secret("a URL with a password"))
    );
    assert_eq!(filter.judge_value(b"DATABASE_URL", b"postgres://db/app").0, Fate::Kept);
    assert_eq!(filter.judge_value(b"KEPT", secret).0, Fate::Kept);
    assert_eq!(filter.apply([(&b"A"[..], &secret[..]), (b"KEPT", secret)]), [(&b"KEPT"[..], &secret[..])]);
}

#[test]
fn the_filter_survives_being_stored() {
    let filter = Filter::new(vec![rule(Layer::User, Strength::Set, set("A", "b"))]);
    let text = serde_json::to_string(&filter).unwrap();
    assert_eq!(serde_json::from_str::<Filter>(&text).unwrap(), filter);
}

#[test]
fn what_only_the_launch_knows_stands_above_files_and_below_the_command_line() {
    use Layer::{Administrator, CommandLine, User};
    use Strength::{Locked, Set};
    let mut filter = Filter::new(vec![
        rule(User, Set, remove("BUS*")),
        rule(User, Set, set("BUS_B", "file")),
        rule(Administrator, Locked, remove("BUS_C")),
        rule(CommandLine, Set, set("BUS_D", "argument")),
    ]);
    for name in ["BUS_A", "BUS_B", "BUS_C", "BUS_D"] {
        filter.give(name, "launch").unwrap();
    }
    let values: Vec<_> = filter.values().map(|(name, value, _)| (name, value)).collect();
    assert_eq!(values.len(), 3);
    for expected in [("BUS_A", "launch"), ("BUS_B", "launch"), ("BUS_D", "argument")] {
        assert!(values.contains(&expected), "{values:?}");
    }
    assert!(filter.give("", "x").is_err());
}
