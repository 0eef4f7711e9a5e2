//! Terms of trade: pricing, `[[publisher]]`, `[[deal]]` and `[[floor]]`.

use std::collections::HashMap;
use std::num::NonZeroU32;

use exchange_core::guard::CallRate;
use exchange_core::{
    BidsReturned, DealTerms, FloorRule, Market, NoticeMode, PublisherTerms, Publishers, Rates,
    SupplyChainNode, TieKey,
};
use runtime::config::{Optional, Required, Secret, Section};
use units::{Currency, Ppm};

use super::currency::check_rate;
use super::direct::DIRECT_DSP;
use super::notices::modes;
use super::unique_ids::UniqueIds;
use super::values::{country, format, size};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerTerms {
    /// Key that they must present. None: no key.
    pub key: Option<Secret>,
    /// Most requests per second. None: no limit.
    pub rate: Option<CallRate>,
}

/// Terms of the market that `[exchange]` sets, with a tie key drawn at random.
pub(super) fn read_market(s: &mut Section<'_>, rates: &Rates) -> Market {
    let fee = s.ppm(
        "fee",
        "0%",
        "Our fee: a share of what DSPs pay. A [[publisher]] or [[deal]] can override it.",
    );
    check_fee(s, Some(fee));
    let increment = s.price(
        "increment",
        "0.01 USD",
        "Amount added to the next best bid in a second-price auction.",
    );
    if let Err(remedy) = check_rate(rates, increment) {
        s.problem("increment", increment, remedy);
    }
    let others = PublisherTerms { fee, ..PublisherTerms::default() };
    Market {
        sold: exchange_core::SoldDeals::default(),
        dsps: Vec::new(),
        publishers: Publishers { others, ..Publishers::default() },
        deals: HashMap::new(),
        floors: Vec::new(),
        rates: Rates::default(),
        currency: Currency::USD,
        increment,
        deals_first: s.boolean(
            "deals_first",
            false,
            "Whether every bid under a deal beats every open bid.",
        ),
        creative_id_required: s.boolean(
            "creative_id_required",
            false,
            "Whether to reject bids without `crid`.",
        ),
        bid_macros_max: s.integer(
            "bid_macros_max",
            1000,
            1..=100_000_usize,
            "Maximum number of `${AUCTION_…}` macros in a bid. A bid with more is malformed. Each \
             macro expands to at most 256 bytes.",
        ),
        tie_key: TieKey::new(rand::random()),
        enrichments: super::enrich::read_all(s),
        supply_chain: s.table(
            "supply_chain",
            "Our node, which is appended to `source.schain`. Its `sid` is the publisher's id.",
            read_supply_chain,
        ),
    }
}

fn read_supply_chain(s: &mut Section<'_>) -> SupplyChainNode {
    SupplyChainNode {
        asi: s
            .text("asi", Required("exchange.example"), "Our domain name, as listed in ads.txt.")
            .into(),
        name: s
            .text(
                "name",
                Optional("Example Exchange"),
                "Name of the company that is paid. Omit it if sellers.json has it.",
            )
            .map(Into::into),
        domain: s
            .text(
                "domain",
                Optional("example.com"),
                "Domain name of that company. Omit it if sellers.json has it.",
            )
            .map(Into::into),
    }
}

fn check_fee(s: &mut Section<'_>, fee: Option<Ppm>) {
    if fee == Some(Ppm::ONE) {
        s.problem("fee", "100%", "leaves the publisher nothing, must be less");
    }
}

#[derive(Default)]
pub(super) struct NamedPublishers {
    pub(super) terms: HashMap<Box<str>, PublisherTerms>,
    pub(super) callers: HashMap<Box<str>, CallerTerms>,
    pub(super) floors: Vec<FloorRule>,
}

/// `usual` and `usual_fee` are the exchange's own. None means that notices are not configured.
/// If `is_local`, only this machine can send requests.
pub(super) fn read_publishers(
    s: &mut Section<'_>,
    usual: Option<NoticeMode>,
    usual_fee: Ppm,
    rates: &Rates,
    is_local: bool,
) -> NamedPublishers {
    let ids = UniqueIds::default();
    let read = |s: &mut Section<'_>| {
        let id = s.text("id", Required("pub-1"), "`publisher.id` in requests.").into_boxed_str();
        ids.check(s, "id", &id);
        let blocked = s.boolean("blocked", false, "Whether to refuse requests of this publisher.");
        let fee = s.ppm(
            "fee",
            Optional("12.5%"),
            "Our fee for this publisher. If absent, `exchange.fee`.",
        );
        check_fee(s, fee);
        let (notices, bids) = read_notices(s, usual);
        let debug = s.boolean(
            "debug",
            false,
            "Whether responses to requests with `test` 1 and `ext.debug` 1 describe how the \
             auction went, including prices and DSPs.",
        );
        let terms = PublisherTerms { fee: fee.unwrap_or(usual_fee), blocked, notices, bids, debug };
        let caller = read_caller(s);
        if debug && caller.key.is_none() && !is_local {
            s.problem("debug", "true", "would tell anybody what DSPs bid: set `key` too");
        }
        let floors = s.tables("floor", "A floor for open bids, for this publisher only.", |s| {
            FloorRule { publisher: Some(id.clone()), ..read_floor(s, rates) }
        });
        (id, terms, caller, floors)
    };
    let mut named = NamedPublishers::default();
    for (id, terms, caller, floors) in s.tables("publisher", "Terms for one publisher.", read) {
        named.terms.insert(id.clone(), terms);
        named.callers.insert(id, caller);
        named.floors.extend(floors);
    }
    named
}

