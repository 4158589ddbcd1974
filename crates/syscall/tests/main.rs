// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Filters against interpreters, libseccomp and the kernel; the store of learned calls.
//!
//! One program for all of them: each file here would otherwise be linked by itself.
#![forbid(unsafe_code)]

mod agreement;
mod everyday;
mod interpreter;
mod kernel;
mod reports;
mod samples;
mod store;
mod store_union;
