//! Writes one lane: takes from its rings, commits, tells, tries again, and lets old segments go.
//!
//! Owns when each of these is due. Knows no clock and no thread; what a ring's records become is
//! `outlet`'s, what stands in the files is the writer's.

use std::sync::Arc;
use std::time::Duration;

use super::bell::WakeAt;
use super::outlet::{Desk, Outlet};
use super::report::{Report, Reporter};
use super::ring::Told;
use super::schedule::{Next, Now};
use super::status::LaneShared;
use super::watermark::{Watermark, Watermarks};
use super::{Cause, LaneFormats, LaneKind, LaneOptions, State};
use crate::bug::{Bug, planted};
use crate::disk::{Disk, SyncMeter};
use crate::writer::{CommitError, Writer};

/// What stands in the file and is not durable.
#[derive(Clone, Copy)]
struct Unsynced {
    since: Duration,
    bytes: usize,
}

/// The last commit failed.
#[derive(Clone, Copy)]
struct Failing {
    since: Duration,
    retry_at: Duration,
    backoff: Duration,
}

/// What a lane is made of.
pub struct Setup<D: Disk> {
    /// Opened; all that it found is behind it.
    pub writer: Writer<D>,
    /// How it is kept.
    pub options: LaneOptions,
    /// Of its disk, for the counters.
    pub meter: Arc<SyncMeter>,
}

/// Writes one lane.
pub(super) struct Scribe<D: Disk> {
    kind: LaneKind,
    writer: Writer<D>,
    options: LaneOptions,
    shared: Arc<LaneShared>,
    rings: Vec<Outlet>,
    /// The ring that is written first: each in its turn.
    first: usize,
    /// Since when something may wait in the rings; `None` when nothing came for a while.
    gathering: Option<Duration>,
    /// The last write had no room for all that waited.
    behind: bool,
    unsynced: Option<Unsynced>,
    failing: Option<Failing>,
    retain_at: Duration,
    /// Old segments could not be removed, and that was told.
    cannot_remove: bool,
    /// Clock steps found at the last look; more of them are reported.
    clock_steps: usize,
    closing: bool,
    formats: LaneFormats,
    /// None if the lane says nothing of another.
    watermarks: Option<Watermarks>,
    scratch: Vec<u8>,
}

