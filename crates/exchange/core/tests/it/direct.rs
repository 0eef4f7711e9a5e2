//! Direct campaigns bid without an allocation once their buffers have grown.
//!
//! Counts, never times, in a process without other allocations.

use std::collections::HashMap;
use std::time::Duration;

use exchange_core::campaigns::{
    ACCOUNTS_MAX, BiddingLimits, BiddingRules, CampaignBidder, CampaignPrice, CampaignTargeting,
    Catalogue, Creative, CreativeSpec, DirectAnswer, DirectCall, DirectCampaign, KeyValues,
    MatchList, PagePrefix, SearchScratch,
};
use exchange_core::{
    AdSize, Auction, BidderCall, Dsp, DspAnswer, Market, Publishers, Rates, Region as Part,
    SoldDeals, Targeting, TieKey, TrackingSignals, eligible_direct, judge,
};
use faults::process::isolated;
use openrtb::codes::MediaType;
use pacer_core::messages::CampaignIndex;
use pacer_core::refusal::SpendRefusal;
use serde_json::json;
use stats_alloc::Region;
use units::{Cpm, Currency, Multiplier, Ratio, Rounding};

use crate::ALLOCATOR;

fn boxed(texts: &[&str]) -> Vec<Box<str>> {
    texts.iter().map(|text| Box::from(*text)).collect()
}

/// Matches every kind of targeting.
fn targeting(number: u32) -> CampaignTargeting {
    let listed = |allowed: &[&str]| MatchList { allowed: boxed(allowed), blocked: Vec::new() };
    let mut targeting = CampaignTargeting::default();
    match number % 9 {
        0 => targeting.countries = listed(&["USA", "DEU"]),
        1 => targeting.publishers = listed(&["p1"]),
        2 => targeting.domains = listed(&["news.example"]),
        3 => targeting.pages = PagePrefix::parse("news.example/sport/").into_iter().collect(),
        4 => targeting.deals = boxed(&["d1", "d2"]),
        5 => targeting.regions = vec![Part { country: "USA".into(), region: "CA".into() }],
        6 => targeting.device_types = 1 << 4,
        7 => {
            let values = boxed(&["sport", "news"]);
            targeting.key_values = vec![KeyValues { key: "section".into(), values }];
        }
        _ => targeting.countries = listed(&["FRA"]),
    }
    targeting
}

fn campaign(number: u32) -> DirectCampaign {
    let creative = |id: &str| {
        let spec = CreativeSpec::new(id, MediaType::Banner, "<a href=\"x\">${AUCTION_PRICE}</a>");
        let (domains, categories) = (boxed(&["acme.example"]), boxed(&["IAB1-2"]));
        let spec = CreativeSpec { size: Some(AdSize::new(300, 250)), domains, categories, ..spec };
        Creative::new(spec).expect("it is sound")
    };
    let code = ["USD", "EUR"][number as usize % 2];
    let price = Cpm::new(2_000_000 + u64::from(number % 5)).expect("it is a price");
    let creatives = vec![creative("a"), creative("b")];
    DirectCampaign {
        id: format!("campaign-{number}").into(),
        slot: CampaignIndex(number),
        account: format!("account-{}", number % 7).into(),
        currency: Currency::parse(code).expect("it is a code"),
        rules: BiddingRules {
            price: CampaignPrice::Value(price),
            targeting: targeting(number).into(),
            creatives,
        }
        .into(),
    }
}

