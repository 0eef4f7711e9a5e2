//! Pacing: runs every campaign's strategy at the end of each slot.
//!
//! Owns the choice of a flight, observations and deadlines. Has no clock, thread or ring:
//! [`CampaignPacer::turn`] takes the time, reads [`FundsSource`], and returns changed paces of a
//! bounded number of campaigns, whose slots end spread out.
//!
//! **Which flight.** The tightest: the total one, unless the day's limit is used up sooner, and the
//! day's, unless the hour's is. It is chosen when the shortest limited span ends, and when a
//! definition changes. A flight joined midway is followed with what is left; what was learned about
//! prices is kept.
//!
//! **Restarts.** The next start restores a [`PacingSnapshot`], and continues.

mod curve;
mod funds;
mod look;
mod paced;
mod pacer;
mod plan;
mod snapshot;
mod sums;
mod terms;
mod weeks;

pub use crate::encoding::StateDecodeError;
pub use curve::{CURVE_POINTS, CurvePoint, PacingCurve};
pub use funds::{Funds, FundsSource, SpanFunds};
pub use pacer::{CampaignPacer, PacerOptions};
pub use snapshot::{PacingSnapshot, SNAPSHOT_BYTES_MAX};
pub use terms::{BiddingStatus, PacingError, PacingPolicy, TrafficForecast};

#[cfg(test)]
mod tests;
