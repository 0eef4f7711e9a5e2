//! The memory of campaigns' funnels: counting impressions allocates nothing, and a book of them has
//! a fixed number of bytes per campaign.

use std::alloc::System;

use faults::process::isolated;
use pacer_core::funnel::{FunnelBatch, FunnelBook, FunnelBuffer, FunnelStep, ROWS_MIN, Shortfall};
use pacer_core::messages::CampaignIndex;
use stats_alloc::Region;
use units::{Cpm, Nanos};

use crate::ALLOCATOR;

const CAMPAIGNS: u32 = 1_200;
const START: u64 = 1_800_000_000_000;
const PART_MS: u64 = 600_000;

#[test]
fn counting_allocates_nothing_and_a_campaign_s_day_takes_so_much() {
    isolated(|| {
        let mut buffer = FunnelBuffer::default();
        let region = Region::new(ALLOCATOR);
        // More campaigns than fit.
        for slot in 0..2 * u32::try_from(ROWS_MIN).expect("few") {
            let mut place = 0;
            buffer.count(CampaignIndex(slot), &mut place, FunnelStep::Matched);
            buffer.fall_short(CampaignIndex(slot), &mut place, || Shortfall {
                bid: Cpm::ZERO,
                floor: Cpm::ZERO,
            });
            buffer.bill(CampaignIndex(slot), &mut place, Nanos::new(1));
        }
        buffer.offer(1);
        let change = region.change();
        assert_eq!((change.allocations, change.reallocations), (0, 0));

        // Each campaign is matched, outbid, below floors, wins and is billed, all day.
        let region = Region::new(ALLOCATOR);
        let mut book = FunnelBook::new(START);
        book.follow((0..CAMPAIGNS).map(CampaignIndex));
        let mut first = 0;
        for part in 0..=144 {
            book.advance(START + part * PART_MS);
            while book.fold_some(1_000) {}
            for slots in (0..CAMPAIGNS).collect::<Vec<_>>().chunks(ROWS_MIN) {
                let (mut buffer, mut taken) = (FunnelBuffer::default(), FunnelBatch::new());
                for slot in slots {
                    let mut place = 0;
                    for step in [FunnelStep::Matched, FunnelStep::Bid, FunnelStep::Outbid] {
                        (0..200).for_each(|_| buffer.count(CampaignIndex(*slot), &mut place, step));
                    }
                    (0..9).for_each(|_| {
                        buffer.count(CampaignIndex(*slot), &mut place, FunnelStep::BelowFloor);
                    });
                    buffer.bill(CampaignIndex(*slot), &mut place, Nanos::new(2_000_000));
                }
                buffer.hand_over(&mut taken);
                book.take(&mut taken);
            }
            if part == 0 {
                first = held(&region);
            }
        }
        let bytes = |held: usize| held / CAMPAIGNS as usize;
        assert!(bytes(first) <= 160, "{} bytes for a campaign at first", bytes(first));
        let day = held(&region);
        assert!(bytes(day) <= 700, "{} bytes for a campaign after a day", bytes(day));
    });
}

fn held(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated.saturating_sub(change.bytes_deallocated)
}
