// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filtered network of a plan.

use super::{Filter, Stored};
use crate::plan::text::Text;
use palisade_policy::network::{NetworkRules, Publish};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

/// The gateway's part of a plan.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Network<'a> {
    /// The rules for hosts.
    #[serde(borrow)]
    pub rules: Stored<'a, NetworkRules>,
    /// The upstream proxy, as in a policy: `direct`, `environment`, or a proxy as a URL with its credentials. A printed
    /// plan has no credentials. `None`: the policy states nothing, so connections are direct.
    #[serde(borrow, serialize_with = "masked")]
    pub proxy: Option<Text<'a>>,
    /// The name servers to query; if empty, the host's.
    pub dns: Vec<SocketAddr>,
    /// Ports of the loopback interface inside that lead to the host's ports.
    pub reach: Vec<u16>,
    /// Ports of the host that lead inside.
    pub publish: Vec<Publish>,
    /// The user's approvals; `None` if no user is asked, or answers aren't saved.
    #[serde(borrow)]
    pub answers: Option<Approvals<'a>>,
    /// The seccomp filter of the gateway.
    #[serde(borrow)]
    pub filter: Filter<'a>,
}

/// What the refusal of names needs where there is no network.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Offline<'a> {
    /// The host's name servers: programs inside ask these.
    pub servers: Vec<IpAddr>,
    /// The domains in which the C libraries look a name up, too. The user is told of the name without them.
    #[serde(borrow)]
    pub search: Vec<Cow<'a, str>>,
    /// Variables that tell tools not to try again, as `NAME=VALUE`. They replace the caller's. The policy states nothing
    /// about them.
    #[serde(borrow)]
    pub variables: Vec<Text<'a>>,
}

/// Where the user's approvals are saved.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Approvals<'a> {
    /// The file.
    #[serde(borrow)]
    pub file: Text<'a>,
    /// The launches for which they count, in words.
    pub scope: Cow<'a, str>,
    /// A group that only the user is in. It may write to the file, too.
    pub private_group: Option<u32>,
}

impl Network<'_> {
    /// Whether the caller's variables state the upstream proxy.
    #[must_use]
    pub fn asks_environment(&self) -> bool {
        self.proxy.as_ref().is_some_and(|proxy| proxy.as_bytes() == b"environment")
    }

    /// Whether it holds credentials, which no other user may read: such a plan isn't kept.
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
