//! Changes through the API, each judged as a whole definition. Knows nothing of HTTP.

pub(super) mod lots;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use pacer_core::definitions::amounts::LIMIT_KEYS;
use pacer_core::definitions::keys::{KeyLookup, KeyedRequest};
use pacer_core::definitions::overrides::{FileOverrides, merge};
use pacer_core::ledger::{BudgetLimits, CAMPAIGNS_MAX, Holdback, LimitSpan};
use pacer_core::messages::CampaignIndex;
use pacer_core::store::StoredKind;
use runtime::config::ConfigProblem;
use serde_json::{Map, Value, json};
use units::Amount;

use super::changes::{AuditAction, DefinitionStep, NewEntry};
use super::refused::ChangeRefusal;
use super::table::record::{DefinitionRecord, RecordOrigin};
use super::table::{DefinitionEntry, DefinitionTable, view};
use super::text::json::problem;
use super::text::packed;
use super::{CampaignRules, Registry, cross, read};

/// Most bytes that a list shows at once, unless a single definition is larger.
const PAGE_BYTES_MAX: usize = 8 << 20;

/// A change of an existing definition.
#[derive(Clone, Debug, PartialEq)]
pub enum DefinitionEdit {
    /// The whole definition.
    Replace(Map<String, Value>),
    /// Some of its keys, as a merge patch (RFC 7396).
    Merge(Map<String, Value>),
    /// Whether its spending is paused.
    Pause(bool),
    /// Any of `budget`, `daily_budget` and `hourly_budget`; `null` removes a limit.
    Budgets(Map<String, Value>),
    /// Removes it.
    Remove,
}

/// Answer to a change.
#[derive(Clone, Debug, PartialEq)]
pub struct DefinitionAnswer {
    /// Version of the definition, now.
    pub version: u64,
    /// The definition as the API shows it.
    pub view: Value,
}

/// Options of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeOptions<'o> {
    /// Idempotency key: a repeated request gets the first one's answer.
    pub key: Option<&'o str>,
    /// Version that must be in force.
    pub expected: Option<u64>,
    /// The actor, as the request names it.
    pub actor: Option<&'o str>,
    /// Judge the change and answer its result, but change nothing.
    pub is_dry_run: bool,
}

/// Which definitions are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Only ids after this one.
    pub after: Option<String>,
    /// Most definitions to list; fewer if they are large.
    pub most: usize,
    /// Only campaigns of this account.
    pub account: Option<String>,
    /// Whether removed definitions are listed too.
    pub with_removed: bool,
}

impl<R: CampaignRules> Registry<R> {
    /// Defines an account or a campaign.
    ///
    /// # Errors
    /// When nothing was changed, or it is unknown whether something was.
    pub fn create(
        &self,
        kind: StoredKind,
        body: &Map<String, Value>,
        options: &ChangeOptions<'_>,
    ) -> Result<DefinitionAnswer, ChangeRefusal> {
        let mut changing = self.inner.changing();
        self.inner.resolve_uncertain(&mut changing)?;
        let now = (self.inner.clock)();
        let asked = || format!("{kind:?} {}", Value::from(body.clone()));
        let key = options.key.filter(|_| !options.is_dry_run);
        let keyed = key.map(|key| KeyedRequest::new(key, &asked()));
        if let Some(keyed) = &keyed {
            match changing.keys.look(keyed, now) {
                KeyLookup::Fresh => (),
                KeyLookup::Reused => return Err(ChangeRefusal::KeyReused(keyed.key.clone())),
                KeyLookup::Answered(view) => return Ok(answered(view)),
            }
        }
        let mut step = self.judge(kind, None, AuditAction::Create, of_api(body))?;
        step.keyed = keyed;
        step.by(options.actor);
        let view = step.answer();
        if options.is_dry_run {
            return Ok(answered(view));
        }
        self.inner.commit(&mut changing, vec![step])?;
        Ok(answered(view))
    }

