//! The end of a process: what no reservation holds goes back, durably, so that the next start may spend it at
//! once.
//!
//! Owns what is free then. A shard that ends sends back what it has not reserved, and says how much it
//! had taken: what was on its way to it is free as well. Of a shard that ended without a word nobody
//! knows, and all that it was granted stays frozen, as after a crash.

use super::Ledger;
use super::account::Account;
use super::bug::{Bug, planted};
use super::campaign::Campaign;
use crate::messages::Slot;

impl Ledger {
    pub(super) fn close(&mut self) {
        if self.is_closing {
            return;
        }
        self.is_closing = true;
        self.hungry.clear();
        let shards = std::mem::take(&mut self.closed_shards);
        let receipts = std::mem::take(&mut self.receipts);
        for slot in 0..self.campaigns.len() {
            let slot = Slot(u32::try_from(slot).expect("slots are numbered by 32 bits"));
            let Some((campaign, account)) = self.pair(slot) else { continue };
            for at in 0..campaign.books.len() {
                let book = &mut campaign.books[at];
                for shard in &shards {
                    let taken = receipts.get(&(slot, book.period, *shard));
                    book.return_untaken(*shard, taken.copied().unwrap_or(0));
                }
                campaign.recount(at, account);
            }
            self.mark(slot);
        }
    }

    /// Whether all that it knows is durable: nothing is missing if it ends now.
    pub fn is_saved(&self) -> bool {
        self.in_flight.is_none()
            && self.dirty.is_empty()
            && self.unsaved.is_empty()
            && self.orphans_unsaved.is_empty()
            && self.strays.is_empty()
            && !self.is_life_due()
            && self.saved_seq == self.applied_seq
    }
}

impl Campaign {
    /// Gives back what no shard holds, of every period.
    pub(super) fn return_pools(&mut self, account: &mut Account) {
        if planted(Bug::KeepAtClose) {
            return;
        }
        for at in 0..self.books.len() {
            self.books[at].return_pool();
            self.recount(at, account);
        }
    }
}
