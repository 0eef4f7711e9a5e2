//! Accounts and campaigns: from files, through the API, and out of the store; their numbers and
//! versions; and who is told of them.
//!
//! Owns what is defined. Knows nothing of how money is granted, which it asks a [`LedgerDesk`] for,
//! nor of what a campaign shows and to whom, which are its [`Rules`].
//!
//! A change is judged, then durable, then the ledger's, then the exchange's. Changes are absolute, and
//! one comes after the other. A campaign of a file is changed in its file; what the API says of its
//! budgets and pauses holds over the file until the file says something else. What is removed keeps
//! its number, and what it spent counts on.

mod amounts;
mod books;
mod catalogue;
mod changes;
mod clocks;
mod cross;
mod definition;
mod desk;
mod edits;
mod files;
mod handle;
mod json;
mod keys;
mod nearest;
mod pacing;
mod read;
mod record;
mod refused;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;

use pacer_core::store::{AuditKey, Definition, DefinitionKey, Kind};
use runtime::config::Problem;
use serde_json::Value;
use tracing::error;

use books::{Books, Entry};
use catalogue::Bell;
use changes::{Becomes, Owed, Step};
use keys::{Keyed, Keys};
use read::Files;
use record::Record;

pub use catalogue::{Published, PublishedAccount, PublishedCampaign};
pub use definition::{Account, AccountFacts, Campaign, Rules};
pub use desk::{AccountOrder, CampaignOrder, Curve, CurvePoint, DeskError, LedgerDesk};
pub use edits::{Answered, Edit, Listing};
pub use files::FilesRead;
pub use pacing::{Forecast, Pacing};
pub use read::{check_body, check_text};
pub use refused::Refused;

/// Audit entries that are read at once when keys are looked for at a start.
const AUDIT_PAGE: u32 = 10_000;

/// How a registry works.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// What `campaigns` is relative to.
    pub folder: PathBuf,
    /// The files that define accounts and campaigns, as in `campaigns.d/*.toml`.
    pub campaigns: Option<String>,
    /// The time in milliseconds since 1970.
    pub clock: fn() -> u64,
}

