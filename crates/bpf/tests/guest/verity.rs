// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `integrity = "verity"`: files on a disk in memory with an ext4 of the host's `mkfs.ext4`, some of them protected.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use rustix::mount::UnmountFlags;
use rustix::process::Signal;
use sha2::{Digest, Sha256};

use crate::daemon::{Daemon, PATIENCE, in_force};
use crate::disk::VERITY;
use crate::scenario::{Outcome, Result, ensure, execute, expect, report};

const PLACE: &str = "/verity";
const PROTECTED: &str = "/verity/protected.script";
const PLAIN: &str = "/verity/plain.script";
/// Protected, with content that differs from the database and has the same size.
const OTHER: &str = "/verity/other.script";

const RULES: &str = "/etc/palisade/guard.d/10-verity.rules";

/// `struct fsverity_enable_arg` of `linux/fsverity.h`; members that are zero here aren't used.
#[repr(C)]
struct Enable {
    version: u32,
    hash_algorithm: u32,
    block_size: u32,
    rest: [u32; 29],
}

/// Protects a file by fs-verity from now on.
fn protect(path: &str) -> Result {
    let file = File::open(path).map_err(|error| format!("open {path}: {error}"))?;
    let argument = Enable { version: 1, hash_algorithm: 1, block_size: 4096, rest: [0; 29] };
    // `FS_IOC_ENABLE_VERITY`: `_IOW('f', 133, struct fsverity_enable_arg)`.
    // SAFETY: needed because rustix lacks the call. Sound: the kernel reads the structure, which has the size that it
    // expects.
    match unsafe { libc::ioctl(file.as_raw_fd(), 0x4080_6685, &raw const argument) } {
        0 => Ok(()),
        _ => Err(format!("protect {path}: {}", io::Error::last_os_error())),
    }
}

/// Makes three scripts, and their entries in the database.
fn prepare() -> Result {
    VERITY.mount(PLACE)?;
    let make = || -> io::Result<()> {
        let mut trusted = String::new();
        for path in [PROTECTED, PLAIN, OTHER] {
            let text = format!("#!/bin/sh act\n# {path}\n");
            let digest =
                Sha256::digest(&text).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
            trusted.push_str(&format!("{path} {} {digest}\n", text.len()));
            let text = if path == OTHER { text.replace('#', "!").replacen('!', "#", 1) } else { text };
            fs::write(path, text)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
        }
        File::options().append(true).open("/etc/palisade/guard.trust")?.write_all(trusted.as_bytes())?;
        fs::create_dir_all("/etc/palisade/guard.d")?;
        // No other file here is on a file system that could protect it.
        let rules = "allow perm=any all : trust=1\ndeny_audit perm=execute all : dir=/verity/\nallow perm=any all : all\n";
        fs::write(RULES, rules)
    };
    make().map_err(|error| format!("prepare: {error}"))?;
    protect(PROTECTED)?;
    protect(OTHER)
}

fn run(path: &str) -> Outcome {
    execute(path, &[])
}

/// Runs `then` with this integrity setting and the present database.
fn guarded(integrity: &str, then: impl FnOnce() -> Result) -> Result {
    let daemon = Daemon::start(&format!("trust.integrity = \"{integrity}\""), in_force)?;
    let found = crate::daemon::status()?.integrity;
    let end = Instant::now() + PATIENCE;
    while run(PROTECTED) != Outcome::Done && Instant::now() < end {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let result = ensure(found == integrity, found).and_then(|()| then());
    daemon.end(Signal::TERM)?;
    result
}

pub(crate) fn all() {
    report("daemon-verity-trusts-what-is-protected", || {
        prepare()?;
        guarded("verity", || {
            expect("protected", &run(PROTECTED), &Outcome::Done)?;
            expect("not protected", &run(PLAIN), &Outcome::Refused)?;
            expect("protected and something else", &run(OTHER), &Outcome::Refused)?;
            let written = File::options().append(true).open(PROTECTED);
            ensure(written.is_err(), "what is protected can be written")?;
            protect(PLAIN)?;
            expect("protected by now", &run(PLAIN), &Outcome::Done)
        })
    });
    report("daemon-sha256-asks-for-no-protection", || {
        // The file has its name again, and isn't protected any more.
        let again = || -> io::Result<()> {
            let text = fs::read(PLAIN)?;
            fs::remove_file(PLAIN)?;
            fs::write(PLAIN, text)?;
            fs::set_permissions(PLAIN, fs::Permissions::from_mode(0o755))
        };
        again().map_err(|error| format!("replace: {error}"))?;
        guarded("sha256", || {
            expect("protected", &run(PROTECTED), &Outcome::Done)?;
            expect("not protected", &run(PLAIN), &Outcome::Done)?;
            expect("something else", &run(OTHER), &Outcome::Refused)
        })
    });
    let _ = fs::remove_file(RULES);
    let _ = rustix::mount::unmount(PLACE, UnmountFlags::DETACH);
}
