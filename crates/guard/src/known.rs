// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts as plain fields, for an access that a caller describes instead of making it.

use crate::facts::{Access, Facts, Start};

/// Every fact as a field. [`Known::default`] is an open without a known process or file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is the fact of its name")]
pub struct Known {
    pub access: Access,
    pub auid: u32,
    pub uids: Vec<u32>,
    pub gids: Vec<u32>,
    pub session: u32,
    pub pid: u32,
    pub ppid: u32,
    pub subject_trusted: bool,
    pub comm: Vec<u8>,
    pub exe: Vec<u8>,
    pub subject_kind: String,
    pub start: Start,
    pub preloads: bool,
    pub path: Vec<u8>,
    pub device: Vec<u8>,
    pub kind: String,
    pub trusted: bool,
    pub hash: Option<String>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            access: Access::Open,
            auid: u32::MAX,
            uids: Vec::new(),
            gids: Vec::new(),
            session: u32::MAX,
            pid: u32::MAX,
            ppid: u32::MAX,
            subject_trusted: false,
            comm: b"?".to_vec(),
            exe: b"?".to_vec(),
            subject_kind: "?".to_owned(),
            start: Start::Unknown,
            preloads: false,
            path: b"?".to_vec(),
            device: b"?".to_vec(),
            kind: "?".to_owned(),
            trusted: false,
            hash: None,
        }
    }
}

impl Facts for Known {
    fn access(&self) -> Access {
        self.access
    }
    fn auid(&self) -> u32 {
        self.auid
    }
    fn uids(&self) -> &[u32] {
        &self.uids
    }
    fn gids(&self) -> &[u32] {
        &self.gids
    }
    fn session(&self) -> u32 {
        self.session
    }
    fn pid(&self) -> u32 {
        self.pid
    }
    fn ppid(&self) -> u32 {
        self.ppid
    }
    fn subject_trusted(&self) -> bool {
        self.subject_trusted
    }
    fn comm(&self) -> &[u8] {
        &self.comm
    }
    fn exe(&self) -> &[u8] {
        &self.exe
    }
    fn subject_kind(&self) -> &str {
        &self.subject_kind
    }
    fn start(&self) -> Start {
        self.start
    }
    fn preloads(&self) -> bool {
        self.preloads
    }
    fn path(&self) -> &[u8] {
        &self.path
    }
    fn device(&self) -> &[u8] {
        &self.device
    }
    fn kind(&self) -> &str {
        &self.kind
    }
    fn trusted(&self) -> bool {
        self.trusted
    }
    fn hash(&self) -> Option<&str> {
        self.hash.as_deref()
    }
}
