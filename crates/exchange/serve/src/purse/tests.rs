//! Two shards of one process, and the ledger's ends of their rings.

use std::sync::atomic::{AtomicBool, Ordering};

use pacer_core::messages::{Epoch, Gate, Grant, Period, Report, Want};
use pacer_core::shard::Rejection;
use pacer_core::token::Origin;
use units::Currency;

use super::*;

const SLOT: Slot = Slot(2);

/// One shard: its purse, its ends of the rings, and what it counts.
struct Seat {
    purse: Purse,
    to_shard: rtrb::Producer<ToShard>,
    from_shard: rtrb::Consumer<FromShard>,
    errands: mpsc::Receiver<Errand>,
    metrics: ExchangeMetrics,
    is_durable: Arc<AtomicBool>,
    is_halted: Arc<AtomicBool>,
}

impl Seat {
    /// As it is after it was told this.
    fn told(&mut self, messages: &[ToShard]) {
        for message in messages {
            self.to_shard.push(*message).expect("there is room");
        }
        self.purse.turn(&self.metrics);
    }

    /// What it tells, after it has done what others asked of it.
    fn tells(&mut self) -> Vec<FromShard> {
        while let Ok(errand) = self.errands.try_recv() {
            self.purse.errand(errand);
        }
        self.purse.turn(&self.metrics);
        std::iter::from_fn(|| self.from_shard.pop().ok()).collect()
    }

    fn report(&mut self) -> Report {
        let told = self.tells();
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

/// Open, with rights to so many nanos.
fn rights(nanos: u64) -> [ToShard; 2] {
    let until = Tick::ZERO.after(Duration::from_secs(3600));
    let granted = Nanos::new(nanos);
    let grant = Grant { slot: SLOT, period: Period(quarter()), granted, until };
    let gate = Gate { slot: SLOT, version: 1, closed: None, is_recalled: false };
    [ToShard::Gate(gate), ToShard::Grant(grant)]
}

/// The shards of a process; rings have room for so many messages.
fn seats<const N: usize>(epoch: u32, room: usize) -> [Seat; N] {
    let is_halted = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_halted);
    let bank = Bank {
        key: TokenKey::new([1; 16]),
        draw: DrawKey::new([2; 16]),
        origin: Instant::now(),
        is_halted: Arc::new(move || asked.load(Ordering::Relaxed)),
    };
    let (peers, errands) = errands(N);
    let mut errands = errands.into_iter();
    std::array::from_fn(|shard| {
        let (to_shard, from_ledger) = rtrb::RingBuffer::new(room);
        let (to_ledger, from_shard) = rtrb::RingBuffer::new(room);
        let shard = u16::try_from(shard).expect("few");
        let options = Options {
            origin: Origin { node: 1, epoch: Epoch(epoch), shard },
            ttls: [10, 100].map(Duration::from_secs).to_vec(),
            late_window: Duration::from_secs(10),
            slots_max: 8,
            books_max: 8,
            reservations_max: 64,
            lines_max: 64,
        };
        let line = Line { from_ledger, to_ledger, options };
        let is_durable = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&is_durable);
        let asked = Box::new(move || asked.load(Ordering::Relaxed));
        let purse = Purse::new(line, bank.clone(), peers.clone(), asked).expect("sound options");
        let errands = errands.next().expect("one for each");
        let metrics = ExchangeMetrics::default();
        let is_halted = Arc::clone(&is_halted);
        Seat { purse, to_shard, from_shard, errands, metrics, is_durable, is_halted }
    })
}

fn sealed(purse: &Purse, token: &Token) -> Reservation {
    Reservation { token: purse.seal(token), currency: Currency::USD }
}

fn reserve(desk: &Seat, nanos: u64) -> Result<Token, Refusal> {
    desk.purse.reserve(SLOT, Nanos::new(nanos), 60)
}

#[test]
fn a_beacon_at_another_shard_settles_where_the_reservation_is() {
    let [mut one, mut other] = seats(1, 64);
    one.told(&rights(100));
    let [won, lost, open] = [30, 20, 10].map(|nanos| reserve(&one, nanos).expect("it has that"));
    other.purse.settle(&sealed(&other.purse, &won));
    other.purse.release(&sealed(&other.purse, &lost));
    // The same once more: the first has settled it.
    other.purse.settle(&sealed(&other.purse, &won));
    assert!(other.tells().is_empty(), "it has no part in it");
    let report = one.report();
    assert_eq!((report.settled.get(), report.won_count, report.reserved_count), (30, 1, 3));
    assert_eq!(reserve(&one, 61), Err(Refusal::LedgerUnavailable), "60 are free");
    assert!(reserve(&one, 60).is_ok(), "those that were lost, and those that never were taken");
    one.purse.settle(&sealed(&one.purse, &open));
    assert_eq!(one.report().settled.get(), 40);
}

#[test]
fn what_another_start_or_node_reserved_moves_nothing_here() {
    let [mut before] = seats(1, 64);
    before.told(&rights(100));
    let token = reserve(&before, 10).expect("it has that");
    let [mut after, _] = seats(2, 64);
    after.told(&rights(100));
    after.purse.settle(&sealed(&before.purse, &token));
    assert!(after.tells().is_empty());
    let key = TokenKey::new([9; 16]);
    after.purse.settle(&Reservation { token: key.seal(&token), currency: Currency::USD });
    assert!(after.tells().is_empty(), "sealed with a key that is not ours");
}

