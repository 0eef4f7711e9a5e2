//! How accounts and campaigns are shown: money as decimal text, times as RFC 3339, refusals with the
//! field that is wrong.
//!
//! Owns the forms. Asks nobody.

use std::time::{Duration, SystemTime};

use pacer_core::calendar::Hour;
use pacer_core::ledger::{Level, Owner, Span, Spend, Why};
use pacer_core::messages::Period;
use pacer_core::pacing::Curve;
use pacer_core::refusal::Refusal;
use pacer_core::store::{AuditEntry, AuditKey};
use runtime::admin::{ErrorCode, Reply, rfc3339};
use runtime::config::Problem;
use serde_json::{Value, json};
use units::{Currency, Nanos};

use super::asked::wrong;
use super::cause::{Cause, CauseInputs, RefusalText, nothing};
use super::exchange::ExchangeView;
use super::funnel::Progress;
use super::{funnel, pace};
use crate::handle::Delivery;
use crate::registry::{AccountStanding, CampaignStanding, Refused};

/// The reply to what was refused.
pub(super) fn refused(refused: &Refused) -> Reply {
    let (code, field) = match refused {
        Refused::Unknown { .. } => (ErrorCode::NotFound, "id"),
        Refused::KeyReused(_) => (ErrorCode::KeyReused, "idempotency-key"),
        Refused::OfFile { .. } | Refused::Exists { .. } | Refused::Removed { .. } => {
            (ErrorCode::Conflict, "id")
        }
        Refused::Stale { .. } => (ErrorCode::PreconditionFailed, "if-match"),
        Refused::Unavailable(_) => (ErrorCode::Unavailable, "body"),
        Refused::Invalid(problems) => return invalid(problems),
    };
    wrong(code, field, &refused.to_string())
}

/// The reply to problems, all of them.
pub(super) fn invalid(problems: &[Problem]) -> Reply {
    let noun = if problems.len() == 1 { "problem" } else { "problems" };
    let message = format!("{} {noun}; nothing was changed", problems.len());
    let listed: Value = problems
        .iter()
        .map(|it| json!({ "field": it.key, "value": it.value, "remedy": it.remedy }))
        .collect();
    let field = problems.first().map_or("", |first| &first.key);
    let members = json!({ "field": field, "problems": listed });
    Reply::error_with(ErrorCode::InvalidDefinition, &message, members)
}

/// Problems of files, with their places.
pub(super) fn problems(problems: &[Problem]) -> Value {
    let shown = |it: &Problem| {
        let Problem { file, line, column, key, value, remedy } = it;
        json!({
            "file": file, "line": line, "column": column,
            "key": key, "value": value, "remedy": remedy,
        })
    };
    problems.iter().map(shown).collect()
}

/// How far a campaign has come.
pub(super) fn delivery(delivery: Option<&Delivery>, currency: Option<Currency>) -> Value {
    let Some(delivery) = delivery else { return Value::Null };
    let Delivery { refusal, span: of, limit, spent, expected } = delivery;
    json!({
        "refusal": refusal.map(Refusal::label),
        "currency": currency.map(|currency| currency.code().to_owned()),
        "span": of.map(span),
        "limit": limit.map(money),
        "spent": money(*spent),
        "expected": expected.map(money),
        "pace": expected.map(|expected| pace_of(*spent, expected)),
    })
}

/// How what is spent compares with what should be: within a tenth it is on pace.
pub(super) const fn pace_of(spent: Nanos, expected: Nanos) -> &'static str {
    let (spent, expected) = (spent.get(), expected.get());
    let tenth = expected / 10;
    if spent < expected - tenth {
        "behind"
    } else if spent > expected.saturating_add(tenth) {
        "ahead"
    } else {
        "on"
    }
}

/// The ledger has not been told of it yet.
pub(super) fn not_told(id: &str) -> Reply {
    let message = format!("the ledger does not know `{id}` yet: ask again");
    wrong(ErrorCode::Unavailable, "id", &message)
}

pub(super) fn time(unix_ms: u64) -> Value {
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms));
    at.map(rfc3339).into()
}

fn start_of(period: Period) -> Value {
    time(period.start_unix_ms())
}

pub(super) fn money(amount: Nanos) -> Value {
    amount.to_string().into()
}

pub(super) fn spend(id: &str, spend: &Spend) -> Value {
    let hours = spend.hours.iter();
    let hours: Value = hours
        .map(|hour| json!({ "start": start_of(hour.period), "spent": money(hour.spent) }))
        .collect();
    json!({
        "id": id,
        "currency": spend.currency.code(),
        "hour": money(spend.now),
        "today": money(spend.today),
        "life": money(spend.life),
        "hours": hours,
    })
}

pub(super) fn curve(id: &str, currency: Option<Currency>, curve: Option<&Curve>) -> Value {
    let points = curve.iter().flat_map(|curve| &curve.points);
    let points: Value = points
        .map(|point| {
            json!({
                "at": time(point.at_unix_ms),
                "target": money(point.target),
                "spent": point.spent.map(money),
            })
        })
        .collect();
    json!({
        "id": id,
        "currency": currency.map(|currency| currency.code().to_owned()),
        "span": curve.map(|curve| span(curve.span)),
        "limit": curve.map(|curve| money(curve.limit)),
        "start": curve.map(|curve| time(curve.flight.start_ms)),
        "end": curve.map(|curve| time(curve.flight.end_ms)),
        "strategy": curve.map(|curve| curve.strategy),
        "points": points,
    })
}

