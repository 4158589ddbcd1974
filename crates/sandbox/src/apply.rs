// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applying a plan. [`start`] does the last things that depend on the moment and launches; [`monitor`] watches over what
//! runs.
//!
//! - before: [`account`] becomes another user, `compile` makes the operation list that the child executes, `cgroup` its control groups, [`lifecycle`] what
//!   runs outside before the command
//! - beside: `broker` answers for protected names, `masks` keeps what a plan covers covered, `window` restores the
//!   terminal's size, [`halt`] stops everything inside while the user is asked

pub mod account;
pub(crate) mod broker;
pub(crate) mod cgroup;
pub(crate) mod compile;
pub mod halt;
pub mod lifecycle;
pub(crate) mod masks;
pub mod monitor;
pub mod start;
pub(crate) mod window;
