// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The launch plane: turns policy and facts into a plan, and the plan into a process.
//!
//! Read in this order:
//!
//! - [`layers`]: which policy files exist, whether they are valid, and which application they describe
//! - [`facts`]: what the host has; [`guarantee`]: what the host can guarantee
//! - [`plan`]: what a launch will do, as data; how a plan is made (`planner`), kept (`cache`, `store`) and read (`inside`)
//! - [`caches`]: what is kept of package managers and compilers from one launch of a project to the next
//! - [`view`]: what a command sees of the file system, as steps of a plan; [`arrangement`]: a tree that the caller states
//! - [`filter`]: what a plan states about system calls
//! - [`bus`], [`network`]: filtered message buses and networks: their part of a plan, and the processes that serve them
//! - [`apply`]: starts a process from a plan, and watches over it
//! - [`registry`]: which sandboxes run
//! - [`refusals`]: what a launch tells programs inside about refusals
//! - [`learned`]: from what a command used to the fewest grants for it
//! - [`package`]: a program with all that it needs in one file
//! - [`error`]: errors in words
#![forbid(unsafe_code)]

pub mod apply;
pub mod arrangement;
pub mod bus;
pub mod caches;
pub mod error;
pub mod facts;
pub mod filter;
pub mod guarantee;
pub mod layers;
pub mod learned;
pub mod network;
pub mod package;
pub mod plan;
pub mod refusals;
pub mod registry;
pub mod view;
