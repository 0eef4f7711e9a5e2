//! Two shards of one process, and the ledger's ends of their rings.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use pacer_core::calendar::Period;
use pacer_core::funnel::FunnelSlot;
use pacer_core::messages::{
    BudgetGrant, Epoch, Receipt, RefillRequest, RequestCounts, SpendReport, SpendingGate,
};
use pacer_core::shard::TokenRejection;
use pacer_core::shard::token::TokenOrigin;
use pacer_core::strategy::BidPace;
use units::Currency;

use super::*;
use crate::notices::{NoBudgets, Settlements as _};

pub(crate) const SLOT: CampaignIndex = CampaignIndex(2);

/// One shard: its budget, its ends of the rings, and its metrics.
pub(crate) struct ShardFixture {
    pub(crate) budget: ShardBudget,
    to_shard: rtrb::Producer<ToShard>,
    from_shard: rtrb::Consumer<FromShard>,
    commands: ReservationCommands,
    /// The dispatcher's end.
    pub(crate) spent: SettlementRouter,
    pub(crate) metrics: ExchangeMetrics,
    is_durable: Arc<AtomicBool>,
    is_halted: Arc<AtomicBool>,
    ledger_unix_ms: Arc<AtomicU64>,
}

impl ShardFixture {
    /// Passes messages of the ledger.
    pub(crate) fn receive(&mut self, messages: &[ToShard]) {
        for message in messages {
            self.to_shard.push(*message).expect("there is room");
        }
        self.run_commands();
        self.budget.turn(&self.metrics);
    }

    /// Runs queued commands, then returns messages to the ledger.
    pub(crate) fn sent(&mut self) -> Vec<FromShard> {
        self.run_commands();
        self.budget.turn(&self.metrics);
        std::iter::from_fn(|| self.from_shard.pop().ok()).collect()
    }

    pub(crate) fn run_commands(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(command)) = pin!(self.commands.next()).poll(&mut context) {
            self.budget.execute(command);
        }
    }

    /// Spare buffers for answers.
    pub(crate) fn rooms(&self) -> usize {
        self.budget.search.borrow().answers.len()
    }

    fn settle(&mut self, reservation: &Reservation) {
        self.spent.settled(1, reservation);
    }

    pub(crate) fn report(&mut self) -> SpendReport {
        let told = self.sent();
        let mut reports = told.iter().rev().filter_map(|message| match message {
            FromShard::Report(report) => Some(*report),
            _ => None,
        });
        reports.next().expect("there is something to report")
    }
}

fn quarter() -> u32 {
    u32::try_from(unix_ms() / QUARTER_MS).expect("32 bits")
}

/// An open gate and a grant of `nanos`.
fn rights(nanos: u64) -> [ToShard; 2] {
    rights_of(SLOT, nanos)
}

pub(crate) fn rights_of(slot: CampaignIndex, nanos: u64) -> [ToShard; 2] {
    let until = Tick::ZERO.after(Duration::from_secs(3600));
    let granted = Nanos::new(nanos);
    let grant = BudgetGrant { slot, period: Period(quarter()), granted, until };
    let gate = SpendingGate { slot, version: 1, closed: None, is_recalled: false };
    [ToShard::Gate(gate), ToShard::Grant(grant)]
}

