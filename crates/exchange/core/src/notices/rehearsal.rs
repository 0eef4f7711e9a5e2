//! A whole auction for tests, from request to conclusion, with an id that tokens take.

use serde_json::{Value, json};

use crate::clear::Clearing;
use crate::fixtures::{self, market, merged};
use crate::{
    Answer, Auction, BeaconBase, BidsReturned, Claims, Cleared, Conclusion, Fate, Fetched,
    Judgement, KeyRing, Lifetimes, Market, NoticeMode, PublisherTerms, Reservation, Sealing, clear,
    conclude, eligible, judge, offer_others, sales,
};

pub(crate) const ID: &str = "00112233445566778899aabbccddeeff";
pub(crate) const BASE: &str = "https://x.example/n/";
pub(crate) const NODE: u32 = 7;
pub(crate) const NOW_UNIX_S: u64 = 1_000_000;

#[derive(Clone)]
pub(crate) struct Rehearsal {
    pub(crate) market: Market,
    /// Where beacons are called.
    pub(crate) base: &'static str,
    pub(crate) request: String,
    pub(crate) bodies: Vec<(usize, String)>,
    pub(crate) fetched: Vec<Fetched>,
    /// Entries that cannot be had.
    pub(crate) barred: Vec<usize>,
    /// By bid.
    pub(crate) reserved: Vec<(usize, Reservation)>,
}

/// A response to [`ID`] of the bids of one seat that is not named.
#[expect(clippy::needless_pass_by_value, reason = "reads well with json!")]
pub(crate) fn response(bids: &[Value], change: Value) -> String {
    merged(&json!({ "id": ID, "seatbid": [{ "bid": bids }] }), &change).to_string()
}

pub(crate) fn keys() -> KeyRing {
    KeyRing::new(&[[7; 32]]).expect("there is a key")
}

/// Every token in `text`, opened, in order.
pub(crate) fn tokens(text: &str) -> Vec<Claims<'static>> {
    let is_end = |byte: char| !byte.is_ascii_alphanumeric() && byte != '-' && byte != '_';
    let after = text.split(BASE).skip(1);
    let open = |rest: &str| keys().open(rest.split(is_end).next().unwrap_or_default(), NOW_UNIX_S);
    after.map(|rest| open(rest).expect("the token is ours")).collect()
}

impl Rehearsal {
    pub(crate) fn new(mode: NoticeMode, request: &str, bodies: &[(usize, String)]) -> Self {
        let mut market = market();
        market.publishers.others =
            PublisherTerms { notices: mode, bids: BidsReturned::Winner, ..Default::default() };
        let request = request.to_owned();
        let bodies = bodies.to_vec();
        let (fetched, barred, reserved) = (Vec::new(), Vec::new(), Vec::new());
        Self { market, base: BASE, request, bodies, fetched, barred, reserved }
    }

    pub(crate) fn returning_all(mut self) -> Self {
        self.market.publishers.others.bids = BidsReturned::All;
        self
    }

    pub(crate) fn with<T>(
        &self,
        test: impl FnOnce(&Auction<'_>, &[Answer<'_>], &Judgement<'_>, &Clearing) -> T,
    ) -> T {
        let request = openrtb::parse_request(&self.request).expect("the request is right");
        let auction = Auction::new(ID, &request, &self.market).expect("there is an auction");
        let answer = |(dsp, body): &'_ (usize, String)| {
            let ask = eligible(&auction, *dsp).expect("it is asked");
            (ask, body.clone())
        };
        let asked: Vec<_> = self.bodies.iter().map(answer).collect();
        let answers: Vec<_> =
            asked.iter().map(|(ask, body)| Answer { ask: *ask, body: body.as_bytes() }).collect();
        let mut judgement = judge(&auction, &answers);
        for entry in &self.barred {
            judgement.bar(*entry, Fate::NoMarkup);
        }
        let (entries, groups) = (&judgement.entries, &judgement.groups);
        let mut clearing =
            clear(entries, groups, auction.imps_len(), auction.increment, |_| Ok(()));
        offer_others(&auction, &judgement, &mut clearing, |_| Ok(()));
        test(&auction, &answers, &judgement, &clearing)
    }

    pub(crate) fn conclude(&self) -> Conclusion {
        self.conclude_with(Some(&self.fetched))
    }

    /// Without anything fetched: without a key.
    pub(crate) fn conclude_with(&self, fetched: Option<&[Fetched]>) -> Conclusion {
        self.with(|auction, answers, judgement, clearing| {
            let sales = sales(auction, judgement, clearing);
            let cleared = Cleared { answers, judgement, clearing, sales: &sales };
            let (keys, lifetimes) = (keys(), Lifetimes::default());
            let base = BeaconBase::parse(self.base).expect("the base is right");
            let sealing = fetched.map(|fetched| Sealing {
                keys: &keys,
                base: &base,
                node: NODE,
                now_unix_s: NOW_UNIX_S,
                lifetimes: &lifetimes,
                fetched,
                reserved: &self.reserved,
            });
            let conclusion = conclude(auction, &cleared, sealing.as_ref());
            assert!(conclusion.response.as_ref().is_none_or(|text| openrtb::is_json(text)));
            conclusion
        })
    }

    /// The bids that the caller gets, and what else becomes of the auction.
    pub(crate) fn bids(&self) -> (Vec<Value>, Conclusion) {
        let conclusion = self.conclude();
        let text = conclusion.response.as_deref().unwrap_or(r#"{"seatbid":[]}"#);
        let response: Value = serde_json::from_str(text).expect("a response is JSON");
        let seats = response["seatbid"].as_array().expect("seats").iter();
        let bids = seats.flat_map(|seat| seat["bid"].as_array().expect("bids").clone());
        (bids.collect(), conclusion)
    }

    /// By bid.
    pub(crate) fn fates(&self) -> Vec<Fate> {
        self.with(|_, _, judgement, clearing| {
            let fate = |verdict| match verdict {
                Ok(entry) => clearing.fates[entry],
                Err(fate) => fate,
            };
            judgement.bids.iter().map(|bid| fate(bid.verdict)).collect()
        })
    }
}

/// A banner bid with all three notices at its DSP, changed.
#[expect(clippy::needless_pass_by_value, reason = "reads well with json!")]
pub(crate) fn noticed(dsp: &str, change: Value) -> Value {
    let notices = json!({
        "nurl": format!("https://n.{dsp}.example/win"),
        "burl": format!("https://n.{dsp}.example/bill"),
        "lurl": format!("https://n.{dsp}.example/loss?${{AUCTION_LOSS}}"),
    });
    merged(&fixtures::bid(notices), &change)
}
