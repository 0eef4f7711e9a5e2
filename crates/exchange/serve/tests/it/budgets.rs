//! Seats that win only what their account authorises. The tests hold the ledger's end of the rings,
//! so only what they grant can be spent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use exchange_core::record::{AuctionRecord, GenerationRecord, ReplayOutcome, replay};
use exchange_core::{Fate, Reservation};
use exchange_serve::campaigns::{Campaigns, Payer, SeatAccount};
use exchange_serve::{
    BudgetContext, Budgets, BudgetsError, Exchange, Settlements, ShardLedgerPort,
};
use pacer_core::calendar::Period;
use pacer_core::messages::{
    BudgetGrant, CampaignIndex, Epoch, FromShard, RequestCounts, SpendReport, SpendingGate, ToShard,
};
use pacer_core::refusal::SpendRefusal;
use pacer_core::shard::ShardOptions;
use pacer_core::shard::token::{TokenKey, TokenOrigin};
use pacer_core::strategy::DrawKey;
use runtime::builder::{Builder, Job};
use units::{Currency, Nanos, Tick};

use crate::fixtures::{Dsp, Reply, Running, Script, Setup, banner, bids, listener, ok, until};
use crate::notices::{LOOPBACK, RecordDir, only_bid};
use crate::record::{decoded, read};

/// The account of seat `d0` at DSP `d0`.
pub const SLOT: CampaignIndex = CampaignIndex(0);

/// One impression at a CPM of 2.00.
pub const TWO: u64 = 2_000_000;

/// Receives nothing.
struct Nobody;

impl Settlements for Nobody {
    fn settled(&mut self, _: u64, _: &Reservation) {}
    fn reached(&mut self, _: u64) {}
    fn replayed(&mut self) {}
    fn applied_seq(&self) -> u64 {
        u64::MAX
    }
}

/// The ledger's end of one shard.
pub struct Ledger {
    to_shard: rtrb::Producer<ToShard>,
    from_shard: rtrb::Consumer<FromShard>,
    is_halted: Arc<AtomicBool>,
    period: Period,
    /// The shard's latest report.
    report: Option<SpendReport>,
}

impl Ledger {
    fn new() -> (Self, Budgets) {
        Self::of(accounts())
    }

    /// A ledger for an exchange with these campaigns.
    pub fn of(campaigns: Campaigns) -> (Self, Budgets) {
        let (to_shard, from_ledger) = rtrb::RingBuffer::new(64);
        let (to_ledger, from_shard) = rtrb::RingBuffer::new(64);
        let options = ShardOptions {
            origin: TokenOrigin { node: 1, epoch: Epoch(7), shard: 0 },
            ttls: vec![Duration::from_secs(60), Duration::from_secs(1800)],
            late_window: Duration::from_secs(60),
            slots_max: 4,
            books_max: 8,
            reservations_max: 1024,
            lines_max: 1024,
        };
        let is_halted = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&is_halted);
        let budget_context = BudgetContext {
            key: TokenKey::new([5; 16]),
            draw: DrawKey::new([6; 16]),
            origin: Instant::now(),
            is_halted: Arc::new(move || asked.load(Ordering::Relaxed)),
            ledger_unix_ms: Arc::new(|| 0),
        };
        let lines = vec![ShardLedgerPort { from_ledger, to_ledger, options }];
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let quarter = u32::try_from(since.as_secs() / 900).expect("32 bits");
        let period = Period(quarter);
        let ledger = Self { to_shard, from_shard, is_halted, period, report: None };
        let (settlements, on_start) = (Box::new(Nobody), Box::new(no_job));
        (ledger, Budgets { budget_context, ledger_ports: lines, campaigns, settlements, on_start })
    }

    /// Grants a total.
    pub fn grant(&mut self, nanos: u64) {
        let until = Tick::ZERO.after(Duration::from_secs(3600));
        let granted = Nanos::new(nanos);
        let grant = BudgetGrant { slot: SLOT, period: self.period, granted, until };
        self.to_shard.push(ToShard::Grant(grant)).expect("room");
    }

    pub fn gate(&mut self, version: u64, closed: Option<SpendRefusal>) {
        let gate = SpendingGate { slot: SLOT, version, closed, is_recalled: false };
        self.to_shard.push(ToShard::Gate(gate)).expect("room");
    }

    /// Waits until the shard has received all messages.
    pub fn taken(&mut self) {
        let all = self.to_shard.buffer().capacity();
        until("the shard has taken what it was told", || self.to_shard.slots() == all);
    }

    /// Waits until the shard reports these counts of the campaign.
    pub fn seen(&mut self, what: &str, want: RequestCounts) {
        until(what, || {
            let told = std::iter::from_fn(|| self.from_shard.pop().ok());
            told.into_iter().any(|message| message == FromShard::Seen(SLOT, want))
        });
    }

    /// Waits for a report that satisfies `holds`.
    fn reported(&mut self, what: &str, holds: impl Fn(&SpendReport) -> bool) {
        until(what, || {
            while let Ok(message) = self.from_shard.pop() {
                if let FromShard::Report(report) = message {
                    self.report = Some(report);
                }
            }
            self.report.as_ref().is_some_and(&holds)
        });
    }
}