/// The shards of a process, with rings of `room` messages.
pub(crate) fn shard_fixtures<const N: usize>(epoch: u32, room: usize) -> [ShardFixture; N] {
    let is_halted = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_halted);
    let ledger_unix_ms = Arc::new(AtomicU64::new(0));
    let shown = Arc::clone(&ledger_unix_ms);
    let budget_context = BudgetContext {
        key: TokenKey::new([1; 16]),
        draw: DrawKey::new([2; 16]),
        origin: Instant::now(),
        is_halted: Arc::new(move || asked.load(Ordering::Relaxed)),
        ledger_unix_ms: Arc::new(move || shown.load(Ordering::Relaxed)),
    };
    let (mut lines, mut ends) = (Vec::with_capacity(N), Vec::with_capacity(N));
    for shard in 0..N {
        let (to_shard, from_ledger) = rtrb::RingBuffer::new(room);
        let (to_ledger, from_shard) = rtrb::RingBuffer::new(room);
        let shard = u16::try_from(shard).expect("few");
        let options = ShardOptions {
            origin: TokenOrigin { node: 1, epoch: Epoch(epoch), shard },
            ttls: [10, 100].map(Duration::from_secs).to_vec(),
            late_window: Duration::from_secs(10),
            slots_max: 8,
            books_max: 8,
            reservations_max: 64,
            lines_max: 64,
        };
        lines.push(ShardLedgerPort { from_ledger, to_ledger, options });
        ends.push((to_shard, from_shard));
    }
    let (peers, commands) = PeerShards::new(budget_context.key, &lines);
    let mut shards = lines.into_iter().zip(ends).zip(commands);
    std::array::from_fn(|_| {
        let ((line, (to_shard, from_shard)), commands) = shards.next().expect("one for each");
        let is_durable = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&is_durable);
        let asked = Box::new(move || asked.load(Ordering::Relaxed));
        let budget = ShardBudget::new(
            line,
            budget_context.clone(),
            peers.clone(),
            asked,
            HandoverSlot::new(FunnelSlot::default()),
        )
        .expect("sound options");
        let spent = SettlementRouter { ledger: Box::new(NoBudgets), peers: peers.clone() };
        let metrics = ExchangeMetrics::default();
        let is_halted = Arc::clone(&is_halted);
        let ledger_unix_ms = Arc::clone(&ledger_unix_ms);
        ShardFixture {
            budget,
            to_shard,
            from_shard,
            commands,
            spent,
            metrics,
            is_durable,
            is_halted,
            ledger_unix_ms,
        }
    })
}

pub(crate) fn sealed(budget: &ShardBudget, token: &ReservationToken) -> Reservation {
    Reservation { token: budget.seal(token), currency: Currency::USD }
}

fn reserve(shard: &ShardFixture, nanos: u64) -> Result<ReservationToken, SpendRefusal> {
    shard.budget.reserve(SLOT, Nanos::new(nanos), 60)
}

#[test]
fn a_beacon_at_another_shard_settles_where_the_reservation_is() {
    let [mut one, mut other] = shard_fixtures(1, 64);
    one.receive(&rights(100));
    let [won, lost, open] = [30, 20, 10].map(|nanos| reserve(&one, nanos).expect("it has that"));
    let spent = sealed(&other.budget, &won);
    other.settle(&spent);
    other.budget.release(&sealed(&other.budget, &lost));
    // The first shard has settled it already.
    let spent = sealed(&other.budget, &won);
    other.settle(&spent);
    assert!(other.sent().is_empty(), "it has no part in it");
    let report = one.report();
    assert_eq!((report.settled.get(), report.won_count, report.reserved_count), (30, 1, 3));
    assert_eq!(reserve(&one, 61), Err(SpendRefusal::LedgerUnavailable), "60 are free");
    assert!(reserve(&one, 60).is_ok(), "those that were lost, and those that never were taken");
    let spent = sealed(&one.budget, &open);
    one.settle(&spent);
    assert_eq!(one.report().settled.get(), 40);
}

/// The wall clock was set back by an hour while the process was down.
#[test]
fn who_is_behind_the_ledger_goes_by_its_time() {
    let [mut shard] = shard_fixtures(1, 64);
    let [gate, ToShard::Grant(grant)] = rights(100) else { panic!("a gate and a grant") };
    let period = Period(quarter() + 4);
    shard.receive(&[gate, ToShard::Grant(BudgetGrant { period, ..grant })]);
    assert_eq!(reserve(&shard, 10), Err(SpendRefusal::LedgerUnavailable), "it has not begun");
    let begins = u64::from(period.0) * QUARTER_MS;
    shard.ledger_unix_ms.store(begins, Ordering::Relaxed);
    assert_eq!(reserve(&shard, 10).map(|token| token.period()), Ok(period));
}

#[test]
fn what_another_start_or_node_reserved_moves_nothing_here() {
    let [mut before] = shard_fixtures(1, 64);
    before.receive(&rights(100));
    let token = reserve(&before, 10).expect("it has that");
    let [mut after, _] = shard_fixtures(2, 64);
    after.receive(&rights(100));
    let spent = sealed(&before.budget, &token);
    after.settle(&spent);
    assert!(after.sent().is_empty());
    let key = TokenKey::new([9; 16]);
    after.settle(&Reservation { token: key.seal(&token), currency: Currency::USD });
    assert!(after.sent().is_empty(), "sealed with a key that is not ours");
}

