//! Auctions of all kinds are the same when they are held again from their facts.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::fixtures::{answers, bid, cpm, imp, market, ppm, request, with_auction};
use crate::{
    AuctionType, BidsReturned, Clearing, DealTerms, Market, NoticeMode, PublisherTerms, Win, judge,
    offer_others, sales,
};

const AUCTIONS: u64 = 3000;

/// Draws by a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        let index = self.below(of.len() as u64);
        of[usize::try_from(index).expect("an index")]
    }
}

/// With a fee, a discounted deal, one with a class and a fee of its own, and, by chance, bids beside
/// the winner.
fn any_market(dice: &mut Dice) -> Market {
    let deal = |fee, discount, priority| DealTerms { dsps: vec![], fee, discount, priority };
    let mut market = market();
    market.deals.insert("agreed".into(), deal(None, ppm(100_000), None));
    market.deals.insert("better".into(), deal(Some(ppm(20_000)), ppm(50_000), Some(3)));
    market.publishers.others = PublisherTerms {
        fee: ppm(dice.one_of(&[0, 123_456])),
        notices: NoticeMode::Upstream,
        bids: dice.one_of(&[BidsReturned::Winner, BidsReturned::All]),
        ..PublisherTerms::default()
    };
    market
}

fn any_request(dice: &mut Dice) -> String {
    let imp = |id: usize, dice: &mut Dice| {
        let deals = json!([
            { "id": "agreed", "at": 3, "bidfloor": 3.1 },
            { "id": "better", "at": 2, "bidfloor": 0.5, "bidfloorcur": "EUR" },
            { "id": "plain" },
        ]);
        let floor = dice.one_of(&[0.0, 0.7, 1.9]);
        imp(json!({ "id": id.to_string(), "bidfloor": floor, "pmp": { "deals": deals } }))
    };
    let imps: Vec<Value> =
        (0..=dice.below(3)).map(|id| imp(usize::try_from(id).unwrap(), dice)).collect();
    let currency = dice.one_of(&["USD", "EUR"]);
    request(json!({ "imp": imps, "at": dice.one_of(&[1, 2]), "cur": [currency] }))
}

fn any_bodies(dice: &mut Dice) -> Vec<(usize, String)> {
    let body = |dsp: usize, dice: &mut Dice| {
        let seat = |seat: &str, dice: &mut Dice| {
            let bids: Vec<Value> = (0..=dice.below(3))
                .map(|id| {
                    let price = dice.one_of(&[0.6, 1.0, 1.5, 2.0, 2.0, 3.1, 4.0, 6.66]);
                    let imp = dice.one_of(&["0", "0", "1", "2"]);
                    let deal = dice.one_of(&[None, None, Some("agreed"), Some("better"), Some("plain")]);
                    let id = format!("{seat}-{id}");
                    let nurl = "https://elsewhere.example/";
                    // Out of reach, by chance: its ad comes from a host that is not declared.
                    let adm = dice.one_of(&[Some("<p>"), Some("<p>"), Some("<p>"), None]);
                    bid(json!({ "id": id, "impid": imp, "price": price, "dealid": deal, "adm": adm, "nurl": nurl }))
                })
                .collect();
            json!({ "seat": seat, "group": u8::from(dice.below(5) == 0), "bid": bids })
        };
        let names: &[&str] = [&["a1", "a2"][..], &["b1"], &["g1"]][dsp];
        let seats: Vec<Value> = names.iter().map(|name| seat(name, dice)).collect();
        let currency = dice.one_of(&["USD", "EUR", "GBP"]);
        json!({ "id": crate::fixtures::AUCTION_ID, "cur": currency, "seatbid": seats }).to_string()
    };
    (0..3).map(|dsp| (dsp, body(dsp, dice))).collect()
}

/// The facts of an auction, and what came of it.
fn held(market: &Market, request: &str, bodies: &[(usize, String)]) -> (Facts, Recomputed) {
    with_auction(market, request, |auction| {
        let judgement = judge(auction, &answers(auction, bodies));
        let mut refusals = Vec::new();
        // Prices at which a seat cannot pay: of some winners, and of some beside them.
        let mut authorise = |win: &Win| {
            if !win.price.micros().is_multiple_of(7) {
                return Ok(());
            }
            let Win { entry, price, .. } = *win;
            refusals.push(Refused { entry, price, fate: Fate::BudgetExhausted });
            Err(Fate::BudgetExhausted)
        };
        let mut clearing: Clearing = crate::fixtures::cleared(auction, &judgement, &mut authorise);
        offer_others(auction, &judgement, &mut clearing, authorise);
        let sales = sales(auction, &judgement, &clearing);
        let fate = |verdict: Result<usize, Fate>| match verdict {
            Ok(entry) => clearing.fates[entry],
            Err(fate) => fate,
        };
        let fates = judgement.bids.iter().map(|bid| fate(bid.verdict)).collect();
        (Facts::of(auction, &judgement, refusals), Recomputed { fates, sales })
    })
}

