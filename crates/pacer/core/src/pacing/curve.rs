//! The curve of a flight: what should have been spent by when, and what was. To be looked at; nothing
//! is decided by it.

use units::Nanos;

use super::plan::{FlightPlan, ReportedFlight};
use super::terms::PacingPolicy;
use crate::encoding::leb128::{put_difference, take_difference};
use crate::ledger::LimitSpan;
use crate::strategy::{BidPace, CampaignFlight, StrategyState};

/// Points of a curve at most: one for every ten minutes of a day. Of a campaign that spends nothing they
/// take 2 or 3 bytes each, of one that spends as a rule less than 8.
pub const CURVE_POINTS: u64 = 144;

/// What should have been spent and what was, in the flight that a campaign follows.
#[derive(Clone, Debug, PartialEq)]
pub struct PacingCurve {
    /// Whose limit it is drawn by: that which it follows, but of an hour the day's or the life's, if there
    /// is one.
    pub span: LimitSpan,
    /// That limit, less what is kept back.
    pub limit: Nanos,
    /// From when to when that holds.
    pub flight: CampaignFlight,
    /// By which strategy.
    pub strategy: &'static str,
    /// How it bids now.
    pub pace: BidPace,
    /// The logarithm of what a value is divided by.
    pub dual: f64,
    /// The share of requests that is bid for, of strategies that throttle.
    pub rate: f64,
    /// In order of time, those that are still to come as well. What was before the process started,
    /// or before the strategy was chosen, is not there.
    pub points: Vec<CurvePoint>,
}

/// A moment of a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurvePoint {
    /// When, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// What should have been spent by then. In the past it is rounded down, by less than a millionth of
    /// the limit that the flight began with.
    pub target: Nanos,
    /// What was; `None` in the future.
    pub spent: Option<Nanos>,
}

/// What was noted of a flight: by parts of equal length, the last of each.
#[derive(Debug, Default)]
pub(super) struct Series {
    start_ms: u64,
    every_ms: u64,
    /// The part of the first point.
    first: u8,
    /// How many points there are.
    count: u8,
    /// Bits of what was planned that are not kept of earlier points.
    dropped_bits: u8,
    /// All points but the last, packed.
    earlier: Box<[u8]>,
    last: SeriesPoint,
    last_ms: u64,
    /// Of the flight; 0 before it is known.
    limit: u64,
}

/// What was planned and what was spent, in nanos.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SeriesPoint {
    planned: u64,
    spent: u64,
}

/// So many bits of the limit say what was planned: a millionth of it.
const PLANNED_BITS: u32 = 20;

const _: () = assert!(CURVE_POINTS < 256, "parts are numbered by a byte");
const _: () = assert!(size_of::<Series>() <= 72, "a hundred thousand series are 7 MB");

/// By what a curve is drawn.
pub(super) struct CurveSource<'d> {
    pub(super) plan: &'d FlightPlan,
    pub(super) reported: Option<&'d ReportedFlight>,
}

impl CurveSource<'_> {
    const fn span(&self) -> (LimitSpan, CampaignFlight) {
        match self.reported {
            Some(reported) => (reported.span, reported.flight),
            None => (self.plan.span, self.plan.nominal),
        }
    }
}

impl Series {
    /// Of this flight, unless it is the one before.
    pub(super) fn begin(&mut self, flight: CampaignFlight) {
        let length = flight.end_ms.saturating_sub(flight.start_ms);
        let every_ms = length.div_ceil(CURVE_POINTS).max(1);
        if (self.start_ms, self.every_ms) != (flight.start_ms, every_ms) {
            *self = Self { start_ms: flight.start_ms, every_ms, ..Self::default() };
        }
    }

    pub(super) fn limit_to(&mut self, limit: Option<Nanos>) {
        self.limit = limit.unwrap_or_default().get();
    }

    pub(super) const fn limit(&self) -> Nanos {
        Nanos::new(self.limit)
    }

