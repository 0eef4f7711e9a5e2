//! The funds interface of pacing: what a campaign has spent, and what it may spend.

use units::Nanos;

use crate::ledger::{Ledger, LimitLevel, LimitOwner, LimitSpan};
use crate::messages::CampaignIndex;

/// A campaign's spend and limits in a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanFunds {
    /// Spend so far.
    pub spent: Nanos,
    /// Its own limit less the holdback. None if unlimited.
    pub own: Option<Nanos>,
    /// The account's limit, less what others take of it. None if unlimited.
    pub shared: Option<Nanos>,
}

impl SpanFunds {
    /// The tighter limit of the span. None if unlimited.
    pub fn limit(&self) -> Option<Nanos> {
        match (self.own, self.shared) {
            (Some(own), Some(shared)) => Some(own.min(shared)),
            (own, shared) => own.or(shared),
        }
    }
}

/// A campaign's funds by span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Funds {
    /// In total.
    pub life: SpanFunds,
    /// Today, on the account's clocks.
    pub day: SpanFunds,
    /// In this hour on the account's clocks.
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

/// A source of campaigns' funds.
pub trait FundsSource {
    /// A campaign's funds. None while they are unknown.
    fn funds(&self, slot: CampaignIndex) -> Option<Funds>;
}

impl FundsSource for Ledger {
    fn funds(&self, slot: CampaignIndex) -> Option<Funds> {
        let spend = self.spend(slot)?;
        let why = self.why(slot);
        let levels = why.levels?;
        // It may also spend its leased part of the account's limits.
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
        let funds = |span| SpanFunds {
            spent: spend.of(span),
            own: limit(LimitOwner::Campaign, span, spend.of(span).get()).map(Nanos::new),
            shared: limit(LimitOwner::Account, span, spend.of(span).get()).map(Nanos::new),
        };
        Some(Funds {
            life: funds(LimitSpan::Life),
            day: funds(LimitSpan::Day),
            hour: funds(LimitSpan::Hour),
        })
    }
}

/// The limit less the unused holdback.
fn spendable(level: &LimitLevel) -> Option<u64> {
    let held_back = level.holdback.get().saturating_sub(level.late.get());
    level.limit.map(|limit| limit.get().saturating_sub(held_back))
}
