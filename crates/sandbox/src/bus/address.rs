// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads and writes addresses of message buses, in the form of the D-Bus specification.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Where a bus is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Address {
    /// A socket in the file tree.
    Path(PathBuf),
    /// A socket with an abstract name.
    Abstract(Vec<u8>),
}

/// The first address of a list that leads to a socket on this machine; `runtime` is what `unix:runtime=yes` refers to.
pub(crate) fn parse(list: &str, runtime: Option<&Path>) -> Option<Address> {
    list.split(';').find_map(|entry| one(entry, runtime))
}

fn one(entry: &str, runtime: Option<&Path>) -> Option<Address> {
    let pairs = entry.strip_prefix("unix:")?.split(',').filter_map(|pair| pair.split_once('='));
    for (key, value) in pairs {
        match key {
            "path" => {
                let path = PathBuf::from(OsString::from_vec(unescaped(value)?));
                return path.is_absolute().then_some(Address::Path(path));
            }
            "abstract" => return unescaped(value).map(Address::Abstract),
            "runtime" if value == "yes" => return Some(Address::Path(runtime?.join("bus"))),
            _ => {}
        }
    }
    None
}

/// Decodes escapes: `%2f` is a slash.
fn unescaped(value: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            if !digits.iter().all(u8::is_ascii_hexdigit) {
                return None;
            }
            out.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            out.push(byte);
        }
    }
    (!out.is_empty() && !out.contains(&0)).then_some(out)
}

/// Writes the address of a socket from its key (`path`, `abstract`) and name.
pub(crate) fn unix(key: &str, name: &[u8]) -> String {
    let mut out = format!("unix:{key}=");
    for byte in name {
        if byte.is_ascii_alphanumeric() || b"-_/.*".contains(byte) {
            out.push(char::from(*byte));
        } else {
            // Writing to a string can't fail.
            let _infallible = write!(out, "%{byte:02x}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_others_write_them() {
        let runtime = Path::new("/run/user/7");
        let path = |path: &str| Some(Address::Path(path.into()));
        for (list, expected) in [
            ("unix:path=/run/user/1000/bus", path("/run/user/1000/bus")),
            ("unix:path=/tmp/dbus-x,guid=0123", path("/tmp/dbus-x")),
            ("unix:guid=0123,path=/tmp/a%20b%2c", path("/tmp/a b,")),
            ("autolaunch:;unix:path=/x", path("/x")),
            ("unix:abstract=/tmp/dbus-x,guid=0", Some(Address::Abstract(b"/tmp/dbus-x".to_vec()))),
            ("unix:runtime=yes", path("/run/user/7/bus")),
            ("tcp:host=localhost,port=1", None),
            ("unix:path=relative", None),
            ("unix:path=/a%0", None),
            ("unix:path=/a%00", None),
            ("unix:path=%+1", None),
            ("", None),
        ] {
            assert_eq!(parse(list, Some(runtime)), expected, "{list}");
        }
        assert_eq!(parse("unix:runtime=yes", None), None);
    }

    #[test]
    fn what_is_written_is_read_again() {
        for name in ["/run/user/1000/bus", "/tmp/a b,;=%", "/ü"] {
            let written = unix("path", name.as_bytes());
            assert_eq!(parse(&written, None), Some(Address::Path(name.into())), "{written}");
        }
    }
}
