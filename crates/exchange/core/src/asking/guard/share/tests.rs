//! Division of units, once and over time.

use proptest::prelude::*;

use super::*;

fn claims(of: &[(u64, u64)]) -> Vec<ShareClaim> {
    of.iter().map(|(want, weight)| ShareClaim { demand: *want, weight: *weight }).collect()
}

#[test]
fn units_go_by_weight_up_to_what_is_wanted() {
    for (total, of, want, left) in [
        (0, &[(5, 1), (5, 1)][..], &[0, 0][..], 0),
        (100, &[(5, 1), (7, 9)], &[5, 7], 88),
        (8, &[(9, 1), (9, 1)], &[4, 4], 0),
        // 3/4 × 9/10 + 1/4 × 1/2 = 0.8
        (100, &[(99, 9), (99, 1)], &[80, 20], 0),
        (100, &[(99, 9), (3, 1)], &[97, 3], 0),
        (100, &[(0, 9), (0, 1)], &[0, 0], 100),
        (3, &[(9, 0), (9, 0), (9, 0)], &[1, 1, 1], 0),
        (
            4_000_000_000,
            &[(u64::MAX, u64::MAX >> 20), (u64::MAX, 1)],
            &[3_500_000_000, 500_000_000],
            0,
        ),
    ] {
        let claims = claims(of);
        let mut parts = vec![77; claims.len()];
        let got = ShareDivider::new(claims.len()).divide(total, &claims, true, &mut parts);
        assert_eq!((parts.as_slice(), got), (want, left), "{total} among {of:?}");
    }
}

#[test]
fn remainders_go_round_by_weight() {
    let mut shares = ShareDivider::new(3);
    let claims = claims(&[(9, 8), (9, 1), (9, 1)]);
    let (mut parts, mut sums, mut order) = (vec![0; 3], vec![0; 3], Vec::new());
    for _ in 0..1_000 {
        shares.divide(1, &claims, true, &mut parts);
        order.push(parts.iter().position(|part| *part == 1).unwrap());
        sums.iter_mut().zip(&parts).for_each(|(sum, part)| *sum += part);
    }
    // 3/4 × 8/10 + 1/12 = 0.683, 3/4 × 1/10 + 1/12 = 0.158
    for (sum, want) in sums.iter().zip([683, 158, 158]) {
        assert!(sum.abs_diff(want) <= 2, "{sums:?}");
    }
    for shard in 0..3 {
        let longest = order.split(|of| *of == shard).map(<[usize]>::len).max();
        assert!(longest <= Some(12), "{shard}: {longest:?}");
    }
    // Between turns a remainder stays, whatever the credit.
    shares.divide(1, &claims, true, &mut parts);
    let mut again = vec![0; 3];
    for _ in 0..9 {
        shares.divide(1, &claims, false, &mut again);
        assert_eq!(parts, again);
    }
}

proptest! {
    #[test]
    fn no_more_than_there_is_or_wanted_and_nothing_left_that_is_wanted(
        total in 0u64..5_000,
        of in prop::collection::vec((0u64..200, 0u64..1_000), 1..40),
        rounds in 1usize..5,
    ) {
        let claims = claims(&of);
        let mut shares = ShareDivider::new(claims.len());
        let mut parts = vec![0; claims.len()];
        for round in 0..rounds {
            let left = shares.divide(total, &claims, round % 2 == 0, &mut parts);
            prop_assert_eq!(parts.iter().sum::<u64>() + left, total);
            prop_assert!(claims.iter().zip(&parts).all(|(claim, part)| *part <= claim.demand));
            let satisfied = claims.iter().zip(&parts).all(|(claim, part)| *part == claim.demand);
            prop_assert!(left == 0 || satisfied);
        }
        prop_assert!(shares.credit.iter().all(|credit| credit.abs() <= CREDIT_MAX));
    }
}
