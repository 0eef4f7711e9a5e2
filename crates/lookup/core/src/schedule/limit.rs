//! How many calls run at a time, found out from how they end.
//!
//! The limit begins low and grows by a half while all goes well, and later by one at a time. What it
//! was before it grew is proven. If more calls than that run and two of them fail, or a provider says that
//! it is busy, the limit goes back, and grows again the more slowly the more often that was too much: a
//! provider that fails above a number of calls seldom sees one too many. If calls fail although no more
//! run than is proven, that is noise, unless they are many; then the limit is cut. It also goes back if
//! more calls at a time do not mean more answers per second: then calls wait elsewhere, at the provider or
//! before it, and what seems proven may not be.

use std::time::Duration;

use units::Tick;

/// The limit before anything is known.
const LIMIT_AT_FIRST: u32 = 5;

/// Failures of calls beyond what is proven that are no chance.
const SUSPECTS_MAX: u32 = 2;

/// Share of the limit that is left after a cut.
const CUT_NUMERATOR: u64 = 7;
const CUT_DENOMINATOR: u64 = 10;

/// Calls that go well with the limit used up before it grows by one: after it was first too high, and
/// most.
const PROBE_AFTER: u32 = 20;
const PROBE_AFTER_MAX: u32 = 640;

/// A limit is proven once so many times as many calls went well, and none failed: a provider that is
/// asked for one too many refuses it only if all come at once.
const PROOF_CALLS: u32 = 4;

/// Of calls within what is proven, so many are looked at together; if more of them fail than one in
/// [`NOISE_SHARE`], it is no noise.
const NOISE_CALLS: u32 = 10;
const NOISE_SHARE: u32 = 5;

/// When the limit has grown by a quarter, there must be so many hundredths of the answers per second that
/// there were.
const GROWN_NUMERATOR: u32 = 5;
const GROWN_DENOMINATOR: u32 = 4;
const MORE_PERCENT: u128 = 105;

/// An adaptive limit.
#[derive(Clone, Debug)]
pub(super) struct AdaptiveLimit {
    ceiling: u32,
    limit: u32,
    /// So many are known not to be too many.
    proven: u32,
    /// Whether it has not been too high yet.
    is_fast: bool,
    probe_after: u32,
    /// The number of the first call that began after the last change. How earlier ones end says nothing
    /// about the limit since.
    changed_at: u64,
    since: SinceChange,
    /// What a lower limit was good for. None if that is not known.
    measured: Option<MeasuredLimit>,
}

/// A limit, and how long an answer took while it was used up, over all calls at a time.
#[derive(Clone, Copy, Debug)]
struct MeasuredLimit {
    limit: u32,
    per_answer: Duration,
}

/// Counts of calls since the last change.
#[derive(Clone, Copy, Debug, Default)]
struct SinceChange {
    /// When it was.
    at: Tick,
    /// Went well while the limit was used up.
    good: u32,
    /// Failed while more than the proven number ran.
    suspects: u32,
    /// Within the proven number: all, and those that failed.
    within: u32,
    noise: u32,
}

/// How a call went, as far as the limit is concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallSample {
    /// Its number among the calls that began.
    pub number: u64,
    /// How many ran when it began, itself included.
    pub in_flight: u32,
    pub end: SampleEnd,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum SampleEnd {
    /// It went well.
    Answered,
    /// It failed, perhaps because of the load.
    Failed,
    /// The provider says that it was too much.
    Busy,
}

impl AdaptiveLimit {
    /// With a ceiling that is known not to be too high, or without one.
    pub fn new(ceiling: Option<u32>) -> Self {
        let limit = ceiling.unwrap_or(LIMIT_AT_FIRST).max(1);
        Self {
            ceiling: ceiling.unwrap_or(u32::MAX).max(1),
            limit,
            proven: ceiling.map_or(1, |_| limit),
            is_fast: true,
            probe_after: PROBE_AFTER,
            changed_at: 0,
            since: SinceChange::default(),
            measured: None,
        }
    }

    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// A call ended. `begun` calls have begun so far.
    pub fn ended(&mut self, sample: CallSample, begun: u64, now: Tick) {
        match sample.end {
            SampleEnd::Answered => {
                self.answered(sample, begun, now);
                self.grow(begun, now);
            }
            _ if sample.number < self.changed_at => {
                // It ran beside more than run now; but so few may be too many as well.
                let below = sample.in_flight.saturating_sub(1).max(self.proven);
                self.limit = self.limit.min(below);
            }
            SampleEnd::Busy => self.go_below(sample.in_flight, begun, now),
            SampleEnd::Failed if self.proven < sample.in_flight => {
                self.since.suspects += 1;
                if SUSPECTS_MAX <= self.since.suspects {
                    self.go_below(sample.in_flight, begun, now);
                }
            }
            SampleEnd::Failed => self.within(true, begun, now),
        }
    }