    pub(super) fn note(&mut self, now_ms: u64, planned: Nanos, spent: Nanos) {
        let part = now_ms.saturating_sub(self.start_ms) / self.every_ms.max(1);
        let part = u8::try_from(part.min(CURVE_POINTS - 1)).expect("parts are few");
        if self.count == 0 {
            let limit_bits = u64::BITS - self.limit.leading_zeros();
            let dropped = limit_bits.saturating_sub(PLANNED_BITS);
            self.dropped_bits = u8::try_from(dropped).expect("a word has few bits");
            (self.first, self.count) = (part, 1);
        }
        self.last_ms = now_ms;
        let count = part.saturating_sub(self.first) + 1;
        if self.count < count {
            let mut points = self.points();
            // Where no slot ended nothing was noted: it was as before.
            points.resize(usize::from(count) - 1, self.last);
            self.earlier = pack(&points, self.dropped_bits);
            self.count = count;
        }
        self.last = SeriesPoint { planned: planned.get(), spent: spent.get() };
    }

    /// In order of time.
    fn points(&self) -> Vec<SeriesPoint> {
        let mut points = unpack(&self.earlier, self.dropped_bits);
        points.extend((self.count > 0).then_some(self.last));
        points
    }

    pub(super) fn curve(
        &self,
        pacing: &PacingPolicy,
        state: &StrategyState,
        drawn: &CurveSource<'_>,
        now_ms: u64,
    ) -> PacingCurve {
        let (span, flight) = drawn.span();
        let spent = Nanos::new(self.last.spent);
        let planned = |at_ms| match drawn.reported {
            Some(reported) => reported.planned_from((now_ms, spent), self.limit(), at_ms),
            None => drawn.plan.planned(state, at_ms),
        };
        let end_of = |part: u64| (self.start_ms + (part + 1) * self.every_ms).min(flight.end_ms);
        let past = (u64::from(self.first)..).zip(self.points()).map(|(part, point)| CurvePoint {
            at_unix_ms: end_of(part).min(self.last_ms),
            target: Nanos::new(point.planned),
            spent: Some(Nanos::new(point.spent)),
        });
        let coming = (0..CURVE_POINTS).map(end_of).filter(|at_ms| now_ms < *at_ms);
        let mut points: Vec<_> = past.collect();
        points.extend(coming.map(|at_unix_ms| CurvePoint {
            at_unix_ms,
            target: planned(at_unix_ms),
            spent: None,
        }));
        points.dedup_by_key(|point| point.at_unix_ms);
        PacingCurve {
            span,
            limit: self.limit(),
            flight,
            strategy: pacing.settings.name(),
            pace: state.pace(&pacing.settings),
            dual: state.dual(),
            rate: state.rate(),
            points,
        }
    }
}

/// What was planned grows evenly as a rule, and what was spent little or not at all: of the first the change of its
/// growth is kept, of the second its growth.
fn pack(points: &[SeriesPoint], dropped_bits: u8) -> Box<[u8]> {
    let mut bytes = Vec::with_capacity(points.len() * 8);
    let (mut growth, mut before) = (0, SeriesPoint::default());
    for point in points {
        let planned = point.planned >> dropped_bits;
        put_difference(&mut bytes, growth, planned.wrapping_sub(before.planned));
        put_difference(&mut bytes, before.spent, point.spent);
        growth = planned.wrapping_sub(before.planned);
        before = SeriesPoint { planned, spent: point.spent };
    }
    bytes.into()
}

fn unpack(mut bytes: &[u8], dropped_bits: u8) -> Vec<SeriesPoint> {
    let mut points = Vec::new();
    let (mut growth, mut before) = (0, SeriesPoint::default());
    while !bytes.is_empty() {
        growth = take_difference(&mut bytes, growth);
        let planned = before.planned.wrapping_add(growth);
        before = SeriesPoint { planned, spent: take_difference(&mut bytes, before.spent) };
        points.push(SeriesPoint { planned: planned << dropped_bits, spent: before.spent });
    }
    points
}

#[cfg(test)]
mod tests;
