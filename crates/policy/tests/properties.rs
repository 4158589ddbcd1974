// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests properties that hold for any policy.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};

use palisade_policy::{
    Access, Context, Grant, Layer, LayerPolicy, Origin, PathPattern, PathRule, Policy, Resolved, Strength,
    built_in, merge, parse, render,
};
use proptest::prelude::*;
use proptest::sample::select;

fn context() -> Context {
    Context {
        home: "/a".into(),
        cwd: "/a/b".into(),
        project: Some("/a".into()),
        user: "a".into(),
        uid: 1,
        runtime_dir: Some("/b".into()),
        ..Context::default()
    }
}

/// Few names, so that rules often concern the same paths.
fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(select(vec!["a", "b", "c"]), 0..5).prop_map(|names| format!("/{}", names.join("/")))
}

fn pattern() -> impl Strategy<Value = String> {
    let part = select(vec!["a", "b", "c", "*", "?", "**", "[ab]", "[!a]"]);
    let absolute = prop::collection::vec(part, 1..4).prop_map(|names| format!("/{}", names.join("/")));
    prop_oneof![
        4 => path(),
        2 => absolute,
        1 => (path(), path()).prop_map(|(host, inside)| format!("{host}={inside}")),
        1 => select(vec!["~", ".", "../c", "~/c", "**/c", "c*", "${runtime}/a", "./b", "~/**"])
            .prop_map(str::to_owned),
    ]
}

fn rule(accesses: Vec<Access>) -> impl Strategy<Value = PathRule> {
    (select(Layer::ALL.to_vec()), select(Strength::ALL.to_vec()), select(accesses), pattern()).prop_map(
        |(layer, strength, access, text)| {
            let strength = if palisade_policy::layer::may_lock(layer) || strength != Strength::Locked {
                strength
            } else {
                Strength::Set
            };
            let (pattern, destination) = PathPattern::with_destination(text).unwrap();
            PathRule {
                pattern,
                destination: destination.filter(|_| access.takes_destination()),
                access,
                origin: Origin { layer, file: None, line: 0, column: 0 },
                strength,
            }
        },
    )
}

fn rules() -> impl Strategy<Value = Vec<PathRule>> {
    prop::collection::vec(rule(Access::ALL.to_vec()), 0..8)
}

fn layer(rule: PathRule) -> LayerPolicy {
    let mut layer = LayerPolicy::empty(rule.origin.layer, None);
    layer.settings.paths.push(rule);
    layer
}

fn resolve(rules: &[PathRule]) -> Resolved {
    merge(rules.iter().cloned().map(layer).collect()).resolve(&context()).unwrap()
}

/// Every statement, with its content and without its place.
fn meaning(layer: &LayerPolicy) -> LayerPolicy {
    let mut layer = layer.clone();
    let settings = &mut layer.settings;
    macro_rules! without_places {
        ($($list:expr),+) => {$(
            for stated in &mut $list { (stated.origin.line, stated.origin.column) = (0, 0); }
        )+};
    }
    without_places!(
        settings.view,
        settings.paths,
        settings.protect,
        settings.names,
        settings.network,
        settings.fallback,
        settings.hosts,
        settings.publish,
        settings.reach,
        settings.upstream_proxy,
        settings.upstream_dns,
        settings.closed,
        settings.syscalls,
        settings.hostname,
        settings.uid,
        settings.gid,
        settings.cwd,
        settings.best_effort,
        settings.inherit_terminal,
        settings.environment,
        settings.limits,
        layer.inherits
    );
    for stated in [&mut layer.name, &mut layer.description].into_iter().flatten() {
        (stated.origin.line, stated.origin.column) = (0, 0);
    }
    layer
}

