//! What callers and the connection's task share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::catalogue::ClientCatalogue;
use crate::settlements::SettlementQueue;

/// The client's state.
#[derive(Debug, Default)]
pub(crate) struct ClientShared {
    catalogue: Mutex<ClientCatalogue>,
    settlements: Mutex<SettlementQueue>,
    /// Wakes the task for a settlement.
    pub settled: Notify,
    is_connected: AtomicBool,
    pub node: AtomicU64,
    pub epoch: AtomicU64,
    pub late: AtomicU64,
    pub shed: AtomicU64,
    pub settlements_max: usize,
}

impl ClientShared {
    pub fn new(settlements_max: usize) -> Self {
        Self { settlements_max, ..Self::default() }
    }

    pub fn catalogue(&self) -> MutexGuard<'_, ClientCatalogue> {
        self.catalogue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn settlements(&self) -> MutexGuard<'_, SettlementQueue> {
        self.settlements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for another settlement.
    pub async fn settled(&self) {
        self.settled.notified().await;
    }

    pub fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Relaxed)
    }

    /// Returns whether there was no connection before.
    pub fn set_connected(&self) -> bool {
        !self.is_connected.swap(true, Ordering::Relaxed)
    }

    pub fn disconnected(&self) {
        self.is_connected.store(false, Ordering::Relaxed);
        self.settlements().disconnected();
    }

    pub fn welcomed(&self, node: u32, epoch: u32) {
        self.node.store(node.into(), Ordering::Relaxed);
        self.epoch.store(epoch.into(), Ordering::Relaxed);
    }

    pub fn count_late(&self) {
        self.late.fetch_add(1, Ordering::Relaxed);
    }
}
