// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The subject of an event: the process.

use serde::{Deserialize, Serialize};

/// The process that made the request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Subject {
    /// The process number on the host.
    #[serde(default)]
    pub pid: Option<u32>,
    /// The user number on the host.
    #[serde(default)]
    pub uid: Option<u32>,
    /// The program: its path, its first argument or its name. Text that wasn't UTF-8 is converted lossily.
    #[serde(default)]
    pub program: String,
    /// The name of its sandbox, if it has one.
    #[serde(default)]
    pub sandbox: Option<String>,
    /// The thread, if it isn't the process's first. Since schema 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    /// The process's short name, if `program` is a path. Since schema 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
    /// The number of its scope. Since schema 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<u32>,
}
