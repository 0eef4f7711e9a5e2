//! The encoding: decoding restores every bit, and refuses all else.

use proptest::prelude::*;

use super::*;
use crate::strategy::DUAL_MAX;

fn plan(figures: &[u64; 10], shared: Option<u64>, span: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut into = StateEncoder(&mut bytes);
    let [start, joined, length, before, requests, bids, wins, spent, until, version] = *figures;
    let (start_ms, joined_ms) = (start % 1_000_000, start % 1_000_000 + joined % 1_000_000);
    let end_ms = joined_ms + 1 + length % 1_000_000;
    into.u8(span % 3);
    for figure in [start_ms, joined_ms, end_ms, before, requests, bids, wins, spent] {
        into.u64(figure);
    }
    into.flag(shared.is_some());
    for figure in [shared.unwrap_or(0), until % (end_ms + 1), version] {
        into.u64(figure);
    }
    bytes
}

fn learned(last: Option<(u64, u64)>, hours: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut into = StateEncoder(&mut bytes);
    into.flag(last.is_some());
    let (at_ms, requests) = last.unwrap_or_default();
    into.u64(at_ms % TIME_MAX_MS);
    into.u64(requests);
    for (at, figure) in hours.iter().enumerate() {
        into.u64(if at % 3 == 2 { figure % TIME_MAX_MS } else { *figure });
    }
    bytes
}

prop_compose! {
    fn states()(
        head in any::<([u64; 3], u64, [u64; 4], u64)>(),
        base in (0.0..=1.0, any::<u64>()),
        duals in (-DUAL_MAX..=DUAL_MAX, -DUAL_MAX..=DUAL_MAX),
        rate in prop_oneof![Just(-0.0), Just(f64::MIN_POSITIVE / 8.0), 0.0..=1.0],
        error in -1e300..=1e300,
        money in (0.0..=1e19, 0.0..=1e19, 0.0..=1e19),
        patience in -2.0..=1.0,
        is_spent: bool,
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut into = StateEncoder(&mut bytes);
        let (marks, at_ms, seen, budget) = head;
        into.u8(VERSION);
        into.u32(7);
        let figures = marks.into_iter().chain([at_ms % TIME_MAX_MS]).chain(seen).chain([budget]);
        for figure in figures {
            into.u64(figure);
        }
        into.f64(base.0);
        into.u64(base.1 % budget.saturating_add(1).max(1));
        let (cost, noise, learned) = money;
        for figure in [duals.0, rate, error, duals.1, cost, noise, patience, learned] {
            into.f64(figure);
        }
        into.flag(is_spent);
        bytes
    }
}

prop_compose! {
    fn written()(
        state in states(),
        rest in any::<[u64; 5]>(),
        plan in proptest::option::of(
            any::<([u64; 10], Option<u64>, u8)>().prop_map(|it| plan(&it.0, it.1, it.2))
        ),
        learned in proptest::option::of((
            any::<Option<(u64, u64)>>(),
            proptest::collection::vec(any::<u64>(), 3 * HOURS),
        ).prop_map(|(last, hours)| learned(last, &hours))),
        weights in proptest::collection::vec(any::<u32>(), HOURS),
    ) -> Vec<u8> {
        let mut bytes = state;
        rest.into_iter().for_each(|figure| StateEncoder(&mut bytes).u64(figure));
        StateEncoder(&mut bytes).flag(plan.is_some());
        bytes.extend(plan.iter().flatten());
        StateEncoder(&mut bytes).flag(learned.is_some());
        bytes.extend(learned.iter().flatten());
        if plan.is_some() && learned.is_some() {
            weights.into_iter().for_each(|weight| StateEncoder(&mut bytes).u32(weight));
        }
        bytes
    }
}

pub(in super::super) fn encoded(kept: &PacingSnapshot) -> Vec<u8> {
    let mut bytes = Vec::new();
    kept.encode(&mut bytes);
    bytes
}

/// Decoded bytes encode to the same, unless they are of the first version.
fn check(bytes: &[u8]) -> bool {
    let Ok(kept) = PacingSnapshot::decode(bytes) else { return false };
    let again = encoded(&kept);
    if bytes[0] == FIRST_VERSION {
        assert_eq!(PacingSnapshot::decode(&again), Ok(kept));
    } else {
        assert_eq!(again, bytes);
    }
    true
}

