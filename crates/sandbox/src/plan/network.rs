// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network of a plan.

use super::{Filter, Stored};
use crate::text::Text;
use palisade_policy::network::NetworkRules;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// What whoever serves a filtered network is told.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Network<'a> {
    /// Whom the command may talk to.
    #[serde(borrow)]
    pub rules: Stored<'a, NetworkRules>,
    /// The proxy by which the world is reached, as a URL.
    #[serde(borrow)]
    pub proxy: Option<Text<'a>>,
    /// The name servers to ask; none: the host's.
    pub dns: Vec<SocketAddr>,
    /// Ports of the loopback interface inside that stand for the host's.
    pub reach: Vec<u16>,
    /// Ports of the host that lead inside.
    pub publish: Vec<Published>,
    /// The filter for whoever serves it.
    #[serde(borrow)]
    pub filter: Filter<'a>,
}

/// A port of the host that leads to one inside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Published {
    /// The host's address.
    pub address: IpAddr,
    /// The host's port.
    pub host_port: u16,
    /// The port inside.
    pub port: u16,
}
