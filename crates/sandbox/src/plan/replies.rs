// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The syscall replies of a plan's broker.

use crate::plan::text::Text;
use palisade_policy::StartTime;
use palisade_syscall::Passed;
use palisade_syscall::broker::replies::{self, FIELD, Opened, PolicyReplies, PolicyReply};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Replies to certain calls, and to opening certain paths.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SyscallReplies<'a> {
    /// Replies to calls.
    pub calls: Vec<PolicyReply>,
    /// Replies to opening paths.
    #[serde(borrow)]
    pub opens: Vec<Open<'a>>,
    /// The kernel's release inside.
    #[serde(borrow)]
    pub release: Option<Text<'a>>,
    /// The time of day at which the clock inside starts, in seconds since 1970.
    pub start: Option<i64>,
    /// The calls that are passed on for other reasons.
    pub passed: Passed,
}

/// A reply to opening a path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Open<'a> {
    /// The path inside.
    #[serde(borrow)]
    pub path: Text<'a>,
    /// The file that is opened instead.
    #[serde(borrow)]
    pub file: Instead<'a>,
}

/// A file that is opened instead.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Instead<'a> {
    /// Another path inside.
    #[serde(borrow)]
    Path(Text<'a>),
    /// A descriptor that Palisade's caller has open.
    Descriptor(u32),
}

impl SyscallReplies<'_> {
    /// A copy without borrows.
    #[must_use]
    pub fn into_owned(self) -> SyscallReplies<'static> {
        let opens = self.opens.into_iter().map(|open| Open {
            path: open.path.into_owned(),
            file: match open.file {
                Instead::Path(path) => Instead::Path(path.into_owned()),
                Instead::Descriptor(number) => Instead::Descriptor(number),
            },
        });
        SyscallReplies {
            calls: self.calls,
            opens: opens.collect(),
            release: self.release.map(Text::into_owned),
            start: self.start,
            passed: self.passed,
        }
    }

    /// The descriptors that are given to the command, each one once.
    pub(crate) fn descriptors(&self) -> Vec<u32> {
        let mut numbers = Vec::new();
        for open in &self.opens {
            if let Instead::Descriptor(number) = open.file
                && !numbers.contains(&number)
            {
                numbers.push(number);
            }
        }
        numbers
    }

    /// The broker's instructions. `hostname`: the machine's name inside, if it differs from the host's.
    pub(crate) fn told(&self, hostname: Option<&[u8]>) -> PolicyReplies {
        let numbers = self.descriptors();
        let opens = self.opens.iter().map(|open| replies::Open {
            path: open.path.as_bytes().to_vec(),
            file: match &open.file {
                Instead::Path(path) => Opened::Path(path.as_bytes().to_vec()),
                Instead::Descriptor(number) => {
                    Opened::Given(numbers.iter().position(|known| known == number).unwrap_or(usize::MAX))
                }
            },
        });
        PolicyReplies {
            calls: self.calls.clone(),
            opens: opens.collect(),
            machine: self
                .release
                .as_ref()
                .map_or_else(Vec::new, |release| machine(release.as_bytes(), hostname)),
            start: self.start,
            passed: self.passed,
        }
    }

    /// The replies as text for the user.
    #[must_use]
    pub fn words(&self) -> Vec<Cow<'static, str>> {
        use palisade_syscall::broker::replies::Made;
        use palisade_syscall::{Arch, Syscall};
        let name = |number| Syscall::from_number(Arch::NATIVE, number).map_or("?", Syscall::name);
        let clock = self.start.map(|start| {
            let start =
                StartTime::from_seconds(start).map_or_else(|_| start.to_string(), |start| start.to_string());
            Cow::Owned(format!("the clock starts at {start}, and programs have no vDSO"))
        });
        let calls = self.calls.iter().filter(|answer| answer.made != Made::Clock).map(|answer| {
            let name = name(answer.number);
            let some = if answer.tests.is_empty() { "" } else { " with certain arguments" };
            Cow::Owned(match answer.made {
                Made::Value(value) => format!("{name}{some} returns {value}"),
                Made::Question => format!("{name}{some} is made if you allow it"),
                Made::Machine => {
                    let release = self.release.as_ref().map(ToString::to_string).unwrap_or_default();
                    format!("{name} returns release {release}")
                }
                Made::Processors(count) => format!("{name} returns {count} processors"),
                Made::Clock => format!("{name} goes by that clock"),
            })
        });
        let opens = self.opens.iter().map(|open| {
            Cow::Owned(match &open.file {
                Instead::Path(path) => format!("opening {} opens {path}", open.path),
                Instead::Descriptor(number) => format!("opening {} gives descriptor {number}", open.path),
            })
        });
        clock.into_iter().chain(calls).chain(opens).collect()
    }
}

/// The bytes that `uname` writes.
fn machine(release: &[u8], hostname: Option<&[u8]>) -> Vec<u8> {
    let host = rustix::system::uname();
    let fields = [
        host.sysname().to_bytes(),
        hostname.unwrap_or_else(|| host.nodename().to_bytes()),
        release,
        host.version().to_bytes(),
        host.machine().to_bytes(),
        b"(none)",
    ];
    let mut out = Vec::with_capacity(6 * FIELD);
    for field in fields {
        let start = out.len();
        out.extend_from_slice(field.get(..FIELD - 1).unwrap_or(field));
        out.resize(start + FIELD, 0);
    }
    out
}
