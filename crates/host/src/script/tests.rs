// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::script::naming::named as parse;

fn commands(text: &str) -> Vec<String> {
    parse(text, "/opt/x/own").unwrap().commands.into_iter().collect()
}

#[test]
fn commands_wherever_they_are() {
    for (text, expected) in [
        ("ls -l | sort; test -f x && cat x || exit 1", "cat ls sort"),
        ("x=$(basename \"$0\") y=`dirname a` z=\"$(date +%s)\"", "basename date dirname"),
        ("if grep -q a b; then exec sed s/a/b/; elif c; then d; else e; fi", "c d e grep sed"),
        ("while read -r l; do f1; done < <(g1)\nfor i in 1 2; do h1; done", "f1 g1 h1"),
        ("case $1 in a) i1;; *) j1;; esac; (k1); { l1; }", "i1 j1 k1 l1"),
        ("f() { m1; }; f; g2 () { f; }", "m1"),
        (
            "env A=b -u C n1 x; nohup o1 & sudo -u root p1; command -v q1; timeout -k 1 5s r1",
            "env n1 nohup o1 p1 q1 r1 sudo timeout",
        ),
        ("AWK=gawk; $AWK 1; ${SED:-gsed} x; \"$UNKNOWN\" y", "gawk gsed"),
        ("for a in mawk gawk; do $a 1; done", "gawk mawk"),
        ("sh -c 's1 | t1'; eval 'u1'; trap 'v1' EXIT; bash -ec \"w1\"", "bash s1 sh t1 u1 v1"),
        ("cat <<E\n$(x1)\nE\ncat <<'E'\n$(y1)\nE\n", "cat x1"),
        ("[[ -n $(z1) ]] && echo a; [ \"$(z2)\" ]", "z1 z2"),
        ("find . -print0 | xargs -0 -n 1 a2; /usr/bin/b2 c", "/usr/bin/b2 a2 find xargs"),
    ] {
        assert_eq!(commands(text).join(" "), expected, "{text}");
    }
}

#[test]
fn paths_and_what_is_read() {
    let script = parse(
        "P=/usr/share/x; . $P/lib.sh; source /etc/y.conf; . ./own; [ -e \"$P/data\" ] && cat </etc/z; echo /usr/*/x; exec $0.bin",
        "/opt/x/own",
    )
    .unwrap();
    let sourced: Vec<_> = script.sourced.iter().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(sourced, ["/etc/y.conf", "/usr/share/x/lib.sh"]);
    assert!(script.commands.contains("/opt/x/own.bin"));
    for path in ["/usr/share/x", "/usr/share/x/data", "/etc/z", "/etc/y.conf"] {
        assert!(script.paths.contains(Path::new(path)), "{path}: {script:?}");
    }
    assert!(!script.paths.iter().any(|path| path.to_str().unwrap().contains('*')));
}

#[test]
fn what_is_no_script_is_an_error_and_no_harm() {
    assert!(parse("if then fi (", "").is_err());
    assert!(parse(&"(".repeat(100_000), "").is_err());
    assert!(parse(&"$(".repeat(100_000), "").is_err());
    assert!(parse(&"{ ".repeat(100_000), "").is_err());
    for text in [
        "(",
        "$(",
        "{ ",
        "[ ",
        "`\\",
        "\"$(",
        "if ",
        "case x in (",
        "${a:-",
        "( ",
        "(\\\n",
        "(\n",
        "! ",
        "while ",
        "time ",
        "coproc ",
        "a | ",
        "a && ",
        "f() { ",
        "[[ ! ",
        "if a; then ",
    ] {
        for count in [8, 90, 50_000] {
            let started = std::time::Instant::now();
            let _read_or_not = parse(&text.repeat(count), "");
            let taken = started.elapsed();
            assert!(taken < std::time::Duration::from_secs(10), "{count} × {text:?}: {taken:?}");
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    std::fs::write(&file, "echo\n".repeat(CAP)).unwrap();
    assert!(matches!(read(&file), Err(ScriptError::Read(FileError::TooLarge { .. }))));
}
