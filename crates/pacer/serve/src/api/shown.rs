//! How accounts and campaigns are shown: money as decimal text, times as RFC 3339, refusals with
//! the wrong field. Owns the JSON forms.

use std::time::{Duration, SystemTime};

use pacer_core::calendar::{Period, QUARTER_MS};
use pacer_core::ledger::{HourSpend, LimitOwner, LimitSpan, Spend};
use pacer_core::pacing::{CurvePoint, PacingCurve};
use pacer_core::refusal::SpendRefusal;
use pacer_core::store::{AuditEntry, AuditKey};
use runtime::admin::{ErrorCode, ErrorField, Reply, rfc3339};
use runtime::config::ConfigProblem;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Map, Value};
use units::{Currency, Nanos};

use super::definitions;
use crate::ledger::handle::DeliveryProgress;
use crate::registry::{ChangeRefusal, DefinitionView};

impl From<ChangeRefusal> for Reply {
    fn from(refused: ChangeRefusal) -> Self {
        let (code, field) = match &refused {
            ChangeRefusal::Unknown { .. } => (ErrorCode::NotFound, "id"),
            ChangeRefusal::KeyReused(_) => (ErrorCode::KeyReused, "idempotency-key"),
            ChangeRefusal::OfFile { .. }
            | ChangeRefusal::OfLot(_)
            | ChangeRefusal::Exists { .. }
            | ChangeRefusal::Removed { .. } => (ErrorCode::Conflict, "id"),
            ChangeRefusal::Stale { .. } => (ErrorCode::PreconditionFailed, "if-match"),
            ChangeRefusal::Unavailable(_) => (ErrorCode::Unavailable, "body"),
            ChangeRefusal::Invalid(problems) => return invalid(problems),
        };
        wrong(code, field, &refused.to_string())
    }
}

pub(super) fn wrong(code: ErrorCode, field: &str, message: &str) -> Reply {
    Reply::error_with(code, message, ErrorField::at(field))
}

pub(super) fn invalid(problems: &[ConfigProblem]) -> Reply {
    let noun = if problems.len() == 1 { "problem" } else { "problems" };
    let message = format!("{} {noun}; nothing was changed", problems.len());
    let field = problems.first().map_or_else(String::new, |first| first.key.clone());
    let problems = problems.iter().cloned().map(FieldProblem::from).collect();
    let members = InvalidDefinition { field, problems };
    Reply::error_with(ErrorCode::InvalidDefinition, &message, members)
}

/// Error members for an invalid definition.
#[derive(Serialize, JsonSchema)]
pub(super) struct InvalidDefinition {
    /// The first invalid field.
    field: String,
    problems: Vec<FieldProblem>,
}

/// A problem of one field.
#[derive(Serialize, JsonSchema)]
struct FieldProblem {
    /// Dotted key of the body.
    field: String,
    /// The value as given, shortened.
    value: Option<String>,
    remedy: String,
}

impl From<ConfigProblem> for FieldProblem {
    fn from(ConfigProblem { key, value, remedy, .. }: ConfigProblem) -> Self {
        Self { field: key, value, remedy }
    }
}

/// An amount of money in the account's currency, exact to a billionth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "Money")]
pub(super) struct AmountText(#[schemars(regex(pattern = r"^[0-9]+(\.[0-9]{1,9})?$"))] String);

pub(super) fn money(amount: Nanos) -> AmountText {
    AmountText(amount.to_string())
}

/// A time in UTC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "Time", extend("format" = "date-time"))]
pub(super) struct TimeText(pub(super) String);

/// None if the calendar does not reach it.
pub(super) fn time(unix_ms: u64) -> Option<TimeText> {
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms));
    at.map(rfc3339).map(TimeText)
}

fn start_of(period: Period) -> Option<TimeText> {
    time(u64::from(period.0) * QUARTER_MS)
}

pub(super) fn code(currency: Option<Currency>) -> Option<String> {
    currency.map(|currency| currency.code().to_owned())
}

/// The current definition of an account.
#[derive(JsonSchema)]
#[schemars(rename = "Account")]
#[expect(dead_code, reason = "the form alone is used, by the API's document")]
pub(super) struct AccountView {
    #[schemars(flatten)]
    view: DefinitionView<'static>,
    #[schemars(schema_with = "definitions::account_reference")]
    definition: Value,
}

