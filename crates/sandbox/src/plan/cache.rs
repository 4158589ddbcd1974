// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans kept from one launch to the next: one file a plan.
//!
//! A file is believed only if it belongs to the caller, nobody else may write it or its
//! directory, its checksum is right, it was made by this version for exactly this request, and
//! what it was made from is unchanged. Anything else is a miss, never an error: the plan is made
//! again and the file replaced.
//!
//! It is read, not mapped: below 64 KiB a read is as fast as the page faults of a mapping (both
//! 3 µs for a plan of 6 KiB), and a file that is cut short meanwhile can't end the program.

use crate::plan::text::Text;
use crate::plan::{Input, PROGRAM, Plan, SCHEMA, Was};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Larger plans (many thousands of rules) are not kept.
const LARGEST: usize = 8 << 20;
/// What a file starts with: name, version of the form.
const MAGIC: &[u8; 8] = b"palisad1";
const HEADER: usize = MAGIC.len() + 8 + 8;
/// As long a plan is kept: it was made again long ago, or nobody wants it.
const OLDEST: std::time::Duration = std::time::Duration::from_secs(60 * 24 * 3600);
/// Plans kept; beyond, the oldest go.
const MOST: usize = 512;

/// What a request's plan depends on besides files: compared byte by byte.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Key(Vec<u8>);

impl Key {
    /// Adds a part. Its length goes along, so that parts can't run into each other.
    pub fn add(&mut self, part: &[u8]) {
        self.0.extend_from_slice(&part.len().to_le_bytes());
        self.0.extend_from_slice(part);
    }

    /// The key of a plan that is for one program only.
    #[must_use]
    pub fn of_program(&self, program: &OsStr) -> Self {
        let mut key = self.clone();
        key.add(program.as_bytes());
        key
    }

    /// The parts as they are compared.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// A key of such bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    fn file_name(&self) -> String {
        format!("{:032x}.plan", xxh3_128(&self.0))
    }
}

/// The directory that holds plans.
#[derive(Debug)]
pub struct Cache {
    directory: PathBuf,
    uid: u32,
}

impl Cache {
    /// The cache in `directory` (`…/palisade/plans`) of user `uid`; touches nothing yet.
    #[must_use]
    pub fn new(directory: PathBuf, uid: u32) -> Self {
        Self { directory, uid }
    }

    /// The bytes of the plan for `key`, if one is kept and can be believed. The caller still has
    /// to check what it was made from, see [`unchanged`].
    #[must_use]
    pub fn load(&self, key: &Key) -> Option<Stored> {
        let directory = self.open_directory()?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = rustix::fs::openat(&directory, key.file_name(), flags, Mode::empty()).ok()?;
        let stat = rustix::fs::fstat(&file).ok()?;
        let size = usize::try_from(stat.st_size).ok()?;
        if !self.is_ours(&stat, FileType::RegularFile) || size > LARGEST {
            return None;
        }
        let mut bytes = vec![0; size];
        let mut read = 0;
        while read < size {
            match rustix::io::read(&file, &mut bytes[read..]).ok()? {
                0 => return None,
                more => read += more,
            }
        }
        Stored::checked(bytes, key)
    }

    /// A plan's bytes, if it may be kept: it can be told when what it was made from changes.
    #[must_use]
    pub fn keepable(plan: &Plan<'_>) -> Option<Vec<u8>> {
        if plan.network.as_ref().is_some_and(crate::plan::Network::has_secret) {
            return None;
        }
        let now = SystemTime::now();
        let settled = plan.inputs.iter().all(|input| match input.was {
            Was::Content(fingerprint) | Was::Names(fingerprint) | Was::Listing(fingerprint) => {
                fingerprint.is_settled(now)
            }
            Was::Leads { .. } => true,
        });
        let body = plan.to_bytes().ok()?;
        (settled && body.len() <= LARGEST).then_some(body)
    }

