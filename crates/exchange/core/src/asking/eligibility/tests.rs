//! Calls of DSPs, and reasons not to ask.

use serde_json::{Value, json};
use units::Ppm;

use super::*;
use crate::asking::guard::GuardRefusal;
use crate::fixtures::{imp, market, merged, ppm, request, with_auction};
use crate::market::size::AdSize;
use crate::market::targeting::{Targeting, UserIdNeed};
use crate::market::{DealTerms, Market};

#[track_caller]
fn check(market: &Market, of_request: Value, want: Result<(ImpMask, DealMask), NotAsked>) {
    let body = request(of_request);
    let got = with_auction(market, &body, |auction| eligible(auction, 0));
    assert_eq!(got.map(|ask| (ask.imps, ask.deals)), want, "{body}");
}

fn market_where(change: impl FnOnce(&mut Dsp)) -> Market {
    let mut market = market();
    change(&mut market.dsps[0]);
    market
}

const ASKED: Result<(ImpMask, DealMask), NotAsked> = Ok((1, 0));

#[test]
fn publishers() {
    let from = |id: &str| json!({ "site": { "publisher": { "id": id } } });
    let only = market_where(|dsp| dsp.publishers_allowed = vec!["p1".into()]);
    let but = market_where(|dsp| dsp.publishers_blocked = vec!["p1".into()]);
    check(&only, from("p1"), ASKED);
    check(&only, from("P1"), Err(NotAsked::Publisher));
    check(&only, json!({}), Err(NotAsked::Publisher));
    check(&only, json!({ "app": { "publisher": { "id": "p1" } } }), ASKED);
    check(&but, from("p1"), Err(NotAsked::Publisher));
    check(&but, from("p2"), ASKED);
    check(&but, json!({}), ASKED);
}

#[test]
fn countries() {
    let from = |country: &str| json!({ "device": { "geo": { "country": country } } });
    let market = market_where(|dsp| dsp.countries = vec!["DEU".into(), "FRA".into()]);
    check(&market, from("FRA"), ASKED);
    check(&market, from("fra"), ASKED);
    check(&market, from("USA"), Err(NotAsked::Country));
    check(&market, json!({}), Err(NotAsked::Country));
    check(&crate::fixtures::market(), json!({}), ASKED);
}

#[test]
fn seats() {
    let market = market();
    for (of_request, want) in [
        (json!({ "wseat": ["a2", "zz"] }), ASKED),
        (json!({ "wseat": ["zz"] }), Err(NotAsked::Seats)),
        (json!({ "wseat": [] }), ASKED),
        (json!({ "bseat": ["a1"] }), ASKED),
        (json!({ "bseat": ["a1", "a2"] }), Err(NotAsked::Seats)),
        (json!({ "wseat": ["a1"], "bseat": ["a1"] }), Err(NotAsked::Seats)),
    ] {
        check(&market, of_request, want);
    }
}

/// Seats are accounts: the catalogue finds those that may bid, and their deals.
#[test]
fn direct_campaigns_are_asked_whatever_seats_are_welcome() {
    let mut market = market();
    let named = DealTerms { dsps: vec![1], ..DealTerms::default() };
    market.deals.insert("named".into(), named);
    let deals = json!([{ "id": "d", "wseat": ["zz"] }, { "id": "named" }]);
    let private = imp(json!({ "id": "2", "pmp": { "private_auction": 1, "deals": deals } }));
    let of_request = json!({
        "wseat": ["zz"], "bseat": ["a1", "a2"], "device": { "geo": { "country": "FRA" } },
        "imp": [imp(json!({})), private, imp(json!({ "id": "3", "banner": null, "audio": { "mimes": ["a"] } }))],
    });
    market.dsps[0].formats = 1;
    with_auction(&market, &request(of_request), |auction| {
        assert_eq!(eligible(auction, 0), Err(NotAsked::Seats));
        let ask = eligible_direct(auction, 0).map(|ask| (ask.dsp, ask.imps, ask.deals));
        assert_eq!(ask, Ok((0, 0b011, 0b01)));
    });
    let nothing =
        request(json!({ "imp": [imp(json!({ "banner": null, "audio": { "mimes": ["a"] } }))] }));
    with_auction(&market, &nothing, |auction| {
        assert_eq!(eligible_direct(auction, 0), Err(NotAsked::Impressions));
    });
}