/// Why a registry has not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Files have problems, and these are all of them.
    #[error("{} in the files of accounts and campaigns{}", counted(.0.len()), listed(.0))]
    Invalid(Vec<Problem>),
    /// An account that is kept cannot be read: money hangs on it.
    #[error("account `{id}` is kept in a form that this program cannot read{}", listed(problems))]
    Unreadable {
        /// Which.
        id: String,
        /// Why.
        problems: Vec<Problem>,
    },
    /// The ledger or its store does not answer.
    #[error(transparent)]
    Desk(#[from] DeskError),
    /// What is new cannot be kept.
    #[error("{0}")]
    NotKept(Refused),
    /// A thread cannot be started.
    #[error("the catalogue's thread cannot be started: {0}")]
    Thread(#[from] io::Error),
}

fn counted(count: usize) -> String {
    if count == 1 { "1 problem".to_owned() } else { format!("{count} problems") }
}

fn listed(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}

/// All accounts and campaigns. Dropped, it publishes no more.
pub struct Registry<R: Rules> {
    inner: Arc<Inner<R>>,
    publisher: Option<JoinHandle<()>>,
}

struct Inner<R> {
    desk: Arc<dyn LedgerDesk>,
    clock: fn() -> u64,
    books: RwLock<Books<R>>,
    /// Held by whoever changes something, until it is told.
    changing: Mutex<Changing<R>>,
    bell: Arc<Bell>,
}

/// What only changes need.
struct Changing<R> {
    files: Option<Files<R>>,
    keys: Keys,
    owed: Owed,
}

impl<R: Rules> Registry<R> {
    /// Reads what is kept and what files define, tells the ledger, and calls `publish` from a thread
    /// of its own: once, and after every change, those that come close together at once.
    ///
    /// # Errors
    ///
    /// When something of it cannot be read: nothing is changed then.
    pub fn start(
        desk: Arc<dyn LedgerDesk>,
        options: &RegistryOptions,
        mut publish: impl FnMut(Published<R>) + Send + 'static,
    ) -> Result<Self, StartError> {
        let books = kept(&*desk)?;
        let keys = keys_of(&*desk, (options.clock)())?;
        let pattern = options.campaigns.as_deref();
        let files = pattern.map(|pattern| Files::new(&options.folder, pattern));
        let bell = Arc::new(Bell::default());
        let inner = Arc::new(Inner {
            desk,
            clock: options.clock,
            books: RwLock::new(books),
            changing: Mutex::new(Changing { files, keys, owed: Owed::default() }),
            bell: Arc::clone(&bell),
        });
        inner.begin()?;
        let (told, mut number) = (Arc::clone(&inner), 0);
        let publisher = catalogue::start(Arc::clone(&bell), move || {
            number += 1;
            let published = told.books().published(number);
            publish(published);
        })?;
        bell.ring();
        Ok(Self { inner, publisher: Some(publisher) })
    }
}

impl<R: Rules> Drop for Registry<R> {
    fn drop(&mut self) {
        self.inner.bell.end();
        let ended = self.publisher.take().map(JoinHandle::join);
        if matches!(ended, Some(Err(_))) {
            error!("the catalogue's thread had panicked");
        }
    }
}

impl<R: Rules> Inner<R> {
    fn books(&self) -> std::sync::RwLockReadGuard<'_, Books<R>> {
        // What panicked was reading, or putting one whole entry in its place.
        self.books.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn changing(&self) -> MutexGuard<'_, Changing<R>> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the files for the first time, and tells the ledger of all there is.
    fn begin(&self) -> Result<(), StartError> {
        let mut changing = self.changing();
        self.read_files(&mut changing).map_err(|refused| match refused {
            Refused::Invalid(problems) => StartError::Invalid(problems),
            other => StartError::NotKept(other),
        })?;
        // Also of what has not changed, and was not told before.
        let mut owed = Owed::default();
        let mut books = self.books.write().unwrap_or_else(PoisonError::into_inner);
        let accounts: Vec<_> = books.accounts.keys().cloned().collect();
        accounts.iter().for_each(|id| owed.account(&mut books, id));
        let campaigns: Vec<_> = books.campaigns.keys().cloned().collect();
        campaigns.iter().for_each(|id| owed.campaign(&mut books, id));
        drop(books);
        changing.owed = owed;
        changing.owed.tell(&*self.desk)?;
        Ok(())
    }

    /// Makes steps durable, then tells the ledger, then everybody.
    fn commit(&self, changing: &mut Changing<R>, steps: Vec<Step<R>>) -> Result<(), Refused> {
        let at_unix_ms = (self.clock)();
        let owed = &mut changing.owed;
        let kept = changes::keep(&*self.desk, steps, at_unix_ms, |part| {
            let mut books = self.books.write().unwrap_or_else(PoisonError::into_inner);
            for Step { id, becomes, .. } in part {
                match becomes {
                    Becomes::Account(entry) => {
                        books.put_account(Arc::clone(&id), entry);
                        owed.account(&mut books, &id);
                    }
                    Becomes::Campaign(entry) => {
                        books.put_campaign(Arc::clone(&id), entry);
                        owed.campaign(&mut books, &id);
                    }
                }
            }
        });
        let told = changing.owed.tell(&*self.desk);
        self.bell.ring();
        kept?;
        told.map_err(|error| {
            error!(%error, "the ledger is not told of a change that is kept");
            let message = format!("it is kept, and holds once the ledger is told: {error}");
            Refused::Unavailable(message)
        })
    }
}

/// What the store keeps, as far as it can be read.
fn kept<R: Rules>(desk: &dyn LedgerDesk) -> Result<Books<R>, StartError> {
    let mut books = Books::new(desk.next_slot()?);
    for (key, definition) in desk.definitions(Kind::Account)? {
        let (id, version, record) = record_of(key, &definition)?;
        let in_force = record.in_force();
        let (account, _) = read::account(&in_force)
            .map_err(|problems| StartError::Unreadable { id: id.to_string(), problems })?;
        let entry = Entry { version, record, value: Some(Arc::new(account)) };
        books.put_account(id, entry);
    }
    let facts = books.facts(|_| true);
    for (key, definition) in desk.definitions(Kind::Campaign)? {
        let (id, version, record) = record_of(key, &definition)?;
        // Those of files are read from their files.
        let is_read = record.origin == record::Origin::Api && !record.is_removed;
        let value = is_read.then(|| read::campaign::<R>(&record.in_force(), &facts));
        let value = match value {
            None => None,
            Some(Ok((campaign, _))) => Some(Arc::new(campaign)),
            Some(Err(problems)) => {
                let listed = listed(&problems);
                error!(campaign = &*id, "is kept in a form that is not read, and rests{listed}");
                None
            }
        };
        books.put_campaign(id, Entry { version, record, value });
    }
    Ok(books)
}

fn record_of(
    key: DefinitionKey,
    definition: &Definition,
) -> Result<(Arc<str>, u64, Record), StartError> {
    let unreadable = || StartError::Unreadable { id: key.id.clone(), problems: Vec::new() };
    let record = Record::from_bytes(&definition.body).ok_or_else(unreadable)?;
    Ok((key.id.into(), definition.version, record))
}

/// The idempotency keys of the last day, out of the audit record.
fn keys_of(desk: &dyn LedgerDesk, now_unix_ms: u64) -> Result<Keys, StartError> {
    let mut keys = Keys::default();
    let mut after: Option<AuditKey> = None;
    loop {
        let page = desk.audit(after, AUDIT_PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(keys) };
        after = Some(*last);
        for (_, entry) in &page {
            if entry.at_unix_ms.saturating_add(keys::KEPT_MS) <= now_unix_ms {
                continue;
            }
            let Ok(mut body) = serde_json::from_slice::<Value>(&entry.body) else { continue };
            if let Some((keyed, answer)) = keyed_of(&mut body) {
                keys.keep(keyed, answer, entry.at_unix_ms);
            }
        }
    }
}

/// The key that an audit entry has, and what was answered.
fn keyed_of(body: &mut Value) -> Option<(Keyed, Value)> {
    let members = body.as_object_mut()?;
    let keyed = members.remove("idempotency")?;
    let text = |name: &str| keyed[name].as_str().map(str::to_owned);
    let keyed = Keyed { key: text("key")?, body: text("body")? };
    members.remove("action");
    members.remove("kind");
    Some((keyed, body.take()))
}