    /// Keeps a plan in a directory that is the caller's, and returns whether it is kept. A failure is no reason not to run.
    pub fn store(&self, key: &Key, plan: &Plan<'_>) -> bool {
        if self.uid != rustix::process::geteuid().as_raw() {
            return false;
        }
        let Some(body) = Self::keepable(plan) else { return false };
        let bytes = Stored::bytes(key, &body);
        // The first plan's own directory may be a name too many in one that counts: it would be checked the long way
        // at each launch. The next one is kept.
        if self.make_directories() && !plan.inputs.iter().all(names_are_the_same) {
            return false;
        }
        self.write(&key.file_name(), &bytes, Mode::from_raw_mode(0o600)).is_ok()
    }

    /// Keeps a plan in somebody else's name, for them to read.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn put(&self, key: &Key, body: &[u8]) -> rustix::io::Result<()> {
        match rustix::fs::mkdir(&self.directory, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        rustix::fs::chmod(&self.directory, Mode::from_raw_mode(0o755))?;
        self.write(&key.file_name(), &Stored::bytes(key, body), Mode::from_raw_mode(0o644))
    }

    /// Makes the directories that plans are kept in. Whether one wasn't there.
    fn make_directories(&self) -> bool {
        let parent = self.directory.parent();
        let directories = [parent.and_then(Path::parent), parent, Some(self.directory.as_path())];
        let mode = Mode::from_raw_mode(0o700);
        let made =
            directories.into_iter().flatten().map(|directory| rustix::fs::mkdir(directory, mode).is_ok());
        made.fold(false, |any, made| any | made)
    }

    fn write(&self, name: &str, bytes: &[u8], mode: Mode) -> rustix::io::Result<()> {
        let directory = self.open_directory().ok_or(rustix::io::Errno::ACCESS)?;
        let written = write_unnamed(&directory, name, bytes, mode)
            .or_else(|_| write_and_rename(&directory, name, bytes, mode));
        written?;
        self.trim();
        Ok(())
    }

    /// Forgets all plans.
    pub fn clear(&self) {
        if self.open_directory().is_none() {
            return;
        }
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().filter_map(Result::ok);
        for path in entries.map(|entry| entry.path()) {
            if path.extension() == Some(OsStr::new("plan")) {
                let _gone_already = std::fs::remove_file(path);
            }
        }
    }

    /// Forgets plans that are old, and the oldest when there are too many.
    fn trim(&self) {
        let Ok(entries) = std::fs::read_dir(&self.directory) else { return };
        let mut plans: Vec<(SystemTime, PathBuf)> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        let now = SystemTime::now();
        plans.retain(|(made, path)| {
            let old = now.duration_since(*made).is_ok_and(|age| age > OLDEST);
            !(old && std::fs::remove_file(path).is_ok())
        });
        if plans.len() <= MOST {
            return;
        }
        plans.sort();
        for (_age, path) in plans.iter().take(plans.len() - MOST / 2) {
            let _gone_already = std::fs::remove_file(path);
        }
    }

    fn open_directory(&self) -> Option<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let directory = rustix::fs::open(&self.directory, flags, Mode::empty()).ok()?;
        let stat = rustix::fs::fstat(&directory).ok()?;
        self.is_ours(&stat, FileType::Directory).then_some(directory)
    }

    fn is_ours(&self, stat: &rustix::fs::Stat, kind: FileType) -> bool {
        stat.st_uid == self.uid && stat.st_mode & 0o022 == 0 && FileType::from_raw_mode(stat.st_mode) == kind
    }
}

/// A cache file's content, checked.
#[derive(Debug)]
pub struct Stored {
    bytes: Vec<u8>,
    body: usize,
}

