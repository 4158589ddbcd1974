// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests how layers are merged for the network: a table, and properties of any rules.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::net::IpAddr;

use palisade_policy::network::{
    Fallback, Judge, NetworkRule, NetworkRules, NetworkVerdict, Proxy, Ruling, Target,
};
use palisade_policy::{Idle, Layer, LayerPolicy, Origin, Policy, Strength, built_in, merge, parse, render};
use proptest::prelude::*;
use proptest::sample::select;

use Layer::{Administrator, BuiltIn, CommandLine, Distribution, Project, User};

fn layer(layer: Layer, body: &str) -> LayerPolicy {
    let text = format!("schema = 1\n{body}");
    let file = format!("/{}.toml", layer.name().replace(' ', "-"));
    parse(&text, Some(file.as_ref()), layer).unwrap_or_else(|errors| panic!("{}", errors[0].render(false)))
}

fn policy(layers: &[(Layer, &str)]) -> Policy {
    let mut all = vec![built_in()];
    all.extend(layers.iter().map(|(of, body)| layer(*of, body)));
    merge(all)
}

fn mode(layers: &[(Layer, &str)]) -> (&'static str, Layer) {
    let mode = policy(layers).network();
    (mode.value.key(), mode.origin.layer)
}

#[test]
fn who_grants_something_and_states_no_mode_means_filtered() {
    assert_eq!(mode(&[]), ("none", BuiltIn));
    for grants in [
        "allow = [\"example.com\"]",
        "default = \"ask\"",
        "default = \"allow\"",
        "publish = [\"8080\"]",
        "reach = [5432]",
    ] {
        assert_eq!(mode(&[(User, &format!("[network]\n{grants}\n"))]), ("filtered", User), "{grants}");
        let default = format!("[default.network]\n{grants}\n");
        assert_eq!(mode(&[(User, &default)]), ("filtered", User), "{grants}");
        // A stated mode wins, in whatever layer.
        for stated in ["none", "host"] {
            let other = format!("[default.network]\nmode = {stated:?}\n");
            assert_eq!(mode(&[(User, &other), (Project, &format!("[network]\n{grants}\n"))]), (stated, User));
        }
    }
    for nothing in [
        "deny = [\"example.com\"]",
        "default = \"deny\"",
        "proxy = \"http://p:1\"",
        "dns = [\"9.9.9.9\"]",
        "allow = []",
        "publish = []",
    ] {
        assert_eq!(mode(&[(User, &format!("[network]\n{nothing}\n"))]), ("none", BuiltIn), "{nothing}");
    }
}

#[test]
fn a_locked_refusal_can_not_be_left_by_the_hosts_network() {
    let host = "[network]\nmode = \"host\"\n";
    for (lock, expected) in [
        ("[locked.network]\ndeny = [\"evil.org\"]\n", ("filtered", Administrator)),
        ("[locked.network]\ndefault = \"ask\"\n", ("filtered", Administrator)),
        ("[locked.network]\nmode = \"filtered\"\n", ("filtered", Administrator)),
        ("[locked.network]\nallow = [\"good.org\"]\n", ("host", User)),
        ("[network]\ndeny = [\"evil.org\"]\n", ("host", User)),
    ] {
        assert_eq!(mode(&[(Administrator, lock), (User, host)]), expected, "{lock}");
    }
    // This also holds below the lock, and never gives more than before.
    let lock = "[locked.network]\ndeny = [\"evil.org\"]\n";
    assert_eq!(mode(&[(Distribution, host), (Administrator, lock)]), ("filtered", Administrator));
    assert_eq!(mode(&[(Administrator, lock), (User, "[network]\nmode = \"none\"\n")]), ("none", User));
    assert_eq!(mode(&[(Administrator, lock)]), ("none", BuiltIn));
}

