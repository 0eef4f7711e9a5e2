//! Accounts and campaigns: from files, through the API, and out of the store; their numbers and
//! versions; and who is told of them.
//!
//! Owns what is defined. Knows nothing of how money is granted, for which it asks the ledger by its [`LedgerHandle`],
//! nor of what a campaign shows and to whom, which are its [`CampaignRules`].
//!
//! A change is judged, then durable, then the ledger's, then the exchange's. Changes are absolute, and
//! one comes after the other. A campaign of a file is changed in its file; what the API says of its
//! budgets and pauses holds over the file until the file says something else. What is removed keeps
//! its number, and what it spent counts on.

mod books;
mod changes;
mod cross;
mod definition;
mod edits;
mod files;
mod read;
mod refused;
mod standing;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod text;
mod unsure;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use pacer_core::definitions::keys::{self, IdempotencyKeys, KeyedRequest};
use pacer_core::store::{AuditEntry, AuditKey, StoreQuery};
use runtime::builder::{Builder, Job, JobHandle};
use serde_json::Value;

use crate::ledger::handle::{LedgerError, LedgerHandle, LedgerQuery};
use books::DefinitionTable;
use changes::{LedgerBacklog, UncertainChange};
use read::{DefinitionFiles, LastReading};

pub use books::catalogue::{PublishedAccount, PublishedCampaign, PublishedCatalogue};
pub use definition::{AccountFacts, CampaignRules, DefinedAccount, DefinedCampaign};
pub use edits::{ChangeOptions, DefinitionAnswer, DefinitionEdit, Listing};
pub use files::FilesRead;
pub use files::prepare::{CheckedFiles, PreparedRegistry, check_files};
pub use read::{RegistryOptions, check_body, check_text};
pub use refused::{ChangeRefusal, RegistryStartError};
pub use standing::{AccountStanding, CampaignStanding};
pub use text::members::{ReadJsonError, read_json};

/// Audit entries that are read at once when keys are looked for at a start.
const AUDIT_PAGE: u32 = 1_000;

/// All accounts and campaigns. Dropped, it publishes no more.
pub struct Registry<R: CampaignRules> {
    inner: Arc<RegistryState<R>>,
    _publisher: Job,
}

struct RegistryState<R> {
    ledger: LedgerHandle,
    clock: fn() -> u64,
    late_wins: Option<String>,
    books: RwLock<DefinitionTable<R>>,
    /// Held by whoever changes something, until it is told.
    changing: Mutex<ChangeState<R>>,
    /// Set once it is there.
    publisher: OnceLock<JobHandle>,
    reading: Arc<LastReading>,
}

/// What only changes need.
struct ChangeState<R> {
    files: Option<DefinitionFiles<R>>,
    keys: IdempotencyKeys,
    owed: LedgerBacklog,
    /// What may be kept, or not: nothing else is changed before that is known.
    unsure: Option<UncertainChange<R>>,
}

impl<R: CampaignRules> Registry<R> {
    /// Reads what is kept and what files define, tells the ledger, and has `builder` call `publish`:
    /// once, and after every change, those that come close together at once.
    ///
    /// # Errors
    ///
    /// When something of it cannot be read: nothing is changed then.
    pub fn start(
        ledger: LedgerHandle,
        options: &RegistryOptions,
        builder: &Builder,
        publish: impl FnMut(PublishedCatalogue<R>) + Send + 'static,
    ) -> Result<Self, RegistryStartError> {
        let prepared = PreparedRegistry::read(options, |kind| ledger.definitions(kind))?;
        Self::start_prepared(prepared, ledger, builder, publish)
    }

    /// The same with what was read before the ledger had begun. Files that have changed meanwhile
    /// are read again.
    ///
    /// # Errors
    ///
    /// When something of it cannot be read: nothing is changed then.
    pub fn start_prepared(
        prepared: PreparedRegistry<R>,
        ledger: LedgerHandle,
        builder: &Builder,
        mut publish: impl FnMut(PublishedCatalogue<R>) + Send + 'static,
    ) -> Result<Self, RegistryStartError> {
        let PreparedRegistry { mut books, files, clock, late_wins } = prepared;
        books.leased(ledger.ask(LedgerQuery::NextSlot)?);
        let keys = keys_of(&ledger, clock())?;
        let inner = Arc::new(RegistryState {
            ledger,
            clock,
            late_wins,
            books: RwLock::new(books),
            changing: Mutex::new(ChangeState {
                files,
                keys,
                owed: LedgerBacklog::default(),
                unsure: None,
            }),
            publisher: OnceLock::new(),
            reading: Arc::new(LastReading::succeeded(clock())),
        });
        inner.begin()?;
        let (told, mut number) = (Arc::clone(&inner), 0);
        let publisher = builder.add("catalogue", move || {
            number += 1;
            // The books are not held while it is taken.
            let published = told.books().published(number);
            publish(published);
            None
        });
        inner.publisher.get_or_init(|| publisher.handle());
        inner.publish_soon();
        Ok(Self { inner, _publisher: publisher })
    }
}

impl<R: CampaignRules> RegistryState<R> {
    /// Something has changed. What changes before there is a publisher is in the first catalogue.
    fn publish_soon(&self) {
        if let Some(publisher) = self.publisher.get() {
            publisher.run_soon();
        }
    }

    fn books(&self) -> std::sync::RwLockReadGuard<'_, DefinitionTable<R>> {
        // What panicked was reading, or putting one whole entry in its place.
        self.books.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn changing(&self) -> MutexGuard<'_, ChangeState<R>> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the files for the first time, and tells the ledger of all there is.
    fn begin(&self) -> Result<(), RegistryStartError> {
        self.books().check_slots()?;
        let mut changing = self.changing();
        self.read_files(&mut changing).map_err(|refused| match refused {
            ChangeRefusal::Invalid(problems) => RegistryStartError::Invalid(problems),
            other => RegistryStartError::NotKept(other),
        })?;
        // Also of what has not changed, and was not told before.
        changing.owed = LedgerBacklog::all(&self.books());
        match changing.owed.tell(&self.books, &self.ledger) {
            // It was logged, and the rest goes on: what the ledger does not know spends nothing.
            Ok(()) | Err(LedgerError::Untaken(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The idempotency keys of the last day, out of the end of the audit record: it is read backwards, to the
/// first page that has nothing of that day.
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
        keys.keep(keyed, &answer, at_unix_ms);
    }
    Ok(keys)
}

/// The key that an audit entry has, and what was answered.
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
