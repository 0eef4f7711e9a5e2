//! `[budgets]`: the ledger's directory, how it leases, and the capacity of a shard.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pacer_core::ledger::LedgerSettings;
use pacer_core::messages::Epoch;
use pacer_core::shard::token::TokenOrigin;
use pacer_core::shard::{ShardOptions, TTLS_MAX};
use runtime::builder::Builder;
use runtime::config::{Optional, Required, Secret, Section, ms, secs};
use runtime::shutdown::Shutdown;

use crate::keys::{KeyBytes, Keyring, parse_key};
use crate::ledger::start::LedgerStart;

/// A reservation lasts up to a sixteenth longer than configured.
const LASTS_LONGER: u32 = 16;
/// Most multiples of a class's time to live that a shard remembers.
const REMEMBERED_MAX: u32 = 4_000;
/// Periods that a shard keeps of a campaign: the present, those of remembered tokens, and the next.
const PERIODS: u32 = 4;
/// Open buckets of a class of reservations.
const BUCKETS_OPEN: u32 = 18;
/// What a crash loses of strategies' states, unless these exceed 60 MiB.
const KEEP_EVERY: Duration = Duration::from_secs(60);

/// The table `[budgets]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetsConfig {
    /// Directory of the ledger's store and keys.
    pub directory: PathBuf,
    /// Number of this process among those that share budgets.
    pub node: u32,
    /// Pattern of the files of accounts and campaigns. None if there are none.
    pub campaigns: Option<PathBuf>,
    /// Least time between two batches of leases.
    pub lease_period: Duration,
    /// How long a lease lasts at the observed rate.
    pub lease_span: Duration,
    /// How long a slice lasts at the observed rate.
    pub slice_span: Duration,
    /// How long after a reservation's expiry a win is distinguished from a repeated one.
    pub late_window: Duration,
    /// Longest time a reservation lasts.
    pub reservation_max: Duration,
    /// Reservations that a shard remembers, per time to live.
    pub reservations_max: u32,
    /// Campaigns that a shard keeps.
    pub campaigns_max: u32,
    /// Length of a strategy's slot.
    pub slot: Duration,
    /// Seals tokens. None: the key in the directory.
    token_key: Option<TokenKeySource>,
    /// Keys requests' draws. None: the key in the directory.
    draw_key: Option<TokenKeySource>,
    /// Who spends the budgets. Empty: nobody does.
    pub spenders: Vec<Spender>,
    /// Warning that impressions may be billed after their reservations expire. None if they cannot.
    pub late_wins_warning: Option<String>,
}

/// A service that spends budgets, with the lifetimes of its reservations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spender {
    /// How long after a sale the exchange bills impressions.
    Exchange(Vec<Duration>),
    /// Lifetimes that bidders on the wire may choose.
    Pacer(Vec<Duration>),
}

impl Spender {
    pub(crate) fn lifetimes(&self) -> &[Duration] {
        match self {
            Self::Exchange(lifetimes) | Self::Pacer(lifetimes) => lifetimes,
        }
    }

    /// How many parts of it write settlements to the log.
    pub(crate) const fn writers(&self, shards: usize) -> usize {
        match self {
            // The dispatcher of notices.
            Self::Exchange(_) => 1,
            Self::Pacer(_) => shards,
        }
    }
}

/// A configured key: never shown.
#[derive(Clone, Copy, PartialEq, Eq)]
struct TokenKeySource(KeyBytes);

impl std::fmt::Debug for TokenKeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(runtime::config::MASK)
    }
}

impl BudgetsConfig {
    /// Reads the keys of `[budgets]`.
    pub fn read(s: &mut Section<'_>) -> Self {
        let directory = s.text(
            "directory",
            Required("/var/lib/vickrey/budgets"),
            "Directory of the ledger and its keys. Only one process may use it. Both this path and \
             `campaigns` are relative to this file.",
        );
        let campaigns = s.text(
            "campaigns",
            Optional("campaigns.d/*.toml"),
            "Files of accounts and campaigns, in addition to those defined through the API. They \
             are reloaded when one of them changes.",
        );
        let token_key = s.secret(
            "token_key",
            Optional("env:VICKREY_TOKEN_KEY"),
            "Key that seals the tokens of reservations: 16 bytes in base64. If absent, a key is \
             generated and stored in `directory`.",
        );
        let draw_key = s.secret(
            "draw_key",
            Optional("env:VICKREY_DRAW_KEY"),
            "Key that seeds the random choices of strategies that skip requests: 16 bytes in \
             base64. If absent, a key is generated and stored in `directory`.",
        );
        let spans = Self::read_spans(s);
        if spans.reservation_max < spans.late_window / REMEMBERED_MAX {
            let value = format!("\"{}s\"", spans.late_window.as_secs());
            let remedy = "is more than 4000 times `reservation_max`, make it shorter";
            s.problem("late_window", value, remedy);
        }
        Self {
            directory: directory.into(),
            node: s.integer(
                "node",
                0,
                0..=u32::MAX,
                "Number of this process among those that share budgets. It must be the same at \
                 every start.",
            ),
            campaigns: campaigns.map(PathBuf::from),
            token_key: read_key(s, "token_key", token_key),
            draw_key: read_key(s, "draw_key", draw_key),
            ..spans
        }
    }

