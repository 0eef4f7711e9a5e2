//! Builds a report, auction by auction.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::ControlFlow;
use std::time::Duration;

use eventlog::EndFile;
use eventlog::lane::LaneKind;
use events::{Gap, RecordKind};
use exchange_core::Fate;
use exchange_core::record::{AuctionRecord, BidRecord, GenerationRecord, SaleRecord};
use units::Rounding;

use crate::filter::{Filter, TimeWindow};
use crate::generations::{GenerationIndex, GenerationLookup};
use crate::log::directory::RecordDirectory;
use crate::log::lane::RecordFold;
use crate::log::position::RecordPosition;
use crate::names::DspNames;
use crate::report::billing::BillingIndex;
use crate::report::{
    AuctionReport, GROUPS_MAX, ReportColumn, ReportColumns, ReportCounts, ReportError,
    ReportExclusions, ReportGroup, ReportSums,
};
use crate::row::formats;
use crate::time::UtcTime;

/// Values of the columns, and the currency: amounts in different currencies are never added.
type GroupKey = (Vec<String>, String);

/// The groups so far.
pub(super) struct ReportBuilder<'g, 'd> {
    filter: &'g Filter,
    window: TimeWindow,
    columns: &'g ReportColumns,
    lookup: GenerationLookup<'g, 'd>,
    groups: HashMap<GroupKey, ReportSums>,
    /// By currency.
    totals: HashMap<String, ReportSums>,
    apart: ReportExclusions,
    billing: &'g BillingIndex,
    /// Time of the first record.
    first_ms: Option<u64>,
    failed: Option<ReportError>,
}

impl<'g, 'd> ReportBuilder<'g, 'd> {
    pub fn new(
        filter: &'g Filter,
        columns: &'g ReportColumns,
        generations: &'g GenerationIndex<'d>,
        billing: &'g BillingIndex,
    ) -> Self {
        Self {
            filter,
            window: filter.window(),
            columns,
            lookup: GenerationLookup::new(generations),
            groups: HashMap::new(),
            totals: HashMap::new(),
            apart: ReportExclusions::default(),
            billing,
            first_ms: None,
            failed: None,
        }
    }

    fn auction(&mut self, payload: &[u8]) -> Result<(), ReportError> {
        let Ok(record) = AuctionRecord::decode(payload) else {
            self.apart.unreadable += 1;
            return Ok(());
        };
        let billed = self.billing.of_auction(record.id, record.arrival_unix_us / 1000);
        let facts = self.lookup.get(record.generation)?;
        if !self.filter.matches(&record, facts) {
            return Ok(());
        }
        if record.is_test {
            self.apart.tests += 1;
            return Ok(());
        }
        self.apart.no_generation += u64::from(facts.is_none());
        self.apart.bids_left_out += record.bids_left_out as u64;
        let held = ReportedAuction::new(self.filter, self.columns, &record, &billed, facts);
        held.total()?.add_to(self.totals.entry(held.currency.clone()).or_default())?;
        for (key, part) in held.groups()? {
            part.add_to(group(&mut self.groups, key)?)?;
        }
        Ok(())
    }

    /// Time of the first record that was read.
    pub fn first_ms(&self) -> Option<u64> {
        self.first_ms
    }

    pub fn finish(self) -> (Vec<ReportGroup>, Vec<ReportGroup>, ReportExclusions) {
        let group = |((key, currency), sums)| ReportGroup { key, currency, sums };
        let mut groups: Vec<_> = self.groups.into_iter().map(group).collect();
        groups.sort_unstable_by(|one, other| {
            (&one.key, &one.currency).cmp(&(&other.key, &other.currency))
        });
        let total = |(currency, sums)| ReportGroup { key: Vec::new(), currency, sums };
        let mut totals: Vec<_> = self.totals.into_iter().map(total).collect();
        totals.sort_unstable_by(|one, other| one.currency.cmp(&other.currency));
        (groups, totals, self.apart)
    }
}

impl RecordFold for ReportBuilder<'_, '_> {
    type Error = ReportError;

    fn visit(&mut self, place: &RecordPosition, kind: u8, payload: &[u8]) {
        if self.failed.is_some() || !self.window.holds(place.time_ms) {
            return;
        }
        self.first_ms = Some(self.first_ms.map_or(place.time_ms, |it| it.min(place.time_ms)));
        match RecordKind::from_code(kind) {
            Some(RecordKind::Auction) => {
                let added = self.auction(payload);
                self.failed = added.err();
            }
            Some(RecordKind::Gap) => {
                self.apart.shed += Gap::decode(payload).map_or(0, |gap| gap.records);
            }
            _ => (),
        }
    }

    fn merge(&mut self, other: Self) -> Result<(), ReportError> {
        if let Some(error) = other.failed {
            return Err(error);
        }
        self.apart.add(other.apart);
        let times = [self.first_ms, other.first_ms];
        self.first_ms = times.into_iter().flatten().min();
        for (currency, sums) in other.totals {
            self.totals.entry(currency).or_default().add(&sums)?;
        }
        for (key, sums) in other.groups {
            group(&mut self.groups, key)?.add(&sums)?;
        }
        Ok(())
    }
}

