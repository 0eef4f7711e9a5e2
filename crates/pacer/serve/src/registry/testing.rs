//! A server without a ledger, for tests of its callers: it stores definitions in a real store, and
//! answers about money as the test sets. And rules of campaigns with a price alone.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pacer_core::ledger::{
    AccountDiagnosis, AccountTerms, DefinitionError, LedgerReply, Spend, SpendDiagnosis,
};
use pacer_core::messages::{CampaignIndex, Epoch};
use pacer_core::pacing::{BiddingStatus, PacingCurve};
use pacer_core::store::{
    DefinitionChange, DefinitionKey, LeaseStore as _, QueryResult, StoreAnswer, StoreDenial,
    StoreFault, StoreQuery, StoreWriter, StoredDefinition, StoredKind,
};
use runtime::builder::Builder;
use runtime::config::{ConfigProblem, ConfigProblems, Optional, Section, parse_loaded};
use serde_json::{Map, Value};
use units::{Cpm, Rounding};

use super::read::one;
use super::{
    AccountFacts, CampaignRules, DefinedAccount, DefinedCampaign, PreparedRegistry,
    PublishedCatalogue, Registry, RegistryOptions, RegistryStartError,
};
use crate::ledger::digest::Digest;
use crate::ledger::handle::{
    DefinitionReport, DeliveryProgress, LedgerError, LedgerHandle, LedgerQuery, NamedAccount,
    PacedCampaign, ReplySender,
};
use crate::ledger::status::{LedgerWaker, SharedStatus};
use crate::ledger::zones::Zones;
use crate::{DiskStore, StoreOpenError, StoreOptions};

/// Longer than anything takes: a test fails instead of hanging.
const EVER: Duration = Duration::from_secs(60);

/// What the ledger would know, and the answers that a test sets.
#[derive(Debug, Default)]
pub struct StubState {
    /// The latest definition of each account.
    pub accounts: BTreeMap<u32, AccountTerms>,
    /// The latest definition of each campaign.
    pub campaigns: BTreeMap<CampaignIndex, PacedCampaign>,
    /// Answer for each campaign.
    pub spends: BTreeMap<CampaignIndex, Spend>,
    /// Answer for each campaign.
    pub whys: BTreeMap<CampaignIndex, SpendDiagnosis>,
    /// Answer for each campaign.
    pub curves: BTreeMap<CampaignIndex, PacingCurve>,
    /// Answer for each campaign.
    pub biddings: BTreeMap<CampaignIndex, BiddingStatus>,
    /// Answer for each account, by its number.
    pub account_spends: BTreeMap<u32, Spend>,
    /// Answer for each account, by its number.
    pub account_whys: BTreeMap<u32, AccountDiagnosis>,
    /// Whether definitions and questions about delivery get no answer.
    pub is_unresponsive: bool,
    /// Whether the store is full.
    pub is_full: bool,
    /// Whether changes are stored but never answered.
    pub is_late: bool,
    /// Whether changes are neither stored nor answered.
    pub is_lost: bool,
    /// The campaign to refuse, among others that are taken.
    pub rejected: Option<CampaignIndex>,
    /// Changes refused since the store was full.
    pub refused: u64,
    /// Changes made durable.
    pub changes: u64,
    /// Most definitions that came at once.
    pub at_once: usize,
    /// Audit rows read backwards.
    pub audit_read: usize,
    is_over: bool,
}

type Numbered = (u64, Option<Digest>);

/// A store, and a thread that answers in the ledger's place.
#[derive(Debug)]
pub struct StubLedger {
    handle: LedgerHandle,
    state: Arc<Mutex<StubState>>,
    thread: Option<JoinHandle<()>>,
}

struct StubServer {
    store: DiskStore,
    writer: StoreWriter,
    numbered: Numbered,
    state: Arc<Mutex<StubState>>,
}

impl StubLedger {
    /// Opens the store in `directory`, and begins an epoch.
    ///
    /// # Errors
    /// If the store cannot be opened.
    ///
    /// # Panics
    /// If the store begins no epoch.
    pub fn open(directory: &Path) -> Result<Self, StoreOpenError> {
        let mut store = DiskStore::open(directory, StoreOptions::default())?;
        store.begin(1, Epoch(1));
        let StoreAnswer::Begun { node, begun } = answer(&mut store) else {
            panic!("the store answers something else than was asked")
        };
        let begun = begun.expect("an epoch begins");
        let writer = StoreWriter { node, epoch: begun.epoch };
        let (asks, asked) = mpsc::channel();
        let (shared, waker) = (SharedStatus::new(node, begun.epoch, 0), LedgerWaker::default());
        let handle = LedgerHandle { asks, shared, waker, zones: Zones::default() };
        let state = Arc::<Mutex<StubState>>::default();
        let mut stub =
            StubServer { store, writer, numbered: Numbered::default(), state: Arc::clone(&state) };
        let thread = std::thread::spawn(move || {
            while let Ok(query) = asked.recv() {
                if stub.state().is_over {
                    break;
                }
                stub.answer(query);
            }
        });
        Ok(Self { handle, state, thread: Some(thread) })
    }

