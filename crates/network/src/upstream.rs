// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the world outside is reached.

use std::net::SocketAddr;

use palisade_policy::network::Proxy;

/// How the world outside is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Upstream {
    /// A proxy through which everything goes. One that resolves names is given them: whether a name leads to a private
    /// address is then its affair.
    pub proxy: Option<Proxy>,
    /// The servers that are asked for addresses; none: those of `resolv.conf`.
    pub dns: Vec<SocketAddr>,
}
