// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports this machine's packages, twice, and compares them with the disk:
//! `cargo run --release -p palisade-guard --example trust_import [DIRECTORY]`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use palisade_guard::trust::base::Base;
use palisade_guard::trust::dpkg::Database;
use palisade_guard::trust::entry::Source;
use palisade_guard::trust::filter::Filter;
use palisade_guard::trust::import::{Event, Origin, Request};
use palisade_guard::trust::loader::{Limits, receive, serve_loader};
use palisade_guard::trust::store::{Location, Store, Writer};
use palisade_guard::trust::verify::Selection;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args()
        .nth(1)
        .map_or_else(|| std::env::temp_dir().join("palisade-trust-import"), PathBuf::from);
    std::fs::create_dir_all(&directory)?;
    let location = Location::new(&directory);
    let mut request = Request {
        root: "/".into(),
        filter: Filter::default(),
        from: vec![Origin::Packages],
        hard: true,
        most: 10_000_000,
        threads: None,
    };
    let begun = SystemTime::now();
    for what in ["hashing everything", "again", "again"] {
        let start = Instant::now();
        let previous = Base::open(&location.base()).ok();
        let mut writer = Writer::lock(&location)?;
        let mut builder = writer.rebuild()?;
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        let mut last = None;
        let (reader, pipe) = std::io::pipe()?;
        std::thread::scope(|scope| {
            let loader = scope.spawn(|| serve_loader(&request, previous.as_ref(), pipe));
            for event in receive(reader, Limits::default()) {
                let kind = match event? {
                    Event::Trusted(record) => {
                        builder.push(&record)?;
                        "trusted"
                    }
                    Event::Differs { .. } => "differ",
                    Event::Unreadable { .. } => "unreadable",
                    Event::Missing { .. } => "missing",
                    Event::Undigested { .. } => "without MD5",
                    Event::Progress(progress) => {
                        last = Some(progress);
                        continue;
                    }
                };
                *counts.entry(kind).or_default() += 1;
            }
            if let Ok(served) = loader.join() {
                served?;
            }
            Ok::<(), Box<dyn std::error::Error>>(())
        })?;
        let records = writer.finish(builder)?;
        let took = start.elapsed().as_secs_f64();
        let (done, bytes) = last.map_or((0, 0), |last| (last.done, last.bytes));
        println!(
            "{what}: {done} files, {:.0} MB hashed, in {took:.2} s: {:.0} files/s, {:.0} MB/s",
            bytes as f64 / 1e6,
            done as f64 / took,
            bytes as f64 / 1e6 / took
        );
        println!("  {records} records, {counts:?}");
        request.hard = false;
    }
    let mut store = Store::open(&location)?;
    let start = Instant::now();
    let known: Vec<Vec<u8>> = store
        .sources()
        .filter_map(|source| if let Source::Dpkg(name) = source { Some(name.to_vec()) } else { None })
        .collect();
    let changed = Database::open(&request.root)?.changed(begun, known.iter().map(|name| &name[..]));
    println!("packages that changed since: {changed:?}, found in {:.2?}", start.elapsed());
    let start = Instant::now();
    let bash = Source::Dpkg(b"bash".as_slice().into());
    let replaced = Writer::lock(&location)?.replace(&mut store, |source| *source == bash, Vec::new())?;
    println!("bash was removed, {replaced} paths, in {:.2?}", start.elapsed());
    let start = Instant::now();
    let mut differences = 0;
    let progress = store.verify(&request.root, &Selection::default(), |_| differences += 1, |_| ())?;
    println!("verified {} files in {:.2?}: {differences} differ", progress.done, start.elapsed());
    Ok(())
}
