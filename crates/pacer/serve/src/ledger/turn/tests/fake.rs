//! A process around a ledger: real shard ledgers, on the thread of the test.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use pacer_core::calendar::QUARTER_MS;
use pacer_core::ledger::{
    AccountId, AccountTerms, BudgetLimits, CampaignBudget, CampaignTerms, Daypart, Holdback,
    LedgerSettings, Money, SpendDiagnosis,
};
use pacer_core::messages::{CampaignIndex, Epoch, FromShard, RequestCounts, ToShard};
use pacer_core::shard::token::{ReservationToken, TtlClass};
use pacer_core::shard::{Denial, ShardLedger, ShardOptions, ShardTime};
use pacer_core::strategy::BidPace;
use runtime::builder::Builder;
use runtime::shutdown::Shutdown;
use units::{Currency, Nanos};

use crate::ledger::feed::SettledReservation;
use crate::ledger::handle::LedgerQuery;
use crate::ledger::status::LedgerClock;
use crate::{
    LedgerHandle, LedgerHoldPort, LedgerStart, LedgerThread, NamedAccount, PacedCampaign,
    SettlementFeed, ShardRings, StartedLedger,
};

pub(crate) const EVER: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_millis(300);

pub(crate) struct TestLedger {
    pub handle: LedgerHandle,
    pub feed: SettlementFeed,
    pub holds: LedgerHoldPort,
    pub thread: Option<LedgerThread>,
    pub shards: Vec<FakeShard>,
    pub shutdown: Shutdown,
}

pub(crate) struct FakeShard {
    pub shard: ShardLedger,
    pub rings: ShardRings,
    pub paces: BTreeMap<CampaignIndex, BidPace>,
    pub gates: u64,
    clock: LedgerClock,
}

pub(crate) fn start_in(directory: &Path, shards: u16) -> LedgerStart {
    start_for(directory, shards, TTL)
}

fn start_for(directory: &Path, shards: u16, ttl: Duration) -> LedgerStart {
    let lease_period = Duration::from_millis(10);
    LedgerStart {
        directory: directory.to_owned(),
        settings: LedgerSettings {
            lease_period,
            lease_span: Duration::from_millis(100),
            slice_span: Duration::from_millis(20),
            horizon: ttl + ttl / 16 + Duration::from_millis(100),
            late_window: Duration::from_secs(10),
            ahead: LedgerSettings::ahead_of(lease_period),
            is_lateness_recorded: false,
            ..LedgerSettings::new(1, Epoch::default(), shards)
        },
        slot: Duration::from_secs(1),
        keep_every: Duration::from_secs(60),
        writers: 1,
        origin: Instant::now(),
        shutdown: Shutdown::new(Duration::ZERO),
        builder: Builder::start().expect("a thread"),
    }
}

/// Passes a win of a durable record, at the reserved amount in dollars.
pub(crate) fn settle(feed: &SettlementFeed, sequence: u64, token: &ReservationToken) {
    let (token, cost) = (*token, token.amount());
    feed.settled(sequence, [SettledReservation { token, cost, currency: usd() }]);
}

impl TestLedger {
    pub(crate) fn open(directory: &Path, shards: u16) -> Self {
        Self::open_for(directory, shards, TTL)
    }

    /// The first run in a directory: the log is empty.
    pub(crate) fn first(directory: &Path, shards: u16) -> Self {
        let ledger = Self::open(directory, shards);
        ledger.feed.replayed();
        ledger
    }

    pub(crate) fn open_for(directory: &Path, shards: u16, ttl: Duration) -> Self {
        let start = start_for(directory, shards, ttl);
        let (origin, shutdown) = (start.origin, start.shutdown.clone());
        Self::with((start.start().unwrap(), ttl), origin, shutdown)
    }

    pub(crate) fn of(started: StartedLedger, origin: Instant, shutdown: Shutdown) -> Self {
        Self::with((started, TTL), origin, shutdown)
    }

    fn with(
        (started, ttl): (StartedLedger, Duration),
        origin: Instant,
        shutdown: Shutdown,
    ) -> Self {
        let StartedLedger { rings, mut feeds, holds, handle, thread } = started;
        let feed = feeds.pop().expect("one writes settlements");
        let shards =
            rings.into_iter().map(|rings| FakeShard::new(rings, LedgerClock { origin }, ttl));
        Self { handle, feed, holds, thread: Some(thread), shards: shards.collect(), shutdown }
    }

