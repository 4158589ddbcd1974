// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a sandbox couldn't be made, in bubblewrap's words.

use crate::message::Failure;
use palisade_sys::staged::{Failed, Frame, Part};
use rustix::io::Errno;
use std::ffi::CStr;

pub(crate) type Result<T> = core::result::Result<T, Failure>;

/// `TEXT: what the kernel said`.
pub(crate) fn because(text: impl Into<Vec<u8>>, errno: Errno) -> Failure {
    Failure::because(text, &errno.into())
}

/// The same for mounts, where "No space left on device" would mislead.
pub(crate) fn mounting(text: impl Into<Vec<u8>>, errno: Errno) -> Failure {
    refusal(Failure::mount(text, &errno.into()), errno)
}

/// `TEXT: what the kernel said`, for a call that needs a capability in the sandbox's user namespace.
pub(crate) fn needing_capability(text: impl Into<Vec<u8>>, errno: Errno) -> Failure {
    refusal(because(text, errno), errno)
}

fn refusal(failure: Failure, errno: Errno) -> Failure {
    if matches!(errno, Errno::PERM | Errno::ACCESS) { failure.refused() } else { failure }
}

/// Joins parts of a message.
pub(crate) fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// The step that was running, for its errors. Paths are the caller's.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Words<'a> {
    /// Making the directories above this.
    Parents(&'a CStr),
    /// Making this directory.
    Directory(&'a CStr),
    /// A bind mount; the source is canonical.
    Bind {
        source: &'a CStr,
        dest: &'a CStr,
    },
    /// A new file system of this type; the path is in the new tree.
    Filesystem {
        kind: &'static str,
        path: &'a CStr,
    },
    /// A part of `--proc` or `--dev`: making it failed with this text.
    Part {
        text: &'a [u8],
        path: &'a CStr,
    },
    Overlay {
        options: &'a CStr,
        dest: &'a CStr,
    },
    File(&'a CStr),
    Data {
        name: &'a CStr,
        dest: &'a CStr,
        mode: u32,
    },
    Symlink(&'a CStr),
    ReadOnly(&'a CStr),
    Permissions {
        dest: &'a CStr,
        mode: u32,
    },
    Hostname(&'a CStr),
}

/// A path as bubblewrap sees it while it builds the tree.
pub(crate) fn inside(path: &CStr) -> Vec<u8> {
    let path = palisade_sys::staged::relative(path).to_bytes();
    // The new root itself.
    let path = if path == b"." { b"" } else { path };
    joined(&[b"/newroot/", path])
}

/// `%#o`: zero has no prefix.
fn octal(mode: u32) -> String {
    if mode == 0 { "0".to_owned() } else { format!("0{mode:o}") }
}

const NO_MOUNT: &[u8] = b": Unable to mount source on destination";

impl Words<'_> {
    /// The error of a step that failed.
    pub(crate) fn failure(&self, failed: Failed) -> Failure {
        let Failed { part, errno } = failed;
        match *self {
            Self::Parents(dest) => because(joined(&[b"Can't mkdir parents for ", dest.to_bytes()]), errno),
            Self::Directory(dest) => made(part, dest, errno),
            Self::Bind { source, dest } => match part {
                Part::Make | Part::MakeFile => made(part, dest, errno),
                Part::Changed if errno == Errno::NOENT => Failure::new("Race condition binding dirfd"),
                _ => {
                    let what = [b"Can't bind mount /oldroot".as_slice(), source.to_bytes(), b" on "].concat();
                    mounting(joined(&[&what, &inside(dest), NO_MOUNT]), errno)
                }
            },
            Self::Filesystem { kind, path } => {
                mounting(joined(&[b"Can't mount ", kind.as_bytes(), b" on ", &inside(path)]), errno)
            }
            Self::Part { text, path } => match part {
                // A part is mounted on itself.
                Part::Mount => {
                    let path = inside(path);
                    mounting(joined(&[b"Can't bind mount ", &path, b" on ", &path, NO_MOUNT]), errno)
                }
                _ => because(joined(&[text, path.to_bytes()]), errno),
            },
            Self::Overlay { options, dest } => {
                let what =
                    [b"Can't make overlay mount on ".as_slice(), &inside(dest), b" with options "].concat();
                let what = joined(&[&what, options.to_bytes()]);
                if errno == Errno::LOOP {
                    Failure::new(joined(&[&what, b": Overlay directories may not overlap"]))
                } else {
                    mounting(what, errno)
                }
            }
            Self::File(dest) => match part {
                Part::Copy => because(joined(&[b"Can't write data to file ", dest.to_bytes()]), errno),
                _ => because(joined(&[b"Can't create file ", dest.to_bytes()]), errno),
            },
            Self::Data { name, dest, mode } => match part {
                Part::Hold => because(joined(&[b"Can't create tmpfile for ", dest.to_bytes()]), errno),
                Part::HoldMode => {
                    let text = format!("Can't set mode {} on file to be used for ", octal(mode));
                    because(joined(&[text.as_bytes(), dest.to_bytes()]), errno)
                }
                Part::Copy => because(joined(&[b"Can't write data to file ", dest.to_bytes()]), errno),
                Part::Make | Part::MakeFile => made(part, dest, errno),
                _ => {
                    let what = [b"Can't bind mount /".as_slice(), name.to_bytes(), b" on "].concat();
                    mounting(joined(&[&what, &inside(dest), NO_MOUNT]), errno)
                }
            },
            Self::Symlink(dest) => {
                let at = joined(&[b"Can't make symlink at ", dest.to_bytes()]);
                match part {
                    Part::NoLink if errno == Errno::INVAL => {
                        Failure::new(joined(&[&at, b": destination exists and is not a symlink"]))
                    }
                    Part::NoLink => because(
                        joined(&[&at, b": destination exists, and cannot read symlink target"]),
                        errno,
                    ),
                    Part::OtherLink => Failure::new(joined(&[&at, b": existing destination is another"])),
                    _ => because(at, errno),
                }
            }
            Self::ReadOnly(dest) => {
                let what = joined(&[b"Can't remount readonly on ", &inside(dest)]);
                match part {
                    Part::NoMount => Failure::new(joined(&[
                        &what,
                        b": Unable to find \"",
                        &inside(dest),
                        b"\" in mount table",
                    ])),
                    Part::Make => because(joined(&[&what, b": realpath(destination)"]), errno),
                    _ => {
                        let remount = joined(&[b": Unable to remount destination \"", &inside(dest)]);
                        mounting(joined(&[&what, &remount, b"\" with correct flags"]), errno)
                    }
                }
            }
            Self::Permissions { dest, mode } => {
                let text = format!("Can't chmod {} ", octal(mode));
                because(joined(&[text.as_bytes(), dest.to_bytes()]), errno)
            }
            Self::Hostname(name) => because(joined(&[b"Can't set hostname to ", name.to_bytes()]), errno),
        }
    }
}

/// The error of a target that couldn't be made.
fn made(part: Part, dest: &CStr, errno: Errno) -> Failure {
    let text: &[u8] = if part == Part::MakeFile { b"Can't create file at " } else { b"Can't mkdir " };
    because(joined(&[text, dest.to_bytes()]), errno)
}

/// The error of the beginning of a tree.
pub(crate) fn frame((frame, errno): (Frame, Errno)) -> Failure {
    match frame {
        Frame::Apart => mounting("Failed to make / slave", errno),
        Frame::Stage => mounting("Failed to mount tmpfs", errno),
        Frame::NewRoot => mounting("setting up newroot bind", errno),
        Frame::OldRoot => because("Creating oldroot failed", errno),
        Frame::Changes => because("Creating --tmp-overlay upperdir failed", errno),
        Frame::Enter => because("pivot_root(/newroot)", errno),
    }
}
