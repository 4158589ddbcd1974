// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the database: compared with a map, with damage, with killed writers, and on a full disk.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::{Command, Stdio};
use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn record(path: &[u8], size: u64, source: &str) -> Record {
    let entry = Entry {
        path: path.into(),
        size,
        digest: Digest::Sha256([size.to_le_bytes()[0]; 32]),
        source: Source::Dpkg(source.as_bytes().into()),
    };
    Record { entry, seen: None }
}

fn build(location: &Location, records: &[Record]) -> Store {
    let mut writer = Writer::lock(location).unwrap();
    let mut builder = writer.rebuild().unwrap();
    records.iter().for_each(|record| builder.push(record).unwrap());
    writer.finish(builder).unwrap();
    Store::open(location).unwrap()
}

type Model = BTreeMap<Vec<u8>, BTreeSet<Record>>;

fn everything(store: &Store) -> Model {
    let mut model = Model::new();
    store
        .each(|found| {
            let new = model.entry(found.path.to_vec()).or_default().insert(found.to_record());
            assert!(new, "twice");
            Ok::<(), Error>(())
        })
        .unwrap();
    model
}

#[derive(Debug, Clone)]
enum Step {
    Change(Vec<(u8, Vec<u8>)>),
    Replace(u8, Vec<(u8, u8)>),
    Merge,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        prop::collection::vec((0..20_u8, prop::collection::vec(0..4_u8, 0..3)), 0..4).prop_map(Step::Change),
        (0..3_u8, prop::collection::vec((0..20_u8, 0..4_u8), 0..5))
            .prop_map(|(source, records)| Step::Replace(source, records)),
        Just(Step::Merge),
        Just(Step::Reopen),
    ];
    prop::collection::vec(step, 0..12)
}

fn path(number: u8) -> Vec<u8> {
    // Some paths are longer than the first read.
    let long = if number.is_multiple_of(5) { "x".repeat(usize::from(number) * 80) } else { String::new() };
    format!("/usr/{number}\n {long}").into_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn is_a_map(built in prop::collection::vec((0..20_u8, 0..4_u8, 0..3_u8), 0..60), steps in steps()) {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::new(directory.path());
        let make = |number: u8, size: u8, source: u8| record(&path(number), size.into(), &source.to_string());
        let records: Vec<Record> = built.iter().map(|(number, size, source)| make(*number, *size, *source)).collect();
        let mut model = Model::new();
        for record in &records {
            model.entry(record.entry.path.clone()).or_default().insert(record.clone());
        }
        let mut store = build(&location, &records);
        for step in steps {
            let mut writer = Writer::lock(&location).unwrap();
            match step {
                Step::Change(changes) => {
                    let changes = changes.into_iter().map(|(number, sizes)| {
                        let records: BTreeSet<Record> = sizes.iter().map(|size| make(number, *size, 0)).collect();
                        model.insert(path(number), records.clone());
                        Change { path: path(number), records: records.into_iter().collect() }
                    }).collect();
                    writer.change(&mut store, changes).unwrap();
                }
                Step::Replace(source, records) => {
                    let name = source.to_string();
                    let is_of = |source: &Source| &source.name()[..] == name.as_bytes();
                    model.values_mut().for_each(|all| all.retain(|record| !is_of(&record.entry.source)));
                    let records: Vec<Record> = records.iter().map(|(number, size)| make(*number, *size, source)).collect();
                    for record in &records {
                        model.entry(record.entry.path.clone()).or_default().insert(record.clone());
                    }
                    writer.replace(&mut store, is_of, records).unwrap();
                }
                Step::Merge => { writer.merge().unwrap(); store.refresh().unwrap(); prop_assert!(store.overlay.is_empty()); }
                Step::Reopen => store = Store::open(&location).unwrap(),
            }
            prop_assert!(!store.refresh().unwrap());
            model.retain(|_, records| !records.is_empty());
            prop_assert_eq!(&everything(&store), &model);
            for number in 0..22 {
                let found: BTreeSet<Record> = store.lookup(&path(number)).unwrap().into_iter().collect();
                let mut who = Vec::new();
                store.who(&path(number), |source, size| who.push((source.clone(), size))).unwrap();
                let mut expected: Vec<_> = found.iter().map(|record| (record.entry.source.clone(), Some(record.entry.size))).collect();
                who.sort();
                expected.sort();
                prop_assert_eq!(who, expected);
                prop_assert_eq!(found, model.get(&path(number)).cloned().unwrap_or_default());
            }
        }
    }
}

