// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The language of Palisade: what may a program see and touch, who said so, and what holds when
//! several say different things. Nothing here reads a file or the environment: text and facts come
//! in, decisions with their reasons come out.
//!
//! In reading order:
//!
//! - [`layer`]: who speaks and how firmly, and which statement holds; the place of a statement is `palisade_event`'s
//! - [`pattern`], [`rule`], [`value`], [`limits`]: what can be said of paths and everything else
//! - [`mod@parse`], [`parse_error`], [`mod@render`], [`schema`]: files, their mistakes, and back to text,
//!   all from one table of keys in `grammar`; [`builtin`]: the lowest layer
//! - [`settings`]: what one layer says; [`command_line`]: saying it from code
//! - [`mod@merge`]: all layers together, a [`Policy`]
//! - [`word`], [`portal`], [`template`], [`launch`]: what profiles and features say besides
//! - [`condition`], [`feature`]: which features there are, and why
//! - [`names`]: names that are protected wherever they are, and what a path is to them
//! - [`network`]: whom a command may talk to
//! - [`expand`] with `below`, [`resolve`]: rules in their places on one host, a [`Resolved`]
//! - [`statement`]: all that a policy says, each with whether it holds
//! - [`decide`]: what holds of a path and why; the one truth about precedence
//! - [`hint`]: what to type to permit what was refused
//! - [`environment`]: which variables go in
//! - [`reply`]: what a program is told instead of what is; [`clock`]: its time of day
//! - [`suggest`]: "did you mean"
#![forbid(unsafe_code)]

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
pub mod rule;
pub mod schema;
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