fn group(
    groups: &mut HashMap<GroupKey, ReportSums>,
    key: GroupKey,
) -> Result<&mut ReportSums, ReportError> {
    let is_full = groups.len() == GROUPS_MAX;
    match groups.entry(key) {
        Entry::Occupied(entry) => Ok(entry.into_mut()),
        Entry::Vacant(_) if is_full => Err(ReportError::Groups),
        Entry::Vacant(entry) => Ok(entry.insert(ReportSums::default())),
    }
}

/// What one auction adds to a group.
struct GroupDelta {
    counts: ReportCounts,
    /// Latencies in microseconds, by DSP in groups of DSPs.
    latencies: Vec<(Option<usize>, u64)>,
}

impl GroupDelta {
    fn of_one() -> Self {
        Self {
            counts: ReportCounts { auctions: 1, ..ReportCounts::default() },
            latencies: Vec::new(),
        }
    }

    /// Records a latency once for each DSP.
    fn took(&mut self, dsp: Option<usize>, latency: Option<Duration>) {
        let Some(latency) = latency else { return };
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        if self.latencies.iter().all(|(of, _)| *of != dsp) {
            self.latencies.push((dsp, us));
        }
    }

    fn add_to(&self, sums: &mut ReportSums) -> Result<(), ReportError> {
        self.latencies.iter().for_each(|(_, us)| sums.took(*us));
        sums.counts.add(&self.counts)
    }
}

/// A selected auction.
struct ReportedAuction<'r, 'b> {
    columns: &'r ReportColumns,
    record: &'r AuctionRecord<'b>,
    /// Billed bids and their impressions.
    billed: &'r [(u32, u8)],
    facts: Option<&'r GenerationRecord>,
    names: DspNames<'r>,
    currency: String,
    /// Positions of the bids that count.
    bids: Vec<usize>,
    /// Whether the filter has terms about bids, so that calls without a bid do not count.
    is_narrowed: bool,
}

impl<'r, 'b> ReportedAuction<'r, 'b> {
    fn new(
        filter: &Filter,
        columns: &'r ReportColumns,
        record: &'r AuctionRecord<'b>,
        billed: &'r [(u32, u8)],
        facts: Option<&'r GenerationRecord>,
    ) -> Self {
        let counts = |at: &usize| filter.matches_bid(record, facts, &record.bids[*at]);
        let bids = (0..record.bids.len()).filter(counts).collect();
        let names = DspNames::of(record, facts);
        let currency = facts.map_or_else(String::new, |facts| facts.base.to_string());
        let is_narrowed = filter.is_about_bids();
        Self { columns, record, billed, facts, names, currency, bids, is_narrowed }
    }

    fn is_won(&self, bid: usize) -> bool {
        self.record.bids[bid].fate == Fate::Won
    }

    fn sale(&self, bid: usize) -> Option<&SaleRecord> {
        self.record.sales.iter().find(|sale| sale.bid == bid && self.is_won(bid))
    }

    /// What the DSP owes for a bid and our share of it, in nanos of the base currency.
    fn money(&self, bid: usize) -> (u64, u64) {
        let Some(sale) = self.sale(bid) else { return (0, 0) };
        let spend = sale.revenue.get();
        (spend, spend.saturating_sub(self.payout(sale).unwrap_or(spend)))
    }

    /// What the DSP owes for a billed bid, in nanos of the base currency. None if it was not
    /// billed.
    fn billed(&self, bid: usize) -> Option<u64> {
        let record = self.record;
        let sale = record.sales.iter().find(|sale| sale.bid == bid)?;
        let is_cut = record.bids_left_out > 0;
        let is_it = |(of, imp): &(u32, u8)| match is_cut {
            // Positions in a cut record are not those of the auction.
            true => record.bids[bid].imp == Some(usize::from(*imp)) && self.is_won(bid),
            false => usize::try_from(*of) == Ok(bid),
        };
        self.billed.iter().any(is_it).then(|| sale.revenue.get())
    }

    /// What the publisher is owed, in nanos of the base currency. None if unknown.
    fn payout(&self, sale: &SaleRecord) -> Option<u64> {
        let (facts, terms) = (self.facts?, self.record.terms.as_ref()?);
        let imp = self.record.bids[sale.bid].imp?;
        let net = facts.rates.convert(sale.net, terms.currency, facts.base, Rounding::Down)?;
        net.cost(self.record.imps[imp].multiplier).map(units::Nanos::get)
    }

    fn total(&self) -> Result<GroupDelta, ReportError> {
        let mut part = GroupDelta::of_one();
        self.bids.iter().try_for_each(|bid| self.add_bid(&mut part, *bid))?;
        part.counts.bids += self.record.bids_left_out as u64;
        part.took(None, self.record.timings.answered);
        Ok(part)
    }