/// The account of the seat of `d0`.
fn accounts() -> Campaigns {
    let payer = Payer { slot: SLOT, currency: Currency::USD };
    let seats = vec![SeatAccount { dsp: "d0".into(), seat: "d0".into(), payer }];
    Campaigns { number: 1, seats, ..Campaigns::default() }
}

/// An exchange with these DSPs, of which the first has an account.
pub fn start(record_dir: &RecordDir, dsps: &[&Dsp], budgets: Budgets) -> Running {
    start_with(record_dir, "", dsps, budgets)
}

/// The same with these keys of `[exchange.notices]` and further tables.
pub fn start_with(record_dir: &RecordDir, keys: &str, dsps: &[&Dsp], budgets: Budgets) -> Running {
    let listener = listener();
    let keys = format!("{LOOPBACK}{keys}");
    let rest = record_dir.table(listener.local_addr().expect("an address"), &keys);
    let dsps: Vec<_> = dsps.iter().map(|dsp| (dsp.address, "")).collect();
    let setup = Setup { dsps: &dsps, rest: &rest, ..Setup::default() };
    Running::with_budgets(listener, &setup, Some(budgets)).expect("it starts")
}

#[test]
fn a_seat_wins_what_its_account_authorises_and_then_the_next_bid_does() {
    let (rich, poor) = (Dsp::bidding("2.00"), Dsp::bidding("1.00"));
    let (mut ledger, budgets) = Ledger::new();
    let record_dir = RecordDir::new();
    let exchange = start(&record_dir, &[&rich, &poor], budgets);
    ledger.gate(1, None);
    ledger.grant(3 * TWO);
    ledger.taken();
    let prices: Vec<_> = (0..3).map(|_| exchange.auction(&banner("")).price()).collect();
    assert_eq!(prices, ["2", "2", "2"]);
    ledger.gate(2, Some(SpendRefusal::DayExhausted));
    ledger.taken();
    let prices: Vec<_> = (0..2).map(|_| exchange.auction(&banner("")).price()).collect();
    assert_eq!(prices, ["1", "1"], "the next bid");
    assert_eq!(exchange.fates(Fate::BudgetExhausted), 2);
    let refused = r#"exchange_wins_refused_total{reason="day_exhausted"}"#;
    assert_eq!(exchange.scraped(refused), "2");
    ledger.reported("three reservations", |report| report.reserved_count == 3);
    exchange.join();
    // The record has the account's refusal, and the auction replays identically.
    let lane = |lane| read(&record_dir.place().join(lane));
    let durable = lane("durable");
    let generations: Vec<_> = durable
        .iter()
        .filter_map(|record| GenerationRecord::decode(&record.payload).ok())
        .collect();
    let records = lane("firehose");
    let auctions: Vec<AuctionRecord<'_>> = records.iter().map(decoded).collect();
    let refusals: Vec<_> = auctions.iter().map(|auction| auction.refusals.len()).collect();
    assert_eq!(refusals, [0, 0, 0, 1, 1]);
    for auction in &auctions {
        let of = generations.iter().find(|facts| facts.number == auction.generation);
        assert_eq!(replay(auction, of.expect("its generation")), Ok(ReplayOutcome::Same));
    }
}

