//! The last hour and the last day of all campaigns, out of what shards hand over.
//!
//! What is counted now is kept by ten minutes; what is older than the last hour, by hours; what is older
//! than a day is forgotten. Of a campaign to which nothing happened nothing is kept, but 4 bytes that say
//! since when it is open. **Memory:** 130 bytes for a campaign with something in these ten minutes, and
//! about 20 for each part of its past, of which there are 29 at most; all pasts together take
//! [`PAST_BYTES_MAX`]. A test counts it.

use std::collections::{HashMap, VecDeque};

use units::Cpm;

use super::packed::{PastPart, pack, unpack};
use super::{FunnelBatch, FunnelCounts, FunnelStep, Shortfall};
use crate::messages::Slot;

/// Bytes that the pasts of all campaigns take at most. Beyond them hours are not kept: of a campaign only
/// its last hour.
pub const PAST_BYTES_MAX: usize = 48 << 20;

const MINUTE_MS: u64 = 60_000;
/// Ten minutes.
const PART_MINUTES: u32 = 10;
const HOUR_PARTS: u32 = 6;
const DAY_HOURS: u32 = 24;
/// Minutes of which it is known how much was offered: a day, whole hours.
const MINUTES_MAX: usize = 25 * 60;
/// Floors of a campaign that are kept: the latest.
const FLOORS_MAX: usize = 9;

/// How far back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunnelSpan {
    /// The ten minutes that it is in, and the five before them.
    Hour,
    /// The hour that it is in, by UTC, and the 23 before it.
    Day,
}

/// A campaign's funnel over a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunnelWindow {
    /// From when it is counted, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// Whether the process is younger than the span: it is counted since the start.
    pub is_since_start: bool,
    /// Impressions that were offered while the campaign was defined, not paused and in flight.
    pub offered: u64,
    /// The steps; of these [`FunnelStep::Offered`] is in `offered`.
    pub counts: FunnelCounts,
    /// The highest of the latest bids below the floor, and the median of their floors, if there were any
    /// in the last hour.
    pub shortfall: Option<Shortfall>,
}

/// Bids of a campaign below the floor, the latest few.
#[derive(Clone, Copy, Debug)]
struct Shortfalls {
    part: u32,
    bid: Cpm,
    floors: [Cpm; FLOORS_MAX],
    count: u32,
}

/// All funnels.
#[derive(Debug)]
pub struct FunnelBook {
    /// Minutes since 1970, as all times here.
    started: u32,
    now: u32,
    /// By minute, the last one first.
    offered: VecDeque<u64>,
    /// By slot: since which minute it is open, 0 if it is not.
    opened: Vec<u32>,
    /// Of these ten minutes.
    current: HashMap<u32, FunnelCounts>,
    past: HashMap<u32, Box<[u8]>>,
    past_bytes: usize,
    past_bytes_max: usize,
    shortfalls: HashMap<u32, Shortfalls>,
    dropped: u64,
}

impl FunnelBook {
    /// Begins at this time, in milliseconds since 1970.
    pub fn new(now_unix_ms: u64) -> Self {
        let now = minute(now_unix_ms);
        Self {
            started: now,
            now,
            offered: VecDeque::from([0]),
            opened: Vec::new(),
            current: HashMap::new(),
            past: HashMap::new(),
            past_bytes: 0,
            past_bytes_max: PAST_BYTES_MAX,
            shortfalls: HashMap::new(),
            dropped: 0,
        }
    }

    /// Time passes; a clock that was put back stands still.
    pub fn advance(&mut self, now_unix_ms: u64) {
        let (before, now) = (self.now, minute(now_unix_ms).max(self.now));
        for _ in 0..(now - before).min(u32::try_from(MINUTES_MAX).expect("few")) {
            self.offered.push_front(0);
        }
        self.offered.truncate(MINUTES_MAX);
        self.now = now;
        if before / PART_MINUTES != now / PART_MINUTES {
            self.fold(before / PART_MINUTES);
        }
    }

