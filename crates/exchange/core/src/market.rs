//! The operator's configuration as the rules see it: one immutable snapshot.

pub(crate) mod enrichment;
pub(crate) mod lifetimes;
pub(crate) mod rates;
pub(crate) mod seats;
pub(crate) mod signals;
pub(crate) mod size;
pub(crate) mod sold;
pub(crate) mod targeting;
pub(crate) mod tie;

use std::collections::HashMap;
use std::time::Duration;

use openrtb::codes::MediaType;
use strum::{FromRepr, IntoStaticStr, VariantArray};
use units::{Currency, Ppm, Price};

use enrichment::Enrichment;
use rates::Rates;
use seats::Seats;
use signals::TrackingSignals;
use size::AdSize;
use sold::SoldDeals;
use targeting::Targeting;
use tie::TieKey;

/// Everything an auction depends on, apart from its request and answers.
#[derive(Clone, Debug)]
pub struct Market {
    /// DSPs; auctions refer to them by position.
    pub dsps: Vec<Dsp>,
    /// Terms by publisher.
    pub publishers: Publishers,
    /// Terms by deal id.
    pub deals: HashMap<Box<str>, DealTerms>,
    /// Deals that were sold, each to one seat, and that requests need not contain.
    pub sold: SoldDeals,
    /// Floors in addition to those in requests.
    pub floors: Vec<FloorRule>,
    /// Exchange rates.
    pub rates: Rates,
    /// Currency of an auction whose request names none.
    pub currency: Currency,
    /// Added to the best other bid in a second-price auction.
    pub increment: Price,
    /// Whether any deal bid beats every open bid.
    pub deals_first: bool,
    /// Whether a bid without `crid` is refused.
    pub creative_id_required: bool,
    /// Most macros in one bid, or in markup that its win notice returns; with more it is malformed.
    pub bid_macros_max: usize,
    /// Orders equal bids.
    pub tie_key: TieKey,
    /// Our node in the supply chain. None if we append none.
    pub supply_chain: Option<SupplyChainNode>,
    /// Data added to requests; auctions refer to it by position.
    pub enrichments: Vec<Enrichment>,
}

/// One demand-side platform.
#[derive(Clone, Debug)]
pub struct Dsp {
    /// Unique among the DSPs.
    pub id: Box<str>,
    /// Seats for which it may bid, the default first; at least one.
    pub seats: Seats,
    /// Formats it buys, as a set of [`MediaType::bit`].
    pub formats: u8,
    /// Banner sizes it buys; empty: any.
    pub sizes: Vec<AdSize>,
    /// Countries it buys (ISO 3166-1 alpha-3); empty: any.
    pub countries: Vec<Box<str>>,
    /// Publishers it buys from; empty: any.
    pub publishers_allowed: Vec<Box<str>>,
    /// Publishers it never buys from.
    pub publishers_blocked: Vec<Box<str>>,
    /// Currencies in which it may bid, the preferred first; at least one.
    pub currencies: Vec<Currency>,
    /// Longest wait for its answer.
    pub timeout: Duration,
    /// Deducted from the `tmax` sent to it. None if the exchange's margin applies.
    pub network_margin: Option<Duration>,
    /// Users and places that it buys.
    pub targeting: Targeting,
    /// Device signals that reduce the user data it receives.
    pub privacy: TrackingSignals,
    /// Hosts its notice URLs may name: domains with subdomains, or IP addresses. Empty if none.
    pub notice_hosts: Vec<Box<str>>,
}

/// Terms by publisher.
#[derive(Clone, Debug, Default)]
pub struct Publishers {
    /// Publishers with their own terms.
    pub named: HashMap<Box<str>, PublisherTerms>,
    /// Terms of all others, and of requests without a publisher.
    pub others: PublisherTerms,
}

impl Publishers {
    /// The terms of `publisher`.
    pub fn terms(&self, publisher: Option<&str>) -> &PublisherTerms {
        publisher.and_then(|id| self.named.get(id)).unwrap_or(&self.others)
    }
}

/// Terms of a publisher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublisherTerms {
    /// Whether its requests are refused.
    pub blocked: bool,
    /// Our share of what DSPs pay; below 100 %.
    pub fee: Ppm,
    /// Who fires the DSPs' notices, and when.
    pub notices: NoticeMode,
    /// How many bids per impression the response has.
    pub bids: BidsReturned,
    /// Whether its tests may request an explanation (`ext.debug`), which reveals prices and DSPs.
    pub debug: bool,
}

/// Who fires the notices of DSPs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum NoticeMode {
    /// The caller: it gets the winner's notice URLs with macros replaced. Losers get no notice.
    #[default]
    PassThrough = 1,
    /// We do, as the last auction: `nurl` after the response, `burl` when our beacon is called,
    /// losers' `lurl` at once.
    Final = 2,
    /// We do, when the caller, who runs another auction, fires ours; losers here get `lurl` at
    /// once.
    Upstream = 3,
}

units::labelled!(NoticeMode);

/// How many bids per impression the response has.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum BidsReturned {
    /// The winner.
    #[default]
    Winner = 1,
    /// Up to [`crate::BIDS_RETURNED_MAX`], best first, each at its own price. Applies under
    /// [`NoticeMode::Upstream`], where the winner pays a first price.
    All = 2,
}

units::labelled!(BidsReturned);

/// Terms of a deal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DealTerms {
    /// DSPs that see it, by position. Empty: all with a seat for it.
    pub dsps: Vec<usize>,
    /// Our share, if not the publisher's.
    pub fee: Option<Ppm>,
    /// The seller's discount on every bid under the deal (section 7.16).
    pub discount: Ppm,
    /// Priority class: higher classes win. None: 1 if deals come first, else 0 as for open bids.
    pub priority: Option<u8>,
}

/// A floor for open bids. Absent criteria match everything.
#[derive(Clone, Debug)]
pub struct FloorRule {
    /// Publisher id.
    pub publisher: Option<Box<str>>,
    /// The bid's format.
    pub format: Option<MediaType>,
    /// ISO 3166-1 alpha-3 code.
    pub country: Option<Box<str>>,
    /// Banner size in DIPS.
    pub size: Option<AdSize>,
    /// The publisher's net.
    pub floor: Price,
}

/// Our node in `source.schain` (section 3.2.26).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupplyChainNode {
    /// Our domain, as in ads.txt.
    pub asi: Box<str>,
    /// The paid company's name, if sellers.json does not say.
    pub name: Option<Box<str>>,
    /// The paid company's domain, if sellers.json does not say.
    pub domain: Option<Box<str>>,
}
