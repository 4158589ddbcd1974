// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A page on this machine that shows what happened in the shell, and the same figures as metrics.
//!
//! - [`Facts`]: the data of the history and the counts, at one moment
//! - `markup`: the page in HTML; a text that a user typed stays text, whatever it contains
//! - `metrics`: the metrics for Prometheus
//! - [`site`]: which requests are answered, and with what
//!
//! The page only reads. It needs no script and nothing from other servers.

mod command;
mod facts;
mod markup;
mod metrics;
pub mod site;

pub use facts::{Facts, Often, Slow};
pub use markup::page;
pub use metrics::prometheus;
pub use site::{Page, PageError};
