//! Added deals: who sees them, and that all others see the request's own bytes.

use proptest::prelude::*;
use serde_json::Value;

use crate::outbound::{Editor, OutboundView};
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

const ADDED: [&str; 2] = [r#"{"id":"x","at":3}"#, r#"{"id":"y"}"#];

/// What a DSP with these deals sees of the impression `imp` when [`ADDED`] are added to it.
fn seen(imp: &str, deals: u128) -> String {
    let body = format!(r#"{{"tmax":80,"cur":["USD"],"id":"r","imp":[{imp}]}}"#);
    let request = parse_request(&body).unwrap();
    let own = request.imps()[0].deals().len();
    let mut editor = Editor::new(&body, &request);
    editor.add_deals(0, own, &ADDED);
    let text = editor.finish().to_text(&OutboundView { deals, ..VIEW });
    assert!(crate::is_json(&text), "{text}");
    let head = r#"{"tmax":80,"cur":["USD"],"id":"r","imp":["#;
    text.strip_prefix(head).unwrap().strip_suffix("]}").unwrap().to_owned()
}

#[track_caller]
fn check(imp: &str, deals: u128, want: &str) {
    assert_eq!(seen(imp, deals), want);
}

#[test]
fn they_follow_the_deals_of_the_request() {
    let imp = r#"{"id":"1","banner":{},"pmp":{"deals":[{"id":"a"}, {"id":"b"} ]}}"#;
    let with = |deals: &str| format!(r#"{{"id":"1","banner":{{}},"pmp":{{"deals":[{deals} ]}}}}"#);
    check(imp, 0b0011, imp);
    check(imp, 0b0100, &with(r#"{"id":"x","at":3}"#));
    check(imp, 0b1000, &with(r#"{"id":"y"}"#));
    check(imp, 0b1100, &with(r#"{"id":"x","at":3},{"id":"y"}"#));
    check(imp, 0b1001, &with(r#"{"id":"a"},{"id":"y"}"#));
    check(imp, 0b1111, &with(r#"{"id":"a"}, {"id":"b"},{"id":"x","at":3},{"id":"y"}"#));
}

#[test]
fn members_that_the_request_lacks_are_added() {
    let both = r#"{"id":"x","at":3},{"id":"y"}"#;
    for (own, with) in [
        (r#""banner":{}"#, r#""banner":{}"#),
        (r#""pmp":null,"banner":{}"#, r#""pmp":{"deals":[@]},"banner":{}"#),
        (r#""pmp":{},"banner":{}"#, r#""pmp":{"deals":[@]},"banner":{}"#),
        (r#""p\u006dp":{ } ,"banner":{}"#, r#""p\u006dp":{"deals":[@] } ,"banner":{}"#),
        (
            r#""banner":{},"pmp":{"private_auction":1}"#,
            r#""banner":{},"pmp":{"deals":[@],"private_auction":1}"#,
        ),
        (r#""banner":{},"pmp":{"deals":[ ]}"#, r#""banner":{},"pmp":{"deals":[@]}"#),
        (r#""banner":{},"pmp":{"d\u0065als":null}"#, r#""banner":{},"pmp":{"d\u0065als":[@]}"#),
    ] {
        let imp = format!(r#"{{"id":"1",{own}}}"#);
        let first = if with.contains('@') { "" } else { r#""pmp":{"deals":[@]},"# };
        let want = format!(r#"{{{first}"id":"1",{with}}}"#);
        check(&imp, 0, &imp);
        check(&imp, 0b01, &want.replace('@', ADDED[0]));
        check(&imp, 0b10, &want.replace('@', ADDED[1]));
        check(&imp, 0b11, &want.replace('@', both));
    }
}

#[test]
fn they_are_added_to_the_last_position() {
    let own: Vec<_> = (0..126).map(|id| format!(r#"{{"id":"{id}"}}"#)).collect();
    let imp = |deals: &str| format!(r#"{{"id":"1","banner":{{}},"pmp":{{"deals":[{deals}]}}}}"#);
    check(&imp(&own.join(",")), 1 << 127, &imp(ADDED[1]));
    check(&imp(&own.join(",")), 1 | 1 << 126, &imp(&format!("{},{}", own[0], ADDED[0])));
}

prop_compose! {
    /// An impression, and the ids of its deals.
    fn any_imp()(
        pmp in prop::sample::select(vec![
            "", r#","pmp":null"#, r#","pmp":{}"#, r#","pmp":{ "deals" : [] }"#,
            r#","pmp":{"ext":{"deals":[{"id":"no"}]},"deals":[{"id":"0"},{"id":"]}","q":"\"}"}]}"#,
            r#","ext":{"pmp":{"deals":[1]}},"pmp":{"private_auction":0,"deals":[{"id":"\u005d"}]}"#,
            r#","pmp":{"deals":null,"x":[{"deals":[]}]},"bidfloor":1"#,
        ]),
        name in prop::sample::select(vec!["1", "pmp", "\\\"pmp\\\":{"]),
    ) -> String {
        format!(r#"{{"id":"{name}","banner":{{}}{pmp}}}"#)
    }
}

fn ids(imp: &Value) -> Vec<String> {
    let deals = imp["pmp"]["deals"].as_array().into_iter().flatten();
    deals.map(|deal| deal["id"].as_str().unwrap().to_owned()).collect()
}

proptest! {
    #[test]
    fn every_view_is_json_with_just_what_is_on_offer(
        imp in any_imp(), deals in any::<u128>(), floor in any::<bool>(),
    ) {
        let body = format!(r#"{{"tmax":80,"cur":["USD"],"id":"r","imp":[{imp},{{"id":"z","banner":{{}}}}]}}"#);
        let request = parse_request(&body).unwrap();
        let own = request.imps()[0].deals();
        let edited = |with_deals: bool| {
            let mut editor = Editor::new(&body, &request);
            let span = request.imps()[0].span(&body);
            if floor && request.imps()[0].bidfloor.is_none() {
                editor.add_member(&span, "bidfloor", "2");
            }
            if with_deals {
                editor.add_deals(0, own.len(), &ADDED);
            }
            editor.finish()
        };
        let (with, without) = (edited(true), edited(false));
        let view = OutboundView { deals, ..VIEW };
        let text = with.to_text(&view);
        let seen: Value = serde_json::from_str(&text)
            .map_err(|error| TestCaseError::fail(format!("{error}: {text}")))?;
        let all = own.iter().map(|deal| deal.id.as_deref().unwrap()).chain(["x", "y"]);
        let want: Vec<_> = all.enumerate().filter(|(at, _)| deals >> at & 1 == 1)
            .map(|(_, id)| id.to_owned()).collect();
        prop_assert_eq!(ids(&seen["imp"][0]), want);
        prop_assert!(seen["imp"][1].get("pmp").is_none(), "{}", text);
        // Everyone else receives the same bytes as without them.
        let others = OutboundView { deals: deals & !(0b11 << own.len()), ..VIEW };
        prop_assert_eq!(with.to_text(&others), without.to_text(&others));
        let unseen = OutboundView { imps: 0b10, ..view };
        prop_assert_eq!(with.to_text(&unseen), without.to_text(&unseen));
    }
}