const fn span(span: Span) -> &'static str {
    match span {
        Span::Life => "life",
        Span::Day => "day",
        Span::Hour => "hour",
    }
}

pub(super) const fn owner(owner: Owner) -> &'static str {
    match owner {
        Owner::Campaign => "campaign",
        Owner::Account => "account",
    }
}

pub(super) fn why(
    id: &str,
    standing: &CampaignStanding,
    delivery: Option<&Delivery>,
    exchange: &dyn ExchangeView,
) -> Value {
    let CampaignStanding { why, bidding, amount, currency, .. } = standing;
    let (start, end) = why.flight_unix_ms;
    let windows = exchange.funnel(standing.slot, why.flight_unix_ms);
    let is_matchless = windows.as_ref().is_some_and(|[hour, _]| funnel::is_matchless(hour));
    let mismatches = is_matchless.then(|| exchange.mismatches(standing.slot)).flatten();
    let progress =
        delivery.and_then(|it| Some(Progress { spent: it.spent, expected: it.expected? }));
    let (windows, mismatches) = (windows.as_ref(), mismatches.as_ref());
    let known = CauseInputs { standing, exchange, windows, mismatches, progress };
    let mut shown = figures(id, why, Cause::of(&known), *currency);
    shown["flight"] = json!({ "start": time(start), "end": time(end) });
    shown["pace"] = bidding.map(|bidding| pace::shown(&bidding, *amount, *currency)).into();
    shown["funnel"] = funnel::shown(windows);
    shown["mismatches"] = funnel::mismatches(mismatches);
    shown
}

pub(super) fn why_account(
    id: &str,
    standing: &AccountStanding,
    exchange: &dyn ExchangeView,
) -> Value {
    let AccountStanding { why, seats, campaigns, currency } = standing;
    let plain = |refusal: Option<Refusal>| {
        let words = refusal.map_or_else(nothing, |refusal| refusal.to_string());
        json!({ "refusal": refusal.map(Refusal::label), "words": words })
    };
    let cause = RefusalText::of(why, why.refusal, None).cause(*currency, exchange);
    let campaigns = campaigns.iter().map(|(refusal, count)| {
        let mut shown = plain(*refusal);
        shown["count"] = (*count).into();
        shown
    });
    let mut shown = figures(id, why, cause, *currency);
    shown["seats"] = seats.map(plain).into();
    shown["campaigns"] = campaigns.collect();
    shown
}

/// What is shown of a campaign and of an account alike.
fn figures<const LEVELS: usize>(
    id: &str,
    why: &Why<LEVELS>,
    cause: Cause,
    currency: Option<Currency>,
) -> Value {
    let Cause { reason, words, remedy } = cause;
    json!({
        "id": id,
        "reason": reason,
        "refusal": why.refusal.map(Refusal::label),
        "words": words,
        "remedy": remedy,
        "currency": currency.map(|currency| currency.code().to_owned()),
        "hour": hour(why.hour.as_ref()),
        "levels": why.levels.iter().flatten().map(level).collect::<Value>(),
        "at_shards": money(why.at_shards),
        "ready": money(why.ready),
        "frozen": money(why.frozen),
        "store_failing": why.is_store_failing,
    })
}

fn hour(hour: Option<&Hour>) -> Value {
    hour.map(|hour| {
        json!({
            "start": time(hour.start_unix_ms),
            "end": time(hour.end_unix_ms),
            "hour_of_week": hour.hour_of_week,
        })
    })
    .into()
}

fn level(level: &Level) -> Value {
    json!({
        "owner": owner(level.owner),
        "span": span(level.span),
        "limit": level.limit.map(money),
        "held": money(level.held),
        "late": money(level.late),
        "holdback": money(level.holdback),
        "exposure": money(level.exposure()),
        "headroom": level.headroom().map(money),
        "excess": money(level.excess()),
    })
}

pub(super) fn audit(entries: &[(AuditKey, AuditEntry)], is_more: bool) -> Value {
    let shown = entries.iter().map(|(key, entry)| {
        let body: Value = serde_json::from_slice(&entry.body).unwrap_or_default();
        let mut shown = json!({ "key": key_text(key), "at": time(entry.at_unix_ms) });
        if let (Some(shown), Value::Object(body)) = (shown.as_object_mut(), body) {
            shown.extend(body.into_iter().filter(|(name, _)| name != "idempotency"));
        }
        shown
    });
    let shown: Vec<Value> = shown.collect();
    let next = entries.last().filter(|_| is_more).map(|(key, _)| key_text(key));
    json!({ "entries": shown, "next": next })
}

fn key_text(key: &AuditKey) -> String {
    format!("{}.{}.{}.{}", key.node, key.epoch.0, key.number, key.index)
}
