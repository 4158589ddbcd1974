// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests what is trusted, and until when.

use crate::support::lines::tell;
use crate::support::{Bed, Settings, sha256};
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// A guard with the default policy that trusts these copies of a program.
fn trusting(names: &[&str], settings: &Settings) -> Bed {
    let mut bed = Bed::new();
    for name in names {
        bed.copy("/bin/true", bed.at(name));
        bed.trust(&format!("{name}.trust"), &[&bed.at(name)]);
    }
    bed.copy("/bin/true", bed.at("stranger"));
    bed.settings(settings);
    bed.start();
    bed
}

pub(crate) fn trust_files_with_mistakes() {
    let mut bed = Bed::new();
    for name in ["good", "wrong", "twice", "small"] {
        bed.copy("/bin/true", bed.at(name));
    }
    let (good, twice) = (bed.trust_line(&bed.at("good")), bed.trust_line(&bed.at("twice")));
    let point = bed.point.display();
    let zeros = "0".repeat(64);
    let text = format!(
        "{good}relative 1 {zeros}\n{point}/../x 1 {zeros}\n{point}/wrong many {zeros}\n{point}/wrong 5 abc\n{point}/wrong\n\n\
         # a comment\n{twice}{point}/twice 1 {zeros}\n{point}/small 1 {zeros}\n{point}/{} 1 {zeros}\n",
        "x".repeat(5000)
    );
    bed.write(bed.config("trust.d/50-test"), text);
    bed.settings(&Settings::enforce());
    bed.start();
    bed.run("./good && ./twice").ok();
    bed.run("./wrong").refused();
    bed.run("./small").refused();
    let log = bed.log();
    for wanted in [
        "isn't absolute",
        "isn't normalised",
        "isn't a number of bytes: many",
        "64 hexadecimal digits, and has 3",
        "a path, a size and a SHA-256",
        "is already in line 9",
        "more than",
    ] {
        assert!(log.contains(wanted), "{wanted}: {log}");
    }
}

pub(crate) fn trust_that_changes_while_it_runs() {
    let bed = trusting(&["a"], &Settings::enforce());
    bed.run("./a").ok();
    bed.run("./stranger").refused();
    let line = format!("{}/stranger {}", bed.point.display(), bed_digest("/bin/true"));
    bed.write(bed.config("trust.d/added"), &line);
    // A refusal waits until earlier changes are read.
    bed.run("./stranger").ok();
    std::fs::remove_file(bed.outside(bed.config("trust.d/added"))).unwrap();
    bed.wait("what was taken away isn't trusted", |bed| !bed.run("./stranger").worked());
    bed.run("./a").ok();
    bed.write(bed.config("guard.trust"), &line);
    bed.run("./stranger").ok();
}

/// Size and SHA-256, as in trust files.
fn bed_digest(path: &str) -> String {
    let content = std::fs::read(path).unwrap();
    format!("{} {}\n", content.len(), sha256(&content))
}

pub(crate) fn a_file_that_changes() {
    let names = ["longer", "over", "same", "mapped", "mode"];
    let bed = trusting(&names, &Settings::enforce().trust("integrity = \"sha256\""));
    for name in names {
        // Twice, so that every cache has it.
        bed.run_as_user(&format!("sleep 0.05; ./{name} && ./{name} && cat {name} > /dev/null")).ok();
    }
    assert!(bed.metrics().passed > 0, "{:?}", bed.metrics());
    bed.run("echo >> longer").ok();
    bed.run_as_user("./longer").refused();
    bed.run("cp /bin/false new; mv new over").ok();
    bed.run_as_user("./over").refused();
    // Same length and same modification time as before.
    bed.run(
        "touch -r same time; printf x | dd of=same bs=1 seek=20000 conv=notrunc 2>&1; touch -r time same",
    )
    .ok();
    bed.run_as_user("./same").refused();
    let store = "import mmap, os
file = os.open('mapped', os.O_RDWR)
memory = mmap.mmap(file, 0)
os.close(file)
memory[20000] = memory[20000] ^ 1
memory.flush(); memory.close()";
    bed.run(&format!("python3 -c \"{store}\"")).ok();
    // A write through a mapping is reported when the last mapping ends.
    bed.wait("the change is heard of", |bed| !bed.run_as_user("./mapped").worked());
    bed.run("chmod 700 mode").ok();
    assert!(!bed.run_as_user("./mode").worked());
    bed.run("chmod 755 mode").ok();
    bed.run_as_user("./mode").ok();
    // A process with the new owner may write the file now, so the kernel must ask about it each time.
    bed.run("chown 47110 mode").ok();
    bed.run_as_user("./mode").ok();
    bed.run_as_user("printf x | dd of=mode bs=1 seek=20000 conv=notrunc 2>&1; sleep 0.1").ok();
    bed.run_as_user("./mode").refused();
}

