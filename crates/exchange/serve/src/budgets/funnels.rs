//! Why campaigns do not spend: counts of the last hour and day, and requests to try criteria on.
//!
//! A builder's job takes shards' counts twice a second. Auctions never wait; nothing is durable.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use exchange_core::campaigns::{DirectCampaign, Probe, ProbeCounts};
use exchange_core::{Auction, Market, eligible_direct};
use openrtb::parse_request;
use pacer_core::funnel::{FunnelWindow, SharedFunnels};
use pacer_core::messages::CampaignIndex;
use pacer_core::strategy::CampaignFlight;
use runtime::builder::{Builder, Job};
use runtime::metrics::MetricsPage;
use runtime::process::unix_ms;

use crate::budgets::shard::HandoverSlot;

/// How often shards' counts are taken.
const TAKEN_EVERY: Duration = Duration::from_millis(500);
/// Most copies of requests and their longest age; each takes at most 16 KiB.
const COPIES_MAX: usize = 256;
const COPY_MS_MAX: u64 = 3_600_000;

/// All funnels; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Funnels(Arc<FunnelsShared>);

#[derive(Debug)]
struct FunnelsShared {
    counts: SharedFunnels,
    slots: Vec<HandoverSlot>,
    /// The latest generation whose campaigns are followed.
    followed: AtomicU64,
    copies: Mutex<RequestCopies>,
}

/// Requests spread over the last hour.
#[derive(Debug, Default)]
struct RequestCopies {
    /// With their arrival, oldest first.
    copies: VecDeque<(u64, Box<[u8]>)>,
    /// Least interval between two.
    gap_ms: u64,
}

impl Funnels {
    pub fn new(shards: usize) -> Self {
        let counts = SharedFunnels::new(shards, unix_ms());
        let slots = counts.slots().iter().cloned().map(HandoverSlot::new).collect();
        let (followed, copies) = (AtomicU64::new(0), Mutex::default());
        Self(Arc::new(FunnelsShared { counts, slots, followed, copies }))
    }

    pub fn slots(&self) -> &[HandoverSlot] {
        &self.0.slots
    }

    /// Has `builder` take counts until the job is dropped.
    pub fn start(&self, builder: &Builder) -> Job {
        let funnels = self.clone();
        let job = builder.add("funnels", move || {
            funnels.take_counts(unix_ms());
            Some(TAKEN_EVERY)
        });
        job.run_soon();
        job
    }

    fn copies(&self) -> MutexGuard<'_, RequestCopies> {
        self.0.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the shards' counts, and drops what is too old.
    fn take_counts(&self, now_ms: u64) {
        self.0.counts.take(now_ms, std::thread::yield_now);
        for slot in &self.0.slots {
            let mut handover = slot.open();
            let mut copies = self.copies();
            handover.copies().iter().for_each(|body| copies.keep(now_ms, body));
            handover.clear();
        }
        // Also without traffic.
        self.copies().forget_old(now_ms);
    }

    /// Follows the campaigns of a generation, unless a later one is followed already.
    pub fn follow(&self, campaigns: impl Iterator<Item = CampaignIndex>, generation: u64) {
        let followed = || self.0.followed.fetch_max(generation, Ordering::Relaxed);
        self.0.counts.follow(campaigns, unix_ms(), || followed() > generation);
    }

    pub fn windows(&self, slot: CampaignIndex, flight: CampaignFlight) -> [FunnelWindow; 2] {
        self.0.counts.windows(slot, flight)
    }

