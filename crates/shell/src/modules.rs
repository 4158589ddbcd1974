// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The modules that come with Palisade, and the chain that settings ask for.
//!
//! - [`keymap`]: keys that mean actions
//! - [`incognito`]: lines that aren't remembered
//! - [`ghost`]: taking what is shown dim behind the cursor
//! - [`history`]: what was typed before
//! - [`line_guard`]: asking before a line does harm
//! - [`counts`]: what happens, in numbers
//! - [`recorder`]: what is on the screen, as asciicast

pub mod counts;
pub mod ghost;
pub mod history;
pub mod incognito;
pub mod keymap;
pub mod line_guard;
pub mod recorder;