fn read_caller(s: &mut Section<'_>) -> CallerTerms {
    let key = s.secret(
        "key",
        Optional("env:PUBLISHER_KEY"),
        "Key that callers must send in `authorization: Bearer` or `x-api-key`. If absent, none is \
         required.",
    );
    let qps = s.integer(
        "qps",
        Optional(1000),
        1..=10_000_000_u32,
        "Maximum number of requests per second, over all shards. Further requests are rejected \
         with 429. If absent, no limit.",
    );
    CallerTerms { key, rate: qps.and_then(NonZeroU32::new).map(CallRate::per_second) }
}

fn read_notices(s: &mut Section<'_>, usual: Option<NoticeMode>) -> (NoticeMode, BidsReturned) {
    let own = s.one_of(
        "notices",
        Optional("upstream"),
        &modes(),
        "Who fires notices. If absent, `exchange.notices.mode`.",
    );
    if own.is_some_and(|own| own != NoticeMode::PassThrough) && usual.is_none() {
        s.problem("notices", "…", "needs [exchange.notices], which says where we are reached");
    }
    let mode = own.or(usual).unwrap_or_default();
    let bids = s.one_of(
        "bids",
        "winner",
        &[BidsReturned::Winner, BidsReturned::All].map(|bids| (bids.label(), bids)),
        "Bids returned per impression: only the winner, or all (up to 3, at first price).",
    );
    if bids == BidsReturned::All && mode != NoticeMode::Upstream {
        s.problem("bids", "\"all\"", "needs `notices = \"upstream\"`, for another auction follows");
    }
    (mode, bids)
}

pub(super) fn read_deals(s: &mut Section<'_>, dsps: &[Box<str>]) -> HashMap<Box<str>, DealTerms> {
    let ids = UniqueIds::default();
    let read = |s: &mut Section<'_>| {
        let id = s.text("id", Required("deal-1"), "`deal.id` in requests.");
        ids.check(s, "id", &id);
        let named = s.texts(
            "dsps",
            &[],
            |name| Ok(name.to_owned()),
            "Ids of the DSPs that see the deal, and `direct` for direct campaigns. If empty, all \
             DSPs with a seat for it.",
        );
        let mut positions = Vec::new();
        for name in &named {
            match dsps.iter().position(|dsp| **dsp == **name) {
                Some(position) => positions.push(position),
                // Direct campaigns follow the last DSP.
                None if name == DIRECT_DSP => positions.push(dsps.len()),
                None if name == "house" => s.problem("dsps", name, "is now `direct`, rename it"),
                None => s.problem("dsps", name, format!("`{name}` is no configured DSP's id")),
            }
        }
        let fee =
            s.ppm("fee", Optional("5%"), "Our fee under this deal. If absent, the publisher's.");
        check_fee(s, fee);
        let discount = s.ppm(
            "discount",
            "0%",
            "Discount agreed with the seller, subtracted from every bid under this deal.",
        );
        if discount == Ppm::ONE {
            s.problem("discount", "100%", "gives the impression away, must be less");
        }
        let priority = s.integer(
            "priority",
            Optional(2),
            0..=255_u8,
            "Priority class of bids under this deal. A higher class beats every lower one; open \
             bids have class 0. If absent, 1 with `exchange.deals_first`, else 0.",
        );
        (id.into_boxed_str(), DealTerms { dsps: positions, fee, discount, priority })
    };
    s.tables("deal", "Terms of one deal.", read).into_iter().collect()
}

pub(super) fn read_floors(s: &mut Section<'_>, rates: &Rates) -> Vec<FloorRule> {
    s.tables("floor", "A floor for open bids, in addition to floors in requests.", |s| {
        read_floor(s, rates)
    })
}

fn read_floor(s: &mut Section<'_>, rates: &Rates) -> FloorRule {
    let floor = s.price("floor", Required("0.50 USD"), "Minimum price, net of our fee.");
    if let Err(remedy) = check_rate(rates, floor) {
        s.problem("floor", floor, remedy);
    }
    FloorRule {
        publisher: None,
        format: s.parsed("format", Optional("banner"), format, "Applies to this format only."),
        country: s
            .parsed("country", Optional("DEU"), country, "Applies to this country only.")
            .map(Into::into),
        size: s.parsed("size", Optional("300x250"), size, "Applies to banners of this size only."),
        floor,
    }
}
