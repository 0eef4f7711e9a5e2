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

mod books;
mod curve;
mod kept;
mod look;
mod paced;
mod pacer;
mod plan;
mod sums;
mod terms;
mod weeks;

pub use crate::encoding::StateDecodeError;
pub use books::{Funds, FundsSource, SpanFunds};
pub use curve::{CURVE_POINTS, CurvePoint, PacingCurve};
pub use kept::{PacingSnapshot, SNAPSHOT_BYTES_MAX};
pub use pacer::{CampaignPacer, PacerOptions};
pub use terms::{BiddingStatus, PacingError, PacingPolicy, TrafficForecast};

#[cfg(test)]
mod tests;