    /// A handle as the ledger's.
    pub fn handle(&self) -> LedgerHandle {
        self.handle.clone()
    }

    /// What the ledger would know.
    pub fn state(&self) -> MutexGuard<'_, StubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The diagnosis of a campaign.
    ///
    /// # Panics
    /// If there is none.
    pub fn why(&self, slot: CampaignIndex) -> SpendDiagnosis {
        self.handle.ask_of(slot, LedgerQuery::Why).expect("it answers")
    }
}

impl Drop for StubLedger {
    fn drop(&mut self) {
        self.state().is_over = true;
        let (reply, _) = mpsc::sync_channel(1);
        let _woken = self.handle.asks.send(LedgerQuery::NextSlot(reply));
        // The thread has closed the store by now.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

fn answer(store: &mut DiskStore) -> StoreAnswer {
    let begun = Instant::now();
    loop {
        if let Some(answer) = store.poll() {
            return answer;
        }
        assert!(begun.elapsed() < EVER, "the store never answers");
        store.wait(EVER);
    }
}

impl StubServer {
    fn state(&self) -> MutexGuard<'_, StubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&mut self, query: LedgerQuery) {
        /// The caller may have given up.
        fn send<T>(reply: &ReplySender<T>, answer: T) {
            let _heard = reply.send(answer);
        }
        let state = Arc::clone(&self.state);
        let state = || state.lock().unwrap_or_else(PoisonError::into_inner);
        match query {
            LedgerQuery::Define(accounts, campaigns, reply) => {
                if !state().is_unresponsive {
                    send(&reply, state().define(accounts, campaigns));
                }
            }
            LedgerQuery::Change(change, digest, reply) => {
                if !state().is_lost {
                    self.change(change, digest, &reply);
                }
            }
            LedgerQuery::Read(query, reply) => {
                let is_backwards = matches!(query, StoreQuery::AuditBefore(..));
                self.store.read(query);
                let StoreAnswer::Read(found) = answer(&mut self.store) else { return };
                if let (true, Ok(QueryResult::Audit(found))) = (is_backwards, &found) {
                    state().audit_read += found.len();
                }
                send(&reply, found);
            }
            LedgerQuery::NextSlot(reply) => send(&reply, CampaignIndex(0)),
            LedgerQuery::Why(slot, reply) => send(&reply, state().why(slot)),
            LedgerQuery::WhyAccount(id, reply) => {
                send(&reply, state().account_whys.get(&id.0).cloned().unwrap_or_default());
            }
            LedgerQuery::Refusals(slots, reply) => {
                send(&reply, slots.into_iter().map(|slot| state().why(slot).refusal).collect());
            }
            LedgerQuery::Deliveries(slots, reply) => {
                if !state().is_unresponsive {
                    send(&reply, slots.into_iter().map(|slot| state().delivery(slot)).collect());
                }
            }
            LedgerQuery::Bidding(slot, reply) => send(&reply, state().biddings.get(&slot).copied()),
            LedgerQuery::Spend(slot, reply) => send(&reply, state().spends.get(&slot).cloned()),
            LedgerQuery::SpendAccount(id, reply) => {
                send(&reply, state().account_spends.get(&id.0).cloned());
            }
            LedgerQuery::Curve(slot, reply) => send(&reply, state().curves.get(&slot).cloned()),
        }
    }

    fn change(
        &mut self,
        change: DefinitionChange,
        digest: Digest,
        reply: &ReplySender<Result<(), StoreDenial>>,
    ) {
        if self.state().is_full {
            self.state().refused += 1;
            let _heard = reply.send(Err(StoreDenial::Failing(StoreFault::DiskFull)));
            return;
        }
        let (number, last) = &mut self.numbered;
        *number += u64::from(*last != Some(digest));
        *last = Some(digest);
        self.store.change(self.writer, DefinitionChange { number: *number, ..change });
        let StoreAnswer::Ended(outcome) = answer(&mut self.store) else { return };
        let mut state = self.state();
        state.changes += u64::from(outcome.denied.is_none());
        if !state.is_late {
            let _heard = reply.send(outcome.denied.map_or(Ok(()), Err));
        }
    }
}

impl StubState {
    fn define(
        &mut self,
        accounts: Vec<NamedAccount>,
        campaigns: Vec<PacedCampaign>,
    ) -> DefinitionReport {
        self.at_once = self.at_once.max(accounts.len() + campaigns.len());
        for NamedAccount { terms: account, .. } in accounts {
            let newer = |it: &AccountTerms| it.version < account.version;
            if self.accounts.get(&account.id.0).is_none_or(newer) {
                self.accounts.insert(account.id.0, account);
            }
        }
        let mut defined = DefinitionReport::default();
        for campaign in campaigns {
            let (slot, version) = (campaign.terms.slot, campaign.terms.version);
            if self.rejected == Some(slot) {
                let refused = Err(DefinitionError::AccountChanged);
                defined.notices.push(LedgerReply::Campaign(slot, refused));
                continue;
            }
            let newer = |it: &PacedCampaign| it.terms.version < version;
            if self.campaigns.get(&slot).is_none_or(newer) {
                self.campaigns.insert(slot, campaign);
            }
        }
        defined
    }

