//! Any bytes as a bid request to direct campaigns: their bids are JSON, and judging finds no fault
//! with them.
#![no_main]

use std::sync::LazyLock;

use exchange_core::campaigns::{
    ACCOUNTS_MAX, BiddingLimits, CampaignBidder, CampaignPrice, Catalogue, DirectAnswer,
    DirectCall, DirectCampaign, SearchScratch,
};
use exchange_core::{Auction, DspAnswer, Market, eligible_direct, judge};
use exchange_serve::DirectRules;
use libfuzzer_sys::fuzz_target;
use pacer_core::messages::CampaignIndex;
use pacer_core::refusal::SpendRefusal;
use units::{Cpm, Currency, Multiplier};

const CREATIVES: &str = r##"
[[creative]]
id = "a"
format = "banner"
size = "300x250"
markup = "<img src=\"http://a.example/\"><script>"
domains = ["shop.acme.example"]
categories = ["IAB7-39"]
attributes = [3]
language = "de"
[[creative]]
id = "b"
format = "banner"
markup = "<iframe src='https://a.example'>"
app_bundle = "com.acme"
[[creative]]
id = "c"
format = "video"
markup = "<VAST></VAST>"
duration_s = 15
[[creative]]
id = "d"
format = "native"
markup = "{}"
"##;

const TARGETING: [&str; 6] = [
    "",
    "deals = [\"ABC-1234-6789\", \"XY-Agency2-0001\"]",
    "countries = [\"USA\"]\nregions = [\"USA/CA\"]\ndevice_types = [\"phone\"]",
    "domains = [\"example.com\"]\npages = [\"example.com/\"]",
    "key_values = [\"k=1\", \"keywords=a\"]",
    "sizes = [\"300x250\"]\npublishers_blocked = [\"1\"]",
];

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    let campaign = |(number, targeting): (u32, &&str)| {
        let text = format!("[bid]\nvalue = \"2\"\n[targeting]\n{targeting}\n{CREATIVES}");
        let read = |s: &mut runtime::config::Section<'_>| DirectRules::read(s, Currency::USD);
        let rules = runtime::config::parse("fuzz", &text, read).expect("the rules are right");
        DirectCampaign {
            id: format!("campaign-{number}").into(),
            slot: CampaignIndex(number),
            account: format!("account-{}", number % 4).into(),
            currency: Currency::USD,
            rules: rules.expect("it bids").0,
        }
    };
    Catalogue::new((0..).zip(&TARGETING).map(campaign).collect())
});

static MARKET: LazyLock<Market> = LazyLock::new(|| {
    let mut market = fuzz::market();
    let mut direct = market.dsps[0].clone();
    direct.id = "direct".into();
    direct.seats = CATALOGUE.seats().into();
    market.dsps.push(direct);
    market
});

/// Some campaigns are left out if many match.
const LIMITS: BiddingLimits = BiddingLimits { matches_max: 8, bids_max: ACCOUNTS_MAX };

struct Yes;

impl CampaignBidder for Yes {
    fn decide(
        &mut self,
        _: CampaignIndex,
        price: CampaignPrice,
        _: Multiplier,
    ) -> Result<Cpm, SpendRefusal> {
        Ok(price.amount())
    }
}

fuzz_target!(|data: &[u8]| {
    let Some(request) = std::str::from_utf8(data).ok().map(openrtb::parse_request) else { return };
    let Ok(request) = request else { return };
    let Ok(auction) = Auction::new("0123456789abcdef", &request, &MARKET) else { return };
    let Ok(ask) = eligible_direct(&auction, MARKET.dsps.len() - 1) else { return };
    let mut answer = DirectAnswer::default();
    CATALOGUE.bid(
        &DirectCall { auction: &auction, ask: &ask, limits: &LIMITS },
        &mut Yes,
        &mut SearchScratch::default(),
        &mut answer,
    );
    if answer.body.is_empty() {
        assert!(answer.bids.is_empty());
        return;
    }
    assert!(openrtb::is_json(&answer.body));
    let judgement = judge(&auction, &[DspAnswer { ask, body: answer.body.as_bytes() }]);
    assert_eq!(judgement.bids.len(), answer.bids.len());
    assert!(judgement.bids.iter().all(|bid| bid.entry.is_ok()), "{}", answer.body);
});
