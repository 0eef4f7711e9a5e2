//! The last hour and the last day of all campaigns, out of what shards hand over.
//!
//! What is counted now is kept by ten minutes; what is older than the last hour, by hours; what is older
//! than a day is forgotten. Of a campaign to which nothing happened nothing is kept, but 4 bytes that say
//! since when it is open. **Memory:** 130 bytes for a campaign with something in these ten minutes, 250 more
//! if bids of it were below the floor within the hour, and about 20 for each part of its past, of which
//! there are 29 at most; all pasts together take [`PAST_BYTES_MAX`]. A test counts it.

use std::collections::{HashMap, HashSet, VecDeque};

use units::Cpm;

use super::packed::{PastPart, pack, unpack};
use super::{FunnelBatch, FunnelCounts, FunnelStep, Shortfall};
use crate::messages::CampaignIndex;

/// Bytes that the pasts of all campaigns take at most. Beyond them hours are dropped: of a campaign only
/// its last hour is kept.
pub const PAST_BYTES_MAX: usize = 48 << 20;

const MINUTE_MS: u64 = 60_000;
/// Ten minutes.
const PART_MINUTES: u32 = 10;
const HOUR_PARTS: u32 = 6;
const DAY_HOURS: u32 = 24;
/// Minutes of which it is known how much was offered: a day, whole hours.
const MINUTES_MAX: usize = 25 * 60;
/// Bids of a campaign below the floor that are kept: the latest.
const SHORTFALLS_MAX: usize = 9;

/// How far back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunnelSpan {
    /// The current ten minutes, and the five periods of ten minutes before.
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
    /// Whether hours of it were dropped, for there was no room for them.
    pub is_cut: bool,
    /// Impressions that were offered while the campaign was defined, not paused and in flight.
    pub offered: u64,
    /// The steps; of these [`FunnelStep::Offered`] is in `offered`.
    pub counts: FunnelCounts,
    /// Of these, what is of the last ten to twenty minutes: the ten that it is in, and those before.
    pub recent: FunnelCounts,
    /// The highest of the latest bids below the floor, and the median of their floors, if there were any
    /// in the last hour.
    pub shortfall: Option<Shortfall>,
}

/// Bids of a campaign below the floor, the latest few.
#[derive(Clone, Copy, Debug, Default)]
struct Shortfalls {
    /// With the ten minutes of each.
    latest: [(u32, Shortfall); SHORTFALLS_MAX],
    /// Where the next one goes.
    next: usize,
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
    /// Closed in this minute: what was offered in it is counted already.
    closed: HashSet<u32>,
    /// Of these ten minutes.
    current: HashMap<u32, FunnelCounts>,
    /// Of ten minutes that are over, as far as it is not moved to the past yet, and which these are.
    over: HashMap<u32, FunnelCounts>,
    over_part: u32,
    /// Whose past is still to be gone through.
    to_fold: Vec<u32>,
    past: HashMap<u32, Box<[u8]>>,
    past_bytes: usize,
    past_bytes_max: usize,
    /// By slot: the latest of the hours that were dropped for want of room, by its first ten minutes.
    cut: HashMap<u32, u32>,
    shortfalls: HashMap<u32, Shortfalls>,
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

    /// Time passes; a clock that was put back stands still. What is over then is moved to the past by
    /// [`Self::fold_some`].
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

    /// Takes what a shard hands over, and empties it.
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

    /// The campaigns that may bid from now on. What was offered to one that no longer does stays counted.
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
        self.closed.insert(slot);
    }

    /// What was offered from the minute `from` until `until`.
    fn offered_in(&self, from: u32, until: u32) -> u64 {
        let minutes = (from..until.min(self.now + 1)).map(|minute| self.now - minute);
        minutes.filter_map(|back| self.offered.get(back as usize)).sum()
    }

    /// Moves the counts of ten minutes that are over to the past, and forgets what is too old: of so many
    /// campaigns at most. Whether there are more.
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

    /// Keeps what is not too old of a campaign's past, hours as one.
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

    /// The funnel of a campaign, which is in flight from and until these times, in milliseconds since 1970.
    pub fn window(
        &self,
        slot: CampaignIndex,
        flight_unix_ms: (u64, u64),
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
        let (start, end) = flight_unix_ms;
        let flight = (minute(start), minute(end.saturating_add(MINUTE_MS - 1)));
        let (mut counts, mut recent) = (FunnelCounts::default(), FunnelCounts::default());
        let mut closed = 0;
        for entry in parts.iter().filter(|entry| entry.part >= begin) {
            counts.add(&entry.counts);
            closed += entry.offered_in(flight);
            if entry.part + 1 >= now && !entry.is_hour {
                recent.add(&entry.counts);
            }
        }
        let opened = self.opened.get(slot.0 as usize).copied().filter(|since| *since > 0);
        let open =
            opened.map_or(0, |opened| self.offered_in(since.max(opened).max(flight.0), flight.1));
        let cut = self.cut.get(&slot.0).is_some_and(|part| *part >= begin);
        FunnelWindow {
            since_unix_ms: u64::from(since) * MINUTE_MS,
            is_since_start: begin_minute < self.started,
            is_cut: cut,
            // A flight that was moved has matches that were not offered in it.
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
    /// What was offered in it and between these minutes, which may be a part of it.
    fn offered_in(&self, (from, until): (u32, u32)) -> u64 {
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

    /// The highest bid and the median floor of those of the last hour, if there are any.
    fn summary(&self, now: u32) -> Option<Shortfall> {
        let recent = self.latest.iter().filter(|(part, _)| part + HOUR_PARTS > now);
        let mut floors: Vec<Cpm> = recent.clone().map(|(_, shortfall)| shortfall.floor).collect();
        floors.sort_unstable();
        let bid = recent.map(|(_, shortfall)| shortfall.bid).max()?;
        Some(Shortfall { bid, floor: floors[floors.len() / 2] })
    }
}

/// Whether ten minutes are of the hour that it is in, or of the 23 before it.
const fn is_of_day(part: u32, now: u32) -> bool {
    now / HOUR_PARTS < part / HOUR_PARTS + DAY_HOURS
}

fn minute(unix_ms: u64) -> u32 {
    u32::try_from(unix_ms / MINUTE_MS).unwrap_or(u32::MAX)
}
