// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was typed before, and what is likely to be typed next.
//!
//! In reading order:
//!
//! - [`Entry`]: one command that was run
//! - [`Index`]: all lines in memory, asked at each keystroke; [`Found`] is what goes into a pick list
//! - [`Store`]: the user's own database, [`Row`] by row; [`Filter`] says which
//! - [`Writer`]: the thread that writes to it, so that nobody waits for a disk
//! - [`Privacy`], [`secret`]: what is kept out
//! - [`import`]: what bash, zsh, fish and atuin wrote
//! - [`load`]: an index of all of that, made in the background

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
