//! Ranges of addresses, and which addresses are public. A client whose URLs others choose must not
//! connect to private addresses. This module must not know names or URLs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range of addresses: `10.0.0.0/8`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: u128,
    prefix: u8,
    is_v6: bool,
}

impl Network {
    /// Parses `address/prefix` or `address`. None if it is invalid or has bits beyond the prefix.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let (first, is_v6, bits) = match address {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()), false, 32),
            IpAddr::V6(v6) => (v6.to_bits(), true, 128),
        };
        let prefix = match prefix {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|prefix| *prefix <= bits)?
            }
            Some(_) => return None,
            None => bits,
        };
        let network = Self { first, prefix, is_v6 };
        (network.masked(first) == first).then_some(network)
    }

    /// Whether the range contains `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (bits, is_v6) = match address {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()), false),
            IpAddr::V6(v6) => (v6.to_bits(), true),
        };
        is_v6 == self.is_v6 && self.masked(bits) == self.first
    }

    fn masked(&self, bits: u128) -> u128 {
        let host_bits = if self.is_v6 { 128 - self.prefix } else { 32 - self.prefix };
        let mask = u128::MAX.checked_shl(host_bits.into()).unwrap_or(0);
        bits & mask
    }
}

/// Whether an address is on the public internet, according to the special-purpose registries of RFC
/// 6890 and its successors. An IPv6 address that embeds an IPv4 one counts as that one.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => match embedded_v4(v6) {
            Some(v4) => is_public_v4(v4),
            None => is_public_v6(v6),
        },
    }
}

fn is_public_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    let special = match (a, b, c) {
        (0 | 10 | 127, ..) => true, // "This network", private, loopback.
        (100, 64..=127, _) => true, // Shared by carriers (RFC 6598).
        (169, 254, _) => true,      // Link-local: cloud metadata.
        (172, 16..=31, _) => true,  // Private.
        (192, 0, 0 | 2) => true,    // Protocols, documentation.
        (192, 88, 99) => true,      // 6to4 relays.
        (192, 168, _) => true,      // Private.
        (198, 18 | 19, _) => true,  // Benchmarks.
        (198, 51, 100) => true,     // Documentation.
        (203, 0, 113) => true,      // Documentation.
        (224..=255, ..) => true,    // Multicast, reserved, broadcast.
        _ => false,
    };
    !special
}

fn is_public_v6(v6: Ipv6Addr) -> bool {
    let [a, b, ..] = v6.segments();
    // Only 2000::/3 is allocated; in it, protocols (2001::/23) and documentation are special.
    let is_global = a & 0xe000 == 0x2000;
    let is_protocol = a == 0x2001 && b < 0x0200;
    let is_documentation = (a == 0x2001 && b == 0x0db8) || (a == 0x3fff && b < 0x1000);
    is_global && !is_protocol && !is_documentation
}

/// The IPv4 address that an IPv6 one maps (RFC 4291), translates (RFC 6052) or tunnels (RFC 3056).
fn embedded_v4(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = v6.segments();
    let at = |index: usize| {
        let bits = u32::from(segments[index]) << 16 | u32::from(segments[index + 1]);
        Ipv4Addr::from_bits(bits)
    };
    match segments {
        [0, 0, 0, 0, 0, 0xffff, ..] => Some(at(6)),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(at(6)),
        [0x2002, ..] => Some(at(1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
