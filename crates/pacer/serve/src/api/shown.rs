//! How accounts and campaigns are shown: money as decimal text, times as RFC 3339, refusals with the
//! field that is wrong.
//!
//! Owns the forms. Asks nobody.

use std::time::{Duration, SystemTime};

use pacer_core::calendar::QUARTER_MS;
use pacer_core::ledger::{Level, Owner, Span, Spend, Why};
use pacer_core::messages::Period;
use pacer_core::refusal::Refusal;
use pacer_core::store::{AuditEntry, AuditKey};
use runtime::admin::{ErrorCode, Reply, rfc3339};
use runtime::config::Problem;
use serde_json::{Value, json};
use units::{Currency, Nanos};

use super::asked::wrong;
use crate::registry::{Curve, Refused};

/// The reply to what was refused.
pub(super) fn refused(refused: &Refused) -> Reply {
    let (code, field) = match refused {
        Refused::Unknown { .. } => (ErrorCode::NotFound, "id"),
        Refused::KeyReused(_) => (ErrorCode::KeyReused, "idempotency-key"),
        Refused::OfFile { .. }
        | Refused::Exists { .. }
        | Refused::Removed { .. }
        | Refused::NoSeats(_) => (ErrorCode::Conflict, "id"),
        Refused::Stale { .. } => (ErrorCode::PreconditionFailed, "if-match"),
        Refused::Unavailable(_) => (ErrorCode::Unavailable, "body"),
        Refused::Invalid(problems) => return invalid(problems),
    };
    wrong(code, field, &refused.to_string())
}

fn invalid(problems: &[Problem]) -> Reply {
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

/// The ledger has not been told of it yet.
pub(super) fn not_told(id: &str) -> Reply {
    let message = format!("the ledger does not know `{id}` yet: ask again");
    wrong(ErrorCode::Unavailable, "id", &message)
}

fn time(unix_ms: u64) -> Value {
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms));
    at.map(rfc3339).into()
}

fn start_of(period: Period) -> Value {
    time(u64::from(period.0) * QUARTER_MS)
}

fn money(amount: Nanos) -> Value {
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
        "start": curve.map(|curve| time(curve.start_unix_ms)),
        "end": curve.map(|curve| time(curve.end_unix_ms)),
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

const fn owner(owner: Owner) -> &'static str {
    match owner {
        Owner::Campaign => "campaign",
        Owner::Account => "account",
    }
}

pub(super) fn why(id: &str, currency: Option<Currency>, why: &Why) -> Value {
    let code = currency.map(|currency| currency.code().to_owned());
    let levels = why.levels.iter().flatten().map(level).collect::<Value>();
    let hour = why.hour.map(|hour| {
        json!({
            "start": time(hour.start_unix_ms),
            "end": time(hour.end_unix_ms),
            "hour_of_week": hour.hour_of_week,
        })
    });
    let (start, end) = why.flight_unix_ms;
    json!({
        "id": id,
        "refusal": why.refusal.map(Refusal::label),
        "words": words(why, code.as_deref().unwrap_or_default()),
        "currency": code,
        "flight": { "start": time(start), "end": time(end) },
        "hour": hour,
        "levels": levels,
        "at_shards": money(why.at_shards),
        "ready": money(why.ready),
        "frozen": money(why.frozen),
        "store_failing": why.is_store_failing,
    })
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

/// Why, with the figures that make it so.
fn words(why: &Why, currency: &str) -> String {
    let Some(refusal) = why.refusal else {
        return "nothing keeps it from spending".to_owned();
    };
    let text = refusal.to_string();
    let shown = |at: u64| time(at).as_str().unwrap_or_default().to_owned();
    match refusal {
        Refusal::OutOfFlight => {
            let (start, end) = why.flight_unix_ms;
            format!("{text}: that is from {} to {}", shown(start), shown(end))
        }
        Refusal::BudgetExhausted | Refusal::DayExhausted | Refusal::HourExhausted => {
            let exhausted = |level: &&Level| {
                level.refusal() == refusal && level.headroom() == Some(Nanos::ZERO)
            };
            let Some(level) = why.levels.iter().flatten().find(exhausted) else { return text };
            let limit = level.limit.unwrap_or_default();
            format!(
                "{text}: of the {}'s {limit} {currency}, {} are spent or on their way, and {} are \
                 kept back for late wins",
                owner(level.owner),
                level.exposure(),
                level.holdback,
            )
        }
        Refusal::LedgerUnavailable if why.is_store_failing => {
            format!("{text}: its store takes nothing; the log says why")
        }
        _ => text,
    }
}

pub(super) fn audit(entries: &[(AuditKey, AuditEntry)], most: usize) -> Value {
    let shown = entries.iter().map(|(key, entry)| {
        let body: Value = serde_json::from_slice(&entry.body).unwrap_or_default();
        let mut shown = json!({ "key": key_text(key), "at": time(entry.at_unix_ms) });
        if let (Some(shown), Value::Object(body)) = (shown.as_object_mut(), body) {
            shown.extend(body.into_iter().filter(|(name, _)| name != "idempotency"));
        }
        shown
    });
    let shown: Vec<Value> = shown.collect();
    let next = entries.last().filter(|_| entries.len() == most).map(|(key, _)| key_text(key));
    json!({ "entries": shown, "next": next })
}

fn key_text(key: &AuditKey) -> String {
    format!("{}.{}.{}.{}", key.node, key.epoch.0, key.number, key.index)
}
