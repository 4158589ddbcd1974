// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The eBPF programs that the running kernel loads.
//!
//! One program for all of them: each file here would otherwise be linked by itself.
#![forbid(unsafe_code)]

mod host;
mod learn;
mod rights;
mod scope;
