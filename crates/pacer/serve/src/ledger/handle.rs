//! How others ask the ledger's thread: they wait for its answer, and not for ever.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender, SyncSender};
use std::time::Duration;

use pacer_core::ledger::{
    AccountDefinition, AccountDiagnosis, AccountId, CampaignDefinition, LedgerReply, LimitOwner,
    LimitSpan, Spend, SpendDiagnosis,
};
use pacer_core::messages::CampaignIndex;
use pacer_core::pacing::{BiddingStatus, PacingCurve, PacingError, PacingPolicy};
use pacer_core::refusal::SpendRefusal;
use pacer_core::store::{
    AuditEntry, AuditKey, DefinitionChange, DefinitionKey, QueryResult, StoreDenial, StoreQuery,
    StoredDefinition, StoredKind,
};
use runtime::metrics::Exposition;
use units::Nanos;

use super::digest::Digest;
use super::rings::HaltFlag;
use super::status::{LedgerStatus, LedgerWaker, SharedStatus};
use super::zones::Zones;

/// How long whoever asks waits. The ledger's turns take milliseconds; its disk may take longer.
const PATIENCE: Duration = Duration::from_secs(5);
/// And for each definition beside.
const PATIENCE_EACH: Duration = Duration::from_millis(1);

/// How long a process is not ready for want of what the log held.
const REPLAY_MOST: Duration = Duration::from_secs(60);

/// A campaign as it is to hold: its money, and how that is spent.
#[derive(Clone, Debug)]
pub struct CampaignTerms {
    /// Its money.
    pub definition: CampaignDefinition,
    /// By which strategy; without one it bids at value as long as it has money.
    pub pacing: Option<Arc<PacingPolicy>>,
}

/// What became of definitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DefinitionReport {
    /// What the ledger says of each, in their order, accounts first.
    pub notices: Vec<LedgerReply>,
    /// Campaigns whose strategy was not taken, and goes on as it was.
    pub unpaced: Vec<(CampaignIndex, PacingError)>,
}

/// How far a campaign has come in spending: of the limit that it follows, else of the tightest of its
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryProgress {
    /// Why it does not spend, if so.
    pub refusal: Option<SpendRefusal>,
    /// Whose limit it is; None without one: then all that it has spent is told.
    pub span: Option<LimitSpan>,
    /// The limit.
    pub limit: Option<Nanos>,
    /// Spent of it.
    pub spent: Nanos,
    /// What should be spent of it by now. None if it follows no limit, or another one.
    pub expected: Option<Nanos>,
}

impl DeliveryProgress {
    /// `planned` is which limit it follows, and how much of that should be spent by now.
    pub(crate) fn of(
        why: &SpendDiagnosis,
        spend: Option<&Spend>,
        planned: Option<(LimitSpan, Nanos)>,
    ) -> Self {
        let own = why.levels.iter().flatten().filter(|level| level.owner == LimitOwner::Campaign);
        let limit_of = |span| own.clone().find(|level| level.span == span)?.limit;
        let followed = planned.map(|(span, _)| span).filter(|span| *span != LimitSpan::Hour);
        let spans = followed.into_iter().chain([LimitSpan::Day, LimitSpan::Life, LimitSpan::Hour]);
        let limited = spans.into_iter().find_map(|span| Some((span, limit_of(span)?)));
        let span = limited.map(|(span, _)| span);
        let spent = spend.map(|spend| match span {
            Some(LimitSpan::Day) => spend.today,
            Some(LimitSpan::Hour) => spend.now,
            Some(LimitSpan::Life) | None => spend.life,
        });
        Self {
            refusal: why.refusal,
            span,
            limit: limited.map(|(_, limit)| limit),
            spent: spent.unwrap_or_default(),
            expected: planned.filter(|(of, _)| Some(*of) == span).map(|(_, expected)| expected),
        }
    }
}

