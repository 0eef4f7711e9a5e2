//! Asks every campaign's strategy how it goes on, whenever its slot of time is over.
//!
//! Owns which flight a strategy follows, what was observed in it, and when it is asked next. Knows
//! no clock, no thread and no ring: [`Pacer::turn`] is told the time, looks money up in [`Books`],
//! and says which campaigns bid otherwise from now on.
//!
//! **Which flight.** The tightest: that of the campaign's life, unless the limit of the day is used
//! up sooner, and that of the day, unless the limit of the hour is. It is chosen when the shortest
//! span that has a limit ends, and when a definition changes. A flight that is joined midway, at
//! a start that knows nothing of it or after a change, is followed from there on with what is left: nothing is made good that an
//! earlier plan would have spent. What was learned about prices is kept.
//!
//! **What outlives the process.** What decides a pace is given out as [`Kept`], and taken back by the
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

pub use crate::encoding::DecodeError;
pub use books::{Books, Funds, Purse};
pub use curve::{CURVE_POINTS, Curve, CurvePoint};
pub use kept::{KEPT_BYTES_MAX, Kept};
pub use pacer::{Pacer, PacerOptions};
pub use terms::{Bidding, Expected, Pacing, PacingError};

#[cfg(test)]
mod tests;
