// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the filters, against interpreters, libseccomp and the kernel; and of the store of learned calls.
//!
//! One test program for all files: otherwise each file would be linked separately.
#![forbid(unsafe_code)]

mod agreement;
mod everyday;
mod interpreter;
mod kernel;
mod reports;
mod samples;
mod store;
mod store_union;
