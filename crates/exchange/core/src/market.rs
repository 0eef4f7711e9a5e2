//! What an operator has configured, as the rules see it: one immutable snapshot.

pub(crate) mod lifetimes;
pub(crate) mod rates;
pub(crate) mod seats;
pub(crate) mod signals;
pub(crate) mod targeting;
pub(crate) mod tie;

use std::collections::HashMap;
use std::time::Duration;

use openrtb::codes::MediaType;
use strum::{FromRepr, IntoStaticStr, VariantArray};
use units::{Currency, Ppm, Price};

use rates::Rates;
use seats::Seats;
use signals::TrackingSignals;
use targeting::Targeting;
use tie::TieKey;

/// Everything an auction depends on beside its request and its answers.
#[derive(Clone, Debug)]
pub struct Market {
    /// Whom to ask; an auction knows a DSP by its position here.
    pub dsps: Vec<Dsp>,
    /// Whom we sell for.
    pub publishers: Publishers,
    /// What is agreed about deals, by deal id.
    pub deals: HashMap<Box<str>, DealTerms>,
    /// Floors beside those in requests.
    pub floors: Vec<FloorRule>,
    /// Exchange rates.
    pub rates: Rates,
    /// In which bids are compared when the request names no currency.
    pub currency: Currency,
    /// What a second price adds to the best other bid.
    pub increment: Price,
    /// Whether any deal bid beats every open bid.
    pub deals_first: bool,
    /// Whether a bid without `crid` is refused.
    pub creative_id_required: bool,
    /// Most macros in one bid, or in markup that its win notice answers with; more are malformed.
    pub bid_macros_max: usize,
    /// Orders equal bids.
    pub tie_key: TieKey,
    /// Our node in the supply chain, appended when present.
    pub supply_chain: Option<SupplyChainNode>,
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
    pub sizes: Vec<(u32, u32)>,
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
    /// Taken off the `tmax` that it is told; None if it is the exchange's.
    pub network_margin: Option<Duration>,
    /// Of whom and where else it buys.
    pub targeting: Targeting,
    /// By which signals of the device it sees less of the user.
    pub privacy: TrackingSignals,
    /// Hosts that its notice URLs may name: a domain stands for itself and its subdomains, an IP
    /// address for itself alone. Empty: none.
    pub notice_hosts: Vec<Box<str>>,
}

/// Terms by publisher.
#[derive(Clone, Debug, Default)]
pub struct Publishers {
    /// Terms of those that are named.
    pub named: HashMap<Box<str>, PublisherTerms>,
    /// Terms of all others, and of requests that name none.
    pub others: PublisherTerms,
}

impl Publishers {
    /// What is agreed with `publisher`.
    pub fn terms(&self, publisher: Option<&str>) -> &PublisherTerms {
        publisher.and_then(|id| self.named.get(id)).unwrap_or(&self.others)
    }
}

/// What is agreed with a publisher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublisherTerms {
    /// Its requests are refused.
    pub blocked: bool,
    /// Our share of what DSPs pay; less than the whole.
    pub fee: Ppm,
    /// Who fires the DSPs' notices, and when.
    pub notices: NoticeMode,
    /// How many bids an impression is answered with.
    pub bids: BidsReturned,
    /// Whether its tests may ask how they went (`ext.debug`): prices and DSPs are told.
    pub debug: bool,
}

/// Who fires the notices of DSPs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum NoticeMode {
    /// The caller: a winner's notice URLs reach it with macros replaced. Losers learn nothing.
    #[default]
    PassThrough = 1,
    /// We do, and ours is the last auction: `nurl` once the answer is written, `burl` when our
    /// beacon in the markup is called, `lurl` of losers at once.
    Final = 2,
    /// We do, when the caller, who holds another auction, fires ours. `lurl` of those who have
    /// lost here at once.
    Upstream = 3,
}

units::labelled!(NoticeMode);

/// How many bids an impression is answered with.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum BidsReturned {
    /// The winner.
    #[default]
    Winner = 1,
    /// Up to [`crate::BIDS_RETURNED_MAX`], the best first, each at its own price: under
    /// [`NoticeMode::Upstream`], and where the winner pays a first price.
    All = 2,
}

units::labelled!(BidsReturned);

/// What is agreed about a deal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DealTerms {
    /// DSPs that see it, by position; empty: any with a seat for it.
    pub dsps: Vec<usize>,
    /// Our share instead of the publisher's.
    pub fee: Option<Ppm>,
    /// What the seller takes off every bid under the deal (section 7.16).
    pub discount: Ppm,
    /// Priority class; a higher one beats every lower. Absent: 1 when deals come first, else 0,
    /// the class of open bids.
    pub priority: Option<u8>,
}

/// A floor for open bids; what is absent matches everything.
#[derive(Clone, Debug)]
pub struct FloorRule {
    /// Publisher id.
    pub publisher: Option<Box<str>>,
    /// What the bid brings.
    pub format: Option<MediaType>,
    /// ISO 3166-1 alpha-3 code.
    pub country: Option<Box<str>>,
    /// Banner size in DIPS.
    pub size: Option<(u32, u32)>,
    /// The publisher's net.
    pub floor: Price,
}

/// Our node in `source.schain` (section 3.2.26).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupplyChainNode {
    /// Our domain, as in ads.txt.
    pub asi: Box<str>,
    /// The paid company's name, when sellers.json does not say.
    pub name: Option<Box<str>>,
    /// The paid company's domain, when sellers.json does not say.
    pub domain: Option<Box<str>>,
}
