// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every database of the user's has in common, whatever its tables are.
//!
//! - [`Place`]: the directory and the files, and whether to believe them
//! - [`Format`]: whose database it is, in which version
//! - [`Place::open`], [`Place::read`]: opening one while other processes replace it; [`change`]: a change, whole or not at all
//! - [`StoreError`]: what is wrong with one, and what to do about it
#![forbid(unsafe_code)]

mod change;
mod error;
mod format;
mod opened;
mod place;

pub use change::change;
pub use error::StoreError;
pub use format::Format;
pub use place::{Identity, Lock, Place};
