//! A row for every refusal, and the specification's own requests.

use super::*;

#[track_caller]
fn check(body: &str, want: Result<(), (InvalidReason, &str)>) {
    let got = parse_request(body);
    match (got, want) {
        (Ok(_), Ok(())) => (),
        (Err(invalid), Err((reason, text))) => {
            assert_eq!((invalid.reason, invalid.to_string().as_str()), (reason, text), "{body}");
        }
        (got, want) => panic!("{body}: got {got:?}, want {want:?}"),
    }
}

/// A valid request with `imp` members and request members added.
fn request(imp: &str, more: &str) -> String {
    format!(r#"{{"id":"r","imp":[{{"id":"1"{imp}}}]{more}}}"#)
}

const BANNER: &str = r#","banner":{"w":300,"h":250}"#;

#[test]
fn whole_bodies() {
    use InvalidReason::{NotJson, TooDeep, WrongType};
    check("", Err((NotJson, "EOF while parsing a value at line 1 column 0")));
    check("{\"id\":", Err((NotJson, "id: EOF while parsing a value at line 1 column 6")));
    check("{\"id\":\"c\"", Err((NotJson, "EOF while parsing an object at line 1 column 9")));
    check("hello", Err((NotJson, "expected value at line 1 column 1")));
    check("[]", Err((WrongType, "is an array, expected an object")));
    let positional =
        r#"["r",[{"id":"1","banner":{}}],null,null,null,null,null,null,null,null,null,"#;
    let positional =
        format!("{positional}null,null,null,null,null,null,null,null,null,null,null,null]");
    check(&positional, Err((WrongType, "is an array, expected an object")));
    let user = "user: is an array, expected an object";
    check(&request(BANNER, r#","user":[null,null,null,null]"#), Err((WrongType, user)));
    check("7", Err((WrongType, "`7` is a number, expected an object")));
    check(&(request(BANNER, "") + "x"), Err((NotJson, "trailing characters at line 1 column 57")));
    let deep = format!(r#","ext":{}{}"#, "[".repeat(64), "]".repeat(64));
    let text = "nested deeper than 64 arrays and objects";
    check(&request(BANNER, &deep), Err((TooDeep, text)));
    // Whatever else is wrong.
    check(&request(&format!(r#"{BANNER},"instl":"x""#), &deep), Err((TooDeep, text)));
    let deep = format!(r#","ext":{}{}"#, "[".repeat(63), "]".repeat(63));
    check(&request(BANNER, &deep), Ok(()));
    // Objects that the standard has within their own kind.
    let regs = |levels: usize| {
        let more = format!(r#","regs":{}{{}}{}"#, r#"{"ext":"#.repeat(levels), "}".repeat(levels));
        request(BANNER, &more)
    };
    check(&regs(62), Ok(()));
    for levels in [63, 30_000] {
        check(&regs(levels), Err((TooDeep, text)));
    }
    let data = |levels: usize| {
        let inner = r#"[{"segment":"#.repeat(levels) + "[]" + &"}]".repeat(levels);
        request(BANNER, &format!(r#","user":{{"data":{inner}}}"#))
    };
    check(&data(30), Ok(()));
    for levels in [31, 20_000] {
        check(&data(levels), Err((TooDeep, text)));
    }
}

#[test]
fn request_level() {
    use InvalidReason::{Missing, SeveralChannels, Unsupported, WrongType};
    check("{}", Err((Missing, "id: required")));
    check(r#"{"id":""}"#, Err((Missing, "id: required: it is empty")));
    check(r#"{"id":7}"#, Err((WrongType, "id: `7` is a number, expected a string")));
    check(r#"{"id":"r"}"#, Err((Missing, "imp: required: at least one impression")));
    check(r#"{"id":"r","imp":[]}"#, Err((Missing, "imp: required: at least one impression")));
    check(r#"{"id":"r","id":"r"}"#, Err((WrongType, "`id` stands twice")));
    let channels = "only one of `site`, `app` and `dooh` may stand in a request";
    for more in [r#","site":{},"app":{}"#, r#","app":{},"dooh":{}"#, r#","site":{},"dooh":{}"#] {
        check(&request(BANNER, more), Err((SeveralChannels, channels)));
    }
    check(&request(BANNER, r#","site":null,"app":{}"#), Ok(()));
    let at = "at: auction type 500 is not offered; 1 (first price) and 2 (second) are";
    check(&request(BANNER, r#","at":500"#), Err((Unsupported, at)));
    let tmax = "tmax: `-1` is a number, expected a whole number from 0 to 4294967295";
    check(&request(BANNER, r#","tmax":-1"#), Err((WrongType, tmax)));
    let cur = "cur[1]: `usd` is not an ISO 4217 code such as `USD`";
    check(&request(BANNER, r#","cur":["USD","usd"]"#), Err((WrongType, cur)));
    let country = "device.geo.country: `1` is a number, expected a string";
    check(&request(BANNER, r#","device":{"geo":{"country":1}}"#), Err((WrongType, country)));
    let uids = "user.ext.buyeruids.a: `1` is a number, expected a string";
    check(&request(BANNER, r#","user":{"ext":{"buyeruids":{"a":1}}}"#), Err((WrongType, uids)));
}

/// What is wrong is said of JSON's types, and text that a caller chose is cut.
#[test]
fn messages_speak_of_json() {
    let of_imp = |imp: &str| request(&format!(r#"{BANNER},{imp}"#), "");
    let more = |more: &str| request(BANNER, &format!(",{more}"));
    let long = format!(r#"bapp: `{}` is a string, expected an array"#, "x".repeat(40));
    for (body, want) in [
        (more(r#""wseat":{}"#), "wseat: is an object, expected an array"),
        (more(r#""wseat":[1.5]"#), "wseat[0]: `1.5` is a number, expected a string"),
        (
            more(r#""at":true"#),
            "at: `true` is a boolean, expected a whole number from 0 to 4294967295",
        ),
        (more(r#""at":"2""#), "at: `2` is a string, expected a whole number from 0 to 4294967295"),
        (more(r#""test":256"#), "test: `256` is a number, expected a whole number from 0 to 255"),
        (
            more(r#""tmax":1.5"#),
            "tmax: `1.5` is a number, expected a whole number from 0 to 4294967295",
        ),
        (more(r#""cur":7"#), "cur: `7` is a number, expected an array"),
        (more(r#""cur":[null]"#), "cur[0]: is null, expected a string"),
        (more(r#""site":[]"#), "site: is an array, expected an object"),
        (more(r#""user":7"#), "user: `7` is a number, expected an object"),
        (more(&format!(r#""bapp":"{}""#, "x".repeat(999))), &long),
        (
            of_imp(r#""qty":"x, expected y""#),
            "imp[0].qty: `x, expected y` is a string, expected an object",
        ),
        (
            of_imp(r#""pmp":{"deals":[1]}"#),
            "imp[0].pmp.deals[0]: `1` is a number, expected an object",
        ),
        (of_imp(r#""secure":1,"secure":1"#), "imp[0]: `secure` stands twice"),
    ] {
        check(&body, Err((InvalidReason::WrongType, want)));
    }
    for (answer, want) in [
        (r#"{"seatbid":{}}"#, "seatbid: is an object, expected an array"),
        (r#"{"seatbid":[{}]}"#, "seatbid[0]: `bid` is required"),
        (r#"{"cur":["USD"]}"#, "cur: is an array, expected a string"),
        (r#"[]"#, "is an array, expected an object"),
    ] {
        let invalid = crate::bid_texts(answer).map(|_| ()).expect_err(answer);
        assert_eq!(invalid.to_string(), want, "{answer}");
    }
}

/// What says nothing, and whole numbers with a point, are as good as absent and as whole numbers.
#[test]
fn loose_fields_are_read_with_tolerance() {
    let imp = r#","banner":{"w":300.0,"h":25e1,"battr":[1.0]},"bidfloorcur":"","secure":1.0,
        "pmp":{"deals":[{"id":"d","bidfloorcur":"","at":1.0}]}"#;
    let more = r#","cur":["","EUR"],"tmax":120.0,"at":2.0,"site":{"publisher":{"id":""}}"#;
    let body = request(imp, more);
    let parsed = parse_request(&body).unwrap_or_else(|invalid| panic!("{invalid}"));
    let first = &parsed.imps()[0];
    let banner = first.banner.as_ref().expect("a banner");
    assert_eq!(
        (banner.w, banner.h, banner.battr.as_deref()),
        (Some(300), Some(250), Some(&[1][..]))
    );
    assert_eq!((first.bidfloorcur.as_deref(), first.secure), (None, Some(1)));
    assert_eq!((first.deals()[0].bidfloorcur.as_deref(), first.deals()[0].at), (None, Some(1)));
    assert_eq!((parsed.publisher_id(), parsed.at), (None, Some(2)));
    let tmax = parsed.tmax.as_ref().expect("a tmax");
    assert_eq!((**tmax, tmax.raw()), (120, "120.0"));
    let cur = |body: &str| {
        let parsed = parse_request(body).unwrap_or_else(|invalid| panic!("{invalid}"));
        parsed.cur.map(|cur| cur.iter().map(|code| code.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(cur(&body), Some(vec!["EUR".to_owned()]));
    for none in [r#","cur":"""#, r#","cur":[""]"#, r#","cur":[]"#] {
        assert_eq!(cur(&request(BANNER, none)), Some(vec![]), "{none}");
    }
    assert_eq!(cur(&request(BANNER, r#","cur":null"#)), None);
}

#[test]
fn counts_at_their_edges() {
    let imps = |n: usize| {
        let imps: Vec<_> = (0..n).map(|id| format!(r#"{{"id":"{id}","banner":{{}}}}"#)).collect();
        format!(r#"{{"id":"r","imp":[{}]}}"#, imps.join(","))
    };
    check(&imps(IMPS_MAX), Ok(()));
    let text = "imp: more than 64 impressions";
    check(&imps(IMPS_MAX + 1), Err((InvalidReason::TooMany, text)));
    check(&imps(9 * IMPS_MAX), Err((InvalidReason::TooMany, text)));
    let deals = |n: usize| {
        let deals: Vec<_> = (0..n).map(|id| format!(r#"{{"id":"{id}"}}"#)).collect();
        request(&format!(r#"{BANNER},"pmp":{{"deals":[{}]}}"#, deals.join(",")), "")
    };
    check(&deals(DEALS_MAX), Ok(()));
    let text = "imp: more than 128 deals in one request";
    check(&deals(DEALS_MAX + 1), Err((InvalidReason::TooMany, text)));
    check(&deals(9 * DEALS_MAX), Err((InvalidReason::TooMany, text)));
    let seats = |n: usize, deals: usize| {
        let list = vec!["\"s\""; n].join(",");
        let deals: Vec<_> =
            (0..deals).map(|id| format!(r#"{{"id":"{id}","wseat":[{list}]}}"#)).collect();
        request(&format!(r#"{BANNER},"pmp":{{"deals":[{}]}}"#, deals.join(",")), "")
    };
    check(&seats(DEAL_SEATS_MAX, 1), Ok(()));
    check(&seats(DEAL_SEATS_MAX / DEALS_MAX, DEALS_MAX), Ok(()));
    let text = "imp: more than 2048 seats in the `wseat` of all deals";
    check(&seats(DEAL_SEATS_MAX + 1, 1), Err((InvalidReason::TooMany, text)));
    check(&seats(DEAL_SEATS_MAX / DEALS_MAX + 1, DEALS_MAX), Err((InvalidReason::TooMany, text)));
}

#[test]
fn lists_at_their_edges() {
    let list = |n: usize| vec!["\"x\""; n].join(",");
    for key in ["wseat", "bseat", "wlang", "wlangb", "acat", "bcat", "badv", "bapp"] {
        check(&request(BANNER, &format!(r#","{key}":[{}]"#, list(LIST_MAX))), Ok(()));
        let text = format!("{key}: more than 10000 entries");
        let more = format!(r#","{key}":[{}]"#, list(LIST_MAX + 1));
        check(&request(BANNER, &more), Err((InvalidReason::TooMany, &text)));
    }
    let cur = |n: usize| format!(r#","cur":[{}]"#, vec!["\"USD\""; n].join(","));
    check(&request(BANNER, &cur(LIST_MAX)), Ok(()));
    let text = "cur: more than 10000 entries";
    check(&request(BANNER, &cur(LIST_MAX + 1)), Err((InvalidReason::TooMany, text)));
    for format in ["video", "audio"] {
        let mimes = |n: usize| format!(r#","{format}":{{"mimes":[{}]}}"#, list(n));
        check(&request(&mimes(LIST_MAX), ""), Ok(()));
        let text = format!("imp[0].{format}.mimes: more than 10000 entries");
        check(&request(&mimes(LIST_MAX + 1), ""), Err((InvalidReason::TooMany, &text)));
    }
    let formats = |n: usize| {
        request(
            &format!(r#","banner":{{"format":[{}]}}"#, vec![r#"{"w":1,"h":1}"#; n].join(",")),
            "",
        )
    };
    check(&formats(FORMATS_MAX), Ok(()));
    let text = "imp[0].banner.format: more than 64 entries";
    check(&formats(FORMATS_MAX + 1), Err((InvalidReason::TooMany, text)));
}

#[test]
fn lists_of_an_impression_at_their_edges() {
    for (format, keys) in [
        ("banner", vec!["btype", "battr", "api"]),
        ("video", vec!["battr", "api", "protocols", "rqddurs", "durfloors"]),
        ("audio", vec!["battr", "api", "protocols", "rqddurs", "durfloors"]),
        ("native", vec!["battr", "api"]),
    ] {
        for key in keys {
            let (element, max) =
                if key == "durfloors" { ("{}", DURFLOORS_MAX) } else { ("7", CODES_MAX) };
            let own = |n: usize| {
                let list = vec![element; n].join(",");
                let more = format!(r#""mimes":["m"],"request":"{{}}","{key}":[{list}]"#);
                request(&format!(r#","{format}":{{{more}}}"#), "")
            };
            check(&own(max), Ok(()));
            let text = format!("imp[0].{format}.{key}: more than 64 entries");
            check(&own(max + 1), Err((InvalidReason::TooMany, &text)));
            check(&own(9 * max), Err((InvalidReason::TooMany, &text)));
        }
    }
    let deal = |n: usize| {
        let floors = vec!["{}"; n].join(",");
        let pmp = format!(r#","pmp":{{"deals":[{{"id":"d","durfloors":[{floors}]}}]}}"#);
        request(&format!("{BANNER}{pmp}"), "")
    };
    check(&deal(DURFLOORS_MAX), Ok(()));
    let text = "imp[0].pmp.deals[0].durfloors: more than 64 entries";
    check(&deal(DURFLOORS_MAX + 1), Err((InvalidReason::TooMany, text)));
}

/// All lists of domains together: each costs the same work.
#[test]
fn domains_beyond_ascii_at_their_edge() {
    let half = "\u{e9}".repeat(IDN_BYTES_MAX / 4);
    let of = |badv: &str, wadomain: &str| {
        let pmp = format!(r#","pmp":{{"deals":[{{"id":"d","wadomain":["{wadomain}"]}}]}}"#);
        request(&format!("{BANNER}{pmp}"), &format!(r#","badv":["plain.example","{badv}"]"#))
    };
    check(&of(&half, &half), Ok(()));
    let text = "badv: more than 32768 bytes of domains that are not ASCII: write them as `xn--`";
    check(&of(&half, &format!("{half}\u{e9}")), Err((InvalidReason::TooMany, text)));
    check(&of(&"x".repeat(9 * IDN_BYTES_MAX), &half), Ok(()));
}

#[test]
fn impressions() {
    use InvalidReason::{Duplicate, Missing, NoFormat, NotJson, WrongType};
    check(r#"{"id":"r","imp":[{"banner":{}}]}"#, Err((Missing, "imp[0].id: required")));
    let twice = r#"{"id":"r","imp":[{"id":"a","banner":{}},{"id":"a","banner":{}}]}"#;
    check(twice, Err((Duplicate, "imp[1].id: `a` stands twice")));
    let none = "imp[0]: offers no format: one of `banner`, `video`, `audio`, `native` is required";
    check(&request("", ""), Err((NoFormat, none)));
    check(&request(r#","banner":null"#, ""), Err((NoFormat, none)));
    let size = "imp[0].banner.w: `-1` is a number, expected a whole number from 0 to 4294967295";
    check(&request(r#","banner":{"w":-1}"#, ""), Err((WrongType, size)));
    let size = "imp[0].banner.format[0].h: `-250` is a number, expected a whole number from 0 to 4294967295";
    check(&request(r#","banner":{"format":[{"h":-250}]}"#, ""), Err((WrongType, size)));
    let time =
        "imp[0].video.minduration: `-5` is a number, expected a whole number from 0 to 4294967295";
    check(&request(r#","video":{"minduration":-5}"#, ""), Err((WrongType, time)));
    for media in ["video", "audio"] {
        let text = format!("imp[0].{media}.mimes: required: at least one MIME type");
        for body in ["{}", r#"{"mimes":[]}"#] {
            check(&request(&format!(r#","{media}":{body}"#), ""), Err((NoFormat, &text)));
        }
    }
    let native =
        "imp[0].native.request: is not JSON: a JSON-encoded Native Ads request is required";
    check(&request(r#","native":{}"#, ""), Err((Missing, "imp[0].native.request: required")));
    check(&request(r#","native":{"request":"{"}"#, ""), Err((NotJson, native)));
    check(&request(r#","native":{"request":"{\"ver\":\"1.2\"}"}"#, ""), Ok(()));
    let floor = "imp[0].bidfloor: `-0.1` is a negative price";
    check(&request(&format!(r#"{BANNER},"bidfloor":-0.1"#), ""), Err((WrongType, floor)));
    let floor = "imp[0].bidfloor: `\"1\"` is not a price, expected a number";
    check(&request(&format!(r#"{BANNER},"bidfloor":"1""#), ""), Err((WrongType, floor)));
    let cur = "imp[0].bidfloorcur: `EURO` is not an ISO 4217 code such as `USD`";
    check(&request(&format!(r#"{BANNER},"bidfloorcur":"EURO""#), ""), Err((WrongType, cur)));
    let qty = "imp[0].qty.multiplier: `0` is not a number above zero and at most 1000000";
    check(&request(&format!(r#"{BANNER},"qty":{{"multiplier":0}}"#), ""), Err((WrongType, qty)));
    let qty = "imp[0].qty.multiplier: required";
    check(&request(&format!(r#"{BANNER},"qty":{{}}"#), ""), Err((Missing, qty)));
}

#[test]
fn deals() {
    use InvalidReason::{Duplicate, Missing, Unsupported, WrongType};
    let check = |deals: &str, want| {
        check(&request(&format!(r#"{BANNER},"pmp":{{"deals":[{deals}]}}"#), ""), want);
    };
    check(r#"{"id":"a"},{"id":"b","at":3,"bidfloor":0}"#, Ok(()));
    check("{}", Err((Missing, "imp[0].pmp.deals[0].id: required")));
    check(r#"{"id":""}"#, Err((Missing, "imp[0].pmp.deals[0].id: required: it is empty")));
    let twice = "imp[0].pmp.deals[1].id: a deal with this id stands earlier in the impression";
    check(r#"{"id":"a"},{"id":"a"}"#, Err((Duplicate, twice)));
    let at = "imp[0].pmp.deals[0].at: auction type 4 is not offered to deals; 1, 2 and 3 are";
    check(r#"{"id":"a","at":4}"#, Err((Unsupported, at)));
    let agreed = "imp[0].pmp.deals[0].bidfloor: required with `at` 3, where it is the agreed price";
    check(r#"{"id":"a","at":3}"#, Err((Missing, agreed)));
    let cur = "imp[0].pmp.deals[0].bidfloorcur: `X` is not an ISO 4217 code such as `USD`";
    check(r#"{"id":"a","bidfloorcur":"X"}"#, Err((WrongType, cur)));
    let floor = "imp[0].pmp.deals[0].durfloors[0].bidfloor: `1e99` is above any price";
    check(r#"{"id":"a","durfloors":[{"bidfloor":1e99}]}"#, Err((WrongType, floor)));
}

/// Every example request of section 6.2, and both of section 7.9.6.
#[test]
fn the_specifications_requests_are_valid() {
    for (name, body) in examples::REQUESTS {
        if let Err(invalid) = parse_request(body) {
            panic!("{name}: {invalid}");
        }
    }
}

/// Every example response of section 6.3, and both of section 7.9.6: of the latter, the banner has
/// its markup in a member that the standard does not know, and the video is not JSON.
#[test]
fn the_specifications_responses_parse() {
    for (name, body) in examples::RESPONSES {
        let response = match (crate::parse_response(body), *name) {
            (Err(invalid), "response-dooh-video") => {
                assert_eq!(invalid.reason, InvalidReason::NotJson, "{name}");
                continue;
            }
            (Err(invalid), _) => panic!("{name}: {invalid}"),
            (Ok(response), _) => response,
        };
        let bid = &response.seatbid.as_ref().expect("examples bid")[0].bid[0];
        assert!(bid.price().is_ok(), "{name}");
        assert_eq!(bid.has_markup(), *name != "response-dooh-banner", "{name}");
    }
}

mod examples {
    //! The specification's examples, as files. OpenRTB 2.6-202606, © IAB Tech Lab, CC BY 3.0.

    macro_rules! files {
        ($($name:literal),* $(,)?) => {
            &[$(($name, include_str!(concat!("../../tests/spec/", $name, ".json")))),*]
        };
    }

    pub(super) const REQUESTS: &[(&str, &str)] = files![
        "request-banner",
        "request-expandable",
        "request-mobile",
        "request-video",
        "request-pmp",
        "request-dooh-banner",
        "request-dooh-video",
    ];

    pub(super) const RESPONSES: &[(&str, &str)] = files![
        "response-notice",
        "response-vast",
        "response-deal",
        "response-native",
        "response-dooh-banner",
        "response-dooh-video",
    ];
}
