//! Applies judged changes: to the store, then to the ledger, then to everyone else.

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use pacer_core::definitions::difference::{KeyDifference, differences};
use pacer_core::definitions::keys::KeyedRequest;
use pacer_core::ledger::{DefinitionError, LedgerReply};
use pacer_core::store::{
    AuditEntry, CHANGE_BYTES_MAX, CHANGE_ITEMS_MAX, DefinitionChange, DefinitionKey, DefinitionPut,
    StoredDefinition, StoredKind,
};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tracing::{error, warn};

use super::definition::{DefinedAccount, DefinedCampaign};
use super::table::record::DefinitionRecord;
use super::table::{DefinitionEntry, DefinitionTable, view};
use crate::ledger::handle::{
    DefinitionReport, LedgerError, LedgerHandle, NamedAccount, PacedCampaign,
};
use crate::ledger::zones::Zones;

/// Bytes after which a change is split: a definition is stored twice, as itself and in the audit.
/// Small, because each thread on the way keeps the memory of its copy. A single definition may be
/// larger, up to the limit of a change.
const PART_BYTES: usize = CHANGE_BYTES_MAX / 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AuditAction {
    Create,
    Change,
    Pause,
    Resume,
    Budget,
    Remove,
}

pub(super) enum NewEntry<R> {
    Account(DefinitionEntry<DefinedAccount>),
    Campaign(DefinitionEntry<DefinedCampaign<R>>),
}

impl<R> NewEntry<R> {
    pub(super) fn entry(&self) -> (u64, &DefinitionRecord) {
        match self {
            Self::Account(entry) => (entry.version, &entry.record),
            Self::Campaign(entry) => (entry.version, &entry.record),
        }
    }
}

pub(super) struct DefinitionStep<R> {
    pub(super) id: Arc<str>,
    pub(super) becomes: NewEntry<R>,
    pub(super) action: AuditAction,
    pub(super) warnings: Vec<String>,
    pub(super) keyed: Option<KeyedRequest>,
    /// Who asked for it. None for files.
    pub(super) actor: Option<Arc<str>>,
}

impl<R> DefinitionStep<R> {
    pub(super) fn kind(&self) -> StoredKind {
        match &self.becomes {
            NewEntry::Account(_) => StoredKind::Account,
            NewEntry::Campaign(_) => StoredKind::Campaign,
        }
    }

    pub(super) fn by(&mut self, actor: Option<&str>) {
        if let Some(actor) = actor {
            self.actor = Some(actor.into());
        }
    }

    pub(super) fn answer(&self) -> Value {
        let (version, record) = self.becomes.entry();
        view(&self.id, version, record, &self.warnings)
    }

    /// `given` is the definition according to the record's origin.
    fn put(&self, given: &str) -> DefinitionPut {
        let (version, record) = self.becomes.entry();
        let key = DefinitionKey { kind: self.kind(), id: self.id.to_string() };
        let expected = Some(version - 1);
        DefinitionPut {
            key,
            expected,
            definition: StoredDefinition { version, body: record.to_bytes(given) },
        }
    }

    /// The audit entry. `before` is the definition that was in force, if any, and `after` the new.
    fn audit(&self, at_unix_ms: u64, before: Option<&str>, after: &str) -> AuditEntry {
        let (version, record) = self.becomes.entry();
        let body = AuditBody {
            action: self.action,
            actor: self.actor.as_deref().unwrap_or("files"),
            changes: before.map(|before| differences(before, after)).unwrap_or_default(),
            definition: serde_json::from_str(after).expect("it was written as an object"),
            file: record.origin.file().map(Path::to_string_lossy),
            held: record.overrides.keys().collect(),
            id: &self.id,
            idempotency: self
                .keyed
                .as_ref()
                .map(|KeyedRequest { key, body }| AuditKeyed { body, key }),
            kind: self.kind().label(),
            removed: record.is_removed,
            slot: record.slot.map(|slot| slot.0),
            version,
            warnings: &self.warnings,
        };
        // The differences are short, and few.
        let mut text = Vec::with_capacity(after.len() + AUDIT_BYTES_LIKELY);
        serde_json::to_writer(&mut text, &body).expect("it is JSON, and a vector takes all of it");
        AuditEntry { at_unix_ms, body: text }
    }
}

