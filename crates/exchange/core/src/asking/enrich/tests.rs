//! Which data is added, and where.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use openrtb::{OutboundView, parse_request};

use crate::asking::outbound::outbound;
use crate::auction::Auction;
use crate::auction::enriched::{EnrichmentOutcome, KnownData};
use crate::fixtures::market;
use crate::market::Market;
use crate::market::enrichment::{Enrichment, EnrichmentPlace, RequestValue};

use EnrichmentOutcome::{Added, Empty, NoPlace, NoValue, Stale, Unknown, Withheld};

const VIEW: OutboundView<'_> = OutboundView {
    imps: !0,
    deals: !0,
    tmax: "80",
    cur: r#"["USD"]"#,
    buyeruid: None,
    bidder: None,
    is_limited: false,
};

fn enrichment(name: &str, value: RequestValue, place: EnrichmentPlace) -> Enrichment {
    Enrichment {
        name: name.into(),
        value,
        key: "key".into(),
        fields: vec!["key.a".into()],
        place,
        is_required: false,
        stale: Duration::ZERO,
        load: None,
    }
}

/// `user` about `user.id`, `page` about the page, `net` about the network.
fn enriching() -> Market {
    let enrichments = vec![
        enrichment("user", RequestValue::UserId, EnrichmentPlace::UserData),
        enrichment("page", RequestValue::Page, EnrichmentPlace::ContentData),
        enrichment("net", RequestValue::IpPrefix, EnrichmentPlace::Ext),
    ];
    Market { enrichments, ..market() }
}

fn added(text: &str) -> Result<KnownData, EnrichmentOutcome> {
    Ok(KnownData { text: Some(text.into()), age: Duration::from_secs(1), is_stale: false })
}

/// Knows `{"n":i}` about every value, as an element or a member.
fn known(at: usize) -> Result<KnownData, EnrichmentOutcome> {
    added(["{\"n\":0}", "{\"n\":1}", "\"net\":{\"n\":2}"][at])
}

/// The rest of a request that changes equally for every DSP, and what of it a DSP sees.
#[track_caller]
fn check(rest: &str, want: &str, outcomes: [EnrichmentOutcome; 3]) {
    check_view(VIEW, rest, want, outcomes);
}

