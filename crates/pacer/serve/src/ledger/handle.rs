//! How others query the ledger's thread: they wait for its answer, up to a limit.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender, SyncSender};
use std::time::Duration;

use pacer_core::ledger::{
    AccountDiagnosis, AccountId, AccountTerms, CampaignTerms, LedgerReply, LimitOwner, LimitSpan,
    Spend, SpendDiagnosis,
};
use pacer_core::messages::CampaignIndex;
use pacer_core::pacing::{BiddingStatus, PacingCurve, PacingError, PacingPolicy};
use pacer_core::refusal::SpendRefusal;
use pacer_core::store::{
    AuditEntry, AuditKey, DefinitionChange, QueryResult, StoreDenial, StoreQuery,
};
use runtime::metrics::Exposition;
use units::Nanos;

use super::digest::Digest;
use super::rings::HaltFlag;
use super::status::{LedgerStatus, LedgerWaker, SharedStatus};
use super::zones::Zones;

/// How long a caller waits. A turn takes milliseconds; the disk may take longer.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
const DEFINITION_TIMEOUT: Duration = Duration::from_millis(1);

/// How long the replay of the log may keep a process from being ready.
const REPLAY_MAX: Duration = Duration::from_secs(60);

/// An account for the ledger, with the identifier by which holds name it.
#[derive(Clone, Debug)]
pub struct NamedAccount {
    /// Its permanent identifier.
    pub name: Arc<str>,
    /// Its limits.
    pub terms: AccountTerms,
}

/// A campaign for the ledger: its budget and its pacing.
#[derive(Clone, Debug)]
pub struct PacedCampaign {
    /// Its budget, for the ledger.
    pub terms: CampaignTerms,
    /// Its strategy. Without one it bids its value while it has budget.
    pub pacing: Option<Arc<PacingPolicy>>,
}

/// Result of definitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DefinitionReport {
    /// The ledger's reply to each, in their order, accounts first.
    pub notices: Vec<LedgerReply>,
    /// Campaigns whose new strategy was refused; they keep the old one.
    pub unpaced: Vec<(CampaignIndex, PacingError)>,
}

/// A campaign's progress in the limit that it follows, else in the tightest of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryProgress {
    /// Why it does not spend. None if it does.
    pub refusal: Option<SpendRefusal>,
    /// Span of the limit. None if there is no limit: `spent` is then its total.
    pub span: Option<LimitSpan>,
    /// The limit.
    pub limit: Option<Nanos>,
    /// Spent of the limit.
    pub spent: Nanos,
    /// What it should have spent by now. None if it follows no limit, or another one.
    pub expected: Option<Nanos>,
}

impl DeliveryProgress {
    /// `planned` is the limit that it follows, and what should be spent of it by now.
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
        let spent = spend.map(|spend| spend.of(span.unwrap_or(LimitSpan::Life)));
        Self {
            refusal: why.refusal,
            span,
            limit: limited.map(|(_, limit)| limit),
            spent: spent.unwrap_or_default(),
            expected: planned.filter(|(of, _)| Some(*of) == span).map(|(_, expected)| expected),
        }
    }
}

/// Why the ledger did not answer as asked. In order of precedence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The store refuses, and nothing was changed.
    #[error(transparent)]
    Denied(#[from] StoreDenial),
    /// The ledger's thread has ended. Whether something was changed is unknown.
    #[error(
        "the ledger does not answer: the ledger has ended: see the log, and start the process again"
    )]
    Stopped,
    /// No answer in time. The request may still be served.
    #[error(
        "the ledger does not answer: the ledger did not answer in time: see its disk, and ask again"
    )]
    TimedOut,
    /// The ledger refuses some of the definitions; it uses the others.
    #[error("the ledger does not take a definition that is kept, which is a defect: {0}")]
    Rejected(String),
}

pub(crate) type ReplySender<T> = SyncSender<T>;

pub(crate) enum LedgerQuery {
    Define(Vec<NamedAccount>, Vec<PacedCampaign>, ReplySender<DefinitionReport>),
    /// Stores definitions and audit entries durably; the digest recognises a repeated change.
    Change(DefinitionChange, Digest, ReplySender<Result<(), StoreDenial>>),
    Read(StoreQuery, ReplySender<Result<QueryResult, StoreDenial>>),
    /// A number that no campaign has and no lease names; the same until a campaign takes it.
    NextSlot(ReplySender<CampaignIndex>),
    /// Why a campaign does not spend. Without a reason, its strategy may skip all requests.
    Why(CampaignIndex, ReplySender<SpendDiagnosis>),
    WhyAccount(AccountId, ReplySender<AccountDiagnosis>),
    Refusals(Vec<CampaignIndex>, ReplySender<Vec<Option<SpendRefusal>>>),
    Deliveries(Vec<CampaignIndex>, ReplySender<Vec<DeliveryProgress>>),
    /// How a campaign bids now. None if it has no strategy, or before its first slot of time.
    Bidding(CampaignIndex, ReplySender<Option<BiddingStatus>>),
    /// What a campaign has spent. None if it is unknown.
    Spend(CampaignIndex, ReplySender<Option<Spend>>),
    /// What an account's campaigns and seats have spent together. None if it is unknown.
    SpendAccount(AccountId, ReplySender<Option<Spend>>),
    /// A campaign's target curve and its spend. None if it has no strategy or no limit.
    Curve(CampaignIndex, ReplySender<Option<PacingCurve>>),
}

