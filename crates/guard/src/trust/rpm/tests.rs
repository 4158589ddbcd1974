// SPDX-License-Identifier: Apache-2.0 OR MIT
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use super::*;
use std::fs;
use std::process::Command;

/// A header with these entries: tag, type, count, data.
fn header(entries: &[(u32, u32, u32, &[u8])]) -> Vec<u8> {
    let (mut index, mut data) = (Vec::new(), Vec::new());
    for (tag, kind, count, bytes) in entries {
        let offset = u32::try_from(data.len()).unwrap();
        for word in [*tag, *kind, offset, *count] {
            index.extend(word.to_be_bytes());
        }
        data.extend_from_slice(bytes);
    }
    let mut blob = u32::try_from(entries.len()).unwrap().to_be_bytes().to_vec();
    blob.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
    blob.extend(index);
    blob.extend(data);
    blob
}

#[test]
fn files_and_not_directories_links_and_ghosts() {
    let digests = format!("{}\0\0{}\0", "ab".repeat(32), "cd".repeat(32));
    let blob = header(&[
        (tag::NAME, kind::STRING, 1, b"p\0"),
        (tag::FILE_SIZES, kind::INT32, 3, &[0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 1, 0]),
        (tag::FILE_MODES, kind::INT16, 3, &[0x81, 0xed, 0x41, 0xed, 0x81, 0xa4]),
        (tag::FILE_DIGESTS, kind::STRING_ARRAY, 3, digests.as_bytes()),
        (tag::FILE_FLAGS, kind::INT32, 3, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64]),
        (tag::DIRECTORY_INDEXES, kind::INT32, 3, &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]),
        (tag::BASE_NAMES, kind::STRING_ARRAY, 3, b"a b\0d\0g\0"),
        (tag::DIRECTORY_NAMES, kind::STRING_ARRAY, 2, b"/usr/bin/\0/usr/\0"),
        (tag::FILE_DIGEST_ALGORITHM, kind::INT32, 1, &[0, 0, 0, 8]),
    ]);
    let digest = Digest::Sha256([0xab; 32]);
    let file = Listed { path: b"/usr/bin/a b".to_vec(), size: 5, digest };
    assert_eq!(package(&blob), Ok(Package { name: b"p".to_vec(), files: vec![file] }));
    for cut in 0..blob.len() {
        assert!(package(&blob[..cut]).is_err(), "{cut}");
    }
}

#[test]
fn any_bytes_are_an_error_or_a_package() {
    bolero::check!().for_each(|bytes: &[u8]| drop(package(bytes)));
}

/// A database that rpm itself wrote, if rpm is installed.
#[test]
fn what_rpm_installs() {
    if Command::new("rpmbuild").arg("--version").output().is_err() {
        eprintln!("rpm isn't here: not compared with it");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let spec = "Name: odd\nVersion: 1\nRelease: 1\nSummary: x\nLicense: x\nBuildArch: noarch\n%description\nx\n\
                %install\nmkdir -p %{buildroot}/opt/odd\necho one >'%{buildroot}/opt/odd/a b'\nln -s x %{buildroot}/opt/odd/l\n\
                %files\n/opt/odd\n";
    fs::write(at("odd.spec"), spec).unwrap();
    let top = format!("_topdir {}", directory.path().display());
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).env("HOME", directory.path()).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run("rpmbuild", &["-bb", "--define", &top, at("odd.spec").to_str().unwrap()]);
    let made = at("RPMS/noarch/odd-1-1.noarch.rpm");
    let base = at("db");
    run("rpm", &["--dbpath", base.to_str().unwrap(), "--justdb", "--nodeps", "-i", made.to_str().unwrap()]);
    let mut found = Vec::new();
    packages::<Error>(&base.join("rpmdb.sqlite"), |package| {
        found.push(package);
        Ok(())
    })
    .unwrap();
    let odd = found.iter().find(|package| package.name == b"odd").unwrap();
    assert_eq!(odd.files.len(), 1, "{odd:?}");
    assert_eq!((&odd.files[0].path[..], odd.files[0].size), (&b"/opt/odd/a b"[..], 4));
    let digest =
        from_hexadecimal(b"2c8b08da5ce60398e1f19af0e5dccc744df274b826abe585eaba68c525434806").unwrap();
    assert_eq!(odd.files[0].digest, Digest::new(Algorithm::Sha256, &digest).unwrap());
}
