// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests protected names: compares the fast lookup with the definition, and checks how layers change the list.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use palisade_policy::names::{NamePattern, built_in};
use palisade_policy::{
    Content, Layer, LayerPolicy, NameRule, NameRules, NameStatus, Origin, Policy, Protect, ResolveError,
    merge, parse,
};
use proptest::prelude::*;
use proptest::sample::select;

/// The definition from the documentation, word for word. `parts` and `path` are components.
mod definition {
    use super::NameRule;

    fn one(part: &[u8], name: &[u8]) -> bool {
        match part.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|at| one(rest, &name[at..])),
            Some((b'?', rest)) => !name.is_empty() && one(rest, &name[1..]),
            Some((byte, rest)) => {
                name.first().is_some_and(|first| first.eq_ignore_ascii_case(byte)) && one(rest, &name[1..])
            }
        }
    }

    fn all(parts: &[&str], path: &[&str]) -> bool {
        match parts.split_first() {
            None => path.is_empty(),
            Some((&"**", rest)) => (0..=path.len()).any(|at| all(rest, &path[at..])),
            Some((part, rest)) => path
                .split_first()
                .is_some_and(|(name, after)| one(part.as_bytes(), name.as_bytes()) && all(rest, after)),
        }
    }

    fn counts(rule: &NameRule, path: &[&str], root: usize, from: usize) -> bool {
        let between = path.get(root.min(from)..from).unwrap_or_default();
        (!rule.anchored || from == 0)
            && !between.iter().any(|name| rule.except_below.iter().any(|e| e == name))
    }

    pub(super) fn protects(rule: &NameRule, path: &[&str], root: usize) -> bool {
        rule.content != super::Content::Directory && ends_in(rule, path, root, false)
    }

    /// Whether the name ends anywhere in the path, or exactly at its end.
    fn ends_in(rule: &NameRule, path: &[&str], root: usize, at_the_end: bool) -> bool {
        let parts: Vec<&str> = rule.path.split('/').collect();
        let ends = |to: usize| to > root || rule.locked;
        (0..=path.len()).any(|from| {
            counts(rule, path, root, from)
                && (from..=path.len())
                    .any(|to| ends(to) && (!at_the_end || to == path.len()) && all(&parts, &path[from..to]))
        })
    }

    pub(super) fn begins(rule: &NameRule, path: &[&str], root: usize) -> bool {
        let parts: Vec<&str> = rule.path.split('/').collect();
        // For a name that a directory may have, the directory is a place where other names begin.
        let directory = rule.content == super::Content::Directory && ends_in(rule, path, root, true);
        path.len() > root
            && (directory
                || (0..path.len()).any(|from| {
                    counts(rule, path, root, from)
                        && (1..parts.len()).any(|length| all(&parts[..length], &path[from..]))
                }))
    }

    pub(super) fn strictness(rule: &NameRule) -> [bool; 4] {
        let is = |content| rule.content == content;
        let kinds = [super::Content::Directory, super::Content::Never, super::Content::WithDirectory].map(is);
        [kinds[0], kinds[1], kinds[2], !rule.carried]
    }
}

/// Patterns without `**` at either end. There the definition differs: `**` adds nothing to what is protected, but
/// everything to where names begin.
fn pattern() -> impl Strategy<Value = String> {
    let plain = || select(vec!["a", "b", "A", "ab", "*", "a*", "*b", "?", "c"]);
    let inner = prop::collection::vec(prop_oneof![3 => plain(), 1 => Just("**")], 0..4);
    (plain(), inner, prop::option::of(plain())).prop_map(|(first, inner, last)| {
        let mut parts = vec![first];
        if let Some(last) = last {
            parts.extend(inner);
            parts.push(last);
        }
        parts.join("/")
    })
}

