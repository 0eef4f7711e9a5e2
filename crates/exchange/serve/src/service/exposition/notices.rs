//! Metrics of notices and beacons.

use std::fmt;

use exchange_core::{BeaconTokenError, NoBeacon, NotSent};
use runtime::metrics::{MetricsPage, PerShard};

use crate::config::DIRECT_DSP;
use crate::generation::Generation;
use crate::metrics::ExchangeMetrics;
use crate::notices::NoticeMonitor;

pub(super) fn expose(
    generation: &Generation,
    shards: &PerShard<ExchangeMetrics>,
    dispatcher: Option<&NoticeMonitor>,
    page: &mut MetricsPage<'_>,
) -> fmt::Result {
    let counted = dispatcher.map(|dispatcher| dispatcher.status().counters).unwrap_or_default();
    let mut notices = page.counters("exchange_notices", "Notices to DSPs, by outcome.")?;
    for (kind, outcome, count) in [
        ("billing", "delivered", counted.billing_delivered),
        ("billing", "given_up", counted.billing_given_up),
        ("best_effort", "delivered", counted.best_effort_delivered),
        ("best_effort", "failed", counted.best_effort_failed),
        ("best_effort", "shed", counted.best_effort_shed),
    ] {
        notices.value(&[("kind", kind), ("outcome", outcome)], count)?;
    }
    let refused = shards.iter().map(|shard| &shard.notices_refused);
    notices.sum(&[("kind", "any"), ("outcome", "queue_full")], refused)?;
    let help = "Failed attempts to send a notice, which may be repeated.";
    page.counters("exchange_notice_tries_failed", help)?.value(&[], counted.tries_failed)?;
    let mut waiting = page.gauges("exchange_notices_waiting", "Notices not yet delivered.")?;
    let level = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    waiting.value(&[("kind", "billing")], level(counted.billing_owed))?;
    waiting.value(&[("kind", "best_effort")], level(counted.best_effort_waiting))?;
    let mut beacons = page.counters("exchange_beacons", "Calls of beacons, by outcome.")?;
    for (outcome, count) in [
        ("accepted", counted.beacons_accepted),
        ("duplicate", counted.beacons_duplicate),
        ("busy", counted.beacons_busy),
        ("unjournalled", counted.beacons_unjournalled),
    ] {
        beacons.value(&[("outcome", outcome)], count)?;
    }
    let without_notice = shards.iter().map(|shard| &shard.beacons_without_notice);
    beacons.sum(&[("outcome", "no_notice")], without_notice)?;
    let passed_on = shards.iter().map(|shard| &shard.beacons_passed_on);
    beacons.sum(&[("outcome", "passed_on")], passed_on)?;
    let not_passed_on = shards.iter().map(|shard| &shard.beacons_not_passed_on);
    beacons.sum(&[("outcome", "not_passed_on")], not_passed_on)?;
    let foreign = shards.iter().map(|shard| &shard.beacons_foreign);
    beacons.sum(&[("outcome", "unknown_node")], foreign)?;
    for error in BeaconTokenError::ALL {
        let refused = shards.iter().map(|shard| shard.beacons_refused[error as usize].value());
        // Some expire between their opening and the dispatcher.
        let since = if error == BeaconTokenError::Expired { counted.beacons_expired } else { 0 };
        beacons.value(&[("outcome", error.label())], refused.sum::<u64>() + since)?;
    }
    expose_upstream(shards, page)?;
    let help = "Notices that bids request and that are not sent, by reason.";
    let mut unsent = page.counters("exchange_notices_unsent", help)?;
    for (id, shards) in generation.dsp_metrics() {
        for why in NotSent::ALL {
            let counters = shards.iter().map(|dsp| &dsp.unsent[why as usize]);
            unsent.sum(&[("dsp", id), ("reason", why.label())], counters)?;
        }
    }
    let help =
        "Ads returned without our beacon, by reason. Only `insecure` ones are billed: at once.";
    let mut unmarked = page.counters("exchange_ads_unmarked", help)?;
    let direct = generation.direct.iter().map(|direct| (DIRECT_DSP, &direct.metrics));
    for (id, shards) in generation.dsp_metrics().chain(direct) {
        for why in NoBeacon::ALL {
            let counters = shards.iter().map(|dsp| &dsp.unmarked[why as usize]);
            unmarked.sum(&[("dsp", id), ("reason", why.label())], counters)?;
        }
    }
    Ok(())
}

fn expose_upstream(shards: &PerShard<ExchangeMetrics>, page: &mut MetricsPage<'_>) -> fmt::Result {
    let help = "Bids with a `burl` that an upstream billed, by whether it reported a price.";
    let mut prices = page.counters("exchange_upstream_prices", help)?;
    prices.sum(&[("outcome", "told")], shards.iter().map(|shard| &shard.upstream_priced))?;
    let unreadable = shards.iter().map(|shard| &shard.upstream_unreadable);
    prices.sum(&[("outcome", "unreadable")], unreadable)?;
    let help = "Payments that upstream auctions reported, in the exchange's currency.";
    let mut paid = page.counters("exchange_upstream_payments", help)?;
    paid.sum_of_nanos(&[], shards.iter().map(|shard| &shard.upstream_nanos))
}
