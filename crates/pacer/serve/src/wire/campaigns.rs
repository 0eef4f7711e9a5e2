//! The campaigns that clients may name, as one immutable table in each generation of the catalogue.
//!
//! A campaign's handle is its number in the ledger, which is never given to another one. Must not
//! know what a campaign may spend.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pacer_core::messages::CampaignIndex;
use units::Currency;

use super::bidders::{Bidder, BidderChanges, BidderList};
use super::config::BidderConfig;
use crate::registry::PublishedCatalogue;

/// The account of a handle without a campaign.
const NO_ACCOUNT: u32 = u32::MAX;

/// A campaign that a client may name, or could name before it was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedCampaign {
    pub id: Arc<str>,
    pub account: Arc<str>,
    account_number: u32,
    pub currency: Currency,
    /// Whether neither it nor its account is paused.
    pub is_open: bool,
    pub is_removed: bool,
}

/// All campaigns of one generation, and who may name them.
#[derive(Debug)]
pub(crate) struct CampaignTable {
    pub generation: u64,
    /// Counts tables: a generation has another one after each change of the clients.
    pub revision: u64,
    /// Handles of campaigns that are new, changed or removed since the revision before. None if
    /// every client must learn all its campaigns anew.
    pub changed: Option<Vec<u32>>,
    /// Clients by number.
    pub bidders: Vec<Arc<Bidder>>,
    /// By handle.
    campaigns: Vec<Option<NamedCampaign>>,
    /// The account's number by handle, or [`NO_ACCOUNT`]. Removed campaigns have none.
    accounts: Vec<u32>,
    /// Of each client: what it may spend on, and what it may settle.
    scopes: Vec<(AccountSet, AccountSet)>,
}

/// Accounts of a client.
#[derive(Clone, Debug)]
enum AccountSet {
    All,
    /// A bit for each account.
    Some(Vec<u64>),
}

/// Makes tables of successive catalogues.
#[derive(Debug)]
pub(crate) struct TableBuilder {
    bidders: BidderList,
    /// Accounts in the order in which they were first seen.
    numbers: HashMap<Arc<str>, u32>,
    campaigns: Vec<Option<NamedCampaign>>,
    generation: u64,
    revision: u64,
}

impl TableBuilder {
    /// For these clients.
    pub fn new(bidders: BidderList) -> Self {
        let (numbers, campaigns) = (HashMap::new(), Vec::new());
        Self { bidders, numbers, campaigns, generation: 0, revision: 0 }
    }

    /// The table with other clients, and how they differ. None if they are the same.
    pub fn with_clients(
        &mut self,
        clients: Vec<BidderConfig>,
    ) -> Option<(CampaignTable, BidderChanges)> {
        let changes = self.bidders.replace(clients)?;
        Some((self.next(None), changes))
    }

    /// The table of a catalogue. Campaigns that are no longer in it can still be settled.
    pub fn table<R>(&mut self, catalogue: &PublishedCatalogue<R>) -> CampaignTable {
        let currencies: HashMap<&str, Currency> =
            catalogue.accounts.iter().map(|account| (&*account.id, account.currency)).collect();
        let mut campaigns: Vec<Option<NamedCampaign>> = Vec::new();
        for campaign in catalogue.campaigns.iter().filter(|campaign| !campaign.is_lot) {
            let Some(currency) = currencies.get(&*campaign.account) else { continue };
            let at = position(campaign.slot.0);
            if campaigns.len() <= at {
                campaigns.resize(at + 1, None);
            }
            campaigns[at] = Some(NamedCampaign {
                id: Arc::clone(&campaign.id),
                account: Arc::clone(&campaign.account),
                account_number: self.account_number(&campaign.account),
                currency: *currency,
                is_open: campaign.is_open,
                is_removed: false,
            });
        }
        self.keep_removed(&mut campaigns);
        let changed = self.changed(&campaigns);
        self.campaigns = campaigns;
        self.generation = catalogue.number;
        self.next(Some(changed))
    }

    fn next(&mut self, changed: Option<Vec<u32>>) -> CampaignTable {
        self.revision += 1;
        let spendable = |campaign: &Option<NamedCampaign>| {
            let campaign = campaign.as_ref().filter(|campaign| !campaign.is_removed);
            campaign.map_or(NO_ACCOUNT, |campaign| campaign.account_number)
        };
        let accounts = self.campaigns.iter().map(spendable).collect();
        let scopes =
            self.bidders.bidders.iter().map(|bidder| {
                (self.scope(&bidder.config.accounts), self.scope(&bidder.settleable))
            });
        CampaignTable {
            generation: self.generation,
            revision: self.revision,
            changed,
            bidders: self.bidders.bidders.clone(),
            campaigns: self.campaigns.clone(),
            accounts,
            scopes: scopes.collect(),
        }
    }

