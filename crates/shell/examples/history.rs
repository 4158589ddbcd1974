// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the index of typed lines costs: `cargo run --release -p palisade-shell --example history [ENTRIES…]`.
//!
//! Prints nanoseconds for each operation: the mean over all queries of one kind, and the slowest query. Each figure is
//! the fastest of several runs, so that other programs on the machine don't count. Queries come in random order: the
//! caches then hold what they would hold at a prompt, or less.
#![expect(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a measurement may end early, and is rough"
)]

use std::hint::black_box;
use std::time::Instant;

use palisade_shell::history::import::{self, Kind, Limits};
use palisade_shell::history::{Entry, Filter, Found, Index, LIST, Sources, Store, load};

/// Random-looking numbers that are the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }
}

const COMMANDS: [&str; 16] = [
    "git commit -m",
    "git checkout",
    "cargo test -p",
    "cd",
    "vim",
    "ls -la",
    "docker run --rm -it",
    "kubectl get pods -n",
    "grep -rn",
    "ssh",
    "make -j8",
    "curl -s https://example.com/",
    "python3 -m",
    "sudo apt install",
    "größe -ä",
    "echo",
];

/// Lines as people type them, each different; in 200 directories.
fn typical(count: usize) -> Vec<Entry> {
    let line = |dice: &mut Dice, number: usize| {
        let words: Vec<String> = (0..1 + dice.roll(4)).map(|_| format!("w{}", dice.roll(5_000))).collect();
        format!("{} {} {number}", COMMANDS[dice.roll(16)], words.join("/"))
    };
    entries(count, line)
}

/// Lines that all begin with the same 60 bytes.
fn alike(count: usize) -> Vec<Entry> {
    entries(count, |dice, number| {
        format!("{}{}{number}", "kubectl --namespace=production-eu-west-1 ".repeat(2), dice.roll(100))
    })
}

/// Lines of 64 KiB that differ only at the end. There are `count / 1000` of them.
fn long(count: usize) -> Vec<Entry> {
    entries(count / 1000, |_dice, number| format!("{}{number:09}", "x".repeat(65_000)))
}

fn entries(count: usize, line: impl Fn(&mut Dice, usize) -> String) -> Vec<Entry> {
    let mut dice = Dice(3);
    (0..count)
        .map(|number| Entry {
            line: line(&mut dice, number),
            directory: format!("/home/somebody/projects/p{}", dice.roll(200)),
            started: i64::try_from(number).unwrap() * 1_000_000_000,
            exit: Some(i32::from(dice.roll(10) == 0)),
            ..Entry::default()
        })
        .collect()
}

/// The mean and the slowest time, in nanoseconds.
fn time<Q>(queries: &[Q], mut ask: impl FnMut(&Q)) -> (f64, f64) {
    let mean = (0..5).map(|_| {
        let begun = Instant::now();
        queries.iter().for_each(&mut ask);
        begun.elapsed().as_nanos() as f64 / queries.len() as f64
    });
    let mean = mean.fold(f64::INFINITY, f64::min);
    let mut slowest = vec![f64::INFINITY; queries.len()];
    for _ in 0..5 {
        for (query, slowest) in queries.iter().zip(&mut slowest) {
            let begun = Instant::now();
            ask(query);
            *slowest = slowest.min(begun.elapsed().as_nanos() as f64);
        }
    }
    (mean, slowest.into_iter().fold(0.0, f64::max))
}

fn queries(entries: &[Entry]) -> Vec<(&'static str, Vec<(String, String)>)> {
    let mut dice = Dice(11);
    let mut take = |length: &dyn Fn(&mut Dice, &str) -> usize, end: &str| {
        let query = |_| {
            let entry = &entries[dice.roll(entries.len())];
            let directory = entries[dice.roll(entries.len())].directory.clone();
            let length = length(&mut dice, &entry.line);
            let cut =
                entry.line.char_indices().map(|(at, _)| at).take_while(|at| *at <= length).last().unwrap();
            (format!("{}{end}", &entry.line[..cut]), directory)
        };
        (0..3_000).map(query).collect::<Vec<_>>()
    };
    let line = &entries[entries.len() / 3].line;
    let one = line
        .char_indices()
        .skip(1)
        .take(60)
        .map(|(at, _)| (line[..at].to_owned(), entries[0].directory.clone()));
    let one: Vec<_> = one.collect();
    vec![
        ("one letter", take(&|_, _| 1, "")),
        ("while typing", take(&|dice, line| 1 + dice.roll(line.len().min(80)), "")),
        ("all but the last", take(&|_, line| (line.len() - 1).min(1024), "")),
        ("no such line", take(&|_, line| (line.len() / 2).min(1000), "\u{7f}")),
        ("typing one line", one),
    ]
}

