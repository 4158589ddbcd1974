// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a program that embeds Palisade and the process that launches for it say to each other.
//!
//! The launching process is `palisade embedded -- COMMAND…` with one end of a socket pair as its standard input; its
//! variables, working directory and other streams are the command's. Both sides say hello; [`Order::Launch`] comes first
//! and is answered by [`Told::Ready`], after which the plan and the command's standard input are passed, each as a
//! descriptor. From then on [`Told`] says what happens, [`Told::Ended`] or [`Told::Failed`] last. When the embedding
//! side closes the socket, everything inside is ended.

use palisade_event::Event;
use serde::{Deserialize, Serialize};

/// The verb that makes the program launch for another one.
pub const VERB: &str = "embedded";

/// What the embedding side says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Apply a plan.
    Launch {
        /// The version of the plan's form: a plan of another program isn't understood.
        program: String,
        /// What the sandbox is called while it runs.
        name: Option<String>,
    },
    /// The answer to [`Told::Question`].
    Answer {
        /// Which.
        number: u64,
        /// What is said.
        answer: Answer,
    },
    /// Send the command a signal, by its number.
    Signal(i32),
    /// End everything inside.
    Kill,
}

/// What can be said to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Yes, this time.
    Once,
    /// Yes, until the command ends.
    Session,
    /// Yes, from now on, where that can be kept; otherwise as `Session`.
    Always,
    /// No, this time.
    No,
    /// No, until the command ends.
    Never,
}

impl Answer {
    /// Whether it is yes.
    #[must_use]
    pub const fn allows(self) -> bool {
        matches!(self, Self::Once | Self::Session | Self::Always)
    }

    /// Whether it holds for the session.
    #[must_use]
    pub const fn stays(self) -> bool {
        !matches!(self, Self::Once | Self::No)
    }
}

/// What the launching side says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// It waits for the plan and the standard input.
    Ready,
    /// What the plan was made from has changed since: make it anew.
    Stale,
    /// The command runs.
    Started {
        /// Its process.
        pid: i32,
        /// The first process of the sandbox, if it has one of its own.
        init: Option<i32>,
        /// The launch's number, as `palisade ps` lists it.
        number: String,
    },
    /// Something was decided.
    Event(Box<Event>),
    /// Somebody inside wants what takes a yes.
    Question {
        /// To be named in the answer.
        number: u64,
        /// The program, as it calls itself.
        program: String,
        /// What it wants to do: `reach example.com:443`.
        action: String,
        /// Why that isn't allowed already.
        why: String,
        /// For what [`Answer::Always`] would hold; none where that can't be kept.
        scope: Option<String>,
    },
    /// A sentence worth knowing.
    Note(String),
    /// So many events weren't told, because nobody read them.
    Lost(u64),
    /// The command has ended.
    Ended {
        /// Its exit code, if it exited.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
    /// The command couldn't be started, or it isn't known what became of it.
    Failed {
        /// In words: operation, object, cause.
        message: String,
        /// What to do about it.
        hint: Option<String>,
        /// The exit code of `palisade run` for this: 126, 127, 125.
        code: u8,
    },
}
