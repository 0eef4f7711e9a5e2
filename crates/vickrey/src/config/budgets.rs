//! Connects the budgets to the exchange: the ledger's thread and the registry of accounts and
//! campaigns on one side, the exchange's view of both on the other.

use std::sync::{Arc, Weak};
use std::time::Duration;

use exchange_core::campaigns::{Catalogue, DirectCampaign, Interner, ProbeCounts};
use exchange_core::{Lifetimes, Reservation};
use exchange_serve::campaigns::{Campaigns, Payer, SeatAccount};
use exchange_serve::{
    BUDGETS, BudgetContext, Budgets, DirectRules, Exchange, GenerationRecordError, Settlements,
    ShardLedgerPort,
};
use live_serve::SOLD_LOTS;
use pacer_core::funnel::FunnelWindow;
use pacer_core::messages::CampaignIndex;
use pacer_core::pacing::PacingCurve;
use pacer_core::shard::ShardOptions;
use pacer_core::store::StoredKind;
use pacer_core::strategy::CampaignFlight;
use pacer_serve::api::{ExchangeView, Mismatches};
use pacer_serve::registry::{AccountFacts, CampaignRules, PublishedCatalogue};
use pacer_serve::wire::{PacerService, SETTLEMENT_LOG, SettlementLog};
use pacer_serve::{
    BudgetsConfig, BudgetsService, Keyring, LedgerPort, SettledReservation, SettlementFeed,
    ShardRings, Spender,
};
use record::RECORD;
use runtime::builder::Builder;
use runtime::config::{Quantity, Section};
use runtime::process::unix_ms;
use runtime::service::{Ports, ServiceError};
use tracing::{error, info, warn};
use units::{Cpm, Currency, Nanos};

use crate::config::sold_lots;

/// Interval between attempts to offer campaigns that the exchange could not record.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The exchange's part of a campaign. None if only bidders of the pacer spend its budget.
#[derive(Clone)]
pub(crate) struct DirectCampaignRules(Option<DirectRules>);

impl CampaignRules for DirectCampaignRules {
    const TABLES: &'static [&'static str] = DirectRules::TABLES;

    type Shared = Interner;

    fn read(s: &mut Section<'_>, account: &AccountFacts) -> Self {
        Self(DirectRules::read(s, account.currency))
    }

    fn share(&mut self, shared: &mut Interner) {
        if let Some(rules) = &mut self.0 {
            rules.intern(shared);
        }
    }

    fn is_fixed_price(&self) -> bool {
        self.0.as_ref().is_some_and(DirectRules::is_fixed_price)
    }

    fn amount(&self) -> Option<Cpm> {
        self.0.as_ref().map(|rules| rules.0.price.amount())
    }
}

/// Budgets, with the exchange's part of campaigns.
pub(crate) type CampaignBudgets = BudgetsService<DirectCampaignRules>;

/// The pacer on the wire.
pub(crate) type Pacer = PacerService<DirectCampaignRules>;

/// The exchange that spends budgets; gone after its end.
struct WeakExchange(Weak<Exchange>);

impl ExchangeView for WeakExchange {
    fn obstacle(&self) -> Option<String> {
        self.0.upgrade()?.recording_failure()
    }

    fn has_rate(&self, currency: Currency) -> bool {
        self.0.upgrade().is_none_or(|exchange| exchange.has_rate(currency))
    }

    fn funnel(&self, slot: CampaignIndex, flight: CampaignFlight) -> Option<[FunnelWindow; 2]> {
        self.0.upgrade()?.funnel(slot, flight)
    }

    fn mismatches(&self, slot: CampaignIndex) -> Option<Mismatches> {
        let ProbeCounts { impressions, matched, failed } = self.0.upgrade()?.probe(slot)?;
        let failed = failed.into_iter().map(|(criterion, count)| (criterion.key(), count));
        Some(Mismatches { impressions, matched, failed: failed.collect() })
    }
}

/// Passes settlements of the log on to the ledger.
struct LedgerSettlements {
    feed: SettlementFeed,
    keys: Keyring,
}

impl Settlements for LedgerSettlements {
    fn settled(&mut self, sequence: u64, reservation: &Reservation) {
        match self.keys.open_token(reservation.token.as_str().as_bytes()) {
            Ok(token) => {
                let (cost, currency) = (token.amount(), reservation.currency);
                self.feed.settled(sequence, [SettledReservation { token, cost, currency }]);
            }
            Err(error) => error!(
                sequence, %error,
                "what is billed was reserved under a key that is gone: it counts in no budget"
            ),
        }
    }

