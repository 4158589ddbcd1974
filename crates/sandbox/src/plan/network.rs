// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network of a plan.

use super::{Filter, Stored};
use crate::text::Text;
use palisade_policy::network::{NetworkRules, Publish};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// What whoever serves a filtered network is told.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Network<'a> {
    /// Whom the command may talk to.
    #[serde(borrow)]
    pub rules: Stored<'a, NetworkRules>,
    /// The proxy by which the world is reached, as a URL, credentials and all.
    #[serde(borrow)]
    pub proxy: Option<Text<'a>>,
    /// The name servers to ask; none: the host's.
    pub dns: Vec<SocketAddr>,
    /// Ports of the loopback interface inside that stand for the host's.
    pub reach: Vec<u16>,
    /// Ports of the host that lead inside.
    pub publish: Vec<Publish>,
    /// The filter for whoever serves it.
    #[serde(borrow)]
    pub filter: Filter<'a>,
}
