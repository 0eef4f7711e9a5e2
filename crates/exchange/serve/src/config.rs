//! The exchange's keys in `vickrey.toml`, turned into the market's rules and socket options.

mod bodies;
mod cache;
mod currency;
mod direct;
mod dsp;
mod enrich;
mod guard;
mod notices;
mod pacer;
mod terms;
mod unique_ids;
mod values;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use exchange_core::guard::{BreakerLimits, GuardLimits};
use exchange_core::{Market, Rates, TieKey, TimeLimits, TrackingSignals};
use http_kit::body::BodyLimits;
use runtime::config::{Optional, Section, ms, secs};
use runtime::service::{ClientCertificates, read_server};
use runtime::shards::ConnectionTimeouts;
use units::{Currency, Ppm};

use crate::fanout::{Backoff, PoolLimits};

pub use bodies::BodiesConfig;
pub use cache::MarkupCacheConfig;
pub use direct::{DIRECT_DSP, DirectRules};
pub use dsp::DspAddress;
pub(crate) use notices::parse_key;
pub use notices::{CallLimits, NoticesConfig};
pub use pacer::{PacedSeat, RemotePacerConfig};
pub use terms::CallerTerms;

use currency::{CurrencyConfig, read_currency};
use dsp::DspOptions;
use unique_ids::UniqueIds;

/// Configuration of the exchange.
#[derive(Clone, Debug)]
pub struct ExchangeConfig {
    /// Address for bid requests.
    pub listen: SocketAddr,
    /// None: callers come without TLS.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Whether to refuse requests of unnamed publishers.
    pub publishers_only: bool,
    /// Limits on time.
    pub limits: TimeLimits,
    /// Limits on what callers send.
    pub inbound: InboundLimits,
    /// Limits of direct campaigns in one auction.
    pub direct: exchange_core::campaigns::BiddingLimits,
    /// Limits on connections to DSPs.
    pub pool: PoolLimits,
    /// Whether to answer no bid with 200 and `nbr` instead of 204.
    pub explain_no_bid: bool,
    /// Answer to requests that the exchange has no time for.
    pub overload_answer: OverloadAnswer,
    /// Whether the tie key was drawn because none is configured.
    pub tie_key_is_drawn: bool,
    /// Input of the auction's rules.
    pub market: Market,
    /// Addresses of DSPs, in the order of `market.dsps`.
    pub endpoints: Vec<DspAddress>,
    /// Call limits of DSPs, in the same order.
    pub guards: Vec<GuardLimits>,
    /// Privacy signals that DSPs do not override.
    pub(crate) signals: TrackingSignals,
    /// Limits of the breakers of DSPs that have one.
    pub(crate) breaker: BreakerLimits,
    /// A timeout counts against a DSP only if it had at least this long.
    pub timeout_counts_after: Duration,
    /// None: callers fire the DSPs' notices themselves. Needs the record.
    pub notices: Option<NoticesConfig>,
    /// Stores winners' markup. None: responses alone have it.
    pub cache: Option<MarkupCacheConfig>,
    /// A pacer in another process. None: budgets are those of this process, if it has any.
    pub pacer: Option<RemotePacerConfig>,
    /// Terms for callers, by publisher id.
    pub callers: HashMap<Box<str>, CallerTerms>,
    /// How much of bodies is recorded, if auctions are.
    pub bodies: BodiesConfig,
    /// Number of this node, by which `notices` may name it too. The reader of the file sets it.
    /// None if nothing is recorded.
    pub node: Option<u32>,
    /// The market's rates as decimal text.
    pub rates_as_read: Vec<(Currency, Box<str>)>,
    /// The whole configuration, secrets masked, for the record. The reader of the file sets it.
    pub text: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverloadAnswer {
    /// 503, visible to callers and load balancers.
    #[default]
    Unavailable,
    /// No bid.
    NoBid,
}

/// Limits on what callers send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboundLimits {
    /// On a request's body.
    pub body: BodyLimits,
    /// Longest waits for the next request, for a head and for a handshake.
    pub timeouts: ConnectionTimeouts,
    /// Largest head.
    pub head_max: usize,
    /// Longest wait for a caller to read more of its answer.
    pub write_timeout: Duration,
}

