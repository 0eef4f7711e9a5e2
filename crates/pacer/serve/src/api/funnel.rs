//! A campaign's funnel as shown, and its largest loss of impressions in words with a remedy.

use pacer_core::funnel::{FunnelCounts, FunnelStep, FunnelWindow};
use schemars::JsonSchema;
use serde::Serialize;
use units::{Amount, Currency, Nanos, grouped};

use super::exchange::Mismatches;
use super::shown::{AmountText, PaceWord, TimeText, money, pace_of, time};
use super::spend_cause::SpendCause;

/// The funnel of a campaign's impressions.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Funnel")]
pub(super) struct FunnelView {
    hour: WindowView,
    day: WindowView,
}

/// The funnel in one window. Each matched impression ends in one of hours to outranked, or in a
/// bid; each bid ends in one of outbid to won.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FunnelWindow")]
struct WindowView {
    /// Start of the window.
    since: Option<TimeText>,
    /// Whether the window begins with the process, because the process is younger.
    since_start: bool,
    /// Whether some hours are missing, because they did not fit the memory.
    cut: bool,
    /// Impressions offered to campaigns while it was defined, in flight and not paused.
    offered: u64,
    /// Impressions that its targeting accepts and that one of its creatives fits.
    matched: u32,
    /// Matched, but outside its hours.
    hours: u32,
    /// Matched, but a limit was used up.
    budget: u32,
    /// Matched, but skipped to keep its pace.
    pace: u32,
    /// Matched, but the shard had no grant.
    ledger: u32,
    /// Matched, but its bid would have been below the floor.
    below_floor: u32,
    /// Matched, but other direct campaigns bid more.
    outranked: u32,
    /// Bids.
    bid: u32,
    /// Bids that lost to higher ones.
    outbid: u32,
    /// Bids that failed a check of the auction.
    rejected: u32,
    /// Bids that would have won, but the account refused the reservation.
    refused: u32,
    /// Bids returned beside the winner.
    returned: u32,
    /// Bids whose auctions were abandoned or are still running.
    abandoned: u32,
    won: u32,
    billed: u32,
    /// Amount billed.
    spent: AmountText,
    /// The highest recent bid below the floor, for 1000 impressions; null if there was none in the
    /// last hour.
    highest_bid: Option<String>,
    /// The median of the floors that its bids missed.
    median_floor: Option<String>,
}

/// A campaign's criteria, each tested alone on a sample of impressions.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Mismatches")]
pub(super) struct MismatchesView {
    /// Number of impressions in the sample.
    impressions: u64,
    /// Number that meet all criteria.
    matched: u64,
    /// The criteria, most failures first.
    failed: Vec<MismatchView>,
}

/// A criterion and its failures.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Mismatch")]
struct MismatchView {
    /// The campaign's key; `seat` or `private_auction` if a request does not admit its account, or
    /// an impression is only for deals.
    key: &'static str,
    impressions: u64,
}

pub(super) fn shown([hour, day]: &[FunnelWindow; 2]) -> FunnelView {
    FunnelView { hour: window(hour), day: window(day) }
}

fn window(window: &FunnelWindow) -> WindowView {
    let FunnelWindow { since_unix_ms, is_since_start, is_cut, offered, counts, shortfall, .. } =
        window;
    let of = |step| counts.get(step);
    WindowView {
        since: time(*since_unix_ms),
        since_start: *is_since_start,
        cut: *is_cut,
        offered: *offered,
        matched: of(FunnelStep::Matched),
        hours: of(FunnelStep::Hours),
        budget: of(FunnelStep::Budget),
        pace: of(FunnelStep::Pace),
        ledger: of(FunnelStep::Ledger),
        below_floor: of(FunnelStep::BelowFloor),
        outranked: counts.outranked(),
        bid: of(FunnelStep::Bid),
        outbid: of(FunnelStep::Outbid),
        rejected: of(FunnelStep::Rejected),
        refused: of(FunnelStep::Refused),
        returned: of(FunnelStep::Returned),
        abandoned: counts.abandoned(),
        won: of(FunnelStep::Won),
        billed: of(FunnelStep::Billed),
        spent: money(counts.spent),
        highest_bid: shortfall.map(|it| it.bid.to_string()),
        median_floor: shortfall.map(|it| it.floor.to_string()),
    }
}

pub(super) fn mismatches(found: &Mismatches) -> MismatchesView {
    let Mismatches { impressions, matched, failed } = found;
    let failed =
        failed.iter().map(|(key, impressions)| MismatchView { key, impressions: *impressions });
    MismatchesView { impressions: *impressions, matched: *matched, failed: failed.collect() }
}