/// Why the ledger has not done what it was asked. In order of precedence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// Its store refuses, and nothing was changed.
    #[error(transparent)]
    Denied(#[from] StoreDenial),
    /// The ledger's thread has ended. Whether something was changed is not known.
    #[error(
        "the ledger does not answer: the ledger has ended: see the log, and start the process again"
    )]
    Over,
    /// It did not answer in time. What was asked may still be done.
    #[error(
        "the ledger does not answer: the ledger did not answer in time: see its disk, and ask again"
    )]
    Late,
    /// It does not take all definitions that it was told: it goes by the others.
    #[error("the ledger does not take a definition that is kept, which is a defect: {0}")]
    Untaken(String),
}

/// Where an answer is waited for.
pub(crate) type ReplySender<T> = SyncSender<T>;

/// A query to the ledger's thread, with the channel for its answer.
pub(crate) enum LedgerQuery {
    /// To go by definitions from now on.
    Define(Vec<AccountDefinition>, Vec<CampaignTerms>, ReplySender<DefinitionReport>),
    /// To keep definitions and audit entries durably; a digest tells whether the same came before.
    Change(DefinitionChange, Digest, ReplySender<Result<(), StoreDenial>>),
    /// What the store keeps.
    Read(StoreQuery, ReplySender<Result<QueryResult, StoreDenial>>),
    /// A number that no campaign has and no lease names. It is given out again until a campaign that has
    /// it is defined.
    NextSlot(ReplySender<CampaignIndex>),
    /// Why a campaign does not spend, if so, and the figures. If nothing else keeps it, its strategy may
    /// skip all requests.
    Why(CampaignIndex, ReplySender<SpendDiagnosis>),
    /// Why an account as a whole does not spend, if so, and the figures.
    WhyAccount(AccountId, ReplySender<AccountDiagnosis>),
    /// Why each of these campaigns does not spend, if so, in their order.
    Refusals(Vec<CampaignIndex>, ReplySender<Vec<Option<SpendRefusal>>>),
    /// How far each of these campaigns has come, in their order.
    Deliveries(Vec<CampaignIndex>, ReplySender<Vec<DeliveryProgress>>),
    /// How a campaign bids now. None without a strategy, or before its first slot of time.
    Bidding(CampaignIndex, ReplySender<Option<BiddingStatus>>),
    /// What a campaign has spent. None if there is no such campaign.
    Spend(CampaignIndex, ReplySender<Option<Spend>>),
    /// What an account has spent, all its campaigns and seats together. None if there is no such account.
    SpendAccount(AccountId, ReplySender<Option<Spend>>),
    /// The curve that a campaign follows, and how it did. None without a strategy or a limit.
    Curve(CampaignIndex, ReplySender<Option<PacingCurve>>),
}

/// The ledger, as others ask it. Clones ask the same; they wait, and must not be a shard.
#[derive(Clone, Debug)]
pub struct LedgerHandle {
    pub(crate) asks: Sender<LedgerQuery>,
    pub(crate) shared: SharedStatus,
    pub(crate) waker: LedgerWaker,
    pub(crate) zones: Zones,
}

impl LedgerHandle {
    /// Tells the ledger what accounts and campaigns are allowed, and says what it made of that.
    /// Accounts before campaigns; a definition that is no newer than what it knows changes nothing.
    pub(crate) fn define(
        &self,
        accounts: Vec<AccountDefinition>,
        campaigns: Vec<CampaignTerms>,
    ) -> Result<DefinitionReport, LedgerError> {
        let count = u32::try_from(accounts.len() + campaigns.len()).unwrap_or(u32::MAX);
        let patience = PATIENCE.saturating_add(PATIENCE_EACH.saturating_mul(count));
        self.ask_within(patience, |reply| LedgerQuery::Define(accounts, campaigns, reply))
    }

