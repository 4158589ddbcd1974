// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the line classifier over its corpora, of the history on disk, and of models.
//!
//! All tests are one program: otherwise each file here would be linked separately.
#![forbid(unsafe_code)]

mod classify;
mod corpora;
mod history_writer;
#[cfg(feature = "onnx")]
mod model;
