// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures single steps in the handling of keys and output, in this process.

use super::{ShellError, series};
use crate::bench::{Bench, BenchError};
use crate::goal::{Bound, Goal, Unit};
use crate::statistics::estimate;
use crate::summary::{Scale, Table};
use palisade_shell::chain::{Chain, Module};
use palisade_shell::classify::{self, Atoms};
use palisade_shell::engine::Engine;
use palisade_shell::history::{Entry, Index, Privacy};
use palisade_shell::key::{Chord, Code, Decoder};
use palisade_shell::line::Line;
use palisade_shell::mark::Nonce;
use palisade_shell::modules::keymap::Keymap;
use palisade_shell::modules::{ghost, history, incognito, line_guard};
use palisade_shell::settings::Settings;
use palisade_sys::counting::allocations;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The number of lines in the history, as in the target.
const LINES: i64 = 100_000;
/// The minimum duration of a sample.
const SAMPLE: Duration = Duration::from_millis(2);
const MEBIBYTE: f64 = 1_048_576.0;

/// The operations: name, what one of them is, and its target in seconds.
const OPERATIONS: [(&str, &str, Option<f64>); 6] = [
    ("dispatch_input", "a key through the chain, every module, 100,000 lines of history", Some(250e-9)),
    ("line_state_apply", "a key, decoded and applied to the line", None),
    ("ghost_text", "what fits what is typed best, of 100,000 lines", Some(2e-6)),
    ("keymap_match", "what a key means", None),
    ("output_throughput", "64 KiB of coloured text through the engine", Some(64.0 / 1_048_576.0)),
    ("atom_scan", "100 bytes of a line against all atoms", Some(1e-6)),
];

/// The names of the operations.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    OPERATIONS.iter().map(|(name, ..)| *name)
}

const DIGITS: &str = "00000000000000000000000000000000";

fn index() -> Index {
    history(LINES)
}

/// A short history.
pub(crate) fn few() -> Index {
    history(1000)
}

fn history(lines: i64) -> Index {
    let verbs = ["git commit -m", "ls -l", "cargo test -p", "kubectl get pods -n", "ssh host", "vim src/"];
    let entries: Vec<Entry> = (0..lines)
        .map(|number| Entry {
            line: format!(
                "{} {number}-{}",
                verbs[usize::try_from(number % 6).unwrap_or(0)],
                number * 7919 % 1009
            ),
            directory: format!("/home/user/project-{}", number % 40),
            started: number,
            exit: Some(0),
            ..Entry::default()
        })
        .collect();
    Index::build(&entries)
}

/// An engine at a prompt with all modules.
fn engine(index: Index) -> Result<Engine, ShellError> {
    engine_with(index, Vec::new())
}

/// The same with further modules at the end.
pub(crate) fn engine_with(index: Index, more: Vec<Box<dyn Module>>) -> Result<Engine, ShellError> {
    let settings = Settings::default();
    let mut modules: Vec<Box<dyn Module>> = vec![
        Box::new(Keymap::new(&settings.keys)),
        Box::new(incognito::Incognito),
        Box::new(ghost::Ghost),
        Box::new(history::History::of(index, Privacy::default())),
        Box::new(line_guard::LineGuard::new(&classify::Settings::default())?),
    ];
    modules.extend(more);
    let mut engine = Engine::new(Nonce::of([0; 16]), Chain::of(modules), 120, 40, Instant::now());
    let prompt = format!(
        "\r\n\x1b]133;D;0;p={DIGITS}\x07\x1b]7717;{DIGITS};S;bash\x07\x1b]7717;{DIGITS};W;/home/user/project-3\x07\x1b]133;A;p={DIGITS}\x07$ \x1b]133;B;p={DIGITS}\x07"
    );
    engine.output(prompt.as_bytes(), &mut |_| (), &mut |_| ());
    Ok(engine)
}