/// Learned traffic and the dual survive the change of version.
#[test]
fn the_first_form_is_read() {
    let mut bytes = vec![FIRST_VERSION];
    let mut into = StateEncoder(&mut bytes);
    into.u32(7);
    (0..3 + 8).for_each(|_| into.u64(0));
    // The dual, the rate, the error, its mean square, the sum of errors, the trust, the cost.
    [1.5, 0.25, 2.0, 9.0, 1.25, -3.0, 40.0].into_iter().for_each(|figure| into.f64(figure));
    into.flag(false);
    (0..5).for_each(|_| into.u64(0));
    into.flag(false);
    into.flag(true);
    bytes.extend(learned(Some((3, 5)), &[4; 3 * HOURS]));
    let kept = PacingSnapshot::decode(&bytes).expect("it is the form before");
    assert!((kept.state.dual() - 1.5).abs() < 1e-12 && (kept.state.rate() - 0.25).abs() < 1e-12);
    assert!(kept.learner.is_some());
    assert!(check(&bytes));
    assert_eq!(encoded(&kept).len(), bytes.len() + 8);
    for length in 1..bytes.len() {
        assert_eq!(PacingSnapshot::decode(&bytes[..length]), Err(StateDecodeError::Truncated));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_read_is_what_was_written_to_the_bit(bytes in written()) {
        let kept = PacingSnapshot::decode(&bytes);
        prop_assert!(kept.is_ok(), "{kept:?}");
        let kept = kept.unwrap();
        prop_assert_eq!(encoded(&kept), &bytes[..]);
        prop_assert_eq!(kept.slot(), CampaignIndex(7));
        let most = if kept.learner.is_some() { SNAPSHOT_BYTES_MAX } else { PLAIN_BYTES_MAX };
        prop_assert!(bytes.len() <= most);
        prop_assert!(kept.plan.is_none() || bytes.len() == most);
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        check(&bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn every_truncation_is_refused_and_every_flipped_bit_refused_or_read(bytes in written()) {
        for length in 0..bytes.len() {
            prop_assert_eq!(PacingSnapshot::decode(&bytes[..length]), Err(StateDecodeError::Truncated));
        }
        let longer = [&bytes[..], &[0]].concat();
        prop_assert_eq!(PacingSnapshot::decode(&longer), Err(StateDecodeError::Trailing));
        let (mut flipped, mut refused) = (bytes.clone(), 0);
        for bit in 0..8 * bytes.len() {
            flipped[bit / 8] ^= 1 << (bit % 8);
            refused += u32::from(!check(&flipped));
            flipped[bit / 8] ^= 1 << (bit % 8);
        }
        // The version, the flags, and floats that become NaN or too large.
        prop_assert!(refused > 20, "{}", refused);
    }
}

/// Invalid figures: offset, value, and error.
#[test]
fn each_figure_out_of_its_range_is_refused() {
    let mut bytes = Vec::new();
    StateEncoder(&mut bytes).u8(VERSION);
    StateEncoder(&mut bytes).u32(7);
    bytes.resize(1 + 4 + 24 + 129 + 32 + 8, 0);
    StateEncoder(&mut bytes).flag(true);
    bytes.extend(plan(&[5, 5, 5, 0, 0, 0, 0, 0, 6, 1], None, 1));
    StateEncoder(&mut bytes).flag(true);
    bytes.extend(learned(None, &[0; 3 * HOURS]));
    bytes.extend([0; 4 * HOURS]);
    assert!(check(&bytes));
    assert_eq!(bytes.len(), SNAPSHOT_BYTES_MAX);
    let state = 29;
    let plan = state + 129 + 32 + 8 + 1;
    let learner = plan + 90 + 1;
    let word = |figure: u64| figure.to_le_bytes().to_vec();
    let float = |figure: f64| word(figure.to_bits());
    let table = [
        (state, word(TIME_MAX_MS + 1), "the time"),
        (state + 48, float(1.1), "the share"),
        (state + 48, float(f64::NAN), "the share"),
        (state + 56, word(1), "what was spent"),
        (state + 64, float(5.1), "the dual"),
        (state + 64, float(-5.1), "the dual"),
        (state + 72, float(-0.1), "the rate"),
        (state + 80, float(f64::INFINITY), "the error"),
        (state + 88, float(f64::NEG_INFINITY), "the sum of errors"),
        (state + 96, float(1e20), "the cost of a request"),
        (state + 104, float(-1.0), "the noise"),
        (state + 112, float(1.1), "the patience"),
        (state + 120, float(-1.0), "what was learned from"),
        (state + 128, vec![2], "whether all is spent"),
        (plan - 1, vec![2], "whether there is a plan"),
        (plan, vec![3], "the span"),
        (plan + 1, word(11), "the flight"),
        (plan + 9, word(16), "the flight"),
        (plan + 17, word(TIME_MAX_MS + 1), "the end of the flight"),
        (plan + 65, vec![2], "whether others leave a limit"),
        (plan + 66, word(1), "the limit"),
        (plan + 74, word(17), "until when it holds"),
        (learner - 1, vec![7], "whether there is a learned week"),
        (learner, vec![2], "whether it has learned"),
        (learner + 1, word(1), "the time"),
        (learner + 9, word(1), "the requests"),
        (learner + 17 + 16, word(TIME_MAX_MS + 1), "an hour's end"),
    ];
    for (at, figure, name) in table {
        let mut wrong = bytes.clone();
        wrong[at..at + figure.len()].copy_from_slice(&figure);
        assert_eq!(PacingSnapshot::decode(&wrong), Err(StateDecodeError::Range(name)), "{at}");
    }
    let newer = [&[VERSION + 1], &bytes[1..]].concat();
    let error = PacingSnapshot::decode(&newer).unwrap_err();
    assert_eq!(error.to_string(), "it has version 3, this program reads 2");
}