#[test]
fn the_default_and_a_proxy_follow_the_order_of_layers_and_locks() {
    let fallback = |layers: &[(Layer, &str)]| policy(layers).network_rules().fallback;
    assert_eq!(fallback(&[]), Fallback::Deny);
    let ask = "[network]\ndefault = \"ask\"\n";
    let allow = "[network]\ndefault = \"allow\"\n";
    assert_eq!(fallback(&[(User, ask), (Project, allow)]), Fallback::Allow);
    let locked = "[locked.network]\ndefault = \"ask\"\nproxy = \"http://corp:3128\"\n";
    assert_eq!(fallback(&[(Administrator, locked), (User, allow)]), Fallback::Ask);
    assert_eq!(
        fallback(&[(Administrator, locked), (User, "[network]\ndefault = \"deny\"\n")]),
        Fallback::Deny
    );
    let proxy =
        |layers: &[(Layer, &str)]| policy(layers).upstream_proxy().map(|proxy| proxy.value.to_string());
    let other = "[network]\nproxy = \"socks5://a:b@other:1\"\n";
    assert_eq!(proxy(&[(Administrator, locked), (User, other)]).unwrap(), "http://corp:3128");
    assert_eq!(proxy(&[(User, other)]).unwrap(), "socks5://***@other:1");
    assert_eq!(proxy(&[(User, other), (Project, "[network]\nproxy = \"direct\"\n")]).unwrap(), "direct");
    assert_eq!(proxy(&[]), None);
    let environment = "[network]\nproxy = \"environment\"\n";
    assert_eq!(proxy(&[(User, other), (Project, environment)]).unwrap(), "environment");
    assert_eq!(proxy(&[(Administrator, locked), (User, environment)]).unwrap(), "http://corp:3128");
}

#[test]
fn ports_add_up_until_a_lock_closes_the_list() {
    let publish = |layers: &[(Layer, &str)]| -> Vec<String> {
        policy(layers).publish().into_iter().map(|stated| stated.value.to_string()).collect()
    };
    let user = "[network]\npublish = [\"8080:80\", \"9000\"]\n";
    let project = "[network]\npublish = [\"8080:81\"]\n";
    assert_eq!(publish(&[(User, user), (Project, project)]), ["9000", "8080:81"]);
    let empty = "[locked.network]\npublish = []\nreach = []\ndns = []\n";
    assert_eq!(publish(&[(Administrator, empty), (User, user)]), [] as [&str; 0]);
    let one = "[locked.network]\npublish = [\"22\"]\n";
    assert_eq!(publish(&[(Administrator, one), (User, user)]), ["22"]);

    let reach = |layers: &[(Layer, &str)]| -> Vec<u16> {
        policy(layers).reach().into_iter().map(|stated| stated.value).collect()
    };
    let user = "[network]\nreach = [5432, \"6379\", 5432]\n";
    assert_eq!(reach(&[(User, user)]), [5432, 6379]);
    assert_eq!(reach(&[(Administrator, empty), (User, user)]), [] as [u16; 0]);
    let denied = "[locked.network]\ndeny = [\"127.0.0.0/8:1-6000\"]\n";
    assert_eq!(reach(&[(Administrator, denied), (User, user)]), [6379]);
    let unlocked = "[network]\ndeny = [\"127.0.0.0/8\"]\n";
    assert_eq!(reach(&[(Administrator, unlocked), (User, user)]), [5432, 6379]);
    assert_eq!(reach(&[(User, user), (CommandLine, unlocked)]), [] as [u16; 0]);

    let dns = |layers: &[(Layer, &str)]| -> Vec<String> {
        policy(layers).upstream_dns().into_iter().map(|stated| stated.value.to_string()).collect()
    };
    let user = "[network]\ndns = [\"1.1.1.1\", \"9.9.9.9:53\"]\n";
    assert_eq!(dns(&[(User, user)]), ["1.1.1.1", "9.9.9.9"]);
    assert_eq!(dns(&[(User, user), (Project, "[network]\ndns = [\"[::1]:54\"]\n")]), ["[::1]:54"]);
    assert_eq!(dns(&[(Administrator, empty), (User, user)]), [] as [&str; 0]);
}

