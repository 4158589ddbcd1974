// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests embedding against the real kernel: as the user who runs the tests, and as an ordinary user if that user is root.
#![forbid(unsafe_code)]

mod api;
mod embed;
mod everybody;
#[cfg(feature = "tokio")]
mod examples;
mod host;
mod storm;
