// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The modules that come with Palisade, and the chain that the settings ask for.
//!
//! - [`keymap`]: keys that are bound to actions
//! - [`incognito`]: lines that aren't remembered
//! - [`ghost`]: takes the ghost text behind the cursor
//! - [`history`]: suggests earlier lines and remembers new ones
//! - [`line_guard`]: asks before a line does harm
//! - [`counts`]: counts what happens
//! - [`recorder`]: records the screen as asciicast

pub mod counts;
pub mod ghost;
pub mod history;
pub mod incognito;
pub mod keymap;
pub mod line_guard;
pub mod recorder;
