// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A terminal that knows what was meant: the user's own shell behind a pseudo-terminal, with modules in between.
//!
//! In reading order:
//!
//! - [`start`]: where this process is, and what a shell's start-up file evaluates
//! - [`ahead`]: what was typed before a prompt, for a shell that can't look itself
//! - [`proxy`]: the loop between the terminal and the shell
//! - [`engine`]: the same without descriptors
//! - [`key`], [`line`]: what is typed, and what it makes of the shell's line
//! - [`vt`], [`mark`], [`column`]: what programs print, what the shell says about itself, where the cursor is
//! - [`foreground`]: who has the terminal, elsewhere or as somebody else
//! - [`links`]: addresses that can be clicked
//! - [`chain`], [`modules`]: what stands in between
//! - [`status`]: what the status line says
//! - [`settings`]: which of it, and how
//! - [`classify`]: what a line would do, and whether to ask before it does
//! - [`link`]: what a line runs becomes a scope that the kernel knows
//! - [`history`]: what was typed before, and what is likely to be typed next
//! - [`counts`], [`page`]: what happened, in numbers, and where it can be looked at
#![forbid(unsafe_code)]

pub mod ahead;
pub mod chain;
pub mod classify;
pub mod column;
pub mod counts;
pub mod engine;
pub mod foreground;
pub mod history;
pub mod key;
pub mod line;
pub mod link;
pub mod links;
pub mod mark;
pub mod modules;
pub mod page;
pub mod proxy;
pub mod settings;
pub mod start;
pub mod status;
pub mod vt;