#[test]
fn without_rights_nothing_is_won() {
    let (rich, poor) = (Dsp::bidding("2.00"), Dsp::bidding("1.00"));
    let (mut ledger, budgets) = Ledger::new();
    let record_dir = RecordDir::new();
    let exchange = start(&record_dir, &[&rich, &poor], budgets);
    let check = |why: &str, count: &str| {
        assert_eq!(exchange.auction(&banner("")).price(), "1", "{why}");
        let refused = format!(r#"exchange_wins_refused_total{{reason="{why}"}}"#);
        assert_eq!(exchange.scraped(&refused), count);
    };
    check("unknown", "1");
    ledger.gate(1, None);
    ledger.taken();
    check("ledger_unavailable", "1");
    // One nano less than an impression.
    ledger.grant(TWO - 1);
    ledger.taken();
    check("ledger_unavailable", "2");
    ledger.gate(2, Some(SpendRefusal::Paused));
    ledger.grant(2 * TWO);
    ledger.taken();
    check("paused", "1");
    ledger.gate(3, None);
    ledger.taken();
    assert_eq!(exchange.auction(&banner("")).price(), "2");
    ledger.is_halted.store(true, Ordering::Relaxed);
    check("ledger_unavailable", "3");
}

#[test]
fn a_test_moves_no_money() {
    let rich = Dsp::bidding("2.00");
    let (mut ledger, budgets) = Ledger::new();
    let record_dir = RecordDir::new();
    let exchange = start(&record_dir, &[&rich], budgets);
    ledger.gate(1, None);
    ledger.taken();
    assert_eq!(exchange.auction(&banner(r#","test":1"#)).price(), "2");
    assert_eq!(exchange.fates(Fate::BudgetExhausted), 0);
}

#[test]
fn a_price_that_another_sets_is_what_is_reserved() {
    let (rich, poor) = (Dsp::bidding("2.00"), Dsp::bidding("1.00"));
    let (mut ledger, budgets) = Ledger::new();
    let record_dir = RecordDir::new();
    let exchange = start(&record_dir, &[&rich, &poor], budgets);
    ledger.gate(1, None);
    // 1.01 each, by second price.
    ledger.grant(2 * 1_010_000);
    ledger.taken();
    let prices: Vec<_> = (0..3).map(|_| exchange.auction(&banner(r#","at":2"#)).price()).collect();
    // Without it, no bid sets the price of the next one.
    assert_eq!(prices, ["1.01", "1.01", "0"]);
}

#[test]
fn what_is_reserved_for_a_bid_that_falls_out_is_given_back() {
    // Its markup would come with the win notice, from an undeclared host.
    let no_ad = r#"{"id":"1","impid":"1","price":2.0,"crid":"c","nurl":"http://elsewhere.test/w"}"#;
    let rich = Dsp::start([Script::answering(ok(&bids(no_ad)))]);
    let poor = Dsp::bidding("1.00");
    let (mut ledger, budgets) = Ledger::new();
    let record_dir = RecordDir::new();
    let exchange = start(&record_dir, &[&rich, &poor], budgets);
    ledger.gate(1, None);
    ledger.grant(TWO);
    ledger.taken();
    for _ in 0..3 {
        assert_eq!(exchange.auction(&banner("")).price(), "1");
    }
    assert_eq!(exchange.fates(Fate::BudgetExhausted), 0, "it could have paid each time");
    until("three were given back", || {
        exchange.scraped(r#"exchange_reservations_total{outcome="released"}"#) == "3"
    });
}

#[test]
fn a_beacon_settles_once_and_what_is_lost_elsewhere_comes_back() {
    let rich = Dsp::bidding("2.00");
    let (mut ledger, budgets) = Ledger::new();
    let record_dir = RecordDir::new();
    let exchange = start_with(&record_dir, "mode = \"upstream\"\n", &[&rich], budgets);
    ledger.gate(1, None);
    ledger.grant(2 * TWO);
    ledger.taken();
    let (won, lost) = (exchange.auction(&banner("")), exchange.auction(&banner("")));
    let call = |reply: &Reply, member: &str| {
        let url = only_bid(reply)[member].as_str().expect("a beacon").to_owned();
        let (_, token) = url.split_once("/n/").expect("one of ours");
        assert_eq!(exchange.caller().get(&format!("/n/{token}"), "").status, 200, "{url}");
    };
    call(&won, "burl");
    call(&won, "burl");
    call(&lost, "lurl");
    ledger.reported("one is settled", |report| report.settled.get() == TWO);
    // Budget of lost bids can be spent again, that of won ones cannot.
    assert_eq!(exchange.auction(&banner("")).price(), "2");
    assert_eq!(exchange.auction(&banner("")).status, 204);
    ledger.reported("three were reserved", |report| report.reserved_count == 3);
    assert_eq!(ledger.report.map(|report| report.won_count), Some(1));
}

#[test]
fn what_is_passed_through_counts_as_billed_when_it_is_sold() {
    let rich = Dsp::bidding("2.00");
    let (mut ledger, budgets) = Ledger::new();
    let record_dir = RecordDir::new();
    let exchange = start_with(&record_dir, "mode = \"pass_through\"\n", &[&rich], budgets);
    ledger.gate(1, None);
    ledger.grant(TWO);
    ledger.taken();
    assert_eq!(exchange.auction(&banner("")).price(), "2");
    ledger.reported("it is settled", |report| report.settled.get() == TWO);
}

#[test]
fn accounts_need_a_record_and_notices() {
    let (_ledger, budgets) = Ledger::new();
    let started = Running::with_budgets(listener(), &Setup::default(), Some(budgets));
    let refused = started.expect_err("nothing would be billed");
    assert_eq!(refused.to_string(), BudgetsError::Unbilled.to_string());
}

/// The campaigns never change.
fn no_job(_: &Arc<Exchange>, _: &Builder) -> Vec<Job> {
    Vec::new()
}
