//! Public and special addresses.

use super::*;

#[track_caller]
fn check(address: &str, want: bool) {
    assert_eq!(is_public(address.parse().unwrap()), want, "{address}");
}

#[test]
fn what_is_not_public() {
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
}

#[test]
fn what_is_public() {
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
        let parsed = parse_network(network).unwrap();
        let address: IpAddr = address.parse().unwrap();
        assert_eq!(parsed.contains(&address), want, "{network} {address}");
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
    for bad in ["", "127.0.0.1/8", "127.0.0.0/33", "127.0.0.0/", "127.0.0.0/+8", "::/129", "a/8"] {
        assert_eq!(parse_network(bad), None, "{bad}");
    }
}