#[test]
fn what_is_said_and_is_not_so_is_told() {
    let said = |layers: &[(Layer, &str)]| match policy(layers).idle() {
        None => "nothing".to_owned(),
        Some(Idle::Locked { mode, lock, holds }) => {
            format!("{} ({}) is {holds} by {lock}", mode.value, mode.origin)
        }
        Some(Idle::Unasked { key, origin, mode }) => {
            format!("{key} ({origin}) in {} ({})", mode.value, mode.origin)
        }
    };
    let none = "[locked.network]\nmode = \"none\"\n";
    let host = "[network]\nmode = \"host\"\n";
    let allow = "[network]\nallow = [\"a.org\"]\n";
    let deny = "[network]\ndeny = [\"a.org\"]\n";
    assert_eq!(said(&[]), "nothing");
    assert_eq!(said(&[(User, allow)]), "nothing");
    assert_eq!(
        said(&[(Administrator, none), (User, host)]),
        "host (/user.toml:3) is none by /administrator.toml:3"
    );
    let refused = "[locked.network]\ndeny = [\"a.org\"]\n";
    assert_eq!(
        said(&[(Administrator, refused), (User, host)]),
        "host (/user.toml:3) is filtered by /administrator.toml:3"
    );
    assert_eq!(said(&[(User, deny), (Project, host)]), "deny (/user.toml:3) in host (/project.toml:3)");
    assert_eq!(said(&[(User, host), (Project, allow)]), "allow (/project.toml:3) in host (/user.toml:3)");
    let gone = "[network]\nmode = \"none\"\n";
    assert_eq!(said(&[(User, allow), (Project, gone)]), "nothing", "taken away on purpose");
    assert_eq!(said(&[(User, gone), (Project, allow)]), "allow (/project.toml:3) in none (/user.toml:3)");
    assert_eq!(said(&[(Distribution, allow), (Project, host)]), "nothing", "shipped for any launch");
}

fn mistakes(body: &str) -> String {
    let text = format!("schema = 1\n[network]\n{body}\n");
    let errors = parse(&text, Some("/p.toml".as_ref()), User).unwrap_err();
    errors.iter().map(|error| error.render(false)).collect::<Vec<_>>().join("\n\n")
}

