// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that a loader's records arrive, and that nothing else is accepted.

use proptest::prelude::*;

use super::super::filter::Filter;
use super::super::import::Origin;
use super::*;

fn stream(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    frames.iter().for_each(|frame| write_frame(&mut bytes, frame).unwrap());
    bytes
}

fn end(count: u64) -> Vec<u8> {
    [&[kind::END][..], &count.to_le_bytes()].concat()
}

fn frame(event: &Event) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(event, &mut bytes);
    bytes
}

fn said(bytes: &[u8]) -> Result<Vec<Event>, Error> {
    receive(bytes, Limits { frames: 100, size: 1 << 30 }).collect()
}

fn trusted(path: &[u8], size: u64, digest: Digest, source: Source) -> Event {
    Event::Trusted(Record { entry: Entry { path: path.into(), size, digest, source }, seen: None })
}

fn events() -> impl Strategy<Value = Event> {
    let path = "/[^\0/.][^\0/]{0,30}".prop_map(String::into_bytes);
    let source = prop_oneof![
        "[a-z][a-z0-9+.:-]{0,20}".prop_map(|name| Source::Dpkg(name.into_bytes().into())),
        "/[^\0/.]{1,9}".prop_map(|name| Source::Directory(name.into_bytes().into())),
    ];
    let sum = any::<[u8; 16]>();
    (path, source, 0..8_u8, 0..1_u64 << 30, sum, any::<[u8; 32]>()).prop_map(
        |(path, source, kind, size, sum, sha256)| match kind {
            0 => Event::Missing { path, source },
            1 => Event::Undigested { path, source },
            2 => Event::Unreadable { path, source, md5: Some(sum) },
            3 => {
                let (expected, found) = (Digest::Md5(sum), Digest::Md5([1; 16]));
                Event::Differs { path, source, expected, found }
            }
            4 => Event::Progress(Progress { done: size, total: 2, bytes: 3 }),
            _ => trusted(&path, size, Digest::Sha256(sha256), source),
        },
    )
}

proptest! {
    #[test]
    fn arrives(events in prop::collection::vec(events(), 0..20), cut in any::<prop::sample::Index>()) {
        let mut frames: Vec<_> = events.iter().map(frame).collect();
        frames.push(end(events.len() as u64));
        let bytes = stream(&frames);
        prop_assert_eq!(said(&bytes).unwrap(), events);
        let cut = cut.index(bytes.len());
        prop_assert!(matches!(said(&bytes[..cut]), Err(Error::Ended)), "cut off at {}", cut);
    }
}

#[test]
fn nothing_else_does() {
    let dpkg = || Source::Dpkg(b"a".as_slice().into());
    let sha = Digest::Sha256([1; 32]);
    let good = trusted(b"/a", 1, sha, dpkg());
    for bad in [
        trusted(b"/a", 1 << 40, sha, dpkg()),
        trusted(b"/a", 1, Digest::Md5([1; 16]), dpkg()),
        trusted(b"/a", 1, Digest::None, dpkg()),
        trusted(b"/a", 1, sha, Source::File(b"/etc/x".as_slice().into())),
        trusted(b"/a", 1, sha, Source::Dpkg(b"a b".as_slice().into())),
        trusted(b"/a", 1, sha, Source::Directory(b"x".as_slice().into())),
        trusted(b"a", 1, sha, dpkg()),
        Event::Missing { path: b"/a/../b".to_vec(), source: dpkg() },
        Event::Unreadable { path: b"/a".to_vec(), source: dpkg(), md5: None },
    ] {
        let bytes = stream(&[frame(&good), frame(&bad), end(2)]);
        assert!(matches!(said(&bytes), Err(Error::Malformed { number: 2, .. })), "{bad:?}");
    }
    assert!(matches!(said(&stream(&[frame(&good), end(2)])), Err(Error::Malformed { .. })));
    assert!(matches!(said(&stream(&[vec![0; LONGEST + 1]])), Err(Error::Malformed { .. })));
    assert!(matches!(said(b"PALLOAD2...."), Err(Error::Foreign)));
    let many = vec![frame(&good); 101];
    assert!(matches!(said(&stream(&many)), Err(Error::TooMany(100))));
    let failed = [&[kind::FAILED][..], b"no\nway"].concat();
    assert!(matches!(said(&stream(&[failed])), Err(Error::Failed(reason)) if reason == "no\\nway"));
}

#[test]
fn a_loader_is_understood() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("a"), "abc").unwrap();
    let mut request = Request {
        root: root.path().canonicalize().unwrap(),
        filter: Filter::everything(),
        from: vec![Origin::Directory("/".into())],
        hard: false,
        most: 10,
        threads: None,
    };
    let mut bytes = Vec::new();
    serve_loader(&request, None, &mut bytes).unwrap();
    let events = said(&bytes).unwrap();
    let trusted = events.iter().filter(|event| matches!(event, Event::Trusted(_))).count();
    assert_eq!(trusted, 1, "{events:?}");
    request.from = vec![Origin::Packages];
    bytes.clear();
    assert!(serve_loader(&request, None, &mut bytes).is_err());
    assert!(matches!(said(&bytes), Err(Error::Failed(_))));
}

#[test]
fn any_bytes() {
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        let _said = said(bytes);
        let _said = said(&[&MAGIC, bytes].concat());
        for kind in 1..=8 {
            let source = [0, 1, 0, 0, 0, b'a'];
            let _said = said(&stream(&[[&[kind][..], &source, bytes].concat()]));
        }
    });
}
