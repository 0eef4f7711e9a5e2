//! What DSPs see, byte for byte, and that it is always JSON.

use proptest::prelude::*;

use super::*;
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

#[track_caller]
fn check(
    body: &str,
    edit: impl Fn(&mut Editor<'_>, &BidRequest<'_>),
    view: &OutboundView<'_>,
    want: &str,
) {
    let request = parse_request(body).unwrap();
    let mut editor = Editor::new(body, &request);
    edit(&mut editor, &request);
    let text = editor.finish().to_text(view);
    assert_eq!(text, want);
    assert!(crate::is_json(&text));
}

const NO_EDIT: fn(&mut Editor<'_>, &BidRequest<'_>) = |_, _| ();

#[test]
fn tmax_and_cur_are_replaced_or_added() {
    check(
        r#"{ "id":"r" ,"tmax" : 100,"cur":["EUR","USD"],"imp":[{"id":"1","banner":{}}],"x":{"y":1}}"#,
        NO_EDIT,
        &VIEW,
        r#"{ "id":"r" ,"tmax" : 80,"cur":["USD"],"imp":[{"id":"1","banner":{}}],"x":{"y":1}}"#,
    );
    check(
        r#" {"id":"r","imp":[{"id":"1","banner":{}}]} "#,
        NO_EDIT,
        &VIEW,
        r#" {"tmax":80,"cur":["USD"],"id":"r","imp":[{"id":"1","banner":{}}]} "#,
    );
}

