// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests a real `palisaded` on a file system tree of its own.
//!
//! One test program for all files: otherwise each file here would be linked separately.
#![forbid(unsafe_code)]

mod acceptance;
mod bypasses;
mod confinement;
mod faults;
mod journal;
mod libmagic;
mod linker;
mod manual;
mod mishaps;
mod named_programs;
mod packages;
mod shipped;
mod soak;
mod stopped;
mod support;
mod unit_file;
