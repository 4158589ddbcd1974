// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranges of addresses, and which addresses belong to the public internet.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A range of addresses with the same leading bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl Cidr {
    /// The range that contains one address. An IPv4-mapped IPv6 address counts as IPv4, as in [`Cidr::contains`].
    #[must_use]
    pub const fn one(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, bits: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// The addresses that share the first `bits` with `address`. `None` if the address has fewer bits. The other bits
    /// of `address` are ignored.
    #[must_use]
    pub fn new(address: IpAddr, bits: u8) -> Option<Self> {
        let mapped = matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some());
        // In `::ffff:0:0/96` and narrower ranges, only the bits of the IPv4 address count.
        let (address, bits) = match bits.checked_sub(96).filter(|_bits| mapped && bits <= 128) {
            Some(bits) => (address.to_canonical(), bits),
            None => (address, bits),
        };
        let one = Self { address, bits: if address.is_ipv4() { 32 } else { 128 } };
        (bits <= one.bits).then(|| {
            let address = match address {
                IpAddr::V4(address) => IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask4(bits))),
                IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask6(bits))),
            };
            Self { address, bits }
        })
    }

    /// The number of leading bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.bits
    }

    /// The first address.
    #[must_use]
    pub const fn first(self) -> IpAddr {
        self.address
    }

    /// Whether the range contains an address. An IPv4-mapped IPv6 address counts as IPv4.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => other.to_bits() & mask4(self.bits) == own.to_bits(),
            (IpAddr::V6(own), IpAddr::V6(other)) => other.to_bits() & mask6(self.bits) == own.to_bits(),
            _ => false,
        }
    }

    /// How wide the range is: the number of free bits. Comparable between address families.
    pub(crate) const fn open(self) -> u8 {
        (if self.address.is_ipv4() { 32 } else { 128 }) - self.bits
    }
}

const fn mask4(bits: u8) -> u32 {
    if bits == 0 { 0 } else { u32::MAX << (32 - bits) }
}

const fn mask6(bits: u8) -> u128 {
    if bits == 0 { 0 } else { u128::MAX << (128 - bits) }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)?;
        if *self == Self::one(self.address) { Ok(()) } else { write!(f, "/{}", self.bits) }
    }
}

impl FromStr for Cidr {
    type Err = ();

    /// `10.0.0.0/8`, `192.0.2.1`, `2001:db8::/32`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_no_address| ())?;
        let Some(bits) = bits else { return Ok(Self::one(address)) };
        if bits.is_empty() || bits.len() > 3 || !bits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(());
        }
        Self::new(address, bits.parse().map_err(|_too_large| ())?).ok_or(())
    }
}

/// IPv4 ranges outside the public internet: IANA's special-purpose registry (RFC 6890 and its successors), multicast,
/// and the address at which Azure's machines get their secrets.
const NOT_PUBLIC_4: [(Ipv4Addr, u8); 17] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 31, 196, 0), 24),
    (Ipv4Addr::new(192, 52, 193, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Multicast, reserved, broadcast.
    (Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// Whether an address belongs to the public internet. Addresses of this host, of private networks, of the link (where
/// clouds serve credentials) and reserved ones don't. If an address embeds an IPv4 address, that one must be public,
/// too.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_4(address),
        IpAddr::V6(address) => is_public_6(address),
    }
}

fn is_public_4(address: Ipv4Addr) -> bool {
    !NOT_PUBLIC_4.iter().any(|(first, bits)| address.to_bits() & mask4(*bits) == first.to_bits())
}

fn is_public_6(address: Ipv6Addr) -> bool {
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_4(inner);
    }
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_public_4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // NAT64 (RFC 6052), and 6to4 (RFC 3056).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => embedded(high, low),
        // Documentation; Teredo, ORCHID, benchmarking and the rest of 2001::/23.
        [0x2001, 0xdb8, ..] | [0x2001, 0..=0x1ff, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // All other assigned addresses (RFC 4291).
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_contain_what_begins_like_them() {
        let range: Cidr = "10.1.2.3/8".parse().unwrap();
        assert_eq!(range.to_string(), "10.0.0.0/8");
        assert!(range.contains("10.255.0.1".parse().unwrap()));
        assert!(range.contains("::ffff:10.0.0.1".parse().unwrap()));
        assert!(!range.contains("11.0.0.1".parse().unwrap()));
        assert!("0.0.0.0/0".parse::<Cidr>().unwrap().contains("1.2.3.4".parse().unwrap()));
        assert!(!"0.0.0.0/0".parse::<Cidr>().unwrap().contains("2001:db8::1".parse().unwrap()));
        assert!("::/0".parse::<Cidr>().unwrap().contains("2001:db8::1".parse().unwrap()));
        assert_eq!("192.0.2.1".parse::<Cidr>().unwrap().to_string(), "192.0.2.1");
        for (mapped, plain) in [
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("::ffff:10.9.9.9/104", "10.0.0.0/8"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
        ] {
            let range: Cidr = mapped.parse().unwrap();
            assert_eq!(range.to_string(), plain);
            assert!(range.contains("10.0.0.1".parse().unwrap()), "{mapped}");
        }
        assert!("::/0".parse::<Cidr>().unwrap().contains("2001:db8::1".parse().unwrap()));
        for wrong in
            ["10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/+8", "10.0.0/8", "1.2.3.4/0008", "a/8", ""]
        {
            assert!(wrong.parse::<Cidr>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_of_the_internet() {
        for private in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.0.1",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "fe80::1",
            "fd00:ec2::254",
            "fc00::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "::127.0.0.1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "192.167.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "64:ff9b::808:808",
            "2002:808:808::",
            "::ffff:8.8.8.8",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }
}
