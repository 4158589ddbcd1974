// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The plan cache: keeps plans from one launch to the next, one file for each plan.
//!
//! A file is used only if all of this is true: it belongs to the caller, no other user may write to it or its
//! directory, its checksum is correct, this version made it for exactly this request, and its inputs are unchanged. Any
//! other file is a miss and never an error: the plan is made again and the file replaced.
//!
//! The file is read and not mapped: below 64 KiB a read is as fast as the page faults of a mapping (both 3 µs for a
//! plan of 6 KiB), and a file that is truncated meanwhile can't end the program.

use crate::plan::text::Text;
use crate::plan::{Input, PROGRAM, Plan, SCHEMA, Was};
use palisade_host::birth::Birth;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Larger plans (many thousands of rules) are not kept.
const LARGEST: usize = 8 << 20;
/// The start of a file: name, version of the format.
const MAGIC: &[u8; 8] = b"palisad1";
const HEADER: usize = MAGIC.len() + 8 + 8;
/// How long a plan is kept. An older one was replaced long ago, or is no longer used.
const OLDEST: std::time::Duration = std::time::Duration::from_secs(60 * 24 * 3600);
/// The most plans that are kept. Beyond this the oldest are removed.
const MOST: usize = 512;

/// What a request's plan depends on in addition to files. Compared byte by byte.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Key(Vec<u8>);

impl Key {
    /// Adds a part with its length, so that the end of one part can't be read as the start of the next.
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

    /// A key from its bytes.
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
    /// The cache in `directory` (`…/palisade/plans`) of user `uid`. Reads and writes nothing yet.
    #[must_use]
    pub fn new(directory: PathBuf, uid: u32) -> Self {
        Self { directory, uid }
    }

    /// The bytes of the plan for `key`, if one is kept and its file is trusted. The caller still must check the plan's
    /// inputs, see [`unchanged`].
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

    /// A plan's bytes, if it may be kept: all later changes of its inputs must be detectable.
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
            Was::Leads { .. } | Was::Born(_) => true,
        });
        let body = plan.to_bytes().ok()?;
        (settled && body.len() <= LARGEST).then_some(body)
    }

    /// Keeps a plan in the caller's own directory, and returns whether it is kept. After a failure the command still runs.
    pub fn store(&self, key: &Key, plan: &Plan<'_>) -> bool {
        if self.uid != rustix::process::geteuid().as_raw() {
            return false;
        }
        let Some(body) = Self::keepable(plan) else { return false };
        let bytes = Stored::bytes(key, &body);
        // Creating our directory may change a listing that this plan fingerprints, so each launch would check the plan
        // the long way. Skip caching once; the next plan is kept.
        if self.make_directories() && !plan.inputs.iter().all(names_are_the_same) {
            return false;
        }
        self.write(&key.file_name(), &bytes, Mode::from_raw_mode(0o600)).is_ok()
    }

    /// Keeps a plan on behalf of another user, who may read it.
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

    /// Makes the directories in which plans are kept. Returns whether one was missing.
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

    /// Removes all plans.
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

    /// Removes old plans, and the oldest ones when there are too many.
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

/// Whether no name was added or removed, if the input is about that.
fn names_are_the_same(input: &Input<'_>) -> bool {
    match input.was {
        Was::Names(fingerprint) => fingerprint.matches(input.path.as_path()),
        Was::Content(_) | Was::Leads { .. } | Was::Born(_) | Was::Listing(_) => true,
    }
}

/// Whether the caller's variables that a plan was made from have the same values.
fn variables_are_the_same(plan: &Plan<'_>) -> bool {
    let value = |name: &[u8]| {
        palisade_sys::process::environment().find_map(|variable| {
            let (before, value) = variable.to_bytes().split_at_checked(name.len())?;
            value.strip_prefix(b"=").filter(|_| before == name)
        })
    };
    plan.variables.iter().all(|(name, was)| value(name.as_bytes()) == was.as_ref().map(Text::as_bytes))
}

/// Whether all inputs of a plan are unchanged.
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
            Was::Born(birth) => Birth::of(input.path.as_path()).is_ok_and(|now| now == birth),
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
    // Only paths below a changed directory can have appeared. They are checked one by one, because `/tmp` changes all the time.
    changed.is_empty()
        || plan
            .absent
            .iter()
            .filter(|path| changed.iter().any(|above| path.as_path().starts_with(above.as_path())))
            .all(absent)
}

/// Writes a file that gets its name after it is complete: a process that is killed meanwhile leaves no file behind.
/// Fails if the file system doesn't support such files, or if the name exists.
fn write_unnamed(directory: &OwnedFd, name: &str, bytes: &[u8], mode: Mode) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, c".", flags, mode)?;
    rustix::fs::fchmod(&file, mode)?;
    write_all(file.as_fd(), bytes)?;
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(rustix::fs::CWD, link, directory, name, AtFlags::SYMLINK_FOLLOW)
}

/// Writes another file and renames it over the existing name.
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
