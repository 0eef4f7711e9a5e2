//! What a start finds in the store, asked for one after the other.

use pacer_core::store::{Found, Lease, LeaseKey, Life, Query, Spent, SumKey, Writer};

/// What is found so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Remains {
    leases: Option<Vec<(LeaseKey, Lease)>>,
    sums: Option<Vec<(SumKey, Spent)>>,
    lives: Option<Vec<(Writer, Life)>>,
}

impl Remains {
    /// And this; what was refused is asked for again.
    pub(super) fn with(mut self, found: Option<Found>) -> Self {
        match found {
            Some(Found::Leases(leases)) => self.leases = Some(leases),
            Some(Found::Sums(sums)) => self.sums = Some(sums),
            Some(Found::Lives(lives)) => self.lives = Some(lives),
            _ => (),
        }
        self
    }

    /// What is to be asked for; `None` once all is there.
    pub(super) fn next(&self) -> Option<Query> {
        let queries = [
            (self.leases.is_none(), Query::Leases(None)),
            (self.sums.is_none(), Query::Sums(None)),
            (self.lives.is_none(), Query::Lives(None)),
        ];
        queries.into_iter().find(|(is_missing, _)| *is_missing).map(|(_, query)| query)
    }

    pub(super) fn leases(&self) -> &[(LeaseKey, Lease)] {
        self.leases.as_deref().unwrap_or_default()
    }

    pub(super) fn sums(&self) -> &[(SumKey, Spent)] {
        self.sums.as_deref().unwrap_or_default()
    }

    pub(super) fn lives(&self) -> &[(Writer, Life)] {
        self.lives.as_deref().unwrap_or_default()
    }
}
