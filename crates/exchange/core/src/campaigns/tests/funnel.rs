//! Why campaigns do not bid: floors, and failed criteria.

use openrtb::parse_request;
use pacer_core::funnel::Shortfall;
use pacer_core::messages::CampaignIndex;
use pacer_core::refusal::SpendRefusal;
use serde_json::{Value, json};
use units::{Cpm, Multiplier};

use super::fixtures::{ALL, banner, campaign, market_of, request, rules};
use crate::asking::eligibility::eligible_direct;
use crate::auction::Auction;
use crate::campaigns::bidder::{CampaignBidder, DirectAnswer, DirectCall};
use crate::campaigns::campaign::{BiddingRules, CampaignPrice, DirectCampaign};
use crate::campaigns::catalogue::Catalogue;
use crate::campaigns::creative::CreativeSpec;
use crate::campaigns::probe::{Criterion, Probe, ProbeCounts};
use crate::campaigns::scratch::SearchScratch;
use crate::campaigns::targeting::{CampaignTargeting, KeyValues, MatchList, PagePrefix};
use crate::fixtures::{AUCTION_ID, cpm, currency, merged};
use crate::market::Market;
use crate::market::size::AdSize;

#[derive(Default)]
struct Floors(Vec<(u32, Shortfall)>);

impl CampaignBidder for Floors {
    fn decide(
        &mut self,
        _: CampaignIndex,
        price: CampaignPrice,
        _: Multiplier,
    ) -> Result<Cpm, SpendRefusal> {
        Ok(price.amount())
    }

    fn report_shortfall(&mut self, slot: CampaignIndex, shortfall: impl FnOnce() -> Shortfall) {
        self.0.push((slot.0, shortfall()));
    }
}

#[track_caller]
fn check(change: &Value, campaigns: Vec<DirectCampaign>, want: &[(u32, &str, &str)]) {
    let catalogue = Catalogue::new(campaigns);
    let (market, text) = (market_of(&catalogue), merged(&request(), change).to_string());
    let request = parse_request(&text).unwrap();
    let auction = Auction::new(AUCTION_ID, &request, &market).unwrap();
    let ask = eligible_direct(&auction, market.dsps.len() - 1).unwrap();
    let (mut bidder, mut answer) = (Floors::default(), DirectAnswer::default());
    catalogue.bid(
        &DirectCall { auction: &auction, ask: &ask, limits: &ALL },
        &mut bidder,
        &mut SearchScratch::default(),
        &mut answer,
    );
    let want = want
        .iter()
        .map(|(slot, bid, floor)| (*slot, Shortfall { bid: cpm(bid), floor: cpm(floor) }));
    assert_eq!(bidder.0, want.collect::<Vec<_>>(), "{text}");
}

#[test]
fn what_is_below_every_floor_is_told_in_the_account_s_currency() {
    let open = || campaign(0, "acme", rules(CampaignTargeting::default(), vec![banner()]));
    let yen = || DirectCampaign { currency: currency("EUR"), ..open() };
    let floor = |floor: &str| {
        json!({ "imp": [{ "id": "1", "banner": { "w": 300, "h": 250 },
        "bidfloor": floor.parse::<f64>().unwrap() }] })
    };
    check(&floor("2"), vec![open()], &[]);
    check(&floor("2.01"), vec![open()], &[(0, "2", "2.01")]);
    let deals = vec!["a".into(), "b".into()];
    let under = || {
        let targeting = CampaignTargeting { deals: deals.clone(), ..CampaignTargeting::default() };
        campaign(0, "acme", rules(targeting, vec![banner()]))
    };
    let imp = |first: f64, second: f64| {
        json!({ "imp": [{ "id": "1", "banner": { "w": 300, "h": 250 }, "pmp": { "deals": [
            { "id": "a", "bidfloor": first }, { "id": "b", "bidfloor": second } ] } }] })
    };
    check(&imp(9.0, 1.0), vec![under()], &[]);
    check(&imp(9.0, 3.0), vec![under()], &[(0, "2", "3")]);
    let catalogue = Catalogue::new(vec![yen()]);
    let market: Market = market_of(&catalogue);
    let own = market.rates.convert(cpm("9"), currency("USD"), currency("EUR"), units::Rounding::Up);
    check(&floor("9"), vec![yen()], &[(0, "2", &own.unwrap().to_string())]);
    // A bid that converts to zero, without a floor.
    let rules = rules(CampaignTargeting::default(), vec![banner()]);
    let least = BiddingRules { price: CampaignPrice::Fixed(cpm("0.000001")), ..rules };
    let tiny = DirectCampaign { currency: currency("JPY"), rules: least.into(), ..open() };
    check(&json!({}), vec![tiny], &[(0, "0.000001", "0.000157")]);
}

