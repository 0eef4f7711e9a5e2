//! Why a campaign does not spend: the first cause that applies, in words with a remedy. Owns the
//! order: removed, unreadable, not in flight, paused, limit used up, store or record failing, no
//! rate, refused file, then the largest loss of impressions.

use pacer_core::funnel::{FunnelStep, FunnelWindow};
use pacer_core::ledger::{LimitLevel, LimitOwner, LimitSpan, SpendDiagnosis};
use pacer_core::refusal::SpendRefusal;
use pacer_core::strategy::CampaignFlight;
use units::{Amount, Currency, Nanos};

use super::exchange::{ExchangeView, Mismatches};
use super::funnel::{self, PlanProgress};
use super::shown::{owner, time};
use super::spend_cause::{SpendCause, nothing};
use crate::registry::CampaignStatus;

pub(super) struct CauseInputs<'k> {
    pub(super) standing: &'k CampaignStatus,
    pub(super) exchange: &'k dyn ExchangeView,
    pub(super) windows: Option<&'k [FunnelWindow; 2]>,
    pub(super) mismatches: Option<&'k Mismatches>,
    pub(super) progress: Option<PlanProgress>,
}

impl SpendCause {
    pub(super) fn of(known: &CauseInputs<'_>) -> Self {
        let CauseInputs { standing, exchange, windows, mismatches, progress } = known;
        let refusal = standing.why.refusal;
        let is_early = |refusal: &SpendRefusal| *refusal < SpendRefusal::Throttled;
        own(standing)
            .or_else(|| refusal.filter(is_early).map(|it| of_refusal(it, standing)))
            .or_else(|| {
                let unavailable = refusal.filter(|it| *it == SpendRefusal::LedgerUnavailable);
                unavailable.map(|it| of_refusal(it, standing))
            })
            .or_else(|| exchange.obstacle().map(|words| obstacle(&words)))
            .or_else(|| without_rate("its account's", standing.currency?, *exchange))
            .or_else(|| refused_file(standing, *windows))
            .or_else(|| refusal.map(|it| of_refusal(it, standing)))
            .or_else(|| funnel::cause((*windows)?, *mismatches, *progress, standing.currency))
            .unwrap_or_else(Self::nothing)
    }
}

/// It is removed, or unreadable: then no other cause matters.
fn own(standing: &CampaignStatus) -> Option<SpendCause> {
    if standing.is_removed {
        let remedy =
            "what it has spent still counts; to bring it back PUT it, or define it in a file again";
        return Some(SpendCause::new("removed", "it is removed".to_owned(), remedy));
    }
    let words = "its stored definition cannot be read by this release, so it does not bid";
    let remedy = "the log of the last start names the problem; PUT the definition again";
    standing.is_unread.then(|| SpendCause::new("definition_refused", words.to_owned(), remedy))
}

fn obstacle(words: &str) -> SpendCause {
    let words = format!("nothing can be won: {words}");
    SpendCause::new("record_unavailable", words, "free or repair the disk of record.directory")
}

/// Its file's current text is not in force, unless it spends all the same.
fn refused_file(
    standing: &CampaignStatus,
    windows: Option<&[FunnelWindow; 2]>,
) -> Option<SpendCause> {
    let file = standing.refused_file.as_ref()?;
    if windows.is_some_and(|[hour, _]| hour.counts.get(FunnelStep::Billed) > 0) {
        return None;
    }
    let words =
        format!("{file} is refused as it is now: the definition that it had before stays in force");
    Some(SpendCause::new(
        "definition_refused",
        words,
        "correct the file: `vickrey config check` names every problem",
    ))
}

fn without_rate(
    whose: &str,
    currency: Currency,
    exchange: &dyn ExchangeView,
) -> Option<SpendCause> {
    if exchange.has_rate(currency) {
        return None;
    }
    let words = format!("{whose} currency, {currency}, has no rate: its bids cannot be compared");
    let remedy = format!("add {currency} to currency.rates of the configuration");
    Some(SpendCause::new("no_rate", words, &remedy))
}

fn of_refusal(refusal: SpendRefusal, standing: &CampaignStatus) -> SpendCause {
    let CampaignStatus { why, currency, now_unix_ms, paused_account, .. } = standing;
    let CampaignFlight { start_ms, end_ms } = why.flight;
    let is_outside = !(start_ms..end_ms).contains(now_unix_ms);
    // The end of the flight matters more than a pause.
    let refusal = match refusal {
        SpendRefusal::Paused if is_outside => SpendRefusal::OutOfFlight,
        refusal => refusal,
    };
    let text_of = RefusalText::of(why, Some(refusal), Some(why.flight));
    let (mut words, mut remedy) = (text_of.words(*currency), text_of.remedy());
    match (refusal, paused_account) {
        (SpendRefusal::Paused, Some(account)) => {
            words = format!("its account `{account}` is paused");
            remedy = Some(format!("vickrey account resume {account}"));
        }
        (SpendRefusal::OutOfFlight, _) if *now_unix_ms >= end_ms => {
            remedy = Some("give a later `end`".to_owned());
        }
        (SpendRefusal::OutOfFlight, _) => {
            remedy = Some("wait for its `start`, or give an earlier one".to_owned());
        }
        _ => (),
    }
    SpendCause { reason: Some(refusal.label()), words, remedy }
}

