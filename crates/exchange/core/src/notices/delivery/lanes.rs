//! One lane per DSP, served in turn; failing DSPs are only probed. Knows notices only by number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use units::Tick;

use super::policy::DeliveryPolicy;
use openrtb::NoticeKind;

type WaitingNotices = BTreeSet<(Tick, u64)>;

#[derive(Debug)]
struct DspLane {
    dsp: Arc<str>,
    billing: WaitingNotices,
    best_effort: WaitingNotices,
    /// Its notices: waiting, in flight, or with a pending record.
    billing_held: usize,
    best_effort_held: usize,
    in_flight: usize,
    failures: u32,
    probes: u32,
    probe_at: Tick,
}

impl DspLane {
    fn new(dsp: Arc<str>) -> Self {
        Self {
            dsp,
            billing: WaitingNotices::new(),
            best_effort: WaitingNotices::new(),
            billing_held: 0,
            best_effort_held: 0,
            in_flight: 0,
            failures: 0,
            probes: 0,
            probe_at: Tick::ZERO,
        }
    }

    fn waiting(&mut self, kind: NoticeKind) -> &mut WaitingNotices {
        if kind == NoticeKind::Billing { &mut self.billing } else { &mut self.best_effort }
    }

    fn held(&mut self, kind: NoticeKind) -> &mut usize {
        if kind == NoticeKind::Billing {
            &mut self.billing_held
        } else {
            &mut self.best_effort_held
        }
    }

    fn is_idle(&self) -> bool {
        self.billing_held + self.best_effort_held == 0
    }

    fn first_due(&self) -> Option<Tick> {
        let first = |waiting: &WaitingNotices| waiting.first().map(|(at, _)| *at);
        first(&self.billing).into_iter().chain(first(&self.best_effort)).min()
    }
}

/// The state of one DSP's lane, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneView {
    /// The DSP.
    pub dsp: Arc<str>,
    /// Billing notices owed to it.
    pub billing_owed: usize,
    /// Win and loss notices that wait for it.
    pub best_effort_waiting: usize,
    /// Calls under way.
    pub in_flight: usize,
    /// Failures since the last success.
    pub failures: u32,
    /// Whether it is only probed.
    pub probed: bool,
}

#[derive(Debug)]
pub(crate) struct DspLanes {
    policy: DeliveryPolicy,
    lanes: Vec<DspLane>,
    names: BTreeMap<Arc<str>, usize>,
    cursor: usize,
    in_flight: usize,
    /// Calls in flight to DSPs that have failed since their last success.
    in_flight_failing: usize,
}