    /// Changes an existing definition.
    ///
    /// # Errors
    /// When nothing was changed, or it is unknown whether something was.
    pub fn edit(
        &self,
        kind: StoredKind,
        id: &str,
        edit: &DefinitionEdit,
        options: &ChangeOptions<'_>,
    ) -> Result<DefinitionAnswer, ChangeRefusal> {
        let mut changing = self.inner.changing();
        self.inner.resolve_uncertain(&mut changing)?;
        let (version, before) = self.record(kind, id)?;
        let (action, record) = apply_edit(kind, id, edit, &before)?;
        if let Some(given) = options.expected.filter(|given| *given != version) {
            return Err(ChangeRefusal::Stale { kind, id: id.to_owned(), given, present: version });
        }
        if let DefinitionEdit::Budgets(budgets) = edit {
            check_budgets(budgets)?;
        }
        let mut step = self.judge(kind, Some((id, &before)), action, record)?;
        step.by(options.actor);
        let (_, record) = step.becomes.entry();
        if *record == before {
            return Ok(answered(view(id, version, record, &[])));
        }
        let view = step.answer();
        if options.is_dry_run {
            return Ok(answered(view));
        }
        self.inner.commit(&mut changing, vec![step])?;
        Ok(answered(view))
    }

    /// Every problem of a definition by itself.
    pub fn problems(&self, kind: StoredKind, body: &Map<String, Value>) -> Vec<ConfigProblem> {
        let judged = match kind {
            StoredKind::Account => read::account(body).map(drop),
            StoredKind::Campaign => {
                let facts = self.inner.definitions().facts(|entry| !entry.record.is_removed);
                read::campaign::<R>(body, &facts).map(drop)
            }
        };
        judged.err().unwrap_or_default()
    }

    /// A definition as shown, and its version.
    ///
    /// # Errors
    /// [`ChangeRefusal::Unknown`].
    pub fn show(&self, kind: StoredKind, id: &str) -> Result<DefinitionAnswer, ChangeRefusal> {
        let view = self.inner.definitions().view(kind, id);
        view.map(answered).ok_or_else(|| unknown(kind, id))
    }

    /// Definitions as shown, in the order of their ids, and whether there are more.
    pub fn list(&self, kind: StoredKind, listing: &Listing) -> (Vec<Value>, bool) {
        let definitions = self.inner.definitions();
        let mut ids = match kind {
            StoredKind::Account => listed(&definitions.accounts, listing, |_| None),
            StoredKind::Campaign => {
                listed(&definitions.campaigns, listing, DefinitionEntry::account)
            }
        };
        let is_more = ids.len() > listing.most;
        ids.truncate(listing.most);
        let views = ids.iter().filter_map(|id| definitions.view(kind, id));
        let (views, is_cut) = fitting(views, PAGE_BYTES_MAX);
        (views, is_more || is_cut)
    }

    pub(super) fn record(
        &self,
        kind: StoredKind,
        id: &str,
    ) -> Result<(u64, DefinitionRecord), ChangeRefusal> {
        let definitions = self.inner.definitions();
        let found = definitions.record(kind, id).ok_or_else(|| unknown(kind, id))?;
        Ok((found.0, found.1.clone()))
    }

    /// Judges a whole record; `before` is the one that it replaces.
    pub(super) fn judge(
        &self,
        kind: StoredKind,
        before: Option<(&str, &DefinitionRecord)>,
        action: AuditAction,
        record: DefinitionRecord,
    ) -> Result<DefinitionStep<R>, ChangeRefusal> {
        let definitions = self.inner.definitions();
        let judged = match kind {
            StoredKind::Account => account(&definitions, before, record)?,
            StoredKind::Campaign => campaign(&definitions, before, record)?,
        };
        let JudgedDefinition { id, becomes, mut warnings, limits } = judged;
        drop(definitions);
        if let (Some(_), Some(limits)) = (before, limits) {
            warnings.extend(self.below_spent(kind, &id, &limits));
        }
        if let NewEntry::Account(DefinitionEntry { value: Some(account), .. }) = &becomes {
            let keeps_nothing = account.late_holdback == Holdback::default();
            let is_limited = account.limits != BudgetLimits::default();
            warnings.extend(
                self.inner.late_wins_warning.clone().filter(|_| is_limited && keeps_nothing),
            );
        }
        Ok(DefinitionStep { id, becomes, action, warnings, keyed: None, actor: Some("api".into()) })
    }

