// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the guard as users see it: settings, trust, lists, odd characters, and random lines.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use palisade_shell::classify::{
    Atoms, Classifier, Context, Level, Origin, Rule, Settings, Strictness, Verdict, lists, trust::Trust,
};

fn with(settings: &Settings) -> impl Fn(&str, Origin) -> Verdict + use<> {
    let classifier = Classifier::new(settings).unwrap();
    move |line, origin| classifier.classify(line, origin, &Context::default())
}

fn level(line: &str, origin: Origin) -> Level {
    with(&Settings::default())(line, origin).level
}

/// Checks what must hold for every verdict.
fn check(classifier: &Classifier, line: &str) {
    let context = Context::default();
    let typed = classifier.classify(line, Origin::Typed, &context);
    let pasted = classifier.classify(line, Origin::Pasted, &context);
    let machine = classifier.classify(line, Origin::Machine, &context);
    assert!(pasted.level >= typed.level, "{line:?}");
    assert!(machine.level >= pasted.level, "{line:?}");
    for verdict in [typed, pasted, machine] {
        let strongest = verdict.reasons.iter().map(|reason| reason.level).max().unwrap_or_default();
        assert_eq!(verdict.level, strongest, "{line:?}");
        for reason in verdict.reasons {
            assert!(line.get(reason.span.clone()).is_some(), "{line:?} {reason:?}");
            assert!(!reason.words.is_empty() && reason.rule.contains('/'), "{reason:?}");
        }
    }
}

#[test]
fn any_text_gets_a_verdict() {
    let classifier = AssertUnwindSafe(Classifier::new(&Settings::default()).unwrap());
    bolero::check!().with_type::<String>().for_each(|line: &String| {
        // Capture all of it and not its field: the field isn't known to survive a panic.
        let classifier = &classifier;
        check(&classifier.0, line);
    });
}

#[test]
fn pieces_of_shell_in_any_order_get_a_verdict() {
    const PIECES: &[&str] = &[
        "$(",
        ")",
        "`",
        "'",
        "\"",
        "${",
        "}",
        "{",
        "a,b",
        "|",
        "||",
        "&",
        "&&",
        ";",
        "\n",
        "<<E",
        "<<<",
        "<(",
        ">",
        ">&",
        "curl",
        " ",
        " ",
        "sh",
        "-c",
        "eval",
        "x=",
        "$x",
        "$@",
        "\\",
        "$'\\x41",
        "base64 -d",
        "rm -rf /",
        "for",
        "in",
        "do",
        "done",
        "if",
        "fi",
        "case",
        "esac",
        "(",
        "((",
        "[[",
        "]]",
        "#",
        "é",
        "\u{202e}",
        "xargs",
        "sudo",
        "/???/c?t",
        "/dev/tcp/",
        "function f",
        "f()",
        "find -exec",
        "echo cm0gLXJmIC8=",
        "printf '%s%b'",
        "tr a-z n-za-m",
        "rev",
        "E\n",
        "..",
        "{1..9}",
        "~",
        "*",
    ];
    let classifier = AssertUnwindSafe(Classifier::new(&Settings::default()).unwrap());
    bolero::check!().with_type::<Vec<u8>>().for_each(|choice: &Vec<u8>| {
        // Capture all of it and not its field: the field isn't known to survive a panic.
        let classifier = &classifier;
        let line: String =
            choice.iter().filter_map(|byte| PIECES.get(usize::from(*byte) % PIECES.len()).copied()).collect();
        check(&classifier.0, &line);
    });
}

/// If the time grows with the length of a line, the line takes less than a few seconds. If it grew with the square, the
/// line would take many seconds.
#[test]
fn a_lot_of_anything_is_judged() {
    let classifier = Classifier::new(&Settings::default()).unwrap();
    let context = Context::default();
    let pieces = [
        "$(",
        "`",
        "\"",
        "'",
        "${x:-",
        "(",
        "{",
        "((",
        "{a,b}",
        "sh|",
        "sh -c ",
        "eval ",
        "a=$a$a;",
        "$'\\x41'",
        "curl x|",
        "<(",
        "<<E\n",
        "sudo ",
        "xargs ",
        "/dev/tcp/",
        "rm -rf / ",
        "[[ ",
        "\u{202e}",
        "é",
        "\\",
        "\"$(",
        "'$(",
        "f(){ f|f& };",
        "case x in a) ",
        "echo a>b;",
        "find -exec ",
        "x=$(echo a|base64 -d);",
        "LD_PRELOAD=a ",
        "if ",
        "! ",
        "/etc/shadow ",
        "echo {a..z}",
        "-",
        "=",
        "base64 -d <<< YQ==|sh;",
    ];
    for piece in pieces {
        let line = piece.repeat((1 << 18) / piece.len() + 1);
        let begun = Instant::now();
        let verdict = classifier.classify(&line, Origin::Typed, &context);
        println!("{piece:?}: {:?} {}", begun.elapsed(), verdict.level.name());
        for reason in verdict.reasons {
            assert!(line.get(reason.span.clone()).is_some());
        }
    }
}

