//! Settlements of several sources reach the ledger in the order of the log.

use std::time::Duration;

use pacer_core::calendar::Period;
use pacer_core::messages::{BudgetGrant, CampaignIndex, Epoch};
use pacer_core::shard::token::{ReservationToken, TokenOrigin, TtlClass};
use pacer_core::shard::{ShardLedger, ShardOptions, ShardTime};
use units::Tick;

use super::*;

/// Sources that nobody else uses.
struct Sources {
    receiver: FeedReceiver,
    feeds: Vec<SettlementFeed>,
}

fn sources(count: usize) -> Sources {
    let receiver = FeedReceiver::default();
    let feed = |_| receiver.source(SharedStatus::new(1, Epoch(1), 0), LedgerWaker::default());
    let feeds = (0..count).map(feed).collect();
    Sources { receiver, feeds }
}

/// Some reservation.
fn token() -> ReservationToken {
    let options = ShardOptions {
        origin: TokenOrigin { node: 1, epoch: Epoch(1), shard: 0 },
        ttls: vec![Duration::from_secs(1)],
        late_window: Duration::from_secs(1),
        slots_max: 1,
        books_max: 1,
        reservations_max: 32,
        lines_max: 1,
    };
    let mut shard = ShardLedger::new(&options).unwrap();
    let (slot, period, granted) = (CampaignIndex(0), Period(0), Nanos::new(1));
    let until = Tick::from_nanos(u64::MAX);
    shard.take(&BudgetGrant { slot, period, granted, until }).unwrap();
    shard.reserve(slot, granted, TtlClass(0), ShardTime { tick: Tick::ZERO, quarter: 0 }).unwrap()
}

fn settle(feed: &SettlementFeed, sequence: u64, wins: usize) {
    let win = SettledReservation { token: token(), cost: Nanos::new(1), currency: Currency::USD };
    feed.settled(sequence, (0..wins).map(|_| win));
}

impl Sources {
    /// What the ledger gets of at most `max`: `3` is a settlement of record 3, `-3` the position 3,
    /// 0 the end of the replay.
    fn taken(&self, max: usize) -> Vec<i64> {
        let mut inbox = Vec::new();
        self.receiver.take(max, &mut inbox);
        let number = |seq: u64| i64::try_from(seq).unwrap();
        let told = inbox.iter().map(|input| match input {
            LedgerInput::Settlement(record) => number(record.seq),
            LedgerInput::Logged(seq) => -number(*seq),
            LedgerInput::Replayed => 0,
            other => panic!("{other:?} is no input of the log"),
        });
        told.collect()
    }
}

#[test]
fn a_settlement_waits_until_no_source_can_have_an_earlier_one() {
    let all = sources(2);
    settle(&all.feeds[0], 4, 1);
    settle(&all.feeds[0], 9, 1);
    assert_eq!(all.taken(9), [0; 0], "the other source may have record 1");
    settle(&all.feeds[1], 2, 1);
    assert_eq!(all.taken(9), [2, -2]);
    settle(&all.feeds[1], 7, 1);
    assert_eq!(all.taken(9), [4, 7, -7]);
    all.feeds[1].reached(20);
    assert_eq!(all.taken(9), [9, -9], "the first source may have record 10");
}

#[test]
fn the_replay_ends_with_that_of_the_last_source() {
    let all = sources(2);
    all.feeds[0].reached(5);
    all.feeds[0].replayed();
    settle(&all.feeds[1], 3, 1);
    all.feeds[1].reached(5);
    assert_eq!(all.taken(9), [3, -5]);
    all.feeds[1].replayed();
    assert_eq!(all.taken(9), [0]);
    assert_eq!(all.taken(9), [0; 0], "it ends once");
}

#[test]
fn the_settlements_of_a_record_are_taken_together() {
    let all = sources(1);
    settle(&all.feeds[0], 1, 1);
    settle(&all.feeds[0], 2, 3);
    settle(&all.feeds[0], 3, 2);
    assert_eq!(all.taken(2), [1, 2, 2, 2]);
    assert_eq!(all.taken(2), [3, 3, -3]);
}

#[test]
fn a_source_that_never_replays_holds_up_nothing() {
    let mut all = sources(2);
    settle(&all.feeds[0], 4, 1);
    all.feeds[0].replayed();
    drop(all.feeds.pop());
    assert_eq!(all.taken(9), [4, -4, 0]);
    let mut none = sources(1);
    none.feeds.clear();
    assert_eq!(none.taken(9), [0], "nobody writes a log");
}

/// Its last records may be durable without having been passed.
#[test]
fn a_source_that_ends_holds_the_position() {
    let mut all = sources(2);
    all.feeds.iter().for_each(SettlementFeed::replayed);
    all.feeds[1].reached(6);
    drop(all.feeds.pop());
    all.feeds[0].reached(9);
    assert_eq!(all.taken(9), [-6, 0]);
}
