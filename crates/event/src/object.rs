// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The object of an event: a file, a host, a system call and so on.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Operation;

/// What a process wanted to use. Text that wasn't UTF-8 is converted lossily.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Object {
    /// A file or directory, or a name that doesn't exist.
    File(File),
    /// A host of the network.
    Host {
        /// Its name. Its address if the connection was made without a name.
        host: String,
        /// The port. `None` if the name was only looked up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
    },
    /// A unix socket.
    Socket {
        /// Its path.
        path: String,
    },
    /// A system call.
    Syscall {
        /// Its name. For a call on sockets, also the address family.
        name: String,
        /// Its number on this architecture, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<u32>,
        /// The lower half of its first argument, if that matters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        argument: Option<u32>,
    },
    /// An environment variable.
    Variable {
        /// Its name.
        name: String,
    },
    /// A limit on resources.
    Limit {
        /// Its name.
        name: String,
    },
    /// Several objects, or something of Palisade's own: "every connection".
    Words {
        /// A description for users.
        words: String,
    },
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct File {
    /// Its path.
    pub path: String,
    /// Its file system, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Device>,
    /// Its inode number, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inode: Option<u64>,
}

/// The device of a file system: `MAJOR:MINOR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device {
    /// The major number: the driver.
    pub major: u32,
    /// The minor number: the device of that driver.
    pub minor: u32,
}

/// Why a text is no device number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a device number (MAJOR:MINOR)")]
pub struct ParseDeviceError(String);

impl FromStr for Device {
    type Err = ParseDeviceError;

    fn from_str(text: &str) -> Result<Self, ParseDeviceError> {
        text.split_once(':')
            .and_then(|(major, minor)| Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? }))
            .ok_or_else(|| ParseDeviceError(text.into()))
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl Serialize for Device {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Device {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Object {
    /// A file with only a path.
    #[must_use]
    pub fn file(path: impl Into<String>) -> Self {
        Self::File(File { path: path.into(), ..File::default() })
    }

    /// A host. Port 0 means no port.
    #[must_use]
    pub fn host(host: impl Into<String>, port: u16) -> Self {
        Self::Host { host: host.into(), port: (port != 0).then_some(port) }
    }

    /// A unix socket.
    #[must_use]
    pub fn socket(path: impl Into<String>) -> Self {
        Self::Socket { path: path.into() }
    }

    /// A system call.
    #[must_use]
    pub fn syscall(name: impl Into<String>, number: Option<u32>) -> Self {
        Self::Syscall { name: name.into(), number, argument: None }
    }

    /// An object without a type of its own.
    #[must_use]
    pub fn words(words: impl Into<String>) -> Self {
        Self::Words { words: words.into() }
    }

    /// The path of a file or socket.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::File(File { path, .. }) | Self::Socket { path } => Some(path),
            _ => None,
        }
    }

    /// The text that another program chose.
    pub(crate) fn text_mut(&mut self) -> &mut String {
        match self {
            Self::File(File { path: text, .. })
            | Self::Host { host: text, .. }
            | Self::Socket { path: text }
            | Self::Syscall { name: text, .. }
            | Self::Variable { name: text }
            | Self::Limit { name: text }
            | Self::Words { words: text } => text,
        }
    }

    /// Converts the text of schema 1, as far as the text allows.
    pub(crate) fn of_text(operation: Operation, text: String) -> Self {
        let is_path = text.starts_with('/');
        match operation {
            Operation::Read | Operation::Write | Operation::Open | Operation::Map | Operation::Execute
                if is_path =>
            {
                Self::file(text)
            }
            Operation::Connect | Operation::Listen if is_path => Self::socket(text),
            Operation::Connect => host(&text).unwrap_or(Self::Words { words: text }),
            Operation::Syscall if is_identifier(&text) => Self::syscall(text, None),
            Operation::Environment => Self::Variable { name: text },
            Operation::Limit => Self::Limit { name: text },
            _ => Self::Words { words: text },
        }
    }
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Parses `example.com:443`, `[2001:db8::1]:443` and `example.com`, and no other form.
fn host(text: &str) -> Option<Object> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once("]:")) {
        Some((address, port)) => (address, Some(port)),
        None => match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') => (host, Some(port)),
            _ => (text, None),
        },
    };
    let port = port.map(str::parse::<u16>).transpose().ok()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:*".contains(c);
    let is_one = !host.is_empty() && host.chars().all(plain);
    is_one.then(|| Object::host(host, port.unwrap_or(0)))
}

/// In the form of schema 1: `/etc/passwd`, `example.com:443`, `ptrace`. Other programs choose the text, so filter it
/// before printing it.
impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { host, port: Some(port) } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Host { host, port: Some(port) } => write!(f, "{host}:{port}"),
            Self::File(File { path: text, .. })
            | Self::Host { host: text, port: None }
            | Self::Socket { path: text }
            | Self::Syscall { name: text, .. }
            | Self::Variable { name: text }
            | Self::Limit { name: text }
            | Self::Words { words: text } => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_schema_1_said_is_told_from_its_text() {
        for (operation, object) in [
            (Operation::Write, Object::file("/w/a b")),
            (Operation::Execute, Object::file("/bin/true")),
            (Operation::Connect, Object::socket("/run/docker.sock")),
            (Operation::Connect, Object::host("example.com", 443)),
            (Operation::Connect, Object::host("example.com", 0)),
            (Operation::Connect, Object::host("2001:db8::1", 443)),
            (Operation::Connect, Object::host("2001:db8::1", 0)),
            (Operation::Connect, Object::host("10.0.0.1", 22)),
            (Operation::Syscall, Object::syscall("ptrace", None)),
            (Operation::Environment, Object::Variable { name: "LD_PRELOAD".into() }),
            (Operation::Limit, Object::Limit { name: "memory".into() }),
            // Palisade's own words aren't parsed as a host's name.
            (Operation::Connect, Object::words("every connection")),
            (Operation::Connect, Object::words("(others)")),
            (Operation::Connect, Object::words("")),
            (Operation::Write, Object::words("(others)")),
            (Operation::Read, Object::words("a covered name")),
            (Operation::Syscall, Object::words("(others)")),
            (Operation::Syscall, Object::words("every call for the broker")),
        ] {
            assert_eq!(Object::of_text(operation, object.to_string()), object);
        }
        assert_eq!(
            Object::of_text(Operation::Connect, "example.com:99999".into()),
            Object::words("example.com:99999")
        );
    }

    #[test]
    fn a_device_is_read_as_it_is_written() {
        let device = Device { major: 259, minor: 2 };
        assert_eq!(device.to_string().parse(), Ok(device));
        for wrong in ["", "8", "8:", ":1", "8:1:2", "-1:2", "8:x"] {
            assert!(wrong.parse::<Device>().is_err(), "{wrong}");
        }
        let json =
            serde_json::to_value(File { path: "/a".into(), device: Some(device), inode: Some(u64::MAX) });
        assert_eq!(json.unwrap(), serde_json::json!({"path": "/a", "device": "259:2", "inode": u64::MAX}));
    }
}
