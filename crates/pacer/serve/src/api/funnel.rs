//! A campaign's funnel as it is shown, and where most of its impressions go, in words with a remedy.
//!
//! Owns the forms, and which loss is named. What is counted is pacer-core's.

use pacer_core::funnel::{FunnelStep, FunnelWindow};
use serde_json::{Value, json};
use units::{Amount, Currency, grouped};

use super::cause::Cause;
use super::exchange::Mismatches;
use super::shown::{money, time};

/// Shown in full.
pub(super) fn shown(windows: Option<&[FunnelWindow; 2]>) -> Value {
    windows.map(|[hour, day]| json!({ "hour": window(hour), "day": window(day) })).into()
}

fn window(window: &FunnelWindow) -> Value {
    let FunnelWindow { since_unix_ms, is_since_start, offered, counts, shortfall } = window;
    let mut shown = json!({
        "since": time(*since_unix_ms),
        "since_start": is_since_start,
        "outranked": counts.outranked(),
        "spent": money(counts.spent),
        "highest_bid": shortfall.map(|it| it.bid.to_string()),
        "median_floor": shortfall.map(|it| it.floor.to_string()),
    });
    for step in FunnelStep::ALL {
        shown[step.label()] = match step {
            FunnelStep::Offered => (*offered).into(),
            step => counts.get(step).into(),
        };
    }
    shown
}

/// Which criteria a sample fails.
pub(super) fn mismatches(found: Option<&Mismatches>) -> Value {
    found
        .map(|Mismatches { impressions, matched, failed }| {
            let failed = failed.iter();
            let failed = failed.map(|(key, count)| json!({ "key": key, "impressions": count }));
            json!({
                "impressions": impressions,
                "matched": matched,
                "failed": failed.collect::<Value>(),
            })
        })
        .into()
}

/// Whether so few match that the criteria are worth a look.
pub(super) fn is_matchless(window: &FunnelWindow) -> bool {
    u64::from(window.counts.get(FunnelStep::Matched)) < window.offered / 10
}

/// Where most of its impressions of the last hour go. Nothing if it spends and loses few.
pub(super) fn cause(
    windows: &[FunnelWindow; 2],
    mismatches: Option<&Mismatches>,
    currency: Option<Currency>,
) -> Option<Cause> {
    let [hour, _] = windows;
    let span = if hour.is_since_start { "since the start" } else { "in the last hour" };
    let matched = hour.counts.get(FunnelStep::Matched);
    if hour.offered == 0 {
        let words = format!("no impression was offered to it {span}");
        let remedy = "see that requests come, and that they are answered: \
                      vickrey_exchange_auctions_total; just after a start, ask again";
        return Some(Cause::new("no_requests", words, remedy));
    }
    if matched == 0 {
        return Some(no_match((hour, span), mismatches));
    }
    let of = |step| hour.counts.get(step);
    use FunnelStep::{
        BelowFloor, Bid, Billed, Budget, Hours, Ledger, Outbid, Pace, Refused, Rejected, Won,
    };
    let unbilled = if of(Billed) == 0 { of(Won) } else { 0 };
    let losses = [
        (of(Hours), Loss::Hours),
        (of(Budget), Loss::Budget),
        (of(Pace), Loss::Pace),
        (of(Ledger), Loss::Ledger),
        (of(BelowFloor), Loss::BelowFloor),
        (hour.counts.outranked(), Loss::Outranked),
        (of(Outbid), Loss::Outbid),
        (of(Rejected), Loss::Rejected),
        (of(Refused), Loss::Refused),
        (unbilled, Loss::Unbilled),
    ];
    // Of those that are as large the first is named.
    let (count, loss) = losses.into_iter().rev().max_by_key(|(count, _)| *count)?;
    let is_much = of(Billed) == 0 || u64::from(count) * 2 > u64::from(matched);
    if count == 0 || !is_much {
        return (of(Billed) == 0).then(|| {
            let words = format!(
                "it bid for {} impressions {span}, and nothing has come of that yet",
                grouped(of(Bid).into())
            );
            Cause::new("pending", words, "ask again")
        });
    }
    let whole = if matches!(loss, Loss::Unbilled) { of(Won) } else { matched };
    let percent = u64::from(count) * 100 / u64::from(whole.max(1));
    Some(loss.cause((percent, whole, span), hour, currency))
}

