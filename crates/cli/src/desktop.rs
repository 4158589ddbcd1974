// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade desktop`, of which so far: reading desktop entries and writing command lines for them.
#![allow(dead_code, reason = "the verb comes next")]

mod command;
mod entry;
mod exec;
mod mime;
