//! What is masked, and what is not.

use proptest::prelude::*;

use super::*;

const NOTHING: Masks = Masks { user_ids: false, ip: false, geo: GeoMask::Keep, profile: false };
const USER_IDS: Masks = Masks { user_ids: true, ..NOTHING };
const IP: Masks = Masks { ip: true, ..NOTHING };
const CUT: Masks = Masks { geo: GeoMask::Cut { decimals: 2 }, ..NOTHING };
const WHOLE: Masks = Masks { geo: GeoMask::Cut { decimals: 0 }, ..NOTHING };
const REMOVE: Masks = Masks { geo: GeoMask::Remove, ..NOTHING };
const ALL: Masks = Masks::COPPA;

#[track_caller]
fn check(masks: Masks, request: &str, want: &str) {
    let masked = masks.apply(request).expect("it is an object");
    assert_eq!(String::from_utf8(masked).as_deref(), Ok(want), "{request}");
}

#[test]
fn ids_of_users_go() {
    check(NOTHING, r#"{"user":{"id":"u"}}"#, r#"{"user":{"id":"u"}}"#);
    check(
        USER_IDS,
        r#"{"user":{"id":"u","buyeruid":"b","customdata":"c","eids":[{"source":"s"}],"yob":1980}}"#,
        r#"{"user":{"yob":1980}}"#,
    );
    check(
        USER_IDS,
        r#"{"user":{"ext":{"eids":[1],"buyeruids":{"a":"1"},"consent":"x","prebid":{"buyeruids":{"a":"1"},"y":2}}}}"#,
        r#"{"user":{"ext":{"consent":"x","prebid":{"y":2}}}}"#,
    );
    check(
        USER_IDS,
        r#"{"device":{"ifa":"i","didsha1":"1","didmd5":"2","dpidsha1":"3","dpidmd5":"4","macsha1":"5","macmd5":"6","ua":"x"}}"#,
        r#"{"device":{"ua":"x"}}"#,
    );
    check(
        USER_IDS,
        r#"{"device":{"ext":{"ifv":"1","idfv":"2","IFV":"1","IDFV":"2","atts":3}}}"#,
        r#"{"device":{"ext":{"atts":3}}}"#,
    );
    // Escaped, twice, and of a wrong type.
    check(USER_IDS, r#"{"us\u0065r":{"\u0069d":"u","id":"v"}}"#, r#"{"user":{}}"#);
    check(USER_IDS, r#"{"user":"u","device":[{"ifa":"i"}]}"#, "{}");
    check(USER_IDS, r#"{"user":{"ext":"u","id":null}}"#, r#"{"user":{}}"#);
    check(USER_IDS, r#"{"user":null}"#, r#"{"user":null}"#);
    let others = r#"{"id":"r","site":{"id":"s","publisher":{"id":"p"}},"imp":[{"id":"1"}]}"#;
    check(ALL, others, others);
}

#[test]
fn addresses_are_cut_to_their_network() {
    let ip = |address: &str| format!(r#"{{"device":{{"ip":"{address}"}}}}"#);
    for (address, network) in [
        ("203.0.113.77", "203.0.113.0"),
        ("255.255.255.255", "255.255.255.0"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1::"),
        ("2001:DB8:1::", "2001:db8:1::"),
        ("::ffff:203.0.113.77", "203.0.113.0"),
        ("fe80::1", "fe80::"),
        // 6to4 contains an IPv4 address.
        ("2002:cb00:714d:1::1", "2002:cb00:7100::"),
        ("2003:cb00:714d:1::1", "2003:cb00:714d::"),
    ] {
        check(IP, &ip(address), &ip(network));
        let v6 = |text: String| text.replace("\"ip\"", "\"ipv6\"");
        check(IP, &v6(ip(address)), &v6(ip(network)));
    }
    for none in ["", "x", "203.0.113", "203.0.113.77:80", "fe80::1%eth0", " 203.0.113.77"] {
        check(IP, &ip(none), r#"{"device":{}}"#);
    }
    check(IP, r#"{"device":{"ip":7,"ua":"203.0.113.77"}}"#, r#"{"device":{"ua":"203.0.113.77"}}"#);
    check(IP, r#"{"device":{"ip":"203.0.113.\u0037"}}"#, &ip("203.0.113.0"));
}

#[test]
fn places_are_cut_or_go() {
    let geo = |lat: &str, lon: &str| {
        format!(r#"{{"device":{{"geo":{{"lat":{lat},"country":"DEU","lon":{lon}}}}}}}"#)
    };
    check(NOTHING, &geo("52.520008", "13.404954"), &geo("52.520008", "13.404954"));
    check(CUT, &geo("52.520008", "-13.404954"), &geo("52.52", "-13.40"));
    check(CUT, &geo("52.5", "-13"), &geo("52.5", "-13"));
    check(WHOLE, &geo("52.520008", "-0.4"), &geo("52", "-0"));
    let gone = r#"{"device":{"geo":{"country":"DEU"}}}"#;
    check(REMOVE, &geo("52.520008", "13.404954"), gone);
    // An exponent hides the precision; text is not a coordinate.
    check(CUT, &geo("5252.0008e-2", "\"13.404954\""), gone);
    check(CUT, &geo("[52.520008]", "null"), gone);
    let home = r#"{"user":{"geo":{"lat":52.520008,"city":"Berlin"}}}"#;
    check(REMOVE, home, r#"{"user":{"geo":{"city":"Berlin"}}}"#);
    check(CUT, home, r#"{"user":{"geo":{"lat":52.52,"city":"Berlin"}}}"#);
    check(REMOVE, r#"{"user":{"geo":"Berlin"}}"#, r#"{"user":{}}"#);
}

#[test]
fn postal_codes_and_accuracy_go_with_the_place() {
    let of = |geo: &str| format!(r#"{{"user":{{"geo":{geo}}},"device":{{"geo":{geo}}}}}"#);
    let exact = r#"{"zip":"10117","accuracy":5,"metro":"1","type":1}"#;
    check(NOTHING, &of(exact), &of(exact));
    check(CUT, &of(exact), &of(r#"{"metro":"1","type":1}"#));
    check(REMOVE, &of(exact), &of(r#"{"metro":"1","type":1}"#));
}

#[test]
fn profiles_go_and_consent_stays() {
    let user = concat!(
        r#"{"yob":2015,"gender":"F","keywords":"toys","kwarray":["toys"],"data":[{"id":"d"}],"#,
        r#""consent":"CO","ext":{"data":{"k":"v"},"consent":"CE","ConsentedProvidersSettings":{},"x":1}}"#
    );
    let of = |user: &str| format!(r#"{{"user":{user}}}"#);
    check(Masks::LIMITED, &of(user), &of(user));
    let kept = r#"{"consent":"CO","ext":{"consent":"CE","ConsentedProvidersSettings":{}}}"#;
    check(Masks::COPPA, &of(user), &of(kept));
    let device = r#"{"device":{"ua":"x","ext":{"atts":3,"x":"id"}}}"#;
    check(Masks::LIMITED, device, device);
    check(Masks::COPPA, device, r#"{"device":{"ua":"x"}}"#);
}

#[test]
fn what_is_not_known_stays() {
    let request = r#"{"id":"r\u0041","x":[1,  2.50e1],"user":{"new":{"id":"n"}},"device":{"new":{"lat":1.23456}},"ext":{"user":{"id":"e"}}}"#;
    check(ALL, request, request);
    check(ALL, r#" { "a" : 1 , "b":{} } "#, r#"{"a":1,"b":{}}"#);
    check(ALL, r#"{"a\"b":1}"#, r#"{"a\"b":1}"#);
}

#[test]
fn what_cannot_be_read_is_not_recorded() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(70), "]".repeat(70));
    for text in ["", "[]", "7", "{", "{\"user\":{\"id\":\"u\"}", "{} x", &deep] {
        assert_eq!(ALL.apply(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn masking_is_final(
        id in "[a-z\"\\\\]{0,6}", lat in -9_000_000i64..9_000_000, a in any::<[u8; 4]>(),
        b in any::<[u16; 8]>(), user_ids in any::<bool>(), ip in any::<bool>(), decimals in 0..6u8,
    ) {
        let (v4, v6) = (Ipv4Addr::from(a), Ipv6Addr::from(b));
        let (whole, part) = (lat / 100_000, (lat % 100_000).unsigned_abs());
        let id = escaped(&id);
        let request = format!(
            r#"{{"user":{{"id":"{id}","k":"{id}"}},"device":{{"ip":"{v4}","ipv6":"{v6}","geo":{{"lat":{whole}.{part:05}}}}}}}"#
        );
        let masks = Masks { user_ids, ip, geo: GeoMask::Cut { decimals }, profile: false };
        let once = String::from_utf8(masks.apply(&request).expect("an object")).expect("text");
        prop_assert!(openrtb::is_json(&once), "{once}");
        let again = masks.apply(&once).map(|bytes| String::from_utf8(bytes).expect("text"));
        prop_assert_eq!(again.as_deref(), Some(&*once));
        let kept = format!(r#""k":"{id}""#);
        prop_assert!(once.contains(&kept), "{once}");
    }
}
