// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whom a command may talk to: rules over names, addresses and ports, and what they come to.
//!
//! A command connects to names, and it is names that are allowed: the address that a name has today says little about
//! whom it leads to. Addresses count where a command names one itself, and where a name leads to one that isn't of the
//! public internet: that takes a rule for the address, whoever the name belongs to.

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
