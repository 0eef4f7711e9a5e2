//! Buffers, packing and the book, against naive sums.

use proptest::prelude::*;

use super::packed::{PastPart, pack, unpack};
use super::*;
use crate::strategy::CampaignFlight;

const START: u64 = 1_800_000_000_000;
const MINUTE: u64 = 60_000;
const FLIGHT: CampaignFlight = CampaignFlight { start_ms: 0, end_ms: u64::MAX };
const SLOT: CampaignIndex = CampaignIndex(3);

fn cpm(micros: u64) -> Cpm {
    Cpm::new(micros).unwrap()
}

fn batch(offered: u32, counts: &[(CampaignIndex, FunnelStep, u32)]) -> FunnelBatch {
    let mut buffer = FunnelBuffer::default();
    buffer.offer(offered);
    for (slot, step, times) in counts {
        let mut place = 0;
        (0..*times).for_each(|_| buffer.count(*slot, &mut place, *step));
    }
    let mut taken = FunnelBatch::new();
    buffer.hand_over(&mut taken);
    taken
}

#[test]
fn steps_are_listed_in_order_with_labels_of_their_own() {
    for (at, step) in FunnelStep::ALL.into_iter().enumerate() {
        assert_eq!(step as usize, at);
        let same = FunnelStep::ALL.iter().filter(|other| other.label() == step.label());
        assert_eq!(same.count(), 1, "{step:?}");
    }
    let live =
        SpendRefusal::ALL.into_iter().filter(|refusal| FunnelStep::withheld(*refusal).is_some());
    assert_eq!(live.count(), 8, "all but paused and out of flight");
}

#[test]
fn a_buffer_counts_by_campaign_and_starts_anew_when_it_is_handed_over() {
    let mut buffer = FunnelBuffer::default();
    let mut places = [0, 0];
    buffer.offer(5);
    for _ in 0..2 {
        for (slot, place) in (0..).zip(&mut places) {
            buffer.count(CampaignIndex(slot), place, FunnelStep::Matched);
        }
    }
    buffer
        .fall_short(CampaignIndex(1), &mut places[1], || Shortfall { bid: cpm(1), floor: cpm(2) });
    buffer.fall_short(CampaignIndex(1), &mut places[1], || panic!("one is enough"));
    buffer.bill(CampaignIndex(0), &mut places[0], Nanos::new(7));
    let mut taken = FunnelBatch::new();
    buffer.hand_over(&mut taken);
    let got = |row: &FunnelRow| {
        let of = |step| row.counts.get(step);
        (row.slot.0, of(FunnelStep::Matched), of(FunnelStep::BelowFloor), row.counts.spent.get())
    };
    assert_eq!(taken.rows.iter().map(got).collect::<Vec<_>>(), [(0, 2, 0, 7), (1, 2, 2, 0)]);
    assert_eq!(taken.rows[1].shortfall, Some(Shortfall { bid: cpm(1), floor: cpm(2) }));
    assert_eq!((taken.offered, taken.dropped), (5, 0));
    taken.clear();
    // The cached index is another campaign's now, or out of range.
    buffer.count(CampaignIndex(1), &mut places[1], FunnelStep::Won);
    buffer.count(CampaignIndex(0), &mut places[0], FunnelStep::Won);
    buffer.hand_over(&mut taken);
    assert_eq!(taken.rows.iter().map(|row| row.slot.0).collect::<Vec<_>>(), [1, 0]);
    let totals = FunnelStep::ALL.map(|step| buffer.totals()[step as usize]);
    assert_eq!(totals, [5, 4, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 2, 1]);
}

#[test]
fn a_row_without_room_is_dropped_and_counted_and_every_batch_after_has_more() {
    let mut buffer = FunnelBuffer::default();
    let many = u32::try_from(ROWS_MIN).unwrap() + 3;
    let count = |buffer: &mut FunnelBuffer| {
        (0..many).for_each(|slot| buffer.count(CampaignIndex(slot), &mut 0, FunnelStep::Matched));
    };
    count(&mut buffer);
    let mut taken = FunnelBatch::new();
    buffer.hand_over(&mut taken);
    assert_eq!((taken.rows.len(), taken.dropped), (ROWS_MIN, 3));
    assert_eq!(buffer.totals()[FunnelStep::Matched as usize], u64::from(many), "totals have all");
    // Two batches alternate: both have grown.
    for after in 1..=4 {
        taken.clear();
        count(&mut buffer);
        buffer.hand_over(&mut taken);
        assert_eq!((taken.rows.len(), taken.dropped), (many as usize, 0), "{after}");
    }
}

