// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks with random spellings that no unlisted setting passes: git itself says what a file contains.

use std::io::Write;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;

/// A name as git writes it, and its value.
type Setting = (Vec<u8>, Option<Vec<u8>>);

/// The settings that git reads in a text; `None` if git refuses the text.
fn git(text: &[u8]) -> Option<Vec<Setting>> {
    let mut child = Command::new("git")
        .args(["config", "--file", "-", "--no-includes", "--list", "-z"])
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text).unwrap();
    let output = child.wait_with_output().unwrap();
    output.status.success().then(|| {
        let settings = output.stdout.split(|byte| *byte == 0).filter(|setting| !setting.is_empty());
        settings
            .map(|setting| match setting.iter().position(|byte| *byte == b'\n') {
                Some(end) => (setting[..end].to_vec(), Some(setting[end + 1..].to_vec())),
                None => (setting.to_vec(), None),
            })
            // A setting before all sections has no name.
            .filter(|(name, _)| name.contains(&b'.'))
            .collect()
    })
}

fn named(name: &[u8]) -> Name {
    let first = name.iter().position(|byte| *byte == b'.').unwrap();
    let last = name.iter().rposition(|byte| *byte == b'.').unwrap();
    Name {
        section: String::from_utf8(name[..first].to_vec()).unwrap(),
        subsection: (first < last).then(|| name[first + 1..last].to_vec()),
        key: String::from_utf8(name[last + 1..].to_vec()).unwrap(),
    }
}

/// Git before 2.45 read a blank inside an unquoted value as a space. Later versions keep the blank.
fn blanks(value: Option<Vec<u8>>) -> Option<Vec<u8>> {
    value.map(|value| {
        value.into_iter().map(|byte| if matches!(byte, b'\t' | b'\r') { b' ' } else { byte }).collect()
    })
}

fn is_listed(name: &[u8]) -> bool {
    matches!(keys::status(&named(name)), KeyStatus::Listed(_))
}

fn place() -> Place<'static> {
    Place { git_directory: Path::new("/w/.git"), work_tree_top: Path::new("/w") }
}

/// If a text passes, git reads in it only listed settings and those that were there before.
fn nothing_passes_unseen(old: Option<&[u8]>, new: &[u8]) -> Result<(), TestCaseError> {
    let before = git(old.unwrap_or_default()).unwrap_or_default();
    for judgement in [judge(old, new, &place()), judge_settings(old, new, &place())] {
        if judgement.is_ok() {
            let read = git(new);
            // Git may refuse an unchanged text.
            prop_assert!(read.is_some() || old == Some(new), "git refuses it");
            for setting in read.unwrap_or_default() {
                let known = is_listed(&setting.0) || before.contains(&setting);
                prop_assert!(known, "{:?} passed", String::from_utf8_lossy(&setting.0));
            }
        }
    }
    Ok(())
}

const DANGEROUS: &[(&str, Option<&str>, &str)] = &[
    ("core", None, "hooksPath"),
    ("core", None, "fsmonitor"),
    ("core", None, "sshCommand"),
    ("include", None, "path"),
    ("includeIf", Some("gitdir:/"), "path"),
    ("alias", None, "status"),
    ("filter", Some("lfs"), "clean"),
    ("diff", Some("x"), "textconv"),
    ("merge", Some("x"), "driver"),
    ("credential", None, "helper"),
    ("remote", Some("origin"), "uploadpack"),
    ("remote", Some("origin"), "pushurl"),
    ("url", Some("x"), "insteadOf"),
    ("protocol", None, "allow"),
    ("protocol", Some("ext"), "allow"),
    ("gpg", None, "program"),
    ("hook", Some("x"), "command"),
];

const HARMLESS: &str =
    "[core]\n\tbare = false\n[user]\n\tname = Ann\n[remote \"origin\"]\n\turl = https://example.org/x\n";

