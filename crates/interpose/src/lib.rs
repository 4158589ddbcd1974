// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers an unmodified program's system calls inside its own process, at the cost of a function call: an
//! accelerator and a tracer, never a boundary. The kernel's own filter stays behind every call site.
//!
//! A program is met at its first instruction, and code is mapped below 2 GiB of its address space. The kernel's
//! syscall user dispatch makes every call trap that is not made from there. The first trap of a call site gives it a
//! body: a few instructions that do what the site did, and count or answer it. Sites that trap often are patched, so
//! that they jump to their body. What can't be patched goes on trapping, and is slower but the same.
//!
//! - [`launch`]: what is started, and what came of it
//! - [`fakes`]: how it is written what calls are answered with
//! - `supervisor`: meets every program of a run at its first instruction
//! - `injection`: what is done there
//! - `segment`: memory that all programs of a run share
//! - `image`: the code that they share; its source is in `blob/`
//! - [`layout`]: what is where in a program
//! - [`site`]: what of a call site is overwritten, and by which bytes
//! - [`scan`]: call sites that are found in a file, beside those that trap
//!
//! On other architectures than x86-64, [`launch::launch`] says so.

#[cfg(target_arch = "x86_64")]
mod image;
#[cfg(target_arch = "x86_64")]
mod injection;
#[cfg(target_arch = "x86_64")]
mod segment;
#[cfg(target_arch = "x86_64")]
mod supervisor;

pub mod fakes;
pub mod launch;
pub mod layout;
pub mod scan;
pub mod site;
