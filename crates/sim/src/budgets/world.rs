//! Runs a scenario in steps. In each step the store answers, exchanges bid and report wins, shards,
//! log and ledger take their turns, and the observer checks the invariants.

mod healing;
mod ledger_turn;
mod process;
mod remains;
mod ring;
mod shard_turn;
mod stopping;
mod wins;

use pacer_core::ledger::LedgerSettings;
use pacer_core::messages::Epoch;
use pacer_core::shard;
use pacer_core::shard::token::{TokenKey, TokenOrigin};
use pacer_core::store::testing::MemoryStore;
use pacer_core::store::{EpochStart, LeaseStore as _, StoreAnswer, StoreQuery};

use self::process::{Birth, Process};
use self::remains::ProcessRemains;
use super::clock::SimClock;
use super::exchange::SimExchange;
use super::log::{SimLog, SimRecord};
use super::observer::{ObservedStart, Observer};
use super::operator::SimOperator;
use super::options::NODE;
use super::options::{
    BudgetScenario, HORIZON, HOURS_KEPT, LATE_WINDOW, Manners, PATIENCE, TTLS, Weather,
};
use super::places::SimAccounts;
use super::trace::BudgetTrace;
use super::zone::DAY_MS;
use faults::Chance;

/// Length of the calendars: longer than any run.
const CALENDAR_MS: u64 = 90 * DAY_MS;

/// Crash rates in a crash loop, in ppm of steps: the process lives about twenty seconds, or four.
const LOOP_CRASHES: [u64; 2] = [15_000, 80_000];

/// The progress of a start.
#[derive(Clone, Debug)]
enum BudgetStage {
    /// The process is down until this step.
    Down(u64),
    Beginning,
    /// Reads leases, sums and lifetimes in turn.
    Reading(EpochStart, ProcessRemains),
}

pub(super) struct BudgetWorld<'t> {
    options: BudgetScenario,
    weather: Weather,
    manners: Manners,
    chance: Chance,
    clock: SimClock,
    step: u64,
    key: TokenKey,
    store: MemoryStore,
    log: SimLog,
    exchange: SimExchange,
    operator: SimOperator,
    pub(super) observer: Observer,
    stage: BudgetStage,
    process: Option<Box<Process>>,
    wants_skip: bool,
    /// Crash rate of the current loop, and the step in which the loop ends.
    looping: (u64, u64),
    /// The latest step in which the ledger received the log's records.
    fed_at: u64,
    trace: &'t mut BudgetTrace,
}

impl<'t> BudgetWorld<'t> {
    pub(super) fn new(options: &BudgetScenario, trace: &'t mut BudgetTrace) -> Self {
        let mut chance = Chance::new(options.seed);
        let operator = SimOperator::new(options, &mut chance);
        let mut observer =
            Observer::new(SimAccounts::new(options.zones.clone()), options.is_late_told);
        operator.accounts.iter().for_each(|it| observer.account_defined(it));
        operator.campaigns.iter().for_each(|it| observer.campaign_defined(it));
        let seed = chance.bits();
        let mut store = MemoryStore::new(seed);
        store.set_faults(options.weather.store);
        let mut key = [0; 16];
        key[..8].copy_from_slice(&chance.bits().to_be_bytes());
        Self {
            options: options.clone(),
            weather: options.weather,
            manners: options.manners,
            chance,
            clock: SimClock { tick_ms: 1_000, unix_ms: options.start_unix_ms },
            step: 0,
            key: TokenKey::new(key),
            store,
            log: SimLog::default(),
            exchange: SimExchange::default(),
            operator,
            observer,
            stage: BudgetStage::Down(0),
            process: None,
            wants_skip: false,
            looping: (0, 0),
            fed_at: 0,
            trace,
        }
    }

    /// Runs the steps with faults.
    pub(super) fn run(&mut self) {
        for _ in 0..self.options.steps {
            self.pass_time();
            self.step();
        }
    }

