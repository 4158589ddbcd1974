// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that compare open files with the database.

use super::super::entry::{Entry, Record};
use super::super::store::{Location, Writer};
use super::*;

struct Pretended {
    size: u64,
    digest: Digest,
    ima: Option<Digest>,
    protected: bool,
    hashed: u32,
}

impl Content for Pretended {
    fn size(&self) -> u64 {
        self.size
    }

    fn digest(&mut self, _: Algorithm) -> io::Result<Digest> {
        self.hashed += 1;
        Ok(self.digest)
    }

    fn ima(&mut self) -> io::Result<Option<Digest>> {
        Ok(self.ima)
    }

    fn verity(&mut self) -> io::Result<Option<Digest>> {
        if !self.protected {
            return Ok(None);
        }
        self.digest(Algorithm::Sha256).map(Some)
    }
}

const ONE: Digest = Digest::Sha256([1; 32]);
const TWO: Digest = Digest::Sha256([2; 32]);
const THREE: Digest = Digest::Sha256([3; 32]);

fn store(directory: &std::path::Path, records: &[(&str, u64, Digest)]) -> Store {
    let location = Location::new(directory);
    let mut writer = Writer::lock(&location).unwrap();
    let mut builder = writer.rebuild().unwrap();
    for (path, size, digest) in records {
        let source = Source::Dpkg(format!("{digest}").into_bytes().into());
        let entry = Entry { path: path.as_bytes().to_vec(), size: *size, digest: *digest, source };
        builder.push(&Record { entry, seen: None }).unwrap();
    }
    writer.finish(builder).unwrap();
    Store::open(&location).unwrap()
}

#[test]
fn as_one_of_several_says() {
    let directory = tempfile::tempdir().unwrap();
    let large = 1 << 41;
    let store = store(
        directory.path(),
        &[("/a", 5, ONE), ("/a", 5, TWO), ("/a", 6, THREE), ("/b", large, ONE), ("/c", 5, Digest::None)],
    );
    let check = |path: &str, integrity, size, digest, ima| {
        let mut content = Pretended { size, digest, ima, protected: false, hashed: 0 };
        let trust = store.check(path.as_bytes(), integrity, &mut content).unwrap();
        (trust, content.hashed)
    };
    let trusted = |(trust, _): (Trust, u32)| matches!(trust, Trust::Trusted { .. });
    let size =
        |expected, found| Trust::Changed { expected: State::Size(expected), found: State::Size(found) };
    use Integrity::{Ima, None as Nothing, Sha256, Size};
    for integrity in [Nothing, Size, Ima, Sha256, Integrity::Verity] {
        assert_eq!(check("/x", integrity, 5, ONE, None), (Trust::Unknown, 0));
    }
    assert!(trusted(check("/a", Nothing, 9, THREE, None)));
    assert!(trusted(check("/a", Size, 6, ONE, None)));
    assert!(matches!(check("/a", Size, 9, ONE, None), (Trust::Changed { .. }, 0)));
    assert_eq!(check("/b", Size, 9, ONE, None), (size(large, 9), 0));
    assert!(trusted(check("/b", Size, large, TWO, None)));
    let (trust, hashed) = check("/a", Sha256, 5, TWO, None);
    assert!(matches!(&trust, Trust::Trusted { source } if source.name()[..] == *TWO.to_string().as_bytes()));
    assert_eq!(hashed, 1);
    let (trust, hashed) = check("/a", Sha256, 5, THREE, None);
    assert!(matches!(
        trust,
        Trust::Changed { found: State::Digest(THREE), .. } | Trust::Changed { expected: State::Size(6), .. }
    ));
    assert_eq!(hashed, 1, "once for both");
    assert_eq!(check("/a", Sha256, 9, ONE, None).1, 0, "the wrong size isn't hashed");
    assert!(trusted(check("/a", Ima, 5, THREE, Some(ONE))));
    assert!(!trusted(check("/a", Ima, 5, ONE, Some(THREE))));
    assert!(!trusted(check("/a", Ima, 5, ONE, None)));
    assert!(!trusted(check("/c", Sha256, 5, Digest::None, None)));
    assert!(!trusted(check("/c", Ima, 5, ONE, None)));
    assert!(trusted(check("/c", Size, 5, ONE, None)));
}

