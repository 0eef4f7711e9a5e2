//! Campaigns, a market with them, and an auction in which they bid and are judged.

use openrtb::codes::MediaType;
use openrtb::parse_request;
use pacer_core::messages::CampaignIndex;
use pacer_core::refusal::SpendRefusal;
use serde_json::{Value, json};
use units::{Cpm, Multiplier};

use crate::asking::eligibility::eligible_direct;
use crate::auction::Auction;
use crate::campaigns::bidder::{BiddingLimits, CampaignBidder, DirectAnswer, DirectCall};
use crate::campaigns::campaign::{BiddingRules, CampaignPrice, DirectCampaign};
use crate::campaigns::candidates::ACCOUNTS_MAX;
use crate::campaigns::catalogue::Catalogue;
use crate::campaigns::creative::{Creative, CreativeSpec};
use crate::campaigns::scratch::SearchScratch;
use crate::campaigns::targeting::CampaignTargeting;
use crate::fixtures::{AUCTION_ID, cpm, currency, dsp, market};
use crate::judging::judge::{DspAnswer, Judgement, judge};
use crate::market::Market;
use crate::market::size::AdSize;

pub(super) const ALL: BiddingLimits = BiddingLimits { matches_max: 10_000, bids_max: ACCOUNTS_MAX };

pub(super) fn banner() -> CreativeSpec {
    let size = Some(AdSize::new(300, 250));
    CreativeSpec { size, ..CreativeSpec::new("c1", MediaType::Banner, "<p>ad</p>") }
}

/// Worth 2.00, with these creatives.
pub(super) fn rules(targeting: CampaignTargeting, creatives: Vec<CreativeSpec>) -> BiddingRules {
    let creatives = creatives.into_iter().map(|spec| Creative::new(spec).unwrap()).collect();
    BiddingRules { price: CampaignPrice::Value(cpm("2")), targeting: targeting.into(), creatives }
}

/// In slot `slot`, in US dollars.
pub(super) fn campaign(slot: u32, account: &str, rules: BiddingRules) -> DirectCampaign {
    DirectCampaign {
        id: format!("campaign-{slot}").into(),
        slot: CampaignIndex(slot),
        account: account.into(),
        currency: currency("USD"),
        rules: rules.into(),
    }
}

/// The usual market, with direct campaigns after its DSPs.
pub(super) fn market_of(catalogue: &Catalogue) -> Market {
    let mut market = market();
    let mut direct = dsp("direct", &[]);
    direct.seats = catalogue.seats().into();
    direct.currencies.push(currency("JPY"));
    market.dsps.push(direct);
    market
}

/// Bids the full value, and records slots asked.
#[derive(Default)]
pub(super) struct Yes(pub(super) Vec<(CampaignIndex, CampaignPrice, Multiplier)>);

impl CampaignBidder for Yes {
    fn decide(
        &mut self,
        slot: CampaignIndex,
        price: CampaignPrice,
        shown: Multiplier,
    ) -> Result<Cpm, SpendRefusal> {
        self.0.push((slot, price, shown));
        Ok(price.amount())
    }
}

pub(super) struct Outcome {
    pub(super) answer: DirectAnswer,
    /// By slot, in the order of calls.
    pub(super) asked: Vec<u32>,
    /// The response as JSON; null if there was no response.
    pub(super) json: Value,
}

impl Outcome {
    pub(super) fn all(&self, key: &str) -> Vec<Value> {
        let seats = self.json["seatbid"].as_array().into_iter().flatten();
        let bids = seats.flat_map(|seat| seat["bid"].as_array().unwrap());
        bids.map(|bid| bid[key].clone()).collect()
    }
}

#[track_caller]
pub(super) fn bid(catalogue: &Catalogue, market: &Market, request: &Value) -> Outcome {
    bid_and(catalogue, market, request, |_, _, _| ())
}

/// As [`bid`], with a check of the auction and the judgement.
#[track_caller]
pub(super) fn bid_and(
    catalogue: &Catalogue,
    market: &Market,
    request: &Value,
    look: impl FnOnce(&Auction<'_>, &Judgement<'_>, &Outcome),
) -> Outcome {
    let text = request.to_string();
    let request = parse_request(&text).unwrap();
    let auction = Auction::new(AUCTION_ID, &request, market).unwrap();
    let mut bidder = Yes::default();
    let mut outcome =
        Outcome { answer: DirectAnswer::default(), asked: Vec::new(), json: Value::Null };
    if let Ok(ask) = eligible_direct(&auction, market.dsps.len() - 1) {
        let mut scratch = SearchScratch::default();
        for _ in 0..2 {
            bidder.0.clear();
            catalogue.bid(
                &DirectCall { auction: &auction, ask: &ask, limits: &ALL },
                &mut bidder,
                &mut scratch,
                &mut outcome.answer,
            );
        }
        outcome.asked = bidder.0.iter().map(|(slot, ..)| slot.0).collect();
        let answers = [DspAnswer { ask, body: outcome.answer.body.as_bytes() }];
        let answers = if outcome.answer.body.is_empty() { &[][..] } else { &answers };
        let judgement = judge(&auction, answers);
        assert_eq!(judgement.bids.len(), outcome.answer.bids.len(), "{text}");
        for (judged, bid) in judgement.bids.iter().zip(&outcome.answer.bids) {
            let place = format!("{text} {}", outcome.answer.body);
            assert!(judged.entry.is_ok(), "{:?}: {place}", judged.entry);
            assert_eq!(judged.imp, Some(bid.imp), "{place}");
            let campaign = &catalogue.campaigns()[bid.campaign];
            assert_eq!(campaign.slot, bid.slot);
            let parsed = judged.bid.as_ref().unwrap();
            assert_eq!(parsed.campaign().as_deref(), Some(&*campaign.id), "{place}");
            let seat = judged.seat.unwrap();
            assert_eq!(*market.dsps[seat.dsp].seats[seat.seat], *campaign.account, "{place}");
            // A bid costs its account at most the decided price.
            let price = parsed.price().unwrap();
            let back = market.rates.convert(
                price,
                auction.currency,
                campaign.currency,
                units::Rounding::Up,
            );
            assert!(back.unwrap() <= bid.price, "{place}");
        }
        if !outcome.answer.body.is_empty() {
            outcome.json = serde_json::from_str(&outcome.answer.body).unwrap();
        }
        look(&auction, &judgement, &outcome);
    }
    outcome
}

pub(super) fn request() -> Value {
    json!({
        "id": "caller-1",
        "imp": [{ "id": "1", "banner": { "w": 300, "h": 250 } }],
        "site": {
            "domain": "News.Example", "page": "https://news.example/sport/1.html",
            "publisher": { "id": "p1" }, "keywords": "tennis",
            "ext": { "data": { "section": ["sport", "live"] } },
        },
        "device": { "devicetype": 4, "geo": { "country": "USA", "region": "CA" } },
    })
}
