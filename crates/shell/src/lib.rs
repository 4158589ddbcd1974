// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade shell`: the user's own shell behind a pseudo-terminal, with modules between the keyboard and the shell.
//!
//! In reading order:
//!
//! - [`start`]: which terminal this process has, and the script that a shell's start-up file evaluates
//! - [`ahead`]: keys that were typed before a prompt, for a shell that can't read them itself
//! - [`proxy`]: the loop between the terminal and the shell
//! - [`engine`]: the logic of that loop, without descriptors
//! - [`key`], [`mod@line`]: decode keys, and follow their effect on the shell's line
//! - [`vt`], [`mark`], [`mod@column`]: parse programs' output and the shell's reports, and follow the cursor
//! - [`foreground`]: which program has the terminal, and whether it runs elsewhere or as another user
//! - [`links`]: turns addresses into links that can be clicked
//! - [`chain`], [`modules`]: the modules
//! - [`status`]: the text of the status line
//! - [`settings`]: the settings file
//! - [`classify`]: what a line would do, and whether to ask before it runs
//! - [`link`]: the connection to palisaded, which makes a scope of each line
//! - [`history`]: earlier lines, and the line that is likely to be typed next
//! - [`counts`], [`page`]: counts of what happened, and a page that shows them
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
