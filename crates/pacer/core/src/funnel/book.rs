//! The last hour and the last day of all campaigns' funnels, from the shards' rows.
//!
//! Current counts are kept by ten minutes, counts older than an hour by hours, and those older than
//! a day are dropped. An idle campaign takes only the 4 bytes of its opening time. **Memory:** 130
//! bytes for a campaign with events in the current ten minutes, 250 more if it bid below the floor
//! within the hour, and about 20 for each of at most 29 parts of its past; all pasts together take
//! [`PAST_BYTES_MAX`]. A test counts it.

use std::collections::{HashMap, HashSet, VecDeque};

use units::Cpm;

use super::packed::{PastPart, pack, unpack};
use super::{FunnelBatch, FunnelCounts, FunnelStep, Shortfall};
use crate::messages::CampaignIndex;
use crate::strategy::CampaignFlight;

/// Maximum bytes of all campaigns' pasts. Beyond it a campaign has only its last hour.
pub const PAST_BYTES_MAX: usize = 48 << 20;

const MINUTE_MS: u64 = 60_000;
const PART_MINUTES: u32 = 10;
const HOUR_PARTS: u32 = 6;
const DAY_HOURS: u32 = 24;
/// Minutes of `offered` counts: a day, in whole hours.
const MINUTES_MAX: usize = 25 * 60;
/// Latest bids below the floor that are kept per campaign.
const SHORTFALLS_MAX: usize = 9;

/// Span of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunnelSpan {
    /// The current ten minutes, and the five parts before.
    Hour,
    /// The current UTC hour, and the 23 before it.
    Day,
}

/// A campaign's funnel over a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunnelWindow {
    /// Start of the counts, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// Whether the process is younger than the span.
    pub is_since_start: bool,
    /// Whether hours were dropped for lack of room.
    pub is_cut: bool,
    /// Impressions offered while the campaign was defined, unpaused and in flight.
    pub offered: u64,
    /// Counts by step; [`FunnelStep::Offered`] is in `offered` instead.
    pub counts: FunnelCounts,
    /// The current ten minutes and the ten before.
    pub recent: FunnelCounts,
    /// The highest latest bid below the floor, and the median floor. None if the last hour had
    /// none.
    pub shortfall: Option<Shortfall>,
}

