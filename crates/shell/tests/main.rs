// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The classifier of lines over its corpora, the history on disk and the models.
//!
//! One program for all of them: each file here would otherwise be linked by itself.
#![forbid(unsafe_code)]

mod classify;
mod corpora;
mod history_writer;
#[cfg(feature = "onnx")]
mod model;
