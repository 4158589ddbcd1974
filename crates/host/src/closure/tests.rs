// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;

#[test]
fn tokens_are_filled_in() {
    let filled =
        |text: &str| expand(OsStr::new(text), Path::new("/opt/x/bin"), "lib/x86_64-linux-gnu", "x86_64");
    for (text, expected) in [
        ("$ORIGIN/../lib", "/opt/x/bin/../lib"),
        ("${ORIGIN}", "/opt/x/bin"),
        ("/a/$LIB/$PLATFORM", "/a/lib/x86_64-linux-gnu/x86_64"),
        ("$ORIGINAL/x", "$ORIGINAL/x"),
        ("a$", "a$"),
        ("$$ORIGIN", "$/opt/x/bin"),
    ] {
        assert_eq!(filled(text), Path::new(expected), "{text}");
    }
}

#[test]
fn a_program_and_its_libraries() {
    let closure = Libraries::default().closure(&Path::new("/bin/sh").canonicalize().unwrap()).unwrap();
    assert_eq!(closure.missing, []);
    assert!(closure.objects.len() >= 3, "{closure:?}");
    assert!(closure.objects.iter().all(|path| path.is_file()), "{closure:?}");
    let names: Vec<_> = closure.objects.iter().filter_map(|path| path.file_name()).collect();
    assert!(names.iter().any(|name| name.as_bytes().starts_with(b"libc.so")), "{closure:?}");
    assert!(names.iter().any(|name| name.as_bytes().starts_with(b"ld-")), "{closure:?}");
}

#[test]
fn what_is_no_program_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    let libraries = Libraries::default();
    let error = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        libraries.closure(&file).unwrap_err().to_string()
    };
    assert!(error(b"").ends_with("/f is no ELF file"));
    assert!(error(b"#!/bin/sh").ends_with("/f is no ELF file"));
    assert!(error(b"\x7fELF").ends_with("/f is damaged: its header"));
    let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    for length in [5, 52, 64, 100, 500, 4096] {
        assert!(error(&whole[..length]).contains("is damaged: "), "{length}");
    }
    assert!(matches!(
        libraries.closure(&directory.path().join("none")),
        Err(ClosureError::Elf(error)) if error.is_absent()
    ));
    assert!(libraries.closure(directory.path()).unwrap_err().to_string().ends_with("is no ELF file"));
}

/// With any byte of the header, the segments or the dynamic section changed, there is no panic, and no closure of the
/// whole file system.
#[test]
fn damaged_bytes_do_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    let whole = std::fs::read("/bin/true").unwrap();
    for at in (0..1024.min(whole.len())).chain(whole.len() / 2..(whole.len() / 2 + 512).min(whole.len())) {
        for value in [0, 0x7f, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            std::fs::write(&file, &bytes).unwrap();
            // A file is read only once.
            if let Ok(closure) = Libraries::default().closure(&file) {
                assert!(closure.objects.len() < 64, "{at}");
            }
        }
    }
}

/// A 64-bit ELF file that needs this many libraries, all of one name that doesn't exist.
fn needing(count: u64) -> Vec<u8> {
    const PAGE: u64 = 0x1000;
    let entries: Vec<[u64; 2]> = (0..count).map(|_| [1, 1]).chain([[5, PAGE], [10, 16], [0, 0]]).collect();
    let dynamic = PAGE + 16;
    let size = entries.len() as u64 * 16;
    let header: Vec<u8> = [
        b"\x7fELF\x02\x01\x01".as_slice(),
        &[0; 9],
        &3_u16.to_le_bytes(),
        &62_u16.to_le_bytes(),
        &1_u32.to_le_bytes(),
        &[0_u64.to_le_bytes(), 64_u64.to_le_bytes(), 0_u64.to_le_bytes()].concat(),
        &0_u32.to_le_bytes(),
        &[64_u16, 56, 2, 64, 0, 0].map(u16::to_le_bytes).concat(),
    ]
    .concat();
    let segment = |kind: u32, offset: u64, size: u64| {
        let numbers = [offset, offset, offset, size, size, 8].map(u64::to_le_bytes).concat();
        [&kind.to_le_bytes()[..], &4_u32.to_le_bytes(), &numbers].concat()
    };
    let mut file = [header, segment(1, 0, dynamic + size), segment(2, dynamic, size)].concat();
    file.resize(0x1000, 0);
    file.extend_from_slice(b"\0libnone.so.1\0\0\0");
    file.extend(entries.iter().flatten().flat_map(|number| number.to_le_bytes()));
    file
}

#[test]
fn a_file_that_needs_ten_thousand_libraries_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    let closure = |count| {
        std::fs::write(&file, needing(count)).unwrap();
        Libraries::default().closure(&file)
    };
    let few = closure(3).unwrap();
    assert_eq!((few.objects.len(), few.missing.len()), (1, 1), "{few:?}");
    assert!(closure(10_000).unwrap_err().to_string().contains("more than 4096 libraries"));
}
