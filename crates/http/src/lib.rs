// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small HTTP server for pages and metrics on the loopback device.
//!
//! Processes of this machine use `GET` or `HEAD`; no request changes anything. A page of another site in a browser
//! can't use the server, because its requests name another host ([`Refusal::Misdirected`]).
//!
//! In reading order:
//!
//! - [`Site`]: the content, by its path
//! - [`Server`]: answers connections, with limits of number and time
//! - `request`: the small part of HTTP/1.1 (RFC 9112) that is needed
#![forbid(unsafe_code)]

mod request;
mod server;

pub use request::Refusal;
pub use server::{Response, Served, Server, Site};
