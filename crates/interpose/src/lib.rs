// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers an unmodified program's system calls inside its own process, at the cost of a function call: an
//! accelerator and a tracer, never a boundary. The kernel's own filter stays behind every call site.
//!
//! The supervisor meets a program at its first instruction and has code mapped below 2 GiB of its address space. The
//! kernel's syscall user dispatch makes every call trap that is not made from there. The first trap of a call site
//! gives the site a body: a few instructions that do what the site did, and count or answer the call. Sites that trap
//! often are patched, so that they jump to their body. Sites that can't be patched keep trapping: they are slower,
//! with the same result.
//!
//! - [`launch`]: starts a command, and collects the result
//! - [`fakes`]: parses the answers that calls get
//! - `supervisor`: meets every program of a run at its first instruction
//! - `injection`: prepares a program there
//! - `segment`: memory that all programs of a run share
//! - `image`: the code that they share; its source is in `blob/`
//! - [`layout`]: the memory layout of a program
//! - [`site`]: which bytes of a call site are overwritten, and by what
//! - [`scan`]: call sites that are found in a file, without running it
//!
//! On other architectures than x86-64, [`launch::launch`] returns an error.

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