/// The current definition of a campaign.
#[derive(JsonSchema)]
#[schemars(rename = "Campaign")]
#[expect(dead_code, reason = "the form alone is used, by the API's document")]
pub(super) struct CampaignView {
    #[schemars(flatten)]
    view: DefinitionView<'static>,
    #[schemars(schema_with = "definitions::campaign_reference")]
    definition: Value,
    /// Only in lists that request it; null for removed campaigns, and if the ledger does not
    /// respond.
    #[schemars(skip_serializing_if = "Option::is_none", schema_with = "delivery_or_null")]
    delivery: Option<DeliveryView>,
}

/// Optional members of the document are never null, unless they say so.
fn delivery_or_null(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "oneOf": [generator.subschema_for::<DeliveryView>(), { "type": "null" }] })
}

/// A page of accounts, by id.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Accounts")]
pub(super) struct AccountPage {
    #[schemars(with = "Vec<AccountView>")]
    pub(super) accounts: Vec<Value>,
    #[serde(flatten)]
    pub(super) end: PageEnd,
}

/// A page of campaigns, by id.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Campaigns")]
pub(super) struct CampaignPage {
    #[schemars(with = "Vec<CampaignView>")]
    pub(super) campaigns: Vec<Value>,
    #[serde(flatten)]
    pub(super) end: PageEnd,
}

/// The end of every page of definitions.
#[derive(Serialize, JsonSchema)]
pub(super) struct PageEnd {
    /// The `after` parameter of the next page; null on the last page.
    #[schemars(with = "Option<String>")]
    pub(super) next: Option<Value>,
    /// Problems of the files of accounts and campaigns, if they were refused; their previous
    /// definitions stay in force.
    pub(super) refused_files: Vec<ConfigProblem>,
}

/// A campaign's spend compared with its plan.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Delivery")]
pub(super) struct DeliveryView {
    /// Why it does not spend, as in `why`.
    #[schemars(schema_with = "refusal_schema")]
    refusal: Option<&'static str>,
    currency: Option<String>,
    /// The limit that it follows, or the tightest of its own.
    span: Option<LimitSpanView>,
    limit: Option<AmountText>,
    /// Amount spent of the limit, or in total if there is no limit.
    spent: AmountText,
    /// Amount that should be spent by now.
    expected: Option<AmountText>,
    /// On pace means within a tenth of the expected spend.
    pace: Option<PaceWord>,
}

pub(super) fn delivery(delivery: &DeliveryProgress, currency: Option<Currency>) -> DeliveryView {
    let DeliveryProgress { refusal, span: of, limit, spent, expected } = delivery;
    DeliveryView {
        refusal: refusal.map(SpendRefusal::label),
        currency: code(currency),
        span: of.map(span),
        limit: limit.map(money),
        spent: money(*spent),
        expected: expected.map(money),
        pace: expected.map(|expected| pace_of(*spent, expected)),
    }
}

/// Spend compared with its plan: on pace means within a tenth of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Pace")]
pub(super) enum PaceWord {
    Behind,
    On,
    Ahead,
}

pub(super) const fn pace_of(spent: Nanos, expected: Nanos) -> PaceWord {
    let (spent, expected) = (spent.get(), expected.get());
    let tenth = expected / 10;
    if spent < expected - tenth {
        PaceWord::Behind
    } else if spent > expected.saturating_add(tenth) {
        PaceWord::Ahead
    } else {
        PaceWord::On
    }
}

/// The reply while the ledger does not have the definition yet.
pub(super) fn not_defined_yet(id: &str) -> Reply {
    let message = format!("the ledger does not know `{id}` yet: ask again");
    wrong(ErrorCode::Unavailable, "id", &message)
}

/// Amount spent, including late wins and overprices.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Spend")]
pub(super) struct SpendView {
    id: String,
    currency: String,
    /// In the current hour of the account's time zone.
    hour: AmountText,
    /// Today, in the account's time zone.
    today: AmountText,
    /// In total.
    life: AmountText,
    hours: Vec<HourView>,
}

/// An hour of today.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HourSpend")]
struct HourView {
    start: Option<TimeText>,
    /// Amount spent in it.
    spent: AmountText,
}

pub(super) fn spend(id: &str, spend: &Spend) -> SpendView {
    let hours = spend.hours.iter();
    let hour =
        |hour: &HourSpend| HourView { start: start_of(hour.period), spent: money(hour.spent) };
    SpendView {
        id: id.to_owned(),
        currency: spend.currency.code().to_owned(),
        hour: money(spend.now),
        today: money(spend.today),
        life: money(spend.life),
        hours: hours.map(hour).collect(),
    }
}

