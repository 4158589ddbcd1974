// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade import`, as a user meets it: what comes of each statement of another launcher's profile, where it is
//! written, and what becomes of files that are none.
//!
//! The profiles of Antimony and firejail themselves are no part of this repository. With `PALISADE_TEST_ANTIMONY`
//! (a directory with `profiles` and `features`) or `PALISADE_TEST_FIREJAIL` (such as /etc/firejail) all that lie there
//! are imported and checked, and counted.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

mod antimony;
mod corpora;
mod files;
mod firejail;
mod world;
