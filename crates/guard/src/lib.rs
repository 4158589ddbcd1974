// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host-wide execution control: decides what may execute on this host.
//!
//! Rules in fapolicyd's grammar or in Palisade's TOML state which processes may open and execute which files. A
//! database of trusted files lists what the host's packages and its administrator brought. In reading order:
//!
//! - [`facts`]: what a rule can ask about one open or exec
//! - [`known`]: facts as plain fields, for an access that is only described
//! - [`kind`]: what kind of file a file is, by its content
//! - [`subject`]: what `/proc` tells of the process that asks, and how its program was started
//! - [`rule`]: what rules are, and how they are written
//! - [`linear`]: what rules mean, and why one didn't match
//! - [`decide`]: the same answers, in a time that doesn't grow with the number of rules
//! - [`policies`]: the rules that come with Palisade
//! - [`linkers`]: the host's run-time linkers
//! - [`trust`]: which files are trusted, and by which source
//! - [`trusted`], [`supposed`], [`safety`]: rules and trust together: is a file trusted, what would the rules decide
//!   about an access, would the rules stop the host
//! - [`settings`], [`setup`]: the guard's settings, and everything that it is made of
//! - [`check`], [`lint`]: everything that is wrong with settings and rules, and what is probably a mistake
//! - [`explain`]: what the rules would decide about an open or exec, and why
//! - [`survey`]: what is on a host: kinds, programs that aren't trusted, file systems that aren't watched
//! - [`watch`]: receives the kernel's requests, and answers them
//! - [`import`]: a host's fapolicyd.conf, translated to Palisade's settings
#![forbid(unsafe_code)]

pub mod check;
pub mod decide;
pub mod explain;
pub mod facts;
pub mod import;
pub mod kind;
pub mod known;
pub mod linear;
pub mod linkers;
pub mod lint;
mod nowait;
pub mod policies;
pub mod rule;
pub mod safety;
pub mod settings;
pub mod setup;
mod shortage;
pub mod subject;
pub mod supposed;
pub mod survey;
pub mod trust;
pub mod trusted;
pub mod watch;