#[test]
fn nothing_is_reserved_while_nothing_becomes_durable_or_the_books_do_not_add_up() {
    let [mut shard] = shard_fixtures(1, 64);
    shard.receive(&rights(100));
    assert!(reserve(&shard, 1).is_ok());
    shard.is_durable.store(false, Ordering::Relaxed);
    shard.receive(&[]);
    assert_eq!(reserve(&shard, 1), Err(SpendRefusal::LedgerUnavailable));
    shard.is_durable.store(true, Ordering::Relaxed);
    shard.receive(&[]);
    assert!(reserve(&shard, 1).is_ok());
    shard.is_halted.store(true, Ordering::Relaxed);
    assert_eq!(reserve(&shard, 1), Err(SpendRefusal::LedgerUnavailable));
}

#[test]
fn what_costs_nothing_needs_rights_and_asks_for_them() {
    let [mut shard] = shard_fixtures(1, 64);
    shard.receive(&rights(100)[..1]);
    assert_eq!(reserve(&shard, 0), Err(SpendRefusal::LedgerUnavailable));
    let want = RefillRequest { slot: SLOT, amount: Nanos::new(1), refused: Nanos::new(1) };
    assert_eq!(shard.sent(), [FromShard::Refill(want)]);
    shard.receive(&rights(1)[1..]);
    assert!(reserve(&shard, 0).is_ok());
}

#[test]
fn reservations_last_as_long_as_they_may_be_billed() {
    let [mut shard] = shard_fixtures(1, 64);
    shard.receive(&rights(100));
    for (billable_s, class) in [(0, 0), (10, 0), (11, 1), (100, 1), (86_400, 1)] {
        let token = shard.budget.reserve(SLOT, Nanos::new(1), billable_s).expect("it has that");
        assert_eq!(token.ttl(), TtlClass(class), "{billable_s} s");
    }
}

#[test]
fn what_finds_no_room_in_the_ring_is_told_later() {
    let [mut shard] = shard_fixtures(1, 2);
    shard.receive(&rights(100));
    let mut deciding = AuctionPacing::new(&shard.budget, "auction", false);
    for slot in [0, 1, 2, 3] {
        let value = Cpm::new(5).expect("a price");
        let want = if CampaignIndex(slot) == SLOT { Ok(value) } else { Err(SpendRefusal::Unknown) };
        assert_eq!(
            deciding.decide(CampaignIndex(slot), CampaignPrice::Value(value), Multiplier::ONE),
            want
        );
    }
    let token = reserve(&shard, 7).expect("it has that");
    let spent = sealed(&shard.budget, &token);
    shard.settle(&spent);
    let mut told = Vec::new();
    loop {
        let some = shard.sent();
        assert!(some.len() <= 2, "{some:?}");
        if some.is_empty() {
            break;
        }
        told.extend(some);
    }
    for slot in [0, 1, 2, 3] {
        let seen = RequestCounts { requests: 1, bids: u64::from(CampaignIndex(slot) == SLOT) };
        assert!(told.contains(&FromShard::Seen(CampaignIndex(slot), seen)), "{told:?}");
    }
    let settled = |message: &FromShard| matches!(message, FromShard::Report(SpendReport { settled, .. }) if settled.get() == 7);
    assert!(told.iter().any(settled), "{told:?}");
}

#[test]
fn a_campaign_bids_by_its_pace() {
    let [mut shard] = shard_fixtures(1, 64);
    let value = Cpm::new(1_000_000).expect("a price");
    shard.receive(&rights(1_000_000));
    let (own, fixed) = (CampaignPrice::Value(value), CampaignPrice::Fixed(value));
    let decide = |shard: &ShardFixture, price| decided(shard, false, &[(price, "1")])[0];
    assert_eq!(decide(&shard, own), Ok(value), "at its value, before its strategy says otherwise");
    shard.receive(&[ToShard::Pace(SLOT, BidPace::NONE)]);
    assert_eq!(decide(&shard, own), Err(SpendRefusal::Throttled));
    assert_eq!(decide(&shard, fixed), Err(SpendRefusal::Throttled));
    shard.receive(&[ToShard::Pace(SLOT, BidPace::FULL)]);
    assert_eq!(decide(&shard, fixed), Ok(value));
    let seen = FromShard::Seen(SLOT, RequestCounts { requests: 4, bids: 2 });
    assert!(shard.sent().contains(&seen), "a request is seen whether or not it is bid for");
}