    /// Runs the shards until `holds`.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < EVER, "{what}: {:?}", self.handle.status());
            self.shards.iter_mut().for_each(FakeShard::turn);
            thread::park_timeout(Duration::from_millis(1));
        }
    }

    /// Reserves at a shard, once it has a grant.
    #[track_caller]
    pub(crate) fn reserve(&mut self, shard: usize, slot: u32, nanos: u64) -> ReservationToken {
        let mut token = None;
        self.until("rights are granted", |ledger| {
            token = ledger.shards[shard].reserve(slot, nanos).ok();
            token.is_some()
        });
        token.unwrap()
    }

    pub(crate) fn why(&self, slot: u32) -> SpendDiagnosis {
        self.handle.ask_of(CampaignIndex(slot), LedgerQuery::Why).unwrap()
    }

    pub(crate) fn spent(&self, slot: u32) -> u64 {
        self.handle
            .ask_of(CampaignIndex(slot), LedgerQuery::Spend)
            .unwrap()
            .map_or(0, |spend| spend.life.get())
    }

    /// Defines a campaign and its account, each with this limit for life.
    pub(crate) fn define(&self, slot: u32, limit: u64) {
        let account = self.account(None);
        let defined = self.handle.define(vec![account], vec![campaign(slot, limit)]).unwrap();
        assert_eq!(defined.unpaced, []);
        let is_taken = |notice: &_| {
            use pacer_core::ledger::LedgerReply::{Account, Campaign};
            matches!(notice, Account(_, Ok(_)) | Campaign(_, Ok(_)))
        };
        assert!(defined.notices.len() == 2 && defined.notices.iter().all(is_taken), "{defined:?}");
    }

    pub(crate) fn account(&self, life: Option<u64>) -> NamedAccount {
        let terms = AccountTerms {
            id: AccountId(0),
            version: 1,
            currency: usd(),
            zone: self.handle.zones.id("Asia/Kathmandu").unwrap(),
            limits: BudgetLimits { life: life.map(money), ..BudgetLimits::default() },
            late_holdback: Holdback::default(),
            is_paused: false,
        };
        NamedAccount { name: "acme".into(), terms }
    }

    /// Closes cleanly: shards return what no reservation holds.
    pub(crate) fn stop(mut self) {
        self.shards.iter_mut().for_each(FakeShard::close);
        self.close();
    }

    /// Closes after shards are gone.
    pub(crate) fn close(mut self) {
        drop(self.shards);
        self.thread.take().unwrap().close().unwrap();
    }
}

pub(crate) fn usd() -> Currency {
    Currency::parse("USD").unwrap()
}

pub(crate) fn money(nanos: u64) -> Money {
    Money { amount: Nanos::new(nanos), currency: usd() }
}

pub(crate) fn campaign(slot: u32, limit: u64) -> PacedCampaign {
    let definition = CampaignTerms {
        slot: CampaignIndex(slot),
        version: 1,
        account: AccountId(0),
        budget: CampaignBudget {
            limits: BudgetLimits { life: Some(money(limit)), ..BudgetLimits::default() },
            start_unix_ms: 0,
            end_unix_ms: 4_000_000_000_000,
            daypart: Daypart::ALWAYS,
            late_holdback: Holdback::default(),
            is_paused: false,
        },
    };
    PacedCampaign { terms: definition, pacing: None }
}

impl FakeShard {
    fn new(rings: ShardRings, clock: LedgerClock, ttl: Duration) -> Self {
        let options = ShardOptions {
            origin: rings.origin,
            ttls: vec![ttl],
            late_window: Duration::from_secs(10),
            slots_max: 8_192,
            books_max: 16_384,
            reservations_max: 65_536,
            lines_max: 8_192,
        };
        let shard = ShardLedger::new(&options).unwrap();
        Self { shard, rings, paces: BTreeMap::new(), gates: 0, clock }
    }

    pub(crate) fn turn(&mut self) {
        while let Ok(message) = self.rings.from_ledger.pop() {
            match message {
                ToShard::Grant(grant) => self.shard.take(&grant).unwrap(),
                ToShard::Gate(gate) => {
                    self.gates += 1;
                    self.shard.take_gate(&gate).unwrap();
                }
                ToShard::Pace(slot, pace) => drop(self.paces.insert(slot, pace)),
            }
        }
        self.shard.advance(self.clock.now().tick);
        while !self.rings.to_ledger.is_full() {
            let report = self.shard.report().next().map(FromShard::Report);
            let Some(said) = report.or_else(|| self.shard.want().next().map(FromShard::Refill))
            else {
                break;
            };
            self.rings.to_ledger.push(said).unwrap();
        }
    }

    /// Returns what no reservation holds, and reports it.
    pub(crate) fn close(&mut self) {
        self.turn();
        let receipts = self.shard.close(self.clock.now().tick);
        let reports: Vec<_> = self.shard.report().map(FromShard::Report).collect();
        let receipts = receipts.into_iter().map(FromShard::Receipt);
        for said in reports.into_iter().chain(receipts).chain([FromShard::Closed]) {
            while self.rings.to_ledger.is_full() {
                thread::yield_now();
            }
            self.rings.to_ledger.push(said).unwrap();
        }
    }

    pub(crate) fn reserve(&mut self, slot: u32, nanos: u64) -> Result<ReservationToken, Denial> {
        let now = self.clock.now();
        let quarter = u32::try_from(now.unix_ms / QUARTER_MS).unwrap();
        let at = ShardTime { tick: now.tick, quarter };
        self.shard.reserve(CampaignIndex(slot), Nanos::new(nanos), TtlClass(0), at)
    }

    pub(crate) fn settle(&mut self, token: &ReservationToken) {
        let claim = self.shard.claim(token, self.clock.now().tick).unwrap();
        self.shard.settle(claim, token.amount());
    }

    pub(crate) fn release(&mut self, token: &ReservationToken) -> Nanos {
        self.shard.release(token, self.clock.now().tick).unwrap()
    }

    pub(crate) fn reserved(&self, slot: u32) -> u64 {
        self.shard.holdings(CampaignIndex(slot)).map(|held| held.reserved.get()).sum()
    }

    pub(crate) fn see(&mut self, slot: u32, requests: u64) {
        let seen = RequestCounts { requests, bids: requests };
        self.rings.to_ledger.push(FromShard::Seen(CampaignIndex(slot), seen)).unwrap();
    }
}