fn rule() -> impl Strategy<Value = NameRule> {
    let except = prop::collection::vec(select(vec!["c", "b", "C"]).prop_map(str::to_owned), 0..2);
    let content = select(vec![
        Content::Never,
        Content::Never,
        Content::GitConfig,
        Content::WithDirectory,
        Content::Directory,
    ]);
    (pattern(), any::<[bool; 3]>(), content, except).prop_map(
        |(path, [carried, anchored, locked], content, except_below)| NameRule {
            path,
            reason: "because".to_owned(),
            origin: Origin::built_in(),
            carried,
            except_below,
            content,
            anchored,
            locked,
        },
    )
}

fn path() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(select(vec!["a", "b", "A", "B", "ab", "aB", "c", "C", "d"]), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("PROPTEST_CASES").map_or(3000, |c| c.parse().unwrap()), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_judge_agrees_with_the_definition(
        rules in prop::collection::vec(rule(), 0..6),
        path in path(),
        root in 0_usize..5,
    ) {
        let text = format!("/{}", path.join("/"));
        let compiled = NameRules::new(rules.clone());
        let strictest = |which: fn(&NameRule, &[&str], usize) -> bool| {
            rules.iter().filter(|rule| which(rule, &path, root)).map(definition::strictness).max()
        };
        let found = match compiled.judge(text.as_bytes(), root) {
            NameStatus::Free => (None, None),
            NameStatus::Protected(rule) => (Some(definition::strictness(rule)), None),
            NameStatus::Holder(rule) => (None, Some(definition::strictness(rule))),
        };
        let expected = match strictest(definition::protects) {
            None => (None, strictest(definition::begins)),
            protected => (protected, None),
        };
        prop_assert_eq!(found, expected, "{} {}", text, root);
        // The returned rule really gives this status.
        match compiled.judge(text.as_bytes(), root) {
            NameStatus::Free => {}
            NameStatus::Protected(rule) => prop_assert!(definition::protects(rule, &path, root)),
            NameStatus::Holder(rule) => prop_assert!(definition::begins(rule, &path, root)),
        }
    }

    #[test]
    fn any_bytes_are_judged(path in prop::collection::vec(any::<u8>(), 0..200), root in any::<usize>()) {
        let rules = Policy::default().names();
        let mut whole = b"/".to_vec();
        whole.extend(&path);
        let _any_answer = rules.judge(&whole, root);
        whole.extend(b"/.git/hooks");
        let protected = matches!(rules.judge(&whole, 0), NameStatus::Protected(_));
        prop_assert!(protected, "{:?}", whole);
    }
}

#[test]
fn a_double_star_at_an_end_says_what_holds_anyway() {
    for (with, without) in [("**/a", "a"), ("a/**", "a"), ("**/a/**/b/**", "a/**/b")] {
        let rules = |path: &str| {
            let mut layer = LayerPolicy::command_line();
            layer.add_name(path, true, 1).unwrap();
            layer.add_name("x", true, 1).unwrap();
            merge(vec![layer]).names()
        };
        let (with, without) = (rules(with), rules(without));
        for path in ["/w/a", "/w/c/a/d", "/w/a/b", "/w/a/c/b/d", "/w/c", "/w/b"] {
            let kind = |rules: &NameRules| match rules.judge(path.as_bytes(), 1) {
                NameStatus::Free => 0,
                NameStatus::Protected(_) => 1,
                NameStatus::Holder(_) => 2,
            };
            assert_eq!(kind(&with), kind(&without), "{path}");
        }
    }
}

fn file(layer: Layer, body: &str) -> LayerPolicy {
    parse(&format!("schema = 1\n{body}"), None, layer).unwrap()
}

fn user(body: &str) -> LayerPolicy {
    file(Layer::User, &format!("[filesystem]\n{body}"))
}

fn lock(body: &str) -> LayerPolicy {
    file(Layer::Administrator, &format!("[locked.filesystem]\n{body}"))
}

/// The layer that protects a name, and whether the rule is locked.
type Protector = (Layer, bool);

fn protector(policy: &Policy, name: &str) -> Option<Protector> {
    let names = policy.names();
    let rule = names.rules().iter().find(|rule| rule.path == name)?;
    Some((rule.origin.layer, rule.locked))
}

