// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small HTTP server for pages and metrics on the loopback device.
//!
//! Processes of this machine ask with `GET` or `HEAD`; nothing is changed by a request. A page of another site that a
//! browser shows can't ask: its requests name another host ([`Refusal::Misdirected`]).
//!
//! In reading order:
//!
//! - [`Site`]: what there is to be asked for, by its path
//! - [`Server`]: answers connections, so many at a time, each in so much time
//! - `request`: as little of HTTP/1.1 (RFC 9112) as that needs
#![forbid(unsafe_code)]

mod request;
mod server;

pub use request::Refusal;
pub use server::{Response, Served, Server, Site};
