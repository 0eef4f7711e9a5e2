//! Every fate of a bid, alone and with every later one; every fate of a response.

use serde_json::{Value, json};

use super::*;
use crate::fixtures::{
    AUCTION_ID, answers, bid, cpm, fates, imp, market, merged, request, response, with_auction,
};
use crate::market::{DealTerms, Market, NoticeMode};

mod macros;
mod stretches;

/// A fault of one bid of the first DSP, as changes to a sound auction.
#[derive(Clone)]
struct Row {
    fate: Fate,
    code: u32,
    /// Changes by object: request, imp, response, seatbid, bid.
    changes: [Value; 5],
    earlier: Value,
    rival: Value,
}

const REQUEST: usize = 0;
const IMP: usize = 1;
const RESPONSE: usize = 2;
const SEATBID: usize = 3;
const BID: usize = 4;

fn row<const N: usize>(fate: Fate, code: u32, changes: [(usize, Value); N]) -> Row {
    let mut row = Row {
        fate,
        code,
        changes: std::array::from_fn(|_| json!({})),
        earlier: Value::Null,
        rival: Value::Null,
    };
    for (object, change) in changes {
        row.changes[object] = change;
    }
    row
}

fn form_rows() -> Vec<Row> {
    let twice = row(Fate::DuplicateBid, 3, []);
    vec![
        row(Fate::WrongAuction, 5, [(RESPONSE, json!({ "id": "caller-1" }))]),
        row(Fate::CurrencyNotAccepted, 1002, [(RESPONSE, json!({ "cur": "JPY" }))]),
        row(Fate::Malformed, 3, [(BID, json!({ "id": 7 }))]),
        row(Fate::NoPrice, 9, [(BID, json!({ "price": null }))]),
        row(Fate::BadPrice, 3, [(BID, json!({ "price": -1 }))]),
        row(Fate::NoMarkup, 7, [(BID, json!({ "adm": null }))]),
        row(Fate::NoCreativeId, 8, [(BID, json!({ "crid": null }))]),
        row(Fate::UnknownImp, 3, [(BID, json!({ "impid": "9" }))]),
        Row { earlier: bid(json!({})), ..twice },
    ]
}

fn seat_and_deal_rows() -> Vec<Row> {
    let deal = |fate, code, deal: Value| {
        row(
            fate,
            code,
            [
                (IMP, json!({ "pmp": { "deals": [deal] } })),
                (BID, json!({ "dealid": deal["id"], "adomain": ["bad.example"] })),
            ],
        )
    };
    let private = json!({ "pmp": { "private_auction": 1, "deals": [{ "id": "d" }] } });
    vec![
        row(Fate::SeatUndeclared, 104, [(SEATBID, json!({ "seat": "b1" }))]),
        row(Fate::SeatNotAllowed, 104, [(REQUEST, json!({ "wseat": ["a2"] }))]),
        row(Fate::SeatBlocked, 104, [(REQUEST, json!({ "bseat": ["a1"] }))]),
        row(Fate::DealUnknown, 4, [(BID, json!({ "dealid": "none" }))]),
        deal(Fate::DealNotOffered, 4, json!({ "id": "beta-only" })),
        deal(Fate::DealSeat, 4, json!({ "id": "d", "wseat": ["a2"] })),
        deal(Fate::DealAdvertiser, 6, json!({ "id": "d", "wadomain": ["good.example"] })),
        row(Fate::PrivateAuction, 4, [(IMP, private)]),
        deal(Fate::BelowDealFloor, 101, json!({ "id": "d", "bidfloor": 50 })),
    ]
}