#[test]
fn an_auction_is_the_same_again() {
    let mut seen: BTreeMap<Fate, usize> = BTreeMap::new();
    for seed in 0..AUCTIONS {
        let mut dice = Dice(seed);
        let (market, request) = (any_market(&mut dice), any_request(&mut dice));
        let (facts, result) = held(&market, &request, &any_bodies(&mut dice));
        assert_eq!(facts.recompute().as_ref(), Ok(&result), "seed {seed}");
        for fate in result.fates {
            *seen.entry(fate).or_default() += 1;
        }
    }
    use Fate::{
        BelowDealFloor, BelowFloor, BudgetExhausted, GroupIncomplete, LostToDeal, LostToHigherBid,
        Offered, Won,
    };
    for fate in [
        Won,
        Offered,
        LostToHigherBid,
        LostToDeal,
        GroupIncomplete,
        BudgetExhausted,
        BelowFloor,
        BelowDealFloor,
    ] {
        assert!(seen.get(&fate).is_some_and(|times| *times >= 50), "{fate:?}: {seen:?}");
    }
}

/// What changes a price changes what comes of it: nothing that clearing looks at is left out.
#[test]
fn a_changed_fact_is_noticed() {
    let mut dice = Dice(7);
    let (mut prices, mut refusals) = (0, 0);
    for _ in 0..300 {
        let (market, request) = (any_market(&mut dice), any_request(&mut dice));
        let (facts, result) = held(&market, &request, &any_bodies(&mut dice));
        for sale in result.sales.iter().filter(|sale| sale.fate == Fate::Won) {
            let entry = facts.bids[sale.bid].verdict.unwrap();
            if entry.auction_type != AuctionType::FirstPrice {
                continue; // Its price is another's.
            }
            let mut changed = facts.clone();
            let terms = changed.bids[sale.bid].terms.as_mut().unwrap();
            terms.offer = Cpm::new(terms.offer.micros() + 1).unwrap();
            assert_ne!(changed.recompute().as_ref(), Ok(&result));
            let mut changed = facts.clone();
            let dearer = Cpm::new(entry.price.micros() + 1).unwrap();
            changed.bids[sale.bid].verdict = Ok(Entry { price: dearer, ..entry });
            assert_ne!(changed.recompute().as_ref(), Ok(&result));
            prices += 1;
        }
        let mut changed = facts.clone();
        changed.refusals.clear();
        if !facts.refusals.is_empty() {
            assert_ne!(changed.recompute().as_ref(), Ok(&result));
            refusals += 1;
        }
    }
    assert!(prices > 50 && refusals > 20, "{prices} {refusals}");
}

#[test]
fn facts_that_no_auction_has_are_told() {
    let (facts, _) = held(&market(), &request(json!({})), &[(0, one_bid())]);
    assert!(facts.recompute().is_ok());
    let check = |change: &dyn Fn(&mut Facts), want: Unsound| {
        let mut facts = facts.clone();
        change(&mut facts);
        assert_eq!(facts.recompute().unwrap_err(), want);
    };
    check(&|facts| facts.imps = 0, Unsound::Imp { bid: 0, imp: 0, imps: 0 });
    check(&|facts| facts.bids[0].terms = None, Unsound::Terms { bid: 0 });
    let group = |group| {
        move |facts: &mut Facts| {
            let entry = facts.bids[0].verdict.unwrap();
            facts.bids[0].verdict = Ok(Entry { group: Some(group), ..entry });
        }
    };
    check(&group(0), Unsound::Group { bid: 0, group: 0, groups: 0 });
    let wanting = |facts: &mut Facts| {
        facts.groups.push(Group { imps: vec![0, 9], possible: true, tie: 0 });
    };
    check(&wanting, Unsound::GroupImp { group: 0, imp: 9, imps: 1 });
    let poorer = |facts: &mut Facts| {
        let entry = facts.bids[0].verdict.unwrap();
        let verdict = Ok(Entry { auction_type: AuctionType::Agreed, ..entry });
        let terms = facts.bids[0].terms.map(|terms| Terms { offer: cpm("0.01"), ..terms });
        facts.bids[0] = BidFacts { verdict, terms, ..facts.bids[0] };
    };
    check(&poorer, Unsound::Price { bid: 0 });
}

fn one_bid() -> String {
    crate::fixtures::response(&[bid(json!({}))])
}
