// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files that lists show and change, made anew for each launch.

use crate::support::Place;
use rustix::fs::{Mode, chmod};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

/// The ground, and the control files beside it.
pub(super) struct Ground {
    pub(super) files: PathBuf,
    pub(super) control: PathBuf,
    owner: (u32, u32),
}

/// Directories end in a slash; ` -> ` leads to a link's target.
const TREE: &[&[u8]] = &[
    b"dir/",
    b"dir/one",
    b"dir/sub/",
    b"dir/sub/two",
    b"file",
    b"empty/",
    b"sp ace/",
    b"sp ace/in",
    b"com,ma:co/",
    b"com,ma:co/in",
    b"back\\slash/",
    b"n\xffn/",
    b"n\xffn/\xfe",
    b"closed",
    b"locked/",
    b"locked/in",
    b"lower1/",
    b"lower1/one",
    b"lower1/l",
    b"lower2/",
    b"lower2/one",
    b"lower2/m",
    b"upper/",
    b"work/",
];
const LINKS: &[(&str, &str)] = &[
    ("link-dir", "dir"),
    ("link-file", "dir/one"),
    ("abs-dir", "@G/dir"),
    ("abs-etc", "/etc"),
    ("dangling", "missing"),
    ("loop", "loop"),
];
/// Mode 0.
const CLOSED: [&str; 2] = ["closed", "locked"];

impl Ground {
    pub(super) fn new(place: &Place) -> Self {
        let (files, control) = (place.home.join("g"), place.home.join("c"));
        Self { files, control, owner: (place.uid, place.gid) }
    }

    pub(super) fn renew(&self) {
        for path in [&self.files, &self.control] {
            open_up(path);
            let _absent_at_first = fs::remove_dir_all(path);
            fs::create_dir(path).unwrap();
        }
        for name in TREE {
            let path = self.files.join(OsStr::from_bytes(name));
            match name.strip_suffix(b"/") {
                Some(_) => fs::create_dir(&path).unwrap(),
                None => fs::write(&path, [name, b"\n".as_slice()].concat()).unwrap(),
            }
        }
        for (name, target) in LINKS {
            let target = target.replace("@G", self.files.to_str().unwrap());
            symlink(target, self.files.join(name)).unwrap();
        }
        for (name, content) in [
            ("filter", filter(&[LOAD, SKIP_UNLESS, REFUSE, ALLOW])),
            ("half-filter", filter(&[LOAD])),
            ("odd-filter", b"odd".to_vec()),
        ] {
            fs::write(self.control.join(name), content).unwrap();
        }
        self.give(&self.files);
        self.give(&self.control);
        for name in CLOSED {
            chmod(self.files.join(name), Mode::empty()).unwrap();
        }
    }

    fn give(&self, path: &Path) {
        lchown(path, Some(self.owner.0), Some(self.owner.1)).unwrap();
        if path.symlink_metadata().unwrap().is_dir() {
            for entry in fs::read_dir(path).unwrap().flatten() {
                self.give(&entry.path());
            }
        }
    }

    /// Each file of the ground: type, permissions, owner, content.
    pub(super) fn describe(&self) -> String {
        let mut text = String::new();
        describe(&self.files, &mut text);
        text.replace(self.files.to_str().unwrap(), "@G")
    }
}

fn describe(path: &Path, text: &mut String) {
    let found = path.symlink_metadata().unwrap();
    let (mode, uid, gid) = (found.mode(), found.uid(), found.gid());
    write!(text, "{} {mode:06o} {uid}:{gid}", path.as_os_str().as_bytes().escape_ascii()).unwrap();
    if found.is_file() {
        write!(
            text,
            " {}",
            fs::read(path).map_or("?".to_owned(), |content| content.escape_ascii().to_string())
        )
        .unwrap();
    }
    text.push('\n');
    if found.is_dir() {
        let mut entries: Vec<PathBuf> =
            fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        entries.sort();
        entries.iter().for_each(|entry| describe(entry, text));
    }
}

/// Gives the owner back every right, so that all can be removed.
fn open_up(path: &Path) {
    let Ok(found) = path.symlink_metadata() else { return };
    if found.is_dir() {
        let _not_ours = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
        fs::read_dir(path).into_iter().flatten().flatten().for_each(|entry| open_up(&entry.path()));
    }
}

/// An instruction of a filter: code, two jumps, operand.
type Instruction = (u16, u8, u8, u32);
/// The number of the call.
const LOAD: Instruction = (0x20, 0, 0, 0);
/// Goes on with the next one for a call that there isn't.
const SKIP_UNLESS: Instruction = (0x15, 0, 1, 9999);
const REFUSE: Instruction = (0x06, 0, 0, 0x0005_0001);
const ALLOW: Instruction = (0x06, 0, 0, 0x7fff_0000);

fn filter(instructions: &[Instruction]) -> Vec<u8> {
    let bytes = |(code, yes, no, operand): &Instruction| {
        let [first, second] = code.to_ne_bytes();
        [&[first, second, *yes, *no], operand.to_ne_bytes().as_slice()].concat()
    };
    instructions.iter().flat_map(bytes).collect()
}