/// Bytes of most audit entries, without the definition.
const AUDIT_BYTES_LIKELY: usize = 400;

/// An audit entry, in the order of its keys: the definition as shown, and what was done.
#[derive(Serialize)]
struct AuditBody<'s> {
    action: AuditAction,
    actor: &'s str,
    changes: Vec<KeyDifference>,
    definition: &'s RawValue,
    file: Option<Cow<'s, str>>,
    held: Vec<&'s str>,
    id: &'s str,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency: Option<AuditKeyed<'s>>,
    kind: &'s str,
    removed: bool,
    slot: Option<u32>,
    version: u64,
    warnings: &'s [String],
}

#[derive(Serialize)]
struct AuditKeyed<'s> {
    body: &'s str,
    key: &'s str,
}

/// Most definitions sent to the ledger at once, to avoid a copy of all of them.
const DEFINITIONS_MAX: usize = 4_096;

/// Ids of definitions that the ledger does not have yet; their values are read when they are sent.
#[derive(Debug, Default)]
pub(super) struct LedgerBacklog {
    accounts: Vec<Arc<str>>,
    campaigns: Vec<Arc<str>>,
}

impl LedgerBacklog {
    pub(super) fn all<R>(definitions: &DefinitionTable<R>) -> Self {
        Self {
            accounts: definitions.accounts.keys().cloned().collect(),
            campaigns: definitions.campaigns.keys().cloned().collect(),
        }
    }

    pub(super) fn account(&mut self, id: &Arc<str>) {
        self.accounts.push(Arc::clone(id));
    }

    pub(super) fn campaign(&mut self, id: &Arc<str>) {
        self.campaigns.push(Arc::clone(id));
    }

    /// Sends the backlog. What cannot be sent now goes with the next change; refusals are dropped.
    pub(super) fn send<R>(
        &mut self,
        definitions: &RwLock<DefinitionTable<R>>,
        ledger: &LedgerHandle,
    ) -> Result<(), LedgerError> {
        let mut untaken = None;
        // Accounts come before all campaigns.
        while !self.accounts.is_empty() || !self.campaigns.is_empty() {
            let accounts = self.accounts.len().saturating_sub(DEFINITIONS_MAX);
            let campaigns = match accounts {
                0 => self.campaigns.len().saturating_sub(DEFINITIONS_MAX),
                _ => self.campaigns.len(),
            };
            let mut terms = LedgerTerms::of(
                definitions,
                &self.accounts[accounts..],
                &self.campaigns[campaigns..],
                &ledger.zones,
            );
            let refused = terms.refused.take();
            let defined = ledger.define(terms.accounts, terms.campaigns)?;
            untaken = untaken.or(refused).or(first_refused(&defined));
            self.accounts.truncate(accounts);
            self.campaigns.truncate(campaigns);
        }
        // The backlog at the start is the largest: release its memory.
        *self = Self::default();
        untaken.map_or(Ok(()), |first| Err(LedgerError::Rejected(first)))
    }
}

#[derive(Default)]
struct LedgerTerms {
    accounts: Vec<NamedAccount>,
    campaigns: Vec<PacedCampaign>,
    /// Why an account is left out: the first reason.
    refused: Option<String>,
}

impl LedgerTerms {
    fn of<R>(
        definitions: &RwLock<DefinitionTable<R>>,
        accounts: &[Arc<str>],
        campaigns: &[Arc<str>],
        zones: &Zones,
    ) -> Self {
        let mut definitions = definitions.write().unwrap_or_else(PoisonError::into_inner);
        let mut terms = Self::default();
        for id in accounts {
            // An account whose zone is gone still has seats, which wait for it.
            terms.campaigns.extend(definitions.paced_seats(id));
            match definitions.account_terms(id, zones).transpose() {
                Ok(definition) => {
                    let named = |terms| NamedAccount { name: Arc::clone(id), terms };
                    terms.accounts.extend(definition.map(named));
                }
                Err(error) => {
                    error!(%error, account = &**id, "the ledger is not told of an account");
                    terms.refused.get_or_insert(error.to_string());
                }
            }
        }
        terms.campaigns.extend(campaigns.iter().filter_map(|id| definitions.paced_campaign(id)));
        terms
    }
}

