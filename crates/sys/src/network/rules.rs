// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The nftables rules of a filtered network, as netlink messages (`linux/netfilter/nf_tables.h`).

use super::{DNS, PORT};
use crate::netlink::Messages;
use std::net::Ipv6Addr;

/// Numbers of `linux/netfilter/nf_tables.h` and its neighbours.
mod nft {
    pub(super) const INET: u8 = 1;
    pub(super) const BEGIN: u16 = 0x10;
    pub(super) const END: u16 = 0x11;
    pub(super) const SUBSYSTEM: u16 = 10;
    pub(super) const NEW_TABLE: u16 = SUBSYSTEM << 8;
    pub(super) const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
    pub(super) const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;
    pub(super) const CREATE: u16 = 0x400;
    pub(super) const APPEND: u16 = 0x800;
    pub(super) const LOCAL_IN: u32 = 1;
    pub(super) const LOCAL_OUT: u32 = 3;
    /// `NF_IP_PRI_NAT_DST`, in two's complement.
    pub(super) const BEFORE: u32 = (-100i32).cast_unsigned();
    pub(super) const REGISTER: u32 = 1;
    pub(super) const VERDICT: u32 = 0;
    pub(super) const ACCEPT: u32 = 1;
    pub(super) const NF_PROTOCOL: u32 = 15;
    pub(super) const PROTOCOL: u32 = 16;
    pub(super) const NETWORK_HEADER: u32 = 1;
    pub(super) const TRANSPORT_HEADER: u32 = 2;
    /// `NF_CT_STATE_BIT` of established and of related.
    pub(super) const KNOWN: u32 = 2 | 4;
    pub(super) const UNREACHABLE: u32 = 2;
    pub(super) const PORT_UNREACHABLE: u8 = 1;
    pub(super) const PROHIBITED: u8 = 3;
}

/// ```text
/// table inet palisade {
///     chain lead {
///         type nat hook output priority -100
///         ip daddr 127.0.0.0/8 accept
///         ip6 daddr ::1 accept
///         meta l4proto tcp redirect to :1023
///     }
///     chain refuse {
///         type filter hook input priority 0
///         ip daddr 127.0.0.0/8 accept
///         ip6 daddr ::1 accept
///         ct state established,related accept
///         udp dport 53 accept
///         meta l4proto udp reject with icmpx port-unreachable
///         reject with icmpx admin-prohibited
///     }
/// }
/// ```
pub(super) fn rules() -> Messages {
    let mut messages = Messages::new();
    let [high, low] = nft::SUBSYSTEM.to_be_bytes();
    let batch = [0, 0, high, low];
    let fixed = [nft::INET, 0, 0, 0];
    messages.message(nft::BEGIN, 0, &batch, |_nothing| {});
    messages.message(nft::NEW_TABLE, nft::CREATE, &fixed, |message| {
        message.text(1, TABLE);
    });
    // Refused on the way in, not on the way out. On the way out the sender would get `EPERM`, but programs handle an
    // ICMP error.
    let chains = [(LEAD, c"nat", nft::LOCAL_OUT, nft::BEFORE), (REFUSE, c"filter", nft::LOCAL_IN, 0)];
    for (name, kind, hook, priority) in chains {
        messages.message(nft::NEW_CHAIN, nft::CREATE, &fixed, |message| {
            message.text(1, TABLE).text(3, name).text(7, kind).nested(4, |data| {
                data.number(1, hook).number(2, priority);
            });
        });
    }
    let mut rule = |chain, expressions: &dyn Fn(&mut Messages)| {
        messages.message(nft::NEW_RULE, nft::CREATE | nft::APPEND, &fixed, |message| {
            message.text(1, TABLE).text(2, chain).nested(4, expressions);
        });
    };
    for chain in [LEAD, REFUSE] {
        rule(chain, &|list| {
            is_family(list, libc::NFPROTO_IPV4);
            payload(list, nft::NETWORK_HEADER, 16, 1);
            equals(list, &[127]);
            accept(list);
        });
        rule(chain, &|list| {
            is_family(list, libc::NFPROTO_IPV6);
            payload(list, nft::NETWORK_HEADER, 24, 16);
            equals(list, &Ipv6Addr::LOCALHOST.octets());
            accept(list);
        });
    }
    rule(LEAD, &|list| {
        is_protocol(list, libc::IPPROTO_TCP);
        expression(list, c"immediate", |data| {
            data.number(1, nft::REGISTER).nested(2, |value| {
                value.attribute(1, &PORT.to_be_bytes());
            });
        });
        expression(list, c"redir", |data| {
            data.number(1, nft::REGISTER);
        });
    });
    rule(REFUSE, &|list| {
        expression(list, c"ct", |data| {
            data.number(1, nft::REGISTER).number(2, 0);
        });
        expression(list, c"bitwise", |data| {
            data.number(1, nft::REGISTER).number(2, nft::REGISTER).number(3, 4);
            data.nested(4, |mask| {
                mask.attribute(1, &nft::KNOWN.to_ne_bytes());
            });
            data.nested(5, |other| {
                other.attribute(1, &[0; 4]);
            });
        });
        compare(list, 1, &[0; 4]);
        accept(list);
    });
    rule(REFUSE, &|list| {
        is_protocol(list, libc::IPPROTO_UDP);
        payload(list, nft::TRANSPORT_HEADER, 2, 2);
        equals(list, &DNS.to_be_bytes());
        accept(list);
    });
    rule(REFUSE, &|list| {
        is_protocol(list, libc::IPPROTO_UDP);
        reject(list, nft::PORT_UNREACHABLE);
    });
    rule(REFUSE, &|list| reject(list, nft::PROHIBITED));
    messages.acknowledge();
    messages.message(nft::END, 0, &batch, |_nothing| {});
    messages
}