/// Statements about the network.
fn network() -> impl Strategy<Value = String> {
    let host = || {
        select(vec![
            "example.com",
            "*.example.com:443",
            "*",
            "10.1.2.3/8:5432",
            "[2001:db8::1]:80-90",
            "a_b:*",
        ])
    };
    let entry =
        (host(), prop::option::of("[ -~\u{e9}\u{1}\n]{0,8}")).prop_map(|(host, reason)| match reason {
            None => format!("{host:?}"),
            Some(reason) => format!("{{ host = {host:?}, reason = {} }}", toml::Value::String(reason)),
        });
    let entries =
        move || prop::collection::vec(entry.clone(), 0..4).prop_map(|all| format!("[{}]", all.join(", ")));
    let rules = (
        select(vec!["none", "filtered", "host"]),
        select(vec!["deny", "ask", "allow"]),
        entries(),
        entries(),
    );
    let publish = select(vec!["[]", "[\"8080\"]", "[\"0.0.0.0:80:81\", \"[::1]:9\"]"]);
    let reach = select(vec!["[]", "[1, \"65535\"]"]);
    let dns = select(vec!["[]", "[\"9.9.9.9:53\", \"[::1]:54\"]"]);
    let proxy =
        select(vec!["direct", "http://a:%40%25@b:1", "SOCKS5h://us%C3%A9r@[::1]:1080", "http://a-b:3128/"]);
    (rules, publish, reach, dns, proxy).prop_map(
        |((mode, default, allow, deny), publish, reach, dns, proxy)| {
            format!(
                "[network]\nmode = {mode:?}\ndefault = {default:?}\nallow = {allow}\ndeny = {deny}\n\
             publish = {publish}\nreach = {reach}\ndns = {dns}\nproxy = {proxy:?}\n"
            )
        },
    )
}

/// Sections of a file: each line may be present or not, with some variation in its values.
fn file() -> impl Strategy<Value = String> {
    let text = "[ -~\u{e9}\u{1}\n\t]{0,12}";
    let quoted = move || text.prop_map(|text| toml::Value::String(text).to_string());
    let paths = prop::collection::vec(pattern(), 0..4).prop_map(|paths| format!("{paths:?}"));
    let access = select(vec!["read", "write", "execute", "hide", "deny", "tmpfs", "protect_paths"]);
    let filesystem = (access, paths, any::<bool>()).prop_map(|(access, paths, view)| {
        let paths =
            if ["read", "write", "execute"].contains(&access) { paths } else { paths.replace('=', "/") };
        format!("[filesystem]\n{access} = {paths}\n{}", if view { "view = \"host\"\n" } else { "" })
    });
    let name = || select(vec![".git/hooks", "a*/**/b", "x y", ".vscode", "n[!a]", r"s\\*"]);
    let list = move || {
        prop::collection::vec(name(), 0..3).prop_map(|names| format!("{names:?}").replace(r"\\\\", r"\\"))
    };
    let protect = prop::option::of((select(vec!["broker", "mounts", "off"]), list(), list()));
    let filesystem = (filesystem, protect).prop_map(|(text, protect)| match protect {
        None => text,
        Some((mode, add, allow)) => {
            format!("{text}protect = {mode:?}\nprotect_names = {add}\nallow_names = {allow}\n")
        }
    });
    // A value is a template: `${` that isn't closed, or contains an unknown name, is a separate error.
    let value = text.prop_map(|text| toml::Value::String(text.replace("${", "$${")).to_string());
    let value = prop_oneof![value, Just("\"${HOME}/$${x} $$\"".to_owned())];
    let environment = (value, "[A-Z_*]{1,6}").prop_map(|(value, name)| {
        format!("[environment]\nset = {{ A = {value}, \"B c\" = \"d\" }}\nkeep = [\"{name}\"]\nremove = [\"{name}X\"]\n")
    });
    let limits = (0..1_u64 << 50, 0..200_000_u32).prop_map(|(memory, time)| {
        format!("[limits]\nmemory = {memory}\ncpu_time = \"{time}m\"\nstack = \"unlimited\"\n")
    });
    let process = (any::<bool>(), 0..u32::MAX - 1).prop_map(|(yes, uid)| {
        format!("[process]\nbest_effort = {yes}\nuid = {uid}\ncwd = \"~/x\"\nhostname = \"h-1\"\n[terminal]\ninherit = {yes}\n")
    });
    let sections = (
        prop::option::of(filesystem),
        prop::option::of(environment),
        prop::option::of(limits),
        prop::option::of(process),
        prop::option::of(network()),
    )
        .prop_map(|(a, b, c, d, e)| [a, b, c, d, e].into_iter().flatten().collect::<String>())
        .boxed();
    let nested = (sections.clone(), select(vec!["default.", "locked."])).prop_map(|(text, prefix)| {
        text.lines()
            .map(|line| match line.strip_prefix('[') {
                Some(rest) => format!("[{prefix}{rest}\n"),
                None => format!("{line}\n"),
            })
            .collect::<String>()
    });
    (quoted(), quoted(), sections, nested).prop_map(|(name, inherits, own, nested)| {
        format!("schema = 1\nname = {name}\ninherits = [{inherits}]\n{own}{nested}")
    })
}

