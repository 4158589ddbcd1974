// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policies that come with Palisade, as rule files.
//!
//! In both, what is allowed to somebody is allowed to every subject ([`crate::decide::Decider::for_every_subject`]), but
//! for what package managers read of what they unpack; trusted files are decided without a look at their content.

/// What packages and the administrator brought may run, and shell scripts may be anybody's.
pub const KNOWN_LIBS: &str = include_str!("../data/known-libs.rules");

/// Only what packages and the administrator brought may run.
pub const RESTRICTIVE: &str = include_str!("../data/restrictive.rules");
