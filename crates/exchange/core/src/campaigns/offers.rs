//! The best offers for an impression: at most one per account, of a few accounts.

use units::Cpm;

/// Limit of accounts that bid for an impression, whatever the configuration says.
pub const ACCOUNTS_MAX: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) imp: usize,
    /// The account's seat, by position in the catalogue.
    pub(super) seat: u32,
    pub(super) campaign: usize,
    pub(super) ad: usize,
    pub(super) deal: Option<usize>,
    pub(super) class: u8,
    /// Its value in clearing, in the auction's currency.
    pub(super) counts: Cpm,
    /// The bid, in the auction's currency.
    pub(super) price: Cpm,
    /// The decided price, in the account's currency.
    pub(super) decided: Cpm,
    /// Orders equal offers, lowest first; computed on demand.
    pub(super) tie: Option<u64>,
}

impl Offer {
    fn worth(&self) -> impl Ord + use<> {
        (self.class, self.counts)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Offers {
    most: usize,
    best: Vec<Offer>,
    all: Vec<Offer>,
}

impl Offers {
    pub(super) fn start(&mut self, most: usize) {
        self.most = most.min(ACCOUNTS_MAX);
        self.best.clear();
        self.all.clear();
    }

    /// Adds `offer` if it is among the best. `tie` orders equal offers.
    pub(super) fn add(&mut self, mut offer: Offer, mut tie: impl FnMut(&Offer) -> u64) {
        let worst = self.best.last().filter(|_| self.best.len() == self.most);
        if worst.is_some_and(|worst| offer.worth() < worst.worth()) {
            return; // Worse than all kept offers, including its own account's.
        }
        let mut at = self.best.len();
        for (place, other) in self.best.iter_mut().enumerate() {
            let mut rank = |offer: &mut Offer| {
                let ranked = offer.tie.unwrap_or_else(|| tie(offer));
                offer.tie = Some(ranked);
                (ranked, offer.seat)
            };
            let is_better = match offer.worth() == other.worth() {
                true => rank(&mut offer) < rank(other),
                false => offer.worth() > other.worth(),
            };
            if is_better {
                at = place;
                break;
            }
        }
        let own = self.best.iter().position(|other| other.seat == offer.seat);
        match own {
            Some(own) if own < at => return,
            Some(own) => drop(self.best.remove(own)),
            None => (),
        }
        self.best.insert(at, offer);
        self.best.truncate(self.most);
    }

    pub(super) fn close_imp(&mut self) {
        self.all.append(&mut self.best);
    }

    pub(super) fn by_seat(&mut self) -> &[Offer] {
        self.all.sort_unstable_by_key(|offer| (offer.seat, offer.imp));
        &self.all
    }
}

#[cfg(test)]
mod tests {
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
                counts: Cpm::new(micros).unwrap(),
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
            all.sort_by_key(|offer| (Reverse((offer.class, offer.counts)), offer.tie));
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
}