#[test]
fn mistakes_are_pointed_at() {
    insta::assert_snapshot!(mistakes("allow = [\"https://example.com/x\", { host = \"a b\", raeson = \"x\" }, { reason = \"x\" }, 3]"), @r#"
    error: "https://example.com/x" is a URL; a rule names a host: `example.com`
     --> /p.toml:3:10
      |
    3 | allow = ["https://example.com/x", { host = "a b", raeson = "x" }, { reason = "x" }, 3]
      |          ^^^^^^^^^^^^^^^^^^^^^^^ this host
      |
      = hint: write "example.com"

    error: "a b" is no host: a name has letters, digits, `-` and `_`; names in other scripts are written as in the DNS, `xn--…`
     --> /p.toml:3:44
      |
    3 | allow = ["https://example.com/x", { host = "a b", raeson = "x" }, { reason = "x" }, 3]
      |                                            ^^^^^ this host
      |
      = hint: "example.com", "*.example.com:443", "10.0.0.0/8:5432"

    error: unknown key `raeson` in `[network]`
     --> /p.toml:3:51
      |
    3 | allow = ["https://example.com/x", { host = "a b", raeson = "x" }, { reason = "x" }, 3]
      |                                                   ^^^^^^ not a key here
      |
      = hint: did you mean `reason`?

    error: an entry that is a table needs a `host`
     --> /p.toml:3:67
      |
    3 | allow = ["https://example.com/x", { host = "a b", raeson = "x" }, { reason = "x" }, 3]
      |                                                                   ^^^^^^^^^^^^^^^^ this value
      |
      = hint: { host = "example.com", reason = "…" }

    error: `network.allow` takes strings, or tables with a `host`, not a number
     --> /p.toml:3:85
      |
    3 | allow = ["https://example.com/x", { host = "a b", raeson = "x" }, { reason = "x" }, 3]
      |                                                                                     ^ wrong type
    "#);
    insta::assert_snapshot!(mistakes("publish = [\"80/tcp\"]\nreach = [0, \"x\", -1]\ndns = [\"dns.google\"]\nmode = \"filterd\"\ndefault = \"aks\""), @r#"
    error: "80/tcp" is not a port to publish: write `[ADDRESS:][HOSTPORT:]PORT`
     --> /p.toml:3:12
      |
    3 | publish = ["80/tcp"]
      |            ^^^^^^^^ this value
      |
      = hint: "8080", "8080:80", "127.0.0.1:8080:80", "[::1]:8080:80"

    error: "0" is no port: a number from 1 to 65535
     --> /p.toml:4:10
      |
    4 | reach = [0, "x", -1]
      |          ^ this value
      |
      = hint: 5432

    error: "x" is no port: a number from 1 to 65535
     --> /p.toml:4:13
      |
    4 | reach = [0, "x", -1]
      |             ^^^ this value
      |
      = hint: 5432

    error: "-1" is no port: a number from 1 to 65535
     --> /p.toml:4:18
      |
    4 | reach = [0, "x", -1]
      |                  ^^ this value
      |
      = hint: 5432

    error: "dns.google" is no address of a name server
     --> /p.toml:5:8
      |
    5 | dns = ["dns.google"]
      |        ^^^^^^^^^^^^ this value
      |
      = hint: "9.9.9.9", "9.9.9.9:53", "[2620:fe::fe]:53"

    error: `network.mode` can't be "filterd"
     --> /p.toml:6:8
      |
    6 | mode = "filterd"
      |        ^^^^^^^^^ not a possible value
      |
      = hint: did you mean `filtered`?

    error: `network.default` can't be "aks"
     --> /p.toml:7:11
      |
    7 | default = "aks"
      |           ^^^^^ not a possible value
      |
      = hint: did you mean `ask`?
    "#);
}

#[test]
fn a_password_is_in_no_message() {
    for body in [
        "proxy = \"http://ann:s3cret@proxy\"",
        "proxy = \"https://ann:s3cret@proxy:1\"",
        "proxi = \"http://ann:s3cret@proxy:1\"",
        "proxy = [\"http://ann:s3cret@proxy:1\"]",
        "proxy = \"http://ann:s3%zzcret@proxy:1\"",
    ] {
        let text = mistakes(body);
        assert!(text.contains('^') && !text.contains("s3"), "{text}");
    }
    let proxy: Proxy = "http://ann:s3cret@proxy:1".parse().unwrap();
    assert!(!format!("{proxy} {proxy:?}").contains("s3cret"));
    let own = layer(User, "[network]\nproxy = \"http://ann:s3cret@proxy:1\"\n");
    assert!(render(&own).contains("ann:s3cret@"), "a file of one's own says all");
}

// Few names and addresses, so that rules often concern the same ones.
const HOSTS: [&str; 12] = [
    "*",
    "a.org",
    "*.org",
    "b.a.org",
    "*.a.org",
    "com",
    "10.0.0.0/8",
    "10.0.0.1",
    "1.1.1.1",
    "0.0.0.0/0",
    "2001:db8::/32",
    "::/0",
];
const PORTS: [&str; 5] = ["", ":443", ":1-1000", ":443-444", ":1000-65535"];
const NAMES: [&str; 5] = ["a.org", "b.a.org", "c.b.a.org", "org", "com"];
const ADDRESSES: [&str; 6] =
    ["10.0.0.1", "10.9.9.9", "1.1.1.1", "2001:db8::1", "2606:4700::1111", "::ffff:10.0.0.1"];
const ASKED: [u16; 5] = [1, 443, 444, 1000, 65535];

fn rule(allow: impl Strategy<Value = bool>) -> impl Strategy<Value = NetworkRule> {
    let place = (select(Layer::ALL.to_vec()), select(Strength::ALL.to_vec()));
    (place, select(HOSTS.to_vec()), select(PORTS.to_vec()), allow).prop_map(
        |((layer, strength), host, ports, allow)| {
            let target = if host.contains(':') && !ports.is_empty() {
                format!("[{host}]{ports}")
            } else {
                format!("{host}{ports}")
            };
            let strength = if palisade_policy::layer::may_lock(layer) || strength != Strength::Locked {
                strength
            } else {
                Strength::Set
            };
            NetworkRule {
                target: target.parse().unwrap(),
                allow,
                reason: None,
                origin: Origin { layer, file: None, line: 0, column: 0 },
                strength,
            }
        },
    )
}

fn of(rules: &[NetworkRule], fallback: Fallback) -> NetworkRules {
    let layers = rules.iter().map(|rule| {
        let mut layer = LayerPolicy::empty(rule.origin.layer, None);
        layer.settings.hosts.push(rule.clone());
        layer
    });
    NetworkRules { fallback, ..merge(layers.collect()).network_rules() }
}

/// The verdicts for every name and address, in a fixed order.
fn answers(rules: &NetworkRules) -> Vec<NetworkVerdict> {
    let judge = Judge::new(rules);
    let mut answers = Vec::new();
    let mut put = |ruling: Ruling<'_>| answers.push(ruling.verdict);
    for port in ASKED {
        for name in NAMES {
            put(judge.name(&name.parse().unwrap(), port));
        }
        for address in ADDRESSES {
            let address: IpAddr = address.parse().unwrap();
            put(judge.address(address, port));
            put(judge.leads_to(address, port));
        }
    }
    for name in NAMES {
        put(judge.lookup(&name.parse().unwrap()));
    }
    for address in ADDRESSES {
        put(judge.any_port(address.parse().unwrap()));
    }
    answers
}

fn is_within(own: NetworkVerdict, other: NetworkVerdict) -> bool {
    own as u8 >= other as u8
}

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("PROPTEST_CASES").map_or(400, |c| c.parse().unwrap()), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_refusal_never_widens(
        rules in prop::collection::vec(rule(any::<bool>()), 0..8),
        refusal in rule(Just(false)),
        at in 0_usize..9,
        fallback in select(Fallback::ALL.to_vec()),
    ) {
        let mut more = rules.clone();
        more.insert(at.min(rules.len()), refusal);
        let (before, after) = (answers(&of(&rules, fallback)), answers(&of(&more, fallback)));
        for (before, after) in before.into_iter().zip(after) {
            prop_assert!(is_within(after, before), "{before:?} {after:?}");
        }
    }

    #[test]
    fn a_later_layer_never_opens_what_a_lock_refuses(
        rules in prop::collection::vec(rule(any::<bool>()), 0..8),
        later in rule(Just(true)),
        fallback in select(Fallback::ALL.to_vec()),
    ) {
        let before = of(&rules, fallback);
        let mut more = rules.clone();
        more.push(NetworkRule { origin: Origin::argument(1), strength: Strength::Set, ..later });
        let after = of(&more, fallback);
        let judges = (Judge::new(&before), Judge::new(&after));
        for name in NAMES {
            for port in ASKED {
                let name = name.parse().unwrap();
                let ruling = judges.0.name(&name, port);
                let locked = ruling.rule.is_some_and(|rule| !rule.allow && rule.strength == Strength::Locked);
                prop_assert!(!locked || judges.1.name(&name, port).verdict == NetworkVerdict::Deny);
            }
        }
    }

    #[test]
    fn a_name_is_looked_up_exactly_if_some_port_is_open(
        rules in prop::collection::vec(rule(any::<bool>()), 0..6),
        fallback in select(Fallback::ALL.to_vec()),
    ) {
        let rules = of(&rules, fallback);
        let judge = Judge::new(&rules);
        let ports = [1, 2, 442, 443, 444, 445, 999, 1000, 1001, 65535];
        for name in NAMES {
            let name = name.parse().unwrap();
            let best = ports.iter().map(|port| judge.name(&name, *port).verdict as u8).min().unwrap();
            prop_assert_eq!(judge.lookup(&name).verdict as u8, best);
        }
        for address in ADDRESSES {
            let address: IpAddr = address.parse().unwrap();
            let best = ports.iter().map(|port| judge.address(address, *port).verdict as u8).min().unwrap();
            prop_assert_eq!(judge.any_port(address).verdict as u8, best);
        }
    }

    #[test]
    fn merging_is_associative(
        bodies in prop::collection::vec(
            (select(vec![Distribution, Administrator]), select(vec!["", "default.", "locked."]), select(vec![
                "mode = \"host\"", "mode = \"filtered\"", "default = \"allow\"", "default = \"ask\"",
                "allow = [\"a.org\"]", "deny = [\"*\", \"a.org:443\"]", "publish = []", "publish = [\"80\", \"81:80\"]",
                "reach = [1, 2]", "reach = []", "proxy = \"direct\"", "proxy = \"http://a:1\"", "dns = [\"9.9.9.9\"]",
            ])),
            0..8,
        ),
        one in 0_usize..9,
        two in 0_usize..9,
    ) {
        let mut layers: Vec<LayerPolicy> = bodies
            .iter()
            .map(|(of, prefix, body)| layer(*of, &format!("[{prefix}network]\n{body}\n")))
            .collect();
        layers.push(built_in());
        let (one, two) = (one.min(two).min(layers.len()), one.max(two).min(layers.len()));
        let whole = merge(layers.clone());
        let c = layers.split_off(two);
        let b = layers.split_off(one);
        let (a, b, c) = (merge(layers), merge(b), merge(c));
        prop_assert_eq!(&whole, &a.clone().combine(b.clone()).combine(c.clone()));
        prop_assert_eq!(&whole, &a.combine(b.combine(c)));
    }

    #[test]
    fn a_host_is_printed_as_it_is_read(rule in rule(any::<bool>())) {
        let printed = rule.target.to_string();
        prop_assert_eq!(printed.parse::<Target>().unwrap(), rule.target, "{}", printed);
    }
}
