// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policies that come with Palisade, as rule files.
//!
//! In both, every rule that allows something to one subject allows it to all
//! ([`crate::decide::Decider::for_every_subject`]). The exception is what package managers read from the packages that
//! they unpack. Trusted files are decided without reading their content.

/// What packages and the administrator brought may run; shell scripts may come from any user.
pub const KNOWN_LIBS: &str = include_str!("../data/known-libs.rules");

/// Only what packages and the administrator brought may run.
pub const RESTRICTIVE: &str = include_str!("../data/restrictive.rules");
