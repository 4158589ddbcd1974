// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The launch plane: policy and facts to a plan, the plan to a process.
//!
//! Read in this order:
//!
//! - [`layers`]: which policy files there are, whether they hold, and which application they describe
//! - [`facts`]: what the host has; [`guarantee`]: what the host can give at all
//! - [`plan`]: what will be done, as data; how a plan is made (`planner`), kept (`cache`, `store`) and read (`inside`)
//! - [`view`]: what a command sees of the file system, as steps of a plan
//! - [`filter`]: what a plan says of system calls
//! - [`bus`], [`network`]: message buses and networks behind a filter: what a plan says of them, and who serves them
//! - [`apply`]: a plan to a process, and what watches over it
//! - [`registry`]: which sandboxes run
//! - [`learned`]: from what a command used to the least it needs
//! - [`package`]: a program with all that it needs in one file
//! - [`error`]: what can go wrong, in words
#![forbid(unsafe_code)]

pub mod apply;
pub mod bus;
pub mod error;
pub mod facts;
pub mod filter;
pub mod guarantee;
pub mod layers;
pub mod learned;
pub mod network;
pub mod package;
pub mod plan;
pub mod registry;
pub mod view;
