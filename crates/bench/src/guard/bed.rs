// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bed: a file system for one contender, with the same files as all others.
//!
//! Each contender has its own bed, all of one kind. A daemon marks a file system for as long as it runs. So the contender
//! without a daemon needs another file system, and two daemons on one file system would both be asked.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::{GuardError, elf};
use crate::programs;
use crate::workload::first_line;

/// The kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tmpfs,
    /// An ext4 image in a file, on a loop device.
    Ext4,
}

/// The owner of a user's texts. On most hosts no user has this number.
pub(crate) const USER: u32 = 47_110;

/// The number of files of each sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Programs that print the time at their start.
    pub(crate) clocks: usize,
    /// Copies of `true`, which use the host's libraries.
    pub(crate) dynamic: usize,
    /// Root's texts. There are as many of an ordinary user.
    pub(crate) texts: usize,
    /// There is room for a home in which programs are built.
    pub(crate) home: bool,
}

/// A bed. It is mounted as long as this value exists.
#[derive(Debug)]
pub(crate) struct Bed {
    pub(crate) path: PathBuf,
    pub(crate) counts: Counts,
}

/// A sort of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sort {
    Clocks,
    Dynamic,
    /// Root's.
    Texts,
    /// An ordinary user's texts: nobody but the daemon can say what becomes of them, for they may change at any time.
    Users,
}

impl Sort {
    /// The path of the file with this number.
    pub(crate) fn file(self, bed: &Path, number: usize) -> PathBuf {
        let letter = match self {
            Self::Clocks => 'c',
            Self::Dynamic => 'd',
            Self::Texts => 't',
            Self::Users => 'u',
        };
        bed.join(format!("{letter}{number}"))
    }
}

/// A program and a text that every policy denies.
pub(crate) fn refused(bed: &Path) -> [PathBuf; 2] {
    ["refused", "refused.txt"].map(|name| bed.join(name))
}

impl Bed {
    pub(crate) fn create(parent: &Path, name: &str, kind: Kind, counts: Counts) -> Result<Self, GuardError> {
        let path = parent.join(name);
        fs::create_dir_all(&path).map_err(GuardError::prepare("create", &path))?;
        match kind {
            Kind::Tmpfs => mount("palisade-bench", &path, "tmpfs", MountFlags::empty(), c"mode=755")
                .map_err(|errno| GuardError::prepare("mount a tmpfs on", &path)(errno.into()))?,
            Kind::Ext4 => ext4(&path, counts)?,
        }
        // From here on the bed is unmounted on drop, also after an error.
        let bed = Self { path, counts };
        bed.fill().map_err(GuardError::prepare("fill", &bed.path))?;
        Ok(bed)
    }

    fn fill(&self) -> io::Result<()> {
        let clock = elf::program();
        let executable = |path: &Path, content: &[u8]| {
            fs::write(path, content)?;
            fs::set_permissions(path, Permissions::from_mode(0o755))
        };
        for number in 0..self.counts.clocks {
            executable(&Sort::Clocks.file(&self.path, number), &clock)?;
        }
        if self.counts.dynamic > 0 {
            let yes = programs::of_the_system("true").ok_or(io::ErrorKind::NotFound)?;
            let content = fs::read(yes)?;
            for number in 0..self.counts.dynamic {
                executable(&Sort::Dynamic.file(&self.path, number), &content)?;
            }
        }
        for number in 0..self.counts.texts {
            let text = format!("text {number}\n");
            fs::write(Sort::Texts.file(&self.path, number), &text)?;
            let users = Sort::Users.file(&self.path, number);
            fs::write(&users, text)?;
            std::os::unix::fs::chown(users, Some(USER), Some(USER))?;
        }
        let [program, text] = refused(&self.path);
        executable(&program, &clock)?;
        fs::write(text, "nobody may read this\n")
    }

    /// All programs of the bed that may be executed.
    pub(crate) fn programs(&self) -> impl Iterator<Item = PathBuf> {
        let of = |sort: Sort, count: usize| (0..count).map(move |number| sort.file(&self.path, number));
        of(Sort::Clocks, self.counts.clocks).chain(of(Sort::Dynamic, self.counts.dynamic))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // Processes that still use the mount release it when they end. This process's mount namespace ends with it in any
        // case.
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}

fn ext4(path: &Path, counts: Counts) -> Result<(), GuardError> {
    let image = path.with_extension("ext4");
    let files = (counts.clocks + counts.dynamic + 2 * counts.texts + 100) as u64;
    let (room, more) = if counts.home { (4 << 30, 100_000) } else { (64 << 20, 100) };
    let size = files * 8192 + counts.dynamic as u64 * (64 << 10) + room;
    fs::File::create(&image)
        .and_then(|file| file.set_len(size))
        .map_err(GuardError::prepare("create", &image))?;
    let inodes = (files + more).to_string();
    tool(Command::new("mkfs.ext4").args(["-q", "-F", "-b", "4096", "-N", &inodes]).arg(&image))?;
    tool(Command::new("mount").args(["-t", "ext4", "-o", "loop,noatime"]).arg(&image).arg(path))
}

/// Runs a program of the host to its end.
pub(crate) fn tool(command: &mut Command) -> Result<(), GuardError> {
    let words = || {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    };
    let words = words();
    match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(GuardError::Tool { command: words, said: first_line(&output.stderr) }),
        Err(error) => Err(GuardError::Tool { command: words, said: error.to_string() }),
    }
}
