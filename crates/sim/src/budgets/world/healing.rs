//! The end of a run: faults stop, every budget is spent as far as possible, and the books are
//! exact.

use pacer_core::calendar::QUARTER_MS;
use pacer_core::store::{Lease, LeaseKey, LeaseStore as _, QueryResult, StoreAnswer, StoreQuery};

use super::super::options::{Manners, Weather};
use super::BudgetWorld;
use super::process::Process;
use crate::budgets::zone::DAY_MS;

/// Steps within which everything must come to rest.
const REST_STEPS: u64 = 400;
/// Days within which unused rights are granted and returned: usually, and at most.
const REST_DAYS: u64 = 5;
const REST_DAYS_MAX: u64 = 9;
/// Rounds within which all budgets must be spent.
const ROUNDS: u64 = 12;

impl BudgetWorld<'_> {
    /// Ends the faults and lets every campaign spend.
    pub(in super::super) fn heal(&mut self) {
        self.weather = Weather::CALM;
        self.manners = Manners::KIND;
        self.store.set_faults(Weather::CALM.store);
        self.operator.open(self.options.start_unix_ms + super::CALENDAR_MS);
        if let Some(process) = &mut self.process {
            let all = self.operator.all().into_iter();
            process.mail.extend(all.map(|definition| (self.step, definition)));
        }
        for _ in 0..2 {
            self.settle_down();
            let next = self.clock.unix_ms + DAY_MS + self.chance.within(0..=6 * 3_600_000);
            // No hour ends during the skip.
            self.clock.pass(next.next_multiple_of(QUARTER_MS) - self.clock.unix_ms);
            self.fed_at = 0;
            self.spend_all();
        }
        self.rest();
    }

    /// Reserves large amounts, then small ones, until no campaign has any money for the current
    /// hour.
    fn spend_all(&mut self) {
        let mut left = None;
        for _ in 0..ROUNDS {
            self.manners = Manners::KIND;
            self.go_on(60);
            self.manners = Manners { released: 0, is_petty: true, ..Manners::KIND };
            self.go_on(80);
            let Self { observer, operator, clock, .. } = self;
            left = observer.left(&operator.campaigns, &operator.accounts, clock);
            if left.is_none() {
                return;
            }
        }
        panic!("money is left, and wanted: {left:?}");
    }

    /// Runs until the process is replayed and nothing is in transit.
    fn settle_down(&mut self) {
        let has_batch = |process: &Process| process.sent.is_some();
        for _ in 0..REST_STEPS {
            if self.is_quiet() && !self.process.as_deref().is_some_and(has_batch) {
                return;
            }
            self.go_on(1);
        }
        panic!("the ledger has something for its shards all the time, or knows not enough for any");
    }

    fn go_on(&mut self, steps: u64) {
        for _ in 0..steps {
            self.clock.pass(self.chance.within(50..=550));
            self.step();
        }
    }

    /// Bidding stops, and pending work completes.
    fn rest(&mut self) {
        self.manners.bids_max = 0;
        for _ in 0..REST_STEPS {
            self.clock.pass(5_000);
            self.step();
            if self.is_at_rest() {
                break;
            }
        }
        assert!(self.is_at_rest(), "what was won is booked in the end, and acknowledged");
        let is_open = |(_, lease): &(LeaseKey, Lease)| {
            lease.returned.get() + lease.settled.get() < lease.granted.get()
        };
        for day in 1..=REST_DAYS_MAX {
            self.settle_down();
            self.clock.pass(DAY_MS);
            self.fed_at = 0;
            self.go_on(24);
            self.settle_down();
            if day >= REST_DAYS && !self.leases().iter().any(is_open) {
                break;
            }
        }
        let leases = self.leases();
        let QueryResult::Sums(sums) = self.ask(StoreQuery::Sums(None)) else {
            panic!("sums were asked for")
        };
        self.observer.check_books(&leases, &sums);
        self.observer.check_rows(&leases, &sums, &self.clock);
        let process = self.process.as_ref().expect("it was at rest");
        self.observer.check_spend(&process.ledger, self.options.campaigns);
    }

    fn is_at_rest(&self) -> bool {
        let is_idle = |process: &Process| process.claims.is_empty() && process.orphans.is_empty();
        self.exchange.is_done() && self.process.as_deref().is_some_and(is_idle)
    }

    /// The leases in the store.
    fn leases(&mut self) -> Vec<(LeaseKey, Lease)> {
        let QueryResult::Leases(leases) = self.ask(StoreQuery::Leases(None)) else {
            panic!("leases were asked for")
        };
        leases
    }

    fn ask(&mut self, query: StoreQuery) -> QueryResult {
        self.store.read(query);
        for _ in 0..REST_STEPS {
            if let Some(StoreAnswer::Read(Ok(found))) = self.store.poll() {
                return found;
            }
        }
        panic!("the store does not answer");
    }
}
