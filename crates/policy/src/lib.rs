// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The language of Palisade: what may a program see and touch, who said so, and what holds when
//! several say different things. Nothing here reads a file or the environment: text and facts come
//! in, decisions with their reasons come out.
//!
//! In reading order:
//!
//! - [`layer`]: who speaks and how firmly, and which statement holds
//! - [`pattern`], [`rule`], [`value`], [`limits`]: what can be said of paths and everything else
//! - [`settings`]: what one layer says; [`command_line`]: saying it from code
//! - [`merge`]: all layers together, a [`Policy`]
//! - [`environment`]: which variables go in
//! - [`event`]: what every plane reports of a decision
//! - [`suggest`]: "did you mean"
#![forbid(unsafe_code)]

pub mod command_line;
pub mod context;
pub mod environment;
pub mod event;
pub mod layer;
pub mod limits;
pub mod merge;
pub mod pattern;
pub mod rule;
pub mod settings;
pub mod suggest;
pub mod value;

pub use context::Context;
pub use layer::{Layer, Origin, SCHEMA, Sourced, Strength};
pub use limits::{Amount, Limit};
pub use merge::{Policy, merge};
pub use pattern::{PathPattern, PatternError};
pub use rule::{Access, Grant, PathRule};
pub use settings::{LayerPolicy, Settings};
pub use value::{Hostname, NetworkMode, View};
