//! What pacing asks of whoever keeps the books: what a campaign has spent, and what it may.

use units::Nanos;

use crate::ledger::{Ledger, LimitLevel, LimitOwner, LimitSpan};
use crate::messages::CampaignIndex;

/// What a campaign has spent in a span, and what it may spend in all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanFunds {
    /// So far.
    pub spent: Nanos,
    /// By its own limit, less what is kept back; `None` without one.
    pub own: Option<Nanos>,
    /// By the account's, as far as others leave of it.
    pub shared: Option<Nanos>,
}

impl SpanFunds {
    /// What it may spend in all of the span; `None` without a limit.
    pub fn limit(&self) -> Option<Nanos> {
        match (self.own, self.shared) {
            (Some(own), Some(shared)) => Some(own.min(shared)),
            (own, shared) => own.or(shared),
        }
    }
}

/// A campaign's money, by the spans that have limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Funds {
    /// For ever.
    pub life: SpanFunds,
    /// Today, on the account's clocks.
    pub day: SpanFunds,
    /// In this hour of them.
    pub hour: SpanFunds,
}

impl Funds {
    /// Of a span.
    pub const fn of(&self, span: LimitSpan) -> &SpanFunds {
        match span {
            LimitSpan::Life => &self.life,
            LimitSpan::Day => &self.day,
            LimitSpan::Hour => &self.hour,
        }
    }
}

/// Whoever keeps the books.
pub trait FundsSource {
    /// What a campaign has spent, and what it may; `None` while nobody can tell.
    fn funds(&self, slot: CampaignIndex) -> Option<Funds>;
}

impl FundsSource for Ledger {
    fn funds(&self, slot: CampaignIndex) -> Option<Funds> {
        let spend = self.spend(slot)?;
        let why = self.why(slot);
        let levels = why.levels?;
        // What it holds of the account's limits it may spend as well.
        let holds = [why.at_shards, why.ready, why.frozen].map(Nanos::get);
        let holds = holds.into_iter().fold(0, u64::saturating_add);
        let limit = |owner, span, spent: u64| {
            let level = levels.iter().find(|level| (level.owner, level.span) == (owner, span))?;
            match owner {
                LimitOwner::Campaign => spendable(level),
                LimitOwner::Account => {
                    Some(level.headroom()?.get().saturating_add(holds).saturating_add(spent))
                }
            }
        };
        let purse = |span, spent: Nanos| SpanFunds {
            spent,
            own: limit(LimitOwner::Campaign, span, spent.get()).map(Nanos::new),
            shared: limit(LimitOwner::Account, span, spent.get()).map(Nanos::new),
        };
        Some(Funds {
            life: purse(LimitSpan::Life, spend.life),
            day: purse(LimitSpan::Day, spend.today),
            hour: purse(LimitSpan::Hour, spend.now),
        })
    }
}

/// Of a limit, less what is kept back for late wins and has not been needed.
fn spendable(level: &LimitLevel) -> Option<u64> {
    let kept = level.holdback.get().saturating_sub(level.late.get());
    level.limit.map(|limit| limit.get().saturating_sub(kept))
}