#[test]
fn layers_add_to_the_names_and_take_off_them() {
    use Layer::{Administrator, BuiltIn, CommandLine, User};
    let hooks = ".git/hooks";
    let mut command_line = LayerPolicy::command_line();
    command_line.add_name("own", true, 7).unwrap();
    #[rustfmt::skip]
    let table: Vec<(Vec<LayerPolicy>, &str, Option<Protector>)> = vec![
        (vec![], hooks, Some((BuiltIn, false))),
        (vec![], ".github/workflows", None),
        (vec![user("allow_names = ['.git/hooks']")], hooks, None),
        (vec![user("allow_names = ['.git/hooks/']")], hooks, None),
        (vec![user("allow_names = ['.git/hooks']")], ".git/config", Some((BuiltIn, false))),
        (vec![user("protect_names = ['.github/workflows']")], ".github/workflows", Some((User, false))),
        (vec![user("protect_names = ['own']")], "own", Some((User, false))),
        (vec![user("protect_names = ['own']"), command_line.clone()], "own", Some((CommandLine, false))),
        (vec![command_line], "own", Some((CommandLine, false))),
        // In one layer protecting beats allowing, in either order. A later layer wins.
        (vec![user("protect_names = ['own']\nallow_names = ['own']")], "own", Some((User, false))),
        (vec![file(Administrator, "filesystem.protect_names = ['own']"), user("allow_names = ['own']")], "own", None),
        (vec![file(Administrator, "filesystem.allow_names = ['.git/hooks']"), user("protect_names = ['.git/hooks']")], hooks, Some((User, false))),
        // A lock can't be overridden.
        (vec![lock("protect_names = ['own']"), user("allow_names = ['own']")], "own", Some((Administrator, true))),
        (vec![lock("protect_names = ['.git/hooks']"), user("allow_names = ['.git/hooks']")], hooks, Some((Administrator, true))),
        (vec![lock("allow_names = ['.git/hooks']"), user("protect_names = ['.git/hooks']")], hooks, Some((User, false))),
    ];
    for (layers, name, expected) in table {
        let said = format!("{layers:#?}");
        let policy = merge(layers);
        assert_eq!(protector(&policy, name), expected, "{name} {said}");
        assert_eq!(policy.unknown_name(), None, "{said}");
    }
}

#[test]
fn what_is_known_of_a_name_holds_whoever_names_it() {
    let policy = merge(vec![user("protect_names = ['.github/workflows', '.git/config', 'own']")]);
    let names = policy.names();
    let rule = |name: &str| names.rules().iter().find(|rule| rule.path == name).unwrap();
    assert!(rule(".github/workflows").carried);
    assert_eq!(rule(".git/config").content, Content::GitConfig);
    assert!(!rule("own").carried && rule("own").content == Content::Never);
}

#[test]
fn a_locked_name_is_not_lifted_by_a_grant() {
    let judge = |policy: &Policy| policy.names().judge(b"/w/.git/hooks/x", 3) == NameStatus::Free;
    assert!(judge(&Policy::default()));
    assert!(!judge(&merge(vec![lock("protect_names = ['.git/hooks']")])));
}

#[test]
fn what_is_not_protected_can_not_be_taken_off() {
    let context = palisade_policy::Context {
        home: "/h".into(),
        cwd: "/h".into(),
        project: None,
        user: "u".into(),
        uid: 1,
        runtime_dir: None,
        ..palisade_policy::Context::default()
    };
    let error = |layers| merge(layers).resolve(&context).unwrap_err().to_string();
    assert_eq!(
        error(vec![user("allow_names = ['.git/hoks']")]),
        "allow_names = \".git/hoks\" (user): there is no such protected name; did you mean \".git/hooks\"?"
    );
    assert_eq!(
        error(vec![user("allow_names = ['something']")]),
        "allow_names = \"something\" (user): there is no such protected name"
    );
    // Names that other layers add are known, too.
    let admin = file(Layer::Administrator, "filesystem.protect_names = ['deploy/keys']");
    assert!(error(vec![admin.clone(), user("allow_names = ['deploy/key']")]).contains("\"deploy/keys\"?"));
    assert!(merge(vec![admin, user("allow_names = ['deploy/keys', '.circleci']")]).resolve(&context).is_ok());
    let unknown = merge(vec![user("allow_names = ['x']")]).resolve(&context).unwrap_err();
    assert!(matches!(unknown, ResolveError::Name(unknown) if unknown.suggestion.is_none()));
}