    fn read_spans(s: &mut Section<'_>) -> Self {
        Self {
            directory: PathBuf::new(),
            node: 0,
            campaigns: None,
            token_key: None,
            draw_key: None,
            spenders: Vec::new(),
            late_wins_warning: None,
            lease_period: s.duration(
                "lease_period",
                "1s",
                ms(10)..=secs(60),
                "Minimum time between two batches of leases. Each batch is synced to disk.",
            ),
            lease_span: s.duration(
                "lease_span",
                "2s",
                ms(20)..=secs(600),
                "Time for which a lease covers the spend of a campaign. After a crash, the unspent \
                 part is held back for `reservation_max`.",
            ),
            slice_span: s.duration(
                "slice_span",
                "100ms",
                ms(1)..=secs(60),
                "Time for which a slice of a lease covers the spend of a shard. Where little is \
                 spent, a slice covers eight reservations, or fewer near the end of the budget.",
            ),
            late_window: s.duration(
                "late_window",
                "1h",
                secs(0)..=secs(86_400),
                "Time after the expiry of a reservation during which a late win can be \
                 distinguished from a repeated one.",
            ),
            reservation_max: s.duration(
                "reservation_max",
                "30m",
                secs(1)..=secs(86_400),
                "Maximum lifetime of a reservation. A later win is booked, but may exceed the \
                 budget.",
            ),
            reservations_max: s.integer(
                "reservations_max",
                67_108_864,
                1_024..=u32::MAX,
                "Maximum number of reservations of each lifetime that a shard remembers, until \
                 `late_window` is over: the reservations per second times the sum of both. Each \
                 takes a quarter of a byte once it is used, at most 16MiB per lifetime with the \
                 default.",
            ),
            campaigns_max: s.integer(
                "campaigns_max",
                10_000,
                1..=(1_u32 << 20),
                "Maximum number of campaigns on a shard, including those that are over. Each takes \
                 about 2.5KB.",
            ),
            slot: s.duration(
                "slot",
                "10s",
                secs(1)..=secs(600),
                "Length of a time slot. Strategies adjust their bids at the end of each slot.",
            ),
        }
    }

    /// Resolves the directory relative to `folder`, that of the configuration file.
    #[must_use]
    pub fn beside(&self, folder: &Path) -> Self {
        Self { directory: folder.join(&self.directory), ..self.clone() }
    }

    /// Settings of a ledger for spenders on so many shards each. Shards count ticks from `origin`
    /// too.
    pub fn start(
        &self,
        shards: u16,
        origin: Instant,
        shutdown: &Shutdown,
        builder: &Builder,
    ) -> LedgerStart {
        LedgerStart {
            directory: self.directory.clone(),
            settings: LedgerSettings {
                lease_period: self.lease_period,
                lease_span: self.lease_span,
                slice_span: self.slice_span,
                horizon: self.horizon(),
                late_window: self.late_window,
                ahead: LedgerSettings::ahead_of(self.lease_period),
                is_lateness_recorded: false,
                ..LedgerSettings::new(self.node, Epoch::default(), self.shards_of_all(shards))
            },
            slot: self.slot,
            keep_every: KEEP_EVERY,
            writers: self.spenders.iter().map(|it| it.writers(shards.into())).sum(),
            origin,
            shutdown: shutdown.clone(),
            builder: builder.clone(),
        }
    }

    /// Shards of all spenders together.
    fn shards_of_all(&self, shards: u16) -> u16 {
        let spenders = u16::try_from(self.spenders.len().max(1)).expect("services are few");
        shards.saturating_mul(spenders)
    }

    /// Whether its directory has a ledger, which may know more accounts than the files define.
    pub fn has_begun(&self) -> bool {
        crate::store::engine::is_begun(&self.directory)
    }

    /// Keys for tokens and for requests' draws.
    ///
    /// # Errors
    /// If a key cannot be read or made; names its file.
    pub fn keys(&self) -> std::io::Result<Keyring> {
        let key = |key: Option<TokenKeySource>| key.map(|key| key.0);
        Keyring::open(&self.directory, key(self.token_key), key(self.draw_key))
    }

    /// Options of a shard for beacons of these lifetimes, each capped at the longest reservation.
    pub fn shard_options(&self, origin: TokenOrigin, lifetimes: &[Duration]) -> ShardOptions {
        let mut ttls: Vec<_> = lifetimes.iter().map(|lifetime| self.lasts(*lifetime)).collect();
        ttls.push(self.reservation_max);
        ttls.sort_unstable();
        ttls.dedup();
        // The longest remain: a dropped one lasts as long as the next.
        let surplus = ttls.len().saturating_sub(TTLS_MAX);
        ttls.drain(..surplus);
        let lines_max = self.campaigns_max.saturating_mul(BUCKETS_OPEN);
        ShardOptions {
            origin,
            ttls,
            late_window: self.late_window,
            slots_max: self.campaigns_max,
            books_max: self.campaigns_max.saturating_mul(PERIODS),
            reservations_max: self.reservations_max,
            lines_max: lines_max.min(self.reservations_max),
        }
    }

    fn lasts(&self, lifetime: Duration) -> Duration {
        lifetime.max(self.late_window / REMEMBERED_MAX).min(self.reservation_max)
    }

    fn horizon(&self) -> Duration {
        // And a second, because shards read their clocks only now and then.
        self.reservation_max + self.reservation_max / LASTS_LONGER + secs(1)
    }
}

fn read_key(s: &mut Section<'_>, key: &str, secret: Option<Secret>) -> Option<TokenKeySource> {
    let bytes = parse_key(secret?.expose());
    if bytes.is_none() {
        s.problem(key, "***", "must be base64 of 16 bytes, as of `openssl rand -base64 16`");
    }
    bytes.map(TokenKeySource)
}

#[cfg(test)]
mod tests;
