//! Ranges of addresses, and which addresses are public. A client whose URLs others choose must not
//! connect to private addresses. This module must not know names or URLs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Parses a range, `10.0.0.0/8`, or a single address. None if it is neither, or has bits beyond the
/// prefix.
pub fn parse_network(text: &str) -> Option<IpNet> {
    let network = match text.parse::<IpAddr>() {
        Ok(address) => address.into(),
        Err(_) => text.parse::<IpNet>().ok()?,
    };
    (network.trunc() == network).then_some(network)
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