/// Decisions of one auction; each price has its impression's multiplier.
fn decided(
    shard: &ShardFixture,
    is_test: bool,
    prices: &[(CampaignPrice, &str)],
) -> Vec<Result<Cpm, SpendRefusal>> {
    let mut deciding = AuctionPacing::new(&shard.budget, "auction", is_test);
    let decide = |(price, shown): &(CampaignPrice, &str)| {
        let shown = Multiplier::parse(shown).expect("a multiplier");
        deciding.decide(SLOT, *price, shown)
    };
    prices.iter().map(decide).collect()
}

/// Otherwise it would win what it cannot pay for, in place of others.
#[test]
fn a_campaign_has_the_money_for_all_that_it_bids_in_an_auction() {
    let [mut shard] = shard_fixtures(1, 64);
    let value = Cpm::new(100).expect("a price");
    let (of, none) = (CampaignPrice::Value(value), Err(SpendRefusal::LedgerUnavailable));
    shard.receive(&rights(249));
    assert_eq!(decided(&shard, false, &[(of, "2.5")]), [none]);
    assert_eq!(decided(&shard, false, &[(of, "1"); 3]), [Ok(value), Ok(value), none]);
    // Each auction starts anew, and a cheaper bid may still fit.
    let three = [(of, "1.5"), (of, "1"), (of, "0.9")];
    assert_eq!(decided(&shard, false, &three), [Ok(value), none, Ok(value)]);
    shard.receive(&rights(250));
    assert_eq!(decided(&shard, false, &[(of, "2.5")]), [Ok(value)]);
    // Exceeds any amount.
    let most = (CampaignPrice::Fixed(Cpm::MAX), "1000000");
    assert_eq!(decided(&shard, false, &[most]), [Err(SpendRefusal::Unknown)]);
}

/// A remainder below the price has no other use.
#[test]
fn the_last_of_a_budget_is_bid() {
    let [mut shard] = shard_fixtures(1, 64);
    let value = |micros| CampaignPrice::Value(Cpm::new(micros).expect("a price"));
    let last = |micros| Ok(Cpm::new(micros).expect("a price"));
    shard.receive(&rights(249));
    assert_eq!(
        decided(&shard, false, &[(value(250), "1")]),
        [Err(SpendRefusal::LedgerUnavailable)]
    );
    for closed in
        [SpendRefusal::BudgetExhausted, SpendRefusal::DayExhausted, SpendRefusal::HourExhausted]
    {
        let version = 10 + closed as u64;
        let gate = SpendingGate { slot: SLOT, version, closed: Some(closed), is_recalled: false };
        shard.receive(&[ToShard::Gate(gate)]);
        assert_eq!(decided(&shard, false, &[(value(250), "1")]), [last(249)]);
        assert_eq!(decided(&shard, false, &[(value(249), "1")]), [last(249)]);
        assert_eq!(decided(&shard, false, &[(value(250), "2.5")]), [last(99)]);
        // A fixed price is never lowered.
        let fixed = CampaignPrice::Fixed(Cpm::new(250).expect("a price"));
        assert_eq!(decided(&shard, false, &[(fixed, "1")]), [Err(closed)]);
        // A bid for one impression leaves less for the next.
        let three = [(value(200), "1"), (value(200), "1"), (value(200), "1")];
        assert_eq!(decided(&shard, false, &three), [last(200), last(49), Err(closed)]);
    }
    let gate = SpendingGate {
        slot: SLOT,
        version: 99,
        closed: Some(SpendRefusal::Paused),
        is_recalled: false,
    };
    shard.receive(&[ToShard::Gate(gate)]);
    assert_eq!(decided(&shard, false, &[(value(250), "1")]), [Err(SpendRefusal::Paused)]);
}

#[test]
fn a_test_moves_no_pace() {
    let [mut shard] = shard_fixtures(1, 64);
    let value = Cpm::new(100).expect("a price");
    shard.receive(&rights(100));
    shard.sent();
    assert_eq!(decided(&shard, true, &[(CampaignPrice::Value(value), "1")]), [Ok(value)]);
    let is_seen = |message: &FromShard| matches!(message, FromShard::Seen(..));
    assert!(!shard.sent().iter().any(is_seen));
    assert_eq!(decided(&shard, false, &[(CampaignPrice::Value(value), "1")]), [Ok(value)]);
    assert!(shard.sent().contains(&FromShard::Seen(SLOT, RequestCounts { requests: 1, bids: 1 })));
}