impl ExchangeConfig {
    /// Declares and reads `[currency]`, `[exchange]`, `[[dsp]]`, `[[publisher]]`, `[[deal]]` and
    /// `[[floor]]`. None without `[exchange]`: the service is off.
    pub fn read(s: &mut Section<'_>) -> Option<Self> {
        let CurrencyConfig { base: currency, rates, as_read: rates_as_read } =
            s.section("currency", "Base currency and exchange rates.", read_currency);
        let own = s.service("exchange", "Accepts bid requests and runs auctions.", |s| {
            Self::read_exchange(s, &rates)
        });
        let ids = UniqueIds::default();
        let signals = own.as_ref().map_or_else(TrackingSignals::default, |own| own.signals);
        let dsps = s.tables("dsp", "A demand-side platform (DSP) to call.", |s| {
            DspOptions::read(s, &rates, &ids, signals)
        });
        let names: Vec<_> = dsps.iter().map(|dsp| dsp.rules.id.clone()).collect();
        let mode = own.as_ref().and_then(|own| own.notices.as_ref()).map(|notices| notices.mode);
        let is_local = own.as_ref().is_some_and(|own| own.listen.ip().is_loopback());
        let fee = own.as_ref().map_or(Ppm::ZERO, |own| own.market.publishers.others.fee);
        let named = terms::read_publishers(s, mode, fee, &rates, is_local);
        let deals = terms::read_deals(s, &names);
        let mut floors = terms::read_floors(s, &rates);
        floors.extend(named.floors);
        let mut own = own?;
        own.guards = dsps.iter().map(|dsp| dsp.guard.limits(&own.breaker)).collect();
        (own.market.dsps, own.endpoints) =
            dsps.into_iter().map(|dsp| (dsp.rules, dsp.address)).unzip();
        own.market.publishers.named = named.terms;
        own.market.publishers.others.notices = mode.unwrap_or_default();
        pacer::check_seats(s, own.pacer.as_ref(), &own.market.dsps);
        own.market = Market { deals, floors, rates, currency, ..own.market };
        Some(Self { callers: named.callers, rates_as_read, ..own })
    }

    /// Reads `[exchange]`; the rest is still empty.
    fn read_exchange(s: &mut Section<'_>, rates: &Rates) -> Self {
        s.renamed("house", "direct");
        let mut own = Self {
            listen: s.socket_address(
                "listen",
                "127.0.0.1:8080",
                "Address to listen on for bid requests (`POST /openrtb2/auction`).",
            ),
            tls: read_tls(s),
            publishers_only: s.boolean(
                "publishers_only",
                false,
                "Whether to refuse requests of publishers that have no [[publisher]] table.",
            ),
            limits: read_limits(s),
            inbound: read_inbound(s),
            explain_no_bid: s.boolean(
                "explain_no_bid",
                false,
                "Whether to send a no-bid as 200 with the reason in `nbr`, instead of 204.",
            ),
            overload_answer: s.one_of(
                "overload_answer",
                "unavailable",
                &[("unavailable", OverloadAnswer::Unavailable), ("no_bid", OverloadAnswer::NoBid)],
                "Response to requests that are refused because of overload (see \
                 [runtime.overload]): unavailable (503) or no_bid.",
            ),
            market: terms::read_market(s, rates),
            tie_key_is_drawn: false,
            signals: s.section(
                "privacy",
                "Privacy signals that limit what DSPs see of the user: see docs/privacy.md. COPPA \
                 is always enforced.",
                read_signals,
            ),
            direct: s.section(
                "direct",
                "Limits on direct campaigns in one auction. These are our own campaigns, which bid \
                 beside DSPs: see [budgets].",
                direct::read_limits,
            ),
            pool: s.section("pool", "Connection pool of each DSP on each shard.", read_pool),
            breaker: s.section("breaker", guard::ABOUT_BREAKER, guard::read_breaker),
            timeout_counts_after: guard::TIMEOUT_COUNTS_AFTER,
            notices: s.table(
                "notices",
                "Win, billing and loss notices fired by the exchange. If absent, winning bids keep \
                 their notice URLs for the caller to fire.",
                NoticesConfig::read,
            ),
            cache: s.table("cache", cache::ABOUT, MarkupCacheConfig::read),
            pacer: s.table("pacer", pacer::ABOUT, RemotePacerConfig::read),
            bodies: s.section(
                "bodies",
                "Full requests and responses in the record, in addition to the data that clearing \
                 used. Without [record], nothing is recorded.",
                bodies::read_bodies,
            ),
            endpoints: Vec::new(),
            guards: Vec::new(),
            callers: HashMap::new(),
            node: None,
            rates_as_read: Vec::new(),
            text: String::new(),
        };
        let tie_key = read_tie_key(s);
        own.tie_key_is_drawn = tie_key.is_none();
        own.market.tie_key = tie_key.unwrap_or(own.market.tie_key);
        own
    }
}

/// What one connection of a caller may take.
fn read_inbound(s: &mut Section<'_>) -> InboundLimits {
    InboundLimits {
        body: BodyLimits {
            bytes_max: s.bytes(
                "body_max",
                "256KiB",
                1024..=64 * 1024 * 1024,
                "Maximum size of a bid request. A larger one is rejected with 413, or with 400 if \
                 it is too large only after decompression.",
            ),
            timeout: s.duration(
                "body_timeout",
                "1s",
                ms(10)..=secs(60),
                "Timeout for receiving a request's body, measured from the end of its head.",
            ),
        },
        timeouts: ConnectionTimeouts {
            idle: s.duration(
                "idle_timeout",
                "60s",
                ms(100)..=secs(3600),
                "Time after which an idle connection is closed.",
            ),
            head: s.duration(
                "head_timeout",
                "10s",
                ms(100)..=secs(3600),
                "Timeout for receiving a request's head or completing a TLS handshake, measured \
                 from its first byte.",
            ),
        },
        write_timeout: s.duration(
            "write_timeout",
            "10s",
            ms(100)..=secs(600),
            "Time without progress in sending a response after which the connection is closed.",
        ),
        head_max: s.bytes(
            "head_max",
            "16KiB",
            8192..=1024 * 1024,
            "Maximum size of a request head. A larger one is rejected with 431.",
        ),
    }
}