#[test]
fn what_other_direct_campaigns_took_is_what_ended_nowhere_else() {
    let mut counts = FunnelCounts::default();
    for (step, times) in [
        (FunnelStep::Matched, 100),
        (FunnelStep::Hours, 1),
        (FunnelStep::Budget, 2),
        (FunnelStep::Pace, 4),
        (FunnelStep::Ledger, 8),
        (FunnelStep::BelowFloor, 16),
        (FunnelStep::Bid, 32),
        (FunnelStep::Won, 30),
    ] {
        counts.count(step, times);
    }
    assert_eq!(counts.outranked(), 100 - 63);
    assert_eq!(counts.abandoned(), 2, "of 32 bids 30 won");
    counts.count(FunnelStep::Bid, u32::MAX);
    assert_eq!((counts.outranked(), counts.get(FunnelStep::Bid)), (0, u32::MAX));
}

#[test]
fn an_hour_and_a_day_pass() {
    let mut book = FunnelBook::new(START);
    book.follow([SLOT].into_iter());
    let won = |book: &FunnelBook, span| {
        let window = book.window(SLOT, FLIGHT, span);
        (window.offered, window.counts.get(FunnelStep::Won))
    };
    // Ten are offered and one is won in each minute of 30 hours.
    for minute in 0..30 * 60u64 {
        book.advance(START + minute * MINUTE);
        book.fold_some(usize::from(minute % 3 == 0));
        book.take(&mut batch(10, &[(SLOT, FunnelStep::Won, 1)]));
        let since = book.window(SLOT, FLIGHT, FunnelSpan::Hour);
        let minutes = minute.min(50 + minute % 10) + 1;
        assert_eq!(won(&book, FunnelSpan::Hour), (10 * minutes, u32::try_from(minutes).unwrap()));
        assert_eq!(since.is_since_start, minute < 50, "{minute}");
        assert_eq!(since.since_unix_ms, START + (minute + 1 - minutes) * MINUTE);
        let minutes = minute.min(23 * 60 + minute % 60) + 1;
        let want = (10 * minutes, u32::try_from(minutes).unwrap());
        assert_eq!(won(&book, FunnelSpan::Day), want, "{minute}");
    }
    book.advance(START + 56 * 60 * MINUTE);
    while book.fold_some(1) {}
    assert_eq!(won(&book, FunnelSpan::Day), (0, 0));
    assert_eq!(book.kept(), (0, 0, 0));
}

#[test]
fn only_what_is_offered_while_a_campaign_is_open_and_in_flight_counts() {
    let mut book = FunnelBook::new(START);
    let offered = |book: &FunnelBook, flight| book.window(SLOT, flight, FunnelSpan::Day).offered;
    let flight = |start_ms, end_ms| CampaignFlight { start_ms, end_ms };
    let pass = |book: &mut FunnelBook, minutes: std::ops::Range<u64>| {
        for minute in minutes {
            book.advance(START + minute * MINUTE);
            book.take(&mut batch(1, &[]));
        }
    };
    pass(&mut book, 0..15);
    assert_eq!(offered(&book, FLIGHT), 0, "nobody has defined it");
    book.advance(START + 15 * MINUTE);
    book.follow([CampaignIndex(0), SLOT].into_iter());
    pass(&mut book, 15..100);
    assert_eq!(offered(&book, FLIGHT), 85);
    assert_eq!(offered(&book, flight(START + 40 * MINUTE, START + 50 * MINUTE)), 10);
    // Closed for a while: its counts remain.
    book.follow([CampaignIndex(0)].into_iter());
    pass(&mut book, 100..200);
    assert_eq!(offered(&book, FLIGHT), 85);
    book.advance(START + 200 * MINUTE);
    book.follow([SLOT].into_iter());
    pass(&mut book, 200..210);
    assert_eq!(offered(&book, FLIGHT), 95);
    assert_eq!(book.window(SLOT, FLIGHT, FunnelSpan::Hour).offered, 10);
    // Closed and opened again within a minute, which counts once; and closed again.
    book.follow([CampaignIndex(0)].into_iter());
    book.follow([SLOT].into_iter());
    assert_eq!(offered(&book, FLIGHT), 95);
    pass(&mut book, 210..220);
    assert_eq!(offered(&book, FLIGHT), 105);
    book.follow([CampaignIndex(0)].into_iter());
    assert_eq!(offered(&book, FLIGHT), 105);
    // The closed part is clipped to the flight as well, to a part of an hour.
    assert_eq!(offered(&book, flight(START + 200 * MINUTE, START + 210 * MINUTE)), 10);
    assert_eq!(offered(&book, flight(START + 300 * MINUTE, START + 400 * MINUTE)), 0);
}