pub(crate) fn integrity() {
    let change = "printf x | dd of=a bs=1 seek=20000 conv=notrunc 2>&1";
    for (integrity, still) in [("none", true), ("size", true), ("sha256", false)] {
        let bed = trusting(&["a"], &Settings::enforce().trust(&format!("integrity = \"{integrity}\"")));
        bed.run("./a").ok();
        bed.run(change).ok();
        assert_eq!(bed.run("./a").worked(), still, "{integrity}");
        if still {
            bed.run("echo >> a").ok();
            assert_eq!(bed.run("./a").worked(), integrity == "none", "{integrity}");
        }
        assert_eq!(bed.status().integrity, integrity);
    }
}

pub(crate) fn integrity_by_ima() {
    let bed = trusting(&["a", "without"], &Settings::enforce().trust("integrity = \"ima\""));
    // In evmctl's format: a digest of the new format, SHA-256.
    let mark = |file: &str, digest: &str| {
        bed.run(&format!(
            "python3 -c \"import os; os.setxattr('{file}', 'security.ima', b'\\x04\\x04' + bytes.fromhex('{digest}'))\""
        ))
    };
    let digest = sha256(&std::fs::read("/bin/true").unwrap());
    let set = mark("a", &digest);
    if !set.worked() {
        tell(&format!("integrity_by_ima: security.ima can't be set here: {}", set.err));
        return;
    }
    bed.run("./a").ok();
    bed.run("./without").refused();
    mark("a", &"0".repeat(64)).ok();
    bed.run("./a").refused();
}

pub(crate) fn filter() {
    let mut bed = Bed::new();
    bed.settings(&Settings { trust: "sources = [\"dpkg\"]".into(), ..Settings::enforce() });
    for (filter, trusted) in [("+ /usr/bin/dpkg\n", 1), ("- /usr/bin/dpkg-*\n+ /usr/bin/dpkg*\n", 1)] {
        bed.write(bed.config("guard-filter.conf"), filter);
        bed.start();
        assert_eq!(bed.status().trusted, trusted, "{filter}");
        bed.stop();
    }
    bed.write(bed.config("guard-filter.conf"), "usr/bin\n");
    bed.launch();
    bed.wait("the mistake is told", |bed| bed.log().contains("line 1 of the import filter"));
}

pub(crate) fn odd_names() {
    let mut bed = Bed::new();
    let long = format!("{}/{}", vec!["d".repeat(200); 15].join("/"), "p".repeat(200));
    let names: [&[u8]; 6] =
        [b"with space", b"new\nline", b"not \xff utf-8", b"per%25cent", b" (deleted)", long.as_bytes()];
    let mut trusted = String::from("# AUTOGENERATED FILE VERSION 2\n");
    for name in names {
        let path = bed.copy("/bin/true", bed.at("").join(OsStr::from_bytes(name)));
        bed.copy("/bin/true", bed.at("strange").join(OsStr::from_bytes(&[name, b"2"].concat())));
        for &byte in path.as_os_str().as_bytes() {
            let plain = byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
            if plain { trusted.push(char::from(byte)) } else { write!(trusted, "%{byte:02X}").unwrap() }
        }
        trusted.push(' ');
        trusted.push_str(&bed_digest("/bin/true"));
    }
    bed.write(bed.config("trust.d/odd"), trusted);
    bed.settings(&Settings::enforce());
    bed.start();
    for name in names {
        let run = |path: &std::path::Path| {
            let mut command = bed.command(0, "20", &["/usr/bin/env"]);
            command.arg(path).output().unwrap()
        };
        let said = run(&bed.point.join(OsStr::from_bytes(name)));
        assert!(said.status.success(), "{}: {said:?}\n{}", name.escape_ascii(), bed.log());
        let said = run(&bed.at("strange").join(OsStr::from_bytes(&[name, b"2"].concat())));
        assert!(!said.status.success(), "{}: {said:?}", name.escape_ascii());
    }
    let log = bed.log();
    assert!(log.contains("new\\x0aline2") && log.contains("not \\xff utf-82"), "{log}");
}

pub(crate) fn who_may_read_the_database() {
    let bed = trusting(&["a"], &Settings::enforce());
    for entry in std::fs::read_dir(bed.outside(bed.state(""))).unwrap().flatten() {
        let about = entry.metadata().unwrap();
        assert_eq!((about.uid(), about.permissions().mode() & 0o027), (0, 0), "{entry:?}");
    }
    assert!(bed.state("trust.db").starts_with(&bed.base));
    assert!(bed.outside(bed.state("trust.db")).exists());
    let (database, socket) = (bed.state("trust.db"), bed.base.join("socket"));
    assert!(!bed.run_as_user(&format!("cat {}", database.display())).worked());
    assert_eq!(std::fs::metadata(bed.outside(socket)).unwrap().permissions().mode() & 0o777, 0o666);
}
