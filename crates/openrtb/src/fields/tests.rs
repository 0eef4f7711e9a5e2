//! A row for every field of the table, and that what goes out is JSON without what was removed.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::MISTYPED_MAX;
use crate::invalid::InvalidReason;
use crate::outbound::{Editor, OutboundView};
use crate::validate::parse_request;

const VIEW: OutboundView<'_> = OutboundView {
    imps: !0,
    deals: !0,
    tmax: "1",
    cur: "[]",
    buyeruid: None,
    bidder: None,
    is_limited: false,
};

/// The start of a request, in which each field of a path is written by [`with`].
fn base() -> Value {
    json!({ "tmax": 1, "cur": [], "id": "r", "imp": [{ "id": "1", "banner": {},
        "video": { "mimes": ["v"] }, "audio": { "mimes": ["a"] }, "native": { "request": "{}" } }] })
}

/// `base` with `value` at `path`, whose parts are keys and positions.
fn with(path: &str, value: Value) -> Value {
    let mut request = base();
    let mut place = &mut request;
    for part in path.split('.') {
        place = match part.parse::<usize>() {
            Ok(index) => {
                if place.is_null() {
                    *place = json!([{}]);
                }
                &mut place[index]
            }
            Err(_) => {
                if place.is_null() {
                    *place = json!({});
                }
                place.as_object_mut().expect("an object").entry(part).or_insert(Value::Null)
            }
        };
    }
    *place = value;
    request
}

fn sent(request: &Value) -> Result<(Value, Vec<String>), (InvalidReason, String)> {
    let body = request.to_string();
    let parsed = parse_request(&body).map_err(|invalid| (invalid.reason, invalid.to_string()))?;
    let text = Editor::new(&body, &parsed).finish().to_text(&VIEW);
    let sent = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    Ok((sent, parsed.mistyped().to_vec()))
}

/// Keys by type, at each place that has some: `text`, `whole`, `number`, `texts`, `wholes`, `ext`.
const OPTIONAL: [(&str, &str, &str); 59] = [
    ("", "whole", "allimps"),
    ("", "ext", "ext"),
    ("source", "whole", "fd"),
    ("source", "text", "tid pchain"),
    ("imp.0", "text", "displaymanager displaymanagerver tagid"),
    ("imp.0", "whole", "clickbrowser rwdd"),
    ("imp.0", "number", "dt"),
    ("imp.0", "texts", "iframebuster"),
    ("imp.0", "ext", "ext refresh"),
    ("imp.0.refresh", "whole", "count"),
    ("imp.0.refresh.refsettings.0", "whole", "reftype minint"),
    ("imp.0.banner", "whole", "pos topframe vcm"),
    ("imp.0.banner", "wholes", "expdir"),
    ("imp.0.banner", "texts", "mimes"),
    ("imp.0.banner", "text", "id"),
    ("imp.0.banner", "ext", "ext"),
    ("imp.0.video", "text", "podid"),
    ("imp.0.video", "whole", "startdelay maxseq w h podseq placement plcmt linearity skip skipmin"),
    ("imp.0.video", "whole", "skipafter sequence slotinpod minbitrate maxbitrate"),
    ("imp.0.video", "whole", "boxingallowed playbackend pos"),
    ("imp.0.video", "wholes", "playbackmethod delivery companiontype poddedupe"),
    ("imp.0.video.companionad.0", "whole", "w h pos"),
    ("imp.0.video", "ext", "ext"),
    ("imp.0.audio", "whole", "startdelay podseq sequence slotinpod minbitrate"),
    ("imp.0.audio", "whole", "maxbitrate maxseq feed stitched nvol"),
    ("imp.0.native", "text", "ver"),
    ("imp.0.native", "ext", "ext"),
    ("imp.0.pmp", "ext", "ext"),
    ("imp.0.qty", "whole", "sourcetype"),
    ("imp.0.qty", "text", "vendor"),
    ("site", "text", "id name page ref search keywords inventorypartnerdomain"),
    ("site", "whole", "cattax mobile privacypolicy"),
    ("site", "texts", "cat sectioncat pagecat kwarray"),
    ("site", "ext", "ext content"),
    ("app", "text", "id name storeurl ver keywords"),
    ("app", "whole", "paid privacypolicy"),
    ("dooh", "texts", "venuetype"),
    ("dooh", "whole", "venuetypetax"),
    ("site.publisher", "text", "name domain"),
    ("site.publisher", "texts", "cat"),
    ("site.content", "text", "id title series season artist genre album isrc url contentrating"),
    ("site.content", "text", "userrating keywords language langb"),
    ("site.content", "whole", "episode prodq context qagmediarating sourcerelationship len"),
    ("site.content", "whole", "embeddable gtax livestream realtime firstbroadcast"),
    ("site.content", "texts", "cat kwarray genres"),
    ("site.content.producer", "text", "id name domain"),
    ("site.content.data.0.segment.0", "text", "id name value"),
    ("device", "whole", "h w ppi js geofetch connectiontype"),
    ("device", "number", "pxratio"),
    ("device", "text", "ua ip ipv6 make model os osv hwv flashver language langb carrier mccmnc"),
    ("device", "text", "didsha1 didmd5 dpidsha1 dpidmd5 macsha1 macmd5"),
    ("device", "ext", "ext sua"),
    ("device.geo", "number", "lat lon"),
    ("device.geo", "whole", "type accuracy lastfix ipservice utcoffset"),
    ("device.geo", "text", "regionfips104 metro city zip"),
    ("user", "whole", "yob"),
    ("user", "text", "gender keywords customdata"),
    ("user", "texts", "kwarray"),
    ("user.geo", "text", "country region city"),
];

