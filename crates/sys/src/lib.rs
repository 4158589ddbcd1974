// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernel interfaces that rustix lacks, each typed, and the code that runs between clone and exec.
//!
//! The one crate of the launch plane with `unsafe`. It decides nothing: [`launch`] takes a
//! prepared list of operations and executes it. Read in this order:
//!
//! - [`launch`]: the processes of a launch and how they come about
//! - [`operation`]: the steps that build a file tree
//! - [`landlock`], [`seccomp`]: the two walls behind it
//! - [`network`], `netlink`: a network in which every address is served from outside
//! - [`datagram`]: datagrams with both their addresses
//! - `init`, `command`: what PID 1 and the command's process do
//! - `broker`, `rest`, [`notify`]: who answers calls that the filter passes on, and how
//! - [`wait`], [`process`], [`usage`]: children, signals, this process's own strings
//! - [`probe`]: what this host lets the caller do
//! - [`mount`]: trees made by a privileged launcher
//! - [`fanotify`]: who is asked before a file is opened or executed
//! - [`peer`]: who is at the other end of a socket
//! - [`memory`]: what the C library keeps
//! - [`lease`]: whether anybody writes; [`verity`]: whether anybody can
//! - [`record_lock`]: bytes of a file that somebody holds for as long as they live
//! - [`fork`]: work in somebody else's name
//! - [`timed`]: executing with the clock in view; [`suspended`]: executing when told to
//! - [`tracee`]: who is watched while it executes a program
//! - [`trailer`]: whether the program's file carries a package
//! - [`terminal`]: a program behind a pseudo-terminal, and putting a terminal in order again
//! - [`arena`]: memory for programs that start and end
//! - [`counting`]: memory for programs that measure; [`counted`]: calls and instructions of programs that are measured
//! - `clone`, `raw`: the bottom

mod broker;
mod builder;
mod clone;
mod command;
mod entry;
mod init;
mod netlink;
mod raw;
mod rest;

pub mod arena;
pub mod child;
pub mod counted;
pub mod counting;
pub mod datagram;
pub mod fanotify;
pub mod fork;
pub mod landlock;
pub mod launch;
pub mod lease;
pub mod mask_refresher;
pub mod memory;
pub mod mount;
pub mod network;
pub mod notify;
pub mod operation;
pub mod peer;
pub mod probe;
pub mod process;
pub mod record_lock;
pub mod seccomp;
pub mod suspended;
pub mod terminal;
pub mod timed;
pub mod tracee;
pub mod trailer;
pub mod usage;
pub mod verity;
pub mod wait;