#[test]
fn room_of_an_extravagant_answer_is_not_kept() {
    let [shard] = shard_fixtures(1, 64);
    let answer =
        |bytes| DirectAnswer { body: String::with_capacity(bytes), ..DirectAnswer::default() };
    shard.budget.keep_answer(answer(ANSWER_BYTES_MAX + 1));
    assert_eq!(shard.rooms(), 0);
    for _ in 0..=ANSWERS_MAX {
        shard.budget.keep_answer(answer(ANSWER_BYTES_MAX));
    }
    assert_eq!(shard.rooms(), ANSWERS_MAX);
}

#[test]
fn a_campaign_without_money_bids_nothing_and_asks_for_some() {
    let [mut shard] = shard_fixtures(1, 64);
    let value = Cpm::new(100).expect("a price");
    let decide =
        |shard: &ShardFixture| decided(shard, false, &[(CampaignPrice::Value(value), "1")])[0];
    assert_eq!(decide(&shard), Err(SpendRefusal::Unknown));
    shard.receive(&rights(99));
    assert_eq!(decide(&shard), Err(SpendRefusal::LedgerUnavailable));
    let want = RefillRequest { slot: SLOT, amount: Nanos::new(100), refused: Nanos::new(100) };
    assert!(shard.sent().contains(&FromShard::Refill(want)));
    shard.receive(&rights(100));
    assert_eq!(decide(&shard), Ok(value));
}

#[test]
fn what_happened_is_counted_once() {
    let [mut shard] = shard_fixtures(1, 64);
    shard.receive(&rights(100));
    let tokens = [1, 2, 3].map(|nanos| reserve(&shard, nanos).expect("it has that"));
    let spent = sealed(&shard.budget, &tokens[0]);
    shard.settle(&spent);
    shard.budget.release_token(&tokens[1]);
    let spent = sealed(&shard.budget, &tokens[0]);
    shard.settle(&spent);
    for _ in 0..2 {
        shard.receive(&[]);
        let counted = |label| shard.metrics.budget.outcome(label);
        assert_eq!(["reserved", "won", "released"].map(counted), [3, 1, 1]);
        assert_eq!(shard.metrics.budget.rejection(TokenRejection::AlreadyWon), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_ends_gives_back_what_no_reservation_holds_and_says_so() {
    // Room for one message at a time.
    let [mut shard] = shard_fixtures(1, 2);
    shard.receive(&rights(100));
    let token = reserve(&shard, 30).expect("there is money");
    drop(shard.sent());
    // The close takes pending messages before it reports.
    for message in rights(150) {
        shard.to_shard.push(message).expect("there is room");
    }
    let mut told = Vec::new();
    let mut is_over = false;
    while !is_over {
        tokio::select! {
            biased;
            () = shard.budget.close() => is_over = true,
            () = tokio::time::sleep(TURN) => (),
        }
        told.extend(std::iter::from_fn(|| shard.from_shard.pop().ok()));
    }
    let last = told.split_off(told.len() - 2);
    let receipt = Receipt { slot: SLOT, period: token.period(), granted: Nanos::new(150) };
    assert_eq!(last, [FromShard::Receipt(receipt), FromShard::Closed]);
    let returned = told.iter().filter_map(|message| match message {
        FromShard::Report(report) => Some(report.returned.get()),
        _ => None,
    });
    assert_eq!(returned.max(), Some(120), "all but the reservation: {told:?}");
    // Later grants are not taken, and nothing is reserved.
    shard.receive(&rights(200));
    assert_eq!(reserve(&shard, 1), Err(SpendRefusal::LedgerUnavailable));
    assert_eq!(
        shard
            .budget
            .ledger_end
            .borrow()
            .shard
            .ledger
            .holdings(SLOT)
            .next()
            .map(|it| it.granted.get()),
        Some(150)
    );
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_takes_nothing_does_not_keep_a_shard_from_its_end() {
    let [mut shard] = shard_fixtures(1, 2);
    shard.receive(&rights(100));
    reserve(&shard, 30).expect("there is money");
    shard.budget.close().await;
    assert!(!shard.from_shard.is_empty(), "it is full");
}
