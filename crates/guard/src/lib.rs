// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host-wide execution control: what may execute on this host at all.
//!
//! Rules in fapolicyd's grammar or in Palisade's TOML say who may open and execute what; a database of trusted
//! files says what the host's packages and its administrator brought. In reading order:
//!
//! - [`facts`]: what a rule can ask of one open or exec
//! - [`known`]: facts that are known beforehand
//! - [`kind`]: what kind of file it is, by its content
//! - [`subject`]: what `/proc` tells of the process that asks, and how its program was started
//! - [`rule`]: what rules are, and how they are written
//! - [`linear`]: what rules mean, and why one didn't match
//! - [`decide`]: the same answers, in a time that doesn't grow with the number of rules
//! - [`policies`]: the rules that come with Palisade
//! - [`linkers`]: the host's run-time linkers
//! - [`trust`]: which files are trusted, and who says so
//! - [`kind`]: what kind of file it is, by its content
//! - [`subject`]: what `/proc` tells of the process that asks, and how its program was started
//! - [`trusted`], [`supposed`], [`safety`]: both together: is it trusted, what would become of it, would it stop the host
//! - [`settings`], [`setup`]: how the guard is set up, and everything that it is made of
//! - [`check`], [`lint`]: all that is wrong with settings and rules, and what is probably not meant
//! - [`explain`]: what would become of an open or exec, and why
//! - [`survey`]: what there is on a host: kinds, programs that aren't trusted, file systems that aren't watched
//! - [`watch`]: who is asked, and how it is answered
//! - [`import`]: a host's fapolicyd.conf, in Palisade's words
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
