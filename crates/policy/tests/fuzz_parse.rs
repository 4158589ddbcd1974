// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes the parser with any text: parsing doesn't panic, errors can be rendered, and a parsed policy can be printed
//! and parsed again. `cargo bolero test any_text` runs it until it is stopped.

use std::path::Path;

use palisade_policy::{Context, Layer, built_in, merge, parse, render};

/// Fragments of policies, so that random bytes get past the TOML parser.
const PIECES: &[&str] = &[
    "schema = 1\n",
    "[filesystem]\n",
    "[locked.network]\n",
    "[default.limits]\n",
    "[environment]\n",
    "[process]\n",
    "read = [\"~/a\", \"/b=/c\"]\n",
    "hide = [\"**/.env\", \"[!a]*\"]\n",
    "protect = \"off\"\n",
    "protect_names = [\".git/hooks\", \"a/**\"]\n",
    "allow_names = [\"x*\"]\n",
    "protect_paths = [\"**/b\"]\n",
    "mode = \"none\"\n",
    "[network]\n",
    "mode = \"filtered\"\n",
    "default = \"ask\"\n",
    "allow = [\"*.example.com:443\", { host = \"10.0.0.0/8\", reason = \"\\u0007\" }]\n",
    "deny = [\"[2001:db8::/32]:1-9\", \"*\"]\n",
    "publish = [\"8080:80\"]\n",
    "reach = [5432, \"80\"]\n",
    "reach = []\n",
    "proxy = \"http://a:%00@b:1\"\n",
    "proxy = \"socks5h://a:b%40@[::1]:1080\"\n",
    "dns = [\"9.9.9.9\"]\n",
    "reason = ",
    "memory = \"2G\"\n",
    "cpu_time = 90\n",
    "set = { A = \"b\" }\n",
    "keep = [\"X*\"]\n",
    "uid = 0xff\n",
    "view = \"closure\"\n",
    "write = [",
    "]\n",
    "\"",
    "'''",
    "\\u0007",
    "${home}",
    "${",
    "..",
    "/",
    "=",
    "{",
    "}",
    "\u{e9}",
    "\n",
    "inherits = [\"x\"]\n",
];

fn check(text: &str) {
    let file = Path::new("/p.toml");
    let _any = palisade_policy::network::masked(text);
    let _any = palisade_policy::network::host_port(text);
    match parse(text, Some(file), Layer::Administrator) {
        Err(errors) => {
            assert!(!errors.is_empty() && errors.len() <= 64);
            for error in errors {
                assert!(error.line >= 1 && error.column >= 1);
                assert!(!error.to_string().contains('\u{7}'));
                assert!(!error.render(false).is_empty());
            }
        }
        Ok(policy) => {
            let printed = render(&policy);
            let again = parse(&printed, Some(file), Layer::Administrator)
                .unwrap_or_else(|errors| panic!("{printed}\n{}", errors[0].render(false)));
            assert_eq!(render(&again), printed);
            let context = Context {
                home: "/h".into(),
                cwd: "/h/w".into(),
                project: None,
                user: "u".into(),
                uid: 1,
                runtime_dir: Some("/r".into()),
                ..Context::default()
            };
            let merged = merge(vec![built_in(), policy]);
            let rules = merged.network_rules();
            let judge = palisade_policy::network::Judge::new(&rules);
            let _any = "a.example.com".parse().map(|name| judge.lookup(&name).verdict);
            let _any =
                (merged.network(), merged.reach(), merged.publish(), merged.upstream_dns(), merged.idle());
            if let Ok(resolved) = merged.resolve(&context) {
                for path in resolved.effective() {
                    assert_eq!(resolved.decide(&path.destination).grant, path.grant);
                }
            }
        }
    }
}

#[test]
fn any_text() {
    bolero::check!()
        .with_iterations(1500)
        .with_max_len(512)
        .for_each(|bytes: &[u8]| check(&String::from_utf8_lossy(bytes)));
}

#[test]
fn any_arrangement_of_pieces() {
    bolero::check!().with_iterations(1500).with_max_len(24).for_each(|bytes: &[u8]| {
        let pieces = bytes.iter().map(|byte| PIECES[usize::from(*byte) % PIECES.len()]);
        check(&format!("schema = 1\n{}", pieces.collect::<String>()));
    });
}