/// Whether so few impressions match that the criteria are worth a look.
pub(super) fn is_matchless(window: &FunnelWindow) -> bool {
    u64::from(window.counts.get(FunnelStep::Matched)) * 10 < window.offered
}

/// What a campaign has spent, and should have spent by now, if it follows a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlanProgress {
    pub(super) spent: Nanos,
    pub(super) expected: Nanos,
}

/// The largest loss of the last hour, else of the last minutes. None if the campaign bills many
/// impressions and loses few.
pub(super) fn cause(
    windows: &[FunnelWindow; 2],
    mismatches: Option<&Mismatches>,
    progress: Option<PlanProgress>,
    currency: Option<Currency>,
) -> Option<SpendCause> {
    let [hour, _] = windows;
    let span = if hour.is_since_start { "since the start" } else { "in the last hour" };
    if hour.offered == 0 {
        let words = format!("no impression was offered to it {span}");
        let remedy = "see that requests come, that they are answered (vickrey_exchange_auctions_total), \
                      that their `wseat` names its account or none, and that their publisher sells to \
                      direct campaigns; just after a start, ask again";
        return Some(SpendCause::new("no_requests", words, remedy));
    }
    if hour.counts.get(FunnelStep::Matched) == 0 {
        return Some(no_match(hour, span, mismatches));
    }
    if let Some(unbilled) = unbilled(hour, span) {
        return Some(unbilled);
    }
    if let Some(words) = progress.and_then(|progress| on_plan(progress, currency)) {
        return Some(SpendCause { reason: None, words, remedy: None });
    }
    if let Some(lost) = Lost::most(&hour.counts).filter(|lost| lost.is_much(&hour.counts)) {
        return Some(lost.cause(span, hour, currency));
    }
    // Wins of the last 10 to 20 minutes may still be billed.
    if let Some(lost) = Lost::most(&hour.recent).filter(Lost::is_most) {
        return Some(lost.cause("in the last 10 to 20 minutes", hour, currency));
    }
    (hour.counts.get(FunnelStep::Billed) == 0).then(|| {
        let (bids, won) = (hour.counts.get(FunnelStep::Bid), hour.counts.get(FunnelStep::Won));
        let words = format!(
            "it bid for {} impressions {span} and won {}, and none is billed yet",
            grouped(bids.into()),
            grouped(won.into())
        );
        SpendCause::new("pending", words, "ads are billed once they are shown: ask again")
    })
}

/// Wins from more than ten minutes ago, if less than a quarter of them was billed.
fn unbilled(hour: &FunnelWindow, span: &str) -> Option<SpendCause> {
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
    Some(SpendCause::new("unbilled", words, remedy))
}

fn on_plan(progress: PlanProgress, currency: Option<Currency>) -> Option<String> {
    let PlanProgress { spent, expected } = progress;
    if expected == Nanos::ZERO || pace_of(spent, expected) != PaceWord::On {
        return None;
    }
    let shown = |amount: Nanos| match currency {
        Some(currency) => Amount::new(amount, currency).to_string(),
        None => amount.to_string(),
    };
    let (spent, expected) = (shown(spent), shown(expected));
    Some(format!("it is on plan: {spent} spent of {expected} planned by now"))
}

#[derive(Clone, Copy, Debug)]
struct Lost {
    by: Loss,
    count: u32,
    whole: u32,
    /// Whether `whole` is what the pace let through, instead of all matched impressions.
    is_past_pace: bool,
}

impl Lost {
    /// The largest loss of matched impressions. If the pace let some through and nearly all of them
    /// were lost in one way, then that one: a faster pace would win no more. None if nothing was
    /// lost.
    fn most(counts: &FunnelCounts) -> Option<Self> {
        let matched = counts.get(FunnelStep::Matched);
        let most = Self::most_of(counts, matched, |_| true)?;
        if !matches!(most.by, Loss::Pace) {
            return Some(most);
        }
        let let_through = matched.saturating_sub(most.count);
        let past =
            Self::most_of(counts, let_through, |by| !matches!(by, Loss::Pace | Loss::Ledger));
        let past = past.map(|lost| Self { is_past_pace: true, ..lost });
        past.filter(|lost| u64::from(lost.count) * 10 >= u64::from(lost.whole) * 9).or(Some(most))
    }

    fn most_of(counts: &FunnelCounts, whole: u32, among: impl Fn(Loss) -> bool) -> Option<Self> {
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
        let losses = losses.into_iter().filter(|(by, count)| *count > 0 && among(*by));
        // The first of equal losses is named.
        let (by, count) = losses.rev().max_by_key(|(_, count)| *count)?;
        Some(Self { by, count, whole, is_past_pace: false })
    }

    fn is_most(&self) -> bool {
        u64::from(self.count) * 2 > u64::from(self.whole)
    }

