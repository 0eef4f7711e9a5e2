//! Why an account or a campaign does not spend, as shown: the cause (see cause.rs) and its figures.

use pacer_core::calendar::CalendarHour;
use pacer_core::ledger::LimitLevel;
use pacer_core::refusal::SpendRefusal;
use schemars::JsonSchema;
use serde::Serialize;
use units::Currency;

use super::cause::{CauseInputs, RefusalText};
use super::exchange::ExchangeView;
use super::funnel::{FunnelView, MismatchesView, PlanProgress};
use super::pace::BiddingView;
use super::shown::{
    AmountText, LimitSpanView, TimeText, code, money, owner, refusal_schema, span, time,
};
use super::spend_cause::{SpendCause, nothing};
use super::{funnel, pace};
use crate::ledger::handle::DeliveryProgress;
use crate::registry::{AccountStanding, CampaignStanding};

/// Why a campaign does not spend, the figures that make it so, and how it bids.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Why")]
pub(super) struct WhyView {
    #[serde(flatten)]
    cause: CauseView,
    #[serde(flatten)]
    figures: LedgerFigures,
    flight: FlightView,
    /// How it bids until the slot of its strategy ends; null before its first one.
    pace: Option<BiddingView>,
    /// What became of impressions, kept in memory since the start; null where no exchange counts.
    funnel: Option<FunnelView>,
    /// Its criteria, each tried by itself on a sample of the last hour's impressions; null unless it
    /// matches less than a tenth.
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
    /// Its seats; null where it has none.
    seats: Option<RefusalView>,
    /// Those that are not removed, by the first reason that holds for each.
    campaigns: Vec<RefusedCount>,
}

/// Why one does not spend.
#[derive(Serialize, JsonSchema)]
struct CauseView {
    id: String,
    /// What keeps it from spending, the first cause that holds: removed, definition_refused, a value of
    /// `refusal`, record_unavailable, no_rate, no_requests, no_match, left_out, unbilled, or where most
    /// impressions go: hours, budget, pace, ledger, below_floor, outranked, outbid, rejected, refused,
    /// returned, abandoned, pending. Null where nothing does, or it is on plan. Of an account: a value of
    /// `refusal`, record_unavailable or no_rate.
    reason: Option<&'static str>,
    /// The ledger's own reason; null where it has none.
    #[schemars(schema_with = "refusal_schema")]
    refusal: Option<&'static str>,
    /// The reason for people, with figures.
    words: String,
    /// What to do; null if there is nothing to do.
    remedy: Option<String>,
    currency: Option<String>,
}

/// What the ledger holds.
#[derive(Serialize, JsonSchema)]
struct LedgerFigures {
    /// The hour of the account's clocks.
    hour: Option<ClockHour>,
    /// Every limit, in order of precedence.
    levels: Vec<LevelView>,
    /// Free or reserved at shards.
    at_shards: AmountText,
    /// Leased, and granted to no shard yet.
    ready: AmountText,
    /// What processes before this one left outstanding.
    frozen: AmountText,
    /// Whether the last batch was not kept.
    store_failing: bool,
}

/// From when to when a campaign runs.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Flight")]
struct FlightView {
    start: Option<TimeText>,
    end: Option<TimeText>,
}

/// The first reason that holds.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Refusal")]
struct RefusalView {
    /// Null where nothing keeps it from spending.
    #[schemars(schema_with = "refusal_schema")]
    refusal: Option<&'static str>,
    /// The same for people.
    words: String,
}

/// Campaigns that have the same reason.
#[derive(Serialize, JsonSchema)]
struct RefusedCount {
    #[serde(flatten)]
    refusal: RefusalView,
    count: u64,
}

