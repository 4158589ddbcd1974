// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A page on this machine that says what happened in the shell, and the same as metrics.
//!
//! - [`Facts`]: what the history and the counts say at one moment
//! - `markup`: the page; what users typed is text there, whatever is in it
//! - `metrics`: for Prometheus
//! - [`site`]: who is answered, and what
//!
//! It only reads, needs no script and nothing from elsewhere.

mod command;
mod facts;
mod markup;
mod metrics;
pub mod site;

pub use facts::{Facts, Often, Slow};
pub use markup::page;
pub use metrics::prometheus;
pub use site::{Page, PageError};
