//! The end: faults are over, every budget is spent as far as it goes, and the books are exact.

use pacer_core::calendar::QUARTER_MS;
use pacer_core::store::{Answer, Found, LeaseStore as _, Query};

use super::super::options::{Manners, Weather};
use super::World;
use super::process::Process;
use crate::budgets::zone::DAY_MS;

/// Steps until everything must have come to rest.
const REST_STEPS: u64 = 400;
/// In which rights that somebody wanted once are granted, and come back.
const REST_DAYS: u64 = 5;
/// In which all must be spent.
const ROUNDS: u64 = 12;

impl World<'_> {
    /// Faults end, and everybody may spend.
    pub(in super::super) fn heal(&mut self) {
        self.weather = Weather::CALM;
        self.manners = Manners::KIND;
        self.store.set_faults(Weather::CALM.store);
        self.operator.open(self.options.start_unix_ms + super::CALENDAR_MS);
        if let Some(process) = &mut self.process {
            let all = self.operator.all().into_iter();
            process.mail.extend(all.map(|definition| (self.step, definition)));
        }
        for _ in 0..REST_STEPS {
            if self.process.as_deref().is_some_and(|process| process.is_replayed) {
                break;
            }
            self.go_on(1);
        }
        for _ in 0..2 {
            let next = self.clock.unix_ms + DAY_MS + self.chance.within(0..=6 * 3_600_000);
            // No hour ends meanwhile.
            self.clock.pass(next.next_multiple_of(QUARTER_MS) - self.clock.unix_ms);
            self.fed_at = 0;
            self.spend_all();
        }
        self.rest();
    }

    /// Large amounts and then small ones, until no campaign has any money that it may spend now.
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

    fn go_on(&mut self, steps: u64) {
        for _ in 0..steps {
            self.clock.pass(self.chance.within(50..=550));
            self.step();
        }
    }

    /// Nobody bids any more, and what is under way ends.
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
        for _ in 0..REST_DAYS {
            self.clock.pass(DAY_MS);
            self.fed_at = 0;
            self.go_on(24);
        }
        let leases = self.leases();
        self.observer.check_books(&leases);
        let process = self.process.as_ref().expect("it was at rest");
        self.observer.check_spend(&process.ledger, self.options.campaigns);
    }

    fn is_at_rest(&self) -> bool {
        let is_idle = |process: &Process| process.claims.is_empty() && process.orphans.is_empty();
        self.exchange.is_done() && self.process.as_deref().is_some_and(is_idle)
    }

    /// What the store has.
    fn leases(&mut self) -> Vec<(pacer_core::store::LeaseKey, pacer_core::store::Lease)> {
        self.store.read(Query::Leases(None));
        for _ in 0..REST_STEPS {
            if let Some(Answer::Read(Ok(Found::Leases(leases)))) = self.store.poll() {
                return leases;
            }
        }
        panic!("the store does not answer");
    }
}