#[test]
fn the_mode_is_not_loosened_past_a_lock() {
    let mode = |layers: Vec<LayerPolicy>| {
        let protect = merge(layers).protect();
        (protect.value, protect.origin.layer)
    };
    let off = || user("protect = 'off'");
    assert_eq!(mode(vec![]), (Protect::Broker, Layer::BuiltIn));
    assert_eq!(mode(vec![palisade_policy::built_in()]), (Protect::Broker, Layer::BuiltIn));
    assert_eq!(mode(vec![off()]), (Protect::Off, Layer::User));
    assert_eq!(mode(vec![lock("protect = 'mounts'"), off()]), (Protect::Mounts, Layer::Administrator));
    assert_eq!(
        mode(vec![lock("protect = 'off'"), user("protect = 'mounts'")]),
        (Protect::Mounts, Layer::User)
    );
    // Where a name is locked, switching the protection off would remove it.
    let name = || lock("protect_names = ['own']");
    assert_eq!(mode(vec![name(), off()]), (Protect::Broker, Layer::Administrator));
    let administrator = file(Layer::Administrator, "filesystem.protect = 'mounts'");
    assert_eq!(mode(vec![name(), administrator, off()]), (Protect::Mounts, Layer::Administrator));
    assert_eq!(mode(vec![name(), user("protect = 'broker'")]), (Protect::Broker, Layer::User));
    assert_eq!(mode(vec![lock("allow_names = ['.envrc']"), off()]), (Protect::Off, Layer::User));
}

#[test]
fn every_built_in_name_can_be_taken_off_and_locked() {
    for name in built_in() {
        let path = &name.rule.path;
        assert!(NamePattern::new(path).is_ok());
        let allowed = merge(vec![user(&format!("allow_names = [{path:?}]"))]);
        assert_eq!(protector(&allowed, path), None);
        let locked = merge(vec![
            lock(&format!("protect_names = [{path:?}]")),
            user(&format!("allow_names = [{path:?}]")),
        ]);
        assert_eq!(protector(&locked, path), Some((Layer::Administrator, true)));
    }
}

/// The table on the documentation page, by groups.
fn table() -> String {
    let mut text = String::new();
    for group in built_in().chunk_by(|a, b| a.group == b.group) {
        let (name, on) = (&group[0].group, group[0].on);
        text.push_str(&format!("\n## `group:{name}`{}\n\n", if on { "" } else { ": off" }));
        text.push_str("| names | carried | because |\n|---|---|---|\n");
        for alike in
            group.chunk_by(|a, b| (&a.rule.reason, a.rule.carried) == (&b.rule.reason, b.rule.carried))
        {
            let names: Vec<String> = alike.iter().map(|name| format!("`{}`", name.rule.path)).collect();
            let rule = &alike[0].rule;
            let content = match rule.content {
                Content::Never => "",
                Content::GitConfig => "; a change that names no command is let through",
                Content::WithDirectory => "; it may be made in a directory that is new",
                Content::Directory => "; a directory may be made",
            };
            let carried = if rule.carried { "yes" } else { "" };
            text.push_str(&format!("| {} | {carried} | {}{content} |\n", names.join(" "), rule.reason));
        }
    }
    text
}

#[test]
fn the_page_lists_every_name_with_its_group() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/names.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let mark = "-->\n";
    let head = &text[..text.find(mark).unwrap() + mark.len()];
    let wanted = format!("{head}{}", table());
    if std::env::var("PALISADE_NAMES_PAGE").is_ok_and(|what| what == "write") {
        std::fs::write(&page, &wanted).unwrap();
        return;
    }
    assert!(
        text == wanted,
        "docs/names.md isn't what names.toml says\nhint: PALISADE_NAMES_PAGE=write ./x test policy/integration/names"
    );
}