    /// Limits that are below what is spent. They take effect: nothing more is spent.
    fn below_spent(&self, kind: StoredKind, id: &str, limits: &BudgetLimits) -> Vec<String> {
        // A ledger that does not answer is reported by the change itself.
        let Ok(Some(spend)) = self.spend(kind, id) else { return Vec::new() };
        let below = LIMIT_KEYS.into_iter().filter_map(|(key, span)| {
            let (limit, spent) = (limits.of(span)?.amount, spend.of(span));
            (limit < spent).then(|| {
                let when = match span {
                    LimitSpan::Life => "in all",
                    LimitSpan::Day => "today",
                    LimitSpan::Hour => "in this hour",
                };
                let shown = |nanos| Amount::new(nanos, spend.currency);
                let [limit, spent] = shown(limit).compared(shown(spent));
                format!(
                    "{key}: {limit} is below the {spent} spent {when}: nothing more will be spent"
                )
            })
        });
        below.collect()
    }
}

struct JudgedDefinition<R> {
    id: Arc<str>,
    becomes: NewEntry<R>,
    warnings: Vec<String>,
    /// None if it is removed.
    limits: Option<BudgetLimits>,
}

fn account<R: CampaignRules>(
    definitions: &DefinitionTable<R>,
    before: Option<(&str, &DefinitionRecord)>,
    record: DefinitionRecord,
) -> Result<JudgedDefinition<R>, ChangeRefusal> {
    let (account, given) = lots::stored_account(&record).map_err(ChangeRefusal::Invalid)?;
    let id: Arc<str> = account.id.as_str().into();
    let entry = definitions.accounts.get(&id);
    let version = next_version(StoredKind::Account, &id, before, entry)?;
    let mut problems = Vec::new();
    if let Some((key, remedy)) = cross::changed_account(&account, entry) {
        problems.push(problem(key, None, remedy));
    }
    if let Some((seat, other)) = cross::taken_seat(&account, definitions) {
        let remedy = format!("names `{seat}`, as does account `{other}`: remove one");
        problems.push(problem("seats", None, remedy));
    }
    let next_slot = (!account.seats.is_empty()).then_some(definitions.next_slot);
    let record = finished(record, &given, next_slot, problems)?;
    let limits = Some(account.limits);
    let entry = DefinitionEntry { version, record, value: Some(Arc::new(account)) };
    Ok(JudgedDefinition { id, becomes: NewEntry::Account(entry), warnings: Vec::new(), limits })
}

fn campaign<R: CampaignRules>(
    definitions: &DefinitionTable<R>,
    before: Option<(&str, &DefinitionRecord)>,
    record: DefinitionRecord,
) -> Result<JudgedDefinition<R>, ChangeRefusal> {
    if let (true, Some((id, _))) = (record.is_removed, before) {
        let version = definitions.campaigns.get(id).map_or(1, |entry| entry.version + 1);
        let becomes = NewEntry::Campaign(DefinitionEntry { version, record, value: None });
        let (id, warnings) = (id.into(), Vec::new());
        return Ok(JudgedDefinition { id, becomes, warnings, limits: None });
    }
    // What was paid for a lot pays for nothing else.
    let is_lot = record.origin == RecordOrigin::Lot;
    let facts = definitions.facts(|entry| {
        !entry.record.is_removed && (is_lot || entry.record.origin != RecordOrigin::Lot)
    });
    let read = lots::stored_campaign::<R>(&record, &facts);
    let (campaign, given) = read.map_err(ChangeRefusal::Invalid)?;
    let id = Arc::clone(&campaign.id);
    let entry = definitions.campaigns.get(&id);
    let version = next_version(StoredKind::Campaign, &id, before, entry)?;
    let changed = cross::changed_campaign(&campaign, entry)
        .map(|remedy| problem("account", Some(format!("\"{}\"", campaign.account)), remedy));
    let problems = changed.into_iter().collect();
    let record = finished(record, &given, Some(definitions.next_slot), problems)?;
    let (limits, warnings) = (Some(campaign.budget.limits), campaign.notes.to_vec());
    let entry = DefinitionEntry { version, record, value: Some(Arc::new(campaign)) };
    Ok(JudgedDefinition { id, becomes: NewEntry::Campaign(entry), warnings, limits })
}