pub(super) fn of_campaign(
    id: &str,
    standing: &CampaignStanding,
    delivery: Option<&DeliveryProgress>,
    exchange: &dyn ExchangeView,
) -> WhyView {
    let CampaignStanding { why, bidding, amount, currency, .. } = standing;
    let levels = why.levels.as_ref().map_or(&[][..], |levels| levels);
    let (start, end) = why.flight_unix_ms;
    let windows = exchange.funnel(standing.slot, why.flight_unix_ms);
    let is_matchless = windows.as_ref().is_some_and(|[hour, _]| funnel::is_matchless(hour));
    let mismatches = is_matchless.then(|| exchange.mismatches(standing.slot)).flatten();
    let progress =
        delivery.and_then(|it| Some(PlanProgress { spent: it.spent, expected: it.expected? }));
    let (windows, mismatches) = (windows.as_ref(), mismatches.as_ref());
    let known = CauseInputs { standing, exchange, windows, mismatches, progress };
    WhyView {
        cause: cause_view((id, *currency), SpendCause::of(&known), why.refusal),
        figures: LedgerFigures {
            hour: why.hour.as_ref().map(hour),
            levels: levels.iter().map(level).collect(),
            at_shards: money(why.at_shards),
            ready: money(why.ready),
            frozen: money(why.frozen),
            store_failing: why.is_store_failing,
        },
        flight: FlightView { start: time(start), end: time(end) },
        pace: bidding.map(|bidding| pace::shown(&bidding, *amount, *currency)),
        funnel: windows.map(funnel::shown),
        mismatches: mismatches.map(funnel::mismatches),
    }
}

pub(super) fn of_account(
    id: &str,
    standing: &AccountStanding,
    exchange: &dyn ExchangeView,
) -> AccountWhyView {
    let AccountStanding { why, seats, campaigns, currency } = standing;
    let text_of = RefusalText {
        refusal: why.refusal,
        levels: why.levels.as_ref().map_or(&[], |levels| &levels[..]),
        flight_unix_ms: None,
        is_store_failing: why.is_store_failing,
    };
    let plain = |refusal: Option<SpendRefusal>| RefusalView {
        refusal: refusal.map(SpendRefusal::label),
        words: refusal.map_or_else(nothing, |refusal| refusal.to_string()),
    };
    let counted = |(refusal, count): (&Option<SpendRefusal>, &u64)| RefusedCount {
        refusal: plain(*refusal),
        count: *count,
    };
    AccountWhyView {
        cause: cause_view((id, *currency), text_of.cause(*currency, exchange), why.refusal),
        figures: LedgerFigures {
            hour: why.hour.as_ref().map(hour),
            levels: text_of.levels.iter().map(level).collect(),
            at_shards: money(why.at_shards),
            ready: money(why.ready),
            frozen: money(why.frozen),
            store_failing: why.is_store_failing,
        },
        seats: seats.map(plain),
        campaigns: campaigns.iter().map(counted).collect(),
    }
}

fn cause_view(
    (id, currency): (&str, Option<Currency>),
    SpendCause { reason, words, remedy }: SpendCause,
    refusal: Option<SpendRefusal>,
) -> CauseView {
    let refusal = refusal.map(SpendRefusal::label);
    CauseView { id: id.to_owned(), reason, refusal, words, remedy, currency: code(currency) }
}

/// An hour of the account's clocks.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Hour")]
struct ClockHour {
    start: Option<TimeText>,
    end: Option<TimeText>,
    /// 0 is Monday, midnight to one.
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

/// How far a limit is used.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Level")]
struct LevelView {
    #[schemars(extend("enum" = ["campaign", "account"]))]
    owner: &'static str,
    span: LimitSpanView,
    /// Null without one.
    limit: Option<AmountText>,
    /// Leased and not given back.
    held: AmountText,
    /// Spent beside that: late, or above the price.
    late: AmountText,
    /// Kept back for such.
    holdback: AmountText,
    /// Held and late.
    exposure: AmountText,
    /// What may still be leased; null without a limit.
    headroom: Option<AmountText>,
    /// By how much the limit is exceeded.
    excess: AmountText,
}

fn level(level: &LimitLevel) -> LevelView {
    LevelView {
        owner: owner(level.owner),
        span: span(level.span),
        limit: level.limit.map(money),
        held: money(level.held),
        late: money(level.late),
        holdback: money(level.holdback),
        exposure: money(level.exposure()),
        headroom: level.headroom().map(money),
        excess: money(level.excess()),
    }
}
