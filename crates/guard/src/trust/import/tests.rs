// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of imports: of roots made for the tests, and of this machine's packages.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::super::store::{self, Location, Store, Writer};
use super::*;

fn request(root: &Path, from: Vec<Origin>) -> Request {
    Request {
        root: root.canonicalize().unwrap(),
        filter: Filter::everything(),
        from,
        hard: false,
        most: 1_000_000,
        threads: None,
    }
}

fn run(request: &Request, previous: Option<&Base>) -> (Vec<Event>, Progress) {
    let mut events = Vec::new();
    let progress = import(request, previous, |event| {
        if !matches!(event, Event::Progress(_)) {
            events.push(event);
        }
        Ok::<(), Error>(())
    });
    (events, progress.unwrap())
}

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn old(root: &Path, name: &str) {
    // Times of modification can be set, times of change can't: a test has to wait until a file is settled.
    let status = Command::new("touch").args(["-d", "2020-01-01"]).arg(root.join(name)).status();
    assert!(status.unwrap().success());
}

fn packages() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let sums = "900150983cd24fb0d6963f7d28e17f72  bin/abc\n900150983cd24fb0d6963f7d28e17f72  usr/bin/changed\n\
                900150983cd24fb0d6963f7d28e17f72  usr/bin/gone\n900150983cd24fb0d6963f7d28e17f72  usr/bin/link\n";
    for (name, text) in [
        ("var/lib/dpkg/status", "Package: a\nStatus: install ok installed\n\n"),
        (
            "var/lib/dpkg/info/a.list",
            "/bin\n/bin/abc\n/usr/bin/changed\n/usr/bin/gone\n/usr/bin/link\n/usr/bin/made\n",
        ),
        ("var/lib/dpkg/info/a.md5sums", sums),
        ("usr/bin/abc", "abc"),
        ("usr/bin/changed", "abd"),
        ("usr/bin/made", "abc"),
    ] {
        write(root.path(), name, text);
    }
    symlink("abc", root.path().join("usr/bin/link")).unwrap();
    symlink("usr/bin", root.path().join("bin")).unwrap();
    root
}

#[test]
fn packages_have_to_have_their_md5() {
    let root = packages();
    let (events, progress) = run(&request(root.path(), vec![Origin::Packages]), None);
    let mut told = BTreeMap::new();
    for event in &events {
        let (what, path) = match event {
            Event::Trusted(record) => ("trusted", &record.entry.path),
            Event::Differs { path, .. } => ("differs", path),
            Event::Missing { path, .. } => ("missing", path),
            Event::Undigested { path, .. } => ("undigested", path),
            other => panic!("{other:?}"),
        };
        told.insert(path.escape_ascii().to_string(), what);
    }
    let expected = [
        ("/usr/bin/abc", "trusted"),
        ("/usr/bin/changed", "differs"),
        ("/usr/bin/gone", "missing"),
        ("/usr/bin/link", "missing"),
        ("/usr/bin/made", "undigested"),
    ];
    assert_eq!(told, expected.map(|(path, what)| (path.to_owned(), what)).into());
    assert_eq!((progress.done, progress.total, progress.bytes), (5, 5, 6));
    let nothing = run(&request(root.path(), vec![Origin::SomePackages(vec![b"b".to_vec()])]), None);
    assert!(nothing.0.is_empty());
}

#[test]
fn a_package_that_status_does_not_know_yet_is_read_when_it_is_asked_for() {
    let root = packages();
    let status = root.path().join("var/lib/dpkg/status");
    let known = std::fs::read_to_string(&status).unwrap();
    let events = |root: &Path| {
        run(&request(root, vec![Origin::SomePackages(vec![b"a".to_vec(), b"../a".to_vec()])]), None).0
    };
    let before = events(root.path());
    assert!(!before.is_empty());
    std::fs::write(&status, known.replace("Package: a\n", "Package: other\n")).unwrap();
    assert_eq!(events(root.path()).len(), before.len());
}

#[test]
fn what_looks_the_same_is_not_hashed_again() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let root = packages();
    old(root.path(), "usr/bin/abc");
    std::thread::sleep(measure::SETTLED + std::time::Duration::from_millis(100));
    let mut request = request(root.path(), vec![Origin::Packages]);
    let (events, first) = run(&request, None);
    let location = Location::new(root.path());
    let mut writer = Writer::lock(&location).unwrap();
    let mut builder = writer.rebuild().unwrap();
    for event in &events {
        if let Event::Trusted(record) = event {
            builder.push(record).unwrap();
        }
    }
    writer.finish(builder).unwrap();
    let base = Base::open(&location.base()).unwrap();
    let trusted = |events: &[Event]| events.iter().find(|event| matches!(event, Event::Trusted(_))).cloned();
    let (again, second) = run(&request, Some(&base));
    assert_eq!((first.bytes, second.bytes), (6, 3), "only the one that differs");
    assert_eq!(trusted(&again), trusted(&events));
    request.hard = true;
    assert_eq!(run(&request, Some(&base)).1.bytes, 6);
    request.hard = false;
    // The same size and the same time of modification, but different content.
    fs::write(root.path().join("usr/bin/abc"), "abx").unwrap();
    old(root.path(), "usr/bin/abc");
    assert_eq!(trusted(&run(&request, Some(&base)).0), None);
    // The package gives a different digest for the same file.
    fs::write(root.path().join("usr/bin/abc"), "abc").unwrap();
    write(root.path(), "var/lib/dpkg/info/a.md5sums", &format!("{}  bin/abc\n", "0".repeat(32)));
    assert_eq!(trusted(&run(&request, Some(&base)).0), None);
}

