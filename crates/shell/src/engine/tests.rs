// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::mark::NONCE;

const DIGITS: &str = "000102030405060708090a0b0c0d0e0f";

fn engine() -> Engine {
    assert_eq!(DIGITS.len(), NONCE);
    let nonce = Nonce::of(core::array::from_fn(|index| u8::try_from(index).unwrap()));
    Engine::new(nonce, Chain::default(), 80, 24, Instant::now())
}

fn prompt(engine: &mut Engine) -> Vec<u8> {
    let marks = format!(
        "\x1b]133;D;0;p={DIGITS}\x07\x1b]7717;{DIGITS};S;bash\x07\x1b]133;A;p={DIGITS}\x07$ \x1b]133;B;p={DIGITS}\x07"
    );
    shown(engine, marks.as_bytes())
}

fn run(engine: &mut Engine) {
    engine.input(b"\r", &mut |_| ());
    shown(engine, format!("\r\n\x1b]133;C;p={DIGITS}\x07").as_bytes());
    assert_eq!(engine.phase(), Phase::Running);
}

fn shown(engine: &mut Engine, bytes: &[u8]) -> Vec<u8> {
    let mut shown = Vec::new();
    engine.output(bytes, &mut |bytes| shown.extend_from_slice(bytes), &mut |_| ());
    shown
}

fn has(bytes: &[u8], words: &str) -> bool {
    String::from_utf8_lossy(bytes).contains(words)
}

#[test]
fn what_is_said_of_a_command_stands_behind_it() {
    let mut engine = engine();
    prompt(&mut engine);
    run(&mut engine);
    shown(&mut engine, b"no end of line");
    engine.notify("palisade: killed n\x1bc\nhint: so\n");
    let after = prompt(&mut engine);
    let text = String::from_utf8_lossy(&after).into_owned();
    let words = "\r\n\x1b[0;2mpalisade: killed n\\u{1b}c\x1b[0m\r\n\x1b[0;2mhint: so\x1b[0m\r\n\x1b]133;A";
    assert!(text.contains(words), "{text:?}");
    assert!(!has(&prompt(&mut engine), "palisade"), "it is said once");
}

#[test]
fn nothing_is_said_in_another_screen_than_the_normal_one() {
    let mut engine = engine();
    prompt(&mut engine);
    run(&mut engine);
    shown(&mut engine, b"\x1b[?1049h");
    engine.notify("palisade: killed nc");
    // A program that ends without leaving the other screen.
    assert!(!has(&prompt(&mut engine), "palisade"));
    run(&mut engine);
    shown(&mut engine, b"\x1b[?1049l");
    assert!(has(&prompt(&mut engine), "palisade: killed nc"));
}

#[test]
fn what_comes_too_late_is_said_below_the_next_line() {
    let mut engine = engine();
    prompt(&mut engine);
    engine.notify("palisade: killed nc");
    let mut drawn = Vec::new();
    engine.at(Instant::now() + Duration::from_secs(1));
    assert!(engine.due().is_some());
    engine.settle(&mut |_| (), &mut |bytes| drawn.extend_from_slice(bytes));
    assert!(has(&drawn, "palisade: killed nc"), "{}", drawn.escape_ascii());
    assert!(!has(&drawn, "\x1b[?1049h"));
}

/// A new window of the terminal begins where the shell is. Other programs' output doesn't change that.
#[test]
fn the_terminal_is_told_where_the_shell_is() {
    let mut engine = engine();
    engine.host = "here".into();
    let told = shown(&mut engine, format!("\x1b]7717;{DIGITS};W;/tmp/a b;\\n\u{e9}\x07$ ").as_bytes());
    assert_eq!(String::from_utf8(told).unwrap(), "\x1b]7;file://here/tmp/a%20b%3B%0A%C3%A9\x07$ ");
    for nothing in ["", "relative", "\x1b]0;x"] {
        let told = shown(&mut engine, format!("\x1b]7717;{DIGITS};W;{nothing}\x07$ ").as_bytes());
        assert!(!has(&told, "file:"), "{nothing}");
    }
}

