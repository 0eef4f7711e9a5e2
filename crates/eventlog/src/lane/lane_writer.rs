//! Writes one lane: takes records from its rings, commits, acknowledges, retries, and removes old
//! segments.
//!
//! Owns when each of these is due. Knows no clock and no thread.

use std::sync::Arc;
use std::time::Duration;

use super::consumer::{AppendContext, RingConsumer};
use super::report::{LaneReport, LaneReporter};
use super::ring::LaneEvent;
use super::schedule::{LaneTime, NextStep};
use super::status::LaneShared;
use super::waker::WakeThreshold;
use super::watermark::{LaneWatermark, WatermarkSchedule};
use super::{BatchLimits, LaneFailure, LaneFormats, LaneKind, LaneOptions, LaneState};
use crate::disk::{Disk, SyncMeter};
use crate::writer::{CommitError, LogWriter};

/// Bytes in the file that are not durable.
#[derive(Clone, Copy)]
struct UnsyncedBytes {
    since: Duration,
    bytes: usize,
}

/// The state of retries after a failed commit.
#[derive(Clone, Copy)]
struct RetryState {
    since: Duration,
    retry_at: Duration,
    backoff: Duration,
}

/// The parts of a lane.
pub struct LaneSetup<D: Disk> {
    /// The opened log, recovered.
    pub writer: LogWriter<D>,
    /// Options of the lane.
    pub options: LaneOptions,
    /// Of its disk, for the counters.
    pub meter: Arc<SyncMeter>,
}

pub(super) struct LaneWriter<D: Disk> {
    kind: LaneKind,
    writer: LogWriter<D>,
    options: LaneOptions,
    shared: Arc<LaneShared>,
    rings: Vec<RingConsumer>,
    /// The ring to write first: they take turns.
    first: usize,
    /// Since when records may wait in the rings. None after a quiet period.
    gathering: Option<Duration>,
    /// The last batch had no room for everything.
    has_backlog: bool,
    unsynced: Option<UnsyncedBytes>,
    failing: Option<RetryState>,
    retain_at: Duration,
    /// A failure to remove old segments has been reported.
    cannot_remove: bool,
    /// Clock steps found so far; an increase is reported.
    clock_steps: usize,
    closing: bool,
    formats: LaneFormats,
    /// None if the lane keeps no watermark of the other.
    watermarks: Option<WatermarkSchedule>,
    scratch: Vec<u8>,
}

impl<D: Disk> LaneWriter<D> {
    pub fn new(kind: LaneKind, setup: LaneSetup<D>, formats: LaneFormats) -> Self {
        let LaneSetup { writer, options, meter } = setup;
        let shared = Arc::new(LaneShared::new(kind, writer.epoch(), writer.durable(), meter));
        shared.counts.segments.set(writer.segments() as u64);
        Self {
            kind,
            writer,
            options,
            shared,
            rings: Vec::new(),
            first: 0,
            gathering: None,
            has_backlog: false,
            unsynced: None,
            failing: None,
            retain_at: Duration::ZERO,
            cannot_remove: false,
            clock_steps: 0,
            closing: false,
            formats,
            watermarks: None,
            scratch: Vec::new(),
        }
    }

    pub fn shared(&self) -> &Arc<LaneShared> {
        &self.shared
    }

    pub fn add(&mut self, ring: RingConsumer) {
        self.rings.push(ring);
    }

    #[cfg(test)]
    pub fn rings(&self) -> usize {
        self.rings.len()
    }

    /// Accepts no more records, and makes everything due at once.
    pub fn close(&mut self) {
        self.closing = true;
        self.shared.set_state(LaneState::Closed);
        if let Some(failing) = &mut self.failing {
            failing.retry_at = Duration::ZERO;
        }
    }

    /// Accepted records that are not durable.
    pub fn pending_records(&self) -> u64 {
        self.rings.iter().map(RingConsumer::pending).sum()
    }

    pub fn is_drained(&self) -> bool {
        self.unfinished_work().is_none()
    }