#[test]
fn characters_that_deceive_are_seen() {
    let cases = [
        ("echo a\u{202e}b", "characters/direction"),
        ("echo a\u{200b}b", "characters/invisible"),
        ("echo \u{e0041}", "characters/tags"),
        ("echo \u{1b}[2K", "characters/escape-sequence"),
        ("echo a\rls", "characters/carriage-return"),
        ("сurl https://example.com", "characters/command-homograph"),
        ("curl https://gіthub.com/x", "characters/host-homograph"),
        ("curl https://xn--gthub-n4a.com/x", "characters/punycode-host"),
        (&format!("ls{}; id", " ".repeat(80)), "characters/out-of-sight"),
    ];
    for (line, rule) in cases {
        let verdict = with(&Settings::default())(line, Origin::Typed);
        assert!(
            verdict.reasons.iter().any(|reason| reason.rule == rule),
            "{line:?} {rule} {:?}",
            verdict.reasons
        );
    }
    for line in ["echo grüße", "cat 'документ.txt'", "git commit -m '修复 👨‍👩‍👧'", "cd Музыка && ls"]
    {
        assert_eq!(level(line, Origin::Typed), Level::Allow, "{line}");
    }
    assert_eq!(level("ls\nid", Origin::Typed), Level::Allow);
    assert_eq!(level("ls\nid", Origin::Pasted), Level::Warn);
}

#[test]
fn a_line_that_nobody_can_read_is_not_safe() {
    let deep = format!("{}echo a{}", "$(".repeat(40), ")".repeat(40));
    let open = "cat /etc/shadow 'and";
    assert!(level(&deep, Origin::Typed) >= Level::Warn);
    assert!(level(open, Origin::Typed) >= Level::Warn);
    assert!(level("(echo /etc/ld.so.preload", Origin::Typed) >= Level::Warn);
}

#[test]
fn rules_of_the_users_come_first() {
    let rule = |action, change: &dyn Fn(&mut Rule)| {
        let mut rule = Rule { name: "own".to_owned(), action, ..Rule::default() };
        change(&mut rule);
        Settings { rules: vec![rule], ..Settings::default() }
    };
    let allow = rule(Level::Allow, &|rule| rule.prefix = Some("rm -rf /".to_owned()));
    assert_eq!(with(&allow)("rm -rf /usr", Origin::Typed).level, Level::Allow);
    // The rule doesn't allow the rest of the line.
    assert_eq!(with(&allow)("rm -rf /usr; rm -rf /etc", Origin::Typed).level, Level::Confirm);
    let block = rule(Level::Block, &|rule| {
        rule.command = Some("git".to_owned());
        rule.args = vec!["push".to_owned(), "--force*".to_owned()];
    });
    assert_eq!(with(&block)("cd x && sudo git push --force-with-lease", Origin::Typed).level, Level::Block);
    assert_eq!(with(&block)("git push", Origin::Typed).level, Level::Allow);
    let machine = rule(Level::ConfirmOnce, &|rule| {
        rule.glob = Some("kubectl *".to_owned());
        rule.origins = vec![Origin::Machine];
    });
    assert_eq!(with(&machine)("kubectl get pods", Origin::Typed).level, Level::Allow);
    assert_eq!(with(&machine)("kubectl get pods", Origin::Machine).level, Level::ConfirmOnce);
    let without = Settings { without: vec!["destroys".to_owned()], ..Settings::default() };
    assert_eq!(with(&without)("rm -rf /usr", Origin::Typed).level, Level::Allow);
    let strictest = Settings { machine: Strictness::Strictest, ..Settings::default() };
    assert_eq!(with(&strictest)("rm -rf /usr", Origin::Machine).level, Level::Block);
    for wrong in [
        rule(Level::Warn, &|_| {}),
        rule(Level::Warn, &|rule| rule.prefix = Some(String::new())),
        rule(Level::Warn, &|rule| (rule.prefix, rule.glob) = (Some("a".to_owned()), Some("b".to_owned()))),
        rule(Level::Warn, &|rule| (rule.prefix, rule.args) = (Some("a".to_owned()), vec!["b".to_owned()])),
    ] {
        assert!(Classifier::new(&wrong).is_err());
    }
}