/// The first definition that the ledger refuses, although all were judged before: a defect.
fn first_refused(defined: &DefinitionReport) -> Option<String> {
    for (slot, why) in &defined.unpaced {
        warn!(slot = slot.0, %why, "a campaign's strategy goes on as it was");
    }
    let refused = |notice: &LedgerReply| -> Option<DefinitionError> {
        let (LedgerReply::Account(_, Err(refused)) | LedgerReply::Campaign(_, Err(refused))) =
            notice
        else {
            return None;
        };
        error!(%refused, ?notice, "the ledger refuses a definition that is kept");
        Some(*refused)
    };
    let all: Vec<_> = defined.notices.iter().filter_map(refused).collect();
    all.first().map(ToString::to_string)
}

pub(super) struct UncertainChange<R> {
    pub(super) steps: Vec<DefinitionStep<R>>,
    /// Time for the audit: if the steps are submitted again, they are the same to the byte.
    pub(super) at_unix_ms: u64,
}

/// The first steps that were not stored, and why. Later ones were not submitted.
pub(super) struct UnstoredSteps<R> {
    pub(super) steps: Vec<DefinitionStep<R>>,
    pub(super) error: LedgerError,
}

/// Makes steps durable: all of them, or those of the first parts. Calls `apply` with each
/// stored part.
/// `before` is the record that a step changes, while that is in force.
pub(super) fn store_steps<R>(
    ledger: &LedgerHandle,
    steps: Vec<DefinitionStep<R>>,
    at_unix_ms: u64,
    before: impl Fn(&DefinitionStep<R>) -> Option<DefinitionRecord>,
    mut apply: impl FnMut(Vec<DefinitionStep<R>>),
) -> Result<(), UnstoredSteps<R>> {
    let mut submit = |change, part| match ledger.change(change) {
        Ok(()) => {
            apply(part);
            Ok(())
        }
        Err(error) => Err(UnstoredSteps { steps: part, error }),
    };
    let (mut part, mut change, mut bytes) = (Vec::new(), DefinitionChange::default(), 0);
    let (mut given, mut given_before) = (String::new(), String::new());
    for step in steps {
        let (_, record) = step.becomes.entry();
        record.given.unpack(&mut given);
        let before = before(&step).inspect(|it| it.given.unpack(&mut given_before));
        let in_force_before = before.as_ref().map(|record| record.in_force_text(&given_before));
        let in_force = record.in_force_text(&given);
        let audit = step.audit(at_unix_ms, in_force_before.as_deref(), &in_force);
        let put = step.put(&given);
        let size = put.definition.body.len() + audit.body.len();
        if !part.is_empty() && (bytes + size > PART_BYTES || part.len() >= CHANGE_ITEMS_MAX) {
            submit(std::mem::take(&mut change), std::mem::take(&mut part))?;
            bytes = 0;
        }
        bytes += size;
        change.puts.push(put);
        change.audit.push(audit);
        part.push(step);
    }
    if part.is_empty() { Ok(()) } else { submit(change, part) }
}

#[cfg(test)]
mod tests {
    use pacer_core::definitions::overrides::FileOverrides;
    use pacer_core::messages::CampaignIndex;
    use pacer_core::refusal::SpendRefusal;
    use serde_json::json;

    use super::super::definition::AccountFacts;
    use super::super::testing::{PriceRules, StubLedger};
    use super::*;
    use crate::ledger::handle::LedgerQuery;
    use crate::ledger::turn::tests::fake::TestLedger;
    use crate::registry::table::record::{DefinitionRecord, RecordOrigin};
    use crate::registry::text::packed::pack;

    fn record(slot: Option<CampaignIndex>, account: &str) -> DefinitionRecord {
        let given = pack(&json!({ "account": account }).to_string());
        DefinitionRecord {
            slot,
            origin: RecordOrigin::Api,
            is_removed: false,
            given,
            overrides: FileOverrides::default(),
        }
    }

