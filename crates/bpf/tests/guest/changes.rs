// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests which changes of a file remove its class, and which don't.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::process::{Command, Stdio};

use palisade_bpf::{ClassifyError, GuardPrograms, ObjectClass};
use rustix::fs::XattrFlags;
use rustix::mm::{MapFlags, ProtFlags};

use crate::inside::{TRUSTED, class_of, classify};
use crate::scenario::{Outcome, Result, act, copy, ensure, expect, report, run, told};

fn words<E: std::fmt::Display>(error: E) -> String {
    error.to_string()
}

/// A trusted program with this name, which was run once.
fn trusted(programs: &GuardPrograms, name: &str) -> Result<String> {
    let program = copy(name)?;
    classify(programs, &program, TRUSTED)?;
    expect("classified", &run(&program), &Outcome::Done)?;
    Ok(program)
}

pub(crate) fn all(programs: &GuardPrograms) {
    report("written-after-classification-refused", || {
        let program = trusted(programs, "written")?;
        let mut file = File::options().append(true).open(&program).map_err(words)?;
        file.write_all(b"more").map_err(words)?;
        drop(file);
        expect("written to", &run(&program), &Outcome::Refused)?;
        classify(programs, &program, TRUSTED)?;
        expect("classified again", &run(&program), &Outcome::Done)
    });
    report("writable-mapping-is-a-writer", || writable_mapping(programs));
    report("opened-for-writing-while-read", || opened_while_read(programs));
    report("truncated-chmod-xattr-take-the-class", || {
        type Change = fn(&str) -> std::result::Result<(), String>;
        let changes: [(&str, Change); 4] = [
            // The length stays the same, so only the hook can notice the change.
            ("truncate", |path| {
                let length = fs::metadata(path).map_err(words)?.len();
                let path = std::ffi::CString::new(path).map_err(words)?;
                let length = i64::try_from(length).map_err(words)?;
                // SAFETY: needed because rustix truncates by descriptor only, and opening one for writing would come first.
                // Sound: the path is a string of ours with its zero.
                match unsafe { libc::truncate(path.as_ptr(), length) } {
                    0 => Ok(()),
                    _ => Err(words(std::io::Error::last_os_error())),
                }
            }),
            ("chmod", |path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(words)),
            ("setxattr", |path| {
                rustix::fs::setxattr(path, "security.palisade", b"x", XattrFlags::empty()).map_err(words)
            }),
            ("removexattr", |path| rustix::fs::removexattr(path, "security.palisade").map_err(words)),
        ];
        let program = copy("changed")?;
        for (name, change) in changes {
            classify(programs, &program, TRUSTED)?;
            expect(&format!("before {name}"), &run(&program), &Outcome::Done)?;
            change(&program).map_err(|error| format!("{name}: {error}"))?;
            let refused = || run(&program);
            if name == "chmod" {
                crate::lives::eventually(&format!("after {name}"), refused, &Outcome::Refused)?;
            } else {
                expect(&format!("after {name}"), &refused(), &Outcome::Refused)?;
            }
        }
        Ok(())
    });
    report("strangers-take-no-class", || {
        let program = trusted(programs, "strange")?;
        for attempt in ["stranger-chmod", "stranger-write"] {
            let outcome = act(&[attempt, &program]);
            ensure(outcome != Outcome::Done, format!("{attempt} succeeded"))?;
            expect(attempt, &run(&program), &Outcome::Done)?;
        }
        Ok(())
    });
    report("renamed-while-running", || {
        let program = trusted(programs, "running")?;
        let mut child =
            Command::new(&program).args(["act", "wait"]).stdin(Stdio::piped()).spawn().map_err(words)?;
        fs::rename(&program, "/work/moved").map_err(words)?;
        let moved = run("/work/moved");
        let other = copy("other")?;
        fs::rename(&other, &program).map_err(words)?;
        let replaced = run(&program);
        drop(child.stdin.take());
        let ended = child.wait().map_err(words)?;
        ensure(ended.success(), format!("what was running ended with {ended}"))?;
        expect("under its new name", &moved, &Outcome::Done)?;
        expect("what has its old name", &replaced, &Outcome::Refused)
    });
}

fn writable_mapping(programs: &GuardPrograms) -> Result {
    let program = copy("mapped")?;
    let file = File::options().read(true).write(true).open(&program).map_err(words)?;
    // SAFETY: needed because the test makes a mapping. Sound: a new mapping at any address replaces none of ours.
    let page = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            4096,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            &file,
            0,
        )
    }
    .map_err(words)?;
    drop(file);
    let reading = File::open(&program).map_err(words)?;
    let mapped = programs.classify(reading.as_fd(), TRUSTED);
    let protected = act(&["map", &program]);
    // SAFETY: needed to end the mapping. Sound: nothing refers to it.
    unsafe { rustix::mm::munmap(page, 4096) }.map_err(words)?;
    ensure(matches!(mapped, Err(ClassifyError::Writer)), format!("classified while mapped: {mapped:?}"))?;
    expect("mapped elsewhere, writable", &protected, &Outcome::Refused)?;
    programs.classify(reading.as_fd(), TRUSTED).map_err(|error| told("classify")(&error))?;
    expect("not mapped any more", &run(&program), &Outcome::Done)?;
    // A writer that opens the file after it got its class, and closes it without writing.
    drop(File::options().write(true).open(&program).map_err(words)?);
    expect("opened for writing since", &run(&program), &Outcome::Refused)
}

fn opened_while_read(programs: &GuardPrograms) -> Result {
    let program = copy("read")?;
    let file = File::open(&program).map_err(words)?;
    let mut waited = false;
    let result = programs.classify_by(file.as_fd(), |_| {
        // A writer that doesn't want to wait for the lease gets an error; the hook was called before that.
        let opened = File::options().write(true).custom_flags(libc::O_NONBLOCK).open(&program);
        waited = opened.is_err_and(|error| error.raw_os_error() == Some(libc::EWOULDBLOCK));
        Ok::<_, ClassifyError>(Some(TRUSTED))
    });
    ensure(waited, "the writer didn't have to wait")?;
    ensure(matches!(result, Err(ClassifyError::Changed(TRUSTED))), format!("{result:?}"))?;
    ensure(class_of(programs, &program)?.is_none(), "it has a class")?;
    expect("not classified", &run(&program), &Outcome::Refused)?;
    let none = programs.classify_by(file.as_fd(), |_| Ok::<_, ClassifyError>(None::<ObjectClass>));
    ensure(matches!(none, Ok(None)), format!("{none:?}"))?;
    expect("read, and given none", &run(&program), &Outcome::Refused)?;
    classify(programs, &program, TRUSTED)?;
    expect("read in peace", &run(&program), &Outcome::Done)
}
