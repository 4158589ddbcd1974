// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scopes' requests and answers.
//!
//! Each request gets one [`Response`]. Only [`Request::Follow`] gets one after another until the client closes the
//! connection. A user may make requests about the user's own scopes. Root may make requests about all scopes, and only root
//! may change what applies to all of them.

use crate::guard::Refusal;
use palisade_event::Event;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The daemon's socket for scopes.
pub const SOCKET: &str = "/run/palisade/scope.sock";

/// A request to the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Request {
    /// Mark the asking process: its next exec is the launch.
    Run {
        /// The properties of the new scope.
        #[serde(flatten)]
        scope: Wanted,
    },
    /// Mark a running process and its descendants.
    Mark {
        /// The process's number, as the daemon sees it.
        pid: u32,
        /// Don't mark the processes that it has started already.
        #[serde(default)]
        alone: bool,
        /// The properties of the new scope.
        #[serde(flatten)]
        scope: Wanted,
    },
    /// Mark a shell for the line that it is about to run. Everything that it starts from now on is in a scope of its own,
    /// and the daemon doesn't write to the scope's terminal. The mark of the previous line ends.
    Line {
        /// The shell's process number, as the daemon sees it.
        pid: u32,
        /// The properties of the new scope.
        #[serde(flatten)]
        scope: Wanted,
    },
    /// The line is over: the shell isn't marked any more, but what it has started and still runs stays marked. The daemon
    /// loads its programs if they aren't loaded, so that it answers the next request soon.
    Release {
        /// The shell's process number, as the daemon sees it.
        pid: u32,
    },
    /// Change the verdict for execs in a scope, from now on.
    Judge {
        /// The scope's number.
        scope: u32,
        /// The new verdict.
        verdict: Verdict,
    },
    /// List the scopes.
    List,
    /// End one scope or all. The processes in them continue unmarked.
    Clear {
        /// The scope's number; if none, all scopes that the asking user may end. If that user is root, programs and pins
        /// are removed, too.
        scope: Option<u32>,
    },
    /// Tell what is in force, and what isn't.
    Status,
    /// Send events as they happen. [`Response::Done`] comes first, and again after the remembered events.
    Follow {
        /// Only events of this scope.
        scope: Option<u32>,
        /// Send the remembered events first.
        #[serde(default)]
        past: bool,
        /// End after the remembered events.
        #[serde(default)]
        end: bool,
        /// Only events of what was killed or refused.
        #[serde(default)]
        refused: bool,
    },
    /// Use another profile from now on.
    Profile {
        /// The new profile.
        profile: Profile,
    },
    /// Use another depth from now on.
    Depth {
        /// The new depth.
        depth: Depth,
    },
}

/// The requested properties of a scope.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The verdict for execs in the scope.
    #[serde(default)]
    pub verdict: Verdict,
    /// A text for people; the daemon keeps 47 bytes.
    #[serde(default)]
    pub label: String,
    /// Whether to report rare system calls, too.
    #[serde(default)]
    pub calls: bool,
    /// The profile of this scope, where it is stricter than the profile of all scopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
}

/// What the daemon and the kernel do about an exec in a scope.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The exec happens. The profile may be stricter.
    #[default]
    Watch,
    /// The exec happens and is reported.
    Warn,
    /// The process ends before the program's first instruction.
    Kill,
    /// The exec fails; where the kernel can't do that, it kills.
    Refuse,
}

/// How strictly the daemon handles what happens in scopes. Ordered: a later variant is stricter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Only a scope's own verdict counts; nothing else is reported.
    Prompt,
    /// Each exec is reported, with its arguments.
    #[default]
    Audit,
    /// As `Audit`, and the daemon kills denied execs as soon as it learns of them.
    Session,
    /// As `Session`, and the kernel itself refuses denied files and names.
    Strict,
}

/// How far below a mark a process may be to be in the scope.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// The marked process and its children.
    OneLevel,
    /// The marked process and this number of generations below it: 2 to 16.
    Ancestry(u8),
    /// Everything that the marked process starts, even when the processes between have ended.
    #[default]
    PropagateOnFork,
    /// Everything in the scope's own control group.
    Cgroup,
}

/// A word that isn't one of the known values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is none of {known}")]
pub struct UnknownWord {
    /// The word that was given.
    pub word: String,
    /// The known values.
    pub known: &'static str,
}

macro_rules! words {
    ($type:ident, $known:literal, $($word:literal => $value:ident),+) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Self::$value => $word),+ })
            }
        }

        impl FromStr for $type {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                match word {
                    $($word => Ok(Self::$value),)+
                    _ => Err(UnknownWord { word: word.into(), known: $known }),
                }
            }
        }
    };
}

words!(Verdict, "watch, warn, kill, refuse",
    "watch" => Watch, "warn" => Warn, "kill" => Kill, "refuse" => Refuse);
words!(Profile, "prompt, audit, session, strict",
    "prompt" => Prompt, "audit" => Audit, "session" => Session, "strict" => Strict);

/// The largest number of generations of [`Depth::Ancestry`].
pub const MOST_ANCESTRY: u8 = 16;

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneLevel => f.pad("one_level"),
            Self::Ancestry(hops) => f.pad(&format!("ancestry({hops})")),
            Self::PropagateOnFork => f.pad("propagate_on_fork"),
            Self::Cgroup => f.pad("cgroup"),
        }
    }
}

