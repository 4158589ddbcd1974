// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process that an event is about.

use serde::{Deserialize, Serialize};

/// The process that asked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Subject {
    /// The process, as numbered on the host.
    #[serde(default)]
    pub pid: Option<u32>,
    /// The user, as numbered on the host.
    #[serde(default)]
    pub uid: Option<u32>,
    /// The program: its path, its first argument or its name. Lossy where that wasn't UTF-8.
    #[serde(default)]
    pub program: String,
    /// The sandbox it is in, if that has a name.
    #[serde(default)]
    pub sandbox: Option<String>,
    /// The thread, where it isn't the process's first. Since schema 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    /// The process's short name, where `program` is a path. Since schema 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
    /// The number of the scope that it is in. Since schema 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<u32>,
}