#[test]
fn is_for_root_and_whoever_serves_it() {
    let directory = tempfile::tempdir().unwrap();
    let location = Location::new(directory.path());
    build(&location, &[record(b"/a", 1, "a")]);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(location.base()), 0o640);
    fs::set_permissions(location.base(), fs::Permissions::from_mode(0o660)).unwrap();
    assert!(matches!(Store::open(&location), Err(Error::Base(base::Error::Writable { .. }))));
}

#[test]
fn one_writer_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let location = Location::new(directory.path());
    let first = Writer::lock(&location).unwrap();
    assert!(matches!(Writer::lock(&location), Err(Error::Locked { .. })));
    drop(first);
    Writer::lock(&location).unwrap();
}

#[test]
fn damage_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let location = Location::new(directory.path());
    let records: Vec<Record> = (0..12).map(|number| record(&path(number), number.into(), "a")).collect();
    build(&location, &records);
    let whole = fs::read(location.base()).unwrap();
    assert!(matches!(
        Store::open(&Location::new(Path::new("/nowhere"))),
        Err(Error::Base(base::Error::Open { .. }))
    ));
    for cut in 0..whole.len().min(3000) {
        fs::write(location.base(), &whole[..cut]).unwrap();
        assert!(Store::open(&location).is_err(), "{cut}");
    }
    for at in (0..whole.len()).step_by(3) {
        let mut flipped = whole.clone();
        flipped[at] ^= 4;
        fs::write(location.base(), &flipped).unwrap();
        let Ok(store) = Store::open(&location) else { continue };
        // The position is a record, or the padding up to the next one.
        for record in &records {
            if let Ok(found) = store.lookup(&record.entry.path) {
                assert_eq!(found, std::slice::from_ref(record));
            }
        }
        let _told = store.each(|_| Ok::<(), Error>(()));
    }
    // The file is cut off while it is open.
    fs::write(location.base(), &whole).unwrap();
    let store = Store::open(&location).unwrap();
    fs::OpenOptions::new().write(true).open(location.base()).unwrap().set_len(200).unwrap();
    assert!(store.lookup(&path(11)).is_err());
    assert!(store.lookup(b"/not/there").unwrap().is_empty());
}

#[test]
fn any_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let location = Location::new(directory.path());
    build(&location, &[record(b"/a", 1, "a"), record(b"/b", 1, "a")]);
    let whole = fs::read(location.base()).unwrap();
    let (path, sum) = (location.base(), xxhash_rust::xxh3::xxh3_64);
    bolero::check!().with_iterations(3_000).for_each(|bytes: &[u8]| {
        // Damage at some position in a database whose checksums are corrected.
        let mut changed = whole.clone();
        for (number, byte) in bytes.iter().enumerate().skip(1) {
            let at = (usize::from(bytes[0]) + number) % changed.len();
            changed[at] ^= *byte;
        }
        let tail = changed[56..64].try_into().map(u64::from_le_bytes).unwrap();
        if let Ok(tail) = usize::try_from(tail)
            && let Some(tail) = changed.get(tail..)
        {
            let tail = sum(tail).to_le_bytes();
            changed[80..88].copy_from_slice(&tail);
        }
        let header = sum(&changed[..base::HEADER - 8]).to_le_bytes();
        changed[base::HEADER - 8..base::HEADER].copy_from_slice(&header);
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&changed, 0).unwrap();
        if let Ok(base) = Base::from_file(file, &path) {
            for path in [b"/a", b"/b", b"/c"] {
                let _found = base.find(path, |_, _| ());
                let _who = base.who(path, |_, _| ());
            }
            let mut records = base.records();
            while let Ok(Some(_)) = records.advance() {}
        }
    });
}

/// Runs one of these tests as a separate process.
fn alone(test: &str, directory: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("trust::store::tests::{test}"), "--nocapture"]);
    command.env("TRUST_TEST_DIRECTORY", directory).stdout(Stdio::null());
    command
}