/// bash draws its prompt again after its answer. It may have got the line by then.
#[test]
fn a_prompt_that_is_drawn_anew_ends_no_line() {
    let mut engine = engine();
    prompt(&mut engine);
    run(&mut engine);
    let mut given = Vec::new();
    engine.input(b"k", &mut |bytes| given.extend_from_slice(bytes));
    prompt(&mut engine);
    assert!(!engine.has_line() && !engine.line().is_certain());
    engine.input(b"ill 7\r", &mut |bytes| given.extend_from_slice(bytes));
    assert_eq!(given, [b"kill 7", ASK].concat(), "Enter waits for the answer");
    let answer = format!("\x1b]7717;{DIGITS};R;6;kill 7\x07");
    engine.output(answer.as_bytes(), &mut |_| (), &mut |bytes| given.extend_from_slice(bytes));
    assert!(given.ends_with(b"\r") && engine.has_line());
    let anew = format!("\r\x1b[K\x1b]133;A;p={DIGITS}\x07$ \x1b]133;B;p={DIGITS}\x07kill 7");
    shown(&mut engine, anew.as_bytes());
    assert!(engine.has_line());
    assert_eq!((engine.phase(), engine.line().text()), (Phase::Submitted, "kill 7"));
    shown(&mut engine, format!("\r\n\x1b]133;C;p={DIGITS}\x07").as_bytes());
    assert!(engine.has_line());
    prompt(&mut engine);
    assert_eq!((engine.phase(), engine.has_line()), (Phase::Edit, false));
    // One prompt more than bash owes: the editor is there, perhaps with all that was typed.
    engine.input(b"l\r", &mut |_| ());
    shown(&mut engine, anew.as_bytes());
    assert!(engine.has_line() && !engine.line().is_certain());
    assert_eq!(engine.phase(), Phase::Edit);
}

/// Output of a program without the nonce is passed on byte by byte and has no meaning, whatever its content and pieces
/// are.
#[test]
fn any_output_without_the_nonce_is_passed_on_as_it_is() {
    const PIECES: [&str; 8] = [
        "\x1b]133;C",
        "\x1b]133;A;p=",
        "\x1b]7717;",
        "\x07",
        "\x1b\\",
        "\x1b]7;file:",
        "\x1b[",
        ";p=00010203",
    ];
    bolero::check!().with_type::<(Vec<u8>, u8)>().for_each(|(choice, size): &(Vec<u8>, u8)| {
        let mut bytes = Vec::new();
        for byte in choice {
            match byte {
                0..64 => bytes.extend_from_slice(PIECES[usize::from(*byte) % PIECES.len()].as_bytes()),
                _ => bytes.push(*byte),
            }
        }
        let mut engine = engine();
        let mut came = Vec::new();
        for piece in bytes.chunks(usize::from(*size).max(1)) {
            came.extend(shown(&mut engine, piece));
            assert_eq!(engine.phase(), Phase::Unknown);
        }
        engine.settle(&mut |_| (), &mut |bytes| came.extend_from_slice(bytes));
        // Bytes that begin like one of our marks are kept until they end. No other bytes are kept.
        assert!(bytes.starts_with(&came), "{} became {}", bytes.escape_ascii(), came.escape_ascii());
        let kept = &bytes[came.len()..];
        assert!(kept.is_empty() || kept.starts_with(b"\x1b]7717;"), "{}", kept.escape_ascii());
    });
}

/// Keys, marks and output in any order break nothing. Keys reach the shell while no module holds them.
#[test]
fn anything_in_any_order_is_survived() {
    bolero::check!().with_type::<Vec<(u8, u8)>>().for_each(|steps: &Vec<(u8, u8)>| {
        let mut engine = engine();
        let mut now = Instant::now();
        for (what, byte) in steps {
            match what % 8 {
                0 => drop(prompt(&mut engine)),
                1 => engine.input(&[*byte], &mut |_| ()),
                2 => drop(shown(&mut engine, &[*byte])),
                3 => drop(shown(&mut engine, format!("\x1b]133;C;p={DIGITS}\x07").as_bytes())),
                4 => {
                    let mark = format!("\x1b]7717;{DIGITS};R;{byte};l\\\\s\x07");
                    drop(shown(&mut engine, mark.as_bytes()));
                }
                5 => engine.resize(u16::from(*byte), u16::from(byte / 4), &mut |_| ()),
                6 => engine.notify("palisade: words\nhint: words"),
                _ => {
                    now += Duration::from_millis(u64::from(*byte) * 4);
                    engine.at(now);
                    engine.settle(&mut |_| (), &mut |_| ());
                }
            }
        }
    });
}

#[derive(Debug)]
struct Suggests;