    /// Takes what a shard hands over, and empties it.
    pub fn take(&mut self, batch: &mut FunnelBatch) {
        self.offered[0] += batch.offered;
        self.dropped += batch.dropped;
        let part = self.now / PART_MINUTES;
        for row in &batch.rows {
            self.current.entry(row.slot.0).or_default().add(&row.counts);
            if let Some(shortfall) = row.shortfall {
                let noted = self.shortfalls.entry(row.slot.0).or_insert(Shortfalls {
                    part,
                    bid: Cpm::ZERO,
                    floors: [Cpm::ZERO; FLOORS_MAX],
                    count: 0,
                });
                noted.note(part, shortfall);
            }
        }
        batch.clear();
    }

    /// Counts that found no row at their shard: they are in no funnel.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The campaigns that may bid from now on. What was offered to one that no longer does stays counted.
    pub fn follow(&mut self, open: impl Iterator<Item = Slot>) {
        let mut opened = Vec::new();
        for Slot(slot) in open {
            let at = slot as usize;
            if opened.len() <= at {
                opened.resize(at + 1, 0);
            }
            let known = self.opened.get(at).copied().filter(|since| *since > 0);
            opened[at] = known.unwrap_or(self.now);
        }
        let before = std::mem::replace(&mut self.opened, opened);
        for (slot, since) in (0..).zip(before) {
            let is_open = self.opened.get(slot as usize).is_some_and(|since| *since > 0);
            if since > 0 && !is_open {
                self.close(slot, since);
            }
        }
    }

    /// Adds what was offered since `since` to the campaign's own counts.
    fn close(&mut self, slot: u32, since: u32) {
        let part = self.now / PART_MINUTES;
        let begin = (since / PART_MINUTES).max((part + 1).saturating_sub(HOUR_PARTS * DAY_HOURS));
        let mut past = self.past.get(&slot).map_or_else(Vec::new, |bytes| unpack(bytes));
        for of in begin..part {
            let (from, until) = (since.max(of * PART_MINUTES), (of + 1) * PART_MINUTES);
            let offered = u32::try_from(self.offered_in(from, until)).unwrap_or(u32::MAX);
            if offered == 0 {
                continue;
            }
            let mut counts = FunnelCounts::default();
            counts.count(FunnelStep::Offered, offered);
            past.push(PastPart { part: of, is_hour: false, counts });
        }
        self.put(slot, past);
        let now = self.offered_in(since.max(part * PART_MINUTES), self.now + 1);
        let offered = u32::try_from(now).unwrap_or(u32::MAX);
        self.current.entry(slot).or_default().count(FunnelStep::Offered, offered);
    }

    /// What was offered from the minute `from` until `until`.
    fn offered_in(&self, from: u32, until: u32) -> u64 {
        let minutes = (from..until.min(self.now + 1)).map(|minute| self.now - minute);
        minutes.filter_map(|back| self.offered.get(back as usize)).sum()
    }

    /// Moves the counts of ten minutes that are over to the past, and forgets what is too old.
    fn fold(&mut self, part: u32) {
        let mut current = std::mem::take(&mut self.current);
        for (slot, counts) in current.drain() {
            let mut past = self.past.get(&slot).map_or_else(Vec::new, |bytes| unpack(bytes));
            past.push(PastPart { part, is_hour: false, counts });
            self.put(slot, past);
        }
        current.shrink_to(1024);
        self.current = current;
        let others: Vec<u32> = self.past.keys().copied().collect();
        for slot in others {
            let past = unpack(&self.past[&slot]);
            self.put(slot, past);
        }
        let now = self.now / PART_MINUTES;
        self.shortfalls.retain(|_, noted| noted.part + HOUR_PARTS > now);
    }