const TABLE: &core::ffi::CStr = c"palisade";
const LEAD: &core::ffi::CStr = c"lead";
const REFUSE: &core::ffi::CStr = c"refuse";

fn expression(list: &mut Messages, name: &core::ffi::CStr, data: impl FnOnce(&mut Messages)) {
    list.nested(1, |element| {
        element.text(1, name).nested(2, data);
    });
}

/// Loads what the packet itself doesn't say.
fn meta(list: &mut Messages, key: u32) {
    expression(list, c"meta", |data| {
        data.number(1, nft::REGISTER).number(2, key);
    });
}

fn payload(list: &mut Messages, base: u32, offset: u32, length: u32) {
    expression(list, c"payload", |data| {
        data.number(1, nft::REGISTER).number(2, base).number(3, offset).number(4, length);
    });
}

fn compare(list: &mut Messages, how: u32, with: &[u8]) {
    expression(list, c"cmp", |data| {
        data.number(1, nft::REGISTER).number(2, how).nested(3, |value| {
            value.attribute(1, with);
        });
    });
}

fn equals(list: &mut Messages, with: &[u8]) {
    compare(list, 0, with);
}

fn is_family(list: &mut Messages, family: i32) {
    meta(list, nft::NF_PROTOCOL);
    equals(list, &[u8::try_from(family).unwrap_or(0)]);
}

fn is_protocol(list: &mut Messages, protocol: i32) {
    meta(list, nft::PROTOCOL);
    equals(list, &[u8::try_from(protocol).unwrap_or(0)]);
}

fn accept(list: &mut Messages) {
    expression(list, c"immediate", |data| {
        data.number(1, nft::VERDICT).nested(2, |value| {
            value.nested(2, |verdict| {
                verdict.number(1, nft::ACCEPT);
            });
        });
    });
}

fn reject(list: &mut Messages, code: u8) {
    expression(list, c"reject", |data| {
        data.number(1, nft::UNREACHABLE).attribute(2, &[code]);
    });
}