    /// Keeps definitions and audit entries, durably. The ledger numbers the change itself. If the
    /// store does not know how it ended it is asked again until it does. After [`LedgerError::Late`] it may
    /// still be kept: whoever then asks for the very same, before anybody asks for another, learns how it
    /// ended. It is done once.
    pub(crate) fn change(&self, change: DefinitionChange) -> Result<(), LedgerError> {
        let digest = Digest::of(&change);
        Ok(self.ask(|reply| LedgerQuery::Change(change, digest, reply))??)
    }

    /// All definitions of a kind that are kept.
    pub(crate) fn definitions(
        &self,
        kind: StoredKind,
    ) -> Result<Vec<(DefinitionKey, StoredDefinition)>, LedgerError> {
        match self.ask_of(StoreQuery::Definitions(kind), LedgerQuery::Read)?? {
            QueryResult::Definitions(definitions) => Ok(definitions),
            other => unreachable!("definitions were asked for: {other:?}"),
        }
    }

    /// Audit entries, as one of the two queries for them says.
    pub(crate) fn audit(
        &self,
        query: StoreQuery,
    ) -> Result<Vec<(AuditKey, AuditEntry)>, LedgerError> {
        match self.ask_of(query, LedgerQuery::Read)?? {
            QueryResult::Audit(entries) => Ok(entries),
            other => unreachable!("audit entries were asked for: {other:?}"),
        }
    }

    /// How it stands, without asking it.
    pub fn status(&self) -> LedgerStatus {
        self.shared.status()
    }

    /// The time on the wall that the ledger goes by, in milliseconds since 1970; 0 before its first turn.
    /// It never goes back, not even over a start: shards must not be behind it, or rights would be of an
    /// hour that has not begun there.
    pub fn unix_ms(&self) -> u64 {
        self.shared.unix_ms()
    }

    /// Whether nothing may be authorised any more; it stays so.
    pub fn halted(&self) -> HaltFlag {
        self.shared.halted().clone()
    }

    /// Whether budgets are served: all that the log held at the start is known, so that leases may be
    /// made, or a minute has passed, for other auctions need no ledger. No campaign's rights are waited
    /// for. A store that fails is no hindrance: what is granted is spent, and it recovers by itself.
    pub fn is_ready(&self) -> bool {
        let status = self.status();
        let is_replayed = status.is_replayed || self.shared.age() >= REPLAY_MOST;
        is_replayed && !status.is_over && !status.is_halted
    }

    /// Adds the ledger's metrics.
    pub fn expose(&self, exposition: &mut Exposition) {
        self.shared.expose(exposition);
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask<T>(
        &self,
        query: impl FnOnce(ReplySender<T>) -> LedgerQuery,
    ) -> Result<T, LedgerError> {
        self.ask_within(PATIENCE, query)
    }

    /// The same, of something.
    pub(crate) fn ask_of<K, T>(
        &self,
        of: K,
        query: impl FnOnce(K, ReplySender<T>) -> LedgerQuery,
    ) -> Result<T, LedgerError> {
        self.ask(|reply| query(of, reply))
    }

    /// The same, of many campaigns, so many at once at the most: shards wait for none.
    pub(crate) fn ask_of_many<T>(
        &self,
        (slots, most): (&[CampaignIndex], usize),
        query: impl Fn(Vec<CampaignIndex>, ReplySender<Vec<T>>) -> LedgerQuery,
    ) -> Result<Vec<T>, LedgerError> {
        let mut answers = Vec::with_capacity(slots.len());
        for part in slots.chunks(most) {
            answers.extend(self.ask_of(part.to_vec(), &query)?);
        }
        Ok(answers)
    }

    fn ask_within<T>(
        &self,
        patience: Duration,
        query: impl FnOnce(ReplySender<T>) -> LedgerQuery,
    ) -> Result<T, LedgerError> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.asks.send(query(reply)).map_err(|_| LedgerError::Over)?;
        self.waker.wake();
        answer.recv_timeout(patience).map_err(|error| match error {
            RecvTimeoutError::Timeout => LedgerError::Late,
            RecvTimeoutError::Disconnected => LedgerError::Over,
        })
    }
}
