// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes the tree of a script on the host, and reads it at the end.

use rustix::fs::AtFlags;
use rustix::fs::{CWD, FileType, Mode, Timespec, Timestamps, utimensat};
use std::collections::HashMap;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The working directory, below the script's own directory: a path that climbs by `..` stays in the latter.
const BELOW: &str = "u/u/u/w";
/// When everything in a tree was last written, before the first call.
const WRITTEN: i64 = 1_000_000_000;
/// Seconds. What was written since is written now.
const NOW: i64 = 3600;
/// More is not read of a file.
const READ: usize = 1 << 16;

/// Where a script whose own directory is `top` is played.
pub(super) fn ground(top: &Path) -> PathBuf {
    top.join(BELOW)
}

/// Makes the tree that `entries` describe, for `owner`.
pub(super) fn make(top: &Path, entries: &[String], owner: (u32, u32)) -> std::io::Result<()> {
    let ground = ground(top);
    std::fs::create_dir_all(&ground)?;
    let mut made: Vec<(PathBuf, Option<u32>)> = Vec::new();
    for directory in ground.ancestors() {
        made.push((directory.to_owned(), Some(0o755)));
        if directory == top {
            break;
        }
    }
    for entry in entries {
        let mut words = entry.split(' ');
        let (Some(kind), Some(how), Some(path)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let path = ground.join(path);
        // Shortened, a tree may lack what this lies in.
        if path.parent().is_none_or(|parent| !parent.is_dir()) {
            continue;
        }
        let mode = u32::from_str_radix(how, 8).ok();
        match kind {
            "directory" => std::fs::create_dir(&path)?,
            "file" => std::fs::write(&path, format!("content of {entry}\n"))?,
            "fifo" => rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o644), 0)?,
            _ => symlink(how.replace('%', &ground.display().to_string()), &path)?,
        }
        made.insert(0, (path, mode));
    }
    for (path, mode) in made {
        if rustix::process::geteuid().as_raw() != owner.0 {
            lchown(&path, Some(owner.0), Some(owner.1))?;
        }
        let time = Timespec { tv_sec: WRITTEN, tv_nsec: 0 };
        utimensat(
            CWD,
            &path,
            &Timestamps { last_access: time, last_modification: time },
            AtFlags::SYMLINK_NOFOLLOW,
        )?;
        if let Some(mode) = mode {
            std::fs::set_permissions(&path, Permissions::from_mode(mode))?;
        }
    }
    Ok(())
}

/// What lies in a script's directory: a line for each entry. Afterwards all of it can be removed.
pub(super) fn look(top: &Path) -> Vec<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut look = Look { top, now: now.cast_signed(), first: HashMap::new(), lines: Vec::new() };
    look.enter(top);
    look.lines
}

struct Look<'l> {
    top: &'l Path,
    now: i64,
    /// Of each inode the first path.
    first: HashMap<(u64, u64), String>,
    lines: Vec<String>,
}

impl Look<'_> {
    fn enter(&mut self, path: &Path) {
        let Ok(stat) = path.symlink_metadata() else { return };
        let name = path.strip_prefix(self.top).unwrap_or(path).display().to_string();
        let when = |seconds: i64, nanoseconds: i64| {
            if seconds > self.now - NOW { "now".to_owned() } else { format!("{seconds}.{nanoseconds}") }
        };
        let kind = FileType::from_raw_mode(stat.mode());
        let is_directory = kind == FileType::Directory;
        let mut line = format!(
            "{name} {:o} of {}:{} links {} written {}",
            stat.mode(),
            stat.uid(),
            stat.gid(),
            stat.nlink(),
            when(stat.mtime(), stat.mtime_nsec()),
        );
        // A launch looks into directories, and the broker into links.
        if kind == FileType::RegularFile {
            line += &format!(" read {}", when(stat.atime(), stat.atime_nsec()));
        }
        // Otherwise an ordinary user could neither read it nor remove it.
        let own = if is_directory { 0o700 } else { 0o600 };
        if (is_directory || kind == FileType::RegularFile) && stat.mode() & own != own {
            let _not_ours = std::fs::set_permissions(path, Permissions::from_mode(own));
        }
        let others = self.first.entry((stat.dev(), stat.ino())).or_insert_with(|| name.clone()).clone();
        if others != name {
            line += &format!(" same as {others}");
        } else if kind == FileType::RegularFile {
            line += &format!(" {} bytes {:?}", stat.size(), beginning(path));
        } else if kind == FileType::Symlink {
            line += &format!(" to {:?}", std::fs::read_link(path));
        } else if kind == FileType::CharacterDevice {
            line += &format!(" device {}", stat.rdev());
        }
        if matches!(kind, FileType::Directory | FileType::RegularFile) {
            line += &attributes(path);
        }
        self.lines.push(line);
        if is_directory {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            entries.sort();
            for entry in entries {
                self.enter(&entry);
            }
        }
    }
}

fn beginning(path: &Path) -> String {
    use std::io::Read;
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(READ as u64).read_to_end(&mut bytes));
    if let Err(error) = read {
        return error.to_string();
    }
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The extended attributes that users may set.
fn attributes(path: &Path) -> String {
    let mut names = [0u8; 4096];
    let length = rustix::fs::listxattr(path, &mut names).unwrap_or(0);
    let mut all = String::new();
    let mut names: Vec<&[u8]> = names[..length].split(|byte| *byte == 0).collect();
    names.sort_unstable();
    for name in names.into_iter().filter(|name| name.starts_with(b"user.")) {
        let mut value = [0u8; 256];
        let length = rustix::fs::getxattr(path, name, &mut value).unwrap_or(0);
        all += &format!(" {}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(&value[..length]));
    }
    all
}
