// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translates profiles of other launchers, settings of coding agents, containers' profiles and fapolicyd's rules into
//! Palisade's language.
//!
//! An imported profile grants no file, device, socket or bus that the original doesn't grant. Where the two languages
//! differ, the profile states the narrower form, and a comment says so. A restriction that can't be expressed is named
//! in the profile and in the report.
//!
//! - [`profile`]: translates a file of another launcher to the text of a profile, with a report
//! - `antimony`, `firejail`: read these launchers' files
//! - `agents`: read the settings of coding agents and of their sandboxes
//! - [`fapolicyd`]: imports a whole host's rules and trust, for the guard
//! - [`calls`]: reads and writes files of system calls: Palisade's own, and seccomp profiles of containers
//! - [`export`]: says in the language of another sandbox what a profile says
//! - `draft`, `document`, `text`: the profile on its way to text
//! - [`report`]: what became of each statement
//! - `error`: why nothing is imported; `source`: reads foreign files; `tree`: their values, with lines; `pattern`, `programs`: patterns of names, and the
//!   programs that match them; [`target`]: puts files in their places
#![forbid(unsafe_code)]

mod agents;
mod antimony;
pub mod calls;
mod document;
mod draft;
mod error;
pub mod export;
pub mod fapolicyd;
mod firejail;
mod pattern;
pub mod profile;
mod programs;
pub mod report;
mod source;
pub mod target;
#[cfg(test)]
mod tests;
mod text;
mod tree;

pub use error::ImportError;