/// The record to store, with its number: `next_slot` if it needs one and has none.
fn finished(
    mut record: DefinitionRecord,
    given: &str,
    next_slot: Option<u32>,
    mut problems: Vec<ConfigProblem>,
) -> Result<DefinitionRecord, ChangeRefusal> {
    if record.slot.is_none() {
        record.slot = next_slot.map(CampaignIndex);
        if record.slot.is_some_and(|slot| slot.0 >= CAMPAIGNS_MAX) {
            problems.push(cross::too_many("id"));
        }
    }
    if !problems.is_empty() {
        return Err(ChangeRefusal::Invalid(problems));
    }
    if record.origin == RecordOrigin::Api {
        record.given = packed::pack(given);
    }
    Ok(record)
}

/// The version of a new record. If it replaces none, its id must be free.
fn next_version<T>(
    kind: StoredKind,
    id: &str,
    before: Option<(&str, &DefinitionRecord)>,
    entry: Option<&DefinitionEntry<T>>,
) -> Result<u64, ChangeRefusal> {
    if let Some((known, _)) = before.filter(|(known, _)| *known != id) {
        let remedy = format!("is another than the path's, \"{known}\": an id does not change");
        return Err(ChangeRefusal::Invalid(vec![problem("id", Some(format!("\"{id}\"")), remedy)]));
    }
    match entry {
        None => Ok(1),
        Some(entry) if before.is_some() => Ok(entry.version + 1),
        Some(entry) if entry.record.is_removed => {
            Err(ChangeRefusal::Removed { kind, id: id.to_owned() })
        }
        Some(DefinitionEntry { version, .. }) => {
            Err(ChangeRefusal::Exists { kind, id: id.to_owned(), version: *version })
        }
    }
}

fn apply_edit(
    kind: StoredKind,
    id: &str,
    edit: &DefinitionEdit,
    before: &DefinitionRecord,
) -> Result<(AuditAction, DefinitionRecord), ChangeRefusal> {
    let of_file = match &before.origin {
        RecordOrigin::Lot => return Err(ChangeRefusal::OfLot(id.to_owned())),
        RecordOrigin::File(file) if !before.is_removed => Some(file),
        _ => None,
    };
    let may_override_file = matches!(edit, DefinitionEdit::Pause(_) | DefinitionEdit::Budgets(_));
    if let Some(file) = of_file.filter(|_| !may_override_file) {
        return Err(ChangeRefusal::OfFile { id: id.to_owned(), file: file.to_path_buf() });
    }
    let may_follow_removal = matches!(edit, DefinitionEdit::Replace(_) | DefinitionEdit::Remove);
    if before.is_removed && !may_follow_removal {
        return Err(ChangeRefusal::Removed { kind, id: id.to_owned() });
    }
    Ok(match edit {
        DefinitionEdit::Replace(body) => {
            let mut body = body.clone();
            body.entry("id").or_insert_with(|| id.into());
            (AuditAction::Change, DefinitionRecord { slot: before.slot, ..of_api(&body) })
        }
        DefinitionEdit::Merge(patch) => (AuditAction::Change, merged(before, patch)),
        DefinitionEdit::Pause(is) => {
            let has = before.given().contains_key("paused");
            let is_paused = if *is || has { json!(is) } else { Value::Null };
            let patch = Map::from_iter([("paused".to_owned(), is_paused)]);
            let action = if *is { AuditAction::Pause } else { AuditAction::Resume };
            (action, overridden_or_merged(before, &patch))
        }
        DefinitionEdit::Budgets(budgets) => {
            (AuditAction::Budget, overridden_or_merged(before, budgets))
        }
        DefinitionEdit::Remove => {
            (AuditAction::Remove, DefinitionRecord { is_removed: true, ..before.clone() })
        }
    })
}

