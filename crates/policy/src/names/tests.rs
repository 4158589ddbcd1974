// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;

fn rule(path: &str) -> NameRule {
    NameRule {
        path: path.to_owned(),
        reason: "because".to_owned(),
        origin: Origin::built_in(),
        carried: false,
        except_below: Vec::new(),
        content: Content::Never,
        anchored: false,
        locked: false,
    }
}

/// The status of a path in `/w`: `-` for free, else the rule, with `+` if protected and `=` for a holder.
fn say(rules: &NameRules, path: &str) -> String {
    match rules.judge(path.as_bytes(), 1) {
        NameStatus::Free => "-".to_owned(),
        NameStatus::Protected(rule) => format!("+{}", rule.path),
        NameStatus::Holder(rule) => format!("={}", rule.path),
    }
}

#[test]
fn the_built_in_names_hold_at_any_depth_and_in_any_spelling() {
    let rules = crate::merge(vec![crate::built_in()]).names();
    for (path, expected) in [
        ("/w/.git/hooks", "+.git/hooks"),
        ("/w/a/b/.git/hooks/pre-commit", "+.git/hooks"),
        ("/w/.GIT/Hooks", "+.git/hooks"),
        ("/w/.gi\u{200c}t/hoo\u{212a}\u{17f}/x", "+.git/hooks"),
        ("/w/.git/config", "+.git/config"),
        ("/w/.git/config.lock", "-"),
        ("/w/.git/objects/ab/cd", "-"),
        ("/w/.git/refs/heads/config", "-"),
        ("/w/.git/index", "-"),
        ("/w/.git", "=.git/hooks"),
        ("/w/.git/info", "=.git/info/attributes"),
        ("/w/.git/modules", "=.git/modules/*/**/hooks"),
        ("/w/.git/modules/x", "=.git/modules/*/**/hooks"),
        ("/w/.git/modules/x/hooks/pre-push", "+.git/modules/*/**/hooks"),
        ("/w/.git/modules/x/modules/y/config", "+.git/modules/*/**/config"),
        ("/w/.git/modules/hooks", "=.git/modules/*/**/hooks"),
        ("/w/.git/worktrees/x/config.worktree", "+.git/worktrees/*/config.worktree"),
        ("/w/.git/worktrees/x/HEAD", "-"),
        ("/w/.vscode", "+.vscode"),
        ("/w/.vscode/a/b", "+.vscode"),
        ("/w/.vscode2", "-"),
        ("/w/x.vscode", "-"),
        ("/w/node_modules/p/.vscode/x", "-"),
        ("/w/Node_modules/p/.vscode/x", "+.vscode"),
        ("/w/node_modules/p/.git/hooks", "+.git/hooks"),
        ("/w/.cargo/config.toml", "+.cargo/config.toml"),
        ("/w/.cargo/registry", "-"),
        ("/w/.cargo", "=.cargo/config.toml"),
        ("/w/CLAUDE.md", "-"),
        ("/w/.claude/settings.json", "+.claude"),
        ("/w/.github/workflows/ci.yml", "-"),
        ("/w/.github", "=.github/hooks"),
        ("/w/src/config", "-"),
        ("/w", "-"),
        ("/", "-"),
    ] {
        assert_eq!(say(&rules, path), expected, "{path}");
    }
}

#[test]
fn what_is_granted_itself_can_be_written() {
    let rules = crate::Policy::default().names();
    let judge = |path: &str, root| rules.judge(path.as_bytes(), root);
    for (path, root, free) in [
        ("/home/ann/.claude/x", 3, true),
        ("/home/ann/.claude/x", 2, false),
        ("/home/ann/.claude/p/.claude/x", 3, false),
        ("/home/ann/.git/hooks/x", 3, false),
        ("/home/ann/.git/hooks/x", 4, true),
        ("/home/ann/.git/hooks/x", 9, true),
        ("/home/node_modules/p/.vscode", 2, false),
        ("/home/node_modules/p/.vscode", 1, true),
    ] {
        assert_eq!(judge(path, root) == NameStatus::Free, free, "{path} {root}");
    }
    assert!(matches!(judge("/home/ann/.git/modules", 3), NameStatus::Holder(_)));
    assert_eq!(judge("/home/ann/.git", 3), NameStatus::Free);
}

#[test]
fn the_strictest_of_several_rules_counts() {
    let carried = NameRule { carried: true, ..rule("a") };
    let by_content = NameRule { content: Content::GitConfig, ..rule("a/b") };
    let rules = NameRules::new(vec![carried, by_content, rule("a/b/c")]);
    assert_eq!(say(&rules, "/w/a"), "+a");
    assert_eq!(say(&rules, "/w/a/b"), "+a");
    assert_eq!(say(&rules, "/w/a/b/c"), "+a/b/c");
}

#[test]
fn patterns_hold_where_they_say() {
    let anchored = NameRule { anchored: true, ..rule("w/x/*/y") };
    let rules =
        NameRules::new(vec![anchored, rule("*.lock/z"), rule("**/m/**"), rule(r"s\*r"), rule("p/**/**/q")]);
    for (path, expected) in [
        ("/w/x/1/y", "+w/x/*/y"),
        ("/w/x/1", "=w/x/*/y"),
        ("/w/w/x/1/y", "-"),
        ("/w/a.lock/z/1", "+*.lock/z"),
        ("/w/a.lock", "=*.lock/z"),
        ("/w/b/m", "+**/m/**"),
        ("/w/s*r", r"+s\*r"),
        ("/w/sxr", "-"),
        ("/w/p/1/2/q/3", "+p/**/**/q"),
        ("/w/p/q", "+p/**/**/q"),
        ("/w/p/1/2", "=p/**/**/q"),
    ] {
        assert_eq!(say(&rules, path), expected, "{path}");
    }
    assert!(NameRules::default().is_empty());
    assert_eq!(say(&NameRules::default(), "/w/.git/hooks"), "-");
}

