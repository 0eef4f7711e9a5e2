//! Added data: that it is there for those who may see it, and that the rest is as without it.

use serde_json::Value;

use crate::outbound::{DataMembers, DataPlace, Editor, OutboundView};
use crate::validate::parse_request;

const VIEW: OutboundView<'_> = OutboundView {
    imps: !0,
    deals: !0,
    tmax: "80",
    cur: r#"["USD"]"#,
    buyeruid: None,
    bidder: None,
    is_limited: false,
};

const ENRICHMENT: DataPlace = DataPlace::Ext(&["ext", "enrichment"]);
const PLACES: [(DataPlace, &str); 3] = [
    (DataPlace::UserData, r#"{"added":1}"#),
    (DataPlace::ContentData, r#"{"added":1}"#),
    (ENRICHMENT, r#""added":1"#),
];

/// What a DSP sees with data in a place, and without; and whether there was a place.
fn seen(body: &str, (place, data): (DataPlace, &str), view: &OutboundView<'_>) -> (String, bool) {
    let request = parse_request(body).unwrap();
    let mut editor = Editor::new(body, &request);
    let spot = place.find(&DataMembers::of(body), body, &request).filter(|_| !data.is_empty());
    if let Some(spot) = &spot {
        editor.add_data(place, spot, [data].into_iter());
    }
    if view.is_limited {
        editor.limit("user", |_| Some(r#"{"limited":1}"#.to_owned()));
    }
    let text = editor.finish().to_text(view);
    assert!(crate::is_json(&text), "{body}\n{text}");
    (text, spot.is_some())
}

/// Removes what was added, and what it needed.
fn without_added(value: &mut Value) -> bool {
    let is_added = |value: &Value| value.get("added").is_some();
    match value {
        Value::Object(members) => {
            let mut found = false;
            members.retain(|_, member| {
                let has = is_added(member) || without_added(member);
                found |= has;
                let is_empty = member.as_object().is_some_and(serde_json::Map::is_empty)
                    || member.as_array().is_some_and(Vec::is_empty)
                    || is_added(member);
                !(has && is_empty)
            });
            found
        }
        Value::Array(items) => {
            let before = items.len();
            items.retain(|item| !is_added(item));
            items.len() < before || items.iter_mut().any(without_added)
        }
        _ => false,
    }
}

#[test]
fn data_is_added_and_nothing_else_changes() {
    let users = ["", r#""user":{},"#, r#""user":{"id":"u"},"#, r#""user":null,"#];
    let datas =
        ["[]", "[ ]", r#"[{"id":"d"}]"#, "null", "[null]", r#"["x"]"#, "[1]", r#"{"id":1}"#, "7"];
    let in_user = datas.iter().flat_map(|data| {
        let first = format!(r#""user":{{"data":{data},"id":"u","buyeruid":"b"}},"#);
        [first, format!(r#""user":{{"buyeruid":"b","keywords":"k","data":{data}}},"#)]
    });
    let users = users.into_iter().map(str::to_owned).chain(in_user);
    let contents = datas.iter().map(|data| format!(r#"{{"data":{data},"id":"c"}}"#));
    let contents =
        ["{}", "null", "5", r#"{"id":"c"}"#].into_iter().map(str::to_owned).chain(contents);
    let sites = contents.flat_map(|content| {
        let of = |name: &str| format!(r#""{name}":{{"content":{content},"id":"s"}},"#);
        [of("site"), of("app"), format!(r#""site":null,{}"#, of("app"))]
    });
    let sites = sites.chain(["", r#""site":{},"#].map(str::to_owned));
    let exts =
        ["", r#""ext":{},"#, r#""ext":{"x":"}"},"#, r#""ext":null,"#, r#""ext":{"enrichment":1},"#];
    let sites: Vec<String> = sites.collect();
    let (mut placed, mut tried) = (0, 0);
    for user in users {
        for (at, site) in sites.iter().enumerate() {
            let ext = exts[at % exts.len()];
            let body =
                format!(r#" {{{user}{site}"imp":[{{"id":"1","banner":{{}}}}],{ext}"id":"r"}} "#);
            for is_limited in [false, true] {
                for buyeruid in [None, Some("\"uid\"")] {
                    let view = OutboundView { is_limited, buyeruid, ..VIEW };
                    for place in PLACES {
                        placed += usize::from(check(&body, place, &view));
                        tried += 1;
                    }
                }
            }
        }
    }
    assert!(placed > tried / 3 && placed < tried, "{placed} of {tried}");
}

#[track_caller]
fn check(body: &str, place: (DataPlace, &str), view: &OutboundView<'_>) -> bool {
    let (with, is_placed) = seen(body, place, view);
    let (without, _) = seen(body, (place.0, ""), view);
    let mut value: Value = serde_json::from_str(&with).unwrap();
    let is_visible = without_added(&mut value);
    assert_eq!(
        is_visible,
        is_placed && !(view.is_limited && place.0 == DataPlace::UserData),
        "{with}"
    );
    let mut want: Value = serde_json::from_str(&without).unwrap();
    // A null or empty container may have been filled.
    tidy(&mut value);
    tidy(&mut want);
    assert_eq!(value, want, "{body}");
    is_placed
}

/// Removes what is empty, from the inside.
fn tidy(value: &mut Value) {
    let Some(members) = value.as_object_mut() else { return };
    members.values_mut().for_each(tidy);
    members.retain(|_, member| match member {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    });
}
