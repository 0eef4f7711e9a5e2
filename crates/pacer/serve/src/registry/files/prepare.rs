//! Reads and judges stored and file definitions before a ledger begins, so that a refused start
//! uses nothing up; or the files alone, beside a running ledger or without one.

use std::collections::BTreeSet;
use std::sync::Arc;

use pacer_core::store::{DefinitionKey, StoredDefinition, StoredKind};
use tracing::error;
use units::Currency;

use crate::ledger::handle::LedgerError;
use crate::registry::definition::DefinedAccount;
use crate::registry::edits::lots::{stored_account, stored_campaign};
use crate::registry::read::{self, DefinitionFiles, RegistryOptions};
use crate::registry::refused::{RegistryStartError, listed};
use crate::registry::table::record::DefinitionRecord;
use crate::registry::table::{DefinitionEntry, DefinitionTable};
use crate::registry::text::packed::Packer;
use crate::registry::{CampaignRules, files};

/// Valid stored and file definitions.
pub struct PreparedRegistry<R: CampaignRules> {
    pub(in crate::registry) definitions: DefinitionTable<R>,
    pub(in crate::registry) files: Option<DefinitionFiles<R>>,
    pub(in crate::registry) clock: fn() -> u64,
    pub(in crate::registry) late_wins_warning: Option<String>,
}

impl<R: CampaignRules> PreparedRegistry<R> {
    /// Reads stored definitions through `definitions`, and the files.
    ///
    /// # Errors
    /// Every problem of the files, or of unreadable stored definitions.
    pub fn read(
        options: &RegistryOptions,
        definitions: impl FnMut(
            StoredKind,
        ) -> Result<Vec<(DefinitionKey, StoredDefinition)>, LedgerError>,
    ) -> Result<Self, RegistryStartError> {
        let table = stored_definitions(definitions)?;
        let mut files = DefinitionFiles::of(options);
        files::planned(files.as_mut(), &table).map_err(RegistryStartError::Invalid)?;
        let RegistryOptions { clock, ref late_wins_warning, .. } = *options;
        Ok(Self { definitions: table, files, clock, late_wins_warning: late_wins_warning.clone() })
    }
}

/// Summary of valid files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedFiles {
    /// Number of accounts.
    pub accounts: usize,
    /// Number of campaigns.
    pub campaigns: usize,
    /// The currency of each account.
    pub currencies: Vec<(String, Currency)>,
    /// Account, DSP and seat of each seat.
    pub seats: Vec<(String, String, String)>,
    /// Notes on how campaigns were understood, each with its campaign.
    pub notes: Vec<(String, String)>,
    /// Accounts that campaigns name and no file defines.
    pub supposed: BTreeSet<String>,
}

/// Judges the files without stored definitions. With `may_be_kept`, an account that no file defines
/// may be the API's; else it is a problem.
///
/// # Errors
/// Every problem, as at a start.
pub fn check_files<R: CampaignRules>(
    options: &RegistryOptions,
    may_be_kept: bool,
) -> Result<CheckedFiles, RegistryStartError> {
    let Some(mut files) = DefinitionFiles::<R>::of(options) else {
        return Ok(CheckedFiles::default());
    };
    if may_be_kept {
        files.suppose();
    }
    let table = DefinitionTable::default();
    files::planned(Some(&mut files), &table).map_err(RegistryStartError::Invalid)?;
    let set = files.read(&read::KnownAccounts::new()).map_err(RegistryStartError::Invalid)?;
    let seats = set.accounts.iter().flat_map(|found| {
        let of =
            |(dsp, seat): &(String, String)| (found.value.id.clone(), dsp.clone(), seat.clone());
        found.value.seats.iter().map(of)
    });
    let currency = |found: &read::FileDefinition<DefinedAccount>| {
        (found.value.id.clone(), found.value.facts.currency)
    };
    let notes = set.campaigns.iter().flat_map(|found| {
        found.value.notes.iter().map(|note| (found.value.id.to_string(), note.clone()))
    });
    Ok(CheckedFiles {
        accounts: set.accounts.len(),
        currencies: set.accounts.iter().map(currency).collect(),
        campaigns: set.campaigns.len(),
        seats: seats.collect(),
        notes: notes.collect(),
        supposed: files.supposed(),
    })
}

fn stored_definitions<R: CampaignRules>(
    mut definitions: impl FnMut(
        StoredKind,
    ) -> Result<Vec<(DefinitionKey, StoredDefinition)>, LedgerError>,
) -> Result<DefinitionTable<R>, RegistryStartError> {
    let (mut table, mut packer) = (DefinitionTable::default(), Packer::default());
    for (key, definition) in definitions(StoredKind::Account)? {
        let (id, version, record) = record_of(key, &definition, &mut packer)?;
        let (account, _) = stored_account(&record)
            .map_err(|problems| RegistryStartError::Unreadable { id: id.to_string(), problems })?;
        let entry = DefinitionEntry { version, record, value: Some(Arc::new(account)) };
        table.put_account(id, entry);
    }
    let facts = table.facts(|_| true);
    for (key, definition) in definitions(StoredKind::Campaign)? {
        let (id, version, record) = record_of(key, &definition, &mut packer)?;
        // Campaigns of files are read from their files.
        let is_read = record.origin.file().is_none() && !record.is_removed;
        let value = is_read.then(|| stored_campaign::<R>(&record, &facts));
        let value = match value {
            None => None,
            Some(Ok((campaign, _))) => Some(Arc::new(campaign)),
            Some(Err(problems)) => {
                let listed = listed(&problems);
                error!(campaign = &*id, "is kept in a form that is not read, and rests{listed}");
                None
            }
        };
        table.put_campaign(id, DefinitionEntry { version, record, value });
    }
    Ok(table)
}

fn record_of(
    key: DefinitionKey,
    definition: &StoredDefinition,
    packer: &mut Packer,
) -> Result<(Arc<str>, u64, DefinitionRecord), RegistryStartError> {
    let unreadable = || RegistryStartError::Unreadable { id: key.id.clone(), problems: Vec::new() };
    let record = DefinitionRecord::from_bytes(&definition.body, packer).ok_or_else(unreadable)?;
    Ok((key.id.into(), definition.version, record))
}