#[test]
fn a_path_made_to_be_slow_is_not() {
    let rules = crate::Policy::default().names();
    let path = format!("/w{}", "/.git/modules/x".repeat(260));
    let started = std::time::Instant::now();
    for _ in 0..100 {
        assert!(matches!(rules.judge(path.as_bytes(), 1), NameStatus::Holder(_)));
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(2), "{:?}", started.elapsed());
}

#[test]
fn rules_survive_being_stored() {
    let rules = crate::Policy::default().names();
    let text = serde_json::to_string(&rules).unwrap();
    let again: NameRules = serde_json::from_str(&text).unwrap();
    assert_eq!(again, rules);
    assert_eq!(say(&again, "/w/.git/hooks"), "+.git/hooks");
    assert_eq!(rules.rules()[0].to_string(), ".git/hooks (built in): git runs what is in it");
}

#[test]
fn what_is_protected_in_git_is_protected_in_repositories_of_any_name() {
    let rules = crate::merge(vec![crate::built_in()]).names();
    let say = |path: &str, repositories: &[usize]| {
        let found =
            rules.judge_in_repositories(path.as_bytes(), 1, |directory| repositories.contains(&directory));
        match found.status {
            NameStatus::Free => "-".to_owned(),
            NameStatus::Protected(rule) => format!("{}+{}", found.directory, rule.path),
            NameStatus::Holder(rule) => format!("{}={}", found.directory, rule.path),
        }
    };
    for (path, repositories, expected) in [
        ("/w/x.git/hooks/update", &[2][..], "2+.git/hooks"),
        ("/w/x.git/HOO\u{212a}S", &[2], "2+.git/hooks"),
        ("/w/x.git/config", &[2], "2+.git/config"),
        ("/w/x.git/config", &[1], "-"),
        ("/w/config", &[1], "1+.git/config"),
        ("/w/a/b/config.worktree", &[3], "3+.git/config"),
        ("/w/x/info/attributes", &[2], "2+.git/info/attributes"),
        ("/w/x/info", &[2], "2=.git/info/attributes"),
        ("/w/x/worktrees/y/commondir", &[2], "2+.git/worktrees/*/commondir"),
        ("/w/x/worktrees/y/commondir", &[2, 4], "4+.git/commondir"),
        ("/w/x/modules/a/b/hooks/update", &[2], "2+.git/modules/*/**/hooks"),
        // The stricter one of two.
        ("/w/config/x/hooks/y", &[1, 3], "3+.git/hooks"),
        ("/w/x/refs/heads/config", &[2], "-"),
        ("/w/x/objects/config", &[2], "-"),
        // Its own name protects it anyway.
        ("/w/.git/hooks/update", &[2], "-"),
        ("/w/x", &[2], "-"),
    ] {
        let expected = expected.replace("config.worktree", "config");
        let said = say(path, repositories).replace("config.worktree", "config");
        assert_eq!(said, expected, "{path}");
    }
    let asked = rules.judge_in_repositories(b"/w/src/main.rs", 1, |_| panic!("nothing depends on it"));
    assert_eq!(asked.status, NameStatus::Free);
    assert!(rules.of_repository(b"/w/x", 1).is_some());
    assert!(rules.of_repository(b"/w/.git", 1).is_none(), "that name has rules of its own");
    assert!(rules.of_repository(b"/w/.git/modules/x", 1).is_none());
}

#[test]
fn marks_are_those_of_git() {
    use repository::{Marks, mark};
    let marks = |names: &[&str]| {
        names.iter().fold(Marks::default(), |marks, name| {
            marks.with(mark(name.as_bytes()).unwrap_or_else(|| panic!("{name}")))
        })
    };
    assert!(marks(&["objects", "refs"]).are_enough());
    assert!(marks(&["HEAD", "commondir"]).are_enough());
    assert!(marks(&["oBject\u{17f}", "REFS", "head"]).are_enough());
    assert!(!marks(&["HEAD", "refs"]).are_enough());
    assert!(!marks(&["commondir", "objects"]).are_enough());
    assert_eq!(Marks::ask(|at| at == 1), marks(&["objects"]));
    assert_eq!(mark(b"objects.c"), None);
}

#[test]
fn rules_hold_that_are_written_as_file_systems_may_overlook() {
    let mut below = rule("home/\u{1f5c2}\u{fe0f}/kept");
    below.anchored = true;
    let rules = NameRules::new(vec![rule("x\u{202e}y"), rule("notes."), below, rule(".git")]);
    for (path, protected) in [
        ("/w/x\u{202e}y", true),
        ("/w/xy", false),
        ("/w/notes.", true),
        ("/w/notes", false),
        ("/home/\u{1f5c2}\u{fe0f}/kept/file", true),
        ("/home/\u{1f5c2}\u{fe0f}/other", false),
        ("/home/\u{1f5c2}\u{fe0f}/.gi\u{200c}t", true),
    ] {
        let found = rules.judge(path.as_bytes(), 0);
        assert_eq!(matches!(found, NameStatus::Protected(_)), protected, "{path:?}: {found:?}");
    }
}
