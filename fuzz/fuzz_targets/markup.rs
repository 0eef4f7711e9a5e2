//! Any markup of any format in a winning bid, with any spelling of notices: the response is JSON,
//! and the planned notices are bounded in every mode.
#![no_main]

use std::sync::LazyLock;

use exchange_core::{
    Auction, BeaconBase, BidsReturned, ClearedAuction, DspAnswer, KeyRing, Lifetimes, Market,
    NoticeMode, Sealing, clear, conclude, eligible, judge, offer_others, sales,
};
use libfuzzer_sys::fuzz_target;

const ID: &str = "00112233445566778899aabbccddeeff";

const REQUEST: &str = r#"{"id":"caller","at":1,"imp":[
{"id":"1","banner":{}},{"id":"2","video":{"mimes":["video/mp4"]}},{"id":"3","native":{"request":"{}"}}]}"#;

static KEYS: LazyLock<KeyRing> =
    LazyLock::new(|| KeyRing::new(&[[1; 32]]).expect("there is a key"));

fn market(notices: NoticeMode) -> Market {
    let mut market = fuzz::market();
    market.publishers.others.notices = notices;
    market.publishers.others.bids = BidsReturned::All;
    market
}

static MARKETS: LazyLock<[Market; 3]> = LazyLock::new(|| {
    [NoticeMode::PassThrough, NoticeMode::Final, NoticeMode::Upstream].map(market)
});

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let request = openrtb::parse_request(REQUEST).expect("the request is valid");
    let text = serde_json::Value::from(text);
    let bid = |imp: u32| {
        format!(
            r#"{{"id":"{imp}","impid":"{imp}","price":{imp}00,"crid":"c","adm":{text},"adid":{text},"nurl":{text},"burl":"http://127.0.0.1/${{AUCTION_AD_ID}}","lurl":{text}}}"#
        )
    };
    let bids = [1, 2, 3].map(bid).join(",");
    let body = format!(r#"{{"id":"{ID}","bidid":{text},"seatbid":[{{"bid":[{bids}]}}]}}"#);
    for market in &*MARKETS {
        let auction = Auction::new(ID, &request, market).expect("the auction can be held");
        let answers: Vec<_> = (0..2)
            .filter_map(|dsp| {
                Some(DspAnswer { ask: eligible(&auction, dsp).ok()?, body: body.as_bytes() })
            })
            .collect();
        let judgement = judge(&auction, &answers);
        let (entries, groups) = (&judgement.entries, &judgement.groups);
        let mut clearing =
            clear(entries, groups, auction.imps_len(), auction.increment, |_| Ok(()));
        offer_others(&auction, &judgement, &mut clearing, |_| Ok(()));
        let sales = sales(&auction, &judgement, &clearing);
        let cleared = ClearedAuction {
            answers: &answers,
            judgement: &judgement,
            clearing: &clearing,
            sales: &sales,
        };
        let base = BeaconBase::parse("https://x.example/n/").expect("the base is right");
        let sealing = Sealing {
            keys: &KEYS,
            base: &base,
            node: 1,
            now_unix_s: 1,
            lifetimes: &Lifetimes::default(),
            fetched: &[],
            reserved: &[],
        };
        let conclusion = conclude(&auction, &cleared, Some(&sealing));
        if let Some(response) = &conclusion.response {
            assert!(openrtb::is_json(response));
        }
        assert!(conclusion.immediate.len() + conclusion.unsent.len() <= 5 * judgement.bids.len());
    }
});
