// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any text: parsing doesn't panic, errors render, and what parses prints and parses again.
//! `cargo bolero test any_text` runs it for as long as it is left alone.

use std::path::Path;

use palisade_policy::{Context, Layer, built_in, merge, parse, render};

/// Pieces of policies, so that random bytes come past the TOML parser.
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
            if let Ok(resolved) = merge(vec![built_in(), policy]).resolve(&context) {
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
