// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The key of learned calls: a profile, or the identity of the program that a command without a profile runs.
//!
//! A file name is no identity: any user can name a file `python3`. If only root can put a file at a program's path,
//! the path identifies the program, so an upgrade keeps what was learned. Otherwise path and content identify it.

use std::ffi::OsString;
use std::fmt::Write;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Binary;

/// Directories into which packages install programs. A root-owned file elsewhere may be on a disk that the user
/// brought.
const SYSTEM: [&str; 9] =
    ["/usr", "/opt", "/bin", "/sbin", "/lib", "/lib64", "/nix/store", "/gnu/store", "/run/current-system"];
/// Digits of a hash in a key's text.
const DIGITS: usize = 64;
/// Digits of a hash that are shown to users.
const SHOWN: usize = 8;

/// The key of learned calls. Its text is the name in the store and in commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// A profile, by its name (without a slash) or by its file.
    Profile(String),
    /// A program that only root can replace, by its real path.
    System(PathBuf),
    /// Any other program, by its real path and its content.
    Content(Binary),
}

impl Key {
    /// The key of the program at `path` in its present state. Follows links.
    ///
    /// # Errors
    /// When the program can't be found, or when it must be read and can't.
    pub fn of_program(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        if is_system(&path)? { Ok(Self::System(path)) } else { Ok(Self::Content(Binary::of(&path)?)) }
    }

    /// The key of a profile that is named by its file. `path` must be a real path.
    #[must_use]
    pub fn of_profile_file(path: &Path) -> Self {
        Self::Profile(escaped(path))
    }

    /// The name in the store: a profile's name, a path, or `PATH@HASH` with 64 hexadecimal digits. Bytes of a path
    /// that aren't printable are written as `\xNN`.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Profile(name) => name.clone(),
            Self::System(path) => escaped(path),
            Self::Content(Binary { path, hash }) => {
                format!("{}@{}", escaped(path), blake3::Hash::from_bytes(*hash).to_hex())
            }
        }
    }
}

/// The path in a key's text and, after the `@`, the digits of its hash.
#[must_use]
pub fn parts(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once('@') {
        Some((path, hash))
            if path.starts_with('/')
                && hash.len() == DIGITS
                && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) =>
        {
            (path, Some(hash))
        }
        _ => (text, None),
    }
}

/// A key's text for users: the path, and the beginning of the hash.
#[must_use]
pub fn shown(text: &str) -> String {
    match parts(text) {
        (path, Some(hash)) => format!("{path} ({hash:.SHOWN$})"),
        (name, None) => name.to_owned(),
    }
}

/// Whether a program that is identified by its content has another content now, or is gone. Always false for a
/// profile and for a program that is identified by its path.
#[must_use]
pub fn has_changed(text: &str) -> bool {
    let (path, Some(_hash)) = parts(text) else { return false };
    !Key::of_program(&unescaped(path)).is_ok_and(|key| key.text() == text)
}

/// Whether only root can put another file at `path`, which must be a real path.
fn is_system(path: &Path) -> io::Result<bool> {
    if !SYSTEM.iter().any(|tree| path.starts_with(tree)) {
        return Ok(false);
    }
    for above in path.ancestors() {
        let found = above.symlink_metadata()?;
        // An access control list that lets other users write is visible in the group's write bit.
        if found.uid() != 0 || found.mode() & 0o022 != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A path as text. Different paths give different texts.
fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '\\' || character.is_control() {
                let mut bytes = [0; 4];
                character.encode_utf8(&mut bytes).bytes().for_each(|byte| push(&mut text, byte));
            } else {
                text.push(character);
            }
        }
        chunk.invalid().iter().for_each(|byte| push(&mut text, *byte));
    }
    text
}

fn push(text: &mut String, byte: u8) {
    // Writing to a string can't fail.
    let _written = write!(text, "\\x{byte:02x}");
}

fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\\x") {
        bytes.extend_from_slice(before.as_bytes());
        let byte = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.extend(byte);
        rest = after.get(2..).unwrap_or_default();
    }
    bytes.extend_from_slice(rest.as_bytes());
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_program_of_the_system_is_its_path_and_any_other_its_content_too() {
        let shell = Path::new("/bin/sh").canonicalize().unwrap();
        assert_eq!(Key::of_program(Path::new("/bin/sh")).unwrap(), Key::System(shell.clone()));
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        // A copy of the program (also when root made it), and a link with the program's name.
        let [copy, link] = ["copy", "sh"].map(|name| base.join(name));
        std::fs::copy(&shell, &copy).unwrap();
        symlink(&shell, &link).unwrap();
        let Key::Content(binary) = Key::of_program(&copy).unwrap() else { panic!("by its path") };
        assert_eq!(binary.path, copy);
        assert_eq!(Key::of_program(&link).unwrap(), Key::System(shell), "a link is what it leads to");
        let text = Key::of_program(&copy).unwrap().text();
        assert!(!has_changed(&text));
        // The same content at another path, and another content at this path, are other programs.
        let moved = base.join("moved");
        std::fs::rename(&copy, &moved).unwrap();
        assert!(has_changed(&text));
        assert_ne!(Key::of_program(&moved).unwrap().text(), text);
        std::fs::write(&copy, "#!/bin/sh\n").unwrap();
        assert!(has_changed(&text));
        assert!(Key::of_program(&base.join("none")).is_err());
    }

    #[test]
    fn a_key_is_shown_with_the_beginning_of_its_hash() {
        let binary = Binary { path: "/w/tool".into(), hash: [0xab; 32] };
        let text = Key::Content(binary).text();
        assert_eq!(shown(&text), "/w/tool (abababab)");
        assert_eq!(parts(&text).0, "/w/tool");
        for name in ["web", "/usr/bin/python3", "a@b", "/x@AB"] {
            assert_eq!((shown(name), parts(name).1), (name.to_owned(), None));
        }
    }

    proptest! {
        #[test]
        fn each_path_has_a_text_of_its_own(bytes in proptest::collection::vec(1_u8..=255, 0..40)) {
            let path = PathBuf::from(OsString::from_vec([b"/".as_slice(), &bytes].concat()));
            let text = escaped(&path);
            prop_assert!(!text.chars().any(char::is_control));
            prop_assert_eq!(unescaped(&text), path);
        }
    }
}