impl FunnelWindow {
    /// The window of a campaign whose budget two services spend. Offers count only where it matched.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        let has_matched = |window: &Self| window.counts.get(FunnelStep::Matched) > 0;
        if !has_matched(&other) {
            return self;
        }
        if !has_matched(&self) {
            return other;
        }
        let (mut counts, mut recent) = (self.counts, self.recent);
        counts.add(&other.counts);
        recent.add(&other.recent);
        Self {
            since_unix_ms: self.since_unix_ms.min(other.since_unix_ms),
            is_since_start: self.is_since_start && other.is_since_start,
            is_cut: self.is_cut || other.is_cut,
            offered: self.offered.saturating_add(other.offered),
            counts,
            recent,
            shortfall: self.shortfall.or(other.shortfall),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Shortfalls {
    /// With the number of their ten minutes.
    latest: [(u32, Shortfall); SHORTFALLS_MAX],
    next: usize,
}

/// All funnels.
#[derive(Debug)]
pub struct FunnelBook {
    /// All times are minutes since 1970.
    started: u32,
    now: u32,
    /// By minute, newest first.
    offered: VecDeque<u64>,
    /// By slot: the minute since which it is open, 0 if it is not.
    opened: Vec<u32>,
    /// Closed in this minute: its offers are counted already.
    closed: HashSet<u32>,
    current: HashMap<u32, FunnelCounts>,
    /// Of the ended ten minutes `over_part`, not folded yet.
    over: HashMap<u32, FunnelCounts>,
    over_part: u32,
    to_fold: Vec<u32>,
    past: HashMap<u32, Box<[u8]>>,
    past_bytes: usize,
    past_bytes_max: usize,
    /// By slot: the newest dropped hour, as the number of its first ten minutes.
    cut: HashMap<u32, u32>,
    shortfalls: HashMap<u32, Shortfalls>,
}

impl FunnelBook {
    /// Starts at a time in milliseconds since 1970.
    pub fn new(now_unix_ms: u64) -> Self {
        let now = minute(now_unix_ms);
        Self {
            started: now,
            now,
            offered: VecDeque::from([0]),
            opened: Vec::new(),
            closed: HashSet::new(),
            current: HashMap::new(),
            over: HashMap::new(),
            over_part: 0,
            to_fold: Vec::new(),
            past: HashMap::new(),
            past_bytes: 0,
            past_bytes_max: PAST_BYTES_MAX,
            cut: HashMap::new(),
            shortfalls: HashMap::new(),
        }
    }

    /// Advances the time, but never back. [`Self::fold_some`] then folds ended parts.
    pub fn advance(&mut self, now_unix_ms: u64) {
        let (before, now) = (self.now, minute(now_unix_ms).max(self.now));
        for _ in 0..(now - before).min(u32::try_from(MINUTES_MAX).expect("few")) {
            self.offered.push_front(0);
        }
        self.offered.truncate(MINUTES_MAX);
        self.now = now;
        if before != now {
            self.closed.clear();
        }
        if before / PART_MINUTES != now / PART_MINUTES {
            while self.fold_some(usize::MAX) {}
            self.over = std::mem::take(&mut self.current);
            self.over_part = before / PART_MINUTES;
            let others = self.over.keys().filter(|slot| !self.past.contains_key(slot));
            self.to_fold = self.past.keys().chain(others).copied().collect();
        }
    }

    /// Takes a shard's batch, and empties it.
    pub fn take(&mut self, batch: &mut FunnelBatch) {
        self.offered[0] += batch.offered;
        let part = self.now / PART_MINUTES;
        for row in &batch.rows {
            self.current.entry(row.slot.0).or_default().add(&row.counts);
            if let Some(shortfall) = row.shortfall {
                self.shortfalls.entry(row.slot.0).or_default().note(part, shortfall);
            }
        }
        batch.clear();
    }

    /// Sets the campaigns that may bid from now on. Closed ones keep their counts.
    pub fn follow(&mut self, open: impl Iterator<Item = CampaignIndex>) {
        let mut opened = Vec::new();
        for CampaignIndex(slot) in open {
            let at = slot as usize;
            if opened.len() <= at {
                opened.resize(at + 1, 0);
            }
            let known = self.opened.get(at).copied().filter(|since| *since > 0);
            let is_counted = || self.closed.contains(&slot);
            opened[at] = known.unwrap_or_else(|| self.now + u32::from(is_counted()));
        }
        let before = std::mem::replace(&mut self.opened, opened);
        for (slot, since) in (0..).zip(before) {
            let is_open = self.opened.get(slot as usize).is_some_and(|since| *since > 0);
            if since > 0 && !is_open {
                self.close(slot, since);
            }
        }
    }

    /// Adds the offers since `since` to the campaign's own counts.
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
        self.closed.insert(slot);
    }

    fn offered_in(&self, from: u32, until: u32) -> u64 {
        let minutes = (from..until.min(self.now + 1)).map(|minute| self.now - minute);
        minutes.filter_map(|back| self.offered.get(back as usize)).sum()
    }

    /// Folds ended parts of up to `most` campaigns. Returns whether more remain.
    pub fn fold_some(&mut self, most: usize) -> bool {
        for _ in 0..most {
            let Some(slot) = self.to_fold.pop() else { break };
            let mut past = self.past.get(&slot).map_or_else(Vec::new, |bytes| unpack(bytes));
            if let Some(counts) = self.over.remove(&slot) {
                past.push(PastPart { part: self.over_part, is_hour: false, counts });
            }
            self.put(slot, past);
            if !self.to_fold.is_empty() {
                continue;
            }
            self.over = HashMap::new();
            let now = self.now / PART_MINUTES;
            self.shortfalls.retain(|_, noted| noted.summary(now).is_some());
            self.cut.retain(|_, part| is_of_day(*part, now));
        }
        !self.to_fold.is_empty()
    }

    /// Stores a campaign's past: drops what is too old, merges the parts of an hour.
    fn put(&mut self, slot: u32, past: Vec<PastPart>) {
        let now = self.now / PART_MINUTES;
        let mut kept: Vec<PastPart> = Vec::with_capacity(past.len());
        for entry in past {
            let is_recent = entry.part + HOUR_PARTS > now;
            let hour = entry.part / HOUR_PARTS;
            if !is_of_day(entry.part, now) {
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
            if let Some(dropped) = kept.iter().rfind(|entry| entry.is_hour) {
                self.cut.insert(slot, dropped.part);
            }
            kept.retain(|entry| !entry.is_hour);
            bytes = pack(&kept);
        }
        if !bytes.is_empty() {
            self.past_bytes += bytes.len();
            self.past.insert(slot, bytes);
        }
    }

    /// The funnel of a campaign with the given flight.
    pub fn window(
        &self,
        slot: CampaignIndex,
        flight: CampaignFlight,
        span: FunnelSpan,
    ) -> FunnelWindow {
        let now = self.now / PART_MINUTES;
        let begin = match span {
            FunnelSpan::Hour => (now + 1).saturating_sub(HOUR_PARTS),
            FunnelSpan::Day => (now / HOUR_PARTS + 1).saturating_sub(DAY_HOURS) * HOUR_PARTS,
        };
        let begin_minute = begin * PART_MINUTES;
        let since = begin_minute.max(self.started);
        let mut parts = self.past.get(&slot.0).map_or_else(Vec::new, |bytes| unpack(bytes));
        for (part, counts) in [(self.over_part, &self.over), (now, &self.current)] {
            let counts = counts.get(&slot.0).copied();
            parts.extend(counts.map(|counts| PastPart { part, is_hour: false, counts }));
        }
        let flight_start = minute(flight.start_ms);
        let flight_end = minute(flight.end_ms.saturating_add(MINUTE_MS - 1));
        let (mut counts, mut recent) = (FunnelCounts::default(), FunnelCounts::default());
        let mut closed = 0;
        for entry in parts.iter().filter(|entry| entry.part >= begin) {
            counts.add(&entry.counts);
            closed += entry.offered_in(flight_start, flight_end);
            if entry.part + 1 >= now && !entry.is_hour {
                recent.add(&entry.counts);
            }
        }
        let opened = self.opened.get(slot.0 as usize).copied().filter(|since| *since > 0);
        let open = opened
            .map_or(0, |opened| self.offered_in(since.max(opened).max(flight_start), flight_end));
        let cut = self.cut.get(&slot.0).is_some_and(|part| *part >= begin);
        FunnelWindow {
            since_unix_ms: u64::from(since) * MINUTE_MS,
            is_since_start: begin_minute < self.started,
            is_cut: cut,
            // After a moved flight, matches can exceed the offers in it.
            offered: (open + closed).max(u64::from(counts.get(FunnelStep::Matched))),
            counts,
            recent,
            shortfall: self.shortfalls.get(&slot.0).and_then(|latest| latest.summary(now)),
        }
    }

    #[cfg(test)]
    pub(super) const fn with_past_bytes_max(mut self, bytes: usize) -> Self {
        self.past_bytes_max = bytes;
        self
    }

    #[cfg(test)]
    pub(super) fn cut(&self) -> usize {
        self.cut.len()
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> (usize, usize, usize) {
        (self.current.len(), self.past.len(), self.past_bytes)
    }
}

impl PastPart {
    /// Its offers between these minutes, pro rata.
    fn offered_in(&self, from: u32, until: u32) -> u64 {
        let minutes = if self.is_hour { HOUR_PARTS * PART_MINUTES } else { PART_MINUTES };
        let begin = self.part * PART_MINUTES;
        let within = until.min(begin + minutes).saturating_sub(from.max(begin));
        u64::from(self.counts.get(FunnelStep::Offered)) * u64::from(within) / u64::from(minutes)
    }
}

impl Shortfalls {
    fn note(&mut self, part: u32, shortfall: Shortfall) {
        self.latest[self.next] = (part, shortfall);
        self.next = (self.next + 1) % SHORTFALLS_MAX;
    }

    /// The highest bid and the median floor of the last hour. None without bids.
    fn summary(&self, now: u32) -> Option<Shortfall> {
        let recent = self.latest.iter().filter(|(part, _)| part + HOUR_PARTS > now);
        let mut floors: Vec<Cpm> = recent.clone().map(|(_, shortfall)| shortfall.floor).collect();
        floors.sort_unstable();
        let bid = recent.map(|(_, shortfall)| shortfall.bid).max()?;
        Some(Shortfall { bid, floor: floors[floors.len() / 2] })
    }
}

const fn is_of_day(part: u32, now: u32) -> bool {
    now / HOUR_PARTS < part / HOUR_PARTS + DAY_HOURS
}

fn minute(unix_ms: u64) -> u32 {
    u32::try_from(unix_ms / MINUTE_MS).unwrap_or(u32::MAX)
}
