//! Which addresses are of the public internet, and ranges of addresses. A client whose URLs others
//! choose must not connect to private addresses.
//!
//! It must not know names or URLs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range of addresses: `10.0.0.0/8`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: u128,
    prefix: u8,
    is_v6: bool,
}

impl Network {
    /// Reads `address/prefix` or `address`; bits beyond the prefix are zero. `None` otherwise.
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

    /// Whether `address` lies within.
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

/// Whether an address is one of the public internet, as far as the special-purpose registries of
/// RFC 6890 and its successors tell. An IPv6 address that stands for an IPv4 one is judged as that.
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
        (169, 254, _) => true,      // Link-local: clouds keep their secrets here.
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
    // Only 2000::/3 has been given out; of it, protocols (2001::/23) and documentation are special.
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
mod tests {
    use super::*;

    #[test]
    fn what_is_public() {
        let check = |address: &str, want: bool| {
            assert_eq!(is_public(address.parse().unwrap()), want, "{address}");
        };
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "127.0.0.1",
            "127.255.0.9",
            "100.64.0.1",
            "100.127.255.255",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.9",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "100::1",
            "::127.0.0.1",
        ] {
            check(address, false);
        }
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "169.253.0.1",
            "192.0.1.1",
            "192.167.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.1",
            "2606:4700::1111",
            "2001:200::1",
            "2a00::1",
            "3ffe::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            check(address, true);
        }
    }

    #[test]
    fn networks() {
        let check = |network: &str, address: &str, want: bool| {
            let network = Network::parse(network).unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), want, "{network:?} {address}");
        };
        check("127.0.0.0/8", "127.9.9.9", true);
        check("127.0.0.0/8", "128.0.0.0", false);
        check("127.0.0.1", "127.0.0.1", true);
        check("127.0.0.1", "127.0.0.2", false);
        check("0.0.0.0/0", "8.8.8.8", true);
        check("0.0.0.0/0", "::1", false);
        check("fd00::/8", "fd12::1", true);
        check("fd00::/8", "fe00::1", false);
        check("::1", "::1", true);
        check("::/0", "::ffff:127.0.0.1", true);
        for bad in
            ["", "127.0.0.1/8", "127.0.0.0/33", "127.0.0.0/", "127.0.0.0/+8", "::/129", "a/8"]
        {
            assert_eq!(Network::parse(bad), None, "{bad}");
        }
    }
}