pub(super) struct RefusalText<'w> {
    refusal: Option<SpendRefusal>,
    levels: &'w [LimitLevel],
    flight: Option<CampaignFlight>,
    is_store_failing: bool,
}

impl<'w> RefusalText<'w> {
    pub(super) fn of<const LEVELS: usize>(
        why: &'w SpendDiagnosis<LEVELS>,
        refusal: Option<SpendRefusal>,
        flight: Option<CampaignFlight>,
    ) -> Self {
        let levels = why.levels.as_ref().map_or(&[][..], |levels| levels);
        Self { refusal, levels, flight, is_store_failing: why.is_store_failing }
    }

    /// Of an account: the ledger's reason, else what keeps all its campaigns from winning.
    pub(super) fn cause(
        &self,
        currency: Option<Currency>,
        exchange: &dyn ExchangeView,
    ) -> SpendCause {
        let ledger = self.refusal.map(|refusal| SpendCause {
            reason: Some(refusal.label()),
            words: self.words(currency),
            remedy: self.remedy(),
        });
        ledger
            .or_else(|| exchange.obstacle().map(|words| obstacle(&words)))
            .or_else(|| without_rate("its", currency?, exchange))
            .unwrap_or_else(SpendCause::nothing)
    }

    pub(super) fn words(&self, currency: Option<Currency>) -> String {
        let Some(refusal) = self.refusal else { return nothing() };
        let text = refusal.to_string();
        let shown = |at: u64| time(at).map_or_else(String::new, |at| at.0);
        match (refusal, self.flight) {
            (SpendRefusal::Unknown, _) => "the ledger does not know it yet: ask again".to_owned(),
            (SpendRefusal::OutOfFlight, Some(CampaignFlight { start_ms, end_ms })) => {
                format!("{text}: that is from {} to {}", shown(start_ms), shown(end_ms))
            }
            (
                SpendRefusal::BudgetExhausted
                | SpendRefusal::DayExhausted
                | SpendRefusal::HourExhausted,
                _,
            ) => self.exhausted(currency).map_or(text.clone(), |why| format!("{text}: {why}")),
            (SpendRefusal::LedgerUnavailable, _) if self.is_store_failing => {
                format!("{text}: its store cannot be written; the log says why")
            }
            _ => text,
        }
    }

    fn remedy(&self) -> Option<String> {
        let text = match self.refusal? {
            SpendRefusal::Unknown => "ask again",
            SpendRefusal::Paused => "resume it",
            SpendRefusal::OutOfFlight => "change `start` or `end`",
            SpendRefusal::OutOfDaypart => "widen `hours`, or wait for the next one",
            SpendRefusal::BudgetExhausted
            | SpendRefusal::DayExhausted
            | SpendRefusal::HourExhausted => {
                return Some(self.raise());
            }
            SpendRefusal::Throttled => {
                "its strategy waits to spread what it may spend: raise its limits, or choose `asap`"
            }
            SpendRefusal::BelowMinimum => "raise `bid`",
            SpendRefusal::LedgerUnavailable if self.is_store_failing => {
                "free or repair the disk of budgets.directory"
            }
            SpendRefusal::LedgerUnavailable => "ask again; if it stays, see /health/ready",
        };
        Some(text.to_owned())
    }

    fn raise(&self) -> String {
        let Some(level) = self.used_up() else { return "raise the limit".to_owned() };
        let key = match level.span {
            LimitSpan::Life => "budget",
            LimitSpan::Day => "daily_budget",
            LimitSpan::Hour => "hourly_budget",
        };
        match (level.owner, level.span) {
            (LimitOwner::Campaign, LimitSpan::Life) => format!("raise its `{key}`"),
            (LimitOwner::Account, LimitSpan::Life) => format!("raise its account's `{key}`"),
            (LimitOwner::Campaign, _) => format!("raise its `{key}`, or wait until that is over"),
            (LimitOwner::Account, _) => {
                format!("raise its account's `{key}`, or wait until that is over")
            }
        }
    }

    fn used_up(&self) -> Option<&LimitLevel> {
        let refusal = self.refusal?;
        let is_used_up = |level: &&LimitLevel| {
            level.refusal() == refusal && level.headroom() == Some(Nanos::ZERO)
        };
        self.levels.iter().find(is_used_up)
    }

    fn exhausted(&self, currency: Option<Currency>) -> Option<String> {
        let level = self.used_up()?;
        let shown = |amount: Nanos| match currency {
            Some(currency) => Amount::new(amount, currency).to_string(),
            None => amount.to_string(),
        };
        let (whose, limit) = (owner(level.owner), shown(level.limit.unwrap_or_default()));
        let kept = match level.holdback {
            Nanos::ZERO => String::new(),
            kept => format!(", and {} are kept back for late wins", shown(kept)),
        };
        let used = shown(level.exposure());
        Some(format!("of the {whose}'s {limit}, {used} are spent or leased{kept}"))
    }
}