impl Stored {
    fn bytes(key: &Key, body: &[u8]) -> Vec<u8> {
        let mut payload = key.0.clone();
        payload.extend_from_slice(body);
        let mut bytes = Vec::with_capacity(HEADER + payload.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&xxh3_64(&payload).to_le_bytes());
        bytes.extend_from_slice(&(key.0.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&payload);
        bytes
    }

    fn checked(bytes: Vec<u8>, key: &Key) -> Option<Self> {
        let (header, payload) = bytes.split_at_checked(HEADER)?;
        let (magic, numbers) = header.split_at_checked(MAGIC.len())?;
        let (numbers, _none) = numbers.as_chunks::<8>();
        let [checksum, length] = numbers else { return None };
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let body = HEADER.checked_add(length)?;
        let matches = magic == MAGIC
            && payload.get(..length) == Some(&key.0)
            && xxh3_64(payload) == u64::from_le_bytes(*checksum);
        matches.then_some(Self { bytes, body })
    }

    /// The plan, if it is of this version and its inputs are unchanged.
    #[must_use]
    pub fn plan(&self) -> Option<Plan<'_>> {
        let plan = Plan::from_bytes(self.bytes.get(self.body..)?).ok()?;
        let current = plan.schema == SCHEMA && plan.palisade == PROGRAM;
        (current && unchanged(&plan)).then_some(plan)
    }
}

/// Whether no name came or went, if that is what counts.
fn names_are_the_same(input: &Input<'_>) -> bool {
    match input.was {
        Was::Names(fingerprint) => fingerprint.matches(input.path.as_path()),
        Was::Content(_) | Was::Leads { .. } | Was::Listing(_) => true,
    }
}

/// Whether the caller's variables that a plan was made from have the values they had.
fn variables_are_the_same(plan: &Plan<'_>) -> bool {
    let value = |name: &[u8]| {
        palisade_sys::process::environment().find_map(|variable| {
            let (before, value) = variable.to_bytes().split_at_checked(name.len())?;
            value.strip_prefix(b"=").filter(|_| before == name)
        })
    };
    plan.variables.iter().all(|(name, was)| value(name.as_bytes()) == was.as_ref().map(Text::as_bytes))
}

/// Whether everything a plan was made from still is as it was.
#[must_use]
pub fn unchanged(plan: &Plan<'_>) -> bool {
    if !plan.variables.is_empty() && !variables_are_the_same(plan) {
        return false;
    }
    let mut changed: Vec<&Text<'_>> = Vec::new();
    for input in &plan.inputs {
        let holds = match input.was {
            Was::Content(fingerprint) | Was::Listing(fingerprint) => {
                fingerprint.matches(input.path.as_path())
            }
            Was::Leads { device, inode } => rustix::fs::stat(input.path.as_c_str())
                .is_ok_and(|stat| stat.st_dev == device && stat.st_ino == inode),
            Was::Names(_) => {
                if !names_are_the_same(input) {
                    changed.push(&input.path);
                }
                true
            }
        };
        if !holds {
            return false;
        }
    }
    let absent = |path: &Text<'_>| {
        matches!(
            rustix::fs::lstat(path.as_c_str()),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR)
        )
    };
    // Only what lies below a changed directory may have come about: `/tmp` changes all the time.
    changed.is_empty()
        || plan
            .absent
            .iter()
            .filter(|path| changed.iter().any(|above| path.as_path().starts_with(above.as_path())))
            .all(absent)
}

/// Writes a file that has no name before it is complete: whoever is killed meanwhile leaves nothing behind. Fails where
/// the file system knows no such files, and where the name is taken.
fn write_unnamed(directory: &OwnedFd, name: &str, bytes: &[u8], mode: Mode) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, c".", flags, mode)?;
    rustix::fs::fchmod(&file, mode)?;
    write_all(file.as_fd(), bytes)?;
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(rustix::fs::CWD, link, directory, name, AtFlags::SYMLINK_FOLLOW)
}

/// Writes another file and puts it in the place of what has the name.
fn write_and_rename(directory: &OwnedFd, name: &str, bytes: &[u8], mode: Mode) -> rustix::io::Result<()> {
    let temporary = format!(".{name}.{}", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::openat(directory, &temporary, flags, mode)?;
    let written = rustix::fs::fchmod(&file, mode)
        .and_then(|()| write_all(file.as_fd(), bytes))
        .and_then(|()| rustix::fs::renameat(directory, &temporary, directory, name));
    if written.is_err() {
        let _gone = rustix::fs::unlinkat(directory, &temporary, AtFlags::empty());
    }
    written
}

fn write_all(file: rustix::fd::BorrowedFd<'_>, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        let written = rustix::io::write(file, bytes)?;
        bytes = &bytes[written..];
    }
    Ok(())
}
