//! Budgets, joined to the exchange: the ledger's thread, the registry of accounts and campaigns, and what
//! the exchange is told of both.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use exchange_core::house::{Campaign, Catalogue, Interner, ProbeCounts};
use exchange_core::{Lifetimes, Reservation};
use exchange_serve::campaigns::{Campaigns, Payer, SeatAccount};
use exchange_serve::{
    Bank, Budgets, BudgetsError, Exchange, ExchangeConfig, HouseRules, Line, Settlements,
};
use pacer_core::funnel::FunnelWindow;
use pacer_core::messages::Slot;
use pacer_core::pacing::Curve;
use pacer_core::store::Kind;
use pacer_serve::api::{self, ExchangeView, Mismatches};
use pacer_serve::registry;
use pacer_serve::registry::{
    AccountFacts, CheckedFiles, FilesRead, Prepared, Published, Refused, Registry, RegistryOptions,
    Rules,
};
use pacer_serve::{
    BudgetsConfig, Feed, Handle, Keyring, LedgerFault, LedgerThread, ShardLine, StartError, Started,
};
use runtime::admin::{Api, CampaignFiles, Readiness};
use runtime::config::{Problem, Quantity, Section};
use runtime::metrics::Exposition;
use runtime::shutdown::Shutdown;
use tracing::{error, info, warn};
use units::{Cpm, Currency, Nanos};

use crate::config::Config;
use crate::exit::Failure;

/// How long the first catalogue is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How soon campaigns are offered to the exchange again that it could not record.
const AGAIN: Duration = Duration::from_secs(1);

/// The exchange's part of a campaign.
#[derive(Clone)]
struct Shown(HouseRules);

impl Rules for Shown {
    type Shared = Interner;

    fn read(s: &mut Section<'_>, account: &AccountFacts) -> Self {
        Self(HouseRules::read(s, account.currency))
    }

    fn share(&mut self, shared: &mut Interner) {
        self.0.intern(shared);
    }

    fn is_fixed_price(&self) -> bool {
        self.0.is_fixed_price()
    }

    fn amount(&self) -> Cpm {
        self.0.0.price.amount()
    }
}

/// Budgets that are kept: the ledger runs, and nothing is authorised yet.
pub(crate) struct Kept {
    registry: Arc<Registry<Shown>>,
    handle: Handle,
    thread: LedgerThread,
    published: Receiver<Published<Shown>>,
    /// What the exchange starts with.
    house: Catalogue,
    /// Campaigns that a shard has room for.
    campaigns_max: usize,
    /// Of the first catalogue's accounts.
    currencies: Vec<(Arc<str>, Currency)>,
}

/// The same, with an exchange that spends them.
pub(crate) struct Spent {
    registry: Arc<Registry<Shown>>,
    handle: Handle,
    thread: LedgerThread,
    following: JoinHandle<()>,
}

/// The exchange that spends budgets. None is left at the end.
struct ExchangeLink(Weak<Exchange>);

impl ExchangeView for ExchangeLink {
    fn obstacle(&self) -> Option<String> {
        self.0.upgrade()?.unrecorded()
    }

    fn has_rate(&self, currency: Currency) -> bool {
        self.0.upgrade().is_none_or(|exchange| exchange.has_rate(currency))
    }

    fn funnel(&self, slot: Slot, flight_unix_ms: (u64, u64)) -> Option<[FunnelWindow; 2]> {
        self.0.upgrade()?.funnel(slot, flight_unix_ms)
    }

    fn mismatches(&self, slot: Slot) -> Option<Mismatches> {
        let ProbeCounts { impressions, matched, failed } = self.0.upgrade()?.probe(slot)?;
        let failed = failed.into_iter().map(|(criterion, count)| (criterion.key(), count));
        Some(Mismatches { impressions, matched, failed: failed.collect() })
    }
}

/// What the log tells the ledger.
struct Told {
    feed: Feed,
    keys: Keyring,
}