    fn account(id: &str, time_zone: &str) -> DefinitionEntry<DefinedAccount> {
        let value = DefinedAccount {
            id: id.to_owned(),
            facts: AccountFacts::unknown(),
            time_zone: time_zone.to_owned(),
            limits: Default::default(),
            late_holdback: Default::default(),
            is_paused: false,
            seats: Vec::new(),
        };
        DefinitionEntry { version: 1, record: record(None, ""), value: Some(value.into()) }
    }

    fn campaign(
        slot: u32,
        account: &str,
        version: u64,
    ) -> DefinitionEntry<DefinedCampaign<PriceRules>> {
        DefinitionEntry { version, record: record(Some(CampaignIndex(slot)), account), value: None }
    }

    #[test]
    fn what_is_refused_holds_up_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = TestLedger::first(folder.path(), 1);
        let definitions: RwLock<DefinitionTable<PriceRules>> = RwLock::default();
        let tell = |accounts: &[&str], campaigns: &[&str]| {
            let ids = |ids: &[&str]| ids.iter().map(|id| Arc::from(*id)).collect();
            let mut owed = LedgerBacklog { accounts: ids(accounts), campaigns: ids(campaigns) };
            owed.send(&definitions, &ledger.handle)
        };
        let put =
            |id: &str, campaign| definitions.write().unwrap().put_campaign(id.into(), campaign);
        // One unknown zone among valid accounts.
        for (id, zone) in [("a", "UTC"), ("b", "Nowhere/At_All"), ("c", "UTC")] {
            definitions.write().unwrap().put_account(id.into(), account(id, zone));
        }
        put("x", campaign(0, "a", 1));
        let told = tell(&["a", "b", "c"], &["x"]);
        assert!(matches!(&told, Err(LedgerError::Rejected(_))), "{told:?}");
        assert_ne!(ledger.why(0).refusal, Some(SpendRefusal::Unknown));
        // A campaign cannot change its account; the campaigns after it are taken.
        put("x", campaign(0, "c", 2));
        put("y", campaign(5, "c", 1));
        let told = tell(&[], &["x", "y"]);
        assert!(matches!(&told, Err(LedgerError::Rejected(_))), "{told:?}");
        assert_ne!(ledger.why(5).refusal, Some(SpendRefusal::Unknown));
        assert_eq!(ledger.handle.ask(LedgerQuery::NextSlot), Ok(CampaignIndex(6)));
        put("x", campaign(0, "a", 3));
        assert_eq!(tell(&[], &["x"]), Ok(()));
        ledger.close();
    }

    #[test]
    fn however_many_are_owed_all_are_told_and_never_too_many_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let stub = StubLedger::open(folder.path()).unwrap();
        let mut definitions: DefinitionTable<PriceRules> = DefinitionTable::default();
        for number in 0..=DEFINITIONS_MAX {
            let id = format!("account-{number}");
            definitions.put_account(id.as_str().into(), account(&id, "UTC"));
        }
        let many = 2 * DEFINITIONS_MAX + 1;
        for slot in 0..u32::try_from(many).unwrap() {
            let record = record(Some(CampaignIndex(slot)), "account-0");
            let id = format!("campaign-{slot}");
            definitions
                .put_campaign(id.into(), DefinitionEntry { version: 1, record, value: None });
        }
        let (mut owed, definitions) = (LedgerBacklog::all(&definitions), RwLock::new(definitions));
        stub.state().is_unresponsive = true;
        assert!(owed.send(&definitions, &stub.handle()).is_err());
        stub.state().is_unresponsive = false;
        assert_eq!(owed.send(&definitions, &stub.handle()), Ok(()));
        let told = stub.state();
        assert_eq!((told.accounts.len(), told.campaigns.len()), (DEFINITIONS_MAX + 1, many));
        assert!(told.at_once <= 2 * DEFINITIONS_MAX, "{} came at once", told.at_once);
        assert_eq!((owed.accounts.capacity(), owed.campaigns.capacity()), (0, 0));
    }
}
