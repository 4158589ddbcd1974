// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use std::time::{Duration, Instant};

/// The events of a text in a short notation.
fn told(text: &str) -> String {
    let raw = |range: &std::ops::Range<usize>| text[range.clone()].to_owned();
    let events = Reader::new(text).map(|event| match event {
        Event::Word(range) => raw(&range),
        Event::Assignment(range) => format!("{}:", raw(&range)),
        Event::Redirect(redirect) => match redirect.document {
            Some(document) => format!("<<{:?}", raw(&document.body)),
            None => format!(">{}", raw(&redirect.target)),
        },
        Event::Foreign(range) => format!("foreign({})", raw(&range)),
        Event::Sum(range) => format!("sum({})", raw(&range)),
        Event::Test(_) => "test".to_owned(),
        Event::Variable(range) => format!("variable({})", raw(&range)),
        Event::Item(range) => format!("item({})", raw(&range)),
        Event::Pattern(range) => format!("pattern({})", raw(&range)),
        Event::Function(range) => format!("function({})", raw(&range)),
        Event::Open => "{".to_owned(),
        Event::Shut => "}".to_owned(),
        Event::End(End::Plain) => ";".to_owned(),
        Event::End(End::Background) => "&".to_owned(),
        Event::End(End::Pipe) => "|".to_owned(),
    });
    events.collect::<Vec<_>>().join(" ")
}

fn fault(text: &str) -> Option<FaultKind> {
    let mut reader = Reader::new(text);
    reader.by_ref().for_each(drop);
    reader.fault().map(|fault| fault.kind)
}

#[test]
fn a_text_comes_to_events() {
    for (text, expected) in [
        ("a b | c & d", "a b | c & d ;"),
        ("x=1 y=(a b) a z=2 >f 2>&1", "x=1: y=(a b): a z=2 >f >1 ;"),
        ("(a); { b; }", "{ a ; } ; { b ; ; } ;"),
        ("for x in 1 $y; do a; done", "{ variable(x) item(1) item($y) ; a ; ; } ;"),
        ("case $x in (a|b) c;; *) d; esac", "{ item($x) ; pattern(a) pattern(b) c ; pattern(*) d ; ; } ;"),
        ("f() { a; }; f", "function(f) { a ; ; } ; f ;"),
        ("cat <<E; b\n1 $x\nE\nc", "cat <<\"1 $x\\n\" ; b ; c ;"),
        ("[[ a =~ (b|c d) ]] && e", "test a =~ (b|c d) ; e ;"),
        ("((1 < 2)); ((a); b)", "sum(1 < 2) ; { { a ; } ; b ; } ;"),
        ("echo (a)", "echo foreign(a) ;"),
        ("x=$(case a in a) b;; esac) c", "x=$(case a in a) b;; esac): c ;"),
    ] {
        assert_eq!(told(text), expected, "{text}");
    }
}

#[test]
fn what_a_shell_would_refuse_is_a_fault() {
    for text in ["if a; then b", "echo 'a", "x=$(a", "[[ a", "f()", "a |", "{ a", "cat <<E\na\n", "a <"] {
        assert_eq!(fault(text), Some(FaultKind::Open), "{text}");
    }
    for text in
        ["fi", "a )", "a;;b", "; a", "{ }", "if a; then fi", "{ a; } b", "echo (a)", "while a; do b; fi"]
    {
        assert_eq!(fault(text), Some(FaultKind::Stray), "{text}");
    }
    for text in
        ["", "# a", "a;", "a &", "! a", "case x in esac", "x= a", "if (a) then b; fi", "for x do a; done"]
    {
        assert_eq!(fault(text), None, "{text}");
    }
}

#[test]
fn a_word_has_parts() {
    let text = "a\\b'c'\"d$e\"$'f'$(g)`h`$((1+1))${i:-j}$?<(k)";
    let parts: Vec<Part> = parts(text, Quoting::Plain).collect();
    let slice = |range: &std::ops::Range<usize>| &text[range.clone()];
    let found: Vec<(&str, &str)> = parts
        .iter()
        .map(|part| match part {
            Part::Text(range) => ("text", slice(range)),
            Part::Escaped(range) => ("escaped", slice(range)),
            Part::Single(range) => ("single", slice(range)),
            Part::Ansi(range) => ("ansi", slice(range)),
            Part::Double(range) => ("double", slice(range)),
            Part::Backquoted(range) => ("backquoted", slice(range)),
            Part::Command(range) => ("command", slice(range)),
            Part::Sum(range) => ("sum", slice(range)),
            Part::Readable(range) => ("readable", slice(range)),
            Part::Writable(range) => ("writable", slice(range)),
            Part::Parameter(range) => ("parameter", slice(range)),
            Part::Variable(range) => ("variable", slice(range)),
        })
        .collect();
    let expected = [
        ("text", "a"),
        ("escaped", "b"),
        ("single", "c"),
        ("double", "d$e"),
        ("ansi", "f"),
        ("command", "g"),
        ("backquoted", "h"),
        ("sum", "1+1"),
        ("parameter", "i:-j"),
        ("variable", "?"),
        ("readable", "k"),
    ];
    assert_eq!(found, expected);
}

