// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of dpkg's formats.

use super::*;

const SUM: &str = "d41d8cd98f00b204e9800998ecf8427e";

fn database(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = root.path().join("var/lib/dpkg").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace("SUM", SUM)).unwrap();
    }
    root
}

#[test]
fn packages_with_all_their_oddities() {
    let status = "Package: one\nStatus: install ok installed\nArchitecture: amd64\nConffiles:\n /etc/a b SUM\n \
                  /etc/old SUM obsolete\nDescription: x\n /etc/no SUM\n\nPackage: two\nStatus: deinstall ok config-files\n\n\
                  Package: three\nArchitecture: amd64\nStatus: install ok triggers-pending\n\nPackage: ../one\nStatus: install ok installed\n";
    let root = database(&[
        ("status", status),
        ("diversions", "/usr/bin/x\n/usr/bin/x.real\nthree\n/usr/bin/y\n/usr/bin/y.away\n:\n"),
        ("info/one.list", "/.\n/usr\n/usr/bin\n/usr/bin/x\n/etc/a b\n/etc/old\n/etc/no\n/usr/bin/y\n"),
        ("info/one.md5sums", "SUM  usr/bin/x\nbad line\nSUM  usr/bin/unlisted\nSUM  ./usr/bin/y\n"),
        ("info/two.list", "/etc/two\n"),
        ("info/under-way.list", "/usr/bin/z\n"),
        ("info/under-way.md5sums", "SUM  usr/bin/z\n"),
        ("info/without-list.md5sums", "SUM  usr/bin/y\n"),
        ("info/three:amd64.list", "/usr/bin/x\n"),
        ("info/three:amd64.md5sums", "SUM  usr/bin/x\n"),
    ]);
    let database = Database::open(root.path()).unwrap();
    let names: Vec<_> =
        database.packages().iter().map(|package| package.name.escape_ascii().to_string()).collect();
    assert_eq!(names, ["one", "three:amd64", "under-way"]);
    let files = |number: usize| -> Vec<(String, bool)> {
        let files = database.files(&database.packages()[number]).unwrap();
        files.into_iter().map(|file| (file.path.escape_ascii().to_string(), file.md5.is_some())).collect()
    };
    let expected = [
        ("/.", false),
        ("/usr", false),
        ("/usr/bin", false),
        ("/usr/bin/x.real", true),
        ("/etc/a b", true),
        ("/etc/old", true),
        ("/etc/no", false),
        ("/usr/bin/y.away", true),
    ];
    assert_eq!(files(0), expected.map(|(path, md5)| (path.to_owned(), md5)));
    assert_eq!(files(1), [("/usr/bin/x".to_owned(), true)]);
    assert_eq!(files(2), [("/usr/bin/z".to_owned(), true)]);
    let owner = |path: &str| {
        let owner = database.owner(path.as_bytes()).unwrap();
        owner.map(|package| package.name.escape_ascii().to_string())
    };
    for (path, name) in [
        ("/usr/bin/x", "three:amd64"),
        ("/usr/bin/x.real", "one"),
        ("/usr/bin/y.away", "one"),
        ("/usr/bin/z", "under-way"),
        ("/etc/a b", "one"),
    ] {
        assert_eq!(owner(path).as_deref(), Some(name), "{path}");
    }
    for path in ["/usr/bin/y", "/etc/two", "/usr/bin/unlisted", ""] {
        assert_eq!(owner(path), None, "{path}");
    }
    // Removed since the packages were read.
    let info = root.path().join("var/lib/dpkg/info");
    std::fs::rename(info.join("three:amd64.list"), info.join("away")).unwrap();
    assert_eq!(files(1), []);
    std::fs::rename(info.join("away"), info.join("three:amd64.list")).unwrap();

    let past = SystemTime::now() - Duration::from_secs(100);
    let changed = database.changed(past, [&b"one"[..], b"gone"]);
    assert_eq!(changed.installed, [b"one".to_vec(), b"three:amd64".to_vec(), b"under-way".to_vec()]);
    assert_eq!(changed.removed, [b"gone".to_vec()]);
    assert!(database.changed(SystemTime::now() + Duration::from_secs(9), []).installed.is_empty());
}

#[test]
fn no_database_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    assert!(matches!(Database::open(root.path()), Err(Error::Read { .. })));
}

#[test]
fn any_bytes() {
    let names = HashSet::from([b"a.list".to_vec()]);
    bolero::check!().with_iterations(10_000).for_each(|bytes: &[u8]| {
        let _packages = parse_status(bytes, &names);
        let text = [b"Package: a\nStatus: install ok installed\nConffiles:\n ", bytes].concat();
        let _packages = parse_status(&text, &names);
        let _sums = parse_sums(bytes);
        let _sums = parse_sums(&[SUM.as_bytes(), b"  ", bytes].concat());
        let _diversions = parse_diversions(bytes);
    });
}
