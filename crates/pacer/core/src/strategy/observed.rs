//! What is known of a campaign's flight so far, merged over shards and nodes.

use crate::encoding::{StateDecodeError, StateDecoder, StateEncoder};

/// What a flight has seen and spent since it began, summed over whatever reports it. Each figure
/// only grows: of two observations of the same reporters the larger is the later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservedTotals {
    /// Requests that the campaign could have bid for: its targeting matched.
    pub requests: u64,
    /// Of these, how many it bid for.
    pub bids: u64,
    /// Of these, how many it won.
    pub wins: u64,
    /// What they cost, in nanos of the account's currency.
    pub spent: u64,
}

impl ObservedTotals {
    pub(crate) fn encode(&self, into: &mut StateEncoder<'_>) {
        let Self { requests, bids, wins, spent } = *self;
        [requests, bids, wins, spent].into_iter().for_each(|figure| into.u64(figure));
    }

    pub(crate) fn decode(from: &mut StateDecoder<'_>) -> Result<Self, StateDecodeError> {
        let (requests, bids, wins, spent) = (from.u64()?, from.u64()?, from.u64()?, from.u64()?);
        Ok(Self { requests, bids, wins, spent })
    }

    /// The later of two observations of the same reporters, figure by figure.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        Self {
            requests: self.requests.max(other.requests),
            bids: self.bids.max(other.bids),
            wins: self.wins.max(other.wins),
            spent: self.spent.max(other.spent),
        }
    }

    /// Of two different reporters together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            bids: self.bids.saturating_add(other.bids),
            wins: self.wins.saturating_add(other.wins),
            spent: self.spent.saturating_add(other.spent),
        }
    }

    /// What came since `earlier`; nothing where that was not less.
    #[must_use]
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            bids: self.bids.saturating_sub(earlier.bids),
            wins: self.wins.saturating_sub(earlier.wins),
            spent: self.spent.saturating_sub(earlier.spent),
        }
    }
}