    fn reached(&mut self, sequence: u64) {
        self.feed.reached(sequence);
    }

    fn replayed(&mut self) {
        self.feed.replayed();
    }

    fn applied_seq(&self) -> u64 {
        self.feed.applied_seq()
    }
}

/// Builds the exchange's side of budgets from the pacer's ports.
pub(crate) fn link(ports: &mut Ports) -> Result<(), ServiceError> {
    let Some(port) = ports.take(&LedgerPort::<DirectCampaignRules>::port()) else { return Ok(()) };
    let LedgerPort {
        shards,
        mut feeds,
        keys,
        origin,
        handle,
        first,
        published,
        campaigns_max,
        exchange: exchange_slot,
        lots,
    } = port;
    let (sold_lots, lots_worker) = sold_lots::channel(lots);
    warn_of_room(&first, campaigns_max);
    let halted = handle.halted();
    let budget_context = BudgetContext {
        key: *keys.seals(),
        draw: *keys.draws(),
        origin,
        is_halted: Arc::new(move || halted.is_set()),
        ledger_unix_ms: Arc::new(move || handle.unix_ms()),
    };
    let ledger_ports =
        shards.into_iter().map(|(rings, options)| ledger_port(rings, options)).collect();
    let campaigns = exchange_campaigns(&first, &Catalogue::default());
    let mut renewed = campaigns.catalogue.clone();
    let feed = feeds.pop().expect("the exchange writes settlements");
    let on_published = Arc::clone(&published.on_published);
    let settlements = Box::new(LedgerSettlements { feed, keys });
    let on_start = move |exchange: &Arc<Exchange>, builder: &Builder| {
        let sold_lots = lots_worker.start(exchange, builder);
        warn_of_rates(&currencies(&first), exchange);
        exchange_slot.set(Arc::new(WeakExchange(Arc::downgrade(exchange))));
        let exchange = Arc::downgrade(exchange);
        let (mut waiting, mut is_failing) = (None, false);
        let job = builder.add("campaigns in force", move || {
            // Only the latest counts.
            let catalogue = published.catalogues.try_iter().last().or_else(|| waiting.take())?;
            let exchange = exchange.upgrade()?;
            let campaigns = exchange_campaigns(&catalogue, &renewed);
            renewed = campaigns.catalogue.clone();
            match exchange.set_campaigns(campaigns) {
                Ok(generation) => {
                    is_failing = false;
                    warn_of_room(&catalogue, campaigns_max);
                    warn_of_rates(&currencies(&catalogue), &exchange);
                    let number = catalogue.number;
                    info!(number, generation, "campaigns are taken over");
                    return None;
                }
                Err(GenerationRecordError::Closed) => return None,
                // It may fail for hours.
                Err(error) if !std::mem::replace(&mut is_failing, true) => {
                    error!(%error, "campaigns are not taken over yet: it is tried again every second");
                }
                Err(_) => (),
            }
            waiting = Some(catalogue);
            Some(RETRY_INTERVAL)
        });
        on_published.get_or_init(|| job.handle());
        job.run_soon();
        vec![job, sold_lots]
    };
    let on_start = Box::new(on_start);
    ports.offer(&SOLD_LOTS, Box::new(sold_lots));
    ports.offer(
        &BUDGETS,
        Budgets { budget_context, ledger_ports, campaigns, settlements, on_start },
    );
    Ok(())
}

fn ledger_port(rings: ShardRings, options: ShardOptions) -> ShardLedgerPort {
    let ShardRings { from_ledger, to_ledger, .. } = rings;
    ShardLedgerPort { from_ledger, to_ledger, options }
}

/// Gives the pacer the record's durable lane, where wins are kept.
pub(crate) fn link_pacer(ports: &mut Ports) -> Result<(), ServiceError> {
    let Some(record) = ports.get(&RECORD) else { return Ok(()) };
    let claim = record.durable.protect();
    let (rings, ring_bytes) = (record.rings, record.durable_ring_bytes);
    let log = SettlementLog {
        directory: record.directory.join(record.durable.kind().name()),
        lane: record.durable,
        ring: Box::new(move |listener| rings.durable_ring(ring_bytes, Some(listener))),
        keep_from: Box::new(move |sequence| claim.keep_from(sequence)),
    };
    ports.offer(&SETTLEMENT_LOG, log);
    Ok(())
}