/// Queries the ledger. Clones query the same one. Calls block: never use it on a shard.
#[derive(Clone, Debug)]
pub struct LedgerHandle {
    pub(crate) asks: Sender<LedgerQuery>,
    pub(crate) shared: SharedStatus,
    pub(crate) waker: LedgerWaker,
    pub(crate) zones: Zones,
}

impl LedgerHandle {
    /// Defines accounts, then campaigns. A definition no newer than the ledger's changes nothing.
    pub(crate) fn define(
        &self,
        accounts: Vec<NamedAccount>,
        campaigns: Vec<PacedCampaign>,
    ) -> Result<DefinitionReport, LedgerError> {
        let count = u32::try_from(accounts.len() + campaigns.len()).unwrap_or(u32::MAX);
        let timeout = ASK_TIMEOUT.saturating_add(DEFINITION_TIMEOUT.saturating_mul(count));
        self.ask_within(timeout, |reply| LedgerQuery::Define(accounts, campaigns, reply))
    }

    /// Durably stores definitions and audit entries. The ledger numbers the change, and retries it
    /// until the store knows the outcome. After [`LedgerError::TimedOut`] the change may still be
    /// stored: repeating the very same one, before any other, returns its outcome. It is applied
    /// once.
    pub(crate) fn change(&self, change: DefinitionChange) -> Result<(), LedgerError> {
        let digest = Digest::of(&change);
        Ok(self.ask(|reply| LedgerQuery::Change(change, digest, reply))??)
    }

    pub(crate) fn audit(
        &self,
        query: StoreQuery,
    ) -> Result<Vec<(AuditKey, AuditEntry)>, LedgerError> {
        match self.ask_of(query, LedgerQuery::Read)?? {
            QueryResult::Audit(entries) => Ok(entries),
            other => unreachable!("audit entries were asked for: {other:?}"),
        }
    }

    /// The published status, without a query.
    pub fn status(&self) -> LedgerStatus {
        self.shared.status()
    }

    /// The ledger's wall clock, in milliseconds since 1970; 0 before its first turn. It never goes
    /// back, even over a restart: shards must not lag behind it, or they would get grants for an
    /// hour that has not begun there.
    pub fn unix_ms(&self) -> u64 {
        self.shared.unix_ms()
    }

    /// Whether nothing more may be authorised; final.
    pub fn halted(&self) -> HaltFlag {
        self.shared.halted().clone()
    }

    /// Whether budgets are served: the log as of the start is replayed, so that leases can be made,
    /// or a minute has passed, because other auctions need no ledger. It does not wait for grants.
    /// A failing store does not prevent it: grants are spent, and the store recovers by itself.
    pub fn is_ready(&self) -> bool {
        let status = self.status();
        let is_replayed = status.is_replayed || self.shared.age() >= REPLAY_MAX;
        is_replayed && !status.is_over && !status.is_halted
    }

    /// Adds the ledger's metrics.
    pub fn expose(&self, exposition: &mut Exposition) {
        self.shared.expose(exposition);
    }

    pub(crate) fn ask<T>(
        &self,
        query: impl FnOnce(ReplySender<T>) -> LedgerQuery,
    ) -> Result<T, LedgerError> {
        self.ask_within(ASK_TIMEOUT, query)
    }

    /// As [`Self::ask`], with an argument.
    pub(crate) fn ask_of<K, T>(
        &self,
        of: K,
        query: impl FnOnce(K, ReplySender<T>) -> LedgerQuery,
    ) -> Result<T, LedgerError> {
        self.ask(|reply| query(of, reply))
    }

    /// As [`Self::ask_of`] for many campaigns, at most `most` at once so that shards do not wait.
    pub(crate) fn ask_of_many<T>(
        &self,
        slots: &[CampaignIndex],
        most: usize,
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
        timeout: Duration,
        query: impl FnOnce(ReplySender<T>) -> LedgerQuery,
    ) -> Result<T, LedgerError> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.asks.send(query(reply)).map_err(|_| LedgerError::Stopped)?;
        self.waker.wake();
        answer.recv_timeout(timeout).map_err(|error| match error {
            RecvTimeoutError::Timeout => LedgerError::TimedOut,
            RecvTimeoutError::Disconnected => LedgerError::Stopped,
        })
    }
}
