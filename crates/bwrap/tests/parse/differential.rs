// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same arguments for bubblewrap of this machine and for the parser: both end in the same way, with the same words.
//!
//! Only lists with which bubblewrap starts nothing are given to it.

use palisade_text::Show as _;
use std::ffi::CString;
use std::io::{Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use palisade_bwrap::process::Process;
use palisade_bwrap::{arguments::Host, message::Failure};

use crate::host::{End, Fake, arguments, end};
use crate::lists::{NEWER, PLAIN, WITH_DATA};

/// bubblewrap, found by `PATH`.
pub(crate) struct Original {
    /// It has the options of [`NEWER`].
    pub(crate) newer: bool,
    this: Fake,
}

impl Original {
    /// `None`: it isn't on this machine, or is older than what is compared.
    pub(crate) fn find() -> Option<Self> {
        let output = Command::new("bwrap").arg("--version").output().ok()?;
        let version = String::from_utf8(output.stdout).ok()?;
        let minor = version.strip_prefix("bubblewrap 0.")?.split('.').next()?.trim().parse::<u32>().ok()?;
        let no_descriptors = |_| Err(std::io::Error::from_raw_os_error(9));
        let process = Process::new(no_descriptors).map_err(|failure: Failure| failure.to_string());
        let this = Fake { identity: process.unwrap().identity(), ..Fake::default() };
        (minor >= 8).then_some(Self { newer: minor >= 11, this })
    }

    fn end(texts: &[CString], data: &[u8]) -> End {
        let mut file = tempfile();
        file.write_all(data).unwrap();
        file.rewind().unwrap();
        let texts = texts.iter().map(|text| std::ffi::OsStr::from_bytes(text.to_bytes()));
        let output = Command::new("bwrap").args(texts).stdin(Stdio::from(file)).output().unwrap();
        End { code: output.status.code().unwrap_or(-1), output: output.stdout, errors: output.stderr }
    }

    /// Compares, if the command isn't started with these arguments.
    pub(crate) fn compare(&self, texts: &[CString], data: &[u8]) -> bool {
        let mut host = self.this.clone();
        host.files.insert(0, data.to_vec());
        let Some(ours) = end(texts, host, b"bwrap") else { return false };
        let mut truth = Self::end(texts, data);
        // The original repeats the bytes of a name; here none changes what a terminal shows.
        let lines = truth.errors.split_inclusive(|byte| *byte == b'\n');
        let shown = lines.map(|line| std::ffi::OsStr::from_bytes(line).shown().lines().to_string());
        truth.errors = shown.collect::<String>().into_bytes();
        let same = ours.code == truth.code
            && before_options(&ours.output) == before_options(&truth.output)
            && before_options(&ours.errors) == before_options(&truth.errors);
        assert!(
            same,
            "{texts:?} with {:?}\nours {}: {}{}\noriginal {}: {}{}",
            String::from_utf8_lossy(data),
            ours.code,
            String::from_utf8_lossy(&ours.output),
            String::from_utf8_lossy(&ours.errors),
            truth.code,
            String::from_utf8_lossy(&truth.output),
            String::from_utf8_lossy(&truth.errors),
        );
        true
    }
}

/// An open file without a name.
fn tempfile() -> std::fs::File {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(std::env::temp_dir(), flags, Mode::RUSR | Mode::WUSR).unwrap().into()
}

/// The text up to the options of the usage, whose words are our own. Versions are alike.
fn before_options(text: &[u8]) -> &[u8] {
    let options = b"\n\n    --help";
    if text.starts_with(b"bubblewrap 0.") {
        return b"bubblewrap";
    }
    let end = text.windows(options.len()).position(|window| window == options);
    text.get(..end.unwrap_or(text.len())).unwrap_or_default()
}

/// The arguments of a list.
pub(crate) fn split(list: &str) -> Vec<CString> {
    let texts: Vec<_> = list.split(' ').filter(|text| !text.is_empty()).collect();
    arguments(&texts.iter().map(|&text| if text == "{}" { "" } else { text }).collect::<Vec<_>>())
}

#[test]
fn errors_and_warnings_are_those_of_the_original() {
    let Some(original) = Original::find() else {
        eprintln!("this machine has no bubblewrap");
        return;
    };
    for list in PLAIN {
        assert!(original.compare(&split(list), b""), "starts a command: {list}");
    }
    for (data, list) in WITH_DATA {
        let data = data.replace('|', "\0");
        assert!(original.compare(&split(list), data.as_bytes()), "starts a command: {list}");
    }
    for list in NEWER.iter().filter(|_| original.newer) {
        assert!(original.compare(&split(list), b""), "starts a command: {list}");
    }
}

#[test]
fn other_bytes_are_shown_without_what_misleads() {
    let Some(original) = Original::find() else { return };
    let lists: [&[&[u8]]; 5] = [
        &[b"--\xff"],
        &[b"--args", b"\xff"],
        &[b"--uid", b"\xc3\x28"],
        &[b"--cap-add", b"cap_\xff"],
        &[b"--setenv", b"=\xff", b""],
    ];
    for list in lists {
        assert!(original.compare(&arguments(list), b""));
    }
}

#[test]
fn the_limit_of_arguments_is_that_of_the_original() {
    let Some(original) = Original::find() else { return };
    let many = |count: usize| arguments(&vec!["--clearenv"; count]);
    assert!(original.compare(&many(9000), b""));
    assert!(original.compare(&many(9001), b""));
    for count in [8998, 8999] {
        for end in ["", "\0"] {
            let data = vec!["--clearenv"; count].join("\0") + end;
            assert!(original.compare(&arguments(&["--args", "0"]), data.as_bytes()));
        }
    }
    assert!(original.compare(&arguments(&["--args", "0"]), &[0; 8998]));
    assert!(original.compare(&arguments(&["--args", "0"]), &[0; 8999]));
}

#[test]
fn help_and_version_stop_where_they_stand() {
    let Some(original) = Original::find() else { return };
    for list in ["--help", "--version", "--dir /q --help --bad", "--chdir a --chdir b --version --bad"] {
        assert!(original.compare(&split(list), b""));
    }
    assert!(original.compare(&split("--args 0 --bad"), b"--version"));
    assert!(original.compare(&split("--args 0 --bad"), b"--perms\x00700\0--help\0"));
    assert!(original.compare(&split("--bad --help"), b""));
}
