//! How others ask the ledger's thread: they wait for its answer, and not for ever.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender, SyncSender};
use std::time::Duration;

use pacer_core::ledger::{
    AccountDefinition, AccountId, AccountWhy, CampaignDefinition, Notice, Owner, Span, Spend, Why,
};
use pacer_core::messages::Slot;
use pacer_core::pacing::{Bidding, Curve, Pacing, PacingError};
use pacer_core::refusal::Refusal;
use pacer_core::store::{
    AuditEntry, AuditKey, Change, Definition, DefinitionKey, Denied, Found, Kind, Query,
};
use runtime::metrics::Exposition;
use units::Nanos;

use crate::digest::Digest;
use crate::lines::Halted;
use crate::shared::{Shared, Status, Waker};
use crate::zones::Zones;

/// How long whoever asks waits. The ledger's turns take milliseconds; its disk may take longer.
const PATIENCE: Duration = Duration::from_secs(5);
/// And for each definition beside.
const PATIENCE_EACH: Duration = Duration::from_millis(1);

/// How long a process is not ready for want of what the log held.
const REPLAY_MOST: Duration = Duration::from_secs(60);

/// Campaigns that are asked about at once: a turn takes about a microsecond for each.
const REFUSALS_MAX: usize = 1_000;
/// And whose spend is asked for at once, which takes some microseconds for each.
const DELIVERIES_MAX: usize = 200;

/// A campaign as it is to hold: its money, and how that is spent.
#[derive(Clone, Debug)]
pub struct CampaignTerms {
    /// Its money.
    pub definition: CampaignDefinition,
    /// By which strategy; without one it bids at value as long as it has money.
    pub pacing: Option<Arc<Pacing>>,
}

/// What became of definitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Defined {
    /// What the ledger says of each, in their order, accounts first.
    pub notices: Vec<Notice>,
    /// Campaigns whose strategy was not taken, and goes on as it was.
    pub unpaced: Vec<(Slot, PacingError)>,
}

/// How far a campaign has come in spending: of the limit that it follows, else of the tightest of its
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Why it does not spend, if so.
    pub refusal: Option<Refusal>,
    /// Whose limit it is; None without one: then all that it has spent is told.
    pub span: Option<Span>,
    /// The limit.
    pub limit: Option<Nanos>,
    /// Spent of it.
    pub spent: Nanos,
    /// What should be spent of it by now. None if it follows no limit, or another one.
    pub expected: Option<Nanos>,
}

impl Delivery {
    /// `planned` is which limit it follows, and how much of that should be spent by now.
    pub(crate) fn of(why: &Why, spend: Option<&Spend>, planned: Option<(Span, Nanos)>) -> Self {
        let own = why.levels.iter().flatten().filter(|level| level.owner == Owner::Campaign);
        let limit_of = |span| own.clone().find(|level| level.span == span)?.limit;
        let followed = planned.map(|(span, _)| span).filter(|span| *span != Span::Hour);
        let spans = followed.into_iter().chain([Span::Day, Span::Life, Span::Hour]);
        let limited = spans.into_iter().find_map(|span| Some((span, limit_of(span)?)));
        let span = limited.map(|(span, _)| span);
        let spent = spend.map(|spend| match span {
            Some(Span::Day) => spend.today,
            Some(Span::Hour) => spend.now,
            Some(Span::Life) | None => spend.life,
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

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The ledger's thread has ended.
    #[error("the ledger has ended: see the log, and start the process again")]
    Over,
    /// It did not answer in time. What was asked may still be done.
    #[error("the ledger did not answer in time: see its disk, and ask again")]
    Late,
    /// Its store refuses.
    #[error("{0}")]
    Denied(Denied),
}

/// A reply, and where it is waited for.
pub(crate) type Reply<T> = SyncSender<T>;

/// What is asked.
pub(crate) enum Ask {
    Define(Vec<AccountDefinition>, Vec<CampaignTerms>, Reply<Defined>),
    Change(Change, Digest, Reply<Result<(), Denied>>),
    Definitions(Kind, Reply<Result<Found, Denied>>),
    Audit(Query, Reply<Result<Found, Denied>>),
    NextSlot(Reply<Slot>),
    Why(Slot, Reply<Why>),
    WhyAccount(AccountId, Reply<AccountWhy>),
    Refusals(Vec<Slot>, Reply<Vec<Option<Refusal>>>),
    Deliveries(Vec<Slot>, Reply<Vec<Delivery>>),
    Bidding(Slot, Reply<Option<Bidding>>),
    Spend(Slot, Reply<Option<Spend>>),
    SpendAccount(AccountId, Reply<Option<Spend>>),
    Curve(Slot, Reply<Option<Curve>>),
}

/// The ledger, as others ask it. Clones ask the same; they wait, and must not be a shard.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) asks: Sender<Ask>,
    pub(crate) shared: Shared,
    pub(crate) waker: Waker,
    pub(crate) zones: Zones,
}

impl Handle {
    /// The zones by which accounts count, with the numbers that this ledger gives them.
    pub fn zones(&self) -> &Zones {
        &self.zones
    }

    /// Tells the ledger what accounts and campaigns are allowed, and says what it made of that.
    /// Accounts before campaigns; a definition that is no newer than what it knows changes nothing.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn define(
        &self,
        accounts: Vec<AccountDefinition>,
        campaigns: Vec<CampaignTerms>,
    ) -> Result<Defined, AskError> {
        let count = u32::try_from(accounts.len() + campaigns.len()).unwrap_or(u32::MAX);
        let patience = PATIENCE.saturating_add(PATIENCE_EACH.saturating_mul(count));
        self.ask_within(patience, |reply| Ask::Define(accounts, campaigns, reply))
    }

    /// Keeps definitions and audit entries, durably. The ledger numbers the change itself. If the
    /// store does not know how it ended it is asked again until it does.
    ///
    /// # Errors
    /// See [`AskError`]; after [`AskError::Late`] it may still be kept. Whoever then asks for the very
    /// same, before anybody asks for another, learns how it ended: it is done once.
    pub fn change(&self, change: Change) -> Result<(), AskError> {
        let digest = Digest::of(&change);
        self.ask(|reply| Ask::Change(change, digest, reply))?.map_err(AskError::Denied)
    }

    /// All definitions of a kind that are kept.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn definitions(&self, kind: Kind) -> Result<Vec<(DefinitionKey, Definition)>, AskError> {
        let found = self.ask(|reply| Ask::Definitions(kind, reply))?;
        match found.map_err(AskError::Denied)? {
            Found::Definitions(definitions) => Ok(definitions),
            other => unreachable!("definitions were asked for: {other:?}"),
        }
    }

