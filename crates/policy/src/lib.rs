// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policy language: what a program may access, which layer states it, and which statement wins if several
//! contradict each other. This crate reads no file and no environment: it gets text and facts, and returns decisions
//! with their reasons.
//!
//! In reading order:
//!
//! - [`layer`]: the strength of statements, and which one wins; a statement's place is in `palisade_event`
//! - [`pattern`], [`rule`], [`value`], [`limits`]: what statements can contain
//! - [`mod@parse`], [`parse_error`], [`mod@render`], [`schema`]: reading files, reporting their mistakes, and writing
//!   them, all from one table of keys in `grammar`; [`builtin`]: the lowest layer
//! - [`settings`]: the statements of one layer; [`command_line`]: making them in code
//! - [`mod@merge`]: all layers together, a [`Policy`]
//! - [`word`], [`portal`], [`template`], [`launch`]: what profiles and features state in addition
//! - [`agent`]: what a profile says about a coding agent; [`secrets`]: names of files that hold secrets
//! - [`condition`], [`feature`]: which features a launch has, and why
//! - [`names`]: names that are protected at any place, and how a path is judged by them
//! - [`network`]: the hosts that a command may connect to
//! - [`expand`] with `below`, [`resolve`]: rules expanded on one host, a [`Resolved`]
//! - [`statement`]: all statements of a policy, each with whether it is in force
//! - [`decide`]: the decision about a path, with its reasons; precedence is decided only here
//! - [`rights`]: the rights of a policy as text that can be compared
//! - [`guarantee`]: what a user can rely on, and which of it a policy requires
//! - [`hint`]: which option permits what was refused
//! - [`environment`]: which variables the command inherits
//! - [`reply`]: made-up results of calls; [`clock`]: the time of day at the start
//! - [`suggest`]: "did you mean"
#![forbid(unsafe_code)]

pub mod agent;
mod below;
pub mod builtin;
pub mod clock;
pub mod command_line;
pub mod condition;
pub mod context;
pub mod decide;
pub mod environment;
pub mod expand;
pub mod feature;
mod glob;
mod grammar;
pub mod guarantee;
pub mod hint;
pub mod launch;
pub mod layer;
pub mod limits;
mod lines;
pub mod merge;
pub mod names;
pub mod network;
pub mod parse;
pub mod parse_error;
pub mod pattern;
pub mod portal;
pub mod render;
pub mod reply;
pub mod resolve;
pub mod rights;
pub mod rule;
pub mod schema;
pub mod secrets;
pub mod settings;
pub mod statement;
pub mod suggest;
pub mod template;
pub mod value;
pub mod word;

pub use builtin::built_in;
pub use clock::StartTime;
pub use condition::{Condition, Fact};
pub use context::{Application, Context, Directories};
pub use decide::{Decision, EffectiveGlob, EffectivePath, Protected};
pub use guarantee::{Guarantee, Required};
pub use hint::{Hint, Wanted};
pub use layer::{Layer, Origin, SCHEMA, Sourced, Strength};
pub use limits::{Amount, Limit};
pub use merge::{Idle, Policy, merge};
pub use names::{Content, NameRule, NameRules, NameStatus};
pub use network::{Judge, Name, NetworkRule, NetworkRules, NetworkVerdict, Ruling};
pub use parse::{parse, parse_feature};
pub use parse_error::{ParseError, Problem};
pub use pattern::{PathPattern, PatternError};
pub use render::{Remarks, render, render_with};
pub use reply::SyscallReply;
pub use resolve::{ResolveError, Resolved};
pub use rule::{Access, Grant, PathRule};
pub use schema::json_schema;
pub use settings::{Configuration, LayerPolicy, Settings};
pub use value::{Hostname, NetworkMode, Protect, View};
