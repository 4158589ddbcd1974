// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the world outside is reached.

use std::net::SocketAddr;

use palisade_policy::network::{Name, Proxy};

use crate::host::Host;
use crate::variables::ProxyVariables;

/// How the world outside is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Upstream {
    /// Which way everything goes.
    pub route: Route,
    /// The servers that are asked for addresses; none: those of `resolv.conf`.
    pub dns: Vec<SocketAddr>,
}

/// Which way connections go. A proxy that resolves names is given them: whether a name leads to a private address is then
/// its affair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Route {
    /// To whom they are for.
    #[default]
    Direct,
    /// Through a proxy.
    Proxy(Proxy),
    /// As the caller's variables say.
    Variables(ProxyVariables),
}

impl Upstream {
    /// The proxy for somebody; none: one goes there directly.
    ///
    /// # Errors
    ///
    /// A variable is meant to name one, and doesn't.
    pub(crate) fn proxy(&self, host: &Host, port: u16) -> Result<Option<&Proxy>, &str> {
        match &self.route {
            Route::Direct => Ok(None),
            Route::Proxy(proxy) => Ok(Some(proxy)),
            Route::Variables(variables) => variables.proxy(host, port),
        }
    }

    /// Whether a name is, at some port, resolved by somebody else: nobody is asked for it here.
    pub(crate) fn resolves(&self, name: &Name) -> bool {
        let host = Host::Name(name.clone());
        [80, 443].into_iter().any(|port| match self.proxy(&host, port) {
            Ok(proxy) => proxy.is_some_and(Proxy::resolves),
            // Nobody is going to be connected to.
            Err(_why) => true,
        })
    }
}
