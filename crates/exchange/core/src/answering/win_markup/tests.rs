//! Markup on win: what is fetched before the response, and with which results.

use serde_json::{Value, json};

use super::*;
use crate::fixtures::rehearsal::{SampleAuction, noticed, response, tokens};
use crate::fixtures::{cpm, imp, request};

const AD: &str = "<p>${AUCTION_PRICE}";

fn on_win(dsp: &str, change: Value) -> Value {
    let mut bid = noticed(dsp, change);
    bid.as_object_mut().expect("a bid").remove("adm");
    bid["nurl"] = json!(format!("https://n.{dsp}.example/ad?${{AUCTION_PRICE}}"));
    bid
}

fn three(mode: NoticeMode) -> SampleAuction {
    let bodies = [
        (0, response(&[on_win("alpha", json!({ "price": 3 }))], json!({}))),
        (1, response(&[on_win("beta", json!({ "price": 2 }))], json!({}))),
        (2, response(&[noticed("gamma", json!({ "price": 1 }))], json!({}))),
    ];
    SampleAuction::new(mode, &request(json!({})), &bodies)
}

fn wanted(rehearsal: &SampleAuction) -> Vec<MarkupRequest> {
    rehearsal.with(|auction, _, judgement, clearing| {
        markup_wanted(auction, judgement, clearing, &rehearsal.fetched)
    })
}

fn fetched(entry: usize, price: &str) -> FetchedMarkup {
    FetchedMarkup { entry, price: cpm(price), markup: AD.to_owned() }
}

#[test]
fn the_winner_is_fetched_and_its_ad_becomes_its_markup() {
    let mut rehearsal = three(NoticeMode::Final);
    let want = MarkupRequest {
        entry: 0,
        dsp: 0,
        price: cpm("2.01"),
        url: Ok("https://n.alpha.example/ad?2.01".to_owned()),
        is_preloaded: false,
    };
    assert_eq!(wanted(&rehearsal), [want]);
    rehearsal.fetched = vec![fetched(0, "2.01")];
    assert_eq!(wanted(&rehearsal), []);
    let (bids, conclusion) = rehearsal.bids();
    let adm = bids[0]["adm"].as_str().unwrap();
    assert!(adm.starts_with("<p>2.01<img "), "{adm}");
    assert_eq!(tokens(adm)[0].url, "https://n.alpha.example/bill");
    let urls: Vec<_> = conclusion.immediate.iter().map(|notice| &*notice.url).collect();
    assert_eq!(urls, ["https://n.beta.example/loss?102", "https://n.gamma.example/loss?102"]);
    assert!(conclusion.without_beacon.is_empty());
}

#[test]
fn an_ad_that_cannot_be_had_loses_and_sets_no_price() {
    let mut rehearsal = three(NoticeMode::Final);
    rehearsal.barred = vec![0];
    let again = wanted(&rehearsal);
    assert_eq!((again[0].entry, again[0].price), (1, cpm("1.01")));
    rehearsal.barred = vec![0, 1];
    assert_eq!(wanted(&rehearsal), []);
    assert_eq!(rehearsal.fates(), [Fate::NoMarkup, Fate::NoMarkup, Fate::Won]);
    let (bids, conclusion) = rehearsal.bids();
    assert_eq!(bids[0]["price"], 0);
    let urls: Vec<_> = conclusion.immediate.iter().map(|notice| &*notice.url).collect();
    let lost = ["https://n.alpha.example/loss?7", "https://n.beta.example/loss?7"];
    assert_eq!(urls, ["https://n.gamma.example/win", lost[0], lost[1]]);
}

#[test]
fn what_was_fetched_counts_at_its_price_alone() {
    let mut rehearsal = three(NoticeMode::Final);
    rehearsal.fetched = vec![fetched(0, "2"), fetched(1, "2.01")];
    assert_eq!(wanted(&rehearsal).len(), 1);
    let (bids, conclusion) = rehearsal.bids();
    assert_eq!(bids[0].get("adm"), None);
    assert_eq!(conclusion.immediate[0].url, "https://n.alpha.example/ad?2.01");
    assert_eq!(
        conclusion.without_beacon,
        [(0, crate::notices::markup::no_beacon::NoBeacon::Absent)]
    );
}

#[test]
fn upstream_relays_what_may_be_called() {
    let rehearsal = three(NoticeMode::Upstream);
    assert_eq!(wanted(&rehearsal), []);
    let (bids, _) = rehearsal.bids();
    assert_eq!(bids[0].get("adm"), None);
    let relays = |key: &str| tokens(bids[0][key].as_str().unwrap())[0].relays_markup;
    assert_eq!(["nurl", "burl", "lurl"].map(relays), [true, false, false]);
}

#[test]
fn what_must_not_be_called_is_to_be_barred() {
    for mode in [NoticeMode::Final, NoticeMode::Upstream] {
        let mut rehearsal = three(mode);
        rehearsal.market.dsps[0].notice_hosts.clear();
        let want = wanted(&rehearsal);
        assert_eq!(want[0].url, Err(NotSent::UndeclaredHost));
    }
    assert_eq!(wanted(&three(NoticeMode::PassThrough)), []);
    let mut test = three(NoticeMode::Final);
    test.request = request(json!({ "test": 1 }));
    assert_eq!(wanted(&test), []);
}