impl DspLanes {
    pub fn new(policy: DeliveryPolicy) -> Self {
        Self {
            policy,
            lanes: Vec::new(),
            names: BTreeMap::new(),
            cursor: 0,
            in_flight: 0,
            in_flight_failing: 0,
        }
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub fn views(&self) -> impl Iterator<Item = LaneView> {
        self.lanes.iter().map(|lane| LaneView {
            dsp: lane.dsp.clone(),
            billing_owed: lane.billing_held,
            best_effort_waiting: lane.best_effort_held,
            in_flight: lane.in_flight,
            failures: lane.failures,
            probed: lane.failures >= self.policy.failures_to_probe,
        })
    }

    /// The lane of `dsp`, unless at a limit. At `dsps_max` lanes, a new DSP replaces an empty one.
    pub fn room(&mut self, dsp: &Arc<str>, kind: NoticeKind) -> Option<usize> {
        let per_dsp = match kind {
            NoticeKind::Billing => self.policy.billing_max_per_dsp,
            NoticeKind::Win | NoticeKind::Loss => self.policy.best_effort_max_per_dsp,
        };
        let lane = match self.names.get(dsp) {
            Some(lane) => *lane,
            None if self.lanes.len() < self.policy.dsps_max => self.lane(dsp),
            None => {
                let idle = self.lanes.iter().position(DspLane::is_idle)?;
                self.names.remove(&self.lanes[idle].dsp);
                self.names.insert(dsp.clone(), idle);
                self.lanes[idle] = DspLane::new(dsp.clone());
                idle
            }
        };
        (*self.lanes[lane].held(kind) < per_dsp).then_some(lane)
    }

    /// The lane of `dsp`, regardless of limits: for notices owed before a restart.
    pub fn lane(&mut self, dsp: &Arc<str>) -> usize {
        let next = self.lanes.len();
        let lane = *self.names.entry(dsp.clone()).or_insert(next);
        if lane == next {
            self.lanes.push(DspLane::new(dsp.clone()));
        }
        lane
    }

    /// Adds a notice to the lane.
    pub fn hold(&mut self, lane: usize, kind: NoticeKind) {
        *self.lanes[lane].held(kind) += 1;
    }

    /// Removes a notice that neither waits nor is in flight.
    pub fn release(&mut self, lane: usize, kind: NoticeKind) {
        let held = self.lanes[lane].held(kind);
        *held = held.checked_sub(1).expect("what is released was held");
    }

    /// Schedules a notice from `at` on.
    pub fn wait(&mut self, lane: usize, kind: NoticeKind, at: Tick, job: u64) {
        self.lanes[lane].waiting(kind).insert((at, job));
    }

    pub fn unwait(&mut self, lane: usize, kind: NoticeKind, at: Tick, job: u64) {
        self.lanes[lane].waiting(kind).remove(&(at, job));
    }

    /// Starts the next notice: lanes in turn, billing first within a lane.
    pub fn take_off(&mut self, now: Tick) -> Option<u64> {
        if self.in_flight >= self.policy.in_flight_max {
            return None;
        }
        for _ in 0..self.lanes.len() {
            let at = self.cursor;
            self.cursor = (at + 1) % self.lanes.len();
            if !self.may_send(at, now) {
                continue;
            }
            let lane = &mut self.lanes[at];
            let due =
                |waiting: &WaitingNotices| waiting.first().copied().filter(|(at, _)| *at <= now);
            let (from, (due, job)) = match (due(&lane.billing), due(&lane.best_effort)) {
                (Some(first), _) => (&mut lane.billing, first),
                (None, Some(first)) => (&mut lane.best_effort, first),
                (None, None) => continue,
            };
            from.remove(&(due, job));
            lane.in_flight += 1;
            self.in_flight += 1;
            self.in_flight_failing += usize::from(lane.failures > 0);
            return Some(job);
        }
        None
    }

    fn may_send(&self, lane: usize, now: Tick) -> bool {
        let lane = &self.lanes[lane];
        let policy = &self.policy;
        let failing = lane.failures > 0;
        // Half of the calls are reserved for healthy DSPs.
        let shared = !failing || self.in_flight_failing < policy.in_flight_max.div_ceil(2);
        let alone = if lane.failures >= policy.failures_to_probe {
            lane.in_flight == 0 && lane.probe_at <= now
        } else {
            lane.in_flight < policy.in_flight_per_dsp
        };
        shared && alone
    }

    /// Ends a call: success, failure, or None if it says nothing about the DSP.
    pub fn land(&mut self, lane: usize, well: Option<bool>, now: Tick) {
        let Self { policy, lanes, in_flight, in_flight_failing, .. } = self;
        let lane = &mut lanes[lane];
        let was_failing = lane.failures > 0;
        lane.in_flight = lane.in_flight.checked_sub(1).expect("what lands took off");
        *in_flight = in_flight.checked_sub(1).expect("what lands took off");
        *in_flight_failing -= usize::from(was_failing);
        match well {
            None => (),
            Some(true) => {
                (lane.failures, lane.probes) = (0, 0);
                *in_flight_failing -= if was_failing { lane.in_flight } else { 0 };
            }
            Some(false) => {
                *in_flight_failing += if was_failing { 0 } else { lane.in_flight };
                lane.failures = lane.failures.saturating_add(1);
                if lane.failures >= policy.failures_to_probe && lane.in_flight == 0 {
                    // Calls in flight at the first failure count as one probe.
                    lane.probes = lane.probes.saturating_add(1);
                    lane.probe_at = now.after(policy.pause(lane.probes));
                }
            }
        }
    }

    /// When the next notice can be sent. None if a call must end first, or nothing waits.
    pub fn wake_at(&self, now: Tick) -> Option<Tick> {
        if self.in_flight >= self.policy.in_flight_max {
            return None;
        }
        let lanes = self.lanes.iter().enumerate().filter_map(|(at, lane)| {
            let due = lane.first_due()?;
            let probed = lane.failures >= self.policy.failures_to_probe;
            let at_best = if probed { due.max(lane.probe_at) } else { due };
            self.may_send(at, at_best.max(now)).then_some(at_best)
        });
        lanes.min()
    }
}