#[test]
fn trust_is_of_one_line_and_survives() {
    let state = tempfile::tempdir().unwrap();
    let settings = Settings { state: Some(state.path().join("a/b")), ..Settings::default() };
    let judge = with(&settings);
    let line = "curl https://example.com/i.sh | sh";
    assert_eq!(judge(line, Origin::Typed).level, Level::Confirm);
    let trust = Trust::in_directory(&state.path().join("a/b"));
    assert!(trust.add(line, 7).unwrap());
    assert!(!trust.add(line, 8).unwrap());
    let verdict = judge(line, Origin::Pasted);
    assert_eq!(verdict.level, Level::Allow);
    assert!(!verdict.reasons.is_empty(), "it still says what the line does");
    assert_eq!(judge("curl https://example.com/i.sh  | sh", Origin::Typed).level, Level::Confirm);
    let list = trust.list().unwrap();
    assert_eq!((list.len(), list[0].since, list[0].command.as_str()), (1, 7, "curl"));
    let text = std::fs::read_to_string(state.path().join("a/b/trusted-lines")).unwrap();
    assert!(!text.contains("example.com"), "the file tells what was typed");
    assert!(trust.remove(&list[0].hash[..12]).unwrap());
    assert!(!trust.remove(line).unwrap());
    assert_eq!(judge(line, Origin::Typed).level, Level::Confirm);
    // Concurrent changes lose nothing.
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let trust = trust.clone();
            scope.spawn(move || {
                (0..10).for_each(|n| assert!(trust.add(&format!("rm -rf /x{thread}{n}"), 1).unwrap()))
            });
        }
    });
    assert_eq!(trust.list().unwrap().len(), 40);
}

#[test]
fn lists_and_advisories_are_looked_into() {
    let state = tempfile::tempdir().unwrap();
    let own = state.path().join("own.txt");
    std::fs::write(
        &own,
        "npm left-pad we don't use it\nhost bad.example known\nurl https://ok.example/bad/ known\n",
    )
    .unwrap();
    assert_eq!(lists::update(state.path(), &own).unwrap(), 3);
    let osv = state.path().join("osv.json");
    let advisories = r#"[
        {"id":"MAL-2025-1","summary":"steals keys","affected":[{"package":{"ecosystem":"PyPI","name":"Evil_Pkg"},"ranges":[{"type":"ECOSYSTEM","events":[{"introduced":"0"}]}]}]},
        {"id":"GHSA-xxxx-1","affected":[{"package":{"ecosystem":"crates.io","name":"holey"},"ranges":[{"type":"SEMVER","events":[{"introduced":"1.0.0"},{"fixed":"1.2.10"}]}]}]},
        {"id":"GHSA-xxxx-2","affected":[{"package":{"ecosystem":"npm","name":"@a/b"},"versions":["2.0.0"]}]},
        {"id":"GHSA-gone-3","withdrawn":"2025-01-01T00:00:00Z","affected":[{"package":{"ecosystem":"npm","name":"fine"}}]}]"#;
    std::fs::write(&osv, advisories).unwrap();
    assert_eq!(lists::update(state.path(), &osv).unwrap(), 3);
    let judge = with(&Settings { state: Some(state.path().to_owned()), ..Settings::default() });
    for (line, reference) in [
        ("npm install left-pad", ""),
        ("npm i crossenv", ""),
        ("curl https://sub.bad.example/x", ""),
        ("wget https://ok.example/bad/file", ""),
        ("python3 -m pip install evil.pkg", "MAL-2025-1"),
        ("cargo add holey@1.2.9", "GHSA-xxxx-1"),
        ("sudo npm install -g @a/b@2.0.0", "GHSA-xxxx-2"),
        ("npm install event-stream@3.3.6", ""),
    ] {
        let verdict = judge(line, Origin::Typed);
        let reason = verdict.reasons.iter().find(|reason| reason.rule.starts_with("lists/"));
        let reason = reason.unwrap_or_else(|| panic!("{line}: {verdict:?}"));
        assert!(reference.is_empty() || reason.reference == reference, "{line}: {reason:?}");
    }
    for line in [
        "cargo add holey@1.2.10",
        "cargo add holey",
        "npm install @a/b@2.0.1",
        "npm install fine",
        "curl https://ok.example/good",
        "npm install event-stream@4.0.0",
        "curl https://notbad.example",
    ] {
        assert_eq!(judge(line, Origin::Typed).level, Level::Allow, "{line}");
    }
    let wrong = state.path().join("wrong.txt");
    for text in ["what is this\n", "[{\"id\": 3}]", "npm\n"] {
        std::fs::write(&wrong, text).unwrap();
        assert!(lists::update(state.path(), &wrong).is_err(), "{text}");
    }
}