/// A campaign's spend and its target in the current flight; no points if there is no flight.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Curve")]
pub(super) struct CurveView {
    id: String,
    currency: Option<String>,
    /// The limit that the curve shows: the one that the campaign follows or, if that is hourly, the
    /// daily or total limit if there is one.
    span: Option<LimitSpanView>,
    /// That limit, less its holdback.
    limit: Option<AmountText>,
    start: Option<TimeText>,
    end: Option<TimeText>,
    strategy: Option<String>,
    points: Vec<PointView>,
}

/// A point of a curve.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CurvePoint")]
struct PointView {
    at: Option<TimeText>,
    /// Amount that should be spent by then.
    target: AmountText,
    /// Amount spent by then; null in the future.
    spent: Option<AmountText>,
}

pub(super) fn curve(
    id: &str,
    currency: Option<Currency>,
    curve: Option<&PacingCurve>,
) -> CurveView {
    let points = curve.iter().flat_map(|curve| &curve.points);
    let point = |point: &CurvePoint| PointView {
        at: time(point.at_unix_ms),
        target: money(point.target),
        spent: point.spent.map(money),
    };
    CurveView {
        id: id.to_owned(),
        currency: code(currency),
        span: curve.map(|curve| span(curve.span)),
        limit: curve.map(|curve| money(curve.limit)),
        start: curve.and_then(|curve| time(curve.flight.start_ms)),
        end: curve.and_then(|curve| time(curve.flight.end_ms)),
        strategy: curve.map(|curve| curve.strategy.to_owned()),
        points: points.map(point).collect(),
    }
}

/// The period of a limit.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Span")]
pub(super) enum LimitSpanView {
    Life,
    Day,
    Hour,
}

pub(super) const fn span(span: LimitSpan) -> LimitSpanView {
    match span {
        LimitSpan::Life => LimitSpanView::Life,
        LimitSpan::Day => LimitSpanView::Day,
        LimitSpan::Hour => LimitSpanView::Hour,
    }
}

pub(super) const fn owner(owner: LimitOwner) -> &'static str {
    match owner {
        LimitOwner::Campaign => "campaign",
        LimitOwner::Account => "account",
    }
}

pub(super) fn refusal_schema(_: &mut SchemaGenerator) -> Schema {
    let labels = SpendRefusal::ALL.map(SpendRefusal::label).into_iter().map(Value::from);
    let labels: Vec<Value> = labels.chain([Value::Null]).collect();
    json_schema!({ "enum": labels })
}

/// Changes, oldest first.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Audit")]
pub(super) struct AuditPage {
    entries: Vec<ChangeView>,
    /// The `after` parameter of the next page; null on the last page.
    next: Option<String>,
}

/// A change: what was done, and the definition after it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AuditEntry")]
struct ChangeView {
    key: String,
    at: Option<TimeText>,
    #[serde(flatten)]
    #[schemars(with = "ChangeBody")]
    body: Map<String, Value>,
}

/// The stored part of a change, as the registry writes it.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "the form alone is used, by the API's document")]
struct ChangeBody {
    #[schemars(extend("enum" = ["create", "change", "pause", "resume", "budget", "remove"]))]
    action: String,
    #[schemars(extend("enum" = ["account", "campaign"]))]
    kind: String,
    id: String,
    version: u64,
    definition: Map<String, Value>,
    slot: Option<u32>,
    file: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    removed: Option<bool>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    held: Option<Vec<String>>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    warnings: Option<Vec<String>>,
    /// Who made it: the name given in the request, `api` if none was given, or `files`.
    #[schemars(skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    /// Keys that differ from the previous definition; empty for the first.
    #[schemars(skip_serializing_if = "Option::is_none")]
    changes: Option<Vec<ChangedKey>>,
}

/// A key that differs from the previous definition.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "the form alone is used, by the API's document")]
struct ChangedKey {
    key: String,
    /// Null if the key was absent; long texts are shortened.
    before: Value,
    after: Value,
}

pub(super) fn audit(entries: &[(AuditKey, AuditEntry)], is_more: bool) -> AuditPage {
    let shown = |(key, entry): &(AuditKey, AuditEntry)| {
        let mut body: Map<String, Value> = serde_json::from_slice(&entry.body).unwrap_or_default();
        body.remove("idempotency");
        ChangeView { key: key_text(key), at: time(entry.at_unix_ms), body }
    };
    let next = entries.last().filter(|_| is_more).map(|(key, _)| key_text(key));
    AuditPage { entries: entries.iter().map(shown).collect(), next }
}

fn key_text(key: &AuditKey) -> String {
    format!("{}.{}.{}.{}", key.node, key.epoch.0, key.number, key.index)
}
