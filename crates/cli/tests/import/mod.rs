// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade import` from a user's view: how each statement of another launcher's profile is imported, where the
//! result is written, and how files are handled that aren't profiles.
//!
//! The profiles of Antimony and firejail themselves are not part of this repository. If the features `antimony` and
//! `firejail` of `tests/acceptance/features.toml` are present, all of these profiles are imported, and the effects of a
//! profile are compared with those under firejail itself.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

mod agents;
mod antimony;
mod corpora;
mod exports;
mod files;
mod firejail;
mod oracle;
mod world;
