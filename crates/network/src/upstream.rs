// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the gateway reaches the outside.

use std::net::SocketAddr;

use palisade_policy::network::{Name, Proxy};

use crate::host::Host;
use crate::variables::ProxyVariables;

/// How the gateway reaches the outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Upstream {
    /// The route of all connections.
    pub route: Route,
    /// The servers that are asked for addresses; if empty, those of `resolv.conf`.
    pub dns: Vec<SocketAddr>,
}

/// The route of connections. A proxy that resolves names gets the names. Whether a name leads to a private address is
/// then the proxy's responsibility.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Route {
    /// Directly to the host.
    #[default]
    Direct,
    /// Through a proxy.
    Proxy(Proxy),
    /// As the caller's proxy variables say.
    Variables(ProxyVariables),
}

impl Upstream {
    /// The proxy for a host; `None`: connect directly.
    ///
    /// # Errors
    ///
    /// A variable should name a proxy, and doesn't.
    pub(crate) fn proxy(&self, host: &Host, port: u16) -> Result<Option<&Proxy>, &str> {
        match &self.route {
            Route::Direct => Ok(None),
            Route::Proxy(proxy) => Ok(Some(proxy)),
            Route::Variables(variables) => variables.proxy(host, port),
        }
    }

    /// Whether a proxy resolves the name, for some port: then no server is asked for it here.
    pub(crate) fn resolves(&self, name: &Name) -> bool {
        let host = Host::Name(name.clone());
        [80, 443].into_iter().any(|port| match self.proxy(&host, port) {
            Ok(proxy) => proxy.is_some_and(Proxy::resolves),
            // No connection will be made.
            Err(_why) => true,
        })
    }
}
