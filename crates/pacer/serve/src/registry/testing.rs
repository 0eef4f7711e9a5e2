//! A desk without a ledger, for tests of who asks one: it keeps what it is told in a real store, and
//! says of money what it was told to say. And rules of campaigns that have a price alone.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pacer_core::ledger::{AccountId, AccountWhy, Spend, Why};
use pacer_core::messages::{Epoch, Slot};
use pacer_core::pacing::{Bidding, Curve};
use pacer_core::refusal::Refusal;
use pacer_core::store::{
    Answer, AuditEntry, AuditKey, Cause, Change, Definition, DefinitionKey, Denied, Found, Kind,
    LeaseStore as _, Query, Writer,
};
use runtime::config::{Optional, Section};
use units::{Cpm, Nanos, Round};

use super::{AccountFacts, AccountOrder, CampaignOrder, DeskError, LedgerDesk, Rules};
use crate::digest::Digest;
use crate::handle::Delivery;
use crate::{OpenError, Options, Store};

/// Longer than anything takes: a test fails instead of hanging.
const EVER: Duration = Duration::from_secs(60);

/// What the ledger would know.
#[derive(Debug, Default)]
pub struct Told {
    /// The latest of each account.
    pub accounts: BTreeMap<u32, AccountOrder>,
    /// The latest of each campaign.
    pub campaigns: BTreeMap<Slot, CampaignOrder>,
    /// What is to be said of it.
    pub spends: BTreeMap<Slot, Spend>,
    /// What is to be said of it.
    pub whys: BTreeMap<Slot, Why>,
    /// What is to be said of it.
    pub curves: BTreeMap<Slot, Curve>,
    /// What is to be said of it.
    pub biddings: BTreeMap<Slot, Bidding>,
    /// What is to be said of accounts, by their numbers.
    pub account_spends: BTreeMap<u32, Spend>,
    /// What is to be said of it.
    pub account_whys: BTreeMap<u32, AccountWhy>,
    /// Whether it does not take definitions, nor say how far campaigns have come.
    pub is_deaf: bool,
    /// Whether its store takes nothing.
    pub is_full: bool,
    /// Whether nobody hears how changes end, which are kept.
    pub is_late: bool,
    /// Whether nobody hears of changes, and they are not kept.
    pub is_lost: bool,
    /// What it does not take, though it takes the rest.
    pub untaken: Option<Slot>,
    /// How many changes it did not take since it was full.
    pub refused: u64,
    /// How many changes were made durable.
    pub changes: u64,
    /// The most definitions that came at once.
    pub at_once: usize,
    /// Rows of the audit that were read backwards.
    pub audit_read: usize,
}

/// How many changes there were, and what the last said.
type Numbered = (u64, Option<Digest>);

/// A store that is waited for, and what a ledger would be told.
#[derive(Debug)]
pub struct StoreDesk {
    store: Mutex<(Store, Writer, Numbered)>,
    told: Mutex<Told>,
}

impl StoreDesk {
    /// Opens the store in `directory`, and begins an epoch.
    ///
    /// # Errors
    /// When the store cannot be opened.
    ///
    /// # Panics
    /// When the store begins no epoch.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        let mut store = Store::open(directory, Options::default())?;
        store.begin(1, Epoch(1));
        let Answer::Begun { node, begun } = answer(&mut store) else {
            panic!("the store answers something else than was asked")
        };
        let begun = begun.expect("an epoch begins");
        let writer = Writer { node, epoch: begun.epoch };
        let numbered = Numbered::default();
        Ok(Self { store: Mutex::new((store, writer, numbered)), told: Mutex::default() })
    }

    /// What the ledger would know.
    pub fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, query: Query) -> Result<Found, DeskError> {
        let mut held = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        held.0.read(query);
        match answer(&mut held.0) {
            Answer::Read(found) => found.map_err(DeskError::Denied),
            other => Err(DeskError::Unavailable(format!("{other:?}"))),
        }
    }
}

fn answer(store: &mut Store) -> Answer {
    let begun = Instant::now();
    loop {
        if let Some(answer) = store.poll() {
            return answer;
        }
        assert!(begun.elapsed() < EVER, "the store never answers");
        store.wait(EVER);
    }
}

impl LedgerDesk for StoreDesk {
    fn change(&self, change: Change) -> Result<(), DeskError> {
        if self.told().is_full {
            self.told().refused += 1;
            return Err(Denied::Failing(Cause::DiskFull).into());
        }
        if self.told().is_lost {
            return Err(DeskError::Unavailable("it is lost".to_owned()));
        }
        let mut held = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let (store, writer, (number, last)) = &mut *held;
        let digest = Some(Digest::of(&change));
        *number += u64::from(*last != digest);
        *last = digest;
        store.change(*writer, Change { number: *number, ..change });
        match answer(store) {
            Answer::Ended(outcome) => match outcome.denied {
                None => {
                    let mut told = self.told();
                    told.changes += 1;
                    let late = || DeskError::Unavailable("it is late".to_owned());
                    if told.is_late { Err(late()) } else { Ok(()) }
                }
                Some(denied) => Err(denied.into()),
            },
            other => Err(DeskError::Unavailable(format!("{other:?}"))),
        }
    }

