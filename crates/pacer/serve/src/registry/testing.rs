//! A desk without a ledger, for tests of who asks one: it keeps what it is told in a real store, and
//! says of money what it was told to say. And rules of campaigns that have a price alone.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pacer_core::ledger::{AccountId, Spend, Why};
use pacer_core::messages::Slot;
use pacer_core::store::{
    Answer, AuditEntry, AuditKey, Cause, Change, Definition, DefinitionKey, Denied, Found, Kind,
    LeaseStore as _, Query, Writer,
};
use runtime::config::{Optional, Section};
use units::Nanos;

use super::{AccountFacts, AccountOrder, CampaignOrder, Curve, DeskError, LedgerDesk, Rules};
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
    /// Whether it does not take definitions.
    pub is_deaf: bool,
    /// Whether its store takes nothing.
    pub is_full: bool,
    /// How many changes were made durable.
    pub changes: u64,
}

/// A store that is waited for, and what a ledger would be told.
#[derive(Debug)]
pub struct StoreDesk {
    store: Mutex<(Store, Writer, u64)>,
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
        store.begin(1);
        let Answer::Begun { node, begun } = answer(&mut store) else {
            panic!("the store answers something else than was asked")
        };
        let begun = begun.expect("an epoch begins");
        let writer = Writer { node, epoch: begun.epoch };
        Ok(Self { store: Mutex::new((store, writer, 0)), told: Mutex::default() })
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
            return Err(Denied::Failing(Cause::DiskFull).into());
        }
        let mut held = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let (store, writer, number) = &mut *held;
        *number += 1;
        store.change(*writer, Change { number: *number, ..change });
        match answer(store) {
            Answer::Ended(outcome) => match outcome.denied {
                None => {
                    self.told().changes += 1;
                    Ok(())
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
        for account in accounts {
            let AccountId(number) = account.id;
            let newer = |it: &AccountOrder| it.version < account.version;
            if told.accounts.get(&number).is_none_or(newer) {
                told.accounts.insert(number, account);
            }
        }
        for campaign in campaigns {
            let (slot, version) = (campaign.definition.slot, campaign.definition.version);
            let newer = |it: &CampaignOrder| it.definition.version < version;
            if told.campaigns.get(&slot).is_none_or(newer) {
                told.campaigns.insert(slot, campaign);
            }
        }
        Ok(())
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

    fn is_fixed_price(&self) -> bool {
        self.price.is_some()
    }
}