#[test]
fn null_is_replaced_and_never_stands_beside_a_value() {
    let body = concat!(
        r#"{"id":"r","tmax": null ,"cur":null,"user":{"buyeruid":null,"id":"u"},"#,
        r#""imp":[{"id":"1","banner":{"w":null},"bid\u0066loor":null}],"ext":null}"#
    );
    let view = OutboundView { buyeruid: Some(r#""b""#), ..VIEW };
    let edit = |editor: &mut Editor<'_>, request: &BidRequest<'_>| {
        let span = request.imps()[0].span(body);
        editor.add_member(&span, "bidfloor", "2");
        editor.add_member(&span, "w", "3");
    };
    let want = concat!(
        r#"{"id":"r","tmax": 80 ,"cur":["USD"],"user":{"buyeruid":"b","id":"u"},"#,
        r#""imp":[{"w":3,"id":"1","banner":{"w":null},"bid\u0066loor":2}],"ext":null}"#
    );
    check(body, edit, &view, want);
}

#[test]
fn impressions_and_deals_are_left_out_with_their_commas() {
    let body = concat!(
        r#"{"tmax":1,"cur":[],"id":"r","imp":[{"id":"1","banner":{},"pmp":{"deals":[{"id":"a"}, {"id":"b"}]}}"#,
        r#" , {"id":"2","banner":{},"pmp":{"deals":[{"id":"c"},{"id":"d"},{"id":"e"}]}},{"id":"3","banner":{}}]}"#
    );
    let view = |imps, deals| OutboundView { imps, deals, ..VIEW };
    let head = r#"{"tmax":80,"cur":["USD"],"id":"r","imp":["#;
    let cases = [
        (0b100, 0, r#"{"id":"3","banner":{}}"#),
        (0b001, 0b00010, r#"{"id":"1","banner":{},"pmp":{"deals":[{"id":"b"}]}}"#),
        (0b001, 0, r#"{"id":"1","banner":{},"pmp":{"deals":[]}}"#),
        (
            0b110,
            0b10100,
            r#"{"id":"2","banner":{},"pmp":{"deals":[{"id":"c"},{"id":"e"}]}},{"id":"3","banner":{}}"#,
        ),
        (
            0b101,
            0b00011,
            r#"{"id":"1","banner":{},"pmp":{"deals":[{"id":"a"}, {"id":"b"}]}},{"id":"3","banner":{}}"#,
        ),
    ];
    for (imps, deals, want) in cases {
        check(body, NO_EDIT, &view(imps, deals), &format!("{head}{want}]}}"));
    }
}

#[test]
fn a_buyer_sees_its_own_user_id_only() {
    let body = |user: &str| {
        format!(
            r#"{{"tmax":1,"cur":[],"id":"r","imp":[{{"id":"1","banner":{{}}}}],"user":{user}}}"#
        )
    };
    let with = OutboundView { buyeruid: Some(r#""u-7""#), ..VIEW };
    let cases = [
        (r#"{"buyeruid":"x","id":"u"}"#, r#"{"id":"u"}"#, r#"{"buyeruid":"u-7","id":"u"}"#),
        (
            r#"{"id":"u" , "buyeruid" : "x" }"#,
            r#"{"id":"u"  }"#,
            r#"{"buyeruid":"u-7","id":"u"  }"#,
        ),
        (
            r#"{"ext":{"buyeruids":{"a":"1","b":"2"},"k":1}}"#,
            r#"{"ext":{"k":1}}"#,
            r#"{"buyeruid":"u-7","ext":{"k":1}}"#,
        ),
        (
            r#"{"ext":{"prebid":{"buyeruids":{"a":"1"}}}}"#,
            r#"{"ext":{"prebid":{}}}"#,
            r#"{"buyeruid":"u-7","ext":{"prebid":{}}}"#,
        ),
    ];
    for (user, without_id, with_id) in cases {
        let shown = |user: &str| {
            body(user).replace(r#""tmax":1"#, r#""tmax":80"#).replace("[],", r#"["USD"],"#)
        };
        check(&body(user), NO_EDIT, &VIEW, &shown(without_id));
        check(&body(user), NO_EDIT, &with, &shown(with_id));
    }
}

#[test]
fn a_bidder_sees_its_own_parameters_only() {
    let body = concat!(
        r#"{"tmax":1,"cur":[],"id":"r","imp":[{"id":"1","banner":{},"ext":{"prebid":{"bidder":{"#,
        r#""a":{"p":1},"b" : {"p":2}}},"gpid":"g"}},{"id":"2","banner":{},"ext":{"prebid":{"bidder":null}}}],"#,
        r#""ext":{"prebid":{"bidderparams":{"b":{"q":3}},"bidderconfig":[{"bidders":["a"]}],"x":1}}}"#
    );
    let want = |of_imp: &str, of_request: &str| {
        [
            r#"{"tmax":80,"cur":["USD"],"id":"r","imp":[{"id":"1","banner":{},"ext":{"prebid":{"bidder":{"#,
            of_imp,
            r#"}},"gpid":"g"}},{"id":"2","banner":{},"ext":{"prebid":{"bidder":{}}}}],"ext":{"prebid":{"bidderparams":{"#,
            of_request,
            r#"},"bidderconfig":[],"x":1}}}"#,
        ]
        .concat()
    };
    for (bidder, of_imp, of_request) in [
        (None, "", ""),
        (Some("a"), r#""a":{"p":1}"#, ""),
        (Some("b"), r#""b" : {"p":2}"#, r#""b":{"q":3}"#),
        (Some("c"), "", ""),
    ] {
        check(body, NO_EDIT, &OutboundView { bidder, ..VIEW }, &want(of_imp, of_request));
    }
    // In any order, and of a name given twice the first.
    let more: String = (0..99).rev().map(|n| format!(r#","n{n}":{n},"n{n}":"x""#)).collect();
    let long = body.replace(r#""b" : {"p":2}"#, &format!(r#""b" : {{"p":2}}{more}"#));
    for n in [0, 7, 70, 98] {
        let (name, own) = (format!("n{n}"), format!(r#""n{n}":{n}"#));
        check(&long, NO_EDIT, &OutboundView { bidder: Some(&name), ..VIEW }, &want(&own, ""));
    }
    let request = parse_request(body).unwrap();
    let outbound = Editor::new(body, &request).finish();
    assert_eq!(["a", "b", "c"].map(|name| outbound.names_bidder(name)), [true, true, false]);
}

#[test]
fn a_limited_view_has_limited_values_in_their_place() {
    let body = concat!(
        r#"{"tmax":1,"user":{"buyeruid":"x","id":"u"},"id":"r","imp":[{"id":"1","banner":{}}],"#,
        r#""cur":[],"device":{"ifa":"i"}}"#
    );
    let edit = |editor: &mut Editor<'_>, _: &BidRequest<'_>| {
        editor.limit("device", |_| None);
        editor.limit("user", |user| Some(user.replace("u", "v")));
        editor.limit("site", |_| None);
    };
    let mine = Some(r#""b""#);
    let open = concat!(
        r#"{"tmax":80,"user":{"buyeruid":"b","id":"u"},"id":"r","imp":[{"id":"1","banner":{}}],"#,
        r#""cur":["USD"],"device":{"ifa":"i"}}"#
    );
    check(body, edit, &OutboundView { buyeruid: mine, ..VIEW }, open);
    let limited = concat!(
        r#"{"tmax":80,"user":{"id":"v"},"id":"r","imp":[{"id":"1","banner":{}}],"#,
        r#""cur":["USD"],"device":{}}"#
    );
    check(body, edit, &OutboundView { buyeruid: mine, is_limited: true, ..VIEW }, limited);
}

#[test]
fn values_are_replaced_members_added_and_elements_appended() {
    let body = r#"{"tmax":1,"cur":[],"id":"r","imp":[{"id":"1","banner":{},"bidfloor":0.5}],"source":{"schain":{"nodes":[{}]}}}"#;
    let edit = |editor: &mut Editor<'_>, request: &BidRequest<'_>| {
        let id = request.id.as_ref().unwrap().span(body);
        editor.replace(id, r#""ours""#);
        let imp = &request.imps()[0];
        editor.replace(imp.bidfloor.as_ref().unwrap().span(body), "0.75");
        editor.add_member(&imp.span(body), "bidfloorcur", r#""EUR""#);
        let chain = request.source.as_ref().unwrap().schain.as_ref().unwrap();
        editor.append(&chain.nodes.as_ref().unwrap().span(body), r#"{"asi":"x"}"#);
    };
    check(
        body,
        edit,
        &VIEW,
        r#"{"tmax":80,"cur":["USD"],"id":"ours","imp":[{"bidfloorcur":"EUR","id":"1","banner":{},"bidfloor":0.75}],"source":{"schain":{"nodes":[{},{"asi":"x"}]}}}"#,
    );
}

#[test]
fn untouched_neighbours_come_as_one_span() {
    let body = r#"{"id":"r","imp":[{"id":"1","banner":{}},{"id":"2","banner":{}}],"tmax":100,"cur":["USD"]}"#;
    let request = parse_request(body).unwrap();
    let outbound = Editor::new(body, &request).finish();
    let mut slices = Vec::new();
    outbound.for_each(&VIEW, |slice| slices.push(slice));
    assert_eq!(slices.len(), 5, "{slices:?}");
}

fn deal_text() -> impl Strategy<Value = String> {
    prop::sample::select(vec![r#""bidfloor":1"#, r#""wseat":["a"]"#, r#""x":{}"#, r#""at":1"#])
        .prop_map(str::to_owned)
}

prop_compose! {
    fn any_body()(
        imps in prop::collection::vec(prop::collection::vec(deal_text(), 0..4), 1..5),
        user in prop::sample::select(vec![
            "", r#","user":{}"#, r#","user":{"buyeruid":"q\"\\"}"#,
            r#","user":{"id":"1","ext":{"buyeruids":{}},"buyeruid":"x"}"#,
            r#","user":{"buyeruid" :"x" ,"ext":{ "a":1 , "buyeruids":{"d":"e"} } }"#,
        ]),
        space in prop::sample::select(vec!["", " ", "\n\t"]),
    ) -> String {
        let imps: Vec<_> = imps.iter().enumerate().map(|(index, deals)| {
            let deals: Vec<_> = deals.iter().enumerate()
                .map(|(index, deal)| format!(r#"{{"id":"{index}",{deal}}}"#)).collect();
            let deals = deals.join(&format!("{space},"));
            format!(r#"{{"id":"{index}","banner":{{}},"pmp":{{"deals":[{deals}]}}}}"#)
        }).collect();
        format!(r#"{{"id":"r","imp":[{}]{user}}}"#, imps.join(&format!(",{space}")))
    }
}

proptest! {
    #[test]
    fn every_view_is_json_with_just_what_is_on_offer(
        body in any_body(), imps in 1u64.., deals in any::<u128>(),
    ) {
        let request = parse_request(&body).unwrap();
        let outbound = Editor::new(&body, &request).finish();
        let view = OutboundView { imps, deals, buyeruid: Some(r#""me""#), ..VIEW };
        let text = outbound.to_text(&view);
        let seen = serde_json::from_str::<serde_json::Value>(&text)
            .map_err(|error| TestCaseError::fail(format!("{error}: {text}")))?;
        let mut want = Vec::new();
        let mut deal_index = 0;
        for (index, imp) in request.imps().iter().enumerate() {
            let offered = imp.deals().iter().filter(|_| {
                deal_index += 1;
                deals >> (deal_index - 1) & 1 == 1
            });
            let offered = offered.filter_map(|deal| Some(deal.id.as_deref()?.to_owned())).collect();
            if imps >> index & 1 == 1 {
                want.push((index.to_string(), offered));
            }
        }
        let ids = |value: &serde_json::Value| value["id"].as_str().unwrap().to_owned();
        let got: Vec<(String, Vec<String>)> = seen["imp"].as_array().unwrap().iter()
            .map(|imp| (ids(imp), imp["pmp"]["deals"].as_array().unwrap().iter().map(ids).collect()))
            .collect();
        prop_assert_eq!(got, want);
        let buyeruid = seen.get("user").map(|user| user["buyeruid"].as_str());
        prop_assert!(matches!(buyeruid, None | Some(Some("me"))), "{}", text);
    }
}
