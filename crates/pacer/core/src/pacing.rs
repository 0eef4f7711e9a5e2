//! Asks every campaign's strategy how it goes on, whenever its slot of time is over.
//!
//! Owns which flight a strategy follows, what was observed in it, and when it is asked next. Knows
//! no clock, no thread and no ring: [`CampaignPacer::turn`] is told the time, looks money up in [`FundsSource`],
//! and says which campaigns bid otherwise from now on.
//!
//! **Which flight.** The tightest: that of the campaign's life, unless the limit of the day is used
//! up sooner, and that of the day, unless the limit of the hour is. It is chosen when the shortest
//! span that has a limit ends, and when a definition changes. A flight that is joined midway, at
//! a start that knows nothing of it or after a change, is followed from there on with what is left: nothing is made good that an
//! earlier plan would have spent. What was learned about prices is kept.
//!
//! **What outlives the process.** What decides a pace is given out as [`PacingSnapshot`], and taken back by the
//! pacer of the next start, which goes on as if there had been no end.
//!
//! A turn looks at campaigns whose slot is over, at most so many; slots of campaigns end spread out.

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
