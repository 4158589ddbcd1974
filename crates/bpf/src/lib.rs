// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The eBPF programs (C, CO-RE, in `src/programs`) and their typed loading.
//!
//! One set of programs so far, the guard's: at the hooks of the BPF LSM, what may execute is a bit in a matrix of
//! subject class and object class ([ADR 0025](../../../docs/adr/0025-class-matrix.md)). In reading order:
//!
//! - [`class`]: classes, accesses, modes and the matrix: plain data
//! - [`guard`]: the programs loaded, attached, pinned, and given classes
//! - `classify`: how a file gets its class without anybody changing it on the way
//! - [`event`]: what they report
//! - [`support`]: whether this kernel takes them, and the proof that it calls them
//! - `layout`: the bytes that both sides agree on; `lease`: nobody writes while a file is read
//!
//! Unsafe code is in `lease` only: two calls of `fcntl` that rustix lacks.

pub mod class;
mod classify;
mod error;
pub mod event;
pub mod guard;
mod layout;
mod lease;
pub mod pins;
pub mod support;

pub use class::{Access, Matrix, Mode, ObjectClass, SubjectClass};
pub use error::{ClassifyError, Error};
pub use event::{Event, Reason, Verdict};
pub use guard::{Classes, Events, GuardPrograms};
pub use pins::Pins;
pub use support::{Absence, Proof, Support};
