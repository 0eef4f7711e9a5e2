//! Compares the files with the known definitions. Files with any problem change nothing.

pub(super) mod prepare;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pacer_core::definitions::overrides::FileOverrides;
use pacer_core::ledger::CAMPAIGNS_MAX;
use pacer_core::messages::CampaignIndex;
use runtime::builder::Builder;
use runtime::config::ConfigProblem;
use runtime::config::reload::{Hangup, Reload, Trigger, WatchedFiles};
use runtime::control::Control;
use runtime::metrics::Exposition;
use runtime::shutdown::Shutdown;
use tracing::{info, warn};

use super::changes::{AuditAction, DefinitionStep, NewEntry};
use super::read::{
    self, DefinitionFiles, FileDefinition, FileDefinitions, KnownAccounts, LastReading,
};
use super::refused::ChangeRefusal;
use super::table::record::{DefinitionRecord, RecordOrigin};
use super::table::{DefinitionEntry, DefinitionTable};
use super::{CampaignRules, ChangeState, Registry, RegistryState, cross};

/// When files are read again if it is unknown whether their definitions were stored.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Result of reading the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilesRead {
    /// Definitions that are new, or had been removed.
    pub created: usize,
    /// Definitions that have changed.
    pub changed: usize,
    /// Definitions that are no longer in any file.
    pub removed: usize,
}

impl<R: CampaignRules> Registry<R> {
    /// Reads the files that have changed, and puts all in force if none has a problem.
    ///
    /// # Errors
    /// If nothing has changed, or not all could be stored.
    pub fn reload(&self) -> Result<FilesRead, ChangeRefusal> {
        let read = self.inner.read_again();
        self.inner.note(&read);
        read
    }

    /// Has the builder read the files again at SIGHUP and, every `interval`, if they have changed;
    /// an interval of zero does not look. Ends when `shutdown` begins or the result is dropped.
    ///
    /// # Errors
    /// If the signal handler cannot be set up.
    pub fn follow_files(
        self: &Arc<Self>,
        interval: Duration,
        control: &Control,
        builder: &Builder,
        shutdown: &Shutdown,
    ) -> io::Result<Reload> {
        let hangup = Hangup::catch(control)?;
        let inner = Arc::clone(&self.inner);
        let watched = move |inner: &RegistryState<R>, retry_after| {
            // Problems were logged. What was read is watched either way.
            WatchedFiles { sources: inner.sources(), interval, retry_after }
        };
        let first = watched(&inner, None);
        Ok(Reload::start(builder, hangup, first, shutdown, move |trigger| {
            let read = inner.read_again();
            let is_known = !matches!(read, Err(ChangeRefusal::Unavailable(_)));
            // A retry that fails again was logged the first time.
            if is_known || trigger != Trigger::Retry {
                inner.note(&read);
            }
            watched(&inner, (!is_known).then_some(RETRY_INTERVAL))
        }))
    }
}

impl<R: CampaignRules> Registry<R> {
    /// Problems of the files as last read, if these are why they are not in force; the earlier
    /// definitions are. Empty after a success.
    pub fn refused_files(&self) -> Vec<ConfigProblem> {
        locked(&self.inner.reading).problems.clone()
    }

    /// Adds metrics of reading the files.
    pub fn expose(&self, exposition: &mut Exposition) {
        let reading = Arc::clone(&self.inner.reading);
        exposition.add(move |page| {
            let LastReading { is_failed, succeeded_unix_ms, ref problems } = *locked(&reading);
            let problems = i64::try_from(problems.len()).unwrap_or(i64::MAX);
            let help =
                "Problems in the refused files of accounts and campaigns; 0 if the files are in force.";
            page.gauges("campaign_files_problems", help)?.value(&[], problems)?;
            let help = "Whether the last attempt to read the files of campaigns succeeded.";
            page.gauges("campaign_files_last_reload_successful", help)?
                .value(&[], i64::from(!is_failed))?;
            let help = "When the files of campaigns were last read with success, since 1970.";
            page.gauges("campaign_files_last_reload_success_timestamp_seconds", help)?
                .seconds(&[], Duration::from_millis(succeeded_unix_ms))
        });
    }
}

fn locked(reading: &Mutex<LastReading>) -> MutexGuard<'_, LastReading> {
    reading.lock().unwrap_or_else(PoisonError::into_inner)
}

fn log(read: &Result<FilesRead, ChangeRefusal>) {
    match read {
        Ok(FilesRead { created, changed, removed }) => {
            info!(created, changed, removed, "the files of accounts and campaigns were read");
        }
        Err(ChangeRefusal::Invalid(problems)) => {
            let count = problems.len();
            warn!(problems = count, "the files of accounts and campaigns are refused");
            problems.iter().for_each(|problem| warn!("{problem}"));
        }
        Err(refused) => warn!("the files of accounts and campaigns: {refused}"),
    }
}