fn creative_rows() -> Vec<Row> {
    let blocked = |fate, code, request, bid| row(fate, code, [(REQUEST, request), (BID, bid)]);
    let on_imp = |fate, code, imp, bid| row(fate, code, [(IMP, imp), (BID, bid)]);
    let banner = |key: &str, list: Value| json!({ "banner": { "w": 300, "h": 250, key: list } });
    let video =
        |key: &str, says: Value| json!({ "banner": null, "video": { "mimes": ["v"], key: says } });
    let vast = |change: Value| merged(&json!({ "adm": "<VAST/>" }), &change);
    vec![
        row(Fate::Size, 203, [(BID, json!({ "w": 728, "h": 90 }))]),
        row(Fate::Format, 204, [(BID, json!({ "mtype": 3 }))]),
        on_imp(Fate::Protocol, 204, video("protocols", json!([2])), vast(json!({ "protocol": 3 }))),
        on_imp(Fate::Api, 200, banner("api", json!([5])), json!({ "apis": [7] })),
        on_imp(Fate::Duration, 200, video("maxduration", json!(30)), vast(json!({ "dur": 31 }))),
        on_imp(
            Fate::Insecure,
            207,
            json!({ "secure": 1 }),
            json!({ "adm": "<img src='http://x'>" }),
        ),
        blocked(Fate::Language, 208, json!({ "wlang": ["de"] }), json!({ "language": "en" })),
        blocked(
            Fate::Advertiser,
            205,
            json!({ "badv": ["bad.example"] }),
            json!({ "adomain": ["bad.example"] }),
        ),
        blocked(Fate::Category, 209, json!({ "bcat": ["IAB7"] }), json!({ "cat": ["IAB7-1"] })),
        on_imp(Fate::Attribute, 210, banner("battr", json!([3])), json!({ "attr": [3] })),
        on_imp(Fate::AdType, 211, banner("btype", json!([4])), json!({ "adm": "<iframe>" })),
        blocked(
            Fate::AppBundle,
            206,
            json!({ "bapp": ["com.bad"] }),
            json!({ "bundle": "com.bad" }),
        ),
    ]
}

fn price_rows() -> Vec<Row> {
    let elsewhere = bid(json!({ "id": "b0", "impid": "9" }));
    let grouped = row(Fate::GroupIncomplete, 1001, [(SEATBID, json!({ "group": 1 }))]);
    let lost = row(Fate::LostToHigherBid, 102, []);
    let deals = json!({ "pmp": { "deals": [{ "id": "d" }] } });
    let to_deal = row(Fate::LostToDeal, 103, [(IMP, deals)]);
    vec![
        row(Fate::BelowFloor, 100, [(IMP, json!({ "bidfloor": 50 }))]),
        row(
            Fate::BudgetExhausted,
            1000,
            [(REQUEST, json!({ "at": 1 })), (BID, json!({ "price": 6.66 }))],
        ),
        Row { earlier: elsewhere, ..grouped },
        Row { rival: bid(json!({ "price": 9 })), ..lost },
        Row { rival: bid(json!({ "price": 9, "dealid": "d" })), ..to_deal },
        row(Fate::Won, 0, []),
    ]
}

fn rows() -> Vec<Row> {
    let mut rows = form_rows();
    rows.extend([seat_and_deal_rows(), creative_rows(), price_rows()].into_iter().flatten());
    rows.sort_by_key(|row| Fate::ALL.iter().position(|fate| *fate == row.fate));
    rows
}

fn market_with_deals() -> Market {
    let mut market = market();
    let terms = DealTerms { dsps: vec![1], ..DealTerms::default() };
    market.deals.insert("beta-only".into(), terms);
    market
}

#[track_caller]
fn check(row: &Row, note: Fate) {
    let [of_request, of_imp, of_response, of_seatbid, of_bid] = &row.changes;
    let request = request(merged(&json!({ "imp": [imp(of_imp.clone())] }), of_request));
    let bids: Vec<Value> = [row.earlier.clone(), bid(of_bid.clone())]
        .into_iter()
        .filter(|bid| !bid.is_null())
        .collect();
    let seatbid = merged(&json!({ "bid": bids }), of_seatbid);
    let own = merged(&json!({ "id": AUCTION_ID, "seatbid": [seatbid] }), of_response).to_string();
    // The rival's answer comes first, so that the row's bid is the last.
    let rival = (!row.rival.is_null()).then(|| (1, response(std::slice::from_ref(&row.rival))));
    let answers: Vec<(usize, String)> = rival.into_iter().chain([(0, own)]).collect();
    let got = fates(&market_with_deals(), &request, &answers);
    assert_eq!(got.last(), Some(&row.fate), "and {note:?}: {request} {answers:?}");
    assert_eq!(row.fate.code(), row.code);
}

#[test]
fn every_fate_has_its_row_and_code() {
    let rows = rows();
    let listed: Vec<Fate> = rows.iter().map(|row| row.fate).collect();
    let all = Fate::ALL.into_iter().filter(|fate| *fate != Fate::Offered);
    assert_eq!(listed, all.collect::<Vec<_>>());
    for row in &rows {
        check(row, row.fate);
    }
}

