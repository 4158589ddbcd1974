// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Embedding, against the real kernel: as whoever runs the tests, and as an ordinary user where that is root.
#![forbid(unsafe_code)]

mod api;
mod embed;
mod everybody;
#[cfg(feature = "tokio")]
mod examples;
mod host;
mod storm;