#[track_caller]
fn check_view(view: OutboundView<'_>, rest: &str, want: &str, outcomes: [EnrichmentOutcome; 3]) {
    let (market, imp) = (enriching(), r#""imp":[{"id":"1","banner":{}}]"#);
    let body = format!(r#"{{"id":"r","tmax":100,"cur":["USD"],{imp}{rest}}}"#);
    let request = parse_request(&body).expect("the request is valid");
    let auction = Auction::new("a1", &request, &market).expect("it can be held");
    let auction = auction.enriched(&body, &mut String::new(), |at, _| known(at));
    let came: Vec<_> = auction.enrichments().iter().map(|it| it.outcome).collect();
    assert_eq!(came, outcomes);
    let text = outbound(&auction, &body).to_text(&view);
    assert!(openrtb::is_json(&text), "{text}");
    // Members that the request lacks come first.
    let head = r#""id":"a1","tmax":80,"cur":["USD"],"#;
    assert_eq!(text.replace(head, "").replace(imp, ""), format!("{{{want}}}"));
}

#[test]
fn data_goes_where_there_is_room() {
    let all = [Added; 3];
    check(
        r#","user":{"id":"u"},"site":{"page":"p"},"device":{"ip":"192.0.2.7"}"#,
        r#""ext":{"enrichment":{"net":{"n":2}}},,"user":{"data":[{"n":0}],"id":"u"},"site":{"content":{"data":[{"n":1}]},"page":"p"},"device":{"ip":"192.0.2.7"}"#,
        all,
    );
    check(
        r#","user":{"id":"u","data":[{"x":1}]},"app":{"page":"p","content":{"data":[]}},"device":{"ipv6":"2001:db8::1"},"ext":{"y":1}"#,
        r#","user":{"id":"u","data":[{"x":1},{"n":0}]},"app":{"page":"p","content":{"data":[{"n":1}]}},"device":{"ipv6":"2001:db8::1"},"ext":{"enrichment":{"net":{"n":2}},"y":1}"#,
        all,
    );
    check(
        r#","user":{"id":"u"},"site":{"page":"p","content":{}},"device":{"ip":"192.0.2.7"},"ext":{}"#,
        r#","user":{"data":[{"n":0}],"id":"u"},"site":{"page":"p","content":{"data":[{"n":1}]}},"device":{"ip":"192.0.2.7"},"ext":{"enrichment":{"net":{"n":2}}}"#,
        all,
    );
}

#[test]
fn what_is_there_already_is_left_alone() {
    let rest = r#","user":{"id":"u","data":7},"site":{"page":"p","content":5},"device":{"ip":"192.0.2.7"},"ext":{"enrichment":1}"#;
    let kept = r#","user":{"id":"u"},"site":{"page":"p"},"device":{"ip":"192.0.2.7"},"ext":{"enrichment":1}"#;
    check(rest, kept, [NoPlace; 3]);
    let rest = r#","user":{"id":"u","data":null},"site":{"page":"p","content":null},"device":{"ip":"192.0.2.7"},"ext":null"#;
    let filled = r#","user":{"id":"u","data":[{"n":0}]},"site":{"page":"p","content":{"data":[{"n":1}]}},"device":{"ip":"192.0.2.7"},"ext":{"enrichment":{"net":{"n":2}}}"#;
    check(rest, filled, [Added; 3]);
    let rest = r#","user":{"id":"u","x":[],"data":[],"data":[]},"site":{"page":"p"},"device":{}"#;
    let want = r#","user":{"id":"u","x":[],"data":[],"data":[]},"site":{"content":{"data":[{"n":1}]},"page":"p"},"device":{}"#;
    check(rest, want, [NoPlace, Added, NoValue]);
}

#[test]
fn a_buyer_s_id_keeps_its_comma() {
    let view = OutboundView { buyeruid: Some("\"b\""), ..VIEW };
    let of_user = |user: &str| format!(r#","user":{user}"#);
    // The id is in a member that is removed for all buyers.
    let user = r#"{"ext":{"buyeruids":{"x":"1"}},"id":"u"}"#;
    check_view(
        view,
        &of_user(user),
        &of_user(r#"{"buyeruid":"b","data":[{"n":0}],"ext":{},"id":"u"}"#),
        [Added, NoValue, NoValue],
    );
}

#[test]
fn privacy_forbids_what_is_about_the_user() {
    let rest = |flags: &str| {
        format!(
            r#","user":{{"id":"u"}},"site":{{"page":"p"}},"device":{{"ip":"192.0.2.7"{flags}}}"#
        )
    };
    let page = r#""site":{"content":{"data":[{"n":1}]},"page":"p"}"#;
    let ext = r#""ext":{"enrichment":{"net":{"n":2}}},"#;
    let limited = OutboundView { is_limited: true, ..VIEW };
    check_view(
        limited,
        &rest(r#","lmt":1"#),
        &format!(r#"{ext},"user":{{}},{page},"device":{{"ip":"192.0.2.0","lmt":1}}"#),
        [Withheld, Added, Added],
    );
    // One DSP does not enforce it: the others get nothing all the same.
    let mut market = enriching();
    market.dsps[0].privacy.lmt = false;
    let body = format!(r#"{{"id":"r","imp":[{{"id":"1","banner":{{}}}}]{}}}"#, rest(r#","lmt":1"#));
    let request = parse_request(&body).expect("the request is valid");
    let auction = Auction::new("a1", &request, &market).expect("it can be held");
    let auction = auction.enriched(&body, &mut String::new(), |at, _| known(at));
    let outbound = outbound(&auction, &body);
    assert!(outbound.to_text(&VIEW).contains(r#""user":{"data":[{"n":0}],"id":"u"}"#));
    let text = outbound.to_text(&limited);
    assert!(text.contains(r#""user":{}"#) && !text.contains(r#"{"n":0}"#), "{text}");
}

/// What is asked for, by the request.
#[track_caller]
fn check_value(value: RequestValue, rest: &str, want: Option<&str>) {
    let enrichments = vec![enrichment("e", value, EnrichmentPlace::ContentData)];
    let market = Market { enrichments, ..market() };
    let body = format!(r#"{{"id":"r","imp":[{{"id":"1","banner":{{}}}}],{rest}}}"#);
    let request = parse_request(&body).expect("the request is valid");
    let auction = Auction::new("a1", &request, &market).expect("it can be held");
    let mut asked = None;
    let auction = auction.enriched(&body, &mut "old".to_owned(), |_, value| {
        asked = Some(value.to_owned());
        Err(Unknown)
    });
    let outcome = if want.is_some() { Unknown } else { NoValue };
    assert_eq!((asked.as_deref(), auction.enrichments()[0].outcome), (want, outcome));
}

#[test]
fn values_are_taken_from_the_request() {
    use RequestValue::*;
    check_value(UserId, r#""user":{"id":"u"}"#, Some("u"));
    check_value(UserId, r#""user":{"id":""}"#, None);
    check_value(Page, r#""site":{"page":"http:\/\/a.example"}"#, Some("http://a.example"));
    check_value(Domain, r#""site":{"page":"http://a.example/b"}"#, Some("a.example"));
    check_value(Bundle, r#""app":{"bundle":"com.a"}"#, Some("com.a"));
    check_value(Bundle, r#""site":{}"#, None);
    check_value(IpPrefix, r#""device":{"ip":"192.0.2.77"}"#, Some("192.0.2.0"));
    check_value(IpPrefix, r#""device":{"ipv6":"2001:db8:1:2::3"}"#, Some("2001:db8:1::"));
    check_value(IpPrefix, r#""device":{"ip":"no","ipv6":"::ffff:192.0.2.77"}"#, Some("192.0.2.0"));
    check_value(IpPrefix, r#""device":{"ip":"no"}"#, None);
    let geo =
        |city: &str| format!(r#""device":{{"geo":{{"country":"USA","region":"US-CA"{city}}}}}"#);
    check_value(Country, &geo(""), Some("USA"));
    check_value(City, &geo(r#","city":"San Jose""#), Some("USA/CA/San Jose"));
    check_value(City, &geo(r#","city":"San Jose""#).replace("US-CA", ""), Some("USA//San Jose"));
    check_value(City, &geo(""), None);
    check_value(City, &geo(r#","city":"""#), None);
}

#[test]
fn an_auction_lacks_what_is_required_and_not_added() {
    let rest = r#""user":{"id":"u"},"site":{"page":"p"},"device":{"ip":"192.0.2.7"}"#;
    let body = format!(r#"{{"id":"r","imp":[{{"id":"1","banner":{{}}}}],{rest}}}"#);
    let request = parse_request(&body).expect("the request is valid");
    let stale = KnownData { is_stale: true, ..added("{}").expect("it is known") };
    let empty = KnownData { text: None, ..stale.clone() };
    let answers = HashMap::from([(0, stale), (1, empty)]);
    for (required, want) in [(0, false), (1, true), (2, true)] {
        let mut market = enriching();
        market.enrichments[required].is_required = true;
        let auction = Auction::new("a1", &request, &market).expect("it can be held");
        let find = |at: usize, _: &str| answers.get(&at).cloned().ok_or(Unknown);
        let auction = auction.enriched(&body, &mut String::new(), find);
        let came: Vec<_> = auction.enrichments().iter().map(|it| it.outcome).collect();
        assert_eq!((auction.lacks_data(), came), (want, vec![Stale, Empty, Unknown]));
    }
}

#[test]
fn texts_are_shared_and_not_copied() {
    let market = enriching();
    let body = r#"{"id":"r","imp":[{"id":"1","banner":{}}],"user":{"id":"u"},"site":{"page":"p"}}"#;
    let request = parse_request(body).expect("the request is valid");
    let auction = Auction::new("a1", &request, &market).expect("it can be held");
    let text: Arc<str> = "{}".into();
    let auction = auction.enriched(body, &mut String::with_capacity(64), |_, _| {
        Ok(KnownData { text: Some(Arc::clone(&text)), age: Duration::ZERO, is_stale: false })
    });
    let first = auction.enrichments()[0].text.as_ref().expect("it is added");
    assert!(Arc::ptr_eq(first, &text));
}
