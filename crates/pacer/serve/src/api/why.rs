//! Why an account or a campaign does not spend, as shown: the cause (see cause.rs) and its figures.

use pacer_core::calendar::CalendarHour;
use pacer_core::ledger::{LimitLevel, SpendDiagnosis};
use pacer_core::refusal::SpendRefusal;
use pacer_core::strategy::CampaignFlight;
use schemars::JsonSchema;
use serde::Serialize;
use units::Currency;

use super::cause::{CauseInputs, RefusalText};
use super::exchange::{ExchangeSlot, ExchangeView};
use super::funnel::{FunnelView, MismatchesView, PlanProgress};
use super::pace::BiddingView;
use super::shown::{
    AmountText, LimitSpanView, TimeText, code, money, owner, refusal_schema, span, time,
};
use super::spend_cause::{SpendCause, nothing};
use super::{funnel, pace};
use crate::ledger::handle::DeliveryProgress;
use crate::registry::{AccountStatus, CampaignStatus};

/// Why a campaign does not spend, with the figures behind it, and how it bids.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Why")]
pub(super) struct WhyView {
    #[serde(flatten)]
    cause: CauseView,
    #[serde(flatten)]
    figures: LedgerFigures,
    flight: FlightView,
    /// How it bids until the end of the strategy's current slot; null before its first slot.
    pace: Option<BiddingView>,
    /// Counts of its impressions, kept in memory since the start; null without an exchange.
    funnel: Option<FunnelView>,
    /// Its criteria, each tested alone on a sample of the last hour's impressions; null if it
    /// matches at least a tenth of them.
    mismatches: Option<MismatchesView>,
}

/// Why an account as a whole does not spend, and how many of its campaigns do.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AccountWhy")]
pub(super) struct AccountWhyView {
    #[serde(flatten)]
    cause: CauseView,
    #[serde(flatten)]
    figures: LedgerFigures,
    /// Why its seats may not win; null if it has none.
    seats: Option<RefusalView>,
    /// Its campaigns, except removed ones, by the first reason that applies to each.
    campaigns: Vec<RefusedCount>,
}

/// Why a campaign or account does not spend.
#[derive(Serialize, JsonSchema)]
struct CauseView {
    id: String,
    /// The first applicable cause: removed, definition_refused, a value of `refusal`,
    /// record_unavailable, no_rate, no_requests, no_match, left_out, unbilled, or where most
    /// impressions go: hours, budget, pace, ledger, below_floor, outranked, outbid, rejected,
    /// refused, returned, abandoned, pending. Null if nothing keeps it from spending, or it is on
    /// plan. For an account: a value of `refusal`, record_unavailable or no_rate.
    reason: Option<&'static str>,
    /// The ledger's own reason; null if it has none.
    #[schemars(schema_with = "refusal_schema")]
    refusal: Option<&'static str>,
    /// The reason in words, with figures.
    words: String,
    /// The remedy; null if there is none.
    remedy: Option<String>,
    currency: Option<String>,
}

/// The ledger's figures.
#[derive(Serialize, JsonSchema)]
struct LedgerFigures {
    /// The current hour in the account's time zone.
    hour: Option<ClockHour>,
    /// Every limit, in order of precedence.
    levels: Vec<LevelView>,
    /// Free or reserved at shards.
    at_shards: AmountText,
    /// Leased but not yet granted to a shard.
    ready: AmountText,
    /// Amounts that earlier processes left outstanding.
    frozen: AmountText,
    /// On hold for an account's standing bids of lots.
    held: AmountText,
    /// Whether the store failed to commit the last batch.
    store_failing: bool,
}

/// The period in which a campaign runs.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Flight")]
struct FlightView {
    start: Option<TimeText>,
    end: Option<TimeText>,
}

/// The first reason that applies.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Refusal")]
struct RefusalView {
    /// Null if nothing keeps it from spending.
    #[schemars(schema_with = "refusal_schema")]
    refusal: Option<&'static str>,
    /// The reason in words.
    words: String,
}

/// Number of campaigns with the same reason.
#[derive(Serialize, JsonSchema)]
struct RefusedCount {
    #[serde(flatten)]
    refusal: RefusalView,
    count: u64,
}