    /// So many at a time are too many.
    fn go_below(&mut self, in_flight: u32, begun: u64, now: Tick) {
        let below = in_flight.saturating_sub(1).max(1);
        let is_proven_wrong = below < self.proven;
        // One at a time fails for other reasons.
        if !self.is_fast && 1 < in_flight {
            self.probe_after = (self.probe_after * 2).min(PROBE_AFTER_MAX);
        }
        // Some may have begun early in a burst: how few ran then tells little.
        self.limit = match is_proven_wrong {
            true => self.cut(),
            false => self.limit.min(below),
        };
        self.proven = self.proven.min(self.limit);
        self.changed(begun, now);
    }

    fn answered(&mut self, sample: CallSample, begun: u64, now: Tick) {
        self.since.good += u32::from(self.limit <= sample.in_flight);
        if sample.in_flight <= self.proven {
            self.within(false, begun, now);
        }
        let good = self.since.good;
        if self.proven < self.limit
            && self.since.suspects == 0
            && (self.limit <= good / PROOF_CALLS || self.is_fast && self.limit <= good)
        {
            self.proven = self.limit;
            if !self.is_fast {
                self.probe_after = (self.probe_after / 2).max(PROBE_AFTER);
            }
        }
    }

    /// Raises the limit once enough has gone well.
    fn grow(&mut self, begun: u64, now: Tick) {
        let good = self.since.good;
        let wanted = if self.is_fast {
            self.limit
        } else {
            self.probe_after.max(self.limit.saturating_mul(PROOF_CALLS))
        };
        if good < wanted || self.ceiling <= self.limit {
            return;
        }
        let here =
            MeasuredLimit { limit: self.limit, per_answer: now.since(self.since.at) / good.max(1) };
        match self.measured {
            Some(lower) if here.is_grown_from(lower) => {
                if !here.is_faster_than(lower) {
                    self.limit = lower.limit;
                    self.proven = self.proven.min(self.limit);
                    self.probe_after = (self.probe_after * 2).min(PROBE_AFTER_MAX);
                    // It is measured anew before the limit grows again.
                    self.measured = None;
                    self.changed(begun, now);
                    return;
                }
                self.measured = Some(here);
            }
            Some(_) => (),
            None => self.measured = Some(here),
        }
        let step = if self.is_fast { (self.limit / 2).max(1) } else { 1 };
        self.limit = self.limit.saturating_add(step).min(self.ceiling);
        self.since = SinceChange { at: now, ..SinceChange::default() };
    }

    /// A call ended that began within what is proven.
    fn within(&mut self, is_failed: bool, begun: u64, now: Tick) {
        self.since.within += 1;
        self.since.noise += u32::from(is_failed);
        if NOISE_CALLS / NOISE_SHARE < self.since.noise {
            self.limit = self.cut();
            self.proven = self.limit;
            self.changed(begun, now);
        } else if NOISE_CALLS <= self.since.within {
            (self.since.within, self.since.noise) = (0, 0);
        }
    }

    fn cut(&self) -> u32 {
        let cut = u64::from(self.limit) * CUT_NUMERATOR / CUT_DENOMINATOR;
        u32::try_from(cut).unwrap_or(u32::MAX).max(1)
    }

    fn changed(&mut self, begun: u64, now: Tick) {
        self.since = SinceChange { at: now, ..SinceChange::default() };
        self.is_fast = false;
        self.changed_at = begun;
    }
}

impl MeasuredLimit {
    /// Whether it is so much more that it should be of use.
    fn is_grown_from(self, lower: Self) -> bool {
        let grown = lower.limit.saturating_mul(GROWN_NUMERATOR).div_ceil(GROWN_DENOMINATOR);
        lower.limit < self.limit && grown <= self.limit
    }

    /// Whether there are more answers per second.
    fn is_faster_than(self, lower: Self) -> bool {
        self.per_answer.as_nanos() * MORE_PERCENT <= lower.per_answer.as_nanos() * 100
    }
}