#[test]
fn a_preloaded_ad_stands_without_an_answer() {
    let check = |mode: NoticeMode, is_declared: bool, want: usize| {
        let bid = on_win("alpha", json!({ "adid": "7" }));
        let bodies = [(0, response(&[bid], json!({})))];
        let mut rehearsal = SampleAuction::new(mode, &request(json!({})), &bodies);
        if !is_declared {
            rehearsal.market.dsps[0].notice_hosts.clear();
        }
        let wanted = wanted(&rehearsal);
        assert_eq!(wanted.len(), want, "{mode:?} {is_declared}");
        assert!(wanted.iter().all(|wanted| wanted.is_preloaded));
    };
    check(NoticeMode::Final, true, 1);
    check(NoticeMode::Final, false, 0);
    check(NoticeMode::Upstream, true, 0);
    check(NoticeMode::Upstream, false, 0);
}

/// The notice is called once, and the bid is returned unchanged.
#[test]
fn a_delivered_notice_of_a_preloaded_ad_is_not_sent_again() {
    let bid = on_win("alpha", json!({ "adid": "7" }));
    let bodies = [(0, response(&[bid], json!({})))];
    let mut rehearsal = SampleAuction::new(NoticeMode::Final, &request(json!({})), &bodies);
    let price = wanted(&rehearsal)[0].price;
    rehearsal.fetched = vec![FetchedMarkup { entry: 0, price, markup: String::new() }];
    assert_eq!(wanted(&rehearsal), []);
    let (bids, conclusion) = rehearsal.bids();
    assert_eq!((&bids[0]["adid"], bids[0].get("adm")), (&json!("7"), None));
    assert_eq!(conclusion.immediate, []);
    assert_eq!(
        conclusion.without_beacon,
        [(0, crate::notices::markup::no_beacon::NoBeacon::Absent)]
    );
}

#[test]
fn fetched_markup_is_held_to_what_inline_markup_is() {
    let checked = |of_imp: Value, markup: &str, is_preloaded| {
        let mut rehearsal = three(NoticeMode::Final);
        rehearsal.market.bid_macros_max = 2;
        rehearsal.request = request(json!({ "imp": [imp(of_imp)] }));
        rehearsal.with(|auction, _, judgement, clearing| {
            let wanted = &markup_wanted(auction, judgement, clearing, &[])[0];
            let wanted = MarkupRequest { is_preloaded, ..wanted.clone() };
            checked_markup(auction, judgement, &wanted, markup.to_owned())
        })
    };
    let check = |of_imp: Value, markup: &str, want: Result<(), Fate>| {
        let want = want.map(|()| markup.to_owned());
        assert_eq!(checked(of_imp, markup, false), want, "{markup}");
    };
    let banner = json!({ "banner": { "w": 300, "h": 250, "btype": [3] } });
    check(json!({}), "<img src='http://a/'><script>", Ok(()));
    check(json!({ "secure": 1 }), "<img src='http://a/'>", Err(Fate::Insecure));
    check(json!({ "secure": 1 }), "<img src='https://a/'>", Ok(()));
    check(banner.clone(), "<script>", Err(Fate::AdType));
    check(banner, "<p>", Ok(()));
    check(json!({}), " \n", Err(Fate::NoMarkup));
    assert_eq!(checked(json!({}), " \n", true), Ok(String::new()), "its ad is preloaded");
    let macros = |count: usize| "${AUCTION_ID}".repeat(count);
    check(json!({}), &macros(2), Ok(()));
    check(json!({}), &macros(3), Err(Fate::Malformed));
    check(json!({}), "<VAST/>", Err(Fate::Format));
}

#[test]
fn fetched_markup_tells_the_format() {
    let check = |markup: &str, want: Result<&str, Fate>| {
        let bodies = [(0, response(&[on_win("alpha", json!({ "adid": "7" }))], json!({})))];
        let video = json!({ "video": { "mimes": ["v"] } });
        let body = request(json!({ "imp": [imp(video)] }));
        let mut rehearsal = SampleAuction::new(NoticeMode::Final, &body, &bodies);
        let got = rehearsal.with(|auction, _, judgement, clearing| {
            let wanted = markup_wanted(auction, judgement, clearing, &[]);
            checked_markup(auction, judgement, &wanted[0], markup.to_owned())
        });
        assert_eq!(got.map(drop), want.map(drop), "{markup}");
        let wanted = &wanted(&rehearsal)[0];
        assert!(!wanted.is_preloaded);
        let Ok(beacon) = want else { return };
        rehearsal.fetched =
            vec![FetchedMarkup { entry: 0, price: wanted.price, markup: markup.to_owned() }];
        let (bids, conclusion) = rehearsal.bids();
        assert!(conclusion.without_beacon.is_empty(), "{markup}");
        assert!(bids[0]["adm"].as_str().unwrap().contains(beacon), "{markup}");
    };
    check("<p>", Ok("<img src="));
    check("<VAST><Ad><InLine><AdTitle/></InLine></Ad></VAST>", Ok("<Impression><![CDATA["));
    check("<DAAST/>", Err(Fate::Format));
}