    /// Keeps what is not too old of a campaign's past, hours as one.
    fn put(&mut self, slot: u32, past: Vec<PastPart>) {
        let now = self.now / PART_MINUTES;
        let mut kept: Vec<PastPart> = Vec::with_capacity(past.len());
        for entry in past {
            let is_recent = entry.part + HOUR_PARTS > now;
            let hour = entry.part / HOUR_PARTS;
            if hour + DAY_HOURS <= now / HOUR_PARTS {
                continue;
            }
            let (part, is_hour) =
                if is_recent { (entry.part, false) } else { (hour * HOUR_PARTS, true) };
            match kept.iter_mut().find(|it| (it.part, it.is_hour) == (part, is_hour)) {
                Some(known) => known.counts.add(&entry.counts),
                None => kept.push(PastPart { part, is_hour, counts: entry.counts }),
            }
        }
        kept.sort_unstable_by_key(|entry| entry.part);
        let before = self.past.remove(&slot).map_or(0, |bytes| bytes.len());
        self.past_bytes -= before;
        let mut bytes = pack(&kept);
        if self.past_bytes + bytes.len() > self.past_bytes_max {
            kept.retain(|entry| !entry.is_hour);
            bytes = pack(&kept);
        }
        if !bytes.is_empty() {
            self.past_bytes += bytes.len();
            self.past.insert(slot, bytes);
        }
    }

    /// The funnel of a campaign, which is in flight from and until these times, in milliseconds since 1970.
    pub fn window(&self, slot: Slot, flight_unix_ms: (u64, u64), span: FunnelSpan) -> FunnelWindow {
        let now = self.now / PART_MINUTES;
        let begin = match span {
            FunnelSpan::Hour => (now + 1).saturating_sub(HOUR_PARTS),
            FunnelSpan::Day => (now / HOUR_PARTS + 1).saturating_sub(DAY_HOURS) * HOUR_PARTS,
        };
        let begin_minute = begin * PART_MINUTES;
        let since = begin_minute.max(self.started);
        let mut counts = self.current.get(&slot.0).copied().unwrap_or_default();
        for entry in self.past.get(&slot.0).map_or_else(Vec::new, |bytes| unpack(bytes)) {
            if entry.part >= begin {
                counts.add(&entry.counts);
            }
        }
        let opened = self.opened.get(slot.0 as usize).copied().filter(|since| *since > 0);
        let open = opened.map_or(0, |opened| {
            let (start, end) = flight_unix_ms;
            let from = since.max(opened).max(minute(start));
            self.offered_in(from, minute(end.saturating_add(MINUTE_MS - 1)))
        });
        let offered = open + u64::from(counts.get(FunnelStep::Offered));
        FunnelWindow {
            since_unix_ms: u64::from(since) * MINUTE_MS,
            is_since_start: begin_minute < self.started,
            // A flight that was moved has matches that were not offered in it.
            offered: offered.max(u64::from(counts.get(FunnelStep::Matched))),
            counts,
            shortfall: self.shortfalls.get(&slot.0).map(Shortfalls::summary),
        }
    }

    #[cfg(test)]
    pub(super) const fn with_past_bytes_max(mut self, bytes: usize) -> Self {
        self.past_bytes_max = bytes;
        self
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> (usize, usize, usize) {
        (self.current.len(), self.past.len(), self.past_bytes)
    }
}

impl Shortfalls {
    fn note(&mut self, part: u32, shortfall: Shortfall) {
        if self.part + HOUR_PARTS <= part {
            (self.bid, self.count) = (Cpm::ZERO, 0);
        }
        self.part = part;
        self.bid = self.bid.max(shortfall.bid);
        self.floors[self.count as usize % FLOORS_MAX] = shortfall.floor;
        // Two rounds are as many as are told apart.
        self.count = if self.count as usize + 1 == 2 * FLOORS_MAX {
            u32::try_from(FLOORS_MAX).expect("few")
        } else {
            self.count + 1
        };
    }

    fn summary(&self) -> Shortfall {
        let mut floors = self.floors;
        let floors = &mut floors[..(self.count as usize).min(FLOORS_MAX)];
        floors.sort_unstable();
        let median = floors.get(floors.len() / 2).copied().unwrap_or_default();
        Shortfall { bid: self.bid, floor: median }
    }
}

fn minute(unix_ms: u64) -> u32 {
    u32::try_from(unix_ms / MINUTE_MS).unwrap_or(u32::MAX)
}