pub(super) fn of_campaign(
    id: &str,
    standing: &CampaignStatus,
    delivery: Option<&DeliveryProgress>,
    spenders: &ExchangeSlot,
) -> WhyView {
    let CampaignStatus { why, bidding, amount, currency, .. } = standing;
    let CampaignFlight { start_ms, end_ms } = why.flight;
    let (exchange, windows) = (spenders.get(), spenders.funnel(standing.slot, why.flight));
    let is_matchless = windows.as_ref().is_some_and(|[hour, _]| funnel::is_matchless(hour));
    let mismatches = is_matchless.then(|| exchange.mismatches(standing.slot)).flatten();
    let progress =
        delivery.and_then(|it| Some(PlanProgress { spent: it.spent, expected: it.expected? }));
    let (windows, mismatches) = (windows.as_ref(), mismatches.as_ref());
    let known = CauseInputs { standing, exchange, windows, mismatches, progress };
    WhyView {
        cause: cause_view(id, *currency, SpendCause::of(&known), why.refusal),
        figures: figures(why),
        flight: FlightView { start: time(start_ms), end: time(end_ms) },
        pace: bidding.map(|bidding| pace::shown(&bidding, *amount, *currency)),
        funnel: windows.map(funnel::shown),
        mismatches: mismatches.map(funnel::mismatches),
    }
}

pub(super) fn of_account(
    id: &str,
    standing: &AccountStatus,
    exchange: &dyn ExchangeView,
) -> AccountWhyView {
    let AccountStatus { why, seats, campaigns, currency } = standing;
    let text_of = RefusalText::of(why, why.refusal, None);
    let plain = |refusal: Option<SpendRefusal>| RefusalView {
        refusal: refusal.map(SpendRefusal::label),
        words: refusal.map_or_else(nothing, |refusal| refusal.to_string()),
    };
    let counted = |(refusal, count): (&Option<SpendRefusal>, &u64)| RefusedCount {
        refusal: plain(*refusal),
        count: *count,
    };
    AccountWhyView {
        cause: cause_view(id, *currency, text_of.cause(*currency, exchange), why.refusal),
        figures: figures(why),
        seats: seats.map(plain),
        campaigns: campaigns.iter().map(counted).collect(),
    }
}

fn figures<const LEVELS: usize>(why: &SpendDiagnosis<LEVELS>) -> LedgerFigures {
    LedgerFigures {
        hour: why.hour.as_ref().map(hour),
        levels: why.levels.iter().flatten().map(level).collect(),
        at_shards: money(why.at_shards),
        ready: money(why.ready),
        frozen: money(why.frozen),
        held: money(why.held),
        store_failing: why.is_store_failing,
    }
}

fn cause_view(
    id: &str,
    currency: Option<Currency>,
    SpendCause { reason, words, remedy }: SpendCause,
    refusal: Option<SpendRefusal>,
) -> CauseView {
    let refusal = refusal.map(SpendRefusal::label);
    CauseView { id: id.to_owned(), reason, refusal, words, remedy, currency: code(currency) }
}

/// An hour in the account's time zone.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Hour")]
struct ClockHour {
    start: Option<TimeText>,
    end: Option<TimeText>,
    /// 0 is Monday, midnight to one o'clock.
    #[schemars(range(max = 167))]
    hour_of_week: u8,
}

fn hour(hour: &CalendarHour) -> ClockHour {
    ClockHour {
        start: time(hour.start_unix_ms),
        end: time(hour.end_unix_ms),
        hour_of_week: hour.hour_of_week,
    }
}

/// A limit and its use.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Level")]
struct LevelView {
    #[schemars(extend("enum" = ["campaign", "account"]))]
    owner: &'static str,
    span: LimitSpanView,
    /// Null without a limit.
    limit: Option<AmountText>,
    /// Leased and not returned.
    held: AmountText,
    /// Late wins and amounts above the reserved price, in addition to the leases.
    late: AmountText,
    /// Held back for late wins.
    holdback: AmountText,
    /// The sum of `held` and `late`.
    exposure: AmountText,
    /// Amount that may still be leased; null without a limit.
    headroom: Option<AmountText>,
    /// Amount by which the limit is exceeded.
    excess: AmountText,
}

fn level(level: &LimitLevel) -> LevelView {
    LevelView {
        owner: owner(level.owner),
        span: span(level.span),
        limit: level.limit.map(money),
        held: money(level.outstanding),
        late: money(level.late),
        holdback: money(level.holdback),
        exposure: money(level.exposure()),
        headroom: level.headroom().map(money),
        excess: money(level.excess()),
    }
}
