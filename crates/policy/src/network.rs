// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules for the hosts that a command may connect to: names, addresses and ports.
//!
//! Commands connect to names, and rules allow names: the address that a name has today says little about its owner.
//! Addresses count in two cases. First, a command connects to an address directly. Second, a name leads to an address
//! outside the public internet: that needs a rule for the address, whatever the name is.

mod address;
mod host;
mod judge;
mod publish;
mod statement;
mod upstream;

pub use address::{Cidr, is_public};
pub use host::{HostError, HostPattern, Name, NameError, Ports, Target};
pub use judge::{Fallback, Judge, NetworkRule, NetworkRules, NetworkVerdict, Ruling};
pub use publish::Publish;
pub use statement::{NetworkError, NetworkList, host_port};
pub(crate) use statement::{NetworkKey, port};
pub use upstream::{Credentials, NameServer, Proxy, ProxyError, ProxyHost, ProxyScheme, Upstream, masked};