    fn why(&self, slot: CampaignIndex) -> SpendDiagnosis {
        self.whys.get(&slot).cloned().unwrap_or_default()
    }

    fn delivery(&self, slot: CampaignIndex) -> DeliveryProgress {
        let planned = self.curves.get(&slot).and_then(|curve| {
            let past = curve.points.iter().filter(|point| point.spent.is_some());
            Some((curve.span, past.map(|point| point.target).max()?))
        });
        DeliveryProgress::of(&self.why(slot), self.spends.get(&slot), planned)
    }
}

impl LedgerHandle {
    pub(crate) fn definitions(
        &self,
        kind: StoredKind,
    ) -> Result<Vec<(DefinitionKey, StoredDefinition)>, LedgerError> {
        match self.ask_of(StoreQuery::Definitions(kind), LedgerQuery::Read)?? {
            QueryResult::Definitions(definitions) => Ok(definitions),
            other => unreachable!("definitions were asked for: {other:?}"),
        }
    }
}

impl<R: CampaignRules> Registry<R> {
    /// Reads the store and the files, and starts with them.
    ///
    /// # Errors
    /// If the store or a file cannot be read: nothing is changed then.
    pub fn start(
        ledger: LedgerHandle,
        options: &RegistryOptions,
        builder: &Builder,
        publish: impl FnMut(PublishedCatalogue<R>) + Send + 'static,
    ) -> Result<Self, RegistryStartError> {
        let prepared = PreparedRegistry::read(options, |kind| ledger.definitions(kind))?;
        Self::start_prepared(prepared, ledger, builder, publish)
    }
}

/// Judges a file's text by itself: its campaigns may name only its own accounts. Returns the JSON
/// that would be stored for all of them.
///
/// # Errors
/// Every problem.
pub fn check_text<R: CampaignRules>(name: &str, text: &str) -> Result<Value, ConfigProblems> {
    let loaded = parse_loaded(name, text, |s| {
        let accounts = s.tables("account", "An account.", DefinedAccount::read);
        let of = |id: &str| {
            let found = accounts.iter().find(|account| account.id == id);
            let remedy = || "is no account: define it first".to_owned();
            found.map(|account| account.facts.clone()).ok_or_else(remedy)
        };
        s.tables("campaign", "A campaign.", |s| DefinedCampaign::<R>::read(s, of));
    })?;
    Ok(loaded.effective.given_json())
}

/// Judges a JSON definition by itself. A campaign may name any account, which is read as in dollars
/// and UTC. Returns what would be stored.
///
/// # Errors
/// Every problem, by its path.
pub fn check_body<R: CampaignRules>(
    kind: StoredKind,
    body: &Map<String, Value>,
) -> Result<Arc<str>, Vec<ConfigProblem>> {
    match kind {
        StoredKind::Account => one(body, DefinedAccount::read).map(|(_, given)| given),
        StoredKind::Campaign => {
            let any = AccountFacts::unknown();
            one(body, |s| DefinedCampaign::<R>::read(s, |_| Ok(any.clone())))
                .map(|(_, given)| given)
        }
    }
}

/// Rules of a campaign with a price, a value, or neither, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceRules {
    /// Most that it bids.
    pub value: Option<String>,
    /// What it bids.
    pub price: Option<String>,
    /// Currency of its account.
    pub currency: String,
}

impl CampaignRules for PriceRules {
    type Shared = ();

    fn read(s: &mut Section<'_>, account: &AccountFacts) -> Self {
        let (value, price) = s.section("bid", "What it bids.", |s| {
            let value = s.text("value", Optional("2.50"), "The most.");
            let price = s.text("price", Optional("2.00"), "Always this.");
            if value.is_some() && price.is_some() {
                s.problem("value", "both", "give a value or a price");
            }
            (value, price)
        });
        Self { value, price, currency: account.currency.to_string() }
    }

    fn share(&mut self, (): &mut ()) {}

    fn is_fixed_price(&self) -> bool {
        self.price.is_some()
    }

    fn amount(&self) -> Option<Cpm> {
        let text = self.value.as_ref().or(self.price.as_ref())?;
        Cpm::parse(text, Rounding::Down).ok()
    }
}