/// A campaign's spend, and the spend expected by now. None if unknown.
pub(crate) fn standing(
    budgets: &CampaignBudgets,
    campaign: &str,
) -> (Option<Nanos>, Option<Nanos>) {
    let Some(registry) = budgets.registry() else { return (None, None) };
    let spend = registry.spend(StoredKind::Campaign, campaign).ok().flatten();
    let curve = registry.curve(campaign).ok().flatten();
    let told = |curve: PacingCurve| {
        let past = curve.points.iter().filter(|point| point.at_unix_ms <= unix_ms());
        past.map(|point| point.target).max()
    };
    (spend.map(|spend| spend.life), curve.and_then(told))
}

/// Warns of accounts whose currency has no rate: nothing can be sold to them.
fn warn_of_rates(currencies: &[(Arc<str>, Currency)], exchange: &Exchange) {
    for (account, currency) in currencies.iter().filter(|(_, it)| !exchange.has_rate(*it)) {
        warn!(account = &**account, "{}", without_rate(*currency));
    }
}

fn currencies(catalogue: &PublishedCatalogue<DirectCampaignRules>) -> Vec<(Arc<str>, Currency)> {
    let accounts = catalogue.accounts.iter();
    accounts.map(|account| (Arc::clone(&account.id), account.currency)).collect()
}

/// The warning about an account whose currency has no rate.
pub(crate) fn without_rate(currency: Currency) -> String {
    format!(
        "{currency} has no rate, so the account's campaigns and seats win nothing: add {currency} to currency.rates"
    )
}

/// Warns if the shards have no room for all campaigns: those without room win nothing.
fn warn_of_room(catalogue: &PublishedCatalogue<DirectCampaignRules>, campaigns_max: usize) {
    let seats = catalogue.accounts.iter().filter(|account| account.slot.is_some());
    let count = catalogue.campaigns.len() + seats.count();
    if count > campaigns_max {
        warn!(
            count,
            campaigns_max,
            "there are more campaigns, with the accounts that have seats, than shards have room for: \
             raise budgets.campaigns_max"
        );
    }
}

/// Tells the pacer how long after its sale an impression may be billed.
pub(crate) fn set_billing_windows(budgets: &mut BudgetsConfig, lifetimes: &Lifetimes) {
    budgets.late_wins_warning = short_reservations(budgets, lifetimes);
    let lifetimes = lifetimes.named().map(|(_, lifetime)| lifetime).to_vec();
    budgets.spenders.push(Spender::Exchange(lifetimes));
}

/// A warning if beacons outlive their reservations, because late wins are booked in addition to
/// reservations. None if no beacon does.
fn short_reservations(budgets: &BudgetsConfig, lifetimes: &Lifetimes) -> Option<String> {
    let written = |span: Duration| {
        Quantity::Duration.write(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
    };
    let longer = lifetimes.named().into_iter();
    let longer = longer.filter(|(_, lifetime)| budgets.reservation_max < *lifetime);
    let longer: Vec<_> =
        longer.map(|(name, lifetime)| format!("{name} {}", written(lifetime))).collect();
    (!longer.is_empty()).then(|| {
        format!(
            "budgets.reservation_max = {} is below exchange.notices.lifetimes ({}): wins billed later may \
             exceed limits; raise it, or set late_holdback on accounts",
            written(budgets.reservation_max),
            longer.join(", ")
        )
    })
}

/// The catalogue in the exchange's form.
fn exchange_campaigns(
    published: &PublishedCatalogue<DirectCampaignRules>,
    before: &Catalogue,
) -> Campaigns {
    let currency_of = |account: &str| {
        let accounts = &published.accounts;
        let found = accounts.binary_search_by(|known| (*known.id).cmp(account));
        found.ok().map(|at| accounts[at].currency)
    };
    let campaigns = published.campaigns.iter().filter(|campaign| campaign.is_open);
    let campaigns = campaigns.filter_map(|campaign| {
        Some(DirectCampaign {
            id: Arc::clone(&campaign.id),
            slot: campaign.slot,
            account: Arc::clone(&campaign.account),
            currency: currency_of(&campaign.account)?,
            rules: Arc::clone(&campaign.rules.0.as_ref()?.0),
        })
    });
    let seats = published.accounts.iter().flat_map(|account| {
        let payer = account.slot.map(|slot| Payer { slot, currency: account.currency });
        let of = move |(dsp, seat): &(String, String)| {
            Some(SeatAccount {
                dsp: dsp.as_str().into(),
                seat: seat.as_str().into(),
                payer: payer?,
            })
        };
        account.seats.iter().filter_map(of)
    });
    Campaigns {
        number: published.number,
        seats: seats.collect(),
        catalogue: before.renewed(campaigns.collect()),
    }
}
