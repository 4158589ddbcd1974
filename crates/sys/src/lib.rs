// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Typed kernel interfaces that rustix lacks, and the code that runs between clone and exec.
//!
//! This is the only crate with `unsafe` in the code of a launch. It decides nothing: [`launch`] takes a prepared list
//! of operations and executes it. Read in this order:
//!
//! - [`launch`]: the processes of a launch and how they are made
//! - [`operation`]: the steps that build a file tree
//! - [`staged`]: the same as bubblewrap builds it; [`family`]: processes that it needs
//! - [`landlock`], [`seccomp`]: the two walls behind it
//! - [`network`], `netlink`: a network in which every address is served from outside
//! - [`connection`]: how a broker has such a process make connections, where there is no namespace
//! - [`datagram`]: datagrams with their source and destination addresses
//! - `init`, `command`: what PID 1 and the command's process do; `in_place`: a launch without namespaces
//! - `broker`, `rest`, [`notify`]: the process that answers calls that the filter passes on
//! - [`wait`], [`process`], [`usage`]: children, signals, this process's arguments and environment
//! - [`probe`]: what this host lets the caller do
//! - [`mount`]: trees made by a privileged launcher
//! - [`fanotify`]: questions before a file is opened or executed
//! - [`peer`]: the process at the other end of a socket
//! - [`memory`]: memory that the C library keeps after it was freed
//! - [`lease`]: whether a process has a file open for writing; [`verity`]: whether a file's content can change
//! - [`record_lock`]: locks on bytes of a file, which end with their holder
//! - [`fork`]: work in a forked process, as another user or with almost no rights
//! - [`timed`]: executing a program and reading the clock just before; [`suspended`]: executing a program on request
//! - [`tracee`]: a thread that is watched while it executes a program
//! - [`trailer`]: whether the program's file carries a package
//! - [`terminal`]: a program behind a pseudo-terminal, and restoring a terminal's settings
//! - [`arena`]: memory for programs that start and end
//! - [`counting`]: memory for programs that measure; [`counted`]: calls and instructions of programs that are measured
//! - `clone`, `raw`: the lowest level, which the others use

mod broker;
mod builder;
mod clone;
mod command;
mod entry;
mod in_place;
mod init;
mod netlink;
mod raw;
mod rest;

pub mod arena;
pub mod child;
pub mod connection;
pub mod counted;
pub mod counting;
pub mod datagram;
pub mod family;
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
pub mod staged;
pub mod suspended;
pub mod terminal;
pub mod timed;
pub mod tracee;
pub mod trailer;
pub mod usage;
pub mod verity;
pub mod wait;