fn any_case(text: &str) -> impl Strategy<Value = String> + use<> {
    let text = text.to_owned();
    proptest::collection::vec(any::<bool>(), text.len()).prop_map(move |upper| {
        let letters = text.chars().zip(upper);
        letters
            .map(|(c, upper)| if upper { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
            .collect()
    })
}

fn piece(from: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    proptest::sample::select(from)
}

/// A dangerous setting in some spelling, most of which git accepts.
fn spelt() -> impl Strategy<Value = String> {
    proptest::sample::select(DANGEROUS).prop_flat_map(|(section, subsection, key)| {
        let header = match subsection {
            None => any_case(section).prop_map(|section| format!("[{section}]")).boxed(),
            Some(subsection) => (any_case(section), 0..4_u8)
                .prop_map(move |(section, form)| match form {
                    0 => format!("[{section} \"{subsection}\"]"),
                    1 => format!("[{section}\t  \"{subsection}\"]"),
                    2 => format!("[{section}.{subsection}]"),
                    _ => format!("[{section} \"\\{subsection}\"]"),
                })
                .boxed(),
        };
        let before = piece(&[
            "",
            "\n",
            "# \\\n",
            "; \"\n",
            "[user]\nname = a\\\nb\n",
            "[user]\nname = \"a;\\\n\"\n",
            "[a.b \"c\"]",
            "[x]y\n",
        ]);
        let between = piece(&["", " ", "\n", "\n\t", "\r\n", "\n\n # \\\n", "# x\n", "\t"]);
        let assign = piece(&["", "=", " = ", "\t=", " =\\\n", "=\"\"", " = \\\r\n "]);
        let value =
            piece(&["x", "\"x\"", "!x", "x \\\n y", "x # y", "\"x ; y\" z", "", "a\"b\"", "\\\"x", "x\ty"]);
        let after = piece(&["", "\n", "\r\n", " ; x\n", "\n[user]\nname = x\n"]);
        (before, header, between, any_case(key), assign, value, after).prop_map(
            |(before, header, between, key, assign, value, after)| {
                let value = if assign.is_empty() { "" } else { value };
                format!("{before}{header}{between}{key}{assign}{value}{after}")
            },
        )
    })
}

/// Random text that looks a little like configuration.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let pieces: &'static [&'static str] = &[
        "[core]",
        "[branch \"x\"]",
        "[include]",
        "[a.b]",
        "[a.B \"C\"]",
        "[",
        "]",
        "\"",
        "\\",
        "=",
        "#",
        ";",
        "\n",
        "\n",
        "\r",
        "\r\n",
        " ",
        "\t",
        ".",
        "-",
        "\u{feff}",
        "bare",
        "merge",
        "hooksPath",
        "path",
        "x",
        "1",
        " = ",
        "true\n",
        "\u{b}",
        "\u{c}",
        "ä",
    ];
    proptest::collection::vec(piece(pieces), 0..24).prop_map(|pieces| pieces.concat().into_bytes())
}

fn git_is_missing() -> bool {
    std::env::var("PALISADE_TEST_HAS").is_ok_and(|has| !has.split(',').any(|feature| feature.trim() == "git"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_dangerous_setting_never_passes(spelt in spelt(), at in 0..=7_usize) {
        if git_is_missing() {
            return Ok(());
        }
        let lines: Vec<&str> = HARMLESS.split_inclusive('\n').collect();
        let (above, below) = lines.split_at(at.min(lines.len()));
        let new = [&above.concat(), &spelt, &below.concat()].map(|part| part.as_bytes()).concat();
        nothing_passes_unseen(Some(HARMLESS.as_bytes()), &new)?;
        nothing_passes_unseen(None, spelt.as_bytes())?;
        // Where git reads the setting, it is refused; where git refuses the text, it is refused here, too.
        let dangerous = git(&new).is_none_or(|read| read.iter().any(|(name, _)| !is_listed(name)));
        if dangerous {
            prop_assert!(judge_settings(Some(HARMLESS.as_bytes()), &new, &place()).is_err());
            prop_assert!(judge(Some(HARMLESS.as_bytes()), &new, &place()).is_err());
        }
    }

    #[test]
    fn noise_never_passes_unseen(old in noise(), new in noise()) {
        if git_is_missing() {
            return Ok(());
        }
        nothing_passes_unseen(Some(&old), &new)?;
        nothing_passes_unseen(None, &new)?;
        nothing_passes_unseen(Some(&old), &[old.as_slice(), b"\n", &new].concat())?;
    }

    #[test]
    fn files_are_read_as_git_reads_them(text in prop_oneof![noise(), spelt().prop_map(String::into_bytes)]) {
        if git_is_missing() {
            return Ok(());
        }
        let here = syntax::parse(&text).map(|entries| {
            entries.iter().map(|entry| (Name::of(entry), blanks(entry.value.clone()))).collect::<Vec<_>>()
        });
        let there = git(&text)
            .map(|read| read.into_iter().map(|(name, value)| (named(&name), blanks(value))).collect::<Vec<_>>());
        // It is safe to refuse a text that git reads.
        if let Ok(here) = here {
            prop_assert_eq!(Some(here), there);
        }
    }

    #[test]
    fn judging_never_panics(old in noise(), new in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = judge(Some(&old), &new, &place());
        let _ = judge_settings(Some(&new), &old, &place());
    }
}

/// Git accepts most of the spellings above. Otherwise the tests would prove nothing.
#[test]
fn the_spellings_are_gits() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    if git_is_missing() {
        return;
    }
    let mut runner = TestRunner::deterministic();
    let seen = (0..100)
        .filter(|_| {
            let text = spelt().new_tree(&mut runner).unwrap().current();
            git(text.as_bytes()).is_some_and(|read| read.iter().any(|(name, _)| !is_listed(name)))
        })
        .count();
    assert!(seen > 50, "{seen} of 100");
}
