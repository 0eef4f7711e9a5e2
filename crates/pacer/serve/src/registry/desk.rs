//! What the registry asks of the ledger's thread: to keep definitions, to go by them, and to tell how
//! campaigns stand.
//!
//! Owns the words of it. Who answers is not known here.

use std::sync::Arc;

use pacer_core::ledger::{AccountId, AccountWhy, CampaignDefinition, Holdback, Limits, Spend, Why};
use pacer_core::messages::Slot;
use pacer_core::pacing::{Bidding, Curve, Pacing};
use pacer_core::refusal::Refusal;
use pacer_core::store::{AuditEntry, AuditKey, Change, Definition, DefinitionKey, Denied, Kind};
use units::Currency;

use crate::handle::Delivery;

/// Why the desk has not done what it was asked. In order of precedence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeskError {
    /// The store has refused, and nothing was changed.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// It does not answer, or ends; whether something was changed is not known.
    #[error("the ledger does not answer: {0}")]
    Unavailable(String),
    /// The ledger does not take all definitions that it was told: it goes by the others, and was to be
    /// told of none of those.
    #[error("the ledger does not take a definition that is kept, which is a defect: {0}")]
    Untaken(String),
}

/// An account, as the ledger is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountOrder {
    /// As the registry numbers it in this process.
    pub id: AccountId,
    /// The larger wins.
    pub version: u64,
    /// Of all its money.
    pub currency: Currency,
    /// A name of the IANA data base.
    pub time_zone: String,
    /// Of all its campaigns together.
    pub limits: Limits,
    /// What of these is kept back.
    pub late_holdback: Holdback,
    /// Whether none of them may spend.
    pub is_paused: bool,
}

/// A campaign, or an account's seats, as the ledger is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct CampaignOrder {
    /// Its money.
    pub definition: CampaignDefinition,
    /// How it spends; `None` for seats, which bid what they like.
    pub pacing: Option<Arc<Pacing>>,
}

/// The ledger's thread and its store. Callers are blocked until it answers, or a few seconds.
pub trait LedgerDesk: Send + Sync + 'static {
    /// Keeps definitions and audit entries: durable on return, all of them or none. The desk numbers
    /// the change, and asks again for as long as it cannot know how one ended.
    ///
    /// # Errors
    /// When they are not kept, or nobody knows. Asked for the same again, and for nothing else before,
    /// it does it once and tells how it ended.
    fn change(&self, change: Change) -> Result<(), DeskError>;

    /// Goes by these from now on. Older versions than are known change nothing.
    ///
    /// # Errors
    /// When the ledger does not answer, or does not take some of them: it goes by the others.
    fn define(
        &self,
        accounts: Vec<AccountOrder>,
        campaigns: Vec<CampaignOrder>,
    ) -> Result<(), DeskError>;

    /// All definitions of a kind.
    ///
    /// # Errors
    /// When the store does not answer.
    fn definitions(&self, kind: Kind) -> Result<Vec<(DefinitionKey, Definition)>, DeskError>;

    /// Audit entries behind one, or from the first; so many at most.
    ///
    /// # Errors
    /// When the store does not answer.
    fn audit(
        &self,
        after: Option<AuditKey>,
        most: u32,
    ) -> Result<Vec<(AuditKey, AuditEntry)>, DeskError>;

    /// This node's audit entries before one, or from the last: backwards, so many at most.
    ///
    /// # Errors
    /// When the store does not answer.
    fn audit_before(
        &self,
        before: Option<AuditKey>,
        most: u32,
    ) -> Result<Vec<(AuditKey, AuditEntry)>, DeskError>;

    /// The first number that no lease has.
    ///
    /// # Errors
    /// When the ledger does not answer.
    fn next_slot(&self) -> Result<Slot, DeskError>;

    /// Why a campaign does not spend.
    ///
    /// # Errors
    /// When the ledger does not answer.
    fn why(&self, slot: Slot) -> Result<Why, DeskError>;

    /// Why an account as a whole does not spend.
    ///
    /// # Errors
    /// When the ledger does not answer.
    fn why_account(&self, id: AccountId) -> Result<AccountWhy, DeskError>;

    /// Why each of these does not spend, if so, in their order.
    ///
    /// # Errors
    /// When the ledger does not answer.
    fn refusals(&self, slots: &[Slot]) -> Result<Vec<Option<Refusal>>, DeskError>;

    /// How far each of these has come in spending, in their order.
    ///
    /// # Errors
    /// When the ledger does not answer.
    fn deliveries(&self, slots: &[Slot]) -> Result<Vec<Delivery>, DeskError>;

    /// How a campaign bids now; `None` without a strategy, or before its first slot.
    ///
    /// # Errors
    /// When the ledger does not answer.
    fn bidding(&self, slot: Slot) -> Result<Option<Bidding>, DeskError>;

    /// What an account has spent as a whole, if it is known.
    ///
    /// # Errors
    /// When the ledger does not answer.
    fn spend_account(&self, id: AccountId) -> Result<Option<Spend>, DeskError>;

    /// What a campaign has spent, if it is known.
    ///
    /// # Errors
    /// When the ledger does not answer.
    fn spend(&self, slot: Slot) -> Result<Option<Spend>, DeskError>;

    /// How a campaign follows its target; `None` where it has none.
    ///
    /// # Errors
    /// When the ledger does not answer.
    fn curve(&self, slot: Slot) -> Result<Option<Curve>, DeskError>;
}