impl<R: CampaignRules> RegistryState<R> {
    fn read_again(&self) -> Result<FilesRead, ChangeRefusal> {
        let mut changing = self.changing();
        self.resolve_uncertain(&mut changing)?;
        let read = self.read_files(&mut changing)?;
        changing.backlog.send(&self.definitions, &self.ledger).map_err(|error| {
            let message = format!("they are kept, and hold once the ledger is told: {error}");
            ChangeRefusal::Unavailable(message)
        })?;
        Ok(read)
    }

    fn note(&self, read: &Result<FilesRead, ChangeRefusal>) {
        log(read);
        let mut reading = locked(&self.reading);
        reading.is_failed = read.is_err();
        match read {
            Ok(_) => {
                reading.problems.clear();
                reading.succeeded_unix_ms = (self.clock)();
            }
            Err(ChangeRefusal::Invalid(problems)) => reading.problems.clone_from(problems),
            // They may be in force.
            Err(_) => (),
        }
    }

    fn sources(&self) -> runtime::config::Sources {
        self.changing().files.as_ref().map(DefinitionFiles::sources).unwrap_or_default()
    }

    pub(super) fn read_files(
        &self,
        changing: &mut ChangeState<R>,
    ) -> Result<FilesRead, ChangeRefusal> {
        let planned = planned(changing.files.as_mut(), &self.definitions());
        let PlannedChanges { steps, same } = planned.map_err(ChangeRefusal::Invalid)?;
        self.update_unchanged(same);
        let count = |action| steps.iter().filter(|step| step.action == action).count();
        let read = FilesRead {
            created: count(AuditAction::Create),
            changed: count(AuditAction::Change),
            removed: count(AuditAction::Remove),
        };
        if !steps.is_empty() {
            self.commit(changing, steps)?;
        }
        Ok(read)
    }

    /// Keeps unchanged definitions as now read.
    fn update_unchanged(&self, same: Vec<UnchangedCampaign<R>>) {
        if same.is_empty() {
            return;
        }
        let mut definitions = self.definitions.write().unwrap_or_else(PoisonError::into_inner);
        for (id, entry) in same {
            definitions.put_campaign(id, entry);
        }
    }
}

type UnchangedCampaign<R> = (Arc<str>, DefinitionEntry<super::DefinedCampaign<R>>);

pub(super) struct PlannedChanges<R> {
    steps: Vec<DefinitionStep<R>>,
    same: Vec<UnchangedCampaign<R>>,
}

/// Reads the files, and validates them against the known definitions.
pub(super) fn planned<R: CampaignRules>(
    files: Option<&mut DefinitionFiles<R>>,
    definitions: &DefinitionTable<R>,
) -> Result<PlannedChanges<R>, Vec<ConfigProblem>> {
    let of_api = definitions
        .facts(|entry| entry.record.origin == RecordOrigin::Api && !entry.record.is_removed);
    let set = match files {
        Some(files) => files.read(&of_api)?,
        None => FileDefinitions { accounts: Vec::new(), campaigns: Vec::new() },
    };
    let mut problems = cross::problems(&set, definitions);
    let mut plan = FilesPlan::new(&set, &of_api, definitions);
    plan.accounts();
    plan.campaigns();
    plan.removals();
    if plan.next_slot > CAMPAIGNS_MAX {
        problems.push(cross::too_many("campaign"));
    }
    let FilesPlan { steps, same, .. } = plan;
    if problems.is_empty() { Ok(PlannedChanges { steps, same }) } else { Err(problems) }
}

struct FilesPlan<'p, R> {
    set: &'p FileDefinitions<R>,
    definitions: &'p DefinitionTable<R>,
    /// Of all accounts, including the files'.
    facts: KnownAccounts,
    next_slot: u32,
    steps: Vec<DefinitionStep<R>>,
    same: Vec<UnchangedCampaign<R>>,
}

impl<'p, R: CampaignRules> FilesPlan<'p, R> {
    fn new(
        set: &'p FileDefinitions<R>,
        of_api: &KnownAccounts,
        definitions: &'p DefinitionTable<R>,
    ) -> Self {
        let mut facts = of_api.clone();
        let of_files = set.accounts.iter().map(|found| &found.value);
        facts.extend(of_files.map(|it| (it.id.as_str().into(), it.facts.clone())));
        let next_slot = definitions.next_slot;
        Self { set, definitions, facts, next_slot, steps: Vec::new(), same: Vec::new() }
    }

    fn new_slot(&mut self) -> CampaignIndex {
        let slot = CampaignIndex(self.next_slot);
        self.next_slot = self.next_slot.saturating_add(1);
        slot
    }