#[test]
fn nothing_is_reserved_while_nothing_becomes_durable_or_the_books_do_not_add_up() {
    let [mut desk] = seats(1, 64);
    desk.told(&rights(100));
    assert!(reserve(&desk, 1).is_ok());
    desk.is_durable.store(false, Ordering::Relaxed);
    desk.told(&[]);
    assert_eq!(reserve(&desk, 1), Err(Refusal::LedgerUnavailable));
    desk.is_durable.store(true, Ordering::Relaxed);
    desk.told(&[]);
    assert!(reserve(&desk, 1).is_ok());
    desk.is_halted.store(true, Ordering::Relaxed);
    assert_eq!(reserve(&desk, 1), Err(Refusal::LedgerUnavailable));
}

#[test]
fn what_costs_nothing_needs_rights_and_asks_for_them() {
    let [mut desk] = seats(1, 64);
    desk.told(&rights(100)[..1]);
    assert_eq!(reserve(&desk, 0), Err(Refusal::LedgerUnavailable));
    let want = Want { slot: SLOT, amount: Nanos::new(1) };
    assert_eq!(desk.tells(), [FromShard::Want(want)]);
    desk.told(&rights(1)[1..]);
    assert!(reserve(&desk, 0).is_ok());
}

#[test]
fn reservations_last_as_long_as_they_may_be_billed() {
    let [mut desk] = seats(1, 64);
    desk.told(&rights(100));
    for (billable_s, class) in [(0, 0), (10, 0), (11, 1), (100, 1), (86_400, 1)] {
        let token = desk.purse.reserve(SLOT, Nanos::new(1), billable_s).expect("it has that");
        assert_eq!(token.ttl(), TtlClass(class), "{billable_s} s");
    }
}

#[test]
fn what_finds_no_room_in_the_ring_is_told_later() {
    let [mut desk] = seats(1, 2);
    desk.told(&rights(100));
    let mut deciding = Deciding::new(&desk.purse, "auction");
    for slot in [0, 1, 2, 3] {
        let value = Cpm::new(5).expect("a price");
        let want = if Slot(slot) == SLOT { Ok(value) } else { Err(Refusal::Unknown) };
        assert_eq!(deciding.decide(Slot(slot), value, false), want);
    }
    let token = reserve(&desk, 7).expect("it has that");
    desk.purse.settle(&sealed(&desk.purse, &token));
    let mut told = Vec::new();
    loop {
        let some = desk.tells();
        assert!(some.len() <= 2, "{some:?}");
        if some.is_empty() {
            break;
        }
        told.extend(some);
    }
    for slot in [0, 1, 2, 3] {
        let seen = Seen { requests: 1, bids: u64::from(Slot(slot) == SLOT) };
        assert!(told.contains(&FromShard::Seen(Slot(slot), seen)), "{told:?}");
    }
    let settled = |message: &FromShard| matches!(message, FromShard::Report(Report { settled, .. }) if settled.get() == 7);
    assert!(told.iter().any(settled), "{told:?}");
}

#[test]
fn a_campaign_bids_by_its_pace() {
    let [mut desk] = seats(1, 64);
    let value = Cpm::new(1_000_000).expect("a price");
    desk.told(&rights(1_000_000));
    let decide =
        |desk: &Seat, is_fixed| Deciding::new(&desk.purse, "auction").decide(SLOT, value, is_fixed);
    assert_eq!(decide(&desk, false), Ok(value), "at its value, before its strategy says otherwise");
    desk.told(&[ToShard::Pace(SLOT, Pace::NONE)]);
    assert_eq!(decide(&desk, false), Err(Refusal::Throttled));
    assert_eq!(decide(&desk, true), Err(Refusal::Throttled));
    desk.told(&[ToShard::Pace(SLOT, Pace::FULL)]);
    assert_eq!(decide(&desk, true), Ok(value));
    let seen = FromShard::Seen(SLOT, Seen { requests: 4, bids: 2 });
    assert!(desk.tells().contains(&seen), "a request is seen whether or not it is bid for");
}

#[test]
fn a_campaign_without_money_bids_nothing_and_asks_for_some() {
    let [mut desk] = seats(1, 64);
    let value = Cpm::new(100).expect("a price");
    let decide = |desk: &Seat| Deciding::new(&desk.purse, "auction").decide(SLOT, value, false);
    assert_eq!(decide(&desk), Err(Refusal::Unknown));
    desk.told(&rights(99));
    assert_eq!(decide(&desk), Err(Refusal::LedgerUnavailable));
    let want = Want { slot: SLOT, amount: Nanos::new(100) };
    assert!(desk.tells().contains(&FromShard::Want(want)));
    desk.told(&rights(100));
    assert_eq!(decide(&desk), Ok(value));
}

#[test]
fn what_happened_is_counted_once() {
    let [mut desk] = seats(1, 64);
    desk.told(&rights(100));
    let tokens = [1, 2, 3].map(|nanos| reserve(&desk, nanos).expect("it has that"));
    desk.purse.settle(&sealed(&desk.purse, &tokens[0]));
    desk.purse.give_back(&tokens[1]);
    desk.purse.settle(&sealed(&desk.purse, &tokens[0]));
    for _ in 0..2 {
        desk.told(&[]);
        let counted = |label| desk.metrics.purse.outcome(label);
        assert_eq!(["reserved", "won", "released"].map(counted), [3, 1, 1]);
        assert_eq!(desk.metrics.purse.rejection(Rejection::AlreadyWon), 1);
    }
}
