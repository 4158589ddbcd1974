// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network of a plan.

use super::{Filter, Stored};
use crate::plan::text::Text;
use palisade_policy::network::{NetworkRules, Publish};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::net::SocketAddr;

/// What whoever serves a filtered network is told.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Network<'a> {
    /// Whom the command may talk to.
    #[serde(borrow)]
    pub rules: Stored<'a, NetworkRules>,
    /// How the world is reached, as in a policy: `direct`, `environment`, or a proxy as a URL, credentials and all. A
    /// printed plan is without these. None: directly, as nobody says.
    #[serde(borrow, serialize_with = "masked")]
    pub proxy: Option<Text<'a>>,
    /// The name servers to ask; none: the host's.
    pub dns: Vec<SocketAddr>,
    /// Ports of the loopback interface inside that stand for the host's.
    pub reach: Vec<u16>,
    /// Ports of the host that lead inside.
    pub publish: Vec<Publish>,
    /// What the user has answered before; none if nobody is asked, or answers aren't kept.
    #[serde(borrow)]
    pub answers: Option<Approvals<'a>>,
    /// The filter for whoever serves it.
    #[serde(borrow)]
    pub filter: Filter<'a>,
}

/// Where it is kept whom the user always allows when asked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Approvals<'a> {
    /// The file.
    #[serde(borrow)]
    pub file: Text<'a>,
    /// For what they hold, in words.
    pub scope: Cow<'a, str>,
    /// A group that has nobody but the user in it and may write to the file, too.
    pub private_group: Option<u32>,
}

impl Network<'_> {
    /// Whether the caller's variables say how the world is reached.
    #[must_use]
    pub fn asks_environment(&self) -> bool {
        self.proxy.as_ref().is_some_and(|proxy| proxy.as_bytes() == b"environment")
    }

    /// Whether it holds what nobody else may read: such a plan isn't kept.
    #[must_use]
    pub fn has_secret(&self) -> bool {
        self.proxy.as_ref().is_some_and(|proxy| proxy.as_bytes().contains(&b'@'))
    }
}

fn masked<S: serde::Serializer>(proxy: &Option<Text<'_>>, to: S) -> Result<S::Ok, S::Error> {
    match proxy {
        Some(proxy) if to.is_human_readable() => {
            to.serialize_some(&palisade_policy::network::masked(&proxy.to_string()))
        }
        proxy => proxy.serialize(to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Stored;
    use palisade_policy::network::NetworkRules;

    #[test]
    fn credentials_stay_out_of_what_is_printed() {
        let network = Network {
            rules: Stored::new(&NetworkRules::default()).unwrap(),
            proxy: Some(Text::new("http://me:secret@proxy.example:3128").unwrap()),
            dns: Vec::new(),
            reach: Vec::new(),
            publish: Vec::new(),
            answers: None,
            filter: Filter(Vec::new().into()),
        };
        assert!(network.has_secret());
        let printed = serde_json::to_string(&network).unwrap();
        assert!(!printed.contains("secret") && printed.contains("@proxy.example:3128"), "{printed}");
        let bytes = postcard::to_allocvec(&network).unwrap();
        assert_eq!(postcard::from_bytes::<Network<'_>>(&bytes).unwrap(), network);
    }
}