    fn keep_removed(&self, campaigns: &mut Vec<Option<NamedCampaign>>) {
        campaigns.resize(campaigns.len().max(self.campaigns.len()), None);
        for (now, before) in campaigns.iter_mut().zip(&self.campaigns) {
            if now.is_none() {
                now.clone_from(before);
                if let Some(removed) = now {
                    removed.is_removed = true;
                }
            }
        }
    }

    fn changed(&self, campaigns: &[Option<NamedCampaign>]) -> Vec<u32> {
        let handles = (0_u32..).zip(campaigns);
        let before = |handle: u32| self.campaigns.get(position(handle)).and_then(Option::as_ref);
        let changed = handles.filter(|(handle, now)| before(*handle) != now.as_ref());
        changed.map(|(handle, _)| handle).collect()
    }

    fn account_number(&mut self, account: &Arc<str>) -> u32 {
        let next = u32::try_from(self.numbers.len()).expect("accounts are fewer than 2^32");
        *self.numbers.entry(Arc::clone(account)).or_insert(next)
    }

    fn scope(&self, accounts: &BTreeSet<String>) -> AccountSet {
        if accounts.is_empty() {
            return AccountSet::All;
        }
        let mut bits = vec![0; self.numbers.len().div_ceil(64)];
        for number in accounts.iter().filter_map(|account| self.numbers.get(&**account)) {
            bits[position(number / 64)] |= 1 << (number % 64);
        }
        AccountSet::Some(bits)
    }
}

impl CampaignTable {
    /// The campaign, if the client may spend on it.
    #[inline]
    pub fn spendable(&self, client: usize, handle: u32) -> Option<CampaignIndex> {
        let account = *self.accounts.get(position(handle))?;
        let is_own = account != NO_ACCOUNT && self.scopes[client].0.has(account);
        is_own.then_some(CampaignIndex(handle))
    }

    /// The campaign, if the client may settle its reservations: also a removed one's.
    pub fn settleable(&self, client: usize, slot: CampaignIndex) -> Option<&NamedCampaign> {
        let campaign = self.campaigns.get(position(slot.0))?.as_ref()?;
        self.scopes[client].1.has(campaign.account_number).then_some(campaign)
    }

    /// The campaign, if the client may see it: also a removed one.
    pub fn visible(&self, client: usize, handle: u32) -> Option<&NamedCampaign> {
        let campaign = self.campaigns.get(position(handle))?.as_ref()?;
        self.scopes[client].0.has(campaign.account_number).then_some(campaign)
    }

    /// The campaigns that the client may name, with their handles.
    pub fn of_client(&self, client: usize) -> impl Iterator<Item = (u32, &NamedCampaign)> {
        let all = (0_u32..).zip(&self.campaigns);
        let named = all.filter_map(|(handle, campaign)| Some((handle, campaign.as_ref()?)));
        named.filter(move |(_, campaign)| {
            !campaign.is_removed && self.scopes[client].0.has(campaign.account_number)
        })
    }
}

impl AccountSet {
    #[inline]
    fn has(&self, account: u32) -> bool {
        match self {
            Self::All => true,
            Self::Some(bits) => {
                bits.get(position(account / 64)).is_some_and(|word| word >> (account % 64) & 1 == 1)
            }
        }
    }
}

fn position(number: u32) -> usize {
    usize::try_from(number).expect("addresses have 32 bits at least")
}

#[cfg(test)]
mod tests {
    use runtime::config::Secret;

    use super::*;
    use crate::registry::{PublishedAccount, PublishedCampaign};

    #[test]
    fn clients_do_not_spend_what_was_sold_with_a_lot() {
        let account = PublishedAccount {
            id: "acme".into(),
            currency: Currency::USD,
            slot: None,
            seats: Vec::new(),
        };
        let campaign = |slot: u32, id: &str| PublishedCampaign {
            id: id.into(),
            slot: CampaignIndex(slot),
            version: 1,
            account: "acme".into(),
            rules: (),
            is_lot: id.starts_with("lot:"),
            is_open: true,
        };
        let catalogue = PublishedCatalogue {
            number: 1,
            accounts: vec![account],
            campaigns: vec![campaign(1, "lot:home"), campaign(0, "spring")],
        };
        let client = BidderConfig {
            id: "dsp-1".into(),
            secret: Secret::new("s"),
            accounts: BTreeSet::new(),
        };
        let table = TableBuilder::new(BidderList::new(1, vec![client])).table(&catalogue);
        let named: Vec<_> = table.of_client(0).map(|(_, campaign)| &*campaign.id).collect();
        assert_eq!(named, ["spring"]);
        assert_eq!((table.spendable(0, 0), table.spendable(0, 1)), (Some(CampaignIndex(0)), None));
    }
}