/// Fields whose type decides: the request is invalid.
const DECISIVE: [(&str, &str, &str); 16] = [
    ("", "ext", "site app dooh device user source regs"),
    ("regs", "whole", "coppa gdpr"),
    ("regs", "text", "us_privacy gpp"),
    ("regs", "wholes", "gpp_sid"),
    ("regs", "ext", "ext"),
    ("regs.ext", "whole", "gdpr"),
    ("regs.ext", "text", "us_privacy gpp"),
    ("regs.ext", "wholes", "gpp_sid"),
    ("user", "text", "consent"),
    ("user", "ext", "ext"),
    ("user.ext", "text", "consent"),
    ("user.eids.0", "list", "uids"),
    ("user.eids.0.uids.0", "text", "id"),
    ("source.schain", "whole", "complete"),
    ("source.schain.nodes.0", "text", "asi sid rid name domain"),
    ("source.ext.schain", "text", "ver"),
];

fn right(kind: &str) -> Vec<Value> {
    match kind {
        "text" => vec![json!(""), json!("x\"{[,"), Value::Null],
        "whole" => vec![json!(0), json!(-7), json!(300.0), Value::Null],
        "number" => vec![json!(1), json!(-1.5), Value::Null],
        "texts" => vec![json!([]), json!(["x"]), Value::Null],
        "wholes" => vec![json!([]), json!([1, 2.0]), Value::Null],
        _ => vec![json!({}), Value::Null],
    }
}

fn wrong(kind: &str) -> Vec<Value> {
    let text = json!("1");
    match kind {
        "text" => vec![json!(7), json!(["x"]), json!({}), json!(true)],
        "whole" => vec![text, json!(1.5), json!([1]), json!({}), json!(false)],
        "number" => vec![text, json!([1]), json!({})],
        "texts" => vec![text, json!([1]), json!(["x", {}]), json!({ "x": 1 }), json!(7)],
        "wholes" => vec![json!(1), json!(["1"]), json!([1, 2.5]), json!({})],
        "list" => vec![text, json!({}), json!([{ "id": "a" }, 7])],
        _ => vec![text, json!([]), json!(7)],
    }
}

fn fields(
    table: &'static [(&'static str, &'static str, &'static str)],
) -> impl Iterator<Item = (String, &'static str)> {
    table.iter().flat_map(|(place, kind, keys)| {
        let path = move |key: &str| [*place, key].join(".").trim_start_matches('.').to_owned();
        keys.split(' ').map(move |key| (path(key), *kind))
    })
}

/// `imp.0.video` as messages have it.
fn shown(path: &str) -> String {
    let shown = path.split('.').fold(String::new(), |path, part| match part.parse::<usize>() {
        Ok(index) => format!("{path}[{index}]"),
        Err(_) => format!("{path}.{part}"),
    });
    shown.trim_start_matches('.').to_owned()
}

