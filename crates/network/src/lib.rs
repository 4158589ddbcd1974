// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whom a sandbox talks to, served from outside of it.
//!
//! A socket belongs to the network namespace in which it was made. So the sandbox's own listeners ([`Inside`]) are
//! served here, by a process that stands in the host's network: nothing has to run inside, and what isn't carried by
//! this process doesn't get out. Names are answered with addresses of our own making, one for each name, by which a
//! connection's name is known when it comes; the real address is looked up where the connection goes out, and the
//! policy ([`palisade_policy::network::Judge`]) is asked about both. What a client says first (the name in a TLS handshake,
//! the `Host` of each HTTP request) has to agree with the name that it connected to.
//!
//! Everything runs in one thread. In reading order:
//!
//! - [`serve`]: the public entrance; `engine`: what all connections share; `admission`: how many there may be
//! - [`Told`](palisade_protocol::network::Told), [`Control`]: what is told and asked, and the socket over which; `report`: what
//!   happened, as an event
//! - `decide`: the policy, the user's answers
//! - `names`: the addresses that stand for names; `message`, `dns`, `datagram`: the server that gives them out
//! - `resolving`, `resolver`: how names are really resolved
//! - `connect`, [`Upstream`], [`ProxyVariables`]: the way out
//! - `accept`: what comes to a listener; `front`, `socks`: proxies' protocols; `opening`, `hello`: what a client says
//!   first; `carry`: putting both together; `http`, `host`: requests looked at one by one
//! - `relay`, `pipe`: bytes; `stream`, `wait`: small things
#![forbid(unsafe_code)]

mod accept;
mod admission;
mod carry;
mod connect;
mod control;
mod datagram;
mod decide;
mod dns;
mod engine;
mod front;
mod hello;
mod host;
mod http;
mod message;
mod names;
mod opening;
mod pipe;
mod relay;
mod report;
mod resolver;
mod resolving;
mod serve;
mod socks;
mod stream;
#[cfg(test)]
mod tests;
mod upstream;
mod variables;
mod wait;
mod wire;

pub use control::Control;
pub use serve::{Inside, Maker, serve};
pub use upstream::{Route, Upstream};
pub use variables::ProxyVariables;
