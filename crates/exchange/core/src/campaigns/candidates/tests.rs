//! Candidates against a ranking of all.

use std::cmp::Reverse;

use super::*;
use proptest::prelude::*;

proptest! {
    /// The result equals a ranking of all candidates that keeps each account's first.
    #[test]
    fn the_best_are_kept_whatever_their_order(
        most in 1..=ACCOUNTS_MAX,
        drawn in prop::collection::vec((0u32..6, 0u8..2, 0u64..4, 0u64..3), 0..40),
    ) {
        let candidate = |(campaign, (seat, class, micros, tie)): (usize, (u32, u8, u64, u64))| BidCandidate {
            imp: 0,
            seat,
            campaign,
            ad: 0,
            deal: None,
            class,
            clearing_value: Cpm::new(micros).unwrap(),
            price: Cpm::ZERO,
            decided: Cpm::ZERO,
            // All are unequal.
            tie: Some(tie << 32 | campaign as u64),
        };
        let mut all: Vec<BidCandidate> = drawn.into_iter().enumerate().map(candidate).collect();
        let mut candidates = BidCandidates::default();
        candidates.start(most);
        for candidate in &all {
            let tie = candidate.tie.unwrap();
            candidates.add(BidCandidate { tie: None, ..*candidate }, |other| {
                all.iter().find(|known| known.campaign == other.campaign).map_or(tie, |known| known.tie.unwrap())
            });
        }
        candidates.close_imp();
        all.sort_by_key(|candidate| (Reverse((candidate.class, candidate.clearing_value)), candidate.tie));
        let mut seen = Vec::new();
        all.retain(|candidate| !seen.contains(&candidate.seat) && { seen.push(candidate.seat); true });
        all.truncate(most);
        let campaigns = |candidates: &[BidCandidate]| {
            let mut campaigns: Vec<_> = candidates.iter().map(|candidate| candidate.campaign).collect();
            campaigns.sort_unstable();
            campaigns
        };
        prop_assert_eq!(campaigns(candidates.by_seat()), campaigns(&all));
    }
}
