// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way from a request to a plan. Every verb of the command line goes it, so that what is explained is what runs.
//!
//! In reading order:
//!
//! - [`Request`]: what is to be started, and what was said about it; with [`Subject`] and [`Surroundings`]
//! - [`Situation`]: a request with the host's facts and the policy; it makes plans
//! - [`PlanningError`]: why there is no plan
#![forbid(unsafe_code)]

mod error;
mod request;
mod situation;

pub use error::PlanningError;
pub use request::{Application, Request, Subject, Surroundings};
pub use situation::Situation;
