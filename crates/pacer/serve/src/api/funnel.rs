//! A campaign's funnel as it is shown, and where most of its impressions go, in words with a remedy.
//!
//! Owns the forms, and which loss is named. What is counted is pacer-core's.

use pacer_core::funnel::{FunnelCounts, FunnelStep, FunnelWindow};
use serde_json::{Value, json};
use units::{Amount, Currency, Nanos, grouped};

use super::cause::Cause;
use super::exchange::Mismatches;
use super::shown::{money, pace_of, time};

/// Shown in full.
pub(super) fn shown(windows: Option<&[FunnelWindow; 2]>) -> Value {
    windows.map(|[hour, day]| json!({ "hour": window(hour), "day": window(day) })).into()
}

fn window(window: &FunnelWindow) -> Value {
    let FunnelWindow { since_unix_ms, is_since_start, is_cut, offered, counts, shortfall, .. } =
        window;
    let mut shown = json!({
        "since": time(*since_unix_ms),
        "since_start": is_since_start,
        "cut": is_cut,
        "outranked": counts.outranked(),
        "abandoned": counts.abandoned(),
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
    u64::from(window.counts.get(FunnelStep::Matched)) * 10 < window.offered
}

/// What a campaign has spent of what should be spent by now, where it follows a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) spent: Nanos,
    pub(super) expected: Nanos,
}

/// Where most of its impressions go: of the last hour, else of the last minutes. None if it bills many and
/// loses few.
pub(super) fn cause(
    windows: &[FunnelWindow; 2],
    mismatches: Option<&Mismatches>,
    (progress, currency): (Option<Progress>, Option<Currency>),
) -> Option<Cause> {
    let [hour, _] = windows;
    let span = if hour.is_since_start { "since the start" } else { "in the last hour" };
    if hour.offered == 0 {
        let words = format!("no impression was offered to it {span}");
        let remedy = "see that requests come, that they are answered (vickrey_exchange_auctions_total), \
                      that their `wseat` names its account or none, and that their publisher sells to \
                      the house; just after a start, ask again";
        return Some(Cause::new("no_requests", words, remedy));
    }
    if hour.counts.get(FunnelStep::Matched) == 0 {
        return Some(no_match((hour, span), mismatches));
    }
    if let Some(unbilled) = unbilled(hour, span) {
        return Some(unbilled);
    }
    if let Some(words) = progress.and_then(|progress| on_plan(progress, currency)) {
        return Some(Cause { reason: None, words, remedy: None });
    }
    let of = |loss: (Loss, u32), counts: &FunnelCounts, span| {
        let matched = counts.get(FunnelStep::Matched);
        let (loss, count) = loss;
        let percent = u64::from(count) * 100 / u64::from(matched.max(1));
        loss.cause((percent, matched, span), hour, currency)
    };
    if let Some(loss) = largest(&hour.counts).filter(|loss| is_much(*loss, &hour.counts)) {
        return Some(of(loss, &hour.counts, span));
    }
    let recent = &hour.recent;
    // What is won in the last minutes may be billed yet.
    let is_most =
        |loss: &(Loss, u32)| u64::from(loss.1) * 2 > u64::from(recent.get(FunnelStep::Matched));
    if let Some(loss) = largest(recent).filter(is_most) {
        return Some(of(loss, recent, "in the last minutes"));
    }
    (hour.counts.get(FunnelStep::Billed) == 0).then(|| {
        let (bids, won) = (hour.counts.get(FunnelStep::Bid), hour.counts.get(FunnelStep::Won));
        let words = format!(
            "it bid for {} impressions {span} and won {}, and none is billed yet",
            grouped(bids.into()),
            grouped(won.into())
        );
        Cause::new("pending", words, "ads are billed once they are shown: ask again")
    })
}

/// Wins of more than ten minutes ago, of which less than a quarter was billed.
fn unbilled(hour: &FunnelWindow, span: &str) -> Option<Cause> {
    let of = |counts: &FunnelCounts, step| u64::from(counts.get(step));
    let won = of(&hour.counts, FunnelStep::Won).saturating_sub(of(&hour.recent, FunnelStep::Won));
    let billed = of(&hour.counts, FunnelStep::Billed);
    if won == 0 || billed * 4 >= won {
        return None;
    }
    let billed = if billed == 0 { "none".to_owned() } else { grouped(billed) };
    let words = format!(
        "it won {} impressions {span}, more than ten minutes ago, and {billed} of its wins were billed",
        grouped(won)
    );
    let remedy =
        "ads are billed when their beacon is called: see that callers reach exchange.notices.url";
    Some(Cause::new("unbilled", words, remedy))
}

/// That what is spent is within a tenth of what should be.
fn on_plan(progress: Progress, currency: Option<Currency>) -> Option<String> {
    let Progress { spent, expected } = progress;
    if expected == Nanos::ZERO || pace_of(spent, expected) != "on" {
        return None;
    }
    let shown = |amount: Nanos| match currency {
        Some(currency) => Amount::new(amount, currency).to_string(),
        None => amount.to_string(),
    };
    let (spent, expected) = (shown(spent), shown(expected));
    Some(format!("it is on plan: {spent} are spent of {expected} that were planned by now"))
}

/// What most impressions that it matched were lost by. None if none was.
fn largest(counts: &FunnelCounts) -> Option<(Loss, u32)> {
    use FunnelStep::{
        BelowFloor, Budget, Hours, Ledger, Outbid, Pace, Refused, Rejected, Returned,
    };
    let of = |step| counts.get(step);
    let losses = [
        (Loss::Hours, of(Hours)),
        (Loss::Budget, of(Budget)),
        (Loss::Pace, of(Pace)),
        (Loss::Ledger, of(Ledger)),
        (Loss::BelowFloor, of(BelowFloor)),
        (Loss::Outranked, counts.outranked()),
        (Loss::Outbid, of(Outbid)),
        (Loss::Rejected, of(Rejected)),
        (Loss::Refused, of(Refused)),
        (Loss::Returned, of(Returned)),
        (Loss::Abandoned, counts.abandoned()),
    ];
    // Of those that are as large the first is named.
    losses.into_iter().rev().max_by_key(|(_, count)| *count).filter(|(_, count)| *count > 0)
}

/// Whether a loss is worth naming: it is most of what was matched, or little of that was won and billed.
fn is_much((_, lost): (Loss, u32), counts: &FunnelCounts) -> bool {
    let of = |step| u64::from(counts.get(step));
    let matched = of(FunnelStep::Matched);
    u64::from(lost) * 2 > matched || of(FunnelStep::Billed).max(of(FunnelStep::Won)) * 4 < matched
}

fn no_match((hour, span): (&FunnelWindow, &str), mismatches: Option<&Mismatches>) -> Cause {
    let offered = grouped(hour.offered);
    let none = format!("none of the {offered} impressions that were offered {span} matched");
    let failed = mismatches.iter().flat_map(|found| found.failed.iter().filter(|it| it.1 > 0));
    let failed: Vec<String> =
        failed.take(3).map(|(key, count)| format!("{} fail `{key}`", grouped(*count))).collect();
    let sampled = mismatches.map_or(0, |found| found.impressions);
    if let Some(found) = mismatches.filter(|found| found.matched > 0) {
        let (matched, sampled) = (grouped(found.matched), grouped(sampled));
        let words = format!("{none}, though {matched} of {sampled} sampled do: they were left out");
        let remedy = "raise `exchange.house.matches_max`, or ask again";
        return Cause::new("left_out", words, remedy);
    }
    if failed.is_empty() {
        let remedy = "compare its targeting and its creatives with the requests that come";
        return Cause::new("no_match", none, remedy);
    }
    let words = format!("{none}: of {} sampled, {}", grouped(sampled), failed.join(", "));
    let remedy = "widen what most fail, or remove it from the campaign";
    Cause::new("no_match", words, remedy)
}

/// Where impressions that were matched go.
#[derive(Clone, Copy, Debug)]
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
    Returned,
    Abandoned,
}