#[test]
fn formats_and_sizes() {
    let video = || imp(json!({ "id": "2", "banner": null, "video": { "mimes": ["v"] } }));
    let large = || imp(json!({ "id": "3", "banner": { "format": [{ "w": 728, "h": 90 }] } }));
    let sizeless = || imp(json!({ "id": "4", "banner": {} }));
    let screen = || imp(json!({ "id": "5", "instl": 1, "banner": { "w": 400, "h": 600 } }));
    let both =
        || imp(json!({ "id": "6", "banner": { "w": 1, "h": 1 }, "audio": { "mimes": ["a"] } }));
    let all = json!({ "imp": [imp(json!({})), video(), large(), sizeless(), screen(), both()] });
    let small = |formats| {
        market_where(|dsp| {
            dsp.sizes = vec![AdSize::new(300, 250)];
            dsp.formats = formats;
        })
    };
    check(&market(), all.clone(), Ok((0b11_1111, 0)));
    check(&small(0b1111), all.clone(), Ok((0b11_1011, 0)));
    check(&small(MediaType::Banner.bit()), all.clone(), Ok((0b01_1001, 0)));
    check(&small(MediaType::Video.bit()), all.clone(), Ok((0b00_0010, 0)));
    check(&small(MediaType::Native.bit()), all, Err(NotAsked::Impressions));
    check(&small(0b1111), json!({ "imp": [large()] }), Err(NotAsked::Impressions));
}

#[test]
fn deals_are_shown_to_those_who_may_use_them() {
    let mut market = market();
    let named = |dsps: &[usize]| DealTerms { dsps: dsps.to_vec(), ..DealTerms::default() };
    market.deals.insert("alpha".into(), named(&[0]));
    market.deals.insert("beta".into(), named(&[1, 2]));
    let deals = |deals: Value| json!({ "imp": [imp(json!({ "pmp": { "deals": deals } }))] });
    check(
        &market,
        deals(json!([{ "id": "x" }, { "id": "alpha" }, { "id": "beta" }])),
        Ok((1, 0b011)),
    );
    let by_seat = json!([
        { "id": "x", "wseat": ["a2", "b1"] },
        { "id": "y", "wseat": ["b1"] },
        { "id": "z", "wseat": [] },
        { "id": "alpha", "wseat": ["b1"] },
        { "id": "beta", "wseat": ["a1"] },
    ]);
    check(&market, deals(by_seat), Ok((1, 0b00101)));
    let mut blocked =
        deals(json!([{ "id": "x", "wseat": ["a1"] }, { "id": "y", "wseat": ["a2"] }]));
    blocked["bseat"] = json!(["a1"]);
    check(&market, blocked, Ok((1, 0b10)));
}

#[test]
fn private_auctions_are_for_those_with_a_deal() {
    let private = |id: &str, deals: Value| {
        imp(json!({ "id": id, "pmp": { "private_auction": 1, "deals": deals } }))
    };
    let ours = || json!([{ "id": "x", "wseat": ["b1"] }, { "id": "y", "wseat": ["a1"] }]);
    let theirs = || json!([{ "id": "z", "wseat": ["b1"] }]);
    let market = market();
    check(&market, json!({ "imp": [private("1", theirs())] }), Err(NotAsked::Impressions));
    check(&market, json!({ "imp": [private("1", json!([]))] }), Err(NotAsked::Impressions));
    // Positions of deals count over all impressions, including those not offered.
    let three =
        json!({ "imp": [private("1", theirs()), private("2", ours()), imp(json!({ "id": "3" }))] });
    check(&market, three, Ok((0b110, 0b100)));
}

#[test]
fn reasons_are_reported_in_order() {
    let mut market = market_where(|dsp| {
        dsp.publishers_allowed = vec!["p1".into()];
        dsp.countries = vec!["DEU".into()];
        dsp.formats = MediaType::Native.bit();
        dsp.targeting = Targeting {
            device_types: 1 << 2,
            user_id: UserIdNeed::Required,
            sample: ppm(0),
            ..Targeting::default()
        };
    });
    let site = json!({ "publisher": { "id": "p1" } });
    let (geo, pc) = (json!({ "geo": { "country": "DEU" } }), json!({ "devicetype": 2 }));
    let here = merged(&geo, &pc);
    let known = json!({ "id": "u" });
    let blocked = json!(["a1", "a2"]);
    let none: Value = Value::Null;
    for (site, device, user, want) in [
        (&none, &none, &none, NotAsked::Publisher),
        (&site, &pc, &none, NotAsked::Country),
        (&site, &geo, &none, NotAsked::Device),
        (&site, &here, &none, NotAsked::UserId),
        (&site, &here, &known, NotAsked::Sampling),
    ] {
        let request = json!({ "site": site, "device": device, "user": user, "bseat": blocked });
        check(&market, request, Err(want));
    }
    market.dsps[0].targeting.sample = Ppm::ONE;
    for (bseat, want) in [(&blocked, NotAsked::Seats), (&none, NotAsked::Impressions)] {
        let request = json!({ "site": site, "device": here, "user": known, "bseat": bseat });
        check(&market, request, Err(want));
    }
    assert!(NotAsked::ALL.is_sorted());
    let labels: std::collections::BTreeSet<_> = NotAsked::ALL.map(NotAsked::label).into();
    assert_eq!(labels.len(), NotAsked::ALL.len());
}

#[test]
fn the_guards_refusals_come_last_and_in_its_order() {
    let refusals =
        [GuardRefusal::Paused, GuardRefusal::Breaker, GuardRefusal::Qps, GuardRefusal::InFlight];
    assert!(refusals.is_sorted());
    assert_eq!(NotAsked::ALL[7..], refusals.map(NotAsked::from));
}
