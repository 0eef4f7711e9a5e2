//! A pacer in another process, whose campaigns pay for seats of DSPs. A client on each shard asks
//! before a win is sold; the forwarder reports what was billed.
//!
//! **Invariant:** nothing is sold on a decision that the auction did not get in time. The pacer
//! alone decides about money.

mod forwarder;
mod offset;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use eventlog::lane::{LaneHandle, LaneState};
use exchange_core::WinCost;
use pacer_client::{
    AuthorisedAmount, AuthorisedBid, Candidate, DecisionCode, Offer, PacerClient,
    PacerClientOptions, PendingDecision, SpendRequest, TOKEN_BYTES,
};
use pacer_core::refusal::SpendRefusal;
use record::Record;
use tokio::time::Instant;
use units::{Cpm, Currency, Nanos};

use crate::config::{PacedSeat, RemotePacerConfig};
use crate::notices::Settlements;

pub(crate) use forwarder::{ForwarderCounts, ForwarderError, SettlementForwarder};

/// The process's connections to the pacer.
#[derive(Debug)]
pub(crate) struct RemotePacer {
    options: PacerClientOptions,
    durable: LaneHandle,
    clients: Mutex<Vec<PacerClient>>,
    forwarder: Mutex<Option<SettlementForwarder>>,
    pub counts: Arc<ForwarderCounts>,
}

/// The state of all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemotePacerStatus {
    /// Shards that have a connection.
    pub connected: usize,
    /// Shards.
    pub clients: usize,
    /// Authorised decisions that came too late, and were returned.
    pub late: u64,
    /// Requests that were not sent, because too many waited.
    pub shed: u64,
}

/// One shard's client.
#[derive(Debug)]
pub(crate) struct ShardPacer {
    client: PacerClient,
    durable: LaneHandle,
}

/// A win that waits for its decision.
#[derive(Debug)]
pub(crate) struct AskedWin {
    pending: PendingDecision,
    cost: Nanos,
    /// The bid, by position in the judgement.
    pub bid: usize,
    pub currency: Currency,
}

impl RemotePacer {
    /// Starts the forwarder, and returns what the dispatcher tells it.
    pub fn start(
        config: &RemotePacerConfig,
        record: &Record,
    ) -> Result<(Self, Box<dyn Settlements>), ForwarderError> {
        let options = config.options();
        let counts = Arc::new(ForwarderCounts::default());
        let (forwarder, settlements) =
            SettlementForwarder::start(options.clone(), record, Arc::clone(&counts))?;
        let pacer = Self {
            options,
            durable: record.durable.clone(),
            clients: Mutex::default(),
            forwarder: Mutex::new(Some(forwarder)),
            counts,
        };
        Ok((pacer, Box::new(settlements)))
    }

    /// The client of the shard whose runtime this is.
    pub fn shard(&self) -> ShardPacer {
        let client = PacerClient::start(self.options.clone());
        self.clients().push(client.clone());
        ShardPacer { client, durable: self.durable.clone() }
    }

    fn clients(&self) -> MutexGuard<'_, Vec<PacerClient>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn status(&self) -> RemotePacerStatus {
        let mut all = RemotePacerStatus::default();
        for status in self.clients().iter().map(PacerClient::status) {
            all.connected += usize::from(status.is_connected);
            all.clients += 1;
            all.late += status.late;
            all.shed += status.shed;
        }
        all
    }

    /// Ends, once the dispatcher has ended. What has no result is forwarded by the next start.
    pub fn end(&self) {
        let forwarder = self.forwarder.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(forwarder) = forwarder {
            forwarder.end();
        }
    }
}

impl ShardPacer {
    /// Asks whether a campaign pays for a win, until `until`. `cost_in` is the cost in its currency.
    ///
    /// # Errors
    /// Why nothing was asked.
    pub fn ask(
        &self,
        seat: &PacedSeat,
        cost_in: impl FnOnce(Currency) -> Option<WinCost>,
        until: Instant,
    ) -> Result<AskedWin, SpendRefusal> {
        // What is billed must become durable here.
        if self.durable.state() != LaneState::Writing || !self.client.is_connected() {
            return Err(SpendRefusal::LedgerUnavailable);
        }
        let campaign = self.client.campaign(&seat.account, &seat.campaign);
        let campaign = campaign.ok_or(SpendRefusal::Unknown)?;
        // The currency has no rate.
        let owed = cost_in(campaign.currency).ok_or(SpendRefusal::Unknown)?;
        let within = until.saturating_duration_since(Instant::now());
        let offer = Offer::Cost(owed.amount);
        let candidate = Candidate { campaign: campaign.handle, offer, minimum: Cpm::ZERO };
        let lifetime_s = u16::try_from(owed.billable_s).unwrap_or(u16::MAX);
        // A cost is never throttled, so that its request needs no id.
        let request = SpendRequest::new(0, &[candidate]).with_lifetime(lifetime_s);
        let pending = self.client.ask(request, within).filter(|_| !within.is_zero());
        let pending = pending.ok_or(SpendRefusal::LedgerUnavailable)?;
        Ok(AskedWin { pending, cost: owed.amount, bid: owed.bid, currency: campaign.currency })
    }

    /// Returns a reservation whose bid was not sold, or lost upstream. A lost release expires.
    pub fn release(&self, token: [u8; TOKEN_BYTES]) {
        let _result = self.client.lost(token);
    }

    /// The decision: the reservation's token.
    pub async fn decided(&self, asked: AskedWin) -> Result<[u8; TOKEN_BYTES], SpendRefusal> {
        match asked.pending.decided().await {
            None => Err(SpendRefusal::LedgerUnavailable),
            Some(Err(code)) => Err(refusal_of(code)),
            Some(Ok(AuthorisedBid { amount: AuthorisedAmount::Cost(cost), token, .. }))
                if cost == asked.cost =>
            {
                Ok(token)
            }
            Some(Ok(contradiction)) => {
                self.release(contradiction.token);
                Err(SpendRefusal::LedgerUnavailable)
            }
        }
    }
}

const fn refusal_of(code: DecisionCode) -> SpendRefusal {
    match code {
        DecisionCode::Invalid | DecisionCode::Unknown => SpendRefusal::Unknown,
        DecisionCode::Paused => SpendRefusal::Paused,
        DecisionCode::OutOfFlight => SpendRefusal::OutOfFlight,
        DecisionCode::OutOfDaypart => SpendRefusal::OutOfDaypart,
        DecisionCode::BudgetExhausted => SpendRefusal::BudgetExhausted,
        DecisionCode::DayExhausted => SpendRefusal::DayExhausted,
        DecisionCode::HourExhausted => SpendRefusal::HourExhausted,
        DecisionCode::Throttled => SpendRefusal::Throttled,
        DecisionCode::BelowMinimum => SpendRefusal::BelowMinimum,
        DecisionCode::Authorised | DecisionCode::Unavailable | DecisionCode::Late => {
            SpendRefusal::LedgerUnavailable
        }
    }
}
