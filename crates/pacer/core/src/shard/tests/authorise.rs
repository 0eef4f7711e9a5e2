//! Which candidate of a request may spend, at what price, and what the others keep.

use units::{Cpm, Multiplier, Offer};

use super::*;
use crate::funnel::{FunnelBatch, FunnelStep};
use crate::messages::{FromShard, RequestCounts, ToShard};
use crate::strategy::{BidPace, DrawKey};

const DRAW: DrawKey = DrawKey::new([7; 16]);

fn cpm(micros: u64) -> Cpm {
    Cpm::new(micros).unwrap()
}

fn request() -> AuthorisationRequest {
    AuthorisationRequest { id: 1, impressions: Multiplier::ONE, ttl: SHORT, is_test: false }
}

/// A request by itself.
fn authorise(
    shard: &mut PacedShard,
    request: &AuthorisationRequest,
    candidates: &[Result<SpendCandidate, Option<SpendRefusal>>],
    at: ShardTime,
) -> Result<Authorisation, Option<SpendRefusal>> {
    let mut batch = PricedBatch::default();
    shard.price(&mut batch, request, candidates.iter().copied(), &DRAW);
    shard.warm(&batch);
    shard.reserve(&mut batch, 0, at)
}

/// Campaigns 0 and 1 have 100 each; 1 bids half of its value; 2 skips everything; 3 is exhausted
/// and has 30 left.
fn shard() -> PacedShard {
    let mut shard = PacedShard::with_funnel(ShardLedger::new(&options()).unwrap());
    let messages = [
        ToShard::Grant(grant(0, 8, 100, 4000)),
        ToShard::Grant(grant(1, 8, 100, 4000)),
        ToShard::Pace(CampaignIndex(1), BidPace::with_multiplier(0.5)),
        ToShard::Grant(grant(2, 8, 100, 4000)),
        ToShard::Pace(CampaignIndex(2), BidPace::NONE),
        ToShard::Grant(grant(3, 8, 30, 4000)),
        ToShard::Gate(gate(3, 1, Some(SpendRefusal::DayExhausted))),
    ];
    shard.turn(Tick::ZERO, messages, 0, |_| ());
    shard
}

fn offer(slot: u32, offer: Offer, minimum: u64) -> Result<SpendCandidate, Option<SpendRefusal>> {
    Ok(SpendCandidate { slot: CampaignIndex(slot), offer, minimum: cpm(minimum) })
}

fn value(slot: u32, value: u64, minimum: u64) -> Result<SpendCandidate, Option<SpendRefusal>> {
    offer(slot, Offer::Value(cpm(value)), minimum)
}

fn price(slot: u32, price: u64, minimum: u64) -> Result<SpendCandidate, Option<SpendRefusal>> {
    offer(slot, Offer::Price(cpm(price)), minimum)
}