    fn step(&mut self) {
        self.step += 1;
        let SimClock { tick_ms, unix_ms } = self.clock;
        self.trace.note(format_args!("step {} at {tick_ms} ms, {unix_ms}", self.step));
        self.observer.pass_dead(&self.clock);
        if self.chance.happens(self.weather.crash_loop) {
            let until = self.step + self.chance.within(100..=300);
            self.looping = (self.chance.one_of(&LOOP_CRASHES), until);
        }
        let crash = if self.is_looping() { self.looping.0 } else { self.weather.crash };
        if self.process.is_some() && self.chance.happens(crash) {
            self.crash();
        }
        match self.process.take() {
            None => self.start(),
            Some(mut process) => {
                if self.chance.happens(self.weather.stop) {
                    self.begin_stop(&mut process);
                }
                let goes_on = match process.stops_by {
                    None => {
                        self.turns(&mut process);
                        true
                    }
                    Some(until) => self.stop_turns(&mut process, until),
                };
                self.process = Some(process);
                if !goes_on {
                    self.crash();
                }
            }
        }
    }

    fn is_looping(&self) -> bool {
        self.step < self.looping.1 && self.weather.crash_loop > 0
    }

    fn pass_time(&mut self) {
        self.clock.pass(self.chance.within(50..=550));
        self.wants_skip |= self.chance.happens(self.weather.skip);
        if self.wants_skip && (self.process.is_none() || self.is_quiet()) {
            self.wants_skip = false;
            self.skip();
        }
        if self.chance.happens(self.weather.wall_forward) {
            self.clock.unix_ms += self.chance.within(1_000..=3 * 3_600_000);
        }
        if self.chance.happens(self.weather.wall_back) {
            self.clock.unix_ms -= self.chance.within(1_000..=120_000);
        }
    }

    /// Whether a long pause is harmless: the shards have taken all of the ledger's messages, and
    /// the replay is complete. The system does not recover from a replay that outlasts the shards'
    /// memory of reservations, nor from a grant for an hour that its shard has forgotten.
    fn is_quiet(&self) -> bool {
        let is_quiet = |process: &Process| {
            let mut shards = 0..self.options.shards;
            process.is_replayed
                && process.stops_by.is_none()
                && shards.all(|shard| process.is_quiet(shard))
        };
        self.process.as_deref().is_some_and(is_quiet)
    }

    /// Lets a long time pass without activity, usually until shortly before an hour or a day ends.
    fn skip(&mut self) {
        let last = self.options.zones.len() as u64 - 1;
        let zone =
            self.observer.places.zone(u32::try_from(self.chance.within(0..=last)).expect("few"));
        let now = self.clock.unix_ms;
        let until = match self.chance.within(0..=3) {
            0 => now + self.chance.within(10_000..=9_000_000),
            1 => zone.next_day(now),
            _ => zone.hour(now).end_unix_ms,
        };
        let ms = (until - now).saturating_sub(self.chance.within(0..=8_000));
        self.clock.pass(ms);
        self.fed_at = 0;
    }

    fn turns(&mut self, process: &mut Process) {
        self.hear_store(process);
        self.edit(process);
        self.fall_asleep(process);
        self.hear_exchanges(process);
        for shard in 0..self.options.shards {
            if process.is_awake(shard, self.step) {
                self.shard_turn(process, shard);
            }
        }
        self.log_turn(process);
        if process.is_awake(self.options.shards, self.step) {
            self.ledger_turn(process);
        }
    }

    fn fall_asleep(&mut self, process: &mut Process) {
        if self.chance.happens(self.weather.stall) {
            let who = self.chance.within(0..=self.options.shards.into());
            let until = self.step + self.chance.within(1..=20);
            self.trace.note(format_args!("{who} sleeps until {until}"));
            process.sleep(u16::try_from(who).expect("a shard, or the ledger"), until);
        }
    }