/// The table of one operation.
pub(crate) fn measure(bench: &mut Bench, name: &str, rounds: usize) -> Result<Option<Table>, BenchError> {
    let Some((_, about, most)) = OPERATIONS.iter().find(|(other, ..)| *other == name) else {
        return Ok(None);
    };
    let mut work: Box<dyn FnMut()> = match name {
        "dispatch_input" => {
            let mut engine = engine(index())?;
            let keys = b"git commit -m change\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f";
            let mut next = keys.iter().cycle();
            Box::new(move || {
                let key = next.next().map_or(&[][..], core::slice::from_ref);
                engine.input(key, &mut |bytes| {
                    black_box(bytes);
                });
            })
        }
        "line_state_apply" => {
            let mut line = Line::default();
            line.begin();
            let mut decoder = Decoder::default();
            let keys: [&[u8]; 6] = [b"a", b"b", b"\x1b[D", b"\x1b[C", b"\x7f", b"\x7f"];
            let mut next = keys.into_iter().cycle();
            Box::new(move || {
                decoder.read(next.next().unwrap_or_default(), |input, _| line.apply(&input));
                black_box(line.text());
            })
        }
        "ghost_text" => {
            let index = index();
            let typed = ["g", "git c", "git commit -m 1", "ls -l 9", "vim src/ 77", "nothing like it"];
            let mut next = typed.into_iter().cycle();
            Box::new(move || {
                black_box(index.suggest(next.next().unwrap_or_default(), "/home/user/project-3"));
            })
        }
        "keymap_match" => {
            let keymap = Keymap::new(&Settings::default().keys);
            let keys = [Chord::plain(Code::Right), Chord::ctrl('c'), Chord::plain(Code::Function(5))];
            let mut next = keys.into_iter().cycle();
            Box::new(move || {
                black_box(next.next().and_then(|chord| keymap.find(chord)));
            })
        }
        "output_throughput" => {
            let mut engine = engine(Index::default())?;
            let run = format!("\x1b]133;C;p={DIGITS}\x07");
            engine.output(run.as_bytes(), &mut |_| (), &mut |_| ());
            let mut chunk = Vec::new();
            while chunk.len() < 64 << 10 {
                chunk.extend_from_slice(b"\x1b[1;32mstatus\x1b[0m  a line of a log as compilers and servers write them, with some words more than that, so that it is as long as lines are when they are read by people\r\n");
            }
            chunk.truncate(64 << 10);
            Box::new(move || {
                engine.output(
                    &chunk,
                    &mut |bytes| {
                        black_box(bytes);
                    },
                    &mut |_| (),
                );
            })
        }
        _ => {
            let line = "tar czf - ~/projects/site | ssh backup@example.org 'cat > /srv/backup/site-$(date +%F).tar.gz' && echo";
            Box::new(move || {
                black_box(Atoms::own().map(|atoms| atoms.scan(line)));
            })
        }
    };
    // Repeats the operation until a sample is long enough for the clock.
    let mut times = 1u32;
    loop {
        let begun = Instant::now();
        (0..times).for_each(|_| work());
        if begun.elapsed() >= SAMPLE || times >= 1 << 24 {
            break;
        }
        times *= 2;
    }
    let mut walls = Vec::with_capacity(rounds);
    let before = allocations();
    for _ in 0..rounds {
        if bench.is_stopped() {
            let rows = vec![series(name, about, &walls)];
            let begun = Table::summarise(name, rounds, 1, rows, &mut bench.random);
            match bench.keep_begun(Table { scale: Scale::Microseconds, ..begun })? {}
        }
        let begun = Instant::now();
        (0..times).for_each(|_| work());
        walls.push(begun.elapsed().as_secs_f64() / f64::from(times));
    }
    let random = &mut bench.random;
    let allocated = (allocations() - before).to_string().parse().unwrap_or(f64::MAX);
    let mut table = Table::summarise(name, rounds, 1, vec![series(name, about, &walls)], random);
    table.scale = Scale::Microseconds;
    let operations = f64::from(times) * rounds.to_string().parse().unwrap_or(1.0);
    table.goals = vec![
        Goal {
            what: (*about).to_owned(),
            unit: Unit::Microseconds,
            bound: Bound::AtMost,
            wanted: *most,
            seen: estimate(&walls, random),
            published: None,
        },
        Goal {
            what: "blocks allocated for one".to_owned(),
            unit: Unit::Ratio,
            bound: Bound::AtMost,
            wanted: Some(0.0),
            seen: estimate(&[allocated / operations], random),
            published: None,
        },
    ];
    if name == "output_throughput" {
        let rates: Vec<f64> = walls.iter().map(|wall| 65_536.0 / wall / MEBIBYTE).collect();
        table.goals.push(Goal {
            what: "output through the engine".to_owned(),
            unit: Unit::MebibytesPerSecond,
            bound: Bound::AtLeast,
            wanted: Some(1024.0),
            seen: estimate(&rates, random),
            published: None,
        });
    }
    Ok(Some(table))
}
