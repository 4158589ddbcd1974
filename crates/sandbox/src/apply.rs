// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Carries out a finished plan. [`start`] prepares what depends on the moment of the launch, then launches. [`monitor`]
//! watches over the command while it runs.
//!
//! - before the launch: [`account`] changes to another user, `compile` makes the operation list that the builder
//!   executes, `cgroup` makes the control groups, [`lifecycle`] runs programs outside before the command,
//!   and `streams` examines the standard streams
//! - beside the command: `broker` is the launcher's side of the broker, `masks` starts the mask refresher, `window`
//!   restores the terminal's size, `leftovers` finds files that are gone with the sandbox, [`halt`] stops every process
//!   inside while the user is asked, and [`question`] says whether the user is

pub mod account;
pub(crate) mod broker;
pub(crate) mod cgroup;
pub(crate) mod compile;
pub mod halt;
pub(crate) mod leftovers;
pub mod lifecycle;
pub(crate) mod masks;
pub mod monitor;
pub mod question;
pub mod start;
pub(crate) mod streams;
pub(crate) mod window;
