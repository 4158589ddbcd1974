// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The acceptance suite: each case is an attack, or a thing that must go on working, and is run
//! twice. Outside the sandbox it must have its effect, so that its failure inside means something;
//! inside, the effect is looked for from the host's side, not believed from an exit code.
//!
//! The cases are data, in `tests/acceptance/*.toml` at the root of the repository. In reading order:
//! [`case`] what a case says, [`file`] the files that cases come from, [`selection`] which of them are run, [`feature`]
//! what the machine must have for it, [`person`] as whom it runs, [`tool`] what confines it, [`patience`] how long is
//! waited, [`process`] one bounded run, [`programs`] our own beside the one it is about, [`arena`] the directories of
//! one run, [`look`] looks for an effect without a shell, [`trial`] control and attack of one case, [`shared`] copies
//! that everybody can read, [`suite`] all cases of one person and [`report`] the table at the end.
//! [`lines`] is for other suites that are tables.
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