#[test]
fn lists_are_read_again_when_they_change() {
    let state = tempfile::tempdir().unwrap();
    let own = state.path().join("own.txt");
    let judge = with(&Settings { state: Some(state.path().to_owned()), ..Settings::default() });
    for kind in ["npm install", "pip install", "cargo add", "gem install"] {
        assert_eq!(judge(&format!("{kind} left-pad"), Origin::Typed).level, Level::Allow);
    }
    let change = |text: &str| {
        std::fs::write(&own, text).unwrap();
        lists::update(state.path(), &own).unwrap();
    };
    change("npm left-pad\npypi left-pad\n");
    assert_eq!(judge("npm install left-pad", Origin::Typed).level, Level::Confirm);
    assert_eq!(judge("pip install left-pad", Origin::Typed).level, Level::Confirm);
    assert_eq!(judge("cargo add left-pad", Origin::Typed).level, Level::Allow);
    change("crates left-pad another one\n");
    assert_eq!(judge("npm install left-pad", Origin::Typed).level, Level::Allow);
    assert_eq!(judge("cargo add left-pad", Origin::Typed).level, Level::Confirm);
    // A list that was written by hand works, too. An unreadable list is reported, and the line isn't called harmless.
    let list = state.path().join("lists/own.list");
    std::fs::write(&list, b"crates \xff\n").unwrap();
    let verdict = judge("cargo add left-pad", Origin::Typed);
    assert_eq!(verdict.first().map(|reason| reason.rule.as_str()), Some("lists/unreadable"));
    std::fs::remove_file(&list).unwrap();
    assert_eq!(judge("cargo add left-pad", Origin::Typed).level, Level::Allow);
}

#[test]
fn what_was_run_before_counts() {
    let classifier = Classifier::new(&Settings::default()).unwrap();
    let mut context = Context::default();
    let line = "sh ./setup.sh";
    assert_eq!(classifier.classify(line, Origin::Typed, &context).level, Level::Allow);
    let download =
        classifier.classify("curl -fsSLo setup.sh https://example.com/setup.sh", Origin::Typed, &context);
    assert_eq!(download.level, Level::Allow);
    context.session.note(&download);
    assert_eq!(classifier.classify(line, Origin::Typed, &context).level, Level::Warn);
    // Weak signs add up over several lines, and are forgotten again.
    let sign = classifier.classify("curl -k http://198.51.100.9:4444/a", Origin::Typed, &context);
    for _ in 0..5 {
        context.session.note(&sign);
    }
    let hot = context.session.heat();
    assert!(hot > sign.score);
    let plain = classifier.classify("ls", Origin::Typed, &context);
    assert_eq!(plain.level, Level::Allow);
    for _ in 0..30 {
        context.session.note(&plain);
    }
    assert!(context.session.heat() < hot / 4);
}

/// Prints the cost of a line; `cargo test --release --test classify -- --nocapture cost`.
#[test]
fn what_a_line_costs_is_printed() {
    let classifier = Classifier::new(&Settings::default()).unwrap();
    let begun = Instant::now();
    classifier.prepare();
    println!("the table: {:?}", begun.elapsed());
    let lines = [
        "ls -la",
        "git commit -m 'Fix the build' && git push origin main",
        "curl -fsSL https://example.com/a.json | jq '.items[] | .name' | sort -u > names.txt",
    ];
    for line in lines {
        let begun = Instant::now();
        for _ in 0..2000 {
            std::hint::black_box(classifier.classify(line, Origin::Typed, &Context::default()));
        }
        println!("{} bytes: {:?} a line", line.len(), begun.elapsed() / 2000);
    }
    let table: String = (0..5000).fold("= g C T1059 words\n".to_owned(), |text, n| {
        text + &format!(
            "a{n}: prog{n},tool{} --option-{n}|^/some/path/{n}/ ~text{}x{n}\n",
            n % 700,
            n * 7919 % 5000
        )
    });
    let begun = Instant::now();
    let atoms = Atoms::parse(Box::leak(table.into_boxed_str())).unwrap();
    println!("{} atoms: {:?} to build", atoms.len(), begun.elapsed());
    assert_eq!(atoms.len(), 5000);
    let text = lines[2].repeat(120);
    let begun = Instant::now();
    for _ in 0..200 {
        std::hint::black_box(atoms.scan(&text));
    }
    println!(
        "scan: {:.0} ns per 100 bytes",
        begun.elapsed().as_nanos() as f64 / 200.0 / text.len() as f64 * 100.0
    );
}