    /// What is left to do, at the last poll.
    fn unfinished_work(&self) -> Option<&'static str> {
        if self.pending_records() > 0 {
            Some("records that were handed over are not durable")
        } else if self.unsynced.is_some() || self.has_work() {
            Some("records or gaps are not committed")
        } else if self.watermarks.as_ref().is_some_and(WatermarkSchedule::has_grown) {
            Some("its last watermark is not written")
        } else {
            None
        }
    }

    /// Seals the lane after its last record, if nothing is left to do.
    pub fn seal(&mut self, now: LaneTime, report: &mut LaneReporter) {
        if let Some(reason) = self.unfinished_work() {
            report(self.kind, LaneReport::Unsealed(reason));
        } else if let Err(error) = self.writer.seal_end(now.unix_ms) {
            report(self.kind, LaneReport::SealFailed(&error));
        }
    }

    /// How far the lane is durable.
    pub fn watermark(&self) -> LaneWatermark {
        let writer = &self.writer;
        LaneWatermark { epoch: writer.epoch(), sequence: writer.durable() }
    }

    /// Keeps watermarks of the other lane from now on, which is durable up to `reached`.
    pub fn keep_watermarks(&mut self, reached: LaneWatermark) {
        self.watermarks =
            self.formats.watermarks.map(|format| WatermarkSchedule::new(format, reached));
    }

    /// Notes how far the other lane is durable; returns when the next watermark is due.
    pub fn update_watermark(&mut self, reached: LaneWatermark) -> NextStep {
        let Some(watermarks) = &mut self.watermarks else { return NextStep::Woken };
        watermarks.update(reached);
        match self.failing {
            // It is retried with everything else.
            Some(failing) => NextStep::At(failing.retry_at),
            None if self.closing && watermarks.has_grown() => NextStep::Now,
            None => watermarks.due(),
        }
    }

    /// Does what is due; returns when the next step is.
    pub fn step(&mut self, now: LaneTime, report: &mut LaneReporter) -> NextStep {
        self.poll_rings(now);
        if self.is_due(now) {
            self.write(now, report);
        }
        self.retain(now, report);
        self.next_step(now)
    }

    fn poll_rings(&mut self, now: LaneTime) {
        let waiting: usize = self.rings.iter_mut().map(RingConsumer::poll).sum();
        if waiting > 0 || self.has_work() {
            self.gathering.get_or_insert(now.tick);
        }
    }

    /// How much may wait in the rings, given who reads along.
    fn gather(&self) -> BatchLimits {
        let usual = self.options.gather;
        BatchLimits { after: self.shared.watches.gather(usual.after), ..usual }
    }

    /// Whether there was anything to write at the last poll.
    fn has_work(&self) -> bool {
        self.rings.iter().any(RingConsumer::has_work)
    }

    fn is_due(&self, now: LaneTime) -> bool {
        if let Some(failing) = self.failing {
            return now.tick >= failing.retry_at;
        }
        self.is_write_due(now) || self.is_commit_due(now) || self.is_watermark_due(now)
    }

    fn is_watermark_due(&self, now: LaneTime) -> bool {
        let due = self.watermarks.as_ref().map(WatermarkSchedule::due);
        due.is_some_and(|due| {
            due != NextStep::Woken && (self.closing || due <= NextStep::At(now.tick))
        })
    }

    fn is_write_due(&self, now: LaneTime) -> bool {
        let gather = self.gather();
        let waiting: usize = self.rings.iter().map(RingConsumer::waiting).sum();
        self.has_work()
            && (self.closing
                || self.has_backlog
                || waiting >= gather.bytes
                || self.rings.iter().any(RingConsumer::is_half_full)
                || self.gathering.is_none_or(|since| now.tick >= since + gather.after))
    }

    fn is_commit_due(&self, now: LaneTime) -> bool {
        let commit = self.options.commit;
        self.unsynced.is_some_and(|unsynced| {
            self.closing
                || unsynced.bytes >= commit.bytes
                || now.tick >= unsynced.since + commit.after
                || self.is_retention_due(now)
        })
    }

    /// Writes what the rings held at the last poll, and commits if that is due.
    fn write(&mut self, now: LaneTime, report: &mut LaneReporter) {
        let bytes_max = match self.kind {
            LaneKind::Durable => usize::MAX,
            // So that the other lane does not wait for all of it.
            LaneKind::Firehose => self.options.gather.bytes.max(1),
        };
        let (mut fits, mut room) = (true, bytes_max);
        let (before_first, from_first) = self.rings.split_at_mut(self.first);
        for ring in from_first.iter_mut().chain(before_first) {
            let context = AppendContext {
                writer: &mut self.writer,
                gaps: self.formats.gaps,
                unix_ms: now.unix_ms,
                scratch: &mut self.scratch,
            };
            fits &= ring.take(context, room);
            room = room.saturating_sub(ring.taken());
        }
        self.first = (self.first + 1) % self.rings.len().max(1);
        self.write_watermark(now);
        let bytes = self.rings.iter().map(RingConsumer::taken).sum();
        let commits = match self.kind {
            LaneKind::Durable => true,
            // A successful commit shows that the disk works again.
            LaneKind::Firehose => {
                !fits
                    || self.closing
                    || self.failing.is_some()
                    || self.will_commit(now, bytes)
                    // Segments are removed between commits only.
                    || self.is_retention_due(now)
            }
        };
        let written = if commits {
            self.writer.commit().map(Some)
        } else {
            self.writer.flush().map(|()| None)
        };
        match written {
            Ok(durable) => self.written(now, bytes, durable, report),
            Err(error) => self.failed(now, &error, report),
        }
        self.shared.set_epoch(self.writer.epoch());
        self.shared.counts.segments.set(self.writer.segments() as u64);
    }

    /// Appends a watermark of the other lane, if one is due and there is room.
    fn write_watermark(&mut self, now: LaneTime) {
        let Some(watermarks) = &mut self.watermarks else { return };
        let Some(watermark) = watermarks.due_now(now.tick, self.closing) else { return };
        self.scratch.clear();
        (watermarks.format.encode)(&watermark, &mut self.scratch);
        let kind = watermarks.format.kind;
        // If there is no room, the next commit has it.
        if self.writer.append(kind, now.unix_ms, &self.scratch).is_ok() {
            watermarks.set_pending(watermark);
        }
    }

    /// Whether a commit is due when `bytes` more are written.
    fn will_commit(&self, now: LaneTime, bytes: usize) -> bool {
        let begun = self.unsynced.map_or(0, |unsynced| unsynced.bytes);
        begun + bytes >= self.options.commit.bytes || self.is_commit_due(now)
    }

    fn written(
        &mut self,
        now: LaneTime,
        bytes: usize,
        durable: Option<u64>,
        report: &mut LaneReporter,
    ) {
        self.rings.iter_mut().for_each(RingConsumer::release);
        self.has_backlog = self.has_work();
        // More may come soon: look again before asking shards to wake the thread.
        self.gathering = Some(now.tick);
        let Some(durable) = durable else {
            let since = now.tick;
            let unsynced = self.unsynced.get_or_insert(UnsyncedBytes { since, bytes: 0 });
            unsynced.bytes += bytes;
            self.shared.watches.wake();
            return;
        };
        self.unsynced = None;
        if let Some(watermarks) = &mut self.watermarks {
            watermarks.committed(now.tick);
        }
        let counts = &self.shared.counts;
        counts.commits.add(1);
        self.shared.set_sequence(durable);
        self.rings.iter_mut().for_each(|ring| ring.acknowledge(counts));
        self.shared.watches.wake();
        self.remove_abandoned();
        if let Some(failing) = self.failing.take() {
            self.set_state(LaneState::Writing);
            self.rings.iter_mut().for_each(|ring| ring.notify(LaneEvent::Writing));
            report(self.kind, LaneReport::Healed(now.tick.saturating_sub(failing.since)));
        }
    }

    /// Frees rings whose producers have left, after their last record.
    fn remove_abandoned(&mut self) {
        let shared = &self.shared;
        let is_open = |ring: &mut RingConsumer| {
            let is_over = ring.is_over();
            if is_over {
                shared.remove(ring.shared());
            }
            !is_over
        };
        self.rings.retain_mut(is_open);
        self.first %= self.rings.len().max(1);
    }

    fn failed(&mut self, now: LaneTime, error: &CommitError, report: &mut LaneReporter) {
        self.shared.counts.commit_failures.add(1);
        self.unsynced = None;
        if let Some(watermarks) = &mut self.watermarks {
            watermarks.lost();
        }
        let counts = &self.shared.counts;
        self.rings.iter_mut().for_each(|ring| ring.mark_lost(counts));
        let (since, backoff) = match self.failing {
            Some(failing) => (failing.since, (failing.backoff * 2).min(self.options.retry_max)),
            None => (now.tick, self.options.retry_min),
        };
        let retry_at = now.tick + backoff;
        if self.failing.replace(RetryState { since, retry_at, backoff }).is_some() {
            return;
        }
        let (cause, since_ms) = (LaneFailure::of(&error.source), now.unix_ms);
        self.set_state(LaneState::Failing { cause, since_ms });
        self.rings.iter_mut().for_each(|ring| ring.notify(LaneEvent::Failing { cause, since_ms }));
        report(self.kind, LaneReport::Failing(error));
    }

    fn set_state(&self, state: LaneState) {
        if !self.closing {
            self.shared.set_state(state);
        }
    }

    fn is_retention_due(&self, now: LaneTime) -> bool {
        self.options.retention.is_bounded() && now.tick >= self.retain_at && !self.closing
    }

    /// Removes old segments, between commits. On a full disk this may cure the failure.
    fn retain(&mut self, now: LaneTime, report: &mut LaneReporter) {
        if !self.is_retention_due(now) {
            return;
        }
        let retention = self.options.retention;
        self.retain_at = now.tick + retention.every;
        let age_ms = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let age_max_ms = retention.age_max.map(age_ms);
        let keep_from = self.shared.keep_from();
        let counts = &self.shared.counts;
        let retained = self.writer.retain(retention.bytes_max, age_max_ms, keep_from);
        if let Some(clock_steps) = retained.as_ref().ok().and_then(|of| of.clock_steps)
            && std::mem::replace(&mut self.clock_steps, clock_steps) < clock_steps
        {
            report(self.kind, LaneReport::ClockStep);
        }
        let was_reported = std::mem::replace(&mut self.cannot_remove, retained.is_err());
        match retained {
            Ok(removed) if removed.segments.is_empty() => (),
            Ok(removed) => {
                counts.removed_bytes.add(removed.bytes);
                report(self.kind, LaneReport::Removed(&removed));
            }
            Err(error) => {
                counts.retention_failures.add(1);
                if !was_reported {
                    report(self.kind, LaneReport::RetainFailed(&error));
                }
            }
        }
        counts.segments.set(self.writer.segments() as u64);
    }

    /// Sets the rings' wake thresholds; returns when the next step is due.
    fn next_step(&mut self, now: LaneTime) -> NextStep {
        let retention = self.options.retention.is_bounded() && !self.closing;
        let retain_at = if retention { NextStep::At(self.retain_at) } else { NextStep::Woken };
        if let Some(failing) = self.failing {
            self.rings.iter().for_each(RingConsumer::let_sleep);
            return retain_at.min(NextStep::At(failing.retry_at));
        }
        let gather = self.gather();
        if !self.has_work() && self.gathering.is_some_and(|since| now.tick >= since + gather.after)
        {
            self.gathering = None;
        }
        let bytes = if self.gathering.is_none() { 1 } else { gather.bytes };
        self.rings.iter().for_each(|ring| ring.wake_at(bytes));
        <WakeThreshold>::fence();
        self.poll_rings(now);
        if self.is_due(now) {
            return NextStep::Now;
        }
        let gathered =
            self.gathering.map_or(NextStep::Woken, |since| NextStep::At(since + gather.after));
        let committed = self.unsynced.map_or(NextStep::Woken, |unsynced| {
            NextStep::At(unsynced.since + self.options.commit.after)
        });
        gathered.min(committed).min(retain_at)
    }
}

impl<D: Disk> Drop for LaneWriter<D> {
    /// However the writer ends, shards stop handing over records.
    fn drop(&mut self) {
        self.shared.set_state(LaneState::Closed);
    }
}