fn measure(name: &str, entries: &[Entry]) {
    let begun = Instant::now();
    let mut index = Index::build(entries);
    let built = begun.elapsed();
    let text: usize = entries.iter().map(|entry| entry.line.len()).sum();
    println!(
        "{name}: {} lines, {:.1} bytes each; sorted in {built:.1?}; {:.0} bytes of memory for each line besides its text",
        index.len(),
        text as f64 / entries.len() as f64,
        index.memory().saturating_sub(text) as f64 / entries.len() as f64,
    );
    for fresh in [0, 31] {
        for number in 0..fresh {
            let line = format!("{}{number}", entries[number % entries.len()].line);
            index.add(&Entry { line, ..entries[number % entries.len()].clone() });
        }
        for (kind, queries) in queries(entries) {
            let suggest = time(&queries, |(typed, directory)| {
                black_box(index.suggest(typed, directory));
            });
            let few =
                if kind == "no such line" { &queries[..20] } else { &queries[..queries.len().min(200)] };
            let list = time(few, |(typed, directory)| {
                let mut into = [Found::default(); LIST];
                black_box(index.list(typed, directory, &mut into));
            });
            println!(
                "  {fresh:>2} fresh, {kind:<17} suggest {:>7.0} ns (slowest {:>7.0})   list {:>9.0} ns (slowest {:>9.0})",
                suggest.0, suggest.1, list.0, list.1
            );
        }
    }
    let more: Vec<Entry> = entries.iter().rev().take(10_000).cloned().collect();
    let mut slowest = 0;
    let begun = Instant::now();
    for entry in &more {
        let begun = Instant::now();
        index.add(entry);
        slowest = slowest.max(begun.elapsed().as_micros());
    }
    println!("  add {:.0} ns (slowest {slowest} µs)", begun.elapsed().as_nanos() as f64 / more.len() as f64);
}

fn stores(count: usize) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("palisade/history.sqlite");
    let entries = typical(count);
    let mut text = Vec::new();
    for entry in &entries {
        import::print(Kind::Zsh, entry, &mut text);
    }
    let zsh = directory.path().join("zsh");
    std::fs::write(&zsh, &text).unwrap();
    let begun = Instant::now();
    let read = import::read(Kind::Zsh, &zsh, &Limits::default()).unwrap();
    println!("{} entries of zsh read in {:.1?}", read.entries.len(), begun.elapsed());
    let begun = Instant::now();
    let mut store = Store::open(&file).unwrap();
    let new = store.import("zsh", &read.entries).unwrap();
    println!("{new} imported in {:.1?}", begun.elapsed());
    let begun = Instant::now();
    store.add(&entries[0]).unwrap();
    println!("one added in {:.1?}", begun.elapsed());
    let begun = Instant::now();
    let rows = store.rows(&Filter { contains: Some("no such".into()), ..Filter::default() }).unwrap();
    println!("searched in {:.1?}: {}", begun.elapsed(), rows.len());
    let begun = Instant::now();
    let sources = Sources { store: Some(file), ..Sources::default() };
    let loaded = load(sources).wait(std::time::Duration::from_secs(100)).unwrap();
    println!("{} lines loaded from the store in {:.1?}", loaded.index.len(), begun.elapsed());
    let begun = Instant::now();
    let sources = Sources { files: vec![(Kind::Zsh, zsh)], ..Sources::default() };
    let loaded = load(sources).wait(std::time::Duration::from_secs(100)).unwrap();
    println!("{} lines loaded from zsh's file in {:.1?}", loaded.index.len(), begun.elapsed());
}

fn main() {
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|count| count.parse().ok()).collect();
    let counts = if given.is_empty() { vec![1_000, 10_000, 100_000, 1_000_000] } else { given };
    for count in counts {
        measure("typical", &typical(count));
        measure("all alike for 82 bytes", &alike(count));
        if count >= 10_000 {
            measure("64 KiB each", &long(count));
        }
    }
    stores(100_000);
}