impl Loss {
    /// In words: `percent` of the `whole` impressions that it matched, or won.
    fn cause(
        self,
        (percent, matched, span): (u64, u32, &str),
        hour: &FunnelWindow,
        currency: Option<Currency>,
    ) -> Cause {
        let matched = format!(
            "{percent} % of the {} impressions that it matched {span}",
            grouped(matched.into())
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
                format!("for {matched} other campaigns here bid more, of its account or of others"),
                "raise `bid`, or lower that of its account's other campaigns: of an account only the \
                 best bid for an impression counts, and of others as many as exchange.house.bids_max",
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
            Self::Returned => (
                "returned",
                format!("its bids for {matched} were returned beside the winner"),
                "the caller's own auction chose others: raise `bid`",
            ),
            Self::Abandoned => (
                "abandoned",
                format!("the auctions of its bids for {matched} were abandoned, or go on"),
                "callers leave before they are answered: see vickrey_exchange_auctions_total, and tmax",
            ),
        };
        Cause::new(reason, words, remedy)
    }
}

fn below_floor(matched: &str, hour: &FunnelWindow, currency: Option<Currency>) -> String {
    let words = format!("its bids for {matched} were below the floor");
    let (Some(shortfall), Some(currency)) = (hour.shortfall, currency) else { return words };
    let shown = |price| Amount::of_thousand(price, currency);
    let [bid, floor] = shown(shortfall.bid).compared(shown(shortfall.floor));
    format!("{words}: highest bid {bid}, median floor {floor}, for 1000 impressions")
}