#[test]
fn optional_fields_of_a_wrong_type_are_dropped() {
    let mut rows = 0;
    for (path, kind) in fields(&OPTIONAL) {
        // A quantity needs its multiplier.
        let with = |value| {
            let mut request = with(&path, value);
            if path.starts_with("imp.0.qty") {
                request["imp"][0]["qty"]["multiplier"] = json!(1);
            }
            request
        };
        let at =
            |request: &Value| request.pointer(&format!("/{}", path.replace('.', "/"))).cloned();
        for value in right(kind) {
            let (sent, mistyped) =
                sent(&with(value.clone())).unwrap_or_else(|e| panic!("{path}: {e:?}"));
            assert_eq!((at(&sent), mistyped), (Some(value), vec![]), "{path}");
        }
        for value in wrong(kind) {
            let told =
                sent(&with(value.clone())).unwrap_or_else(|e| panic!("{path} {value}: {e:?}"));
            let (sent, mistyped) = told;
            assert_eq!((at(&sent), mistyped.len()), (None, 1), "{path} {value}");
            assert!(mistyped[0].starts_with(&shown(&path)), "{path} {mistyped:?}");
            rows += 1;
        }
    }
    assert!(rows > 500, "{rows}");
}

#[test]
fn fields_that_decide_make_the_request_invalid() {
    for (path, kind) in fields(&DECISIVE) {
        for value in wrong(kind) {
            let (reason, text) = sent(&with(&path, value.clone())).expect_err(&path);
            assert_eq!(reason, InvalidReason::WrongType, "{path} {value}: {text}");
            assert!(text.starts_with(&shown(&path)) && text.contains(", expected "), "{text}");
        }
    }
}

#[test]
fn lists_of_objects_go_whole() {
    let metric = |metric: Value| sent(&with("imp.0.metric", metric)).expect("it is valid");
    let sound = json!([{ "type": "viewability", "value": 0.5, "x": 1 }]);
    assert_eq!(metric(sound.clone()).0["imp"][0]["metric"], sound);
    for (wrong, told) in [
        (json!([{}]), "imp[0].metric[0]"),
        (json!([{ "type": "t", "value": 1 }, { "type": "t" }]), "imp[0].metric[1]"),
        (json!([{ "type": "t", "value": null }, { "type": 7, "value": 1 }]), "imp[0].metric[1]"),
        (json!([7]), "imp[0].metric[0]"),
        (json!({}), "imp[0].metric"),
    ] {
        let (sent, mistyped) = metric(wrong.clone());
        assert_eq!(sent["imp"][0].get("metric"), None, "{wrong}");
        assert_eq!(mistyped.last().map(String::as_str), Some(told), "{wrong}");
    }
    let sized = |format: Value| sent(&with("imp.0.banner.format", format));
    assert!(sized(json!([{ "w": 1, "h": 1 }, { "wratio": 1, "hratio": 1, "wmin": 1 }])).is_ok());
    for none in
        [json!([{}]), json!([{ "w": 1 }]), json!([{ "w": 1, "h": 1 }, { "wratio": 1, "h": 1 }])]
    {
        let (reason, text) = sized(none).expect_err("no size");
        assert_eq!(reason, InvalidReason::NoFormat);
        assert!(text.contains("is no size: `w` and `h`, or `wratio` and `hratio`"), "{text}");
    }
}