impl crate::chain::Module for Suggests {
    fn name(&self) -> &'static str {
        "suggests"
    }

    fn ghost<'a>(&'a self, _view: &View<'_>) -> Option<&'a str> {
        Some("ls /usr/share/doc")
    }
}

/// Keys that arrive before the shell has shown the earlier ones apply to the current line, not to the line on the
/// screen.
#[test]
fn ghost_text_is_taken_for_the_line_that_it_was_drawn_for() {
    const PART: &str = "\x1b[1;3C";
    for (keys, wanted) in [
        (format!("{PART}{PART}"), "/usr/share/"),
        (format!("/u{PART}"), "/usr/"),
        (format!("/{PART}{PART}{PART}"), "/usr/share/doc"),
        // The ghost text doesn't fit: the key goes to the shell.
        (format!("x{PART}"), "x\x1b[1;3C"),
        (format!("\x7f{PART}"), "\x7f\x1b[1;3C"),
    ] {
        let settings = crate::settings::Settings::default();
        let nonce = Nonce::of(core::array::from_fn(|index| u8::try_from(index).unwrap()));
        let chain = Chain::of(vec![
            Box::new(crate::modules::keymap::Keymap::new(&settings.keys)),
            Box::new(Suggests),
            Box::new(crate::modules::ghost::Ghost),
        ]);
        let mut engine = Engine::new(nonce, chain, 80, 24, Instant::now());
        prompt(&mut engine);
        engine.input(b"ls ", &mut |_| ());
        shown(&mut engine, b"ls ");
        engine.at(Instant::now() + Duration::from_secs(1));
        engine.settle(&mut |_| (), &mut |_| ());
        assert_eq!(engine.ghost(), "/usr/share/doc");
        let mut sent = Vec::new();
        engine.input(keys.as_bytes(), &mut |bytes| sent.extend_from_slice(bytes));
        assert_eq!(sent.escape_ascii().to_string(), wanted.as_bytes().escape_ascii().to_string(), "{keys:?}");
    }
}

/// Records the lines that Enter runs, as modules are told.
#[derive(Debug, Default)]
struct Judges(std::rc::Rc<std::cell::RefCell<Vec<String>>>);

impl crate::chain::Module for Judges {
    fn name(&self) -> &'static str {
        "judges"
    }

    fn commit(&mut self, view: &View<'_>, _acts: &mut crate::chain::Acts) -> crate::chain::Ruling {
        self.0.borrow_mut().push(view.line.text().to_owned());
        crate::chain::Ruling::Run
    }

    fn unread(&mut self, _view: &View<'_>) {
        self.0.borrow_mut().push("?".to_owned());
    }
}

/// zsh reports what a search has found a moment after each key. Until then, the line that Enter runs is unknown; it is
/// not the text that was typed for the search.
#[test]
fn what_a_search_of_zsh_finds_is_judged_as_told_or_not_at_all() {
    let told = |text: &str| format!("\x1b]7717;{DIGITS};L;0;{text}\x07");
    let (empty, first, found) = (told(""), told("lp -d x"), told("sleep 600 &"));
    for (shown_between, judged) in [
        (vec![empty.as_str(), &first, &found, &found], "sleep 600 &"),
        // Two keys aren't reported yet.
        (vec![&empty, &first], "?"),
        (vec![&empty], "?"),
        (vec![], "?"),
    ] {
        let said = Judges::default();
        let lines = std::rc::Rc::clone(&said.0);
        let nonce = Nonce::of(core::array::from_fn(|index| u8::try_from(index).unwrap()));
        let mut engine = Engine::new(nonce, Chain::of(vec![Box::new(said)]), 80, 24, Instant::now());
        let marks = format!(
            "\x1b]133;D;0;p={DIGITS}\x07\x1b]7717;{DIGITS};S;zsh\x07\x1b]133;A;p={DIGITS}\x07$ \x1b]133;B;p={DIGITS}\x07"
        );
        shown(&mut engine, marks.as_bytes());
        shown(&mut engine, empty.as_bytes());
        let mut telling = shown_between.iter();
        for key in ["\x12", "l", "e", "e"] {
            engine.input(key.as_bytes(), &mut |_| ());
            if let Some(marks) = telling.next() {
                shown(&mut engine, marks.as_bytes());
            }
        }
        engine.input(b"\r", &mut |_| ());
        assert_eq!(*lines.borrow(), [judged], "{shown_between:?}");
    }
}
