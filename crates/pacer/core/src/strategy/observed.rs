//! The observations of a campaign's flight, merged over shards and nodes.

use crate::encoding::{StateDecodeError, StateDecoder, StateEncoder};

/// Totals of a flight since its start, over all reporters. Figures only grow: of two observations
/// of the same reporters the larger is the later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservedTotals {
    /// Requests that its targeting matched.
    pub requests: u64,
    /// Requests that it bid for.
    pub bids: u64,
    /// Bids that won.
    pub wins: u64,
    /// Their cost, in nanos of the account's currency.
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

    /// The sum of two different reporters.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            bids: self.bids.saturating_add(other.bids),
            wins: self.wins.saturating_add(other.wins),
            spent: self.spent.saturating_add(other.spent),
        }
    }

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
