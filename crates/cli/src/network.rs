// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts the service for the filtered network of a launch.

use palisade_network::{Asked, Inside, ProxyVariables, Route, Upstream};
use palisade_protocol::network::Resolving;
use palisade_sandbox::network::gateway::{Maker, Served};
use palisade_sys::network::Use;
use std::os::fd::OwnedFd;

/// Serves the network of a launch, in a process of its own: [`palisade_sandbox::network::gateway::ServeNetwork`].
pub(crate) fn serve(served: Served) {
    let asked = served.broker.map(|broker| Asked { broker, reach: served.reach });
    let mut inside = Inside { publish: served.publish, asked, ..Inside::default() };
    for made in served.inside {
        match made.used {
            Use::Connections => inside.tcp.push(made.socket),
            Use::Questions => inside.dns.push(made.socket),
            Use::LongQuestions => inside.dns_tcp.push(made.socket),
            Use::Reach(port) => inside.reach.push((made.socket, port)),
        }
    }
    let stated = served.proxy.as_deref().map(str::parse::<palisade_policy::network::Upstream>).transpose();
    let route = match stated {
        Ok(None | Some(palisade_policy::network::Upstream::Direct)) => Route::Direct,
        Ok(Some(palisade_policy::network::Upstream::Proxy(proxy))) => Route::Proxy(proxy),
        Ok(Some(palisade_policy::network::Upstream::Environment)) => {
            Route::Variables(ProxyVariables::read(&served.variables))
        }
        // Can't happen: the policy has accepted the proxy.
        Err(_error) => return,
    };
    let upstream = Upstream { route, dns: served.dns };
    let resolving = Resolving { resolv_conf: served.resolv_conf, hosts: served.hosts };
    let mut sockets = Sockets(served.maker);
    // The launcher notices the end of this process, whatever the reason.
    let _ended = palisade_network::serve(
        inside,
        &served.rules,
        &served.answered,
        &upstream,
        &resolving,
        &mut sockets,
        served.control,
    );
}

struct Sockets(Option<Maker>);

impl palisade_network::Maker for Sockets {
    fn socket(&mut self, v6: bool) -> std::io::Result<OwnedFd> {
        let none = || std::io::Error::from(std::io::ErrorKind::Unsupported);
        Ok(self.0.as_ref().ok_or_else(none)?.socket(v6)?)
    }
}
