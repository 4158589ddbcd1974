// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade guard` from an administrator's view: without the daemon, with it, and after fapolicyd.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]
#![allow(unreachable_pub, reason = "modules of one program")]

mod fapolicyd;
mod modes;
mod offline;
mod said;
mod scrape;
mod trust;
mod users;
mod world;
