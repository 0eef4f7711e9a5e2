//! What the registry asks of the ledger's thread: to keep definitions, to go by them, and to tell how
//! campaigns stand.
//!
//! Owns the words of it. Who answers is not known here.

use pacer_core::ledger::{AccountId, CampaignDefinition, Limits, Span, Spend, Why};
use pacer_core::messages::Slot;
use pacer_core::store::{AuditEntry, AuditKey, Change, Definition, DefinitionKey, Denied, Kind};
use units::{Currency, Nanos};

use super::pacing::Pacing;

/// Why the desk has not done what it was asked. In order of precedence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeskError {
    /// The store has refused, and nothing was changed.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// It does not answer, or ends; whether something was changed is not known.
    #[error("the ledger does not answer: {0}")]
    Unavailable(String),
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
    /// Whether none of them may spend.
    pub is_paused: bool,
}

/// A campaign, or an account's seats, as the ledger is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct CampaignOrder {
    /// Its money.
    pub definition: CampaignDefinition,
    /// How it spends; `None` for seats, which bid what they like.
    pub pacing: Option<Pacing>,
}

/// A moment of a campaign's curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurvePoint {
    /// When, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// What should have been spent by then.
    pub target: Nanos,
    /// What was; `None` in the future.
    pub spent: Option<Nanos>,
}

/// How a campaign follows its target in the flight that matters now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// Whose limit it follows.
    pub span: Span,
    /// Its first millisecond since 1970.
    pub start_unix_ms: u64,
    /// The first one behind it.
    pub end_unix_ms: u64,
    /// By which strategy.
    pub strategy: &'static str,
    /// In order of time.
    pub points: Vec<CurvePoint>,
}

/// The ledger's thread and its store. Callers are blocked until it answers, or a few seconds.
pub trait LedgerDesk: Send + Sync + 'static {
    /// Keeps definitions and audit entries: durable on return, all of them or none. The desk numbers
    /// the change, and asks again for as long as it cannot know how one ended.
    ///
    /// # Errors
    /// When they are not kept, or nobody knows.
    fn change(&self, change: Change) -> Result<(), DeskError>;

    /// Goes by these from now on. Older versions than are known change nothing.
    ///
    /// # Errors
    /// When the ledger does not answer.
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
