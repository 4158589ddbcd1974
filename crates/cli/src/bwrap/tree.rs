// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file tree that bubblewrap's arguments state, in the planner's terms.

use super::policed::PolicyError;
use palisade_bwrap::request::{Access, Origin, Setup};
use palisade_sandbox::arrangement::{Arrangement, Part};
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// The permissions that the owner of a directory needs to use it, and to look into it.
const USABLE: u32 = 0o700;
const READABLE: u32 = 0o500;

/// The tree. Reads the descriptors that files are made of.
pub(super) fn arrangement(setup: &[Setup]) -> Result<Arrangement, PolicyError> {
    let mut parts: Vec<Part> = Vec::with_capacity(setup.len());
    for step in setup {
        match step {
            Setup::Bind { source, dest, access, optional } => {
                let (source, option) = match source {
                    Origin::Path(path) => (path_of(path), bind_option(*access)),
                    Origin::Descriptor(number) => (opened(*number)?, "--bind-fd"),
                };
                parts.push(Part::Tree {
                    source,
                    place: place(option, dest)?,
                    write: *access != Access::Read,
                    devices: *access == Access::Devices,
                    optional: *optional,
                });
            }
            Setup::Proc { dest } => parts.push(Part::Processes { place: only("--proc", dest, "/proc")? }),
            Setup::Devices { dest } => parts.push(Part::Devices { place: only("--dev", dest, "/dev")? }),
            Setup::Tmpfs { dest, mode, size } => {
                if size.is_some() {
                    let reason = "the memory of all private directories has one limit";
                    return Err(PolicyError::Option { option: "--size", reason });
                }
                if !matches!(*mode & USABLE, 0 | READABLE | USABLE) {
                    return Err(permissions(*mode));
                }
                parts.push(Part::Private { place: place("--tmpfs", dest)?, mode: *mode, frozen: false });
            }
            Setup::MessageQueues { dest } => parts.push(Part::Queues { place: place("--mqueue", dest)? }),
            Setup::Directory { dest, mode } => {
                parts.push(Part::Directory { place: place("--dir", dest)?, mode: *mode });
            }
            Setup::File { content, dest, mode } => {
                let content = read("--file", *content)?;
                parts.push(Part::File { place: place("--file", dest)?, content, mode: *mode, write: true });
            }
            Setup::Data { content, dest, mode, read_only } => {
                let option = if *read_only { "--ro-bind-data" } else { "--bind-data" };
                let content = read(option, *content)?;
                parts.push(Part::File {
                    place: place(option, dest)?,
                    content,
                    mode: *mode,
                    write: !*read_only,
                });
            }
            Setup::Symlink { target, dest } => {
                parts.push(Part::Link { place: place("--symlink", dest)?, target: path_of(target) });
            }
            Setup::ReadOnly { dest } => freeze(&mut parts, dest)?,
            Setup::Overlay { .. } => {
                let reason = "a plan has no overlays of the caller's";
                return Err(PolicyError::Option { option: "--overlay", reason });
            }
            Setup::Permissions { .. } => {
                let reason = "the tree's permissions are those of the files that are shown";
                return Err(PolicyError::Option { option: "--chmod", reason });
            }
            // Stated in the policy's terms.
            Setup::Hostname { .. } => {}
        }
    }
    Ok(Arrangement { parts })
}

const fn bind_option(access: Access) -> &'static str {
    match access {
        Access::Write => "--bind",
        Access::Read => "--ro-bind",
        Access::Devices => "--dev-bind",
    }
}

fn permissions(mode: u32) -> PolicyError {
    let reason = "a private directory is usable or denied";
    PolicyError::value("--perms", format!("{mode:04o}").as_bytes(), reason)
}

fn path_of(path: &CStr) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(path.to_bytes()))
}

/// A destination: bubblewrap takes each as a path from the new root.
fn place(option: &'static str, dest: &CStr) -> Result<PathBuf, PolicyError> {
    let mut place = PathBuf::from("/");
    for component in Path::new(OsStr::from_bytes(dest.to_bytes())).components() {
        match component {
            Component::Normal(name) => place.push(name),
            Component::ParentDir => {
                return Err(PolicyError::value(option, dest.to_bytes(), "a path in a plan has no `..`"));
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Ok(place)
}

/// A destination that can be only one.
fn only(option: &'static str, dest: &CStr, usual: &'static str) -> Result<PathBuf, PolicyError> {
    let place = place(option, dest)?;
    if place == Path::new(usual) {
        return Ok(place);
    }
    Err(PolicyError::value(option, dest.to_bytes(), format!("a plan has it at {usual} only")))
}

/// The path of what the caller has opened.
fn opened(number: i32) -> Result<PathBuf, PolicyError> {
    let link = format!("/proc/self/fd/{number}");
    std::fs::read_link(&link)
        .map_err(|error| PolicyError::value("--bind-fd", number.to_string().as_bytes(), error))
}

fn read(option: &'static str, number: i32) -> Result<Vec<u8>, PolicyError> {
    let failed = |error: std::io::Error| PolicyError::value(option, number.to_string().as_bytes(), error);
    let mut content = Vec::new();
    let descriptor = palisade_sys::family::take(number).map_err(failed)?;
    File::from(descriptor).read_to_end(&mut content).map_err(failed)?;
    Ok(content)
}

/// Makes the last mount at a place read-only, with all that it shows of the host.
fn freeze(parts: &mut [Part], dest: &CStr) -> Result<(), PolicyError> {
    let place = place("--remount-ro", dest)?;
    let root = place == Path::new("/");
    let found = parts.iter_mut().rev().find(|part| part.place() == &place);
    match found {
        Some(Part::Tree { write, .. }) => *write = false,
        Some(Part::Private { frozen, .. }) => *frozen = true,
        // The new root can't be written to anyway.
        None if root => {}
        _ => {
            let reason = "there is no bind mount and no tmpfs there";
            return Err(PolicyError::value("--remount-ro", dest.to_bytes(), reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(source: &str, dest: &str, access: Access) -> Setup {
        let text = |text: &str| std::ffi::CString::new(text).unwrap_or_default();
        Setup::Bind { source: Origin::Path(text(source)), dest: text(dest), access, optional: false }
    }

    #[test]
    fn a_destination_begins_at_the_root_and_never_leads_up() {
        let of = |dest: &str| {
            arrangement(&[bind("/x", dest, Access::Write)]).map(|found| found.parts[0].place().clone())
        };
        for (dest, expected) in [("/a//b/", "/a/b"), ("a/./b", "/a/b"), ("", "/"), ("/", "/")] {
            assert_eq!(of(dest).ok(), Some(PathBuf::from(expected)), "{dest}");
        }
        assert!(of("/a/../b").is_err());
    }

    #[test]
    fn remounting_makes_the_last_mount_read_only() {
        let steps = [
            bind("/x", "/a", Access::Write),
            bind("/y", "/a", Access::Write),
            Setup::ReadOnly { dest: c"/a".into() },
            bind("/z", "/a", Access::Write),
        ];
        let found = arrangement(&steps).ok().map(|found| {
            found.parts.iter().map(|part| matches!(part, Part::Tree { write: true, .. })).collect::<Vec<_>>()
        });
        assert_eq!(found, Some(vec![true, false, true]));
        assert!(arrangement(&[Setup::ReadOnly { dest: c"/a".into() }]).is_err());
    }
}