    fn define(
        &self,
        accounts: Vec<AccountOrder>,
        campaigns: Vec<CampaignOrder>,
    ) -> Result<(), DeskError> {
        let mut told = self.told();
        if told.is_deaf {
            return Err(DeskError::Unavailable("it is deaf".to_owned()));
        }
        told.at_once = told.at_once.max(accounts.len() + campaigns.len());
        for account in accounts {
            let AccountId(number) = account.id;
            let newer = |it: &AccountOrder| it.version < account.version;
            if told.accounts.get(&number).is_none_or(newer) {
                told.accounts.insert(number, account);
            }
        }
        let mut untaken = None;
        for campaign in campaigns {
            if told.untaken == Some(campaign.definition.slot) {
                untaken = Some(DeskError::Untaken("it is refused".to_owned()));
                continue;
            }
            let (slot, version) = (campaign.definition.slot, campaign.definition.version);
            let newer = |it: &CampaignOrder| it.definition.version < version;
            if told.campaigns.get(&slot).is_none_or(newer) {
                told.campaigns.insert(slot, campaign);
            }
        }
        untaken.map_or(Ok(()), Err)
    }

    fn definitions(&self, kind: Kind) -> Result<Vec<(DefinitionKey, Definition)>, DeskError> {
        match self.read(Query::Definitions(kind))? {
            Found::Definitions(found) => Ok(found),
            other => Err(DeskError::Unavailable(format!("{other:?}"))),
        }
    }

    fn audit(
        &self,
        after: Option<AuditKey>,
        most: u32,
    ) -> Result<Vec<(AuditKey, AuditEntry)>, DeskError> {
        match self.read(Query::Audit(after, most))? {
            Found::Audit(found) => Ok(found),
            other => Err(DeskError::Unavailable(format!("{other:?}"))),
        }
    }

    fn audit_before(
        &self,
        before: Option<AuditKey>,
        most: u32,
    ) -> Result<Vec<(AuditKey, AuditEntry)>, DeskError> {
        let node = self.store.lock().unwrap_or_else(PoisonError::into_inner).1.node;
        match self.read(Query::AuditBefore(node, before, most))? {
            Found::Audit(found) => {
                self.told().audit_read += found.len();
                Ok(found)
            }
            other => Err(DeskError::Unavailable(format!("{other:?}"))),
        }
    }

    fn next_slot(&self) -> Result<Slot, DeskError> {
        Ok(Slot(0))
    }

    fn why(&self, slot: Slot) -> Result<Why, DeskError> {
        let told = self.told();
        Ok(told.whys.get(&slot).cloned().unwrap_or(Why {
            refusal: None,
            levels: None,
            hour: None,
            flight_unix_ms: (0, 0),
            at_shards: Nanos::ZERO,
            ready: Nanos::ZERO,
            frozen: Nanos::ZERO,
            is_store_failing: false,
        }))
    }

    fn why_account(&self, id: AccountId) -> Result<AccountWhy, DeskError> {
        let told = self.told();
        Ok(told.account_whys.get(&id.0).cloned().unwrap_or(AccountWhy {
            refusal: None,
            levels: None,
            hour: None,
            at_shards: Nanos::ZERO,
            ready: Nanos::ZERO,
            frozen: Nanos::ZERO,
            is_store_failing: false,
        }))
    }

    fn refusals(&self, slots: &[Slot]) -> Result<Vec<Option<Refusal>>, DeskError> {
        slots.iter().map(|slot| Ok(self.why(*slot)?.refusal)).collect()
    }

    fn deliveries(&self, slots: &[Slot]) -> Result<Vec<Delivery>, DeskError> {
        if self.told().is_deaf {
            return Err(DeskError::Unavailable("it is deaf".to_owned()));
        }
        let of = |slot: &Slot| {
            let (why, spend, curve) = (self.why(*slot)?, self.spend(*slot)?, self.curve(*slot)?);
            let planned = curve.and_then(|curve| {
                let past = curve.points.iter().filter(|point| point.spent.is_some());
                Some((curve.span, past.map(|point| point.target).max()?))
            });
            Ok(Delivery::of(&why, spend.as_ref(), planned))
        };
        slots.iter().map(of).collect()
    }

    fn bidding(&self, slot: Slot) -> Result<Option<Bidding>, DeskError> {
        Ok(self.told().biddings.get(&slot).copied())
    }

    fn spend_account(&self, id: AccountId) -> Result<Option<Spend>, DeskError> {
        Ok(self.told().account_spends.get(&id.0).cloned())
    }

    fn spend(&self, slot: Slot) -> Result<Option<Spend>, DeskError> {
        Ok(self.told().spends.get(&slot).cloned())
    }

    fn curve(&self, slot: Slot) -> Result<Option<Curve>, DeskError> {
        Ok(self.told().curves.get(&slot).cloned())
    }
}

/// Rules of a campaign that has a price, or a value, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceRules {
    /// What it bids at most.
    pub value: Option<String>,
    /// What it bids.
    pub price: Option<String>,
    /// Of its account.
    pub currency: String,
}

impl Rules for PriceRules {
    type Shared = ();

    fn read(s: &mut Section<'_>, account: &AccountFacts) -> Self {
        let (value, price) = s.section("bid", "What it bids.", |s| {
            let value = s.text("value", Optional("2.50"), "The most.");
            let price = s.text("price", Optional("2.00"), "Always this.");
            if value.is_some() == price.is_some() {
                s.problem("value", "nothing", "give a value or a price");
            }
            (value, price)
        });
        Self { value, price, currency: account.currency.to_string() }
    }

    fn share(&mut self, (): &mut ()) {}

    fn is_fixed_price(&self) -> bool {
        self.price.is_some()
    }

    fn amount(&self) -> Cpm {
        let text = self.value.as_ref().or(self.price.as_ref());
        text.and_then(|text| Cpm::parse(text, Round::Down).ok()).unwrap_or(Cpm::ZERO)
    }
}