    fn add_bid(&self, part: &mut GroupDelta, bid: usize) -> Result<(), ReportError> {
        part.counts.bids += 1;
        if self.is_won(bid) {
            part.counts.wins += 1;
            part.counts.filled = 1;
        }
        if let Some(nanos) = self.billed(bid) {
            part.counts.billed += 1;
            part.counts.bill(nanos)?;
        }
        let (spend_nanos, fee_nanos) = self.money(bid);
        part.counts.owe(spend_nanos, fee_nanos)
    }

    /// What it adds to which groups, to each as one auction.
    fn groups(&self) -> Result<HashMap<GroupKey, GroupDelta>, ReportError> {
        let mut groups: HashMap<GroupKey, GroupDelta> = HashMap::new();
        let (of_bids, answered) = (self.columns.are_of_bids(), self.record.timings.answered);
        if !of_bids && !self.columns.has(ReportColumn::Format) {
            groups.insert(self.key(|_| String::new()), self.total()?);
            return Ok(groups);
        }
        if !of_bids {
            for imp in &self.record.imps {
                let key = self.key(|_| labelled(imp.formats));
                groups.entry(key).or_insert_with(GroupDelta::of_one).took(None, answered);
            }
        }
        if self.columns.count_calls() && !self.is_narrowed {
            for call in &self.record.calls {
                let dsp = call.call.ask.dsp;
                let key = self.key(|_| self.names.dsp(dsp).into_owned());
                let part = groups.entry(key).or_insert_with(GroupDelta::of_one);
                part.took(Some(dsp), call.call.latency);
            }
        }
        for bid in &self.bids {
            let of = &self.record.bids[*bid];
            let key = self.key(|column| self.value(of, column));
            let part = groups.entry(key).or_insert_with(GroupDelta::of_one);
            self.add_bid(part, *bid)?;
            if of_bids {
                part.took(Some(of.dsp), self.latency_of(of));
            } else {
                part.took(None, answered);
            }
        }
        Ok(groups)
    }

    /// Latency of the bid's DSP.
    fn latency_of(&self, bid: &BidRecord<'_>) -> Option<Duration> {
        let mut calls = self.record.calls.iter();
        calls.find(|call| call.call.ask.dsp == bid.dsp).and_then(|call| call.call.latency)
    }

    /// Values of the columns; `other` gives those that differ within an auction.
    fn key(&self, other: impl Fn(ReportColumn) -> String) -> GroupKey {
        let moment = UtcTime(self.record.arrival_unix_us);
        let values = self.columns.iter().map(|column| match column {
            ReportColumn::Hour => moment.hour(),
            ReportColumn::Day => moment.day(),
            ReportColumn::Publisher => self.record.publisher.unwrap_or("").to_owned(),
            of_part => other(of_part),
        });
        (values.collect(), self.currency.clone())
    }

    fn value(&self, bid: &BidRecord<'_>, column: ReportColumn) -> String {
        match column {
            ReportColumn::Dsp => self.names.dsp(bid.dsp).into_owned(),
            ReportColumn::Seat => {
                let seat = bid.seat.map(|seat| self.names.seat(bid.dsp, seat));
                seat.map_or_else(String::new, std::borrow::Cow::into_owned)
            }
            ReportColumn::Deal => bid.deal.map_or("", |deal| self.record.deals[deal].id).to_owned(),
            ReportColumn::Campaign => bid.campaign.to_owned(),
            ReportColumn::Format => {
                bid.imp.map_or_else(String::new, |imp| labelled(self.record.imps[imp].formats))
            }
            ReportColumn::Hour | ReportColumn::Day | ReportColumn::Publisher => String::new(),
        }
    }
}

/// All formats of an impression, as one value.
fn labelled(set: u8) -> String {
    formats(set).collect::<Vec<_>>().join("+")
}

/// Adds up the selected auctions, and the bids that `filter` selects. `each` gets the number of
/// segments done and of all, and may stop it.
pub fn report(
    directory: &RecordDirectory,
    filter: &Filter,
    columns: &ReportColumns,
    each: impl FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<AuctionReport, ReportError> {
    let generations = GenerationIndex::find(directory)?;
    let lane = directory.lane(LaneKind::Firehose)?;
    let window = filter.window();
    let segments = lane.within(window);
    let billing = BillingIndex::find(directory, window)?;
    let begin = || ReportBuilder::new(filter, columns, &generations, &billing);
    let (all, damage) = lane.gather(&segments, begin, each)?;
    let is_whole = lane.segments().first().is_none_or(|first| first.identity().first == 1);
    let since_ms = match (window.since_ms, is_whole) {
        (0, true) => None,
        (since_ms, _) => Some(since_ms.max(all.first_ms().unwrap_or(0))),
    };
    let unrecorded = billing.unrecorded(since_ms, window.until_ms)?;
    let is_sealed = matches!(lane.end(), EndFile::Sound(end) if end.is_sealed);
    let known =
        directory.reach()?.filter(|_| !is_sealed && window.until_ms == TimeWindow::ALL.until_ms);
    let (groups, totals, apart) = all.finish();
    let (columns, generations) = (columns.clone(), generations.problems());
    Ok(AuctionReport { columns, groups, totals, apart, unrecorded, known, damage, generations })
}
