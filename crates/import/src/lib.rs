// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles of other launchers, of containers and of fapolicyd, in Palisade's language.
//!
//! A profile that is imported grants no file, device, socket or bus that the original doesn't: where the two differ, the
//! narrower is said, and a comment says so. What kept something away and can't be said is named as such, in the profile
//! and in the report.
//!
//! - [`profile`]: from a file of Antimony or firejail to the text of a profile, and a report
//! - `antimony`, `firejail`: what their files say
//! - [`fapolicyd`]: a whole host's rules and trust, for the guard
//! - [`calls`]: files of system calls: our own, and seccomp profiles of containers
//! - `draft`, `document`, `text`: the profile on its way to text
//! - [`report`]: what became of each statement
//! - `error`: why nothing is imported; `source`: reading what others wrote; `pattern`, `programs`: patterns of names,
//!   programs that they name; [`target`]: putting files in their places
#![forbid(unsafe_code)]

mod antimony;
pub mod calls;
mod document;
mod draft;
mod error;
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

pub use error::ImportError;
