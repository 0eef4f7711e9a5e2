//! The curve of a flight: what should have been spent by when, and what was. To be looked at; nothing
//! is decided by it.

use units::Nanos;

use super::Pacing;
use super::plan::{Plan, ReportedFlight};
use crate::ledger::Span;
use crate::strategy::{Flight, Pace, State};

/// Points of a curve at most: one for every ten minutes of a day. They take 16 bytes each.
pub const CURVE_POINTS: u64 = 144;

/// What should have been spent and what was, in the flight that a campaign follows.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Whose limit it is drawn by: that which it follows, but of an hour the day's or the life's, if there
    /// is one.
    pub span: Span,
    /// That limit, less what is kept back.
    pub limit: Nanos,
    /// From when to when that holds.
    pub flight: Flight,
    /// By which strategy.
    pub strategy: &'static str,
    /// How it bids now.
    pub pace: Pace,
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
    /// What should have been spent by then.
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
    first: u64,
    /// What was planned, and what was spent.
    points: Vec<(u64, u64)>,
    last_ms: u64,
    /// Of the flight; 0 before it is known.
    limit: u64,
}

/// By what a curve is drawn.
pub(super) struct CurveSource<'d> {
    pub(super) plan: &'d Plan,
    pub(super) reported: Option<&'d ReportedFlight>,
}

impl CurveSource<'_> {
    const fn span(&self) -> (Span, Flight) {
        match self.reported {
            Some(reported) => (reported.span, reported.flight),
            None => (self.plan.span, self.plan.nominal),
        }
    }
}

impl Series {
    /// Of this flight, unless it is the one before.
    pub(super) fn begin(&mut self, flight: Flight) {
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
        let part = part.min(CURVE_POINTS - 1);
        if self.points.is_empty() {
            self.first = part;
        }
        self.last_ms = now_ms;
        let at = usize::try_from(part.saturating_sub(self.first)).expect("parts are few");
        // Where no slot ended nothing was noted: it was as before.
        let before = self.points.last().copied().unwrap_or_default();
        self.points.resize(self.points.len().max(at + 1), before);
        self.points[at] = (planned.get(), spent.get());
    }

    pub(super) fn curve(
        &self,
        pacing: &Pacing,
        state: &State,
        drawn: &CurveSource<'_>,
        now_ms: u64,
    ) -> Curve {
        let (span, flight) = drawn.span();
        let spent = self.points.last().map_or(Nanos::ZERO, |(_, spent)| Nanos::new(*spent));
        let planned = |at_ms| match drawn.reported {
            Some(reported) => reported.planned_from((now_ms, spent), self.limit(), at_ms),
            None => drawn.plan.planned(state, at_ms),
        };
        let end_of = |part: u64| (self.start_ms + (part + 1) * self.every_ms).min(flight.end_ms);
        let past = (self.first..).zip(&self.points).map(|(part, (planned, spent))| CurvePoint {
            at_unix_ms: end_of(part).min(self.last_ms),
            target: Nanos::new(*planned),
            spent: Some(Nanos::new(*spent)),
        });
        let coming = (0..CURVE_POINTS).map(end_of).filter(|at_ms| now_ms < *at_ms);
        let mut points: Vec<_> = past.collect();
        points.extend(coming.map(|at_unix_ms| CurvePoint {
            at_unix_ms,
            target: planned(at_unix_ms),
            spent: None,
        }));
        points.dedup_by_key(|point| point.at_unix_ms);
        Curve {
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
