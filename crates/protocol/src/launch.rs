// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages between a program that embeds Palisade and the process that launches for it.
//!
//! The launching process is `palisade embedded -- COMMAND…`. Its standard input is one end of a socket pair; its variables,
//! working directory and other streams are the command's. Both sides send a hello. The embedding side sends
//! [`Order::Launch`], and the answer is [`Told::Ready`]. Then the embedding side passes the plan and the command's standard
//! input, each as a descriptor. From then on [`Told`] reports what happens; [`Told::Ended`] or [`Told::Failed`] is the last
//! message. When the embedding side closes the socket, everything inside is ended.

use palisade_event::Event;
use serde::{Deserialize, Serialize};

/// The verb that makes the `palisade` program launch for another program.
pub const VERB: &str = "embedded";

/// A message from the embedding side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Apply a plan.
    Launch {
        /// The version of the plan's form; a plan of another version isn't understood.
        program: String,
        /// The sandbox's name while it runs.
        name: Option<String>,
    },
    /// The answer to [`Told::Question`].
    Answer {
        /// The question's number.
        number: u64,
        /// What was answered.
        answer: Answer,
    },
    /// Send the command a signal, by its number.
    Signal(i32),
    /// End everything inside.
    Kill,
}

/// The possible answers to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Yes, this time.
    Once,
    /// Yes, until the command ends.
    Session,
    /// Yes, from now on, if the answer can be saved; otherwise as `Session`.
    Always,
    /// No, this time.
    No,
    /// No, until the command ends.
    Never,
}

impl Answer {
    /// Whether the answer is yes.
    #[must_use]
    pub const fn allows(self) -> bool {
        matches!(self, Self::Once | Self::Session | Self::Always)
    }

    /// Whether the answer holds until the command ends.
    #[must_use]
    pub const fn stays(self) -> bool {
        !matches!(self, Self::Once | Self::No)
    }
}

/// A message from the launching side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// The launching side waits for the plan and the standard input.
    Ready,
    /// The inputs of the plan have changed since: make a new plan.
    Stale,
    /// The command runs.
    Started {
        /// Its process number.
        pid: i32,
        /// The first process of the sandbox, if it has one of its own.
        init: Option<i32>,
        /// The launch's number, as `palisade ps` lists it.
        number: String,
    },
    /// Something was decided.
    Event(Box<Event>),
    /// A process inside asks for something that needs the user's consent.
    Question {
        /// The number that the answer must name.
        number: u64,
        /// The program's name, as the program itself states it.
        program: String,
        /// What the program wants to do: `reach example.com:443`.
        action: String,
        /// Why that isn't allowed already.
        why: String,
        /// What [`Answer::Always`] would apply to; none if the answer can't be saved.
        scope: Option<String>,
    },
    /// A note for the user.
    Note(String),
    /// This number of events wasn't sent, because the embedding side didn't read.
    Lost(u64),
    /// The command has ended.
    Ended {
        /// Its exit code, if it exited.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
    /// The command couldn't be started, or its outcome is unknown.
    Failed {
        /// In words: operation, object, cause.
        message: String,
        /// What to do about it.
        hint: Option<String>,
        /// The exit code of `palisade run` for this: 126, 127, 125.
        code: u8,
    },
}