fn told() -> Option<Location> {
    std::env::var_os("TRUST_TEST_DIRECTORY").map(|directory| Location::new(Path::new(&directory)))
}

/// Half of the databases that are built have only large sizes, the other half only small ones.
fn generation(number: u64) -> impl Iterator<Item = Record> {
    (0..2000).map(move |file| record(format!("/file/{file}").as_bytes(), number, "a"))
}

#[test]
fn writes_until_killed() {
    let Some(location) = told() else { return };
    for number in 1.. {
        let mut writer = Writer::lock(&location).unwrap();
        let mut builder = writer.rebuild().unwrap();
        generation(number).for_each(|record| builder.push(&record).unwrap());
        writer.finish(builder).unwrap();
        let mut store = Store::open(&location).unwrap();
        for change in 0..3 {
            let paths = [b"/change/one".to_vec(), b"/change/two".to_vec()];
            let changes =
                paths.map(|path| Change { records: vec![record(&path, number * 10 + change, "b")], path });
            writer.change(&mut store, changes.into()).unwrap();
        }
    }
}

#[test]
fn killed_at_any_moment_it_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let location = Location::new(directory.path());
    build(&location, &generation(0).collect::<Vec<_>>());
    let mut last = 0;
    for round in 0..40_u64 {
        let mut child = alone("writes_until_killed", directory.path()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(20_000 + round * 1_733));
        child.kill().unwrap();
        child.wait().unwrap();
        let store = Store::open(&location).unwrap();
        let sizes: BTreeSet<u64> =
            generation(0).map(|record| store.lookup(&record.entry.path).unwrap()[0].entry.size).collect();
        assert_eq!(sizes.len(), 1, "a mixture of two databases");
        last += sizes.first().unwrap();
        let one = |path: &[u8]| store.lookup(path).unwrap().first().map(|record| record.entry.size);
        assert_eq!(one(b"/change/one"), one(b"/change/two"), "half a change");
        assert!(one(b"/change/one").is_none_or(|size| size / 10 == *sizes.first().unwrap()));
        // And the next writer can write.
        let mut writer = Writer::lock(&location).unwrap();
        writer.merge().unwrap();
    }
    assert!(last > 0, "nobody got to the end of a rebuild");
}

#[test]
fn fills_the_disk() {
    let Some(location) = told() else { return };
    let before = everything(&Store::open(&location).unwrap());
    let mut writer = Writer::lock(&location).unwrap();
    let mut builder = writer.rebuild().unwrap();
    let pushed =
        (0..20_000_u64).try_for_each(|file| builder.push(&record(format!("/{file}").as_bytes(), 1, "a")));
    let Err(build::Error::File { source, .. }) = pushed else { panic!("the disk isn't full: {pushed:?}") };
    assert_eq!(source.kind(), io::ErrorKind::StorageFull);
    drop(builder);
    let mut store = Store::open(&location).unwrap();
    let many = (0..20_000_u64).map(|file| format!("/{file}").into_bytes());
    let many = many.map(|path| Change { records: vec![record(&path, 1, "a")], path }).collect();
    assert!(writer.change(&mut store, many).is_err());
    assert_eq!(everything(&store), before);
    assert_eq!(everything(&Store::open(&location).unwrap()), before);
    let small = Change { path: b"/small".into(), records: vec![record(b"/small", 1, "a")] };
    writer.change(&mut store, vec![small]).unwrap();
    assert_eq!(Store::open(&location).unwrap().lookup(b"/small").unwrap().len(), 1);
    fs::write(location.base().with_file_name("done"), "").unwrap();
}

#[test]
fn a_full_disk_changes_nothing() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let location = Location::new(directory.path());
    build(&location, &generation(0).collect::<Vec<_>>());
    let inner = alone("fills_the_disk", Path::new("/mnt"));
    let mut command = Command::new("unshare");
    let script =
        "mount -t tmpfs -o size=512k none /mnt && cp -p \"$0\"/trust.db /mnt/ && \"$@\" && [ -e /mnt/done ]";
    command
        .args(["-m", "sh", "-c", script])
        .arg(directory.path())
        .arg(inner.get_program())
        .args(inner.get_args());
    command.env("TRUST_TEST_DIRECTORY", "/mnt").stdout(Stdio::null());
    assert!(command.status().unwrap().success());
}