#[test]
fn directories() {
    let root = tempfile::tempdir().unwrap();
    for name in ["opt/a", "opt/b.txt", "opt/deep/er/libc.so.6", "outside/x", "opt/with\nnewline"] {
        write(root.path(), name, name);
    }
    for name in ["opt/a", "outside/x", "opt/with\nnewline"] {
        fs::set_permissions(root.path().join(name), Permissions::from_mode(0o755)).unwrap();
    }
    symlink("../outside", root.path().join("opt/out")).unwrap();
    symlink("../outside/x", root.path().join("opt/x")).unwrap();
    let names = |origin| {
        let (events, _) = run(&request(root.path(), vec![origin]), None);
        let mut names: Vec<String> = events
            .iter()
            .map(|event| match event {
                Event::Trusted(record) => record.entry.path.escape_ascii().to_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        names.sort();
        names
    };
    let executables = ["/opt/a", "/opt/deep/er/libc.so.6", "/opt/with\\nnewline"];
    assert_eq!(names(Origin::Executables("/opt".into())), executables);
    assert_eq!(names(Origin::Directory("/opt/".into())).len(), 4);
    let mut few = request(root.path(), vec![Origin::Directory("/opt".into())]);
    few.most = 3;
    assert!(matches!(import(&few, None, |_| Ok::<(), Error>(())), Err(Error::TooMany(3))));
    let nowhere = request(root.path(), vec![Origin::Directory("/nowhere".into())]);
    assert!(matches!(import(&nowhere, None, |_| Ok::<(), Error>(())), Err(Error::Directory { .. })));
}

#[test]
fn whoever_stops_is_obeyed() {
    let root = tempfile::tempdir().unwrap();
    for number in 0..3000 {
        write(root.path(), &format!("opt/{number}"), "x");
    }
    #[derive(Debug)]
    struct Enough;
    impl From<Error> for Enough {
        fn from(_: Error) -> Self {
            Self
        }
    }
    let request = request(root.path(), vec![Origin::Directory("/opt".into())]);
    let mut count = 0;
    let stopped = import(&request, None, |_| {
        count += 1;
        if count > 10 { Err(Enough) } else { Ok(()) }
    });
    assert!(stopped.is_err());
    assert_eq!(count, 11);
}

/// The packages of this machine, if it has dpkg: a sample must have the digests that `sha256sum` finds.
#[test]
fn this_machine() {
    if !Path::new("/var/lib/dpkg/status").exists() {
        return;
    }
    let names =
        ["bash", "coreutils", "dpkg", "libc6:amd64", "perl-base"].map(|name| name.as_bytes().to_vec());
    let mut request = request(Path::new("/"), vec![Origin::SomePackages(names.into())]);
    request.filter = Filter::default();
    let directory = tempfile::tempdir().unwrap();
    let location = Location::new(directory.path());
    let mut writer = Writer::lock(&location).unwrap();
    let mut builder = writer.rebuild().unwrap();
    let mut paths = Vec::new();
    import(&request, None, |event| {
        if let Event::Trusted(record) = event {
            builder.push(&record).map_err(store::Error::from).unwrap();
            paths.push(PathBuf::from(std::ffi::OsString::from(
                String::from_utf8(record.entry.path.clone()).unwrap(),
            )));
        }
        Ok::<(), Error>(())
    })
    .unwrap();
    writer.finish(builder).unwrap();
    let store = Store::open(&location).unwrap();
    assert!(paths.len() > 200, "{}", paths.len());
    assert!(!store.lookup(b"/usr/bin/ls").unwrap().is_empty());
    assert!(store.lookup(b"/bin/ls").unwrap().is_empty() || !Path::new("/bin").is_symlink());
    let output = Command::new("sha256sum").arg("--").args(paths.iter().step_by(7)).output().unwrap();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let (sum, path) = line.split_once("  ").unwrap();
        let found = store.lookup(path.as_bytes()).unwrap();
        assert!(found.iter().any(|record| record.entry.digest.to_string() == sum), "{path}");
    }
}