    fn accounts(&mut self) {
        for found in &self.set.accounts {
            let id: Arc<str> = found.value.id.as_str().into();
            let before = self.definitions.accounts.get(&id);
            let mut record = record_of(found, before);
            let mut value = Arc::clone(&found.value);
            if !record.overrides.is_empty() {
                match read::account(&record.in_force()) {
                    Ok((overridden, _)) => value = Arc::new(overridden),
                    Err(_) => record.overrides = FileOverrides::default(),
                }
            }
            if record.slot.is_none() && !value.seats.is_empty() {
                record.slot = Some(self.new_slot());
            }
            if before.is_some_and(|before| before.record == record) {
                continue;
            }
            let (version, action) = next(before);
            let becomes =
                NewEntry::Account(DefinitionEntry { version, record, value: Some(value) });
            self.push(id, action, becomes, Vec::new());
        }
    }

    fn campaigns(&mut self) {
        let first = self.steps.len();
        for found in &self.set.campaigns {
            let id = Arc::clone(&found.value.id);
            let before = self.definitions.campaigns.get(&id);
            let mut record = record_of(found, before);
            let mut value = Arc::clone(&found.value);
            if !record.overrides.is_empty() {
                match read::campaign(&record.in_force(), &self.facts) {
                    Ok((overridden, _)) => value = Arc::new(overridden),
                    Err(_) => record.overrides = FileOverrides::default(),
                }
            }
            if record.slot.is_none() {
                record.slot = Some(self.new_slot());
            }
            match before {
                Some(before) if before.record == record => {
                    if before.value.is_none() {
                        let version = before.version;
                        self.same
                            .push((id, DefinitionEntry { version, record, value: Some(value) }));
                    }
                }
                before => {
                    let (version, action) = next(before);
                    let warnings = value.notes.to_vec();
                    let becomes =
                        NewEntry::Campaign(DefinitionEntry { version, record, value: Some(value) });
                    self.push(id, action, becomes, warnings);
                }
            }
        }
        // In the store's order: files may be grouped by account, and each page is written once.
        self.steps[first..].sort_unstable_by(|one, other| one.id.cmp(&other.id));
    }

    /// Removes what no file has any more. Campaigns go before their accounts.
    fn removals(&mut self) {
        let campaigns = self.set.campaigns.iter().map(|found| &*found.value.id).collect();
        for (id, version, record) in gone(&self.definitions.campaigns, &campaigns) {
            let entry = DefinitionEntry { version, record, value: None };
            self.push(id, AuditAction::Remove, NewEntry::Campaign(entry), Vec::new());
        }
        let accounts = self.set.accounts.iter().map(|found| &*found.value.id).collect();
        for (id, version, record) in gone(&self.definitions.accounts, &accounts) {
            let value = self.definitions.accounts[&id].value.clone();
            let entry = DefinitionEntry { version, record, value };
            self.push(id, AuditAction::Remove, NewEntry::Account(entry), Vec::new());
        }
    }

    fn push(
        &mut self,
        id: Arc<str>,
        action: AuditAction,
        becomes: NewEntry<R>,
        warnings: Vec<String>,
    ) {
        self.steps.push(DefinitionStep { id, becomes, action, warnings, keyed: None, actor: None });
    }
}

/// Id, next version and record of each definition that no file has any more.
fn gone<T>(
    entries: &BTreeMap<Arc<str>, DefinitionEntry<T>>,
    given: &HashSet<&str>,
) -> impl Iterator<Item = (Arc<str>, u64, DefinitionRecord)> {
    let is_gone = |(id, entry): &(&Arc<str>, &DefinitionEntry<T>)| {
        let record = &entry.record;
        record.origin.file().is_some() && !record.is_removed && !given.contains(&***id)
    };
    entries.iter().filter(is_gone).map(|(id, entry)| {
        let record = DefinitionRecord { is_removed: true, ..entry.record.clone() };
        (Arc::clone(id), entry.version + 1, record)
    })
}

fn record_of<T, U>(
    found: &FileDefinition<T>,
    before: Option<&DefinitionEntry<U>>,
) -> DefinitionRecord {
    let overrides = match before {
        Some(before) if !before.record.overrides.is_empty() => {
            let given =
                serde_json::from_str(&found.given.text()).expect("it was written as an object");
            before.record.overrides.over(&given)
        }
        _ => FileOverrides::default(),
    };
    DefinitionRecord {
        slot: before.and_then(|before| before.record.slot),
        origin: RecordOrigin::File(Arc::clone(&found.file)),
        is_removed: false,
        given: found.given.clone(),
        overrides,
    }
}

fn next<T>(before: Option<&DefinitionEntry<T>>) -> (u64, AuditAction) {
    match before {
        None => (1, AuditAction::Create),
        Some(before) if before.record.is_removed => (before.version + 1, AuditAction::Create),
        Some(before) => (before.version + 1, AuditAction::Change),
    }
}
