//! The best offers for an impression: at most one per account, of a few accounts.

#[cfg(test)]
mod tests;

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
    pub(super) clearing_value: Cpm,
    /// The bid, in the auction's currency.
    pub(super) price: Cpm,
    /// The decided price, in the account's currency.
    pub(super) decided: Cpm,
    /// Orders equal offers, lowest first; computed on demand.
    pub(super) tie: Option<u64>,
}

impl Offer {
    fn worth(&self) -> impl Ord + use<> {
        (self.class, self.clearing_value)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Offers {
    bids_max: usize,
    best: Vec<Offer>,
    all: Vec<Offer>,
}

impl Offers {
    pub(super) fn start(&mut self, most: usize) {
        self.bids_max = most.min(ACCOUNTS_MAX);
        self.best.clear();
        self.all.clear();
    }

    /// Adds `offer` if it is among the best. `tie` orders equal offers.
    pub(super) fn add(&mut self, mut offer: Offer, mut tie: impl FnMut(&Offer) -> u64) {
        let worst = self.best.last().filter(|_| self.best.len() == self.bids_max);
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
        self.best.truncate(self.bids_max);
    }

    pub(super) fn close_imp(&mut self) {
        self.all.append(&mut self.best);
    }

    pub(super) fn by_seat(&mut self) -> &[Offer] {
        self.all.sort_unstable_by_key(|offer| (offer.seat, offer.imp));
        &self.all
    }
}