#[test]
fn protected_by_verity() {
    let directory = tempfile::tempdir().unwrap();
    let md5 = Digest::Md5([1; 16]);
    let store =
        store(directory.path(), &[("/a", 5, ONE), ("/a", 5, TWO), ("/m", 5, md5), ("/c", 5, Digest::None)]);
    let check = |path: &str, size, digest, protected| {
        let mut content = Pretended { size, digest, ima: Some(digest), protected, hashed: 0 };
        let trust = store.check(path.as_bytes(), Integrity::Verity, &mut content).unwrap();
        (matches!(trust, Trust::Trusted { .. }), content.hashed)
    };
    assert_eq!(check("/a", 5, TWO, true), (true, 1), "once for both");
    assert_eq!(check("/a", 5, TWO, false), (false, 0), "what isn't protected isn't even read");
    assert_eq!(check("/a", 5, THREE, true), (false, 1));
    assert_eq!(check("/a", 6, TWO, true), (false, 0), "the wrong size isn't read");
    assert_eq!(check("/x", 5, ONE, true), (false, 0));
    assert_eq!(check("/m", 5, md5, true), (false, 0), "only SHA-256 is compared");
    assert_eq!(check("/c", 5, Digest::None, true), (false, 0));
}

#[test]
fn files_of_the_kernel() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("abc");
    std::fs::write(&path, "abc").unwrap();
    let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let digest = super::super::entry::from_hexadecimal(sum.as_bytes()).unwrap();
    let digest = Digest::new(Algorithm::Sha256, &digest).unwrap();
    let store = store(directory.path(), &[("/abc", 3, digest)]);
    let file = File::open(&path).unwrap();
    for _ in 0..2 {
        let trust = store.check(b"/abc", Integrity::Sha256, &mut OnDisk::new(&file).unwrap()).unwrap();
        assert!(matches!(trust, Trust::Trusted { .. }));
    }
    let trust = store.check(b"/abc", Integrity::Ima, &mut OnDisk::new(&file).unwrap()).unwrap();
    assert!(matches!(trust, Trust::Changed { found: State::Digest(Digest::None), .. }), "{trust:?}");
    let trust = store.check(b"/abc", Integrity::Verity, &mut OnDisk::new(&file).unwrap()).unwrap();
    assert!(matches!(trust, Trust::Changed { found: State::Digest(Digest::None), .. }), "{trust:?}");
    std::fs::write(&path, "abd").unwrap();
    let trust = store.check(b"/abc", Integrity::Sha256, &mut OnDisk::new(&file).unwrap()).unwrap();
    assert!(matches!(trust, Trust::Changed { .. }));
}

#[test]
fn attributes_of_ima() {
    let value = |kind: u8, algorithm: u8, length: usize| [&[kind, algorithm][..], &vec![7; length]].concat();
    assert_eq!(parse_ima(&value(4, 4, 32)), Some(Digest::Sha256([7; 32])));
    assert_eq!(parse_ima(&value(4, 6, 64)), Some(Digest::Sha512([7; 64])));
    assert_eq!(parse_ima(&value(4, 2, 20)), Some(Digest::Sha1([7; 20])));
    for bad in
        [value(4, 4, 31), value(4, 4, 33), value(3, 4, 32), value(1, 4, 32), value(4, 9, 32), vec![4], vec![]]
    {
        assert_eq!(parse_ima(&bad), None);
    }
    bolero::check!().with_iterations(5_000).for_each(|bytes: &[u8]| {
        let _parsed = parse_ima(bytes);
        let _parsed = parse_ima(&[&[4], bytes].concat());
    });
}
