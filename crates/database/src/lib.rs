// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all databases of the user have in common, whatever their tables are.
//!
//! - [`Place`]: the directory and the files, and the checks whether to trust them
//! - [`Format`]: which kind of database a file is, and in which version
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
