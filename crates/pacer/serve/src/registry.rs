//! Accounts and campaigns from files, the API and the store, with their numbers and versions.
//!
//! Owns what is defined. Does not know how money is granted, which is the ledger's
//! ([`LedgerHandle`]), nor what a campaign shows to whom, which its [`CampaignRules`] say.
//!
//! A change is judged, then stored durably, then sent to the ledger, then published to the
//! exchange. Changes are absolute, and run one at a time. A file's campaign is changed in its file;
//! the API's changes of its budgets and pauses override the file until the file changes that key. A
//! removed definition keeps its number, and its spend still counts.

mod changes;
mod commit;
mod cross;
mod definition;
mod edits;
mod files;
mod read;
mod refused;
mod status;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod text;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use pacer_core::definitions::keys::{self, IdempotencyKeys, KeyedRequest};
use pacer_core::store::{AuditEntry, AuditKey, StoreQuery};
use runtime::builder::{Builder, Job, JobHandle};
use serde_json::Value;

use crate::ledger::handle::{LedgerError, LedgerHandle, LedgerQuery};
use changes::{LedgerBacklog, UncertainChange};
use read::{DefinitionFiles, LastReading};
use table::DefinitionTable;

pub use definition::{AccountFacts, CampaignRules, DefinedAccount, DefinedCampaign};
pub use edits::lots::LotBudget;
pub use edits::{ChangeOptions, DefinitionAnswer, DefinitionEdit, Listing};
pub use files::FilesRead;
pub use files::prepare::{CheckedFiles, PreparedRegistry, check_files};
pub use read::RegistryOptions;
pub use refused::{ChangeRefusal, RegistryStartError};
pub use status::{AccountStatus, CampaignStatus};
pub(crate) use table::DefinitionView;
pub use table::catalogue::{PublishedAccount, PublishedCampaign, PublishedCatalogue};
pub use text::members::{ReadJsonError, read_json};

/// Audit entries read at once when a start looks for idempotency keys.
const AUDIT_PAGE: u32 = 1_000;

/// All accounts and campaigns. Once dropped, it publishes nothing more.
pub struct Registry<R: CampaignRules> {
    inner: Arc<RegistryState<R>>,
    _publisher: Job,
}

struct RegistryState<R> {
    ledger: LedgerHandle,
    clock: fn() -> u64,
    late_wins_warning: Option<String>,
    definitions: RwLock<DefinitionTable<R>>,
    /// Locked during a change, until the ledger has it.
    changing: Mutex<ChangeState<R>>,
    publisher: OnceLock<JobHandle>,
    reading: Arc<Mutex<LastReading>>,
}

struct ChangeState<R> {
    files: Option<DefinitionFiles<R>>,
    keys: IdempotencyKeys,
    backlog: LedgerBacklog,
    /// A change of unknown outcome: it must be resolved before any other change.
    uncertain: Option<UncertainChange<R>>,
}

impl<R: CampaignRules> Registry<R> {
    /// Defines in the ledger what was read, and files that have changed since. Has `builder` call
    /// `publish` once, and after every change; changes in quick succession are published together.
    ///
    /// # Errors
    /// If the store or a file cannot be read: nothing is changed then.
    pub fn start_prepared(
        prepared: PreparedRegistry<R>,
        ledger: LedgerHandle,
        builder: &Builder,
        mut publish: impl FnMut(PublishedCatalogue<R>) + Send + 'static,
    ) -> Result<Self, RegistryStartError> {
        let PreparedRegistry { mut definitions, files, clock, late_wins_warning } = prepared;
        definitions.reserve_below(ledger.ask(LedgerQuery::NextSlot)?);
        let keys = keys_of(&ledger, clock())?;
        let reading =
            LastReading { is_failed: false, succeeded_unix_ms: clock(), problems: Vec::new() };
        let inner = Arc::new(RegistryState {
            ledger,
            clock,
            late_wins_warning,
            definitions: RwLock::new(definitions),
            changing: Mutex::new(ChangeState {
                files,
                keys,
                backlog: LedgerBacklog::default(),
                uncertain: None,
            }),
            publisher: OnceLock::new(),
            reading: Arc::new(Mutex::new(reading)),
        });
        inner.begin()?;
        let (state, mut number) = (Arc::clone(&inner), 0);
        let publisher = builder.add("catalogue", move || {
            number += 1;
            // The lock ends before `publish` runs.
            let published = state.definitions().published(number);
            publish(published);
            None
        });
        inner.publisher.get_or_init(|| publisher.handle());
        inner.publish_soon();
        Ok(Self { inner, _publisher: publisher })
    }
}

impl<R: CampaignRules> RegistryState<R> {
    /// Publishes soon. Changes before there is a publisher are in the first catalogue.
    fn publish_soon(&self) {
        if let Some(publisher) = self.publisher.get() {
            publisher.run_soon();
        }
    }

    fn definitions(&self) -> std::sync::RwLockReadGuard<'_, DefinitionTable<R>> {
        // A panic cannot leave an entry half written.
        self.definitions.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn changing(&self) -> MutexGuard<'_, ChangeState<R>> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> Result<(), RegistryStartError> {
        self.definitions().check_slots()?;
        let mut changing = self.changing();
        self.read_files(&mut changing).map_err(|refused| match refused {
            ChangeRefusal::Invalid(problems) => RegistryStartError::Invalid(problems),
            other => RegistryStartError::NotKept(other),
        })?;
        // Also what has not changed: the ledger does not have it yet.
        changing.backlog = LedgerBacklog::all(&self.definitions());
        match changing.backlog.send(&self.definitions, &self.ledger) {
            // It was logged; the ledger spends nothing of what it does not know.
            Ok(()) | Err(LedgerError::Rejected(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The last day's idempotency keys. Reads the audit backwards, to a page without recent entries.
fn keys_of(ledger: &LedgerHandle, now_unix_ms: u64) -> Result<IdempotencyKeys, RegistryStartError> {
    let is_recent =
        |entry: &AuditEntry| now_unix_ms < entry.at_unix_ms.saturating_add(keys::KEPT_MS);
    let (mut found, mut bytes) = (Vec::new(), 0);
    let (node, mut before): (u32, Option<AuditKey>) = (ledger.status().node, None);
    while found.len() < keys::KEYS_MAX && bytes < keys::ANSWER_BYTES_MAX {
        let page = ledger.audit(StoreQuery::AuditBefore(node, before, AUDIT_PAGE))?;
        let Some((last, _)) = page.last() else { break };
        before = Some(*last);
        if !page.iter().any(|(_, entry)| is_recent(entry)) {
            break;
        }
        for (_, entry) in page.into_iter().filter(|(_, entry)| is_recent(entry)) {
            let Ok(mut body) = serde_json::from_slice::<Value>(&entry.body) else { continue };
            if let Some(keyed) = keyed_of(&mut body) {
                bytes += entry.body.len();
                found.push((keyed, entry.at_unix_ms));
            }
        }
    }
    let mut keys = IdempotencyKeys::default();
    for ((keyed, answer), at_unix_ms) in found.into_iter().rev() {
        keys.remember(keyed, &answer, at_unix_ms);
    }
    Ok(keys)
}

fn keyed_of(body: &mut Value) -> Option<(KeyedRequest, Value)> {
    let members = body.as_object_mut()?;
    let keyed = members.remove("idempotency")?;
    let text = |name: &str| keyed[name].as_str().map(str::to_owned);
    let keyed = KeyedRequest { key: text("key")?, body: text("body")? };
    for name in ["action", "kind", "actor", "changes"] {
        members.remove(name);
    }
    Some((keyed, body.take()))
}
