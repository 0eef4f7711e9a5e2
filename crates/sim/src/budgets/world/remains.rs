//! The state that a start reads from the store, one query at a time.

use pacer_core::store::{
    EpochLifetime, Lease, LeaseKey, QueryResult, SpentSum, StoreQuery, StoreWriter, SumKey,
};

/// The results so far.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessRemains {
    leases: Option<Vec<(LeaseKey, Lease)>>,
    sums: Option<Vec<(SumKey, SpentSum)>>,
    lives: Option<Vec<(StoreWriter, EpochLifetime)>>,
}

impl ProcessRemains {
    /// Adds a result. A refused query is repeated.
    pub(super) fn with(mut self, found: Option<QueryResult>) -> Self {
        match found {
            Some(QueryResult::Leases(leases)) => self.leases = Some(leases),
            Some(QueryResult::Sums(sums)) => self.sums = Some(sums),
            Some(QueryResult::EpochLifetimes(lives)) => self.lives = Some(lives),
            _ => (),
        }
        self
    }

    /// The next query. None once all results are there.
    pub(super) fn next(&self) -> Option<StoreQuery> {
        let queries = [
            (self.leases.is_none(), StoreQuery::Leases(None)),
            (self.sums.is_none(), StoreQuery::Sums(None)),
            (self.lives.is_none(), StoreQuery::EpochLifetimes(None)),
        ];
        queries.into_iter().find(|(is_missing, _)| *is_missing).map(|(_, query)| query)
    }

    pub(super) fn leases(&self) -> &[(LeaseKey, Lease)] {
        self.leases.as_deref().unwrap_or_default()
    }

    pub(super) fn sums(&self) -> &[(SumKey, SpentSum)] {
        self.sums.as_deref().unwrap_or_default()
    }

    pub(super) fn lives(&self) -> &[(StoreWriter, EpochLifetime)] {
        self.lives.as_deref().unwrap_or_default()
    }
}
