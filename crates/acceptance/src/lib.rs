// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The acceptance suite: each case is an attack, or something that must still work, and runs
//! twice. Outside the sandbox it must have its effect; otherwise its failure inside would mean nothing.
//! Inside, the harness looks for the effect from the host's side and doesn't trust an exit code.
//!
//! The cases are data, in `tests/acceptance/*.toml` at the root of the repository. In reading order:
//! [`case`] is the format of a case, [`mod@file`] reads the files of cases, [`selection`] chooses the cases to run, [`feature`]
//! checks what the machine must have, [`person`] is the user that runs a case, [`tool`] confines it, [`patience`] is how
//! long a test waits, [`process`] is one bounded run, [`programs`] finds our other programs, [`arena`] makes the directories
//! of one run, [`look`] looks for an effect without a shell, [`trial`] is control and attack of one case, [`shared`] makes
//! copies that every user can read, [`suite`] runs all cases for one user and [`report`] prints the table at the end.
//! [`mod@lines`] is for other suites that are tables.
#![forbid(unsafe_code)]

pub mod arena;
pub mod case;
pub mod feature;
pub mod file;
pub mod lines;
pub mod look;
pub mod patience;
pub mod person;
pub mod process;
pub mod programs;
pub mod report;
pub mod selection;
pub mod shared;
pub mod suite;
pub mod tool;
pub mod trial;
