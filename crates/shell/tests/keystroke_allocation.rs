// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that a key's way through the chain allocates nothing: in the modules, in the echo, in the ghost text.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test may die of what it has made itself")]

use palisade_shell::chain::{Chain, Module};
use palisade_shell::classify;
use palisade_shell::counts::Tally;
use palisade_shell::engine::{Engine, Phase};
use palisade_shell::history::{Entry, Index, Privacy};
use palisade_shell::mark::Nonce;
use palisade_shell::modules::{counts, ghost, history, incognito, keymap, line_guard};
use palisade_shell::settings::Settings;
use palisade_sys::counting::{Counting, allocations};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const DIGITS: &str = "000102030405060708090a0b0c0d0e0f";

fn engine(tally: &Rc<Tally>, state: &Path) -> Engine {
    let entries: Vec<Entry> = (0..5_000)
        .map(|number| Entry {
            line: format!("git commit -m 'change number {number}' --author me"),
            started: number,
            exit: Some(0),
            ..Entry::default()
        })
        .collect();
    let settings = Settings::default();
    let counting = counts::Counting::in_directory(state, Rc::clone(tally), Privacy::default());
    let guard = line_guard::LineGuard::new(&classify::Settings::default()).unwrap();
    let modules: Vec<Box<dyn Module>> = vec![
        Box::new(counting),
        Box::new(keymap::Keymap::new(&settings.keys)),
        Box::new(incognito::Incognito),
        Box::new(ghost::Ghost),
        Box::new(history::History::of(Index::build(&entries), Privacy::default())),
        Box::new(guard.with_tally(Rc::clone(tally))),
    ];
    let nonce = Nonce::of(core::array::from_fn(|index| u8::try_from(index).unwrap()));
    let mut engine = Engine::new(nonce, Chain::of(modules), 80, 24, Instant::now());
    let prompt = format!(
        "\r\n\x1b]133;D;0;p={DIGITS}\x07\x1b]7717;{DIGITS};S;bash\x07\x1b]7717;{DIGITS};W;/home/u\x07\x1b]133;A;p={DIGITS}\x07$ \x1b]133;B;p={DIGITS}\x07"
    );
    engine.output(prompt.as_bytes(), &mut |_| (), &mut |_| ());
    assert_eq!(engine.phase(), Phase::Edit);
    engine
}

#[test]
fn keys_echoes_and_ghost_text_allocate_and_write_nothing() {
    let (tally, state) = (Rc::new(Tally::default()), tempfile::tempdir().unwrap());
    let mut engine = engine(&tally, state.path());
    let mut now = Instant::now();
    let mut shown = 0;
    let (mut typed, mut drawn) = (0, 0);
    // The first round may fill buffers that are kept.
    for round in 0..3 {
        let before = allocations();
        for key in [
            b"g" as &[u8],
            b"i",
            b"t",
            b" ",
            b"c",
            b"\xc3\xa9",
            b"\x7f",
            b"\x1b[D",
            b"\x1b[C",
            b"o",
            b"\x1b[1;5C",
        ] {
            engine.at(now);
            engine.input(key, &mut |bytes| typed += bytes.len());
            let echo: &[u8] = match key {
                b"\x7f" | b"\x1b[D" => b"\x08\x1b[K",
                b"\x1b[C" => b"c",
                b"\x1b[1;5C" => b"mmit",
                other => other,
            };
            engine.output(echo, &mut |bytes| shown += bytes.len(), &mut |_| ());
            now += Duration::from_millis(3);
            engine.at(now);
            engine.settle(&mut |_| (), &mut |bytes| drawn += bytes.len());
        }
        let during = allocations() - before;
        assert_eq!(during, 0, "round {round}: {:?}", engine.line());
        assert_eq!(engine.line().text(), "git commit", "the ghost text's word was taken");
        assert!(engine.ghost().starts_with(" -m 'change"), "{:?}", engine.ghost());
        engine.input(b"\x15", &mut |_| ());
        engine.output(b"\r\x1b[2C\x1b[K", &mut |_| (), &mut |_| ());
    }
    assert!(typed > 0 && shown > 0 && drawn > 0);
    assert_eq!(
        (tally.ghost_shown.get(), tally.ghost_taken.get()),
        (3, 3),
        "what was shown and taken is counted"
    );
    assert_eq!(std::fs::read_dir(state.path()).unwrap().count(), 0, "keys write nothing");
    engine.tick();
    drop(engine);
    // The thread that writes the counts may take longer than the half second for which dropping waits.
    let until = Instant::now() + Duration::from_secs(60);
    let kept = loop {
        if let Some(kept) = palisade_shell::counts::read(state.path()).unwrap() {
            break kept;
        }
        assert!(Instant::now() < until, "nothing is kept");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!((kept.ghost_shown, kept.ghost_taken, kept.lines), (3, 3, 0));
}

#[test]
fn output_allocates_nothing() {
    let state = tempfile::tempdir().unwrap();
    let mut engine = engine(&Rc::default(), state.path());
    let chunk = b"\x1b[1;32msome words\x1b[0m in colour, and \x1b]0;a title\x07 more of them\r\n".repeat(200);
    let mut shown = 0;
    engine.output(&chunk, &mut |bytes| shown += bytes.len(), &mut |_| ());
    let before = allocations();
    for _ in 0..100 {
        engine.output(&chunk, &mut |bytes| shown += bytes.len(), &mut |_| ());
    }
    assert_eq!(allocations() - before, 0);
    assert_eq!(shown, 101 * chunk.len());
}
