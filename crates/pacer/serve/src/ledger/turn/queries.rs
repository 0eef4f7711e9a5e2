//! Serves queries to the ledger's thread.

use pacer_core::ledger::{LedgerInput, LedgerTime, SpendDiagnosis};
use pacer_core::messages::CampaignIndex;
use pacer_core::refusal::SpendRefusal;
use pacer_core::store::LeaseStore as _;

use super::LedgerLoop;
use super::changes::{PendingAnswer, PendingDefinitions};
use crate::ledger::handle::{
    DefinitionReport, DeliveryProgress, LedgerQuery, NamedAccount, PacedCampaign, ReplySender,
};

const ASKS_MAX: usize = 256;
/// Most definitions that a turn takes: shards wait meanwhile.
const DEFINED_MAX: usize = 2_048;
impl LedgerLoop {
    /// Returns whether more waits.
    pub(super) fn take_asks(&mut self, now: LedgerTime) -> bool {
        for _ in 0..ASKS_MAX {
            let Ok(query) = self.channels.asks.try_recv() else { return false };
            self.take_ask(query, now);
        }
        true
    }

    fn take_ask(&mut self, query: LedgerQuery, now: LedgerTime) {
        /// The caller may have given up.
        fn send<T>(reply: &ReplySender<T>, answer: T) {
            let _heard = reply.send(answer);
        }
        match query {
            LedgerQuery::Define(accounts, campaigns, reply) => {
                self.pending_definitions.push_back(PendingDefinitions {
                    accounts: accounts.into_iter(),
                    campaigns: campaigns.into_iter(),
                    defined: DefinitionReport::default(),
                    reply,
                });
            }
            LedgerQuery::Change(change, digest, reply) => match change.check() {
                Ok(()) => self.changes.push(change, digest, reply),
                Err(denied) => send(&reply, Err(denied)),
            },
            LedgerQuery::Read(query, reply) => {
                self.store.read(query);
                self.expected.push_back(PendingAnswer::Read(reply));
            }
            LedgerQuery::NextSlot(reply) => send(&reply, self.ledger.next_slot()),
            LedgerQuery::Why(slot, reply) => send(&reply, self.why(slot)),
            LedgerQuery::WhyAccount(id, reply) => send(&reply, self.ledger.why_account(id)),
            LedgerQuery::Refusals(slots, reply) => {
                send(&reply, slots.into_iter().map(|slot| self.why(slot).refusal).collect());
            }
            LedgerQuery::Deliveries(slots, reply) => {
                let of = |slot| {
                    let planned = self.pacer.planned(slot, now.unix_ms);
                    DeliveryProgress::of(&self.why(slot), self.ledger.spend(slot).as_ref(), planned)
                };
                send(&reply, slots.into_iter().map(of).collect());
            }
            LedgerQuery::Bidding(slot, reply) => send(&reply, self.pacer.bidding(slot)),
            LedgerQuery::SpendAccount(id, reply) => send(&reply, self.ledger.spend_account(id)),
            LedgerQuery::Spend(slot, reply) => send(&reply, self.ledger.spend(slot)),
            LedgerQuery::Curve(slot, reply) => send(&reply, self.pacer.curve(slot, now.unix_ms)),
        }
    }

    fn why(&self, slot: CampaignIndex) -> SpendDiagnosis {
        let mut why = self.ledger.why(slot);
        let is_throttled = self.pacer.pace(slot).is_some_and(|pace| pace.threshold() == 0);
        why.refusal = match why.refusal {
            None if is_throttled => Some(SpendRefusal::Throttled),
            Some(refusal) if is_throttled => Some(refusal.min(SpendRefusal::Throttled)),
            refusal => refusal,
        };
        why
    }

    /// Passes some waiting definitions to the rules and the pacer; [`Self::finish_defining`] replies
    /// after the step.
    pub(super) fn define_some(&mut self, now: LedgerTime) {
        let Some(defining) = self.pending_definitions.front_mut() else { return };
        let mut taken = 0;
        for NamedAccount { name, terms: account } in defining.accounts.by_ref().take(DEFINED_MAX) {
            self.tables.need(account.zone, now.unix_ms, &mut self.inbox, &mut self.pacer);
            self.pacer.take_account(account.id, account.zone, account.version);
            self.inbox.push(LedgerInput::AccountName(account.id, name));
            self.inbox.push(LedgerInput::Account(account));
            taken += 1;
        }
        for campaign in defining.campaigns.by_ref().take(DEFINED_MAX - taken) {
            let PacedCampaign { terms, pacing } = campaign;
            let paced = self.pacer.define(&terms, pacing.as_ref(), now.unix_ms);
            if let Err(error) = paced {
                defining.defined.unpaced.push((terms.slot, error));
            }
            self.inbox.push(LedgerInput::Campaign(terms));
        }
    }

    pub(super) fn finish_defining(&mut self) {
        let is_taken = |it: &mut PendingDefinitions| {
            it.accounts.as_slice().is_empty() && it.campaigns.as_slice().is_empty()
        };
        if let Some(defining) = self.pending_definitions.pop_front_if(is_taken) {
            let _heard = defining.reply.send(defining.defined);
        }
    }
}
