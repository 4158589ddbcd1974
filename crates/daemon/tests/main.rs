// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A real `palisaded` on a tree of its own.
//!
//! One program for all of them: each file here would otherwise be linked by itself.
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
mod soak;
mod stopped;
mod support;
mod unit_file;
