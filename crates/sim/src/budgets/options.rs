//! What happens in a run: all of it follows from one seed.

use std::time::Duration;

use pacer_core::store;

use super::zone::{EVES, SimZone, ZONES};
use faults::Chance;

/// The process's number among all.
pub(super) const NODE: u32 = 7;

/// How long reservations last, by class.
pub(super) const TTLS: [Duration; 3] =
    [Duration::from_secs(4), Duration::from_secs(16), Duration::from_secs(40)];
/// How long after its expiry a shard remembers a reservation.
pub(super) const LATE_WINDOW: Duration = Duration::from_secs(30);
/// How long after its restart the ledger lets go what it had outstanding: the longest time to live, a
/// bucket, and what the log takes to tell.
pub(super) const HORIZON: Duration = Duration::from_secs(60);
/// How long after its end an hour keeps its row in the store: longer than clocks are ever put back.
pub(super) const HOURS_KEPT: Duration = Duration::from_secs(60 * 60);
/// For how long rights may lie unused where others need them.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A run.
#[derive(Clone, Debug)]
pub struct BudgetScenario {
    /// Of all chance.
    pub seed: u64,
    /// Threads that spend.
    pub shards: u16,
    /// Steps before faults end.
    pub steps: u64,
    /// When it begins.
    pub start_unix_ms: u64,
    /// Of accounts, in their order.
    pub zones: Vec<SimZone>,
    /// Campaigns, dealt out to accounts in turn.
    pub campaigns: u32,
    /// Messages that a ring holds.
    pub ring_capacity: usize,
    /// Steps that a message takes at most.
    pub delay_steps_max: u64,
    /// What goes wrong.
    pub weather: Weather,
    /// What exchanges do.
    pub manners: Manners,
    /// Whether records say which wins came late: an exchange that writes them before it asks the shard
    /// does not know.
    pub is_late_told: bool,
}

/// What goes wrong. Shares are in a million, by step where nothing else is said.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// The process ends at once, and another starts.
    pub crash: u64,
    /// The process begins to crash again and again, for a while.
    pub crash_loop: u64,
    /// The process is asked to end, and another starts.
    pub stop: u64,
    /// A shard, or the ledger, does nothing for a while.
    pub stall: u64,
    /// Time passes by the hour, and nobody is asked meanwhile.
    pub skip: u64,
    /// The clock on the wall goes forward by itself.
    pub wall_forward: u64,
    /// The clock on the wall goes back by a little.
    pub wall_back: u64,
    /// Somebody changes an account or a campaign.
    pub edit: u64,
    /// The log writes what it was given to its disk.
    pub sync: u64,
    /// The log's disk is full: what was not written is lost, and whoever waits is told.
    pub log_lost: u64,
    /// The log takes no record: by record.
    pub log_refused: u64,
    /// The store's.
    pub store: store::MemoryFaults,
}

/// What exchanges do with reservations: in a million of them, the first that holds; the rest is won in
/// time.
#[derive(Clone, Copy, Debug)]
pub struct Manners {
    /// Nothing is ever heard of it.
    pub never: u64,
    /// Lost, and released.
    pub released: u64,
    /// Released, and won all the same.
    pub released_and_won: u64,
    /// Won, and released after it.
    pub won_and_released: u64,
    /// Won after its time.
    pub late: u64,
    /// Won long after its time, when no shard remembers it.
    pub ancient: u64,
    /// Its token is altered on the way, and sent as it was once more.
    pub altered: u64,
    /// Won at a price above what was reserved: in a million of wins.
    pub over: u64,
    /// Told twice: in a million of wins.
    pub twice: u64,
    /// The most that a shard is asked to reserve in a step.
    pub bids_max: u64,
    /// The smallest amounts only.
    pub is_petty: bool,
}

impl Weather {
    /// Nothing goes wrong.
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
        store: store::MemoryFaults { late_polls_max: 2, refused_once_in: 0, unknown_once_in: 0 },
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
            store: store::MemoryFaults {
                late_polls_max: chance.one_of(&[0, 4, 12]),
                refused_once_in: chance.one_of(&[0, 4, 12]),
                unknown_once_in: chance.one_of(&[0, 3, 8]),
            },
        }
    }
}

impl Manners {
    /// All is won in time, or released.
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
    /// What a seed says.
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