fn both(earlier: &Row, later: &Row) -> Option<Row> {
    let contradict = |a: &Value, b: &Value| {
        let (a, b) = (a.as_object().unwrap(), b.as_object().unwrap());
        a.iter().any(|(key, value)| b.get(key).is_some_and(|other| other != value))
    };
    if earlier.changes.iter().zip(&later.changes).any(|(a, b)| contradict(a, b)) {
        return None;
    }
    let either = |a: &Value, b: &Value| if a.is_null() { b.clone() } else { a.clone() };
    Some(Row {
        changes: std::array::from_fn(|at| {
            let mut change = earlier.changes[at].clone();
            let more = later.changes[at].as_object().unwrap().clone();
            change.as_object_mut().unwrap().extend(more);
            change
        }),
        earlier: either(&earlier.earlier, &later.earlier),
        rival: either(&earlier.rival, &later.rival),
        ..earlier.clone()
    })
}

#[test]
fn of_two_mistakes_the_first_in_order_is_the_fate() {
    let rows = rows();
    let mut pairs = 0;
    for (index, earlier) in rows.iter().enumerate() {
        if earlier.fate.took_part() {
            break;
        }
        for later in &rows[index + 1..] {
            let exclusive = matches!(
                (earlier.fate, later.fate),
                // Only a banner has a size, and bids under a deal need only reach its floor.
                (Fate::Size, Fate::Format | Fate::Protocol | Fate::Duration)
                    | (Fate::BelowFloor, Fate::BelowDealFloor)
            );
            if let (false, Some(row)) = (exclusive, both(earlier, later)) {
                check(&row, later.fate);
                pairs += 1;
            }
        }
    }
    assert!(pairs > 300, "{pairs}");
}

fn response_fates(body: &[u8]) -> (ResponseFate, usize) {
    with_auction(&market(), &request(json!({})), |auction| {
        let ask = answers(auction, &[(0, String::new())])[0].ask;
        let judgement = judge(auction, &[DspAnswer { ask, body }]);
        (judgement.responses[0], judgement.bids.len())
    })
}

