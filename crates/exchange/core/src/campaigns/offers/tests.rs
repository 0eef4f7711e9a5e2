//! Offers against a ranking of all.

use std::cmp::Reverse;

use super::*;
use proptest::prelude::*;

proptest! {
    /// The result equals a ranking of all offers that keeps each account's first.
    #[test]
    fn the_best_are_kept_whatever_their_order(
        most in 1..=ACCOUNTS_MAX,
        drawn in prop::collection::vec((0u32..6, 0u8..2, 0u64..4, 0u64..3), 0..40),
    ) {
        let offer = |(campaign, (seat, class, micros, tie)): (usize, (u32, u8, u64, u64))| Offer {
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
        let mut all: Vec<Offer> = drawn.into_iter().enumerate().map(offer).collect();
        let mut offers = Offers::default();
        offers.start(most);
        for offer in &all {
            let tie = offer.tie.unwrap();
            offers.add(Offer { tie: None, ..*offer }, |other| {
                all.iter().find(|known| known.campaign == other.campaign).map_or(tie, |known| known.tie.unwrap())
            });
        }
        offers.close_imp();
        all.sort_by_key(|offer| (Reverse((offer.class, offer.clearing_value)), offer.tie));
        let mut seen = Vec::new();
        all.retain(|offer| !seen.contains(&offer.seat) && { seen.push(offer.seat); true });
        all.truncate(most);
        let campaigns = |offers: &[Offer]| {
            let mut campaigns: Vec<_> = offers.iter().map(|offer| offer.campaign).collect();
            campaigns.sort_unstable();
            campaigns
        };
        prop_assert_eq!(campaigns(offers.by_seat()), campaigns(&all));
    }
}
