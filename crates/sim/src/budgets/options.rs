//! A run of the simulation, drawn from one seed.

use std::time::Duration;

use pacer_core::store::testing::MemoryFaults;

use super::zone::{EVES, SimZone, ZONES};
use faults::Chance;

pub(super) const NODE: u32 = 7;

/// Times to live of reservations, by class.
pub(super) const TTLS: [Duration; 3] =
    [Duration::from_secs(4), Duration::from_secs(16), Duration::from_secs(40)];
/// How long after its expiry a shard remembers a reservation.
pub(super) const LATE_WINDOW: Duration = Duration::from_secs(30);
/// How long after its start the ledger holds on to the previous process's leases: the longest time
/// to live, a bucket, and the delay of the log.
pub(super) const HORIZON: Duration = Duration::from_secs(60);
/// How long the store keeps an hour's row after the hour's end: longer than any clock is put back.
pub(super) const HOURS_KEPT: Duration = Duration::from_secs(60 * 60);
/// How long rights may lie unused while others need them.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A run.
#[derive(Clone, Debug)]
pub struct BudgetScenario {
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of shards.
    pub shards: u16,
    /// Steps until faults end.
    pub steps: u64,
    /// Start of the run.
    pub start_unix_ms: u64,
    /// Time zones of the accounts.
    pub zones: Vec<SimZone>,
    /// Number of campaigns, dealt to the accounts in turn.
    pub campaigns: u32,
    /// Messages that a ring can hold.
    pub ring_capacity: usize,
    /// Longest delay of a message, in steps.
    pub delay_steps_max: u64,
    /// The faults.
    pub weather: Weather,
    /// The exchanges' behaviour.
    pub manners: Manners,
    /// Whether records say which wins came late. An exchange that writes the record before it asks
    /// the shard does not know.
    pub is_late_told: bool,
}

/// Faults. Shares are ppm per step unless stated otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// The process crashes and restarts.
    pub crash: u64,
    /// The process crashes repeatedly for a while.
    pub crash_loop: u64,
    /// The process stops cleanly and restarts.
    pub stop: u64,
    /// A shard or the ledger stalls.
    pub stall: u64,
    /// Hours pass without any activity.
    pub skip: u64,
    /// The wall clock jumps forward.
    pub wall_forward: u64,
    /// The wall clock goes back a little.
    pub wall_back: u64,
    /// The operator changes an account or a campaign.
    pub edit: u64,
    /// The log syncs its records.
    pub sync: u64,
    /// The log's disk is full: unsynced records are lost, and their claims are given up.
    pub log_lost: u64,
    /// The log refuses a record; ppm of records.
    pub log_refused: u64,
    /// Faults of the store.
    pub store: MemoryFaults,
    /// A notice of a remote exchange is lost on its way; ppm of notices.
    pub notice_lost: u64,
    /// The acknowledgement of a win is lost on its way back, so that the exchange repeats it; ppm.
    pub acknowledgement_lost: u64,
}

/// How reservations end, in ppm. The first outcome that is drawn counts; all others are won in
/// time.
#[derive(Clone, Copy, Debug)]
pub struct Manners {
    /// No notice ever comes; a remote exchange may never have got the decision.
    pub never: u64,
    /// Lost and released; a remote exchange may have got the decision too late.
    pub released: u64,
    /// Released, then won nevertheless.
    pub released_and_won: u64,
    /// Won, then released.
    pub won_and_released: u64,
    /// Won after expiry.
    pub late: u64,
    /// Won so late that no shard remembers it.
    pub ancient: u64,
    /// Sent once with an altered token, then with the correct one.
    pub altered: u64,
    /// Won above the reserved price; ppm of wins.
    pub over: u64,
    /// Reported twice; ppm of wins.
    pub twice: u64,
    /// Most reservations per shard and step.
    pub bids_max: u64,
    /// Whether every reservation has the smallest amount.
    pub is_petty: bool,
}

impl Weather {
    /// No faults.
    pub const CALM: Self = Self {
        crash: 0,
        crash_loop: 0,
        stop: 0,
        stall: 0,
        skip: 0,
        wall_forward: 0,
        wall_back: 0,
        edit: 0,
        sync: 700_000,
        log_lost: 0,
        log_refused: 0,
        store: MemoryFaults { late_polls_max: 2, refused_once_in: 0, unknown_once_in: 0 },
        notice_lost: 0,
        acknowledgement_lost: 0,
    };

    fn of(chance: &mut Chance) -> Self {
        Self {
            crash: chance.one_of(&[0, 4_000, 12_000]),
            crash_loop: chance.one_of(&[0, 0, 0, 6_000]),
            stop: chance.one_of(&[0, 0, 5_000]),
            stall: chance.one_of(&[0, 10_000, 40_000]),
            skip: chance.one_of(&[0, 8_000, 30_000]),
            wall_forward: chance.one_of(&[0, 0, 8_000]),
            wall_back: chance.one_of(&[0, 0, 10_000]),
            edit: chance.one_of(&[0, 20_000, 80_000]),
            sync: chance.one_of(&[200_000, 500_000, 900_000]),
            log_lost: chance.one_of(&[0, 10_000, 40_000]),
            log_refused: chance.one_of(&[0, 20_000]),
            store: MemoryFaults {
                late_polls_max: chance.one_of(&[0, 4, 12]),
                refused_once_in: chance.one_of(&[0, 4, 12]),
                unknown_once_in: chance.one_of(&[0, 3, 8]),
            },
            notice_lost: chance.one_of(&[0, 0, 100_000, 300_000]),
            acknowledgement_lost: chance.one_of(&[0, 0, 100_000, 300_000]),
        }
    }
}

impl Manners {
    /// Every reservation is won in time or released.
    pub const KIND: Self = Self {
        never: 0,
        released: 200_000,
        released_and_won: 0,
        won_and_released: 0,
        late: 0,
        ancient: 0,
        altered: 0,
        over: 0,
        twice: 0,
        bids_max: 12,
        is_petty: false,
    };

    fn of(chance: &mut Chance) -> Self {
        Self {
            never: chance.one_of(&[0, 100_000, 400_000]),
            released: chance.one_of(&[0, 150_000]),
            released_and_won: chance.one_of(&[0, 30_000]),
            won_and_released: chance.one_of(&[0, 30_000]),
            late: chance.one_of(&[0, 30_000, 80_000]),
            ancient: chance.one_of(&[0, 0, 10_000]),
            altered: chance.one_of(&[0, 20_000]),
            over: chance.one_of(&[0, 50_000]),
            twice: chance.one_of(&[0, 100_000]),
            bids_max: chance.one_of(&[2, 4, 8]),
            is_petty: false,
        }
    }
}

impl BudgetScenario {
    /// Draws a run from a seed.
    pub fn of(seed: u64) -> Self {
        let mut chance = Chance::new(seed ^ 0x00b0_d6e7);
        let accounts = chance.within(2..=3);
        let eve = chance.one_of(&EVES);
        Self {
            seed,
            shards: u16::try_from(chance.within(2..=4)).expect("few"),
            steps: 500,
            start_unix_ms: eve + chance.within(0..=120) * 60_000,
            zones: (0..accounts).map(|_| chance.one_of(&ZONES)).collect(),
            campaigns: u32::try_from(chance.within(4..=6)).expect("few"),
            ring_capacity: chance.one_of(&[5, 16, 64]),
            delay_steps_max: chance.one_of(&[0, 1, 3]),
            weather: Weather::of(&mut chance),
            manners: Manners::of(&mut chance),
            is_late_told: chance.happens(300_000),
        }
    }
}
