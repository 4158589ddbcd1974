// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The history: lines that were run before, and the line that is likely to be typed next.
//!
//! In reading order:
//!
//! - [`Entry`]: one command that was run
//! - [`Index`]: all lines in memory, asked at each key; [`Found`] is an entry of a pick list
//! - [`Store`]: the user's database, [`Row`] by row; [`Filter`] selects rows
//! - [`Writer`]: the thread that writes to the store, so that the proxy never waits for a disk
//! - [`Privacy`], [`secret`]: which lines are not kept
//! - [`import`]: reads the history files of bash, zsh, fish and atuin
//! - [`load`]: builds an index of all of these in the background

mod entry;
pub mod import;
mod index;
mod load;
pub mod secret;
mod store;
mod writer;

pub use entry::{Entry, LOCAL, LONGEST, now};
pub use index::{Found, Index, LIST};
pub use load::{Loaded, Loading, Sources, load};
pub use secret::{Privacy, Reason, redacted};
pub use store::{Filter, Row, Statistics, Store, StoreError};
pub use writer::{Id, Writer};
