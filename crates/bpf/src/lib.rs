// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The eBPF programs (C, CO-RE, in `src/programs`) and their typed loading.
//!
//! There are two sets of programs. The guard's programs run at the hooks of the BPF LSM: a bit in a matrix of subject class
//! and object class decides what may execute ([ADR 0025](../../../docs/adr/0025-class-matrix.md)). The scopes' programs run
//! at tracepoints: they mark processes and judge execs below a mark ([ADR
//! 0032](../../../docs/adr/0032-marks-by-process.md)). In reading order:
//!
//! - [`class`]: classes, accesses, modes and the matrix, as plain data
//! - [`guard`]: loads, attaches and pins the guard's programs
//! - `classify`: gives a file its class, and ensures that no process changes the file during that
//! - [`event`]: the events that the guard's programs report
//! - [`support`]: whether this kernel accepts the programs, and the proof that it calls them
//! - [`learn`]: records which system calls the programs of a launch make
//! - [`scope`]: loads, attaches and pins the scopes' programs, and marks processes
//! - `layout`: the bytes that both sides use; `lease`: ensures that no process writes while a file is read
//!
//! Unsafe code is in `lease` (two calls of `fcntl` that rustix lacks), in `scope::order` (calls of libbpf that libbpf-rs
//! offers only for programs that this process loaded), and in `scope::table` (a map's memory).

pub mod class;
mod classify;
mod error;
pub mod event;
pub mod guard;
mod layout;
pub mod learn;
mod lease;
pub mod pins;
pub mod scope;
pub mod support;

pub use class::{Access, Matrix, Mode, ObjectClass, SubjectClass};
pub use error::{ClassifyError, Error};
pub use event::{Event, Reason, Verdict};
pub use guard::{Classes, Events, GuardPrograms};
pub use pins::Pins;
pub use support::{Absence, Proof, Support};