fn check_budgets(budgets: &Map<String, Value>) -> Result<(), ChangeRefusal> {
    let is_limit = |key: &str| LIMIT_KEYS.iter().any(|(known, _)| *known == key);
    let unknown = budgets.iter().filter(|(key, _)| !is_limit(key));
    let mut problems: Vec<_> = unknown
        .map(|(key, _)| {
            problem(key, None, "unknown key, write budget, daily_budget or hourly_budget")
        })
        .collect();
    if budgets.is_empty() {
        let remedy = "is missing: give budget, daily_budget or hourly_budget, null for no limit";
        problems.push(problem("budget", None, remedy));
    }
    if problems.is_empty() { Ok(()) } else { Err(ChangeRefusal::Invalid(problems)) }
}

fn merged(before: &DefinitionRecord, patch: &Map<String, Value>) -> DefinitionRecord {
    let mut given = before.given();
    merge(&mut given, patch);
    DefinitionRecord { given: packed::pack(&Value::from(given).to_string()), ..before.clone() }
}

/// Changes keys of an API definition, or overrides those of a file's.
fn overridden_or_merged(before: &DefinitionRecord, patch: &Map<String, Value>) -> DefinitionRecord {
    if before.origin == RecordOrigin::Api {
        return merged(before, patch);
    }
    let mut overrides = before.overrides.clone();
    overrides.set(&before.given(), patch);
    DefinitionRecord { overrides, ..before.clone() }
}

fn of_api(body: &Map<String, Value>) -> DefinitionRecord {
    DefinitionRecord {
        slot: None,
        origin: RecordOrigin::Api,
        is_removed: false,
        given: packed::pack(&Value::from(body.clone()).to_string()),
        overrides: FileOverrides::default(),
    }
}

/// Ids of the definitions to list, and one more if there are more.
fn listed<'b, T>(
    entries: &'b BTreeMap<Arc<str>, DefinitionEntry<T>>,
    listing: &Listing,
    account: impl Fn(&DefinitionEntry<T>) -> Option<Arc<str>>,
) -> Vec<&'b str> {
    let after = listing.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let is_wanted = |entry: &DefinitionEntry<T>| {
        (listing.with_removed || !entry.record.is_removed)
            && (listing.account.is_none()
                || account(entry).as_deref() == listing.account.as_deref())
    };
    let found = entries.range::<str, _>((after, Bound::Unbounded));
    let found = found.filter(|(_, entry)| is_wanted(entry)).map(|(id, _)| &**id);
    found.take(listing.most + 1).collect()
}

/// The first views that fit into `bytes_max`, at least one, and whether others were left out.
fn fitting(views: impl Iterator<Item = Value>, bytes_max: usize) -> (Vec<Value>, bool) {
    let (mut fitting, mut bytes) = (Vec::new(), 0);
    for view in views {
        bytes += view.to_string().len();
        if bytes > bytes_max && !fitting.is_empty() {
            return (fitting, true);
        }
        fitting.push(view);
    }
    (fitting, false)
}

fn answered(view: Value) -> DefinitionAnswer {
    DefinitionAnswer { version: view["version"].as_u64().unwrap_or(1), view }
}

pub(super) fn unknown(kind: StoredKind, id: &str) -> ChangeRefusal {
    ChangeRefusal::Unknown { kind, id: id.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_so_large() {
        let check = |bytes_max: usize, count: usize, is_cut: bool| {
            let (views, cut) = fitting((1..=4).map(|it| json!(it * 100)), bytes_max);
            assert_eq!((views.len(), cut), (count, is_cut), "{bytes_max}");
        };
        check(12, 4, false);
        check(11, 3, true);
        check(9, 3, true);
        check(8, 2, true);
        // A view that is larger than the limit is still shown.
        check(2, 1, true);
    }
}