/// Reads a text and the texts nested in its words, down to `depth`. Returns the number of events.
fn read_all(text: &str, depth: usize) -> usize {
    let mut count = 0;
    let mut inner = Vec::new();
    for event in Reader::new(text) {
        count += 1;
        match event {
            Event::Word(range) | Event::Assignment(range) | Event::Item(range) | Event::Pattern(range) => {
                inner.push((range, Quoting::Plain));
            }
            Event::Redirect(redirect) => {
                inner.push((redirect.target, Quoting::Plain));
                inner.extend(redirect.document.map(|document| (document.body, Quoting::Document)));
            }
            _ => {}
        }
    }
    for (range, quoting) in inner {
        let word = &text[range];
        count +=
            usize::from(Assignment::of(word).is_some_and(|assignment| !word[assignment.value].is_empty()));
        if word.len() < 64 {
            count += braces(word, 8).map_or(0, |words| words.len()) + elements(word).count();
        }
        for part in parts(word, quoting) {
            count += 1;
            match part {
                Part::Command(range) | Part::Backquoted(range) if depth > 0 => {
                    count += read_all(&word[range], depth - 1);
                }
                Part::Double(range) => count += parts(&word[range], Quoting::Double).count(),
                Part::Parameter(range) => count += Parameter::of(&word[range]).name.len().min(1),
                Part::Ansi(range) => count += ansi(&word[range]).len().min(1),
                _ => {}
            }
        }
    }
    count
}

#[test]
fn any_text_is_read() {
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let events = Reader::new(&text).collect::<Vec<_>>();
        let mut open = 0_usize;
        for event in &events {
            match event {
                Event::Open => open += 1,
                Event::Shut => {
                    open = open.checked_sub(1).unwrap_or_else(|| panic!("shut before open: {text:?}"))
                }
                Event::Word(range) => assert!(text.get(range.clone()).is_some(), "{text:?}: {range:?}"),
                _ => {}
            }
        }
        assert!(events.len() <= 4 * text.len() + 4, "{text:?}");
        read_all(&text, 3);
    });
}

/// Pieces of shell text, which are joined in any order.
const PIECES: &[&str] = &[
    "if ",
    "then ",
    "fi",
    "while ",
    "do ",
    "done",
    "for ",
    "in ",
    "case ",
    "esac",
    "{ ",
    "}",
    "(",
    ")",
    "((",
    "))",
    "[[ ",
    " ]]",
    "a ",
    "b=",
    "c[",
    "]",
    "+=",
    "$",
    "${",
    "$(",
    "`",
    "'",
    "\"",
    "$'",
    "\\",
    "\n",
    ";",
    ";;",
    "&",
    "&&",
    "|",
    "||",
    "<",
    ">",
    "<<",
    "<<-E",
    "E\n",
    "<<<",
    "<(",
    "#",
    " ",
    "\t",
    "!",
    "~",
    "*",
    ":-",
    "é",
    "=~",
    "function ",
    "0",
];

#[test]
fn any_pieces_are_read() {
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        let text: String = bytes.iter().map(|byte| PIECES[usize::from(*byte) % PIECES.len()]).collect();
        let events = Reader::new(&text).count();
        assert!(events <= 4 * text.len() + 4, "{text:?}");
        read_all(&text, 3);
    });
}

/// Repeats each piece many times: twice as many take about twice as long. The best of several runs counts, because
/// other programs run meanwhile.
#[test]
fn time_grows_with_the_length() {
    let more = [
        "$((#'\n))",
        "$((1<<2))",
        "<<a ",
        "<<a\n",
        "a[",
        "a[$(",
        "((a)",
        "( ( ",
        "${a:-",
        "\"${a:-",
        "$(<<",
        "{a,",
    ];
    for piece in PIECES.iter().chain(&more) {
        let time = |length: usize| {
            let text = piece.repeat(length / piece.len());
            let started = Instant::now();
            let events = read_all(&text, 0);
            assert!(events <= 8 * text.len() + 8, "{piece:?}");
            started.elapsed()
        };
        let (mut short, mut long) = (Duration::MAX, Duration::MAX);
        // One run is enough if it isn't disturbed; the best of twenty counts.
        let grows = (0..20).any(|_| {
            (short, long) = (short.min(time(8 << 10)), long.min(time(64 << 10)));
            // The text is eight times as long. With quadratic growth it would take 64 times as long.
            long < short * 32 + Duration::from_millis(20)
        });
        assert!(grows, "{piece:?}: {short:?}, {long:?}");
    }
}

/// Nested texts need only a small stack, whatever their depth.
#[test]
fn depth_takes_no_stack() {
    let deep = || {
        for piece in [
            "(",
            "$(",
            "${",
            "{ ",
            "\"$(",
            "`",
            "if ",
            "case x in (",
            "[[ ",
            "$((",
            "<(",
            "a=(",
            "f() ",
            "$(<<$(",
        ] {
            assert!(read_all(&piece.repeat(100_000), 0) > 0, "{piece}");
        }
    };
    std::thread::Builder::new().stack_size(64 << 10).spawn(deep).unwrap().join().unwrap();
}
