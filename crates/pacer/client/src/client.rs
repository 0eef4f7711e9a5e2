//! The client's handle, for any number of callers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pacer_wire::{DecisionCode, SettlementCode, SettlementEntry, SettlementOutcome, TOKEN_BYTES};
use tokio::sync::{mpsc, oneshot};
use units::Nanos;

use crate::catalogue::CampaignHandle;
use crate::driver::{self, WaitingRequest};
use crate::options::PacerClientOptions;
use crate::request::{AuthorisedBid, SpendRequest};
use crate::settlements::UnsettledToken;
use crate::shared::ClientShared;

/// A client of one pacer. Clones share the connection, which ends once all are gone and every
/// settlement has its result.
#[derive(Clone, Debug)]
pub struct PacerClient {
    requests: mpsc::Sender<WaitingRequest>,
    shared: Arc<ClientShared>,
}

/// A decision on its way. If it is dropped, the bid is reported as lost.
#[derive(Debug)]
pub struct PendingDecision {
    deadline: Instant,
    decided: oneshot::Receiver<Result<AuthorisedBid, DecisionCode>>,
}

impl PendingDecision {
    /// Waits for it. None means that nothing may be spent: there was no answer in time.
    pub async fn decided(self) -> Option<Result<AuthorisedBid, DecisionCode>> {
        tokio::time::timeout_at(self.deadline.into(), self.decided).await.ok()?.ok()
    }
}

/// What an operator should know of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientStatus {
    /// Whether there is a connection with a catalogue.
    pub is_connected: bool,
    /// Node of the last server.
    pub node: u32,
    /// Its start.
    pub epoch: u32,
    /// Its catalogue.
    pub generation: u64,
    /// Settlements without a result.
    pub unsettled: usize,
    /// Authorised decisions that came too late, or for nobody.
    pub late: u64,
    /// Requests that found too many others waiting.
    pub shed: u64,
}

impl PacerClient {
    /// Starts the task that keeps the connection.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start(options: PacerClientOptions) -> Self {
        let (requests, received) = mpsc::channel(options.waiting_max.max(1));
        let settlements_max = options.settlements_max;
        let shared = Arc::new(ClientShared::new(settlements_max));
        tokio::spawn(driver::run(options, Arc::clone(&shared), received));
        Self { requests, shared }
    }

    /// Asks for a decision, for at most `within`. None means that nothing may be spent: there was
    /// no answer in time.
    pub async fn decide(
        &self,
        request: SpendRequest,
        within: Duration,
    ) -> Option<Result<AuthorisedBid, DecisionCode>> {
        self.ask(request, within)?.decided().await
    }

    /// Begins [`Self::decide`], so that requests asked before the next await share a batch. None if
    /// too many wait.
    pub fn ask(&self, request: SpendRequest, within: Duration) -> Option<PendingDecision> {
        let (reply, decided) = oneshot::channel();
        let deadline = Instant::now() + within;
        if self.requests.try_send(WaitingRequest { request, deadline, reply }).is_err() {
            self.shared.shed.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(PendingDecision { deadline, decided })
    }

    /// Reports a win and what the seller bills. It is repeated until the pacer has booked it, also
    /// on later connections. The result need not be awaited. None if the client holds too many
    /// settlements already.
    pub fn won(
        &self,
        token: [u8; TOKEN_BYTES],
        cost: Nanos,
    ) -> Option<oneshot::Receiver<SettlementCode>> {
        self.settle(SettlementEntry::new(token, SettlementOutcome::Won, cost))
    }

    /// As [`Self::won`], for a bid that lost, or that was not sent.
    pub fn lost(&self, token: [u8; TOKEN_BYTES]) -> Option<oneshot::Receiver<SettlementCode>> {
        self.settle(SettlementEntry::new(token, SettlementOutcome::Lost, Nanos::ZERO))
    }

    fn settle(&self, entry: SettlementEntry) -> Option<oneshot::Receiver<SettlementCode>> {
        let (reply, result) = oneshot::channel();
        {
            let mut settlements = self.shared.settlements();
            if settlements.len() >= self.shared.settlements_max {
                return None;
            }
            settlements.push(UnsettledToken { entry, reply: Some(reply) });
        }
        self.shared.settled.notify_one();
        Some(result)
    }

    /// A campaign by its ids. None if the client may not name it, or there is no catalogue yet.
    pub fn campaign(&self, account: &str, campaign: &str) -> Option<CampaignHandle> {
        self.shared.catalogue().get(account, campaign)
    }

    /// All campaigns: account, id and handle.
    pub fn campaigns(&self) -> Vec<(Box<str>, Box<str>, CampaignHandle)> {
        self.shared.catalogue().all()
    }

    /// Whether there is a connection with a catalogue.
    pub fn is_connected(&self) -> bool {
        self.shared.is_connected()
    }

    /// The client's state.
    pub fn status(&self) -> ClientStatus {
        let shared = &self.shared;
        let number = |cell: &AtomicU64| u32::try_from(cell.load(Ordering::Relaxed)).unwrap_or(0);
        ClientStatus {
            is_connected: shared.is_connected(),
            node: number(&shared.node),
            epoch: number(&shared.epoch),
            generation: shared.catalogue().generation,
            unsettled: shared.settlements().len(),
            late: shared.late.load(Ordering::Relaxed),
            shed: shared.shed.load(Ordering::Relaxed),
        }
    }
}
