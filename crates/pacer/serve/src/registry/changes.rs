//! Changes on their way: first durable, then the ledger's, then everybody's.
//!
//! Owns that order, and the audit record. What a change says was judged before.

use std::sync::Arc;

use pacer_core::store::{
    AuditEntry, CHANGE_BYTES_MAX, CHANGE_ITEMS_MAX, Change, Definition, DefinitionKey, Denied,
    Kind, Put,
};
use serde_json::{Value, json};
use tracing::warn;

use super::books::{Books, Entry, view};
use super::definition::{Account, Campaign};
use super::desk::{AccountOrder, CampaignOrder, DeskError, LedgerDesk};
use super::keys::Keyed;
use super::refused::Refused;

/// Bytes of a change, beyond which another one begins: a definition is kept twice, as itself and in
/// the audit, with room for the largest that a file may have.
const PART_BYTES: usize = CHANGE_BYTES_MAX / 4;

/// What was done. As the audit has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Create,
    Change,
    Pause,
    Resume,
    Budget,
    Remove,
}

impl Action {
    const fn label(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Change => "change",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Budget => "budget",
            Self::Remove => "remove",
        }
    }
}

/// What an entry becomes.
pub(super) enum Becomes<R> {
    Account(Entry<Account>),
    Campaign(Entry<Campaign<R>>),
}

/// One definition's change.
pub(super) struct Step<R> {
    pub(super) id: Arc<str>,
    pub(super) becomes: Becomes<R>,
    pub(super) action: Action,
    /// What is to be told of it.
    pub(super) warnings: Vec<String>,
    pub(super) keyed: Option<Keyed>,
}

impl<R> Step<R> {
    pub(super) fn kind(&self) -> Kind {
        match &self.becomes {
            Becomes::Account(_) => Kind::Account,
            Becomes::Campaign(_) => Kind::Campaign,
        }
    }

    fn version(&self) -> u64 {
        match &self.becomes {
            Becomes::Account(entry) => entry.version,
            Becomes::Campaign(entry) => entry.version,
        }
    }

    /// What is answered to whoever asked for it.
    pub(super) fn answer(&self) -> Value {
        match &self.becomes {
            Becomes::Account(entry) => view(&self.id, entry, &self.warnings),
            Becomes::Campaign(entry) => view(&self.id, entry, &self.warnings),
        }
    }

    fn put(&self) -> Put {
        let (version, body) = match &self.becomes {
            Becomes::Account(entry) => (entry.version, entry.record.to_bytes()),
            Becomes::Campaign(entry) => (entry.version, entry.record.to_bytes()),
        };
        let key = DefinitionKey { kind: self.kind(), id: self.id.to_string() };
        let expected = Some(version - 1);
        Put { key, expected, definition: Definition { version, body } }
    }

    fn audit(&self, at_unix_ms: u64) -> AuditEntry {
        let mut body = self.answer();
        body["action"] = self.action.label().into();
        body["kind"] = label(self.kind()).into();
        if let Some(keyed) = &self.keyed {
            body["idempotency"] = json!({ "key": keyed.key, "body": keyed.body });
        }
        AuditEntry { at_unix_ms, body: body.to_string().into_bytes() }
    }
}

/// As the audit and paths have it.
pub(super) const fn label(kind: Kind) -> &'static str {
    match kind {
        Kind::Account => "account",
        Kind::Campaign => "campaign",
    }
}

/// What the ledger is still to be told of.
#[derive(Debug, Default)]
pub(super) struct Owed {
    accounts: Vec<AccountOrder>,
    campaigns: Vec<CampaignOrder>,
}

impl Owed {
    pub(super) fn account<R>(&mut self, books: &mut Books<R>, id: &Arc<str>) {
        if let Some((account, seats)) = books.account_orders(id) {
            self.accounts.push(account);
            self.campaigns.extend(seats);
        }
    }

    pub(super) fn campaign<R>(&mut self, books: &mut Books<R>, id: &str) {
        self.campaigns.extend(books.campaign_order(id));
    }

    /// Tells the ledger. What it cannot be told now is told with the next change.
    pub(super) fn tell(&mut self, desk: &dyn LedgerDesk) -> Result<(), DeskError> {
        if self.accounts.is_empty() && self.campaigns.is_empty() {
            return Ok(());
        }
        desk.define(self.accounts.clone(), self.campaigns.clone())?;
        *self = Self::default();
        Ok(())
    }
}

/// Makes steps durable: all of them, or those of the first parts. Calls `kept` with each part.
pub(super) fn keep<R>(
    desk: &dyn LedgerDesk,
    steps: Vec<Step<R>>,
    at_unix_ms: u64,
    mut kept: impl FnMut(Vec<Step<R>>),
) -> Result<(), Refused> {
    let (mut part, mut change, mut bytes) = (Vec::new(), Change::default(), 0);
    for step in steps {
        let (put, audit) = (step.put(), step.audit(at_unix_ms));
        let size = put.definition.body.len() + audit.body.len();
        if !part.is_empty() && (bytes + size > PART_BYTES || part.len() >= CHANGE_ITEMS_MAX) {
            submit(desk, std::mem::take(&mut change), &part)?;
            kept(std::mem::take(&mut part));
            bytes = 0;
        }
        bytes += size;
        change.puts.push(put);
        change.audit.push(audit);
        part.push(step);
    }
    if !part.is_empty() {
        submit(desk, change, &part)?;
        kept(part);
    }
    Ok(())
}

fn submit<R>(desk: &dyn LedgerDesk, change: Change, steps: &[Step<R>]) -> Result<(), Refused> {
    desk.change(change).map_err(|error| match error {
        DeskError::Denied(Denied::Conflict { key, present }) => Refused::Stale {
            kind: key.kind,
            id: key.id,
            given: steps.first().map_or(0, |step| step.version().saturating_sub(1)),
            present,
        },
        other => {
            warn!(error = %other, "definitions are not kept");
            Refused::Unavailable(other.to_string())
        }
    })
}
