// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The launch plane: policy and facts to a plan, the plan to a process.
//!
//! Read in this order:
//!
//! - [`plan`]: what will be done, as data; [`text`]: the strings in it
//! - [`layers`], [`profiles`], [`trust`]: which policy files there are and whether they hold
//! - [`facts`], [`planner`]: how it is made, with `view`, `closure`, `furnishing`, `tree`, `standing`, `mount_point`, `in_place`, `wards`, `mounts` and `limits`
//! - [`inside`]: what it makes of a path; [`cache`]: how it is kept
//! - [`start`]: how it is applied, with `compile`, `cgroup`, `broker`, `covers`, [`monitor`] and `window`; [`halt`]: how everything inside is stopped for a question
//! - [`repository`]: what git would take for one; [`learned`]: from what a command used to the least it needs
//! - [`store`]: plans that root makes for users
//! - [`application`], `passed`: what a profile's application runs, and which files of its arguments are shown;
//!   `session`: what variables lead to; [`conduct`]: what else a launch does
//! - `bus`: what there is of the message buses; [`proxy`], [`attendant`], `instance`: how a filter comes to stand before one
//! - [`gateway`]: how a filtered network is served; [`answers`]: whom the user always allows when asked
//! - [`answering`], [`calls`]: what becomes of certain system calls
//! - [`package`]: a program with all that it needs in one file
//! - [`guarantee`]: what this host can give at all
//! - [`error`]: what can go wrong, in words
#![forbid(unsafe_code)]

pub mod answering;
pub mod answers;
pub mod application;
pub mod askers;
pub mod attendant;
mod broker;
mod bus;
pub mod cache;
pub mod calls;
mod cgroup;
pub mod closure;
mod compile;
pub mod conduct;
mod covers;
mod denials;
pub mod error;
pub mod facts;
pub mod filter;
mod furnishing;
pub mod gateway;
pub mod guarantee;
pub mod halt;
mod in_place;
pub mod inside;
mod instance;
pub mod layers;
pub mod learned;
mod limits;
pub mod monitor;
mod mount_point;
mod mounts;
mod network;
pub mod package;
mod passed;
pub mod plan;
pub mod planner;
pub mod profiles;
pub mod proxy;
pub mod repository;
mod session;
mod sockets;
mod standing;
pub mod start;
pub mod store;
pub mod text;
mod tree;
pub mod trust;
mod view;
mod wards;
mod window;