    /// Tries a campaign's criteria on the copies, as if auctioned now. `direct` is the position of
    /// direct campaigns among the market's DSPs.
    pub fn probe(&self, campaign: &DirectCampaign, market: &Market, direct: usize) -> ProbeCounts {
        let oldest = unix_ms().saturating_sub(COPY_MS_MAX);
        let copies: Vec<Box<[u8]>> = {
            let copies = self.copies();
            let recent = copies.copies.iter().filter(|(at, _)| oldest <= *at);
            recent.map(|(_, body)| body.clone()).collect()
        };
        // A currency without a rate is not a criterion.
        let mut probe =
            Probe::new(&DirectCampaign { currency: market.currency, ..campaign.clone() });
        for body in copies {
            let Ok(text) = std::str::from_utf8(&body) else { continue };
            let Ok(request) = parse_request(text) else { continue };
            let Ok(auction) = Auction::new("probe", &request, market) else { continue };
            if let Ok(ask) = eligible_direct(&auction, direct) {
                probe.try_on(&auction, &ask);
            }
        }
        probe.finish()
    }

    pub fn expose(&self, page: &mut MetricsPage<'_>) -> fmt::Result {
        let help =
            "Impressions that are in no campaign's funnel: there were too many campaigns at once.";
        page.counters("exchange_direct_impressions_uncounted", help)?
            .value(&[], self.0.counts.dropped())
    }
}

impl RequestCopies {
    /// Keeps a request unless one came within the gap. When full, drops every second and doubles
    /// it.
    fn keep(&mut self, now_ms: u64, body: &[u8]) {
        self.forget_old(now_ms);
        if self.copies.back().is_some_and(|(at, _)| now_ms < at.saturating_add(self.gap_ms)) {
            return;
        }
        if self.copies.len() == COPIES_MAX {
            let mut is_kept = false;
            self.copies.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            let most = COPY_MS_MAX / (COPIES_MAX as u64 - 1);
            self.gap_ms = (2 * self.gap_ms).clamp(1_000, most + 1);
        }
        self.copies.push_back((now_ms, body.into()));
    }

    /// Drops copies that are too old, or that lie in the future of a clock set back.
    fn forget_old(&mut self, now_ms: u64) {
        let oldest = now_ms.saturating_sub(COPY_MS_MAX);
        self.copies.retain(|(at, _)| (oldest..=now_ms).contains(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_few_and_spread_over_the_last_hour() {
        let mut copies = RequestCopies::default();
        for second in 0..3 * 3600u64 {
            (0..4).for_each(|_| copies.keep(second * 1000, b"{}"));
            assert!(copies.copies.len() <= COPIES_MAX, "at {second} s");
            assert!(second < 100 || copies.copies.len() >= COPIES_MAX / 2 - 1, "at {second} s");
        }
        let times: Vec<u64> = copies.copies.iter().map(|(at, _)| *at).collect();
        let now = (3 * 3600 - 1) * 1000;
        assert!(
            times[0] >= now - COPY_MS_MAX && times[0] < now - COPY_MS_MAX * 9 / 10,
            "{times:?}"
        );
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.clone().max() <= Some(30_000) && gaps.min() >= Some(10_000), "{times:?}");
    }

    #[test]
    fn copies_are_forgotten_after_an_hour_without_traffic() {
        let funnels = Funnels::new(1);
        let now = unix_ms();
        funnels.copies().keep(now, b"{}");
        funnels.take_counts(now + COPY_MS_MAX);
        assert_eq!(funnels.copies().copies.len(), 1);
        funnels.take_counts(now + COPY_MS_MAX + 1);
        assert_eq!(funnels.copies().copies.len(), 0);
        // A clock set back keeps none of them longer.
        funnels.copies().keep(now, b"{}");
        funnels.take_counts(now - 1);
        assert_eq!(funnels.copies().copies.len(), 0);
    }

    #[test]
    fn campaigns_of_a_generation_before_are_not_followed() {
        let funnels = Funnels::new(1);
        funnels.follow([CampaignIndex(4)].into_iter(), 7);
        funnels.follow([].into_iter(), 3);
        funnels.0.counts.slots()[0].offer(|batch| batch.offered = 5);
        funnels.take_counts(unix_ms());
        let [hour, _] =
            funnels.windows(CampaignIndex(4), CampaignFlight { start_ms: 0, end_ms: u64::MAX });
        assert_eq!(hour.offered, 5, "it is followed still");
    }
}
