// SPDX-License-Identifier: Apache-2.0 OR MIT
#![forbid(unsafe_code)]
//! lib
pub mod account;
pub mod environment;
pub mod executable;
pub mod file;
pub mod fingerprint;
pub mod gitconfig;
pub mod layout;
pub mod places;
pub mod resolver;
pub mod walk;
pub mod worktree;
