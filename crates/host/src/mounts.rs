// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the mounts in `/proc/PID/mountinfo`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Its number, as `statx` returns it for a path on the mount.
    pub id: u64,
    /// Its mount point.
    pub point: PathBuf,
    /// The part of its file system that is mounted.
    pub root: PathBuf,
    /// The file system's device, major and minor.
    pub device: (u32, u32),
    /// The file system's type: `ext4`, `tmpfs`.
    pub kind: String,
    /// What it was mounted from.
    pub source: PathBuf,
    /// Whether it is mounted with `noexec`.
    pub noexec: bool,
}

/// The mounts of a `mountinfo`, in its order. Incomplete lines are left out.
#[must_use]
pub fn parse(mountinfo: &[u8]) -> Vec<Mount> {
    mountinfo.split(|&byte| byte == b'\n').filter_map(line).collect()
}

/// `ID PARENT DEV ROOT POINT OPTIONS [TAG…] - TYPE SOURCE SUPER`, see proc(5).
fn line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let (major, minor) = std::str::from_utf8(fields.nth(1)?).ok()?.split_once(':')?;
    let root = unescape(fields.next()?);
    let point = unescape(fields.next()?);
    let noexec = fields.next()?.split(|&byte| byte == b',').any(|option| option == b"noexec");
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    Some(Mount {
        id,
        point,
        root,
        device: (major.parse().ok()?, minor.parse().ok()?),
        kind: String::from_utf8_lossy(fields.next()?).into_owned(),
        source: unescape(fields.next()?),
        noexec,
    })
}

/// `mountinfo` writes space, tab, line break and backslash as three octal digits.
pub(crate) fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if let (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) = (first, tail) {
            out.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
            rest = tail;
        } else {
            out.push(first);
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_and_broken_lines() {
        let mounts = parse(
            b"36 35 98:0 /mnt1 /a\\040b rw,noexec,noatime master:1 - ext3 /dev/root rw,errors=continue\n\
              37 35 0:22 / /x rw - tmpfs none rw\nbroken\n",
        );
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].point, PathBuf::from("/a b"));
        assert_eq!((mounts[0].device, mounts[0].noexec), ((98, 0), true));
        assert_eq!((mounts[1].kind.as_str(), mounts[1].noexec), ("tmpfs", false));
    }
}
