// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is asked about scopes, and what is answered.
//!
//! One request, one [`Response`]; only [`Request::Follow`] is answered by one after the other until somebody hangs up.
//! Everybody may ask about their own scopes; root about all, and only root what holds for all.

use crate::guard::Refusal;
use palisade_event::Event;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Where the daemon listens.
pub const SOCKET: &str = "/run/palisade/scope.sock";

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Request {
    /// Mark whoever asks: the next exec of its process is the launch.
    Run {
        /// What it shall be.
        #[serde(flatten)]
        scope: Wanted,
    },
    /// Mark a process that runs, and its descendants.
    Mark {
        /// Its number, as the daemon sees it.
        pid: u32,
        /// Not what it has started already.
        #[serde(default)]
        alone: bool,
        /// What it shall be.
        #[serde(flatten)]
        scope: Wanted,
    },
    /// Mark a shell for the line that it is about to run: what it starts from now on is in a scope of its own, and the
    /// scope's terminal isn't written to. A mark that it has from the line before ends.
    Line {
        /// Its number, as the daemon sees it.
        pid: u32,
        /// What it shall be.
        #[serde(flatten)]
        scope: Wanted,
    },
    /// The line is over: the shell isn't marked any more; what it has started and still runs is. Programs are loaded if
    /// they weren't, so that what is asked next is answered soon.
    Release {
        /// Its number, as the daemon sees it.
        pid: u32,
    },
    /// What becomes of execs in a scope from now on.
    Judge {
        /// Its number.
        scope: u32,
        /// What becomes of them.
        verdict: Verdict,
    },
    /// The scopes that there are.
    List,
    /// End a scope, or all: what is in them goes on unmarked.
    Clear {
        /// Its number; otherwise all that the asker may end. If that is root, programs and pins go, too.
        scope: Option<u32>,
    },
    /// What is in force, and what isn't.
    Status,
    /// Events as they happen. [`Response::Done`] comes first, and once more when what is remembered was told.
    Follow {
        /// Only of this scope.
        scope: Option<u32>,
        /// First those that are remembered.
        #[serde(default)]
        past: bool,
        /// End after those.
        #[serde(default)]
        end: bool,
        /// Only what was killed or refused.
        #[serde(default)]
        refused: bool,
    },
    /// Another profile, from now on.
    Profile {
        /// Which.
        profile: Profile,
    },
    /// Another depth, from now on.
    Depth {
        /// Which.
        depth: Depth,
    },
}

/// What a scope shall be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// What becomes of execs in it.
    #[serde(default)]
    pub verdict: Verdict,
    /// For people; the daemon keeps 47 bytes.
    #[serde(default)]
    pub label: String,
    /// Tell of rare system calls, too.
    #[serde(default)]
    pub calls: bool,
    /// As if this were the profile, where the one for all scopes makes less of what happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
}

/// What becomes of an exec in a scope.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It happens; the profile may say more.
    #[default]
    Watch,
    /// It happens, and is told of.
    Warn,
    /// The process ends before the program's first instruction.
    Kill,
    /// The exec fails; where the kernel can't do that, it kills.
    Refuse,
}

/// How much is made of what happens in scopes. Ordered: the later, the more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Only a scope's own verdict counts; nothing else is told.
    Prompt,
    /// Each exec is told, with its arguments.
    #[default]
    Audit,
    /// And what is denied is killed by the daemon, as soon as it hears of it.
    Session,
    /// And the kernel refuses denied files and names by itself.
    Strict,
}

/// How far below a mark a process may be to be in the scope.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// The marked process and its children.
    OneLevel,
    /// The marked process and so many generations below it: 2 to 16.
    Ancestry(u8),
    /// Everything that it starts, whatever becomes of the processes between.
    #[default]
    PropagateOnFork,
    /// Everything in a control group of its own.
    Cgroup,
}

/// A word that says none of the things that it may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is none of {known}")]
pub struct UnknownWord {
    /// The word.
    pub word: String,
    /// What it may be.
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

/// The deepest ancestry.
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

/// What is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Response {
    /// It is done; in words.
    Done {
        /// What was done.
        said: String,
    },
    /// It can't be done.
    Refused(Refusal),
    /// To [`Request::Run`] and [`Request::Mark`].
    Marked(Marked),
    /// To [`Request::List`].
    Scopes {
        /// Oldest first.
        scopes: Vec<Scope>,
    },
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// To [`Request::Follow`], one of many.
    Event(Arc<Event>),
    /// To [`Request::Follow`]: the reader was slow.
    Missed {
        /// So many events weren't told.
        count: u64,
    },
}

/// Something is marked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marked {
    /// The scope's number.
    pub scope: u32,
    /// How many processes are marked.
    pub processes: u32,
    /// What isn't as it was asked for, in words.
    pub notes: Vec<String>,
}

/// A scope.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// Its number.
    pub scope: u32,
    /// Whose it is: a user's number.
    pub owner: u32,
    /// What becomes of execs in it.
    pub verdict: Verdict,
    /// For people.
    pub label: String,
    /// The process that was marked first.
    pub root: u32,
    /// Marked processes now.
    pub live: u64,
    /// Marked processes so far.
    pub ever: u64,
    /// How old it is, in seconds.
    pub age: u64,
    /// Rare system calls are told.
    pub calls: bool,
}

/// What is in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// The kernel holds marks.
    pub in_force: bool,
    /// Why not.
    pub because: Option<String>,
    /// How far below a mark a process may be.
    pub depth: Depth,
    /// How much is made of what happens.
    pub profile: Profile,
    /// What is refused gets EPERM; otherwise it is killed.
    pub refuses: bool,
    /// Why it can't be refused.
    pub refuses_not: Option<String>,
    /// It stays in force when the daemon ends: where the pins are.
    pub pinned: Option<String>,
    /// Scopes of everybody.
    pub scopes: usize,
    /// Marked processes of everybody.
    pub marked: u64,
    /// Denied: names, files, contents.
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
    /// Children whose mark is in the task, because the table is full.
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
