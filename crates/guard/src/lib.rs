// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host-wide execution control: what may execute on this host at all.
//!
//! Rules in fapolicyd's grammar or in Palisade's TOML say who may open and execute what; a database of trusted
//! files says what the host's packages and its administrator brought. In reading order:
//!
//! - [`facts`]: what a rule can ask of one open or exec
//! - [`kind`]: what kind of file it is, by its content
//! - [`subject`]: what `/proc` tells of the process that asks, and how its program was started
//! - [`import`]: a host's fapolicyd.conf, in Palisade's words
#![forbid(unsafe_code)]

pub mod facts;
pub mod import;
pub mod kind;
pub mod subject;
