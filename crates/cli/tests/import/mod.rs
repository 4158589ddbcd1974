// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade import`, as a user meets it: what comes of each statement of another launcher's profile, where it is
//! written, and what becomes of files that are none.
//!
//! The profiles of Antimony and firejail themselves are no part of this repository. Where the features `antimony` and
//! `firejail` of `tests/acceptance/features.toml` are there, all of them are imported, and firejail is asked what it
//! makes of a profile.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

mod antimony;
mod corpora;
mod files;
mod firejail;
mod oracle;
mod world;