#[test]
fn one_candidate_is_authorised_and_the_others_keep_their_money() {
    use SpendRefusal as R;
    let check = |candidates: &[Result<SpendCandidate, Option<R>>],
                 want: Result<(usize, u64, u64), R>| {
        let mut shard = shard();
        let got = authorise(&mut shard, &request(), candidates, moment(0, 8));
        let got = got.map(|it| (it.candidate, it.amount, it.token.amount().get()));
        let want = want.map_err(Some);
        assert_eq!(got, want, "{candidates:?}");
        let reserved = |slot| shard.ledger.holdings(CampaignIndex(slot)).next().unwrap().reserved;
        let reserved: u64 = (0..4).map(|slot| reserved(slot).get()).sum();
        assert_eq!(reserved, want.map_or(0, |(_, _, cost)| cost), "{candidates:?}");
    };
    // One candidate, by the unit of its offer.
    check(&[value(0, 60, 60)], Ok((0, 60, 60)));
    check(&[value(0, 60, 61)], Err(R::BelowMinimum));
    check(&[value(1, 60, 30)], Ok((0, 30, 30)));
    check(&[value(1, 60, 31)], Err(R::BelowMinimum));
    check(&[price(1, 60, 60)], Ok((0, 60, 60)));
    check(&[offer(1, Offer::Cost(Nanos::new(60)), 999)], Ok((0, 60, 60)));
    check(&[value(2, 60, 0)], Err(R::Throttled));
    check(&[price(2, 60, 0)], Err(R::Throttled));
    check(&[offer(2, Offer::Cost(Nanos::new(60)), 0)], Ok((0, 60, 60)));
    // The last of a budget lowers a bid by value, to its minimum at least.
    check(&[value(3, 60, 30)], Ok((0, 30, 30)));
    check(&[value(3, 60, 31)], Err(R::DayExhausted));
    check(&[price(3, 60, 0)], Err(R::DayExhausted));
    check(&[offer(3, Offer::Cost(Nanos::new(31)), 0)], Err(R::DayExhausted));
    // A refill is on its way: no bid is lowered meanwhile.
    check(&[value(0, 101, 0)], Err(R::LedgerUnavailable));
    // Its first grant has not arrived.
    check(&[value(5, 60, 0)], Err(R::LedgerUnavailable));
    // The highest price wins, the first of equal ones; the next if it cannot pay.
    check(&[value(0, 20, 0), value(1, 60, 0)], Ok((1, 30, 30)));
    check(&[value(0, 30, 0), value(1, 60, 0)], Ok((0, 30, 30)));
    check(&[value(1, 60, 0), value(0, 30, 0)], Ok((0, 30, 30)));
    check(&[price(3, 90, 0), value(1, 60, 0), value(0, 20, 0)], Ok((1, 30, 30)));
    // The refusal that comes last in precedence.
    check(&[price(3, 90, 0), value(2, 60, 0), Err(Some(R::Unknown))], Err(R::Throttled));
    check(&[Err(Some(R::Unknown)), Err(None)], Err(R::Unknown));
}

#[test]
fn a_display_of_several_impressions_costs_their_number() {
    let mut shard = shard();
    let impressions = Multiplier::new(2_500_000).unwrap();
    let request = AuthorisationRequest { impressions, ..request() };
    let candidates = [value(0, 30, 0), value(3, 30, 12)];
    let first = authorise(&mut shard, &request, &candidates, moment(0, 8)).unwrap();
    assert_eq!((first.candidate, first.amount, first.token.amount().get()), (0, 30, 75));
    // 12 per impression is the most that the last 30 pay for.
    let second = authorise(&mut shard, &request, &candidates, moment(0, 8)).unwrap();
    assert_eq!((second.candidate, second.amount, second.token.amount().get()), (1, 12, 30));
}

#[test]
fn requests_and_bids_are_counted_but_for_tests() {
    let mut shard = shard();
    let test = AuthorisationRequest { is_test: true, ..request() };
    for request in [request(), request(), test] {
        let candidates = [value(0, 20, 0), value(1, 60, 0)];
        authorise(&mut shard, &request, &candidates, moment(0, 8)).unwrap();
    }
    let mut seen = Vec::new();
    shard.turn(Tick::ZERO, [], 100, |message| {
        if let FromShard::Seen(slot, counts) = message {
            seen.push((slot.0, counts));
        }
    });
    seen.sort_by_key(|(slot, _)| *slot);
    let counts = |requests, bids| RequestCounts { requests, bids };
    assert_eq!(seen, [(0, counts(2, 0)), (1, counts(2, 2))]);
}

