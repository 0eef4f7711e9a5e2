//! Points of a series, packed and not.

use proptest::prelude::*;

use super::*;

const DAY_MS: u64 = 86_400_000;
const PART_MS: u64 = DAY_MS / CURVE_POINTS;
/// A thousand dollars.
const LIMIT: u64 = 1_000_000_000_000;

fn series() -> Series {
    let mut series = Series::default();
    series.begin(CampaignFlight { start_ms: 0, end_ms: DAY_MS });
    series.limit_to(Some(Nanos::new(LIMIT)));
    series
}

/// A day of slots of ten seconds, each a few milliseconds late.
fn day(spent: impl Fn(u64) -> u64) -> Series {
    let mut series = series();
    let mut now_ms = 0;
    while now_ms < DAY_MS {
        series.note(now_ms, Nanos::new(LIMIT / DAY_MS * now_ms), Nanos::new(spent(now_ms)));
        now_ms += 10_000 + now_ms % 7;
    }
    series
}

#[test]
fn a_day_takes_so_few_bytes() {
    let idle = day(|_| 0);
    assert_eq!(idle.points().len(), 144);
    assert!(idle.earlier.len() <= 320, "{} bytes of one that spends nothing", idle.earlier.len());
    let busy = day(|now_ms| LIMIT / DAY_MS * now_ms / 1_000_000 * 997_231);
    assert!(busy.earlier.len() <= 8 * 144, "{} bytes of one that spends", busy.earlier.len());
}

#[test]
fn a_part_without_a_slot_is_as_the_one_before_and_a_clock_that_stands_changes_the_last() {
    let mut series = series();
    let nanos = |of: u64| Nanos::new(of << 20);
    for (part, planned, spent) in [(3, 1, 7), (3, 2, 8), (6, 5, 9), (7, 6, 10), (7, 7, 11)] {
        series.note(part * PART_MS, nanos(planned), Nanos::new(spent));
    }
    // After the end of the flight it is the last part.
    series.note(2 * DAY_MS, nanos(9), Nanos::new(12));
    let got: Vec<_> = series.points().iter().map(|it| (it.planned >> 20, it.spent)).collect();
    let mut want = vec![(2, 8), (2, 8), (2, 8), (5, 9)];
    want.resize(144 - 4, (7, 11));
    want.push((9, 12));
    assert_eq!((series.first, got), (3, want));
}

proptest! {
    #[test]
    fn what_was_spent_is_exact_and_what_was_planned_to_a_millionth(
        limit in 0..u64::MAX,
        noted in prop::collection::vec((0..DAY_MS, any::<u64>(), any::<u64>()), 1..40),
    ) {
        let mut noted = noted;
        noted.sort_unstable();
        let (mut series, mut want) = (series(), Vec::new());
        series.limit_to(Some(Nanos::new(limit)));
        for (at, planned, spent) in noted {
            series.note(at, Nanos::new(planned), Nanos::new(spent));
            let part = usize::try_from(at / PART_MS).unwrap();
            let first = want.first().map_or(part, |(first, _, _)| *first);
            let before = want.last().copied().unwrap_or((first, 0, 0));
            want.resize(part - first + 1, before);
            want[part - first] = (first, planned, spent);
        }
        let got = series.points();
        prop_assert_eq!(got.len(), want.len());
        for (got, (_, planned, spent)) in got.iter().zip(want) {
            prop_assert_eq!(got.spent, spent);
            prop_assert!(got.planned <= planned && planned - got.planned <= limit >> 19);
        }
    }
}