    /// Whether it is most of the whole, or few matched impressions were won and billed.
    fn is_much(&self, counts: &FunnelCounts) -> bool {
        let of = |step| u64::from(counts.get(step));
        let won = of(FunnelStep::Billed).max(of(FunnelStep::Won));
        self.is_most() || won * 4 < of(FunnelStep::Matched)
    }

    fn cause(&self, span: &str, hour: &FunnelWindow, currency: Option<Currency>) -> SpendCause {
        let Self { by, count, whole, is_past_pace } = *self;
        let percent = u64::from(count) * 100 / u64::from(whole.max(1));
        let which = if is_past_pace { "its pace let through" } else { "it matched" };
        let whole = grouped(whole.into());
        let share = format!("{percent} % of the {whole} impressions that {which} {span}");
        by.cause(&share, hour, currency)
    }
}

fn no_match(hour: &FunnelWindow, span: &str, mismatches: Option<&Mismatches>) -> SpendCause {
    let offered = grouped(hour.offered);
    let none = format!("none of the {offered} impressions that were offered {span} matched");
    let failed = mismatches.iter().flat_map(|found| found.failed.iter().filter(|it| it.1 > 0));
    let failed: Vec<String> =
        failed.take(3).map(|(key, count)| format!("{} fail `{key}`", grouped(*count))).collect();
    let sampled = mismatches.map_or(0, |found| found.impressions);
    if let Some(found) = mismatches.filter(|found| found.matched > 0) {
        let (matched, sampled) = (grouped(found.matched), grouped(sampled));
        let words = format!(
            "{none}, though {matched} of {sampled} sampled impressions match: it was left out of auctions with too many matches"
        );
        let remedy = "raise `exchange.direct.matches_max`, or ask again";
        return SpendCause::new("left_out", words, remedy);
    }
    if failed.is_empty() {
        let remedy = "compare its targeting and its creatives with the requests that come";
        return SpendCause::new("no_match", none, remedy);
    }
    let words = format!("{none}: of {} sampled, {}", grouped(sampled), failed.join(", "));
    let remedy = "widen the criterion that most impressions fail, or remove it from the campaign";
    SpendCause::new("no_match", words, remedy)
}

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
    fn cause(self, share: &str, hour: &FunnelWindow, currency: Option<Currency>) -> SpendCause {
        let (reason, words, remedy) = match self {
            Self::Hours => ("hours", format!("{share} came outside of its hours"), "widen `hours`"),
            Self::Budget => (
                "budget",
                format!("of {share}, a limit was used up"),
                "raise the limit that `levels` shows as used up",
            ),
            Self::Pace => (
                "pace",
                format!("{share} were skipped, because its strategy spreads what it may spend"),
                "raise its limits or those of its account, or choose the strategy `asap`",
            ),
            Self::Ledger => (
                "ledger",
                format!("for {share} its shard had been granted nothing to spend"),
                "wait, if the exchange has just started or the campaign is new; else see /health/ready and the log",
            ),
            Self::BelowFloor => (
                "below_floor",
                below_floor(share, hour, currency),
                "raise `bid`, or target where floors are lower",
            ),
            Self::Outranked => (
                "outranked",
                format!("for {share} other campaigns here bid more, of its account or of others"),
                "raise `bid`, or lower that of its account's other campaigns: of an account only the \
                 best bid for an impression counts, and of others as many as exchange.direct.bids_max",
            ),
            Self::Outbid => ("outbid", format!("{share} were lost to other bids"), "raise `bid`"),
            Self::Rejected => (
                "rejected",
                format!("its bids for {share} failed a check of the auction"),
                "`vickrey explain` names the check for each bid",
            ),
            Self::Refused => (
                "refused",
                format!("its bids for {share} would have won, but its account refused them"),
                "see its limits; auctions at the same time may bid the same money",
            ),
            Self::Returned => (
                "returned",
                format!("its bids for {share} were returned beside the winner"),
                "the caller's own auction chose others: raise `bid`",
            ),
            Self::Abandoned => (
                "abandoned",
                format!(
                    "its bids for {share} were in auctions that were abandoned or are not over yet"
                ),
                "callers disconnect before they are answered: compare tmax with the latency, and see vickrey_exchange_auctions_total",
            ),
        };
        SpendCause::new(reason, words, remedy)
    }
}

fn below_floor(share: &str, hour: &FunnelWindow, currency: Option<Currency>) -> String {
    let words = format!("its bids for {share} were below the floor");
    let (Some(shortfall), Some(currency)) = (hour.shortfall, currency) else { return words };
    let shown = |price| Amount::of_thousand(price, currency);
    let [bid, floor] = shown(shortfall.bid).compared(shown(shortfall.floor));
    format!("{words}: highest bid {bid}, median floor {floor}, for 1000 impressions")
}