#[test]
fn funnels_have_each_request_at_its_last_step() {
    use FunnelStep::{BelowFloor, Bid, Billed, Budget, Ledger, Matched, Outbid, Pace, Won};
    let mut shard = shard();
    let at = moment(0, 8);
    let test = AuthorisationRequest { is_test: true, ..request() };
    // 3 cannot pay, 2 skips, 1 is below its minimum, 0 bids.
    let candidates = [price(3, 90, 0), value(2, 60, 0), value(1, 60, 31), value(0, 20, 0)];
    for request in [request(), request(), test] {
        authorise(&mut shard, &request, &candidates, at).unwrap();
    }
    // 0 has 40 left.
    assert!(authorise(&mut shard, &request(), &[value(0, 60, 0)], at).is_err());
    // A minimum above the offer is a floor.
    assert!(authorise(&mut shard, &request(), &[price(1, 60, 61)], at).is_err());
    shard.turn(Tick::ZERO, [ToShard::Gate(gate(1, 1, Some(SpendRefusal::Paused)))], 0, |_| ());
    assert!(authorise(&mut shard, &request(), &[value(1, 60, 0)], at).is_err());
    shard.turn(Tick::ZERO, [], 100, |_| ());
    let funnel = shard.funnel().unwrap();
    funnel.bill(CampaignIndex(0), Nanos::new(7));
    funnel.lose(CampaignIndex(0));
    let mut batch = FunnelBatch::new();
    funnel.hand_over(&mut batch);
    batch.rows.sort_by_key(|row| row.slot.0);
    let steps = |slot: usize| {
        let counts = batch.rows[slot].counts;
        [Matched, Budget, Pace, Ledger, BelowFloor, Bid, Outbid, Won, Billed]
            .map(|step| counts.get(step))
    };
    assert_eq!(steps(0), [3, 0, 0, 1, 0, 2, 1, 1, 1]);
    // The request while it was paused was not offered to it.
    assert_eq!(steps(1), [3, 0, 2, 0, 1, 0, 0, 0, 0]);
    assert_eq!(steps(2), [2, 0, 2, 0, 0, 0, 0, 0, 0]);
    assert_eq!(steps(3), [2, 2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(batch.rows[0].counts.spent, Nanos::new(7));
}

#[test]
fn the_requests_of_a_batch_are_reserved_one_after_the_other() {
    let mut shard = shard();
    let mut batch = PricedBatch::default();
    let candidates = [value(0, 60, 0), price(1, 50, 0)];
    for _ in 0..4 {
        shard.price(&mut batch, &request(), candidates.into_iter(), &DRAW);
    }
    shard.price(&mut batch, &request(), [Err(None)].into_iter(), &DRAW);
    shard.warm(&batch);
    let reserve = |position| {
        let reserved = shard.reserve(&mut batch, position, moment(0, 8));
        reserved.map(|authorised| authorised.candidate)
    };
    let unavailable = Err(Some(SpendRefusal::LedgerUnavailable));
    assert_eq!([0, 1, 2, 3, 4].map(reserve), [Ok(0), Ok(1), Ok(1), unavailable, Err(None)]);
}

#[test]
fn a_short_turn_sends_what_has_waited_longest() {
    let mut shard = shard();
    let turn = |shard: &mut PacedShard, reports_max, gates: Option<ToShard>| {
        let mut sent = Vec::new();
        let mut note = |message: FromShard| match message {
            FromShard::Report(report) => sent.push((true, report.slot.0)),
            FromShard::Seen(slot, _) => sent.push((false, slot.0)),
            _ => (),
        };
        let limits = TurnLimits { room: 100, reports_max };
        shard.short_turn(Tick::ZERO, gates, limits, &mut note);
        sent
    };
    let spend = |shard: &mut PacedShard, slot| {
        authorise(shard, &request(), &[value(slot, 8, 0)], moment(0, 8)).unwrap();
    };
    turn(&mut shard, 100, None);
    spend(&mut shard, 1);
    spend(&mut shard, 0);
    assert_eq!(turn(&mut shard, 1, None), [(true, 1), (false, 1)]);
    spend(&mut shard, 1);
    assert_eq!(turn(&mut shard, 1, None), [(true, 0), (false, 0)]);
    assert_eq!(turn(&mut shard, 1, None), [(true, 1), (false, 1)]);
    assert_eq!(turn(&mut shard, 1, None), []);
    // Another shard waits for what this one returns.
    spend(&mut shard, 1);
    spend(&mut shard, 0);
    let sent = turn(&mut shard, 1, Some(ToShard::Gate(recall(3, 2))));
    assert!(sent.contains(&(true, 0)) && sent.contains(&(true, 1)), "{sent:?}");
}
