//! The curve of a flight: planned and actual spend over time, for display only.

use units::Nanos;

use super::plan::{FlightPlan, ReportedFlight};
use super::terms::PacingPolicy;
use crate::encoding::leb128::{put_difference, take_difference};
use crate::ledger::LimitSpan;
use crate::strategy::{BidPace, CampaignFlight, StrategyState};

/// Maximum points of a curve: one per ten minutes of a day, of 2 to 8 bytes each.
pub const CURVE_POINTS: u64 = 144;

/// Planned and actual spend in a campaign's current flight.
#[derive(Clone, Debug, PartialEq)]
pub struct PacingCurve {
    /// The span of the drawn limit: the followed one, or a longer one instead of the hour.
    pub span: LimitSpan,
    /// That limit, less the holdback.
    pub limit: Nanos,
    /// The flight of that limit.
    pub flight: CampaignFlight,
    /// The strategy's name.
    pub strategy: &'static str,
    /// The current pace.
    pub pace: BidPace,
    /// The logarithm of the divisor of values.
    pub dual: f64,
    /// The share of requests bid for, if the strategy throttles.
    pub rate: f64,
    /// In order of time, future ones included. Starts with the process or the strategy.
    pub points: Vec<CurvePoint>,
}

/// A moment of a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurvePoint {
    /// Its time, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Planned spend by then; past values are rounded down by less than a millionth of the limit.
    pub target: Nanos,
    /// Actual spend by then. None in the future.
    pub spent: Option<Nanos>,
}

/// A flight's history: the last figures of each of its equal parts.
#[derive(Debug, Default)]
pub(super) struct Series {
    start_ms: u64,
    every_ms: u64,
    /// The part of the first point.
    first: u8,
    count: u8,
    /// Bits of `planned` dropped from earlier points.
    dropped_bits: u8,
    /// All points but the last, packed.
    earlier: Box<[u8]>,
    last: SeriesPoint,
    last_ms: u64,
    limit: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SeriesPoint {
    planned: u64,
    spent: u64,
}

/// Bits of precision of `planned`: a millionth of the limit.
const PLANNED_BITS: u32 = 20;

const _: () = assert!(CURVE_POINTS < 256, "parts are numbered by a byte");
const _: () = assert!(size_of::<Series>() <= 72, "a hundred thousand series are 7 MB");

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
    /// Restarts the series, unless the flight is the same.
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
            // Parts without the end of a slot repeat the previous point.
            points.resize(usize::from(count) - 1, self.last);
            self.earlier = pack(&points, self.dropped_bits);
            self.count = count;
        }
        self.last = SeriesPoint { planned: planned.get(), spent: spent.get() };
    }

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
            Some(reported) => reported.planned_from(self.limit(), spent, now_ms, at_ms),
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

/// Packs the change of the growth of planned spend, which is even, and the growth of the spend.
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