    /// The process ends, and everything that is not durable is lost.
    fn crash(&mut self) {
        self.trace.note(format_args!("crash"));
        let durable = self.log.crash(&mut self.chance);
        for seq in durable {
            self.note_durable(seq);
        }
        self.observer.crashed();
        self.observer.pass_dead(&self.clock);
        self.store.crash();
        self.process = None;
        self.stage = BudgetStage::Down(self.step + self.chance.within(0..=6));
    }

    fn note_durable(&mut self, seq: u64) {
        if let SimRecord::Win(id, settlement) = *self.log.record(seq) {
            self.trace.note(format_args!("durable {settlement:?}"));
            self.observer.durable(id, &settlement, &self.clock);
        }
    }

    /// Continues a start.
    fn start(&mut self) {
        if let BudgetStage::Down(until) = self.stage {
            if until <= self.step {
                self.store.begin(NODE, Epoch(1));
                self.stage = BudgetStage::Beginning;
            }
            return;
        }
        while let Some(answer) = self.store.poll() {
            self.trace.note(format_args!("{answer:?}"));
            match (self.stage.clone(), answer) {
                (_, StoreAnswer::Begun { begun: Ok(begun), .. }) => {
                    self.store.read(StoreQuery::Leases(None));
                    self.stage = BudgetStage::Reading(begun, ProcessRemains::default());
                }
                (_, StoreAnswer::Begun { begun: Err(_), .. }) => self.store.begin(NODE, Epoch(1)),
                (BudgetStage::Reading(begun, remains), StoreAnswer::Read(read)) => {
                    let remains = remains.with(read.ok());
                    let Some(next) = remains.next() else {
                        self.be_born(begun, &remains);
                        return;
                    };
                    self.store.read(next);
                    self.stage = BudgetStage::Reading(begun, remains);
                }
                (_, StoreAnswer::Read(_) | StoreAnswer::Ended(_)) => (),
            }
        }
    }

    fn be_born(&mut self, begun: EpochStart, remains: &ProcessRemains) {
        let (leases, sums) = (remains.leases(), remains.sums());
        let EpochStart { epoch, applied_seq } = begun;
        let durable = (1..=self.log.durable()).map(|seq| self.log.record(seq));
        let settlements = durable.filter_map(|record| match record {
            SimRecord::Win(_, settlement) => Some(*settlement),
            SimRecord::Other => None,
        });
        let settlements: &[_] = &settlements.collect::<Vec<_>>();
        let unix_ms = self.clock.unix_ms;
        self.observer.started(&ObservedStart {
            epoch,
            leases,
            sums,
            applied_seq,
            unix_ms,
            settlements,
        });
        let shards: Vec<_> =
            (0..self.options.shards).map(|n| self.shard_options(epoch, n)).collect();
        let settings = LedgerSettings {
            horizon: HORIZON,
            late_window: LATE_WINDOW,
            hours_kept: HOURS_KEPT,
            patience: PATIENCE,
            is_lateness_recorded: self.options.is_late_told,
            ..LedgerSettings::new(NODE, epoch, self.options.shards)
        };
        let is_long = self.chance.happens(400_000) && !self.is_looping();
        let takes_ms = if is_long { self.chance.within(40_000..=75_000) } else { 0 };
        let birth = Birth {
            settings,
            now: self.clock.now(),
            remains,
            applied_seq,
            replay_at_ms: self.clock.tick_ms + takes_ms,
            ring_capacity: self.options.ring_capacity,
        };
        let mut process = Process::new(&birth, &shards);
        self.send_definitions(&mut process);
        self.process = Some(Box::new(process));
    }

    fn shard_options(&self, epoch: Epoch, shard: u16) -> shard::ShardOptions {
        shard::ShardOptions {
            origin: TokenOrigin { node: NODE, epoch, shard },
            ttls: TTLS.to_vec(),
            late_window: LATE_WINDOW,
            slots_max: self.options.campaigns,
            books_max: 256,
            reservations_max: 4_096,
            lines_max: 1_024,
        }
    }
}
