//! How fast a campaign spends, and at what price: pure rules, on cumulative observations.
//!
//! A **target** says how much of the budget should be spent by when. At the end of each slot a
//! **step** compares that with what was observed and makes the next state, and with it the
//! **pace**: two integers by which a shard decides each request. Money is only compared here, never
//! booked: that nothing is spent beyond the budget is the ledger's business, and nothing here knows
//! of accounts, leases or reservations.
//!
//! Observations are cumulative and merge by maximum, so that what comes twice or out of order
//! changes nothing, and what comes late changes later slots only. Floating point is used for gains
//! and multipliers, never for money that is booked, with `exp` and `ln` of `libm` alone: the same
//! observations give the same bits on every machine.

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
