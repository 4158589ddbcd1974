// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line against the real kernel, its daemons and its documents.
//!
//! One program for all of them: each file here would otherwise be linked by itself.
#![forbid(unsafe_code)]

mod account;
mod answers;
mod applications;
mod apps;
mod bad_applications;
mod bad_input;
mod bad_surroundings;
mod broker;
mod checkouts;
mod clock;
mod closure;
mod covers;
mod dbus;
mod desktop;
mod desktop_readers;
mod docs;
mod everything;
mod explorer;
mod grants;
mod guard;
mod hot_path;
mod import;
mod interactive;
mod interpose;
mod learn;
mod learned_by_kernel;
mod learned_programs;
mod limits;
mod names_obeyed;
mod neighbours;
mod network;
mod network_clients;
mod network_limits;
mod network_policy;
mod network_way_out;
mod open;
mod options;
mod package;
mod passed;
mod plan;
mod plan_file;
mod preloaded;
mod profiles;
mod prompts;
mod races;
mod repositories;
mod scope;
mod shell;
mod shell_guard;
mod shell_history;
mod shell_model;
mod shell_page;
mod shell_scope;
mod shell_soak;
mod store;
mod support;
mod syscall_modes;
mod syscalls;
mod tools_at_work;
mod verbs;
mod watch;
mod without_namespaces;