const HOOKS: &str = ".git/hooks";

/// The layer that protects a name, if one does.
fn by(policy: &Policy, name: &str) -> Option<Layer> {
    protector(policy, name).map(|(layer, _locked)| layer)
}

#[test]
fn names_that_are_obeyed_unasked_are_on_and_the_others_are_groups_that_are_off() {
    let names = Policy::default().names();
    let kind = |path: &str| match names.judge(format!("/w/a/{path}").as_bytes(), 1) {
        NameStatus::Free => "free",
        NameStatus::Protected(_) => "protected",
        NameStatus::Holder(_) => "holder",
    };
    for name in ".tool-versions rust-toolchain rust-toolchain.toml .hg/hgrc-not-shared .hg/requires .sl/config \
        _darcs/prefs/defaults lefthook.yml lefthook.yaml lefthook-local.yml .lefthook.json .config/lefthook.toml \
        .overcommit.yml .git-hooks/pre_commit/x prek.toml .autoenv.zsh .flox/env/manifest.toml x.code-workspace \
        .run/x.run.xml x.iml .lvimrc .pylintrc .agents/x .factory/settings.json .junie/x .kilocode/mcp.json .amazonq/x \
        .trae/x .augment/x .pi/extensions/x.ts crush.json .github/hooks/x.json .clinerules/hooks/TaskStart .cursorrules \
        .bundle/config .pdm-python"
        .split_whitespace()
    {
        assert_eq!(kind(name), "protected", "{name}");
    }
    for off in "pnpm-workspace.yaml bunfig.toml .yarn/releases/x .yarn/plugins/x .yarn/sdks/x .pnp.cjs .bazelrc tools/bazel \
        gradle.properties .jvmopts uv.toml pip.conf .ghci .iex.exs .Renviron CLAUDE.md AGENTS.md GEMINI.md \
        .github/copilot-instructions.md .gitlab-ci.yml"
        .split_whitespace()
    {
        assert_eq!(kind(off), "free", "{off}");
    }
    // Names that only look similar.
    for other in "requires .hg/store/requires config .sl rust-toolchain.md lefthook.md xrun x.code-workspaces iml .yarn \
        .bundle/x tools/x _darcs/prefs/motd .github/x bundle/config"
        .split_whitespace()
    {
        assert_ne!(kind(other), "protected", "{other}");
    }
    // As a directory it belongs to Jujutsu; its content has rules of its own.
    assert_eq!(kind(".jj/repo"), "holder");
    assert_eq!(kind(".jj/repo/store/x"), "free");
    assert_eq!(kind(".jj/repo/config.toml"), "protected");
    let NameStatus::Holder(rule) = names.judge(b"/w/.jj/repo", 1) else {
        panic!("it is where a name begins")
    };
    assert!(rule.follows_file(b"Repo") && !rule.follows_file(b".jj"), "{rule}");
}

#[test]
fn what_packages_bring_is_not_obeyed() {
    let names = Policy::default().names();
    for name in built_in().iter().filter(|name| name.on && name.rule.content != Content::Directory) {
        let path = name.rule.path.replace('*', "x");
        for place in ["node_modules/p", "lib/python3/site-packages", ".cargo/registry/src/i/p"] {
            let below = format!("/w/{place}/{path}");
            let free = names.judge(below.as_bytes(), 1) == NameStatus::Free;
            let of_repository = [".git/", ".hg/"].iter().any(|own| path.starts_with(own));
            assert_eq!(free, name.rule.carried && !of_repository, "{below}");
        }
    }
}

