// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a plan's broker answers calls with.

use crate::plan::text::Text;
use palisade_policy::StartTime;
use palisade_syscall::Passed;
use palisade_syscall::broker::replies::{self, FIELD, Opened, PolicyReplies, PolicyReply};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What certain calls, and opening certain paths, are answered with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SyscallReplies<'a> {
    /// PolicyReplies to calls.
    pub calls: Vec<PolicyReply>,
    /// PolicyReplies to opening paths.
    #[serde(borrow)]
    pub opens: Vec<Open<'a>>,
    /// The kernel's release inside.
    #[serde(borrow)]
    pub release: Option<Text<'a>>,
    /// The time of day at which the clock inside starts, in seconds since 1970.
    pub start: Option<i64>,
    /// What is passed on for other reasons.
    pub passed: Passed,
}

/// An answer to opening a path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Open<'a> {
    /// The path, as it is inside.
    #[serde(borrow)]
    pub path: Text<'a>,
    /// What is opened.
    #[serde(borrow)]
    pub file: Instead<'a>,
}

/// What is opened instead.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Instead<'a> {
    /// Another path, as it is inside.
    #[serde(borrow)]
    Path(Text<'a>),
    /// A descriptor of palisade's caller.
    Descriptor(u32),
}

impl SyscallReplies<'_> {
    /// A copy that depends on nothing.
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

    /// The descriptors that are given, each once.
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

    /// What the broker is told. `hostname`: the machine's name inside, if it isn't the host's.
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

    /// What becomes of what, for people.
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
                Made::Question => format!("{name}{some} is made if you say so"),
                Made::Machine => {
                    let release = self.release.as_ref().map(ToString::to_string).unwrap_or_default();
                    format!("{name} tells of release {release}")
                }
                Made::Processors(count) => format!("{name} tells of {count} processors"),
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

/// What `uname` writes.
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
