// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The words of an event. Each word has one spelling: in JSON, for users and in options.

use serde::{Deserialize, Serialize};

/// A text that is none of the expected words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is none of {known}")]
pub struct UnknownWord {
    /// The text.
    pub word: String,
    /// The expected words.
    pub known: String,
}

macro_rules! words {
    ($type:ident { $($variant:ident => $word:literal),+ $(,)? }) => {
        impl $type {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.word())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::words::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                let found = Self::ALL.iter().copied().find(|known| known.word() == word);
                found.ok_or_else(|| {
                    let known: Vec<&str> = Self::ALL.iter().map(|known| known.word()).collect();
                    $crate::words::UnknownWord { word: word.into(), known: known.join(", ") }
                })
            }
        }
    };
}

pub(crate) use words;

/// The part of Palisade that an event is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A sandbox: names, system calls, sockets.
    Sandbox,
    /// The filtered network of a sandbox.
    Network,
    /// The guard: control of execs on the host.
    Guard,
    /// A scope: a marked subtree of processes.
    Scope,
}

words!(Kind { Sandbox => "sandbox", Network => "network", Guard => "guard", Scope => "scope" });

/// The requested operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Start a sandbox, or a scope's command.
    Launch,
    /// The end of a sandbox or a scope.
    Exit,
    /// Read a file or list a directory.
    Read,
    /// Change a file, or create, rename or remove a name.
    Write,
    /// Open a file, for any purpose. Since schema 2.
    Open,
    /// Map a file or memory as executable. Since schema 2.
    Map,
    /// Execute a file.
    Execute,
    /// Start a child process. Since schema 2.
    Fork,
    /// Open a connection or send to an address.
    Connect,
    /// Offer a socket to other processes.
    Listen,
    /// Make a system call.
    Syscall,
    /// Exceed a limit.
    Limit,
    /// Inherit an environment variable.
    Environment,
}

words!(Operation {
    Launch => "launch",
    Exit => "exit",
    Read => "read",
    Write => "write",
    Open => "open",
    Map => "map",
    Execute => "execute",
    Fork => "fork",
    Connect => "connect",
    Listen => "listen",
    Syscall => "syscall",
    Limit => "limit",
    Environment => "environment",
});

/// The verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The operation was made.
    Allowed,
    /// The operation was made, and a rule asks for a warning. Since schema 2.
    Warned,
    /// It was refused.
    Refused,
    /// The operation was made, and would be refused if the rules were enforced. Since schema 2.
    WouldBeRefused,
    /// The process was ended because of it.
    Killed,
    /// The operation was made with less protection than requested.
    Downgraded,
}

words!(Verdict {
    Allowed => "allowed",
    Warned => "warned",
    Refused => "refused",
    WouldBeRefused => "would-be-refused",
    Killed => "killed",
    Downgraded => "downgraded",
});

impl Verdict {
    /// Whether the verdict prevented the operation.
    #[must_use]
    pub const fn stopped_it(self) -> bool {
        matches!(self, Self::Refused | Self::Killed)
    }
}

/// The mechanism that enforced a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// The launcher, before the command started.
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
    /// The gateway, which serves a filtered network.
    Gateway,
    /// A resource limit.
    Rlimit,
    /// A control group.
    Cgroup,
    /// The filter of environment variables.
    Environment,
    /// fanotify, with palisaded's answer. Since schema 2.
    Fanotify,
    /// An eBPF program at a hook of the kernel's security modules. Since schema 2.
    BpfLsm,
    /// An eBPF program at another place in the kernel. Since schema 2.
    Bpf,
    /// palisaded itself, after the fact was reported to it. Since schema 2.
    Daemon,
}

words!(Mechanism {
    Launcher => "launcher",
    Mount => "mount",
    Landlock => "landlock",
    Seccomp => "seccomp",
    Broker => "broker",
    NetworkNamespace => "network-namespace",
    Gateway => "gateway",
    Rlimit => "rlimit",
    Cgroup => "cgroup",
    Environment => "environment",
    Fanotify => "fanotify",
    BpfLsm => "bpf-lsm",
    Bpf => "bpf",
    Daemon => "daemon",
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decision, Layer, Outcome};
    use serde::de::DeserializeOwned;
    use std::fmt::{Debug, Display};
    use std::str::FromStr;

    fn one_spelling<T>(all: &[T])
    where
        T: Copy + Debug + PartialEq + Display + FromStr<Err = UnknownWord> + Serialize + DeserializeOwned,
    {
        for word in all {
            assert_eq!(serde_json::to_value(word).unwrap(), word.to_string(), "{word:?}");
            assert_eq!(word.to_string().parse::<T>().as_ref(), Ok(word));
        }
        let error = "no such word".parse::<T>().unwrap_err();
        assert!(error.to_string().contains(&all[0].to_string()), "{error}");
    }

    #[test]
    fn a_word_is_spelled_in_one_way() {
        one_spelling(Kind::ALL);
        one_spelling(Operation::ALL);
        one_spelling(Verdict::ALL);
        one_spelling(Mechanism::ALL);
        one_spelling(Outcome::ALL);
        one_spelling(Decision::ALL);
        assert_eq!(serde_json::to_value(Layer::CommandLine).unwrap(), "command-line");
    }
}