impl Settlements for Told {
    fn settled(&mut self, sequence: u64, reservation: &Reservation) {
        match self.keys.open_token(reservation.token.as_str().as_bytes()) {
            Ok(token) => self.feed.settled(sequence, &token, reservation.currency),
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

impl Kept {
    /// Opens the ledger, reads all accounts and campaigns, and tells the ledger of them. `folder` is
    /// what files are relative to.
    pub(crate) fn open(
        (config, exchange): (&Config, &ExchangeConfig),
        folder: &Path,
        shutdown: &Shutdown,
    ) -> anyhow::Result<Option<(Self, Budgets)>> {
        let Some(budgets) = config.budgets.as_ref().map(|it| it.beside(folder)) else {
            return Ok(None);
        };
        let budgets = &budgets;
        let notices = exchange.notices.as_ref();
        let notices = notices.ok_or_else(|| Failure::usage(BudgetsError::Unbilled))?;
        let lifetimes = notices.lifetimes;
        if let Some(warning) = short_reservations(budgets, &lifetimes) {
            warn!("{warning}");
        }
        let shards =
            u16::try_from(config.shards.shards).context("shards are counted by 16 bits")?;
        let origin = Instant::now();
        let keys = budgets.keys().map_err(Failure::unavailable)?;
        let in_the_way =
            |error: StartError| Failure::unavailable(format!("budgets.directory: {error}"));
        let mut opened = budgets.start(shards, origin, shutdown).open().map_err(in_the_way)?;
        // Before the ledger begins an epoch: a start that ends here has used up nothing.
        let options = RegistryOptions {
            late_wins: short_reservations(budgets, &lifetimes),
            ..options(budgets, folder)
        };
        let prepared =
            Prepared::read(&options, |kind| opened.definitions(kind)).map_err(refused)?;
        let Started { lines, feed, handle, thread } = opened.begin().map_err(in_the_way)?;
        let halted = handle.halted();
        let time = handle.clone();
        let bank = Bank {
            key: *keys.seals(),
            draw: *keys.draws(),
            origin,
            is_halted: Arc::new(move || halted.is_set()),
            ledger_unix_ms: Arc::new(move || time.unix_ms()),
        };
        let lines = lines.into_iter().map(|line| this_line(budgets, &lifetimes, line)).collect();
        let (publish, published) = channel();
        let registry = Registry::start_prepared(prepared, handle.clone(), move |catalogue| {
            // Nobody follows any more at the end.
            let _ended = publish.send(catalogue);
        });
        let registry = Arc::new(registry.map_err(refused)?);
        let first = published.recv_timeout(PATIENCE).context("the registry tells no catalogue")?;
        let (campaigns, accounts) = (first.campaigns.len(), first.accounts.len());
        info!(accounts, campaigns, "budgets are kept at {}", budgets.directory.display());
        let campaigns_max = usize::try_from(budgets.campaigns_max).unwrap_or(usize::MAX);
        warn_of_room(&first, campaigns_max);
        let campaigns = this_catalogue(&first, &Catalogue::default());
        let settlements = Box::new(Told { feed, keys });
        let house = campaigns.house.clone();
        let budgets = Budgets { bank, lines, campaigns, settlements };
        let currencies = currencies(&first);
        let own = Self { registry, handle, thread, published, house, campaigns_max, currencies };
        Ok(Some((own, budgets)))
    }

    /// Follows what is defined, for an exchange that was started with the first of it.
    pub(crate) fn follow(
        self,
        exchange: &Arc<Exchange>,
        config: &Config,
        shutdown: &Shutdown,
    ) -> std::io::Result<Spent> {
        let Self { registry, handle, thread, published, house, campaigns_max, currencies } = self;
        warn_of_rates(&currencies, exchange);
        drop(registry.watch(config.watch, shutdown)?);
        let exchange = Arc::downgrade(exchange);
        let following = std::thread::Builder::new().name("catalogues".to_owned());
        let following = following.spawn(move || {
            if let Err(error) = runtime::process::stand_back() {
                error!(%error, "taking over campaigns may hold up auctions");
            }
            follow(&published, &exchange, (house, campaigns_max));
        })?;
        Ok(Spent { registry, handle, thread, following })
    }
}

impl Spent {
    /// Adds the metrics of the ledger and of the files of campaigns to the page that is scraped.
    pub(crate) fn expose(&self, exposition: &mut Exposition) {
        self.handle.expose(exposition);
        self.registry.expose(exposition);
    }

    /// The process is ready once the ledger is; a store that fails is told of, and no hindrance.
    pub(crate) fn readiness(&self, readiness: &mut Readiness) {
        let (ready, failing) = (self.handle.clone(), self.handle.clone());
        readiness.add("budgets", move || ready.is_ready());
        readiness.remark("budgets", move || {
            let cause = failing.status().failing?;
            Some(format!("the ledger's store {cause}, and nothing new is granted"))
        });
        let registry = Arc::clone(&self.registry);
        readiness.remark("campaigns", move || refused_files(&registry.refused_files()));
    }

    /// What a campaign has spent, and what it should have by now; nothing where that is not known.
    pub(crate) fn standing(&self, campaign: &str) -> (Option<Nanos>, Option<Nanos>) {
        let spend = self.registry.spend(Kind::Campaign, campaign).ok().flatten();
        let curve = self.registry.curve(campaign).ok().flatten();
        let told = |curve: Curve| {
            let past = curve.points.iter().filter(|point| point.at_unix_ms <= unix_ms());
            past.map(|point| point.target).max()
        };
        (spend.map(|spend| spend.life), curve.and_then(told))
    }

    /// Accounts and campaigns, for operators, with what `exchange` tells of them.
    pub(crate) fn api(&self, exchange: &Arc<Exchange>) -> Api {
        api::api(Arc::clone(&self.registry), Arc::new(ExchangeLink(Arc::downgrade(exchange))))
    }

    /// Reads the files of accounts and campaigns anew, for whoever asks for a reload.
    pub(crate) fn reloader(&self) -> impl Fn() -> CampaignFiles + Send + Sync + 'static + use<> {
        let registry = Arc::clone(&self.registry);
        move || match registry.reload() {
            Ok(FilesRead { created, changed, removed }) => {
                CampaignFiles::Taken { created, changed, removed }
            }
            Err(Refused::Invalid(problems)) => CampaignFiles::Refused(problems),
            Err(refused) => CampaignFiles::Unavailable(refused.to_string()),
        }
    }

    /// Ends, after the exchange has.
    ///
    /// # Errors
    /// When nothing was authorised any more: for a defect, or since another process has taken over.
    pub(crate) fn close(self) -> anyhow::Result<()> {
        let Self { registry, thread, following, .. } = self;
        drop(registry);
        if following.join().is_err() {
            error!("the thread that follows campaigns had panicked");
        }
        thread.close().or_else(ended)
    }
}

/// How the process ends for it.
fn ended(fault: LedgerFault) -> anyhow::Result<()> {
    match fault {
        LedgerFault::Store(cause) => {
            error!(%cause, "the ledger's store was not closed cleanly: the next start takes longer");
            Ok(())
        }
        LedgerFault::Fenced => Err(Failure::unavailable(fault)),
        // Of no class that has a code of its own: a defect.
        LedgerFault::Broken => Err(fault.into()),
    }
}

/// What is answered of accounts and campaigns where there are no budgets.
pub(crate) fn unconfigured() -> Api {
    api::unconfigured::<Shown>()
}

/// Judges the files of accounts and campaigns as a start does, but without what the ledger keeps.
///
/// # Errors
/// Every problem, with the text and the exit code that a start ends with.
pub(crate) fn check(budgets: &BudgetsConfig, folder: &Path) -> anyhow::Result<CheckedFiles> {
    let may_be_kept = budgets.has_begun();
    registry::check_files::<Shown>(&options(budgets, folder), may_be_kept).map_err(refused)
}

fn options(budgets: &BudgetsConfig, folder: &Path) -> RegistryOptions {
    RegistryOptions {
        folder: folder.to_owned(),
        campaigns: budgets.campaigns.as_ref().map(|files| files.display().to_string()),
        clock: unix_ms,
        late_wins: None,
    }
}

fn refused(error: registry::StartError) -> anyhow::Error {
    match error {
        registry::StartError::Invalid(_) => Failure::usage(error),
        error => Failure::unavailable(error),
    }
}

/// Hands each catalogue to the exchange, until there are no more, or no exchange.
fn follow(
    published: &Receiver<Published<Shown>>,
    exchange: &Weak<Exchange>,
    (mut house, campaigns_max): (Catalogue, usize),
) {
    let mut is_failing = false;
    while let Ok(mut catalogue) = published.recv() {
        loop {
            // Only the latest counts.
            catalogue = published.try_iter().last().unwrap_or(catalogue);
            let Some(exchange) = exchange.upgrade() else { return };
            let campaigns = this_catalogue(&catalogue, &house);
            house = campaigns.house.clone();
            match exchange.set_campaigns(campaigns) {
                Ok(generation) => {
                    is_failing = false;
                    warn_of_room(&catalogue, campaigns_max);
                    warn_of_rates(&currencies(&catalogue), &exchange);
                    let number = catalogue.number;
                    info!(number, generation, "campaigns are taken over");
                    break;
                }
                // It may fail for hours.
                Err(error) if !std::mem::replace(&mut is_failing, true) => {
                    error!(%error, "campaigns are not taken over yet: it is tried again every second");
                }
                Err(_) => (),
            }
            drop(exchange);
            std::thread::sleep(AGAIN);
        }
    }
}

/// That files are refused, for readiness; nothing if they are in force.
fn refused_files(problems: &[Problem]) -> Option<String> {
    let files: BTreeSet<&str> = problems.iter().filter_map(|it| it.file.as_deref()).collect();
    let files = if files.is_empty() {
        "their files".to_owned()
    } else {
        files.into_iter().collect::<Vec<_>>().join(", ")
    };
    let count = problems.len();
    (count > 0).then(|| {
        let noun = if count == 1 { "problem" } else { "problems" };
        format!("{count} {noun} in {files}; what was defined before stays in force")
    })
}

/// Warns of accounts whose currency has no rate: nothing can be sold to them.
fn warn_of_rates(currencies: &[(Arc<str>, Currency)], exchange: &Exchange) {
    for (account, currency) in currencies.iter().filter(|(_, it)| !exchange.has_rate(*it)) {
        warn!(account = &**account, "{}", without_rate(*currency));
    }
}

fn currencies(catalogue: &Published<Shown>) -> Vec<(Arc<str>, Currency)> {
    let accounts = catalogue.accounts.iter();
    accounts.map(|account| (Arc::clone(&account.id), account.currency)).collect()
}

/// What comes of an account whose currency has no rate.
pub(crate) fn without_rate(currency: Currency) -> String {
    format!(
        "{currency} has no rate, so the account's campaigns and seats win nothing: add {currency} to currency.rates"
    )
}

/// Says so where shards have no room for all that is defined: what finds none wins nothing.
fn warn_of_room(catalogue: &Published<Shown>, campaigns_max: usize) {
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

/// What is to be known where beacons count for longer than their reservations last: late wins are booked
/// beside what is reserved. `None` where no beacon does.
pub(crate) fn short_reservations(budgets: &BudgetsConfig, lifetimes: &Lifetimes) -> Option<String> {
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

fn this_line(config: &BudgetsConfig, lifetimes: &Lifetimes, line: ShardLine) -> Line {
    let lifetimes = lifetimes.named().map(|(_, lifetime)| lifetime);
    let ShardLine { origin, from_ledger, to_ledger, .. } = line;
    Line { from_ledger, to_ledger, options: config.shard_options(origin, &lifetimes) }
}

/// What the exchange holds auctions by.
fn this_catalogue(published: &Published<Shown>, before: &Catalogue) -> Campaigns {
    let currency_of = |account: &str| {
        let accounts = &published.accounts;
        let found = accounts.binary_search_by(|known| (*known.id).cmp(account));
        found.ok().map(|at| accounts[at].currency)
    };
    let campaigns = published.campaigns.iter().filter(|campaign| campaign.is_open);
    let campaigns = campaigns.filter_map(|campaign| {
        Some(Campaign {
            id: Arc::clone(&campaign.id),
            slot: campaign.slot,
            account: Arc::clone(&campaign.account),
            currency: currency_of(&campaign.account)?,
            rules: Arc::clone(&campaign.rules.0.0),
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
        house: before.renewed(campaigns.collect()),
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::process::ExitCode;

    use pacer_core::store::Cause;

    use super::*;
    use crate::exit::{Exit, code};

    #[test]
    fn a_ledger_that_ends_for_a_defect_is_told_by_the_exit_code() {
        let check = |fault, want: u8| {
            let ended = code(ended(fault).map(|()| Exit::Done));
            assert_eq!(format!("{ended:?}"), format!("{:?}", ExitCode::from(want)), "{fault}");
        };
        check(LedgerFault::Broken, 70);
        check(LedgerFault::Fenced, 69);
        check(LedgerFault::Store(Cause::Disk), 0);
    }
}