    /// Audit entries behind one, or from the first: so many at most.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn audit(
        &self,
        after: Option<AuditKey>,
        most: u32,
    ) -> Result<Vec<(AuditKey, AuditEntry)>, AskError> {
        self.entries(Query::Audit(after, most))
    }

    /// This node's audit entries before one, or from the last: backwards, so many at most.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn audit_before(
        &self,
        before: Option<AuditKey>,
        most: u32,
    ) -> Result<Vec<(AuditKey, AuditEntry)>, AskError> {
        self.entries(Query::AuditBefore(self.status().node, before, most))
    }

    fn entries(&self, query: Query) -> Result<Vec<(AuditKey, AuditEntry)>, AskError> {
        let found = self.ask(|reply| Ask::Audit(query, reply))?;
        match found.map_err(AskError::Denied)? {
            Found::Audit(entries) => Ok(entries),
            other => unreachable!("audit entries were asked for: {other:?}"),
        }
    }

    /// A number that no campaign has and no lease names. It is given out again until a campaign that
    /// has it is defined.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn next_slot(&self) -> Result<Slot, AskError> {
        self.ask(Ask::NextSlot)
    }

    /// Why a campaign does not spend, if so, and the figures. Where nothing else does, its strategy
    /// may say that it passes all requests by.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn why(&self, slot: Slot) -> Result<Why, AskError> {
        self.ask(|reply| Ask::Why(slot, reply))
    }

    /// Why an account as a whole does not spend, if so, and the figures.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn why_account(&self, id: AccountId) -> Result<AccountWhy, AskError> {
        self.ask(|reply| Ask::WhyAccount(id, reply))
    }

    /// Why each of these campaigns does not spend, if so, in their order. They are asked for in parts:
    /// shards wait for none.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn refusals(&self, slots: &[Slot]) -> Result<Vec<Option<Refusal>>, AskError> {
        let mut refusals = Vec::with_capacity(slots.len());
        for part in slots.chunks(REFUSALS_MAX) {
            refusals.extend(self.ask(|reply| Ask::Refusals(part.to_vec(), reply))?);
        }
        Ok(refusals)
    }

    /// How far each of these campaigns has come, in their order. They are asked for in parts.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn deliveries(&self, slots: &[Slot]) -> Result<Vec<Delivery>, AskError> {
        let mut deliveries = Vec::with_capacity(slots.len());
        for part in slots.chunks(DELIVERIES_MAX) {
            deliveries.extend(self.ask(|reply| Ask::Deliveries(part.to_vec(), reply))?);
        }
        Ok(deliveries)
    }

    /// How a campaign bids now; `None` without a strategy, or before its first slot.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn bidding(&self, slot: Slot) -> Result<Option<Bidding>, AskError> {
        self.ask(|reply| Ask::Bidding(slot, reply))
    }

    /// What an account has spent, all its campaigns and seats together; `None` if there is no such
    /// account.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn spend_account(&self, id: AccountId) -> Result<Option<Spend>, AskError> {
        self.ask(|reply| Ask::SpendAccount(id, reply))
    }

    /// What a campaign has spent; `None` if there is no such campaign.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn spend(&self, slot: Slot) -> Result<Option<Spend>, AskError> {
        self.ask(|reply| Ask::Spend(slot, reply))
    }

    /// The curve that a campaign follows, and how it did; `None` without a strategy or a limit.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn curve(&self, slot: Slot) -> Result<Option<Curve>, AskError> {
        self.ask(|reply| Ask::Curve(slot, reply))
    }

    /// How it stands, without asking it.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// The time on the wall that the ledger goes by, in milliseconds since 1970; 0 before its first turn.
    /// It never goes back, not even over a start: shards must not be behind it, or rights would be of an
    /// hour that has not begun there.
    pub fn unix_ms(&self) -> u64 {
        self.shared.unix_ms()
    }

    /// Whether nothing may be authorised any more; it stays so.
    pub fn halted(&self) -> Halted {
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

    fn ask<T>(&self, ask: impl FnOnce(Reply<T>) -> Ask) -> Result<T, AskError> {
        self.ask_within(PATIENCE, ask)
    }

    fn ask_within<T>(
        &self,
        patience: Duration,
        ask: impl FnOnce(Reply<T>) -> Ask,
    ) -> Result<T, AskError> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.asks.send(ask(reply)).map_err(|_| AskError::Over)?;
        self.waker.wake();
        answer.recv_timeout(patience).map_err(|error| match error {
            RecvTimeoutError::Timeout => AskError::Late,
            RecvTimeoutError::Disconnected => AskError::Over,
        })
    }
}