impl<D: Disk> Scribe<D> {
    pub fn new(kind: LaneKind, setup: Setup<D>, formats: LaneFormats) -> Self {
        let Setup { writer, options, meter } = setup;
        let shared = Arc::new(LaneShared::new(kind, writer.durable(), meter));
        shared.counts.segments.set(writer.segments() as u64);
        Self {
            kind,
            writer,
            options,
            shared,
            rings: Vec::new(),
            first: 0,
            gathering: None,
            behind: false,
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

    pub fn add(&mut self, ring: Outlet) {
        self.rings.push(ring);
    }

    /// Nothing is taken any more, and nothing waits for more of its like.
    pub fn close(&mut self) {
        self.closing = true;
        self.shared.set_state(State::Closed);
        if let Some(failing) = &mut self.failing {
            failing.retry_at = Duration::ZERO;
        }
    }

    /// Records that were handed over and are not durable.
    pub fn left(&self) -> u64 {
        self.rings.iter().map(Outlet::left).sum()
    }

    /// Whether nothing was left to do, as last seen.
    pub fn is_settled(&self) -> bool {
        self.unsettled().is_none()
    }

    /// What is left to do, as last seen.
    fn unsettled(&self) -> Option<&'static str> {
        if self.left() > 0 {
            Some("records that were handed over are not durable")
        } else if self.unsynced.is_some() || self.waits() {
            Some("records or gaps are not committed")
        } else if self.watermarks.as_ref().is_some_and(Watermarks::has_news) {
            Some("its last watermark is not written")
        } else {
            None
        }
    }

    /// Seals the lane behind its last record, where nothing is left to do.
    pub fn seal(&mut self, now: Now, report: &mut Reporter) {
        if let Some(reason) = self.unsettled() {
            report(Report::Unsealed { lane: self.kind, reason });
        } else if let Err(error) = self.writer.seal_end(now.unix_ms) {
            report(Report::SealFailed { lane: self.kind, error: &error });
        }
    }

    /// How far it is durable.
    pub fn reached(&self) -> Watermark {
        let writer = &self.writer;
        let sequence = match planted(Bug::WatermarkAhead) {
            true => writer.appended(),
            false => writer.durable(),
        };
        Watermark { epoch: writer.epoch(), sequence }
    }

    /// From now on says how far the other lane is, which is so far now.
    pub fn watermark(&mut self, reached: Watermark) {
        self.watermarks = self.formats.watermarks.map(|format| Watermarks::new(format, reached));
    }

    /// How far the other lane is durable; tells when that is due to be written here.
    pub fn reach(&mut self, reached: Watermark) -> Next {
        let Some(watermarks) = &mut self.watermarks else { return Next::Woken };
        watermarks.reach(reached);
        match self.failing {
            // It is tried again with all else.
            Some(failing) => Next::At(failing.retry_at),
            None if self.closing && watermarks.has_news() => Next::Now,
            None => watermarks.due(),
        }
    }

    /// Does what is due, and tells when something will be.
    pub fn step(&mut self, now: Now, report: &mut Reporter) -> Next {
        self.look(now);
        if self.is_due(now) {
            self.write(now, report);
        }
        self.retain(now, report);
        self.rest(now)
    }

    fn look(&mut self, now: Now) {
        let waiting: usize = self.rings.iter_mut().map(Outlet::look).sum();
        if waiting > 0 || self.waits() {
            self.gathering.get_or_insert(now.tick);
        }
    }

    /// Whether there is something to write, as last seen.
    fn waits(&self) -> bool {
        self.rings.iter().any(Outlet::waits)
    }

    fn is_due(&self, now: Now) -> bool {
        if let Some(failing) = self.failing {
            return now.tick >= failing.retry_at;
        }
        self.is_write_due(now) || self.is_commit_due(now) || self.is_watermark_due(now)
    }

    fn is_watermark_due(&self, now: Now) -> bool {
        let due = self.watermarks.as_ref().map(Watermarks::due);
        due.is_some_and(|due| due != Next::Woken && (self.closing || due <= Next::At(now.tick)))
    }

    fn is_write_due(&self, now: Now) -> bool {
        let gather = self.options.gather;
        let waiting: usize = self.rings.iter().map(Outlet::waiting).sum();
        self.waits()
            && (self.closing
                || self.behind
                || waiting >= gather.bytes
                || self.rings.iter().any(Outlet::is_half_full)
                || self.gathering.is_none_or(|since| now.tick >= since + gather.after))
    }

    fn is_commit_due(&self, now: Now) -> bool {
        let commit = self.options.commit;
        self.unsynced.is_some_and(|unsynced| {
            self.closing
                || unsynced.bytes >= commit.bytes
                || now.tick >= unsynced.since + commit.after
                || self.is_retention_due(now)
        })
    }

    /// Writes what was seen in the rings, and commits where that is due.
    fn write(&mut self, now: Now, report: &mut Reporter) {
        let bytes_max = match self.kind {
            LaneKind::Durable => usize::MAX,
            // The other lane shall not wait for all of it.
            LaneKind::Firehose => self.options.gather.bytes.max(1),
        };
        let (mut fits, mut left) = (true, bytes_max);
        let (before, behind) = self.rings.split_at_mut(self.first);
        for ring in behind.iter_mut().chain(before) {
            let desk = Desk {
                writer: &mut self.writer,
                gaps: self.formats.gaps,
                unix_ms: now.unix_ms,
                scratch: &mut self.scratch,
            };
            fits &= ring.take(desk, left);
            left = left.saturating_sub(ring.taken());
            if planted(Bug::AcknowledgeBeforeCommit) {
                ring.acknowledge_taken();
            }
        }
        self.first = (self.first + 1) % self.rings.len().max(1);
        self.write_watermark(now);
        let bytes = self.rings.iter().map(Outlet::taken).sum();
        let commits = match self.kind {
            LaneKind::Durable => true,
            // A disk that failed is trusted again once it keeps something.
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
        self.shared.counts.segments.set(self.writer.segments() as u64);
    }

    /// Puts into the batch how far the other lane is, where that is due and there is room.
    fn write_watermark(&mut self, now: Now) {
        let Some(watermarks) = &mut self.watermarks else { return };
        let Some(watermark) = watermarks.due_now(now.tick, self.closing) else { return };
        self.scratch.clear();
        (watermarks.format.encode)(&watermark, &mut self.scratch);
        let kind = watermarks.format.kind;
        // Where there is no room the next commit has it.
        if self.writer.append(kind, now.unix_ms, &self.scratch).is_ok() {
            watermarks.set_pending(watermark);
        }
    }

    /// Whether a commit is due when `bytes` more are written.
    fn will_commit(&self, now: Now, bytes: usize) -> bool {
        let begun = self.unsynced.map_or(0, |unsynced| unsynced.bytes);
        begun + bytes >= self.options.commit.bytes || self.is_commit_due(now)
    }

    fn written(&mut self, now: Now, bytes: usize, durable: Option<u64>, report: &mut Reporter) {
        self.rings.iter_mut().for_each(Outlet::release);
        self.behind = self.waits();
        // More may come soon: look again before shards are asked to wake the thread.
        self.gathering = Some(now.tick);
        let Some(durable) = durable else {
            let since = now.tick;
            let unsynced = self.unsynced.get_or_insert(Unsynced { since, bytes: 0 });
            unsynced.bytes += bytes;
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
        if let Some(failing) = self.failing.take() {
            self.set_state(State::Writing);
            let after = now.tick.saturating_sub(failing.since);
            self.rings.iter_mut().for_each(|ring| ring.tell(Told::Writing));
            report(Report::Healed { lane: self.kind, after });
        }
    }

    fn failed(&mut self, now: Now, error: &CommitError, report: &mut Reporter) {
        self.shared.counts.commit_failures.add(1);
        self.unsynced = None;
        if let Some(watermarks) = &mut self.watermarks {
            watermarks.lost();
        }
        let counts = &self.shared.counts;
        self.rings.iter_mut().for_each(|ring| ring.lose(counts));
        let (since, backoff) = match self.failing {
            Some(failing) => (failing.since, (failing.backoff * 2).min(self.options.retry_max)),
            None => (now.tick, self.options.retry_min),
        };
        let retry_at = now.tick + backoff;
        if self.failing.replace(Failing { since, retry_at, backoff }).is_some() {
            return;
        }
        let (cause, since_ms) = (Cause::of(&error.source), now.unix_ms);
        self.set_state(State::Failing { cause, since_ms });
        self.rings.iter_mut().for_each(|ring| ring.tell(Told::Failing { cause, since_ms }));
        report(Report::Failing { lane: self.kind, error });
    }

    fn set_state(&self, state: State) {
        if !self.closing {
            self.shared.set_state(state);
        }
    }

    fn is_retention_due(&self, now: Now) -> bool {
        self.options.retention.is_bounded() && now.tick >= self.retain_at && !self.closing
    }

    /// Lets old segments go, between commits. While the disk is full this may be what helps.
    fn retain(&mut self, now: Now, report: &mut Reporter) {
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
            report(Report::ClockStep { lane: self.kind });
        }
        let was_told = std::mem::replace(&mut self.cannot_remove, retained.is_err());
        match retained {
            Ok(removed) if removed.segments.is_empty() => (),
            Ok(removed) => {
                counts.removed_bytes.add(removed.bytes);
                report(Report::Removed { lane: self.kind, removed: &removed });
            }
            Err(error) => {
                counts.retention_failures.add(1);
                if !was_told {
                    report(Report::RetainFailed { lane: self.kind, error: &error });
                }
            }
        }
        counts.segments.set(self.writer.segments() as u64);
    }

    /// When to be called again, and from which bytes on shards wake the thread before.
    fn rest(&mut self, now: Now) -> Next {
        let retention = self.options.retention.is_bounded() && !self.closing;
        let retain_at = if retention { Next::At(self.retain_at) } else { Next::Woken };
        if let Some(failing) = self.failing {
            self.rings.iter().for_each(Outlet::let_sleep);
            return retain_at.min(Next::At(failing.retry_at));
        }
        let gather = self.options.gather;
        if !self.waits() && self.gathering.is_some_and(|since| now.tick >= since + gather.after) {
            self.gathering = None;
        }
        let bytes = if self.gathering.is_none() { 1 } else { gather.bytes };
        self.rings.iter().for_each(|ring| ring.wake_at(bytes));
        <WakeAt>::asked();
        self.look(now);
        if self.is_due(now) {
            return Next::Now;
        }
        let gathered = self.gathering.map_or(Next::Woken, |since| Next::At(since + gather.after));
        let committed = self
            .unsynced
            .map_or(Next::Woken, |unsynced| Next::At(unsynced.since + self.options.commit.after));
        gathered.min(committed).min(retain_at)
    }
}

impl<D: Disk> Drop for Scribe<D> {
    /// However it ends, nobody shall hand over what nobody writes.
    fn drop(&mut self) {
        self.shared.set_state(State::Closed);
    }
}