fn market(catalogue: &Catalogue) -> Market {
    let direct = Dsp {
        id: "direct".into(),
        seats: catalogue.seats().into(),
        formats: 0b1111,
        sizes: Vec::new(),
        countries: Vec::new(),
        publishers_allowed: Vec::new(),
        publishers_blocked: Vec::new(),
        currencies: vec![Currency::USD],
        timeout: Duration::from_millis(100),
        network_margin: None,
        targeting: Targeting::default(),
        privacy: TrackingSignals::default(),
        notice_hosts: Vec::new(),
    };
    let euro = Currency::parse("EUR").expect("it is a code");
    let worth = [(Currency::USD, "1"), (euro, "1.08")];
    let worth = worth.map(|(code, ratio)| (code, Ratio::parse(ratio).expect("it is a rate")));
    Market {
        dsps: vec![direct],
        publishers: Publishers::default(),
        deals: HashMap::new(),
        sold: SoldDeals::default(),
        floors: Vec::new(),
        rates: Rates::new(worth),
        currency: Currency::USD,
        increment: units::Price::parse("0.01 USD", Rounding::Up).expect("it is a price"),
        deals_first: false,
        creative_id_required: true,
        bid_macros_max: 1000,
        tie_key: TieKey::new([7; 16]),
        supply_chain: None,
        enrichments: Vec::new(),
    }
}

fn request() -> String {
    let banner = json!({ "w": 300, "h": 250, "battr": [1, 2], "btype": [4] });
    let deals = json!({ "deals": [{ "id": "d1", "wadomain": ["acme.example"] }, { "id": "d3" }] });
    let request = json!({
        "id": "8f4f2a7e-3c1d-4b5a-9e6f-0a1b2c3d4e5f",
        "imp": [
            { "id": "1", "banner": banner, "bidfloor": 0.5, "pmp": deals, "secure": 1 },
            { "id": "2", "banner": banner, "ext": { "data": { "pbadslot": "/1/home" } } },
        ],
        "site": {
            "domain": "www.news.example", "page": "https://news.example/sport/1.html",
            "publisher": { "id": "p1" }, "keywords": "a,b",
            "ext": { "data": { "section": ["sport"] } },
        },
        "device": { "devicetype": 4, "geo": { "country": "USA", "region": "CA" } },
        "badv": ["bad.example", "worse.example"], "bcat": ["IAB7"], "wlang": ["en"],
    });
    request.to_string()
}

/// Lets every campaign bid, and counts them.
struct Count(usize);

impl CampaignBidder for Count {
    fn decide(
        &mut self,
        _: CampaignIndex,
        price: CampaignPrice,
        _: Multiplier,
    ) -> Result<Cpm, SpendRefusal> {
        self.0 += 1;
        Ok(price.amount())
    }
}

#[test]
fn bidding_allocates_nothing() {
    isolated(|| {
        let text = request();
        let request = openrtb::parse_request(&text).expect("it is valid");
        let (mut scratch, mut answer) = (SearchScratch::default(), DirectAnswer::default());
        let limits = BiddingLimits { matches_max: 20_000, bids_max: ACCOUNTS_MAX };
        for campaigns in [100, 10_000] {
            let catalogue = Catalogue::new((0..campaigns).map(campaign).collect());
            let market = market(&catalogue);
            let auction = Auction::new("auction-1", &request, &market).expect("it can be held");
            let ask: BidderCall = eligible_direct(&auction, 0).expect("it is asked");
            let mut bidder = Count(0);
            catalogue.bid(
                &DirectCall { auction: &auction, ask: &ask, limits: &limits },
                &mut bidder,
                &mut scratch,
                &mut answer,
            );
            let (once, body) = (std::mem::take(&mut bidder.0), answer.body.clone());
            let region = Region::new(ALLOCATOR);
            catalogue.bid(
                &DirectCall { auction: &auction, ask: &ask, limits: &limits },
                &mut bidder,
                &mut scratch,
                &mut answer,
            );
            let change = region.change();
            assert_eq!((change.allocations, change.reallocations, change.deallocations), (0, 0, 0));
            // The counted work was bidding, by all campaigns on both impressions.
            assert_eq!(answer.body, body);
            let wanted = (0..campaigns).filter(|number| number % 9 != 8);
            let under_deals = (0..campaigns).filter(|number| number % 9 == 4).count();
            assert_eq!((once, bidder.0), (bidder.0, 2 * wanted.count() - under_deals));
            let judgement = judge(&auction, &[DspAnswer { ask, body: answer.body.as_bytes() }]);
            assert_eq!((answer.bids.len(), judgement.entries.len()), (6, 6));
        }
    });
}
