//! A shard's budgets with the pace of each campaign: its whole side of the exchange with the
//! ledger.

use std::collections::VecDeque;

use units::{Cpm, Tick};

use super::funnel::{FreshCounts, ShardFunnel};
use super::{ShardCounts, ShardLedger};
use crate::messages::{CampaignIndex, FromShard, Receipt, RequestCounts, ToShard, index};
use crate::refusal::SpendRefusal;
use crate::strategy::{BidPace, decide};

/// The bid at a pace. Calls `draw` only if the strategy skips requests, which most do not.
#[inline]
pub(super) fn paced(
    pace: BidPace,
    value: Cpm,
    draw: impl FnOnce() -> u64,
) -> Result<Cpm, SpendRefusal> {
    let draw = if pace.threshold() == u64::MAX { 0 } else { draw() };
    decide(pace, value, draw)
}

/// Most messages for the ledger in one turn.
#[derive(Clone, Copy, Debug)]
pub struct TurnLimits {
    /// Messages of all kinds.
    pub room: usize,
    /// Reports of spend, and as many of requests.
    pub reports_max: usize,
}

/// The budgets and paces of one shard.
#[derive(Debug)]
pub struct PacedShard {
    /// The budgets.
    pub ledger: ShardLedger,
    campaigns: Vec<CampaignRequests>,
    /// Campaigns whose requests changed since their last report.
    counted: VecDeque<CampaignIndex>,
    /// For the grants that were taken; Some once the shard takes no more.
    receipts: Option<Vec<Receipt>>,
    /// Whether another shard waits for what this one returned.
    must_report: bool,
    /// None if another service counts the funnels.
    funnel: Option<ShardFunnel>,
}

/// One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct CampaignRequests {
    pace: BidPace,
    /// Up to the last report.
    seen: RequestCounts,
    /// Since then. It is listed once it has a request.
    fresh: FreshCounts,
}

const _: () = assert!(size_of::<CampaignRequests>() == 64, "it is one cache line");

const UNPACED: CampaignRequests = CampaignRequests {
    pace: BidPace::FULL,
    seen: RequestCounts { requests: 0, bids: 0 },
    fresh: FreshCounts::NONE,
};

impl PacedShard {
    /// A shard without paces: every campaign bids its value.
    pub const fn new(ledger: ShardLedger) -> Self {
        Self {
            ledger,
            campaigns: Vec::new(),
            counted: VecDeque::new(),
            receipts: None,
            must_report: false,
            funnel: None,
        }
    }

    /// As [`Self::new`], and counts the funnels of its campaigns.
    pub fn with_funnel(ledger: ShardLedger) -> Self {
        Self { funnel: Some(ShardFunnel::default()), ..Self::new(ledger) }
    }

    /// The funnels, if it counts them.
    pub const fn funnel(&mut self) -> Option<&mut ShardFunnel> {
        self.funnel.as_mut()
    }

    /// Takes messages of the ledger, lets time pass, and sends at most `room` messages. Returns
    /// whether all were sent. Call it every few milliseconds.
    pub fn turn(
        &mut self,
        now: Tick,
        inbox: impl IntoIterator<Item = ToShard>,
        room: usize,
        send: impl FnMut(FromShard),
    ) -> bool {
        // A closed shard takes no more.
        if self.receipts.is_none() {
            inbox.into_iter().for_each(|message| self.take(message));
        }
        self.ledger.advance(now);
        self.send(room, send)
    }

    /// As [`Self::turn`], but short however many campaigns spend: sends all requests for refills,
    /// and of the reports, which are cumulative, those that have waited longest. Sends all reports
    /// if a campaign was recalled.
    pub fn short_turn(
        &mut self,
        now: Tick,
        inbox: impl IntoIterator<Item = ToShard>,
        limits: TurnLimits,
        mut send: impl FnMut(FromShard),
    ) {
        if self.receipts.is_none() {
            inbox.into_iter().for_each(|message| self.take(message));
        }
        self.ledger.advance(now);
        let TurnLimits { room, reports_max } = limits;
        if self.must_report {
            self.must_report = !self.send(room, send);
            return;
        }
        let mut sent = 0;
        for want in self.ledger.want().take(room) {
            send(FromShard::Refill(want));
            sent += 1;
        }
        for report in self.ledger.report().take(reports_max.min(room - sent)) {
            send(FromShard::Report(report));
            sent += 1;
        }
        for _ in 0..reports_max.min(room - sent) {
            let Some(seen) = self.next_seen() else { break };
            send(seen);
        }
    }

