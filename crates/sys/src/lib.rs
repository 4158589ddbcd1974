// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernel interfaces that rustix lacks, each typed, and the code that runs between clone and exec.

pub mod seccomp;
pub mod usage;