/// The locks on this path itself, without locks on other host paths that may be shown here.
fn own_locks(rules: &[PathRule], path: &Path) -> Resolved {
    let speaks = |rule: &&PathRule| {
        let pattern = rule.pattern.to_string();
        rule.destination.is_some() || pattern.contains(['*', '?', '[']) || path.starts_with(&pattern)
    };
    let locks: Vec<PathRule> =
        rules.iter().filter(|rule| rule.strength == Strength::Locked).filter(speaks).cloned().collect();
    resolve(&locks)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("PROPTEST_CASES").map_or(400, |c| c.parse().unwrap()), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_denial_never_widens_access(
        rules in rules(),
        denial in rule(vec![Access::Deny, Access::Hide]),
        at in 0_usize..9,
        paths in prop::collection::vec(path(), 8),
    ) {
        let before = resolve(&rules);
        let mut more = rules.clone();
        more.insert(at.min(rules.len()), denial);
        let after = resolve(&more);
        for path in paths {
            let (before, after) = (before.decide(Path::new(&path)), after.decide(Path::new(&path)));
            prop_assert!(after.grant.is_within(before.grant), "{path}: {before:#?} {after:#?}");
        }
    }

    #[test]
    fn a_later_layer_never_loosens_a_lock(
        rules in rules(),
        later in rule(Access::ALL.to_vec()),
        paths in prop::collection::vec(path(), 8),
    ) {
        let before = resolve(&rules);
        let mut more = rules.clone();
        more.push(PathRule {
            origin: Origin::argument(1),
            strength: Strength::Set,
            ..later
        });
        let after = resolve(&more);
        // The lock's own grant is the grant of a policy that contains only the locks.
        let locks: Vec<PathRule> = more.iter().filter(|r| r.strength == Strength::Locked).cloned().collect();
        let locks = resolve(&locks);
        for path in paths {
            let path = Path::new(&path);
            let lock = locks.decide(path);
            if lock.lock.is_some() {
                for decision in [before.decide(path), after.decide(path)] {
                    // A lock on a host path that a rule shows here states nothing about the place: a private
                    // directory shows nothing of that path. But the grant must be within the locks on the place
                    // itself.
                    let own = own_locks(&more, path).decide(path);
                    let private = decision.grant == Grant::Tmpfs && decision.grant.is_within(own.grant);
                    prop_assert!(private || decision.grant.is_within(lock.grant), "{path:?} {lock:#?} {decision:#?}");
                }
            }
        }
    }

    #[test]
    fn decide_agrees_with_the_lists_that_a_planner_walks(rules in rules(), paths in prop::collection::vec(path(), 8)) {
        let resolved = resolve(&rules);
        let effective = resolved.effective();
        let globs = resolved.globs();
        for path in &effective {
            prop_assert_eq!(resolved.decide(&path.destination).grant, path.grant);
        }
        for path in paths {
            let path = Path::new(&path);
            let decision = resolved.decide(path);
            // A walk on the host sees host paths. Inside they appear where they were mapped.
            let spoken_of = |place: &Path| {
                effective.iter().any(|path| path.destination == place)
                    || globs.iter().any(|glob| {
                        host_paths(&resolved, &rules, place)
                            .iter()
                            .any(|host| host.starts_with(&glob.base) && glob.matches(host) && glob.inside(host) == place)
                    })
            };
            let deepest = path.ancestors().find(|place| spoken_of(place));
            let expected = deepest.map_or(Grant::Absent, |place| resolved.decide(place).grant);
            prop_assert_eq!(decision.grant, expected, "{:?} {:?} {:#?}", path, deepest, decision);
            if let (Some(source), Some(place)) = (&decision.source, deepest) {
                let from = resolved.decide(place).source.unwrap();
                let rest = path.strip_prefix(place).unwrap();
                prop_assert_eq!(source, &from.join(rest).components().collect::<PathBuf>());
            }
        }
    }

    #[test]
    fn merging_is_associative(rules in rules(), one in 0_usize..9, two in 0_usize..9) {
        let mut layers: Vec<LayerPolicy> = rules.into_iter().map(layer).collect();
        layers.push(built_in());
        let (one, two) = (one.min(two).min(layers.len()), one.max(two).min(layers.len()));
        let whole = merge(layers.clone());
        let c = layers.split_off(two);
        let b = layers.split_off(one);
        let (a, b, c) = (merge(layers), merge(b), merge(c));
        prop_assert_eq!(&whole, &a.clone().combine(b.clone()).combine(c.clone()));
        prop_assert_eq!(&whole, &a.combine(b.combine(c)));
        prop_assert_eq!(&whole, &Policy::default().combine(whole.clone()));
    }

    #[test]
    fn printing_and_parsing_is_the_identity(text in file()) {
        let read = parse(&text, None, Layer::Administrator)
            .map_err(|errors| TestCaseError::fail(format!("{text}\n{}", errors[0].render(false))))?;
        let printed = render(&read);
        let again = parse(&printed, None, Layer::Administrator)
            .map_err(|errors| TestCaseError::fail(errors[0].render(false)))?;
        prop_assert_eq!(meaning(&again), meaning(&read), "{}", printed);
        prop_assert_eq!(render(&again), printed);
    }

    #[test]
    fn any_path_can_be_written_exactly(bytes in prop::collection::vec(1_u8.., 1..20)) {
        use std::os::unix::ffi::OsStrExt;
        let name: Vec<u8> = bytes.into_iter().filter(|b| *b != b'/').collect();
        let path = Path::new("/x").join(std::ffi::OsStr::from_bytes(&name));
        prop_assume!(name != b"." && name != b"..");
        let mut policy = LayerPolicy::command_line();
        let exact = PathPattern::exactly(&path).unwrap();
        policy.add_path(Access::Read, exact.as_os_str(), 1).unwrap();
        let resolved = merge(vec![policy]).resolve(&context()).unwrap();
        let effective = resolved.effective();
        prop_assert_eq!(&effective[0].source, &path.components().collect::<PathBuf>());
    }
}

/// The host paths that may be shown at a place inside: the same path, and one for every mapping.
fn host_paths(resolved: &Resolved, rules: &[PathRule], place: &Path) -> Vec<PathBuf> {
    let mut hosts = vec![place.to_owned()];
    for rule in rules {
        if rule.destination.is_none() {
            continue;
        }
        let alone = resolve(std::slice::from_ref(rule));
        hosts.extend(alone.decide(place).source);
    }
    hosts.extend(resolved.decide(place).source);
    hosts
}

#[test]
fn the_built_in_layer_is_printed_and_read_back() {
    let layer = built_in();
    let again = parse(&render(&layer), None, Layer::BuiltIn).unwrap();
    assert_eq!(meaning(&again), meaning(&layer));
}
