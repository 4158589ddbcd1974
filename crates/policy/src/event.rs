// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event: one decision, and why it was taken. Every plane emits this one type.

use std::fmt;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::layer::Origin;

/// The version of the event's serialised form. Readers ignore members they don't know.
pub const EVENT_SCHEMA: u32 = 1;

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// [`EVENT_SCHEMA`] of the writer.
    pub schema: u32,
    /// When it was taken.
    #[serde(with = "nanoseconds")]
    pub time: SystemTime,
    /// Who asked.
    pub subject: Subject,
    /// What for.
    pub operation: Operation,
    /// Of what: a path, a host, a call's name. Lossy where that wasn't UTF-8.
    pub object: String,
    /// The answer.
    pub verdict: Verdict,
    /// The reason.
    pub why: Why,
    /// What carried it out.
    pub enforced_by: Mechanism,
}

/// Who asked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Subject {
    /// The process, as numbered on the host.
    #[serde(default)]
    pub pid: Option<u32>,
    /// The user, as numbered on the host.
    #[serde(default)]
    pub uid: Option<u32>,
    /// The program: its path or its first argument. Lossy where that wasn't UTF-8.
    pub program: String,
    /// The sandbox it is in, if that has a name.
    #[serde(default)]
    pub sandbox: Option<String>,
}

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// A sandbox was started.
    Launch,
    /// A sandbox ended.
    Exit,
    /// Read a file or list a directory.
    Read,
    /// Change a file, or create, rename or remove a name.
    Write,
    /// Execute a file.
    Execute,
    /// Open a connection or send to an address.
    Connect,
    /// Offer a socket to others.
    Listen,
    /// Make a system call.
    Syscall,
    /// Exceed a limit.
    Limit,
    /// Inherit an environment variable.
    Environment,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It went ahead.
    Allowed,
    /// It was refused.
    Refused,
    /// The process was ended for it.
    Killed,
    /// It went ahead with less protection than asked for.
    Downgraded,
}

/// The reason of a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// The rule's place, if a rule decided; none if nothing allowed it.
    #[serde(default)]
    pub origin: Option<Origin>,
    /// One line for people.
    pub text: String,
}

/// What carried a verdict out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// The launcher, before anything ran.
    Launcher,
    /// The mount namespace.
    Mount,
    /// Landlock.
    Landlock,
    /// The seccomp filter.
    Seccomp,
    /// The broker behind the seccomp filter.
    Broker,
    /// The network namespace.
    NetworkNamespace,
    /// Whoever serves a filtered network.
    Gateway,
    /// A resource limit.
    Rlimit,
    /// A control group.
    Cgroup,
    /// The choice of environment variables.
    Environment,
}

macro_rules! display_as_serialised {
    ($($kind:ident { $($variant:ident => $word:literal),+ $(,)? })+) => {$(
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word),+ })
            }
        }
    )+};
}

display_as_serialised! {
    Operation {
        Launch => "launch", Exit => "exit", Read => "read", Write => "write",
        Execute => "execute", Connect => "connect", Listen => "listen", Syscall => "syscall",
        Limit => "limit", Environment => "environment",
    }
    Verdict {
        Allowed => "allowed", Refused => "refused", Killed => "killed", Downgraded => "downgraded",
    }
    Mechanism {
        Launcher => "launcher", Mount => "mount", Landlock => "landlock", Seccomp => "seccomp",
        Broker => "broker", NetworkNamespace => "network-namespace",
        Gateway => "gateway", Rlimit => "rlimit",
        Cgroup => "cgroup", Environment => "environment",
    }
}

/// `refused: write /etc/passwd by sed: nothing allows it (mount)`.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} {} by {}: {}",
            self.verdict, self.operation, self.object, self.subject.program, self.why.text
        )?;
        if let Some(origin) = &self.why.origin {
            write!(f, ", {origin}")?;
        }
        write!(f, " ({})", self.enforced_by)
    }
}

/// Time as one number, nanoseconds since 1970: exact, sortable, and good until the year 2554.
mod nanoseconds {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        to.serialize_u64(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SystemTime, D::Error> {
        Ok(UNIX_EPOCH + Duration::from_nanos(u64::deserialize(from)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Layer;

    #[test]
    fn an_event_survives_json_and_reads_as_one_line() {
        let event = Event {
            schema: EVENT_SCHEMA,
            time: SystemTime::UNIX_EPOCH + std::time::Duration::new(1_700_000_000, 42),
            subject: Subject { pid: Some(7), uid: None, program: "sed".into(), sandbox: None },
            operation: Operation::Write,
            object: "/etc/passwd".into(),
            verdict: Verdict::Refused,
            why: Why {
                origin: Some(Origin {
                    layer: Layer::Administrator,
                    file: Some(std::path::Path::new("/etc/palisade/config.toml").into()),
                    line: 12,
                    column: 3,
                }),
                text: "denied".into(),
            },
            enforced_by: Mechanism::Mount,
        };
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(json["time"], 1_700_000_000_000_000_042_u64);
        assert_eq!(json["enforced_by"], event.enforced_by.to_string());
        assert_eq!(serde_json::from_value::<Event>(json).unwrap(), event);
        assert_eq!(
            event.to_string(),
            "refused: write /etc/passwd by sed: denied, /etc/palisade/config.toml:12 (mount)"
        );
    }
}
