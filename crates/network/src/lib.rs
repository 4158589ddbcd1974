// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The gateway: serves a sandbox's network from outside the sandbox.
//!
//! A socket belongs to the network namespace in which it was made. So this process, which is in the host's network,
//! serves the sandbox's own listeners ([`Inside`]). Nothing has to run inside, and only data that this process carries
//! leaves the sandbox. The gateway answers name look-ups with synthetic addresses, one for each name. So the name of a
//! connection is known when it arrives. The real address is looked up when the gateway connects to the outside, and the
//! policy ([`palisade_policy::network::Judge`]) is asked about both. The client's first data (the name in a TLS
//! handshake, the `Host` of each HTTP request) must agree with the name that it connected to.
//!
//! Everything runs in one thread. In reading order:
//!
//! - [`serve`]: the entry point; `engine`: what all connections share; `admission`: how many there may be
//! - [`Told`](palisade_protocol::network::Told), [`Control`]: messages and questions, and the socket for them;
//!   `report`: what happened, as an event
//! - `decide`: the policy, the user's answers
//! - `names`: synthetic addresses; `message`, `dns`, `datagram`: the server that gives them out
//! - `resolving`, `resolver`: how names are really resolved
//! - `connect`, [`Upstream`], [`ProxyVariables`]: connections to the outside
//! - `accept`: accepts connections; `pairs`: makes them where there is no network namespace; `front`, `socks`: proxies' protocols; `opening`, `hello`: a client's first data;
//!   `carry`: connects client and server; `http`, `host`: HTTP, one request at a time
//! - `relay`, `pipe`: moving bytes; `stream`, `wait`: small helpers
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
mod pairs;
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
pub use serve::{Asked, Inside, Maker, serve};
pub use upstream::{Route, Upstream};
pub use variables::ProxyVariables;