impl FromStr for Depth {
    type Err = UnknownWord;

    /// `ancestry` alone is `ancestry(8)`.
    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let unknown = || UnknownWord {
            word: word.into(),
            known: "one_level, ancestry(2) to ancestry(16), propagate_on_fork, cgroup",
        };
        let hops = word.strip_prefix("ancestry(").and_then(|rest| rest.strip_suffix(')'));
        Ok(match (word, hops) {
            ("one_level" | "ancestry(1)", _) => Self::OneLevel,
            ("ancestry", _) => Self::Ancestry(8),
            ("propagate_on_fork" | "inherit", _) => Self::PropagateOnFork,
            ("cgroup", _) => Self::Cgroup,
            (_, Some(hops)) => {
                let hops = hops.parse().map_err(|_| unknown())?;
                (2..=MOST_ANCESTRY).contains(&hops).then_some(Self::Ancestry(hops)).ok_or_else(unknown)?
            }
            _ => return Err(unknown()),
        })
    }
}

/// An answer of the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Response {
    /// The request is done.
    Done {
        /// In words: what was done.
        said: String,
    },
    /// The request can't be done.
    Refused(Refusal),
    /// The answer to [`Request::Run`] and [`Request::Mark`].
    Marked(Marked),
    /// The answer to [`Request::List`].
    Scopes {
        /// Oldest first.
        scopes: Vec<Scope>,
    },
    /// The answer to [`Request::Status`].
    Status(Box<Status>),
    /// One of many answers to [`Request::Follow`].
    Event(Arc<Event>),
    /// To [`Request::Follow`]: the client read too slowly.
    Missed {
        /// This number of events wasn't sent.
        count: u64,
    },
}

/// The answer to a request that marked a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marked {
    /// The scope's number.
    pub scope: u32,
    /// How many processes are marked.
    pub processes: u32,
    /// In words: how the scope differs from the request.
    pub notes: Vec<String>,
}

/// A scope.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// Its number.
    pub scope: u32,
    /// The number of the user who owns the scope.
    pub owner: u32,
    /// The verdict for execs in it.
    pub verdict: Verdict,
    /// A text for people.
    pub label: String,
    /// The process that was marked first.
    pub root: u32,
    /// Marked processes now.
    pub live: u64,
    /// Marked processes so far.
    pub ever: u64,
    /// How old it is, in seconds.
    pub age: u64,
    /// Whether rare system calls are reported.
    pub calls: bool,
}

/// What is in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// The daemon's process number.
    pub pid: u32,
    /// Whether the kernel holds marks.
    pub in_force: bool,
    /// Why the kernel doesn't hold marks.
    pub because: Option<String>,
    /// How far below a mark a process may be.
    pub depth: Depth,
    /// How strictly the daemon handles what happens.
    pub profile: Profile,
    /// Whether a refused exec gets EPERM; otherwise its process is killed.
    pub refuses: bool,
    /// Why execs can't be refused.
    pub refuses_not: Option<String>,
    /// Where the pins are, if scopes stay in force when the daemon ends.
    pub pinned: Option<String>,
    /// The scopes of all users.
    pub scopes: usize,
    /// The marked processes of all users.
    pub marked: u64,
    /// How many names, files and contents are denied.
    pub denied: [usize; 3],
    /// Execs below a mark.
    pub execs: u64,
    /// Processes killed at an exec.
    pub killed: u64,
    /// Processes killed by the daemon.
    pub killed_later: u64,
    /// Execs refused.
    pub refused: u64,
    /// Events that found no room in the kernel.
    pub lost: u64,
    /// Events that a slow follower missed.
    pub missed: u64,
    /// Children that could not be marked.
    pub unmarked: u64,
    /// Children whose mark is in task storage, because the table has no room for it.
    pub overflowed: u64,
    /// What is wrong.
    pub alarms: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for depth in
            [Depth::OneLevel, Depth::Ancestry(2), Depth::Ancestry(16), Depth::PropagateOnFork, Depth::Cgroup]
        {
            assert_eq!(depth.to_string().parse(), Ok(depth));
        }
        assert_eq!("ancestry".parse(), Ok(Depth::Ancestry(8)));
        for bad in ["", "ancestry(0)", "ancestry(17)", "ancestry(-1)", "ancestry()", "deep"] {
            assert!(bad.parse::<Depth>().is_err(), "{bad}");
        }
        assert_eq!("strict".parse(), Ok(Profile::Strict));
        assert!("STRICT".parse::<Profile>().is_err());
    }

    #[test]
    fn requests_survive() {
        let wanted =
            Wanted { verdict: Verdict::Kill, label: "x".into(), calls: true, profile: Some(Profile::Strict) };
        for request in [
            Request::Run { scope: wanted.clone() },
            Request::Line { pid: 7, scope: wanted.clone() },
            Request::Release { pid: 7 },
            Request::Mark { pid: 7, alone: true, scope: wanted },
            Request::Depth { depth: Depth::Ancestry(3) },
            Request::Clear { scope: None },
        ] {
            let text = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request, "{text}");
        }
    }

    #[test]
    fn any_bytes_are_an_error_or_a_request() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let _either = serde_json::from_slice::<Request>(bytes);
        });
    }
}