/// Written as text: `serde_json` makes no object with a key twice.
#[test]
fn a_required_field_that_stands_twice_is_one() {
    for (metric, is_kept) in [
        (r#"{"type":"t","value":1}"#, true),
        (r#"{"type":"t","type":"t"}"#, false),
        (r#"{"value":1,"value":2,"value":3}"#, false),
        (r#"{"type":"t","type":"u","value":1}"#, true),
        (r#"{"type":7,"type":"t","value":1}"#, true),
    ] {
        let body =
            format!(r#"{{"id":"r","imp":[{{"id":"1","banner":{{}},"metric":[{metric}]}}]}}"#);
        let parsed = parse_request(&body).unwrap_or_else(|invalid| panic!("{metric}: {invalid}"));
        let is_missing = parsed.mistyped().iter().any(|path| path == "imp[0].metric[0]");
        assert_eq!(is_missing, !is_kept, "{metric} {:?}", parsed.mistyped());
    }
}

/// Names that hide behind escapes, and what the standard does not know.
#[test]
fn what_is_unknown_is_passed_on() {
    let any =
        r#"{"id":"r","imp":[{"id":"1","banner":{"new":[{"x":"}"}]}}],"new":7,"ext":{"id":[1,{}]}}"#;
    let parsed = parse_request(any).unwrap();
    assert!(parsed.fields.removals.is_empty() && parsed.mistyped().is_empty());
    // `regs.ext` has its own members: neither `coppa` nor another `ext`.
    for odd in [json!({ "ext": "x" }), json!({ "ext": { "gdpr": "x" } }), json!({ "coppa": "x" })] {
        let (sent, mistyped) = sent(&with("regs.ext", odd.clone())).expect("it is valid");
        assert_eq!((&sent["regs"]["ext"], mistyped), (&odd, vec![]));
    }
    let hidden = r#"{"id":"r","\u0061llimps":"x","imp":[{"id":"1","banner":{}}]}"#;
    assert_eq!(parse_request(hidden).unwrap().mistyped(), [r"\u0061llimps"]);
}

#[test]
fn very_many_are_refused() {
    let many = |n: usize| {
        let imps: Vec<_> = (0..4)
            .map(|imp| {
                let segments = vec![json!({ "id": 7 }); if imp == 0 { n } else { 0 }];
                json!({ "id": imp.to_string(), "banner": {}, "x": segments })
            })
            .collect();
        let segments = vec![json!({ "id": 7 }); n];
        json!({ "id": "r", "imp": imps, "user": { "data": [{ "segment": segments }] } })
    };
    let (_, mistyped) = sent(&many(MISTYPED_MAX)).expect("as many as may be");
    assert_eq!(mistyped.len(), MISTYPED_MAX);
    let (reason, text) = sent(&many(MISTYPED_MAX + 1)).expect_err("too many");
    assert_eq!((reason, &*text), (InvalidReason::TooMany, "more than 256 fields of a wrong type"));
}

/// Any members in any order, of any type.
fn members() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let value = prop::sample::select(vec![
        json!(7),
        json!("x"),
        json!(null),
        json!({ "a": 1 }),
        json!([1]),
        json!(["x"]),
    ]);
    let key = prop::sample::select(vec![
        "gender",
        "keywords",
        "kwarray",
        "customdata",
        "buyeruid",
        "x",
        "y",
        "data",
    ]);
    prop::collection::vec((key, value), 0..7).prop_map(|mut members| {
        let mut seen = Vec::new();
        members.retain(|(key, value)| {
            let is_new = !seen.contains(key);
            seen.push(*key);
            // One that is read must be of its type.
            is_new && (*key != "buyeruid" || value.is_string() || value.is_null())
        });
        members
    })
}

proptest! {
    /// What goes out is JSON that has what is right, in order, and nothing else.
    #[test]
    fn what_is_left_is_what_is_right(
        members in members(),
        buyeruid in prop::option::of(Just("\"b\"")),
        space in prop::sample::select(vec!["", " ", "\n "]),
    ) {
        let written: Vec<String> = members.iter()
            .map(|(key, value)| format!("{space}\"{key}\"{space}:{space}{value}{space}")).collect();
        let body = format!(
            r#"{{"id":"r","imp":[{{"id":"1","banner":{{}}}}],"user":{{{space}{}}}}}"#, written.join(",")
        );
        let parsed = parse_request(&body).map_err(|invalid| TestCaseError::fail(invalid.to_string()))?;
        let text = Editor::new(&body, &parsed).finish().to_text(&OutboundView { buyeruid, ..VIEW });
        let sent: Value = serde_json::from_str(&text)
            .map_err(|error| TestCaseError::fail(format!("{error}: {text}")))?;
        let fits = |key: &str, value: &Value| value.is_null() || match key {
            "x" | "y" => true,
            "gender" | "keywords" | "customdata" => value.is_string(),
            "kwarray" => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
            _ => false,
        };
        let mut want: Map<String, Value> = members.iter()
            .filter(|(key, value)| *key != "buyeruid" && fits(key, value))
            .map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        if buyeruid.is_some() {
            want.insert("buyeruid".to_owned(), json!("b"));
        }
        prop_assert_eq!(&sent["user"], &Value::Object(want), "{}", text);
        let wrong = members.iter().filter(|(key, value)| *key != "buyeruid" && !fits(key, value));
        prop_assert_eq!(parsed.mistyped().len(), wrong.count());
    }
}