#[test]
fn what_is_recent_is_of_the_last_minutes() {
    let mut book = FunnelBook::new(START);
    for minute in 0..60 {
        book.advance(START + minute * MINUTE);
        book.take(&mut batch(0, &[(SLOT, FunnelStep::Won, 1)]));
        let recent = book.window(SLOT, FLIGHT, FunnelSpan::Hour).recent.get(FunnelStep::Won);
        assert_eq!(u64::from(recent), minute.min(10 + minute % 10) + 1, "{minute}");
    }
}

#[test]
fn bids_below_the_floor_are_told_by_the_highest_and_the_median_floor() {
    let mut book = FunnelBook::new(START);
    let mut fall_short = |bid, floor| {
        let mut buffer = FunnelBuffer::default();
        let shortfall = Shortfall { bid: cpm(bid), floor: cpm(floor) };
        buffer.fall_short(SLOT, &mut 0, || shortfall);
        let mut taken = FunnelBatch::new();
        buffer.hand_over(&mut taken);
        book.take(&mut taken);
    };
    [(4, 12), (3, 90), (2, 11)].into_iter().for_each(|(bid, floor)| fall_short(bid, floor));
    let told = |book: &FunnelBook| book.window(SLOT, FLIGHT, FunnelSpan::Hour).shortfall;
    assert_eq!(told(&book), Some(Shortfall { bid: cpm(4), floor: cpm(12) }));
    book.advance(START + 59 * MINUTE);
    assert!(told(&book).is_some());
    // Only those of the last hour: the highest bid was earlier.
    let mut later = FunnelBatch::new();
    let mut buffer = FunnelBuffer::default();
    buffer.fall_short(SLOT, &mut 0, || Shortfall { bid: cpm(1), floor: cpm(2) });
    buffer.hand_over(&mut later);
    book.take(&mut later);
    book.advance(START + 60 * MINUTE);
    assert_eq!(told(&book), Some(Shortfall { bid: cpm(1), floor: cpm(2) }));
    book.advance(START + 110 * MINUTE);
    assert_eq!(told(&book), None);
}

#[test]
fn pasts_have_bounded_room_and_lose_their_hours_first() {
    let mut book = FunnelBook::new(START).with_past_bytes_max(1_000);
    for hour in 0..3 * 6 {
        book.advance(START + hour * 10 * MINUTE);
        while book.fold_some(7) {}
        for slot in 0..40 {
            book.take(&mut batch(0, &[(CampaignIndex(slot), FunnelStep::Won, 1)]));
        }
        assert!(book.kept().2 <= 1_600, "a campaign's last hour is kept all the same");
    }
    let hour = book.window(CampaignIndex(39), FLIGHT, FunnelSpan::Hour);
    assert_eq!(hour.counts.get(FunnelStep::Won), 6);
    assert!(!hour.is_cut);
    let is_cut = |slot| book.window(CampaignIndex(slot), FLIGHT, FunnelSpan::Day).is_cut;
    assert!((0..40).any(is_cut), "a day says that hours of it were dropped");
    assert_eq!((0..40).filter(|slot| is_cut(*slot)).count(), book.cut());
}

/// The documented figure.
#[test]
fn a_campaign_takes_so_few_bytes() {
    assert!(size_of::<FunnelCounts>() <= 64 && size_of::<FunnelRow>() <= 96);
    let mut counts = FunnelCounts::default();
    for step in [FunnelStep::Matched, FunnelStep::Bid, FunnelStep::Outbid, FunnelStep::Won] {
        counts.count(step, 5_000);
    }
    counts.bill(Nanos::new(7_000_000));
    let parts = [PastPart { part: 3_000_000, is_hour: true, counts }; 29];
    assert!(pack(&parts).len() <= 29 * 22, "{}", pack(&parts).len());
}

proptest! {
    #[test]
    fn what_is_packed_is_unpacked(
        drawn in prop::collection::vec(
            (any::<u32>(), any::<bool>(), prop::collection::vec((0usize..14, any::<u32>()), 0..14), any::<u64>()),
            0..8,
        ),
    ) {
        let part = |(part, is_hour, counted, spent): &(u32, bool, Vec<(usize, u32)>, u64)| {
            let mut counts = FunnelCounts { spent: Nanos::new(*spent), ..FunnelCounts::default() };
            counted.iter().for_each(|(step, more)| counts.count(FunnelStep::ALL[*step], *more));
            PastPart { part: *part, is_hour: *is_hour, counts }
        };
        let mut parts: Vec<_> = drawn.iter().map(part).collect();
        parts.sort_by_key(|part| part.part);
        prop_assert_eq!(unpack(&pack(&parts)), parts);
    }
}
