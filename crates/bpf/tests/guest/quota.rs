// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the errors that the kernel and the broker report to a user who has used up a disk quota.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{CWD, Mode, OFlags};

use crate::archive::PALISADE;
use crate::disk::QUOTA;
use crate::scenario::{Result, ensure, report};

const HOME: &str = "/home/user";
const PLACE: &str = "/home/user/quota";
const USER: u32 = 1000;
/// Files and directories, and blocks of a kilobyte.
const FILES: u64 = 6;
const BLOCKS: u64 = 40;

pub(crate) fn all() {
    report("quotas-end-calls-alike", || {
        for driver in ["quota_tree", "quota_v2"] {
            crate::overlay::load_driver(driver, c"")?;
        }
        QUOTA.mount(PLACE)?;
        fs::set_permissions(PLACE, fs::Permissions::from_mode(0o1777)).map_err(|error| error.to_string())?;
        limit().map_err(|error| format!("set a quota: {error}"))?;
        fs::write("/etc/passwd", format!("root:x:0:0::/:/bin/sh\nuser:x:{USER}:{USER}::{HOME}:/bin/sh\n"))
            .map_err(|error| error.to_string())?;
        let outside = used_up(Command::new("/init").args(["act"]))?;
        let inside = used_up(
            Command::new(PALISADE)
                .args(["run", "--quiet", "--view", "host", "--rw", PLACE, "--", "/init", "act"]),
        )?;
        let refused = outside.matches("EDQUOT").count();
        ensure(refused >= 9, format!("{refused} are refused: {outside}"))?;
        ensure(inside == outside, format!("inside: {inside}; outside: {outside}"))
    });
}

/// The output of the act, run as the user in an own directory.
fn used_up(command: &mut Command) -> Result<String> {
    let (one, other) = (format!("{PLACE}/one"), format!("{PLACE}/other"));
    let make = || -> io::Result<()> {
        let _none_yet = fs::remove_dir_all(&one);
        fs::create_dir(&one)?;
        std::os::unix::fs::chown(&one, Some(USER), Some(USER))?;
        // Root's file, writable for every user.
        fs::write(&other, "other")?;
        fs::set_permissions(&other, fs::Permissions::from_mode(0o666))
    };
    make().map_err(|error| format!("prepare: {error}"))?;
    let command = command.arg("use-up").current_dir(&one).env("HOME", HOME).uid(USER).gid(USER);
    let output = command.output().map_err(|error| format!("start: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let why = String::from_utf8_lossy(&output.stderr);
    ensure(output.status.success(), format!("{}: {said} {}", output.status, why.trim()))?;
    Ok(said)
}

/// `struct if_dqblk` of `linux/quota.h`.
#[repr(C)]
#[derive(Default)]
struct Quota {
    blocks: [u64; 2],
    used: u64,
    files: [u64; 2],
    used_files: u64,
    times: [u64; 2],
    valid: u32,
}

fn limit() -> io::Result<()> {
    // `QCMD(Q_SETQUOTA, USRQUOTA)`; limits of blocks and of files are valid.
    let quota = Quota { blocks: [BLOCKS, 0], files: [FILES, 0], valid: 1 | 4, ..Quota::default() };
    // SAFETY: needed because rustix lacks the call. Sound: the kernel reads the structure, which has the layout that it
    // expects, and the path.
    let done = unsafe {
        libc::quotactl(
            0x80_0008 << 8,
            c"/dev/ram0".as_ptr(),
            USER.cast_signed(),
            (&raw const quota).cast_mut().cast(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// As a child: makes all kinds of calls that need a file or a block, with and without any left.
pub(crate) fn use_up() -> io::Result<()> {
    let tell = |what: &str, came: io::Result<()>| {
        let name = match came.map_err(|error| error.raw_os_error()) {
            Ok(()) => "done".to_owned(),
            Err(Some(libc::EDQUOT)) => "EDQUOT".to_owned(),
            Err(number) => format!("{number:?}"),
        };
        println!("{what} {name}");
    };
    let new = |name: &str| File::options().write(true).create_new(true).open(name).map(drop);
    // The directory counts, too.
    (1..FILES + 1).for_each(|number| tell("file", new(&number.to_string())));
    tell("exclusively", new("late"));
    tell("create", File::options().write(true).create(true).truncate(true).open("late").map(drop));
    tell(
        "without a name",
        rustix::fs::open(".", OFlags::TMPFILE | OFlags::WRONLY, Mode::RUSR).map(drop).map_err(Into::into),
    );
    tell("mkdir", fs::create_dir("late"));
    tell("symlink", std::os::unix::fs::symlink("1", "late"));
    let fifo = rustix::fs::mknodat(CWD, "late", rustix::fs::FileType::Fifo, Mode::RUSR, 0);
    tell("mkfifo", fifo.map_err(Into::into));
    tell("socket", std::os::unix::net::UnixListener::bind("late").map(drop));
    tell("left by these", fs::symlink_metadata("late").map(drop));
    tell("link", fs::hard_link("1", "linked"));
    tell("rename", fs::rename("linked", "moved"));
    tell("empty", File::create("1").map(drop));
    tell("remove", fs::remove_file("2"));
    tell("again", new("2"));

    let file = File::options().write(true).open("1")?;
    tell("write", (&file).write_all(&vec![1; 8 << 10]));
    tell("write too much", (&file).write_all(&vec![1; 256 << 10]));
    tell("beyond the end", file.write_all_at(b"x", 1 << 20));
    tell("longer", truncate(c"3", 1 << 20));
    tell("emptied", truncate(c"3", 0));
    tell(
        "attribute",
        rustix::fs::setxattr("4", "user.long", &[b'x'; 3000], rustix::fs::XattrFlags::empty())
            .map_err(Into::into),
    );
    tell("remove", fs::remove_file("2"));
    tell("directory without a block", fs::create_dir("late"));
    let far = "x".repeat(200);
    tell("link without a block", std::os::unix::fs::symlink(&far, "late"));
    tell("file without a block", new("late"));
    // Writing another user's file uses that user's quota.
    tell("other", fs::write("../other", "written"));
    tell("give back", File::create("1").map(drop));
    tell("directory", fs::create_dir("later"));
    println!("size {}", fs::metadata("1")?.len());
    Ok(())
}

fn truncate(path: &CStr, size: i64) -> io::Result<()> {
    // SAFETY: needed because truncating by a descriptor would be another call, which no broker answers. Sound: the path
    // ends with a zero.
    if unsafe { libc::truncate(path.as_ptr(), size) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