fn probed(targeting: CampaignTargeting, creative: CreativeSpec, requests: &[Value]) -> ProbeCounts {
    let campaign = campaign(0, "acme", rules(targeting, vec![creative]));
    let market = market_of(&Catalogue::new(vec![campaign.clone()]));
    let mut probe = Probe::new(&campaign);
    for request in requests {
        let text = request.to_string();
        let request = parse_request(&text).unwrap();
        let auction = Auction::new(AUCTION_ID, &request, &market).unwrap();
        let ask = eligible_direct(&auction, market.dsps.len() - 1).unwrap();
        probe.try_on(&auction, &ask);
    }
    probe.finish()
}

#[test]
fn each_criterion_is_tried_by_itself() {
    let texts = |text: &str| MatchList { allowed: vec![text.into()], blocked: Vec::new() };
    let german = CampaignTargeting {
        countries: texts("DEU"),
        publishers: texts("p1"),
        domains: texts("news.example"),
        pages: vec![PagePrefix::parse("news.example/sport/te").unwrap()],
        device_types: 1 << 4,
        key_values: vec![KeyValues { key: "section".into(), values: vec!["film".into()] }],
        ..CampaignTargeting::default()
    };
    let usual = request();
    let there =
        merged(&usual, &json!({ "device": { "devicetype": 4, "geo": { "country": "DEU" } } }));
    let counts = probed(german.clone(), banner(), &[usual.clone(), usual.clone(), there.clone()]);
    let want = [
        (Criterion::Pages, 3),
        (Criterion::KeyValues, 3),
        (Criterion::Countries, 2),
        (Criterion::Creatives, 0),
        (Criterion::Seat, 0),
        (Criterion::PrivateAuction, 0),
        (Criterion::Publishers, 0),
        (Criterion::Domains, 0),
        (Criterion::DeviceTypes, 0),
    ];
    assert_eq!(counts, ProbeCounts { impressions: 3, matched: 0, failed: want.to_vec() });
    // A criterion is tried independently of others.
    let leaderboard = CreativeSpec { size: Some(AdSize::new(728, 90)), ..banner() };
    let counts = probed(german, leaderboard, std::slice::from_ref(&usual));
    assert!(counts.failed.contains(&(Criterion::Creatives, 1)), "{counts:?}");
    assert!(counts.failed.contains(&(Criterion::KeyValues, 1)), "{counts:?}");
    let counts = probed(CampaignTargeting::default(), banner(), &[usual, there]);
    let failed =
        vec![(Criterion::Creatives, 0), (Criterion::Seat, 0), (Criterion::PrivateAuction, 0)];
    assert_eq!(counts, ProbeCounts { impressions: 2, matched: 2, failed });
    let deals = CampaignTargeting { deals: vec!["d".into()], ..CampaignTargeting::default() };
    let counts = probed(deals, banner(), &[request()]);
    assert_eq!(counts.failed[0], (Criterion::Deals, 1));
}

#[test]
fn creatives_are_not_blamed_for_seats_private_auctions_and_deals() {
    let pmp = |private, id: &str, wseat: &[&str]| {
        let deals = json!([{ "id": id, "wseat": wseat }]);
        json!({ "imp": [{ "id": "1", "banner": { "w": 300, "h": 250 },
            "pmp": { "private_auction": private, "deals": deals } }] })
    };
    let check = |change: Value, deals: &[&str], want: &[Criterion]| {
        let deals = deals.iter().map(|deal| (*deal).into()).collect();
        let targeting = CampaignTargeting { deals, ..CampaignTargeting::default() };
        let counts = probed(targeting, banner(), &[merged(&request(), &change)]);
        let failed = counts.failed.iter().filter(|(_, count)| *count > 0);
        let failed: Vec<Criterion> = failed.map(|(criterion, _)| *criterion).collect();
        assert_eq!((counts.matched == 1, &failed[..]), (want.is_empty(), want), "{change}");
    };
    check(json!({ "wseat": ["other"] }), &[], &[Criterion::Seat]);
    check(json!({ "bseat": ["acme"] }), &[], &[Criterion::Seat]);
    check(pmp(0, "d", &[]), &[], &[]);
    check(pmp(1, "d", &[]), &[], &[Criterion::PrivateAuction]);
    check(pmp(1, "d", &["acme"]), &["d"], &[]);
    check(pmp(1, "d", &["acme"]), &["e"], &[Criterion::Deals]);
    check(pmp(0, "d", &["other", "acme"]), &["d"], &[]);
    let leaderboard = json!({ "imp": [{ "id": "1", "banner": { "w": 728, "h": 90 } }] });
    check(leaderboard.clone(), &[], &[Criterion::Creatives]);
    check(leaderboard, &["d"], &[Criterion::Creatives, Criterion::Deals]);
}