#[test]
fn every_response_has_a_fate() {
    let nested = format!("{{\"ext\":{}{}}}", "[".repeat(64), "]".repeat(64));
    let many = |count: usize| {
        let bids: Vec<Value> = (0..count).map(|id| bid(json!({ "id": id.to_string() }))).collect();
        response(&bids)
    };
    let empty =
        |count: usize| format!(r#"{{"seatbid":[{{"bid":[{}]}}]}}"#, vec!["{}"; count].join(","));
    for (body, want) in [
        (b"\xff{}".as_slice(), (ResponseFate::Malformed, 0)),
        (b"", (ResponseFate::Malformed, 0)),
        (b"[", (ResponseFate::Malformed, 0)),
        (br#"{"seatbid":1}"#, (ResponseFate::Malformed, 0)),
        (br#"{"seatbid":[{}]}"#, (ResponseFate::Malformed, 0)),
        (br#"{"id":1,"seatbid":[]}"#, (ResponseFate::Malformed, 0)),
        (nested.as_bytes(), (ResponseFate::Malformed, 0)),
        (b"{}", (ResponseFate::NoBid, 0)),
        (br#"{"id":"auction-1","nbr":2}"#, (ResponseFate::NoBid, 0)),
        (br#"{"id":"auction-1","seatbid":null}"#, (ResponseFate::NoBid, 0)),
        (br#"{"id":"auction-1","seatbid":[]}"#, (ResponseFate::NoBid, 0)),
        (br#"{"id":"auction-1","seatbid":[{"bid":[]}]}"#, (ResponseFate::NoBid, 0)),
        (br#"{"seatbid":[{"bid":[{}]}]}"#, (ResponseFate::Bids, 1)),
        (br#"{"seatbid":[{"bid":[7]}]}"#, (ResponseFate::Bids, 1)),
        (many(BIDS_MAX).as_bytes(), (ResponseFate::Bids, BIDS_MAX)),
        (many(BIDS_MAX + 1).as_bytes(), (ResponseFate::TooManyBids, BIDS_MAX)),
        (empty(5 * BIDS_MAX).as_bytes(), (ResponseFate::TooManyBids, BIDS_MAX)),
    ] {
        assert_eq!(response_fates(body), want, "{}", String::from_utf8_lossy(body));
    }
}

/// The group cannot win, because its other bids are unknown.
#[test]
fn bids_beyond_the_most_are_ignored_and_a_cut_group_is_impossible() {
    let check = |sizes: &[usize], want: (&[(usize, usize)], &[bool])| {
        let mut id = 0;
        let seats: Vec<Value> = sizes
            .iter()
            .map(|size| {
                let bids: Vec<Value> = (0..*size)
                    .map(|_| {
                        id += 1;
                        bid(json!({ "id": id.to_string() }))
                    })
                    .collect();
                json!({ "group": 1, "bid": bids })
            })
            .collect();
        let body = json!({ "id": "auction-1", "seatbid": seats }).to_string();
        with_auction(&market(), &request(json!({})), |auction| {
            let bodies = [(0, body)];
            let judgement = judge(auction, &answers(auction, &bodies));
            let possible: Vec<_> = judgement.groups.iter().map(|group| group.possible).collect();
            assert_eq!((&judgement.surplus[..], &possible[..]), want, "{sizes:?}");
        });
    };
    check(&[BIDS_MAX], (&[], &[true]));
    check(&[BIDS_MAX + 2], (&[(0, 2)], &[false]));
    check(&[BIDS_MAX - 1, 2], (&[(0, 1)], &[true, false]));
    check(&[BIDS_MAX, 3], (&[(0, 3)], &[true, true]));
}

/// Each macro may grow to 256 bytes. A dollar sign alone is no macro, and escapes hide none.
#[test]
fn a_bid_with_too_many_macros_is_malformed() {
    let check = |adm: &str, escape: (&str, &str), want: Result<(), Fate>| {
        let body = response(&[bid(json!({ "adm": adm }))]).replace(escape.0, escape.1);
        let market = Market { bid_macros_max: 3, ..market() };
        with_auction(&market, &request(json!({})), |auction| {
            let bodies = [(0, body)];
            let judgement = judge(auction, &answers(auction, &bodies));
            assert_eq!(judgement.bids[0].entry.map(|_| ()), want, "{adm} {escape:?}");
        });
    };
    let macros = |count: usize| "<p>${AUCTION_ID}".repeat(count);
    check(&macros(3), ("", ""), Ok(()));
    check(&macros(4), ("", ""), Err(Fate::Malformed));
    check(&macros(3), ("$", r"\u0024"), Ok(()));
    check(&macros(4), ("$", r"\u0024"), Err(Fate::Malformed));
    check(&macros(4), ("AUCTION", r"\u0041UCTION"), Err(Fate::Malformed));
    check("<p>$$$$${OTHER}", ("", ""), Ok(()));
}

#[test]
fn one_bad_bid_leaves_the_others() {
    let bids = |bad: Value| {
        [bid(json!({ "id": "low", "price": 1 })), bad, bid(json!({ "id": "high", "price": 3 }))]
    };
    let array = json!(vec![Value::Null; 21]);
    for (bad, want) in [
        (json!(7), Fate::Malformed),
        (json!("bid"), Fate::Malformed),
        (array, Fate::Malformed),
        (json!({}), Fate::Malformed),
        (bid(json!({ "id": "" })), Fate::Malformed),
        (bid(json!({ "impid": "" })), Fate::Malformed),
        (bid(json!({ "adomain": "x" })), Fate::Malformed),
        (bid(json!({ "price": "2" })), Fate::BadPrice),
        (bid(json!({ "price": 0 })), Fate::BadPrice),
        (bid(json!({ "price": 1e300 })), Fate::BadPrice),
        (bid(json!({ "price": 1e-7 })), Fate::BadPrice),
        (bid(json!({ "crid": "" })), Fate::NoCreativeId),
        (bid(json!({ "adm": "" })), Fate::NoMarkup),
        (bid(json!({ "adm": 7 })), Fate::NoMarkup),
        (bid(json!({ "id": "low" })), Fate::DuplicateBid),
    ] {
        let body = response(&bids(bad));
        let got = fates(&market(), &request(json!({})), &[(0, body.clone())]);
        assert_eq!(got, [Fate::LostToHigherBid, want, Fate::Won], "{body}");
    }
}

#[track_caller]
fn check_entry(of_request: Value, response: &Value, want: Result<(usize, &str), Fate>) {
    let body = [(0, response.to_string())];
    let got = with_auction(&market_with_deals(), &request(of_request), |auction| {
        let judgement = judge(auction, &answers(auction, &body));
        let entry = |entry: usize| &judgement.entries[entry];
        judgement.bids[0].entry.map(|at| (entry(at).seat.seat, entry(at).price))
    });
    assert_eq!(got, want.map(|(seat, price)| (seat, cpm(price))), "{response}");
}

#[test]
fn what_is_absent_has_its_default() {
    let of = |cur: Value, seat: Value, bid: Value| {
        let seatbid = merged(&json!({ "bid": [bid] }), &json!({ "seat": seat }));
        merged(&json!({ "id": AUCTION_ID, "seatbid": [seatbid] }), &json!({ "cur": cur }))
    };
    let plain = || of(Value::Null, Value::Null, bid(json!({})));
    let none = || json!({});
    //          request, response, (seat, price)
    check_entry(none(), &plain(), Ok((0, "2")));
    check_entry(none(), &of(json!("EUR"), json!("a2"), bid(json!({}))), Ok((1, "2.16")));
    check_entry(json!({ "cur": ["EUR"] }), &plain(), Ok((0, "1.851851")));
    check_entry(json!({ "cur": ["ZZZ", "GBP"] }), &plain(), Ok((0, "1.574803")));
    check_entry(
        none(),
        &of(json!("EURO"), Value::Null, bid(none())),
        Err(Fate::CurrencyNotAccepted),
    );
    check_entry(
        none(),
        &of(json!("ZZZ"), Value::Null, bid(none())),
        Err(Fate::CurrencyNotAccepted),
    );
    let other = |key: &str| of(Value::Null, Value::Null, bid(json!({ "adm": null, key: "x" })));
    check_entry(none(), &other("nurl"), Ok((0, "2")));
    check_entry(none(), &other("adid"), Ok((0, "2")));
    check_entry(none(), &other("iurl"), Err(Fate::NoMarkup));
    let typed = |mtype: u32| of(Value::Null, Value::Null, bid(json!({ "mtype": mtype })));
    check_entry(none(), &typed(1), Ok((0, "2")));
    check_entry(none(), &typed(2), Err(Fate::Format));
    check_entry(none(), &typed(9), Err(Fate::Format));
    let object = bid(json!({ "adm": { "assets": [] } }));
    check_entry(none(), &of(Value::Null, Value::Null, object), Err(Fate::Format));
}

/// Checks the possible formats of a bid on an impression of all four, as codes of `mtype`; `later`
/// if its markup is fetched before the response.
#[expect(clippy::needless_pass_by_value, reason = "reads well with json!")]
#[track_caller]
fn check_formats(bid_change: Value, want: Result<&[u32], Fate>, later: Result<&[u32], Fate>) {
    let of_imp = json!({
        "video": { "mimes": ["video/mp4"], "minduration": 10 },
        "audio": { "mimes": ["audio/mp4"], "battr": [9] },
        "native": { "request": "{}" },
    });
    let body = request(json!({ "imp": [imp(of_imp)] }));
    let bodies = [(0, response(&[bid(bid_change.clone())]))];
    for (notices, want) in [(NoticeMode::Upstream, want), (NoticeMode::Final, later)] {
        let mut market = market();
        market.publishers.others.notices = notices;
        with_auction(&market, &body, |auction| {
            let judgement = judge(auction, &answers(auction, &bodies));
            let judged = &judgement.bids[0];
            let formats = MediaType::members(judged.formats).map(|format| format as u32 + 1);
            let got = judged.entry.map(|_| formats.collect::<Vec<_>>());
            assert_eq!(got.as_deref().map_err(|fate| *fate), want, "{notices:?} {bid_change}");
        });
    }
}

#[test]
fn without_mtype_the_markup_says_what_a_bid_is() {
    let check = |bid: Value, want| check_formats(bid, want, want);
    let media = |kind: &str| format!("<VAST><MediaFiles><MediaFile id='1' type='{kind}'>");
    check(json!({ "adm": "<p>" }), Ok(&[1]));
    check(json!({ "adm": "see { this }" }), Ok(&[1]));
    check(json!({ "adm": "{\"assets\":[]}" }), Ok(&[4]));
    check(json!({ "adm": { "assets": [] } }), Ok(&[4]));
    check(json!({ "adm": media("video/mp4") }), Ok(&[2]));
    check(json!({ "adm": media("audio/mpeg") }), Ok(&[3]));
    check(json!({ "adm": "<DAAST/>" }), Ok(&[3]));
    check(json!({ "adm": "<VAST><Wrapper/>" }), Err(Fate::Format));
    check(json!({ "adm": "<VAST><Wrapper/>", "attr": [9] }), Ok(&[2]));
    check(json!({ "mtype": 1, "adm": "{}" }), Ok(&[1]));
    check(json!({ "mtype": 1, "adm": "<VAST/>" }), Err(Fate::Format));
    check(json!({ "mtype": 2, "adm": "<p>" }), Err(Fate::Format));
    check(json!({ "mtype": 2, "adm": "<DAAST/>" }), Err(Fate::Format));
    check(json!({ "mtype": 3, "adm": "<VAST/>" }), Ok(&[3]));
    check(json!({ "mtype": 4, "adm": "<p>" }), Err(Fate::Format));
    check(json!({ "mtype": 5 }), Err(Fate::Format));
}

#[test]
fn markup_that_is_fetched_tells_the_format_later() {
    let on_win = |change: Value| {
        merged(&json!({ "adm": null, "nurl": "https://n.alpha.example/ad" }), &change)
    };
    let none = Err(Fate::Format);
    check_formats(on_win(json!({})), none, Ok(&[1, 2, 3, 4]));
    check_formats(on_win(json!({ "w": 728, "h": 90 })), none, Ok(&[2, 3, 4]));
    check_formats(on_win(json!({ "dur": 15 })), none, Ok(&[2, 3]));
    check_formats(on_win(json!({ "protocol": 2 })), none, Ok(&[2, 3]));
    check_formats(on_win(json!({ "protocol": 0, "dur": 0 })), none, Ok(&[1, 2, 3, 4]));
    check_formats(on_win(json!({ "dur": 15, "attr": [9] })), Ok(&[2]), Ok(&[2]));
    check_formats(on_win(json!({ "protocol": 9 })), Ok(&[3]), Ok(&[3]));
    check_formats(on_win(json!({ "mtype": 3 })), Ok(&[3]), Ok(&[3]));
    let preloaded = json!({ "adm": null, "adid": "7" });
    check_formats(preloaded, none, none);
}

/// Until the format is known, the highest floor applies.
#[test]
fn a_bid_of_unknown_format_is_held_to_the_dearest_floor() {
    let of_imp = json!({ "video": { "mimes": ["v"], "mincpmpersec": 0.25, "maxduration": 10 } });
    let body = request(json!({ "imp": [imp(of_imp)] }));
    let on_win = bid(json!({ "adm": null, "nurl": "https://n.alpha.example/ad" }));
    let bodies = [(0, response(&[on_win]))];
    let mut market = market();
    market.publishers.others.notices = NoticeMode::Final;
    assert_eq!(fates(&market, &body, &bodies), [Fate::BelowFloor]);
}

#[test]
fn deals_admit_whom_they_name() {
    let of = |deal: Value, private: u8, bid_change: Value| {
        let imp = imp(json!({ "pmp": { "private_auction": private, "deals": [deal] } }));
        (json!({ "imp": [imp] }), serde_json::from_str(&response(&[bid(bid_change)])).unwrap())
    };
    let with_deal = |domains: Value| json!({ "dealid": "d", "adomain": domains });
    let sites = json!({ "id": "d", "wadomain": ["ford.example", "opel.example"] });
    for (deal, private, change, want) in [
        (json!({ "id": "d" }), 1, with_deal(json!([])), Ok((0, "2"))),
        (json!({ "id": "d" }), 0, json!({}), Ok((0, "2"))),
        (json!({ "id": "d" }), 1, json!({}), Err(Fate::PrivateAuction)),
        (json!({ "id": "d", "wseat": ["a1", "x"] }), 0, with_deal(json!([])), Ok((0, "2"))),
        (json!({ "id": "d", "wseat": [] }), 0, with_deal(json!([])), Ok((0, "2"))),
        // Another seat of the DSP is allowed, but not this one.
        (json!({ "id": "d", "wseat": ["a2"] }), 0, with_deal(json!([])), Err(Fate::DealSeat)),
        // No seat of the DSP is allowed: the deal was not offered.
        (json!({ "id": "d", "wseat": ["b1"] }), 0, with_deal(json!([])), Err(Fate::DealNotOffered)),
        (json!({ "id": "e" }), 0, with_deal(json!([])), Err(Fate::DealUnknown)),
        (sites.clone(), 0, with_deal(json!(["ads.Ford.example"])), Ok((0, "2"))),
        (sites.clone(), 0, with_deal(json!(["ford.example", "opel.example"])), Ok((0, "2"))),
        (sites.clone(), 0, with_deal(json!(["ford.example", "x"])), Err(Fate::DealAdvertiser)),
        (sites.clone(), 0, with_deal(json!(["notford.example"])), Err(Fate::DealAdvertiser)),
        (sites.clone(), 0, with_deal(json!(["https://www.Ford.example./x"])), Ok((0, "2"))),
        (sites, 0, with_deal(json!([])), Err(Fate::DealAdvertiser)),
        (json!({ "id": "d", "at": 3, "bidfloor": 1.5 }), 0, with_deal(json!([])), Ok((0, "1.5"))),
    ] {
        let (request, response) = of(deal, private, change);
        check_entry(request, &response, want);
    }
}

#[test]
fn equal_groups_fall_by_the_hash_and_not_by_arrival() {
    let two = ["1", "2"].map(|id| imp(json!({ "id": id })));
    let body = request(json!({ "imp": two }));
    let of = |dsp: usize, prices: [f64; 2]| {
        let bid =
            |(imp, price): (&str, f64)| bid(json!({ "id": imp, "impid": imp, "price": price }));
        let bids = ["1", "2"].into_iter().zip(prices).map(bid).collect::<Vec<_>>();
        let seatbid = json!({ "group": 1, "bid": bids });
        (dsp, json!({ "id": AUCTION_ID, "seatbid": [seatbid] }).to_string())
    };
    // Both total 6, and each blocks the other.
    let (alpha, beta) = (of(0, [5.0, 1.0]), of(1, [3.0, 3.0]));
    let there = fates(&market(), &body, &[alpha.clone(), beta.clone()]);
    let mut back = fates(&market(), &body, &[beta, alpha]);
    back.rotate_left(2);
    assert_eq!(there, back);
    assert_eq!(there.iter().filter(|fate| **fate == Fate::Won).count(), 2);
}

#[test]
fn a_group_with_a_bid_that_cannot_win_is_out_as_a_whole() {
    let of = |imps: [&str; 2], second: Value| {
        let bids =
            [bid(json!({ "impid": imps[0] })), merged(&bid(second), &json!({ "impid": imps[1] }))];
        json!({ "id": AUCTION_ID, "seatbid": [{ "group": 1, "bid": bids }] }).to_string()
    };
    let two = request(json!({ "imp": [imp(json!({})), imp(json!({ "id": "2" }))] }));
    let check = |body: String, want: [Fate; 2]| {
        assert_eq!(fates(&market(), &two, &[(0, body.clone())]), want, "{body}");
    };
    let second = |mut change: Value| {
        change.as_object_mut().unwrap().entry("id").or_insert(json!("b2"));
        change
    };
    check(of(["1", "2"], second(json!({}))), [Fate::Won, Fate::Won]);
    check(
        of(["1", "2"], second(json!({ "crid": null }))),
        [Fate::GroupIncomplete, Fate::NoCreativeId],
    );
    check(of(["1", "9"], second(json!({}))), [Fate::GroupIncomplete, Fate::UnknownImp]);
    check(of(["1", "2"], second(json!({ "id": 7 }))), [Fate::GroupIncomplete, Fate::Malformed]);
    // Another bid of the group wins the impression of the faulty one.
    check(of(["1", "1"], second(json!({ "crid": null }))), [Fate::Won, Fate::NoCreativeId]);
    check(of(["1", "1"], second(json!({ "price": 3 }))), [Fate::LostToHigherBid, Fate::Won]);
}
