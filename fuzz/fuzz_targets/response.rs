//! Any bytes as a bid response: judged and cleared without a panic; the code asserts the invariants
//! of money.
#![no_main]

use std::sync::LazyLock;

use exchange_core::{Auction, DspAnswer, Market, clear, eligible, judge, response, sales};
use libfuzzer_sys::fuzz_target;

static MARKET: LazyLock<Market> = LazyLock::new(fuzz::market);

const REQUEST: &str = r#"{"id":"caller","at":2,"bcat":["IAB7"],"badv":["ford.com"],"imp":[
{"id":"1","bidfloor":0.5,"secure":1,"banner":{"format":[{"w":300,"h":250}],"battr":[1],"btype":[3]},
 "pmp":{"deals":[{"id":"ABC-1234-6789","bidfloor":1},{"id":"XY-Agency2-0001","at":3,"bidfloor":2}]}},
{"id":"102","bidfloorcur":"EUR","bidfloor":0.1,"qty":{"multiplier":14.2},
 "video":{"mimes":["video/mp4"],"maxduration":30,"mincpmpersec":0.01,"durfloors":[{"mindur":1,"maxdur":15,"bidfloor":2}]},
 "banner":{}},
{"id":"2","native":{"request":"{}"}}]}"#;

fuzz_target!(|data: &[u8]| {
    let request = openrtb::parse_request(REQUEST).expect("the request is valid");
    // The specification's example answers carry these ids.
    let id = ["1234567890", "123"][usize::from(data.first().is_some_and(|byte| byte % 2 == 1))];
    let auction = Auction::new(id, &request, &MARKET).expect("the auction can be held");
    if let Ok(text) = str::from_utf8(data) {
        check_parsers(text);
    }
    // Two DSPs respond: the second half of the bytes is the second's.
    let split = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (first, second) = data.split_at(split);
    let second = second.get(1..).unwrap_or_default();
    let answers: Vec<_> = [first, second]
        .into_iter()
        .enumerate()
        .filter_map(|(dsp, body)| Some(DspAnswer { ask: eligible(&auction, dsp).ok()?, body }))
        .collect();
    let judgement = judge(&auction, &answers);
    let clearing =
        clear(&judgement.entries, &judgement.groups, auction.imps_len(), auction.increment, |_| {
            Ok(())
        });
    let sales = sales(&auction, &judgement, &clearing);
    if sales.is_empty() {
        return;
    }
    let text = response(&auction, &answers, &judgement, &sales);
    let answer: serde_json::Value = serde_json::from_str(&text).expect("an answer is JSON");
    let seats = answer["seatbid"].as_array().expect("seats have won");
    let bids = seats.iter().filter_map(|seat| seat["bid"].as_array()).map(Vec::len);
    assert_eq!(bids.sum::<usize>(), sales.len());
});

/// What is read at once is what the parser of single bids reads.
fn check_parsers(text: &str) {
    let bids = |text| {
        let seats = openrtb::bid_texts(text).ok()?.seatbid.into_iter().flatten();
        let bids = seats.flat_map(|seat| seat.bid);
        bids.map(|bid| openrtb::parse_bid(bid.get()).ok()).collect::<Option<Vec<_>>>()
    };
    let at_once = openrtb::parse_response(text).ok().map(|response| {
        let seats = response.seatbid.into_iter().flatten();
        seats.flat_map(|seat| seat.bid).collect::<Vec<_>>()
    });
    assert_eq!(format!("{at_once:?}"), format!("{:?}", bids(text)));
}