    /// Ends reserving: takes the last messages of the ledger, and returns everything that is free.
    /// Sends at most `room` messages: reports, then receipts. Returns whether all were sent;
    /// otherwise call it again.
    pub fn close(
        &mut self,
        now: Tick,
        inbox: impl IntoIterator<Item = ToShard>,
        room: usize,
        send: impl FnMut(FromShard),
    ) -> bool {
        if self.receipts.is_none() {
            inbox.into_iter().for_each(|message| self.take(message));
            self.receipts = Some(self.ledger.close(now));
        }
        self.send(room, send)
    }

    fn send(&mut self, room: usize, mut send: impl FnMut(FromShard)) -> bool {
        for _ in 0..room {
            let Some(message) = self.next_message().or_else(|| self.next_receipt()) else {
                return true;
            };
            let is_last = message == FromShard::Closed;
            send(message);
            if is_last {
                return true;
            }
        }
        false
    }

    /// Receipts follow all reports; the last message is [`FromShard::Closed`].
    fn next_receipt(&mut self) -> Option<FromShard> {
        let receipts = self.receipts.as_mut()?;
        Some(receipts.pop().map_or(FromShard::Closed, FromShard::Receipt))
    }

    /// Takes a message of the ledger. Rejected grants are counted; their money stays unused.
    fn take(&mut self, message: ToShard) {
        match message {
            ToShard::Grant(grant) => drop(self.ledger.take(&grant)),
            ToShard::Gate(gate) => {
                self.must_report |= gate.is_recalled;
                let _counted = self.ledger.take_gate(&gate);
            }
            ToShard::Pace(slot, pace) => self.campaign(slot).pace = pace,
        }
    }

    /// The next message for the ledger: reports first, of which none may be lost.
    fn next_message(&mut self) -> Option<FromShard> {
        let report = self.ledger.report().next().map(FromShard::Report);
        report
            .or_else(|| self.ledger.want().next().map(FromShard::Refill))
            .or_else(|| self.next_seen())
    }

    /// The bid for a request of this value. Calls `draw` only if the strategy skips requests.
    ///
    /// # Errors
    /// See [`decide`].
    pub fn bid(
        &mut self,
        slot: CampaignIndex,
        value: Cpm,
        draw: impl FnOnce() -> u64,
    ) -> Result<Cpm, SpendRefusal> {
        paced(self.pace(slot), value, draw)
    }

    /// Reads a campaign's pace. The result means nothing.
    #[inline]
    pub(super) fn warm_pace(&self, slot: CampaignIndex) -> u64 {
        let campaign = self.campaigns.get(index(slot.0));
        campaign.map_or(0, |campaign| campaign.fresh.requests.into())
    }

    pub(super) fn pace(&mut self, slot: CampaignIndex) -> BidPace {
        self.campaign(slot).pace
    }

    /// Counts a request that a campaign matched. Returns how it bids.
    pub fn count_request(&mut self, slot: CampaignIndex) -> BidPace {
        let campaign = self.campaign(slot);
        let (pace, is_listed) = (campaign.pace, campaign.fresh.requests > 0);
        campaign.fresh.request();
        if !is_listed {
            self.counted.push_back(slot);
        }
        pace
    }

    /// Counts a bid for a request that was counted.
    pub fn count_bid(&mut self, slot: CampaignIndex) {
        self.campaign(slot).fresh.bid();
    }

    /// Counts the refusal of a request that was counted.
    #[inline]
    pub(super) fn withhold(&mut self, slot: CampaignIndex, refusal: SpendRefusal) {
        self.campaign(slot).fresh.withhold(refusal);
    }

    /// Counts a request whose minimum is above the offer.
    #[inline]
    pub(super) fn fall_short(&mut self, slot: CampaignIndex) {
        self.campaign(slot).fresh.fall_short();
    }

    /// Counters since the start.
    pub const fn counts(&self) -> &ShardCounts {
        self.ledger.counts()
    }

    fn next_seen(&mut self) -> Option<FromShard> {
        let slot = self.counted.pop_front()?;
        let campaign = self.campaign(slot);
        let fresh = std::mem::take(&mut campaign.fresh);
        campaign.seen.requests += u64::from(fresh.requests);
        campaign.seen.bids += u64::from(fresh.bids);
        let seen = campaign.seen;
        if let Some(funnel) = &mut self.funnel {
            funnel.report(slot, &fresh);
        }
        Some(FromShard::Seen(slot, seen))
    }

    #[inline]
    fn campaign(&mut self, slot: CampaignIndex) -> &mut CampaignRequests {
        let at = index(slot.0);
        if self.campaigns.len() <= at {
            self.campaigns.resize(at + 1, UNPACED);
        }
        &mut self.campaigns[at]
    }
}
