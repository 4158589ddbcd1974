// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event parser from before schema 2: a frozen copy of its type.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) schema: u32,
    #[serde(serialize_with = "to_nanoseconds", deserialize_with = "of_nanoseconds")]
    pub(crate) time: SystemTime,
    pub(crate) subject: Subject,
    pub(crate) operation: Operation,
    pub(crate) object: String,
    pub(crate) verdict: Verdict,
    pub(crate) why: Why,
    pub(crate) enforced_by: Mechanism,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Subject {
    #[serde(default)]
    pub(crate) pid: Option<u32>,
    #[serde(default)]
    pub(crate) uid: Option<u32>,
    pub(crate) program: String,
    #[serde(default)]
    pub(crate) sandbox: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Operation {
    Launch,
    Exit,
    Read,
    Write,
    Execute,
    Connect,
    Listen,
    Syscall,
    Limit,
    Environment,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    Allowed,
    Refused,
    Killed,
    Downgraded,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Why {
    #[serde(default)]
    pub(crate) origin: Option<Origin>,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mechanism {
    Launcher,
    Mount,
    Landlock,
    Seccomp,
    Broker,
    NetworkNamespace,
    Gateway,
    Rlimit,
    Cgroup,
    Environment,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Layer {
    BuiltIn,
    Distribution,
    Administrator,
    User,
    Project,
    CommandLine,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) layer: Layer,
    #[serde(default)]
    pub(crate) file: Option<Arc<Path>>,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

fn to_nanoseconds<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    to.serialize_u64(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

fn of_nanoseconds<'de, D: Deserializer<'de>>(from: D) -> Result<SystemTime, D::Error> {
    Ok(UNIX_EPOCH + Duration::from_nanos(u64::deserialize(from)?))
}
