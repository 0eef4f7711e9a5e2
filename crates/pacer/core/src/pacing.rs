//! Pacing: runs every campaign's strategy at the end of each slot.
//!
//! Owns the choice of a strategy's flight, its observations and its deadlines. Has no clock, thread
//! or ring: [`CampaignPacer::turn`] takes the time, reads funds from [`FundsSource`], and returns
//! changed paces.
//!
//! **Which flight.** The tightest: the total one, unless the day's limit is used up sooner, and the
//! day's, unless the hour's is. It is chosen when the shortest limited span ends, and when a
//! definition changes. A flight joined midway, at a fresh start or after a change, is followed with
//! what is left: the plan does not catch up on earlier time. What was learned about prices is kept.
//!
//! **Restarts.** A [`PacingSnapshot`] contains all that determines a pace; the next start's pacer
//! restores it and continues.
//!
//! A turn looks at a bounded number of campaigns whose slot is over; the ends of slots are spread
//! out.

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
