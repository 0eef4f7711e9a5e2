//! The best candidates of campaigns for an impression: at most one per account, of a few accounts.

#[cfg(test)]
mod tests;

use units::Cpm;

/// Limit of accounts that bid for an impression, whatever the configuration says.
pub const ACCOUNTS_MAX: usize = 3;

/// A bid that a campaign may place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BidCandidate {
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
    /// Orders equal candidates, lowest first; computed on demand.
    pub(super) tie: Option<u64>,
}

impl BidCandidate {
    fn worth(&self) -> impl Ord + use<> {
        (self.class, self.clearing_value)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct BidCandidates {
    bids_max: usize,
    best: Vec<BidCandidate>,
    all: Vec<BidCandidate>,
}

impl BidCandidates {
    pub(super) fn start(&mut self, most: usize) {
        self.bids_max = most.min(ACCOUNTS_MAX);
        self.best.clear();
        self.all.clear();
    }

    /// Adds `candidate` if it is among the best. `tie` orders equal candidates.
    pub(super) fn add(
        &mut self,
        mut candidate: BidCandidate,
        mut tie: impl FnMut(&BidCandidate) -> u64,
    ) {
        let worst = self.best.last().filter(|_| self.best.len() == self.bids_max);
        if worst.is_some_and(|worst| candidate.worth() < worst.worth()) {
            return; // Worse than all kept candidates, including its own account's.
        }
        let mut at = self.best.len();
        for (place, other) in self.best.iter_mut().enumerate() {
            let mut rank = |candidate: &mut BidCandidate| {
                let ranked = candidate.tie.unwrap_or_else(|| tie(candidate));
                candidate.tie = Some(ranked);
                (ranked, candidate.seat)
            };
            let is_better = match candidate.worth() == other.worth() {
                true => rank(&mut candidate) < rank(other),
                false => candidate.worth() > other.worth(),
            };
            if is_better {
                at = place;
                break;
            }
        }
        let own = self.best.iter().position(|other| other.seat == candidate.seat);
        match own {
            Some(own) if own < at => return,
            Some(own) => drop(self.best.remove(own)),
            None => (),
        }
        self.best.insert(at, candidate);
        self.best.truncate(self.bids_max);
    }

    pub(super) fn close_imp(&mut self) {
        self.all.append(&mut self.best);
    }

    pub(super) fn by_seat(&mut self) -> &[BidCandidate] {
        self.all.sort_unstable_by_key(|candidate| (candidate.seat, candidate.imp));
        &self.all
    }
}