#[test]
fn groups_are_turned_on_and_taken_off() {
    use Layer::{Administrator, BuiltIn, CommandLine, User};
    let run_by_hand = "protect_names = ['group:run-by-hand']";
    let mut command_line = LayerPolicy::command_line();
    command_line.add_name("group:run-by-hand", true, 7).unwrap();
    let mut allowing = LayerPolicy::command_line();
    allowing.add_name("group:version-control", false, 7).unwrap();
    #[rustfmt::skip]
    let table: Vec<(Vec<LayerPolicy>, &str, Option<Layer>)> = vec![
        (vec![], ".bazelrc", None),
        (vec![user(run_by_hand)], ".bazelrc", Some(User)),
        (vec![user(run_by_hand)], "CLAUDE.md", None),
        (vec![user(run_by_hand)], HOOKS, Some(BuiltIn)),
        (vec![user("protect_names = ['group:instructions', 'group:ci']")], "CLAUDE.md", Some(User)),
        (vec![user("protect_names = ['group:instructions', 'group:ci']")], ".circleci", Some(User)),
        (vec![user("allow_names = ['group:version-control']")], HOOKS, None),
        (vec![user("allow_names = ['group:version-control']")], ".vscode", Some(BuiltIn)),
        (vec![allowing.clone()], HOOKS, None),
        // In one layer, a statement about a name is more specific than one about its group.
        (vec![user("protect_names = ['group:run-by-hand']\nallow_names = ['.bazelrc']")], ".bazelrc", None),
        (vec![user("protect_names = ['group:run-by-hand']\nallow_names = ['.bazelrc']")], "uv.toml", Some(User)),
        (vec![user("allow_names = ['group:version-control']\nprotect_names = ['.git/hooks']")], HOOKS, Some(User)),
        (vec![user("allow_names = ['group:agent']\nprotect_names = ['group:agent']")], ".claude", Some(User)),
        // A later layer wins, whether it names the name or the group.
        (vec![user("allow_names = ['.bazelrc']"), command_line], ".bazelrc", Some(CommandLine)),
        (vec![user("protect_names = ['.git/hooks']"), allowing.clone()], HOOKS, None),
        (vec![file(Administrator, "filesystem.protect_names = ['group:ci']"), user("allow_names = ['.circleci']")], ".circleci", None),
        // A lock on a group locks each of its names. A lock on a name isn't removed with the group.
        (vec![lock(run_by_hand), user("allow_names = ['.bazelrc']")], ".bazelrc", Some(Administrator)),
        (vec![lock("protect_names = ['.git/hooks']"), allowing.clone()], HOOKS, Some(Administrator)),
        (vec![lock("protect_names = ['.git/hooks']"), allowing], ".husky", None),
    ];
    for (layers, name, expected) in table {
        let said = format!("{layers:#?}");
        let policy = merge(layers);
        assert_eq!(by(&policy, name), expected, "{name} {said}");
        assert_eq!(policy.unknown_name(), None, "{said}");
    }
    // All known details of each name are kept.
    let names = merge(vec![user(run_by_hand)]).names();
    let rule = names.rules().iter().find(|rule| rule.path == ".bazelrc").unwrap();
    assert!(rule.carried && rule.reason.starts_with("bazel ") && !rule.except_below.is_empty(), "{rule:?}");
    let locked = merge(vec![lock(run_by_hand)]).names();
    assert!(locked.rules().iter().find(|rule| rule.path == ".bazelrc").unwrap().locked);
}

#[test]
fn a_group_that_is_none_is_an_error_with_a_hint_that_works() {
    let text = "schema = 1\n[filesystem]\nprotect_names = [\"group:instruction\"]\n";
    let errors = parse(text, None, Layer::User).unwrap_err();
    let shown = errors[0].render(false);
    assert!(
        shown
            .contains("there is no group \"instruction\" of protected names; did you mean \"instructions\"?"),
        "{shown}"
    );
    // Each entry that the hint proposes is valid.
    let hint = shown.split("one of ").nth(1).unwrap();
    let proposed: Vec<&str> = hint.split('`').filter(|part| part.starts_with("group:")).collect();
    assert!(proposed.len() > 5, "{shown}");
    for entry in proposed {
        assert!(parse(&text.replace("group:instruction", entry), None, Layer::User).is_ok(), "{entry}");
    }
    // A user who forgets the prefix in `allow_names` gets a hint.
    let unknown = merge(vec![user("allow_names = ['editor']")]).unknown_name().unwrap();
    assert_eq!(unknown.suggestion.as_deref(), Some("group:editor"));
}
