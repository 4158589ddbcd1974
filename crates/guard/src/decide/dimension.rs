// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The attributes that rules ask for, each a dimension, ordered by the cost of finding them out.

use crate::facts::{Access, Facts, Start};

/// One attribute of an access. The decision asks for attributes in this order: first what the event brings, then what
/// `/proc` says, then the trust database, then what needs the file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dimension {
    Access,
    Path,
    Directory,
    Device,
    Pid,
    Ppid,
    Comm,
    Exe,
    ExeDirectory,
    Uid,
    Gid,
    Auid,
    Session,
    Trust,
    SubjectTrust,
    Start,
    Preload,
    Kind,
    SubjectKind,
    Hash,
}

/// The number of dimensions.
pub(super) const DIMENSIONS: usize = 20;

/// A set of dimensions: a bit for each.
pub(super) type Mask = u32;

/// All dimensions.
pub(super) const ALL: Mask = (1 << DIMENSIONS) - 1;

/// The dimensions of the access and the file.
pub(super) const OBJECT: Mask = Dimension::Access.bit()
    | Dimension::Path.bit()
    | Dimension::Directory.bit()
    | Dimension::Device.bit()
    | Dimension::Trust.bit()
    | Dimension::Kind.bit()
    | Dimension::Hash.bit();

/// The value of an attribute, as it is looked up.
pub(super) enum Value<'f> {
    Text(&'f [u8]),
    Numbers(&'f [u32]),
    Number(u32),
    /// One of up to four values.
    Flag(usize),
    /// The value can't be found out; no condition matches.
    Nothing,
}

impl Dimension {
    pub(super) const EACH: [Self; DIMENSIONS] = [
        Self::Access,
        Self::Path,
        Self::Directory,
        Self::Device,
        Self::Pid,
        Self::Ppid,
        Self::Comm,
        Self::Exe,
        Self::ExeDirectory,
        Self::Uid,
        Self::Gid,
        Self::Auid,
        Self::Session,
        Self::Trust,
        Self::SubjectTrust,
        Self::Start,
        Self::Preload,
        Self::Kind,
        Self::SubjectKind,
        Self::Hash,
    ];

    pub(super) const fn bit(self) -> Mask {
        1 << self as u32
    }

    /// The cheapest dimension of a set that isn't empty.
    pub(super) fn first_of(mask: Mask) -> Self {
        Self::EACH[mask.trailing_zeros() as usize]
    }

    /// Is the value looked up by its prefixes?
    pub(super) fn is_by_prefix(self) -> bool {
        matches!(self, Self::Directory | Self::ExeDirectory)
    }

    /// Asks `facts` for the value.
    pub(super) fn of(self, facts: &dyn Facts) -> Value<'_> {
        match self {
            Self::Access => Value::Flag(access_flag(facts.access())),
            Self::Path | Self::Directory => Value::Text(facts.path()),
            Self::Device => Value::Text(facts.device()),
            Self::Pid => Value::Number(facts.pid()),
            Self::Ppid => Value::Number(facts.ppid()),
            Self::Comm => Value::Text(facts.comm()),
            Self::Exe | Self::ExeDirectory => Value::Text(facts.exe()),
            Self::Uid => Value::Numbers(facts.uids()),
            Self::Gid => Value::Numbers(facts.gids()),
            Self::Auid => Value::Number(facts.auid()),
            Self::Session => Value::Number(facts.session()),
            Self::Trust => Value::Flag(usize::from(facts.trusted())),
            Self::SubjectTrust => Value::Flag(usize::from(facts.subject_trusted())),
            Self::Start => Value::Flag(start_flag(facts.start())),
            Self::Preload => Value::Flag(usize::from(facts.preloads())),
            Self::Kind => Value::Text(facts.kind().as_bytes()),
            Self::SubjectKind => Value::Text(facts.subject_kind().as_bytes()),
            Self::Hash => facts.hash().map_or(Value::Nothing, |hash| Value::Text(hash.as_bytes())),
        }
    }
}

pub(super) fn access_flag(access: Access) -> usize {
    match access {
        Access::Open => 0,
        Access::Execute => 1,
    }
}

pub(super) fn start_flag(start: Start) -> usize {
    match start {
        Start::Unknown => 0,
        Start::Normal => 1,
        Start::LinkerItself => 2,
        Start::Static => 3,
    }
}