fn no_match((hour, span): (&FunnelWindow, &str), mismatches: Option<&Mismatches>) -> Cause {
    let offered = grouped(hour.offered);
    let none = format!("none of the {offered} impressions that were offered {span} matched");
    let failed = mismatches.iter().flat_map(|found| found.failed.iter().filter(|it| it.1 > 0));
    let failed: Vec<String> =
        failed.take(3).map(|(key, count)| format!("{} fail `{key}`", grouped(*count))).collect();
    let sampled = mismatches.map_or(0, |found| found.impressions);
    if failed.is_empty() {
        let remedy = "compare its targeting and its creatives with the requests that come";
        return Cause::new("no_match", none, remedy);
    }
    let words = format!("{none}: of {} sampled, {}", grouped(sampled), failed.join(", "));
    let remedy = "widen what most fail, or remove it from the campaign";
    Cause::new("no_match", words, remedy)
}

/// Where impressions that were matched go.
#[derive(Clone, Copy)]
enum Loss {
    Hours,
    Budget,
    Pace,
    Ledger,
    BelowFloor,
    Outranked,
    Outbid,
    Rejected,
    Refused,
    Unbilled,
}

impl Loss {
    /// In words: `percent` of the `whole` impressions that it matched, or won.
    fn cause(
        self,
        (percent, whole, span): (u64, u32, &str),
        hour: &FunnelWindow,
        currency: Option<Currency>,
    ) -> Cause {
        let matched = format!(
            "{percent} % of the {} impressions that it matched {span}",
            grouped(whole.into())
        );
        let (reason, words, remedy) = match self {
            Self::Hours => {
                ("hours", format!("{matched} came outside of its hours"), "widen `hours`")
            }
            Self::Budget => (
                "budget",
                format!("of {matched}, a limit was used up"),
                "raise the limit that `levels` shows as used up",
            ),
            Self::Pace => (
                "pace",
                format!("{matched} were passed by, for its strategy spreads what it may spend"),
                "raise its limits, or choose the strategy `asap`",
            ),
            Self::Ledger => (
                "ledger",
                format!("for {matched} its shard had no rights to spend"),
                "just after a start or a definition that passes; else see /health/ready and the log",
            ),
            Self::BelowFloor => (
                "below_floor",
                below_floor(&matched, hour, currency),
                "raise `bid`, or target where floors are lower",
            ),
            Self::Outranked => (
                "outranked",
                format!("for {matched} other campaigns here bid more"),
                "raise `bid`, or exchange.house.bids_max",
            ),
            Self::Outbid => ("outbid", format!("{matched} were lost to other bids"), "raise `bid`"),
            Self::Rejected => (
                "rejected",
                format!("its bids for {matched} failed a check of the auction"),
                "`vickrey explain` names the check for each bid",
            ),
            Self::Refused => (
                "refused",
                format!("its bids for {matched} would have won, and its account did not pay"),
                "see its limits; many auctions at once may bid the same money",
            ),
            Self::Unbilled => (
                "unbilled",
                format!(
                    "it won {} impressions {span}, and none of them was billed",
                    grouped(whole.into())
                ),
                "ads are billed when their beacon is called: see that callers reach exchange.notices.url",
            ),
        };
        Cause::new(reason, words, remedy)
    }
}

fn below_floor(matched: &str, hour: &FunnelWindow, currency: Option<Currency>) -> String {
    let words = format!("its bids for {matched} were below the floor");
    let (Some(shortfall), Some(currency)) = (hour.shortfall, currency) else { return words };
    let shown = |price| Amount::of_thousand(price, currency);
    let (bid, floor) = (shown(shortfall.bid), shown(shortfall.floor));
    format!("{words}: highest bid {bid}, median floor {floor}, for 1000 impressions")
}
