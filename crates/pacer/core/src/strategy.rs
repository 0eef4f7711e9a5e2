//! How fast a campaign spends, and at what price: pure rules on cumulative observations.
//!
//! A **target** says how much of the budget should be spent by when. At the end of each slot a
//! **step** compares it with observations and returns the next state with its **pace**: two
//! integers by which a shard decides each request. Strategies only compare money; the ledger books
//! it and enforces budgets. They know nothing of accounts, leases or reservations.
//!
//! Observations merge by maximum, so repeated or reordered ones change nothing, and late ones
//! affect only later slots. Floating point is for gains and multipliers, never for booked money,
//! with `exp` and `ln` of `libm` alone: the same observations give the same bits on every machine.

mod controls;
mod learner;
mod observed;
mod pace;
mod settings;
mod state;
mod target;
mod week;

pub use learner::Learner;
pub use observed::ObservedTotals;
pub use pace::{BidPace, DrawKey, decide};
pub use settings::{
    Adaptive, AuctionPricing, DUAL_MAX, OutOfRange, Pid, SlotDual, StrategySettings, Throttle,
};
pub use state::{SlotEnd, StrategyState, step};
pub use target::{CampaignFlight, Forecast, SpendTarget, TargetError};
pub(crate) use week::TIME_MAX_MS;
pub use week::{HOURS, OffsetFrom, Week, ZoneOffsets};
