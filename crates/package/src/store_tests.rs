// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::manifest::{Block, Entry, What};
use palisade_sandbox::layers::packed::Definitions;
use std::fs::Permissions;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

fn store(cache: &Path) -> Store {
    Store::new(cache, rustix::process::geteuid().as_raw())
}

/// A package of a directory, a file in two pieces, a program and a link; and the file it is in.
fn package() -> (File, Manifest) {
    let file = tempfile::tempfile().unwrap();
    let mut blocks = Vec::new();
    let mut at = 100;
    for content in ["first ", "second#!/bin/sh\n"] {
        let stored = lz4_flex::block::compress(content.as_bytes());
        file.write_all_at(&stored, at).unwrap();
        at += stored.len() as u64;
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
        blocks.push(Block {
            stored: length(&stored),
            size: length(content.as_bytes()),
            hash: *blake3::hash(&stored).as_bytes(),
        });
    }
    let entry = |path: &str, what| Entry { path: path.as_bytes().to_vec(), what };
    let entries = vec![
        entry("usr", What::Directory { modified: 1000 }),
        entry("usr/data", What::File { size: 12, modified: 2000, executable: false }),
        entry("usr/empty", What::File { size: 0, modified: 0, executable: false }),
        entry("usr/run", What::File { size: 10, modified: 3000, executable: true }),
        entry("usr/to", What::Link { target: b"data".to_vec() }),
    ];
    let manifest = Manifest {
        name: "x".into(),
        description: None,
        program: b"/usr/run".to_vec(),
        palisade: "0".into(),
        machine: "x86_64".into(),
        made: 0,
        definitions: Definitions::default(),
        entries,
        blocks,
        content: 100,
        menu: None,
    };
    (file, manifest)
}

fn unpack(store: &Store, file: &File, manifest: &Manifest) -> Result<Held, PackageError> {
    store.unpack("name", file, manifest, &mut |_done, _all| {})
}

fn names(store: &Store) -> Vec<String> {
    let entries = std::fs::read_dir(&store.directory).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn files_come_back_with_their_content_mode_and_time() {
    let cache = tempfile::tempdir().unwrap();
    let store = store(cache.path());
    let (file, manifest) = package();
    let held = unpack(&store, &file, &manifest).unwrap();
    let root = store.place("name");
    assert_eq!(std::fs::read(root.join("usr/to")).unwrap(), b"first second");
    assert_eq!(std::fs::read(root.join("usr/run")).unwrap(), b"#!/bin/sh\n");
    assert_eq!(std::fs::read(root.join("usr/empty")).unwrap(), b"");
    for (path, mode, time) in
        [("usr", 0o40555, 1000), ("usr/data", 0o100_444, 2000), ("usr/run", 0o100_555, 3000)]
    {
        let found = std::fs::metadata(root.join(path)).unwrap();
        assert_eq!((found.mode(), found.mtime()), (mode, time), "{path}");
    }
    assert_eq!(names(&store), [".lock-name", "name"]);
    assert!(matches!(store.remove("name"), Err(PackageError::InUse { .. })));
    drop(held);
    assert!(store.remove("name").unwrap());
    assert!(!store.remove("name").unwrap());
    assert_eq!(names(&store), Vec::<String>::new());
}

#[test]
fn what_is_damaged_leaves_nothing() {
    let cache = tempfile::tempdir().unwrap();
    let store = store(cache.path());
    let (file, manifest) = package();
    file.write_all_at(b"?", 103).unwrap();
    let error = unpack(&store, &file, &manifest).unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
    assert!(error.hint().is_some());
    let mut short = manifest;
    short.blocks.clear();
    let error = unpack(&store, &file, &short).unwrap_err();
    assert!(error.to_string().contains("too early"), "{error}");
    assert_eq!(names(&store), [".lock-name"]);
}

#[test]
fn what_nobody_has_used_for_long_goes_and_what_is_used_stays() {
    let cache = tempfile::tempdir().unwrap();
    let store = store(cache.path());
    let (file, manifest) = package();
    drop(unpack(&store, &file, &manifest).unwrap());
    store.sweep();
    assert!(store.place("name").exists(), "just unpacked");
    let held = store.hold("name").unwrap();
    let age = |seconds: u64| {
        let when = SystemTime::now() - Duration::from_secs(seconds);
        File::open(store.place("name")).unwrap().set_modified(when).unwrap();
    };
    age(61 * 24 * 3600);
    store.sweep();
    assert!(store.place("name").exists(), "in use, however long ago it was started");
    drop(held);
    age(59 * 24 * 3600);
    store.sweep();
    assert!(store.place("name").exists());
    age(61 * 24 * 3600);
    drop(store.hold("name").unwrap());
    store.sweep();
    assert!(store.place("name").exists(), "using it makes it young again");
    age(61 * 24 * 3600);
    store.sweep();
    assert!(!store.place("name").exists());
}

#[test]
fn what_others_may_write_is_not_used() {
    let cache = tempfile::tempdir().unwrap();
    let store = store(cache.path());
    let (file, manifest) = package();
    drop(unpack(&store, &file, &manifest).unwrap());
    std::fs::set_permissions(store.place("name"), Permissions::from_mode(0o777)).unwrap();
    assert!(store.hold("name").is_none());
    std::fs::set_permissions(&store.directory, Permissions::from_mode(0o777)).unwrap();
    let error = unpack(&store, &file, &manifest).unwrap_err();
    assert!(matches!(error, PackageError::Distrusted { .. }), "{error}");
}