fn read_signals(s: &mut Section<'_>) -> TrackingSignals {
    TrackingSignals {
        lmt: s.boolean(
            "lmt",
            true,
            "Whether to enforce `device.lmt` = 1. A [[dsp]] can override it.",
        ),
        dnt: s.boolean(
            "dnt",
            false,
            "Whether to enforce `device.dnt` = 1. A [[dsp]] can override it.",
        ),
    }
}

fn read_limits(s: &mut Section<'_>) -> TimeLimits {
    let limits = TimeLimits {
        tmax_max: s.duration(
            "tmax_max",
            "250ms",
            ms(5)..=secs(60),
            "Maximum duration of an auction. It replaces a longer or absent `tmax`.",
        ),
        answer_reserve: s.duration(
            "answer_reserve",
            "5ms",
            ms(0)..=secs(10),
            "Part of `tmax` reserved for clearing and responding. The auction closes this much \
             earlier.",
        ),
        network_margin: s.duration(
            "network_margin",
            "5ms",
            ms(0)..=secs(10),
            "Subtracted from the `tmax` sent to DSPs, to allow for the network round trip.",
        ),
        dsp_time_min: s.duration(
            "dsp_time_min",
            "10ms",
            ms(1)..=secs(10),
            "Minimum time for DSPs to respond. If `tmax` leaves less, the response is a no-bid \
             without an auction.",
        ),
    };
    let needed = limits.answer_reserve + limits.network_margin + limits.dsp_time_min;
    if limits.tmax_max < needed {
        let value = format!("\"{}ms\"", limits.tmax_max.as_millis());
        let remedy = format!(
            "leaves DSPs no time: answer_reserve, network_margin and dsp_time_min need {}ms",
            needed.as_millis()
        );
        s.problem("tmax_max", value, remedy);
    }
    limits
}

fn read_pool(s: &mut Section<'_>) -> PoolLimits {
    PoolLimits {
        connections_max: s.integer(
            "connections_max",
            512,
            1..=65_536_usize,
            "Maximum number of connections to one DSP per shard, and of calls that wait for a \
             connection. Further calls are not made.",
        ),
        streams_max: s.integer(
            "streams_max",
            256,
            1..=4096_usize,
            "Maximum number of calls in flight on one HTTP/2 connection. A DSP may allow fewer.",
        ),
        // Plus one for every four open: a start does not flood a DSP, and a pool doubles soon.
        opening_max: 8,
        handshake_share: HANDSHAKE_SHARE,
        connect_timeout: s.duration(
            "connect_timeout",
            "1s",
            ms(1)..=secs(60),
            "Timeout for connecting to a DSP.",
        ),
        idle_timeout: s.duration(
            "idle_timeout",
            "150s",
            ms(100)..=secs(3600),
            "Time after which an idle connection is closed.",
        ),
        // If an answer takes longer than this, a new connection is cheaper.
        drain_timeout: secs(1),
        backoff: BACKOFF,
        // Packets under 256 bytes: an answer of 64 KiB takes 45 packets, nearly all full.
        small_reads_max: 32,
    }
}

/// Share of a shard's time for handshakes with DSPs; auctions keep three quarters.
const HANDSHAKE_SHARE: Ppm = Ppm::new(250_000).expect("25 % is a share");

/// Finds a restarted DSP within seconds; a dead one costs next to nothing.
const BACKOFF: Backoff = Backoff { unanswered_max: 2, min: ms(50), max: secs(5) };

/// Without a key one is drawn: fair, but not reproducible elsewhere.
fn read_tie_key(s: &mut Section<'_>) -> Option<TieKey> {
    let secret = s.secret(
        "tie_key",
        Optional("env:VICKREY_TIE_KEY"),
        "Key that determines the order of equal bids: 32 hexadecimal digits. If absent, a random \
         key is generated at each start.",
    );
    let parse = |text: &str| {
        let is_key = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let key = is_key.then(|| u128::from_str_radix(text, 16).ok()).flatten()?;
        Some(TieKey::new(key.to_be_bytes()))
    };
    let key = secret.as_ref().and_then(|secret| parse(secret.expose()));
    if secret.is_some() && key.is_none() {
        let remedy = "must be 32 hexadecimal digits, for example from `openssl rand -hex 16`";
        s.problem("tie_key", "", remedy);
    }
    key
}

fn read_tls(s: &mut Section<'_>) -> Option<Arc<rustls::ServerConfig>> {
    let about = "TLS for callers, with HTTP/2. If absent, callers connect without TLS.";
    s.table("tls", about, |s| read_server(s, &["h2", "http/1.1"], ClientCertificates::None))
        .flatten()
}

#[cfg(test)]
mod tests;
