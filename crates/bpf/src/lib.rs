// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The eBPF programs (C, CO-RE, in `src/programs`) and their typed loading.
//!
//! Two sets of programs. The guard's: at the hooks of the BPF LSM, what may execute is a bit in a matrix of subject class
//! and object class ([ADR 0025](../../../docs/adr/0025-class-matrix.md)). The scopes': from tracepoints, which processes
//! are marked and what becomes of execs below a mark ([ADR 0032](../../../docs/adr/0032-marks-by-process.md)). In reading
//! order:
//!
//! - [`class`]: classes, accesses, modes and the matrix: plain data
//! - [`guard`]: the programs loaded, attached, pinned, and given classes
//! - `classify`: how a file gets its class without anybody changing it on the way
//! - [`event`]: what they report
//! - [`support`]: whether this kernel takes them, and the proof that it calls them
//! - [`learn`]: which system calls the programs of a launch make
//! - [`scope`]: the scopes' programs, loaded, attached, pinned, and told what is marked
//! - `layout`: the bytes that both sides agree on; `lease`: nobody writes while a file is read
//!
//! Unsafe code is in `lease`, two calls of `fcntl` that rustix lacks, and in `scope::order`, two calls of libbpf that
//! libbpf-rs has only for programs that this process loaded.

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
