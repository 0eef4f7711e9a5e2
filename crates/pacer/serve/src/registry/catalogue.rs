//! What the registry tells the exchange: all accounts and campaigns as of one moment.
//!
//! A thread of its own makes it, so that changes that come close together are told as one.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use pacer_core::messages::Slot;
use tracing::warn;
use units::Currency;

/// All accounts and campaigns that are not removed, as of one moment.
#[derive(Clone, Debug)]
pub struct Published<R> {
    /// Grows with each, from 1.
    pub number: u64,
    /// In order of their ids.
    pub accounts: Vec<PublishedAccount>,
    /// In order of their ids.
    pub campaigns: Vec<PublishedCampaign<R>>,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedAccount {
    /// Its id.
    pub id: Arc<str>,
    /// Of its money.
    pub currency: Currency,
    /// Of what its seats spend, where it has or had any.
    pub slot: Option<Slot>,
    /// The DSP and the seat.
    pub seats: Vec<(String, String)>,
}

/// A campaign.
#[derive(Clone, Debug)]
pub struct PublishedCampaign<R> {
    /// Its id.
    pub id: Arc<str>,
    /// As the ledger numbers it.
    pub slot: Slot,
    /// Grows with every change.
    pub version: u64,
    /// Its account's id.
    pub account: Arc<str>,
    /// The exchange's part.
    pub rules: R,
    /// Whether neither it nor its account is paused.
    pub is_open: bool,
}

/// Where changes are rung in.
#[derive(Debug, Default)]
pub(super) struct Bell {
    rung: Mutex<Rung>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Rung {
    is_due: bool,
    is_ended: bool,
}

impl Bell {
    /// Something has changed.
    pub(super) fn ring(&self) {
        self.set(|rung| rung.is_due = true);
    }

    /// Nothing more is published.
    pub(super) fn end(&self) {
        self.set(|rung| rung.is_ended = true);
    }

    fn set(&self, set: impl FnOnce(&mut Rung)) {
        set(&mut self.rung.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Waits for the next change; false at the end.
    fn wait(&self) -> bool {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_while(rung, |rung| !rung.is_due && !rung.is_ended);
        let mut rung = waited.unwrap_or_else(PoisonError::into_inner);
        rung.is_due = false;
        !rung.is_ended
    }
}

/// Starts the thread, which calls `publish` after every change, once for all that came meanwhile.
pub(super) fn start(
    bell: Arc<Bell>,
    mut publish: impl FnMut() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("catalogue".to_owned());
    thread.spawn(move || {
        if let Err(error) = runtime::process::stand_back() {
            warn!(%error, "telling of campaigns may hold up auctions");
        }
        while bell.wait() {
            publish();
        }
    })
}
