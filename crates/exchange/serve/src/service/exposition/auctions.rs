//! Metrics of auctions: outcomes, phases and bids.

use std::fmt;

use exchange_core::{EnrichmentOutcome, Fate};
use openrtb::InvalidReason;
use openrtb::codes::NoBidReason;
use runtime::metrics::{MetricsPage, PerShard};

use crate::generation::Generation;
use crate::metrics::ExchangeMetrics;

pub(super) fn expose(
    shards: &PerShard<ExchangeMetrics>,
    page: &mut MetricsPage<'_>,
) -> fmt::Result {
    expose_auctions(shards, page)?;
    expose_phases(shards, page)?;
    let mut fates = page.counters("exchange_bids", "Bids by fate and loss code.")?;
    for fate in Fate::ALL {
        let code = fate.code().to_string();
        let labels = [("fate", fate.label()), ("code", code.as_str())];
        fates.sum(&labels, shards.iter().map(|shard| &shard.fates[fate as usize]))?;
    }
    Ok(())
}

fn expose_auctions(shards: &PerShard<ExchangeMetrics>, page: &mut MetricsPage<'_>) -> fmt::Result {
    let mut auctions = page.counters("exchange_auctions", "Answers to bid requests by outcome.")?;
    auctions.sum(&[("outcome", "filled")], shards.iter().map(|shard| &shard.filled))?;
    for (index, reason) in NoBidReason::ALL.iter().enumerate() {
        let counters = shards.iter().map(|shard| &shard.no_bids[index]);
        auctions.sum(&[("outcome", reason.label())], counters)?;
    }
    auctions.sum(&[("outcome", "abandoned")], shards.iter().map(|shard| &shard.abandoned))?;
    auctions.sum(&[("outcome", "turned_away")], shards.iter().map(|shard| &shard.turned_away))?;
    let mut invalid = page.counters("exchange_invalid_requests", "Refused bodies by reason.")?;
    for (index, reason) in InvalidReason::ALL.iter().enumerate() {
        let counters = shards.iter().map(|shard| &shard.invalid[index]);
        invalid.sum(&[("reason", reason.label())], counters)?;
    }
    let help = "Request fields whose type is not OpenRTB's, which DSPs do not receive.";
    page.counters("exchange_request_fields_dropped", help)?
        .sum(&[], shards.iter().map(|shard| &shard.mistyped))?;
    let help = "Winning bids and VAST documents stored for pages and players.";
    page.counters("exchange_markup_stored", help)?
        .sum(&[], shards.iter().map(|shard| &shard.markup_stored))?;
    page.counters("exchange_markup_unstored", "Those that were too large to be stored.")?
        .sum(&[], shards.iter().map(|shard| &shard.markup_unstored))?;
    let help = "DSP connections closed because their code panicked.";
    page.counters("exchange_reactor_panics", help)?
        .sum(&[], shards.iter().map(|shard| &shard.reactor_panics))?;
    page.counters("exchange_handshakes_failed", "TLS handshakes of callers that failed.")?
        .sum(&[], shards.iter().map(|shard| &shard.handshakes_failed))?;
    page.counters("exchange_test_auctions", "Auctions with `test`, which move no money.")?
        .sum(&[], shards.iter().map(|shard| &shard.tests))?;
    let mut impressions =
        page.counters("exchange_impressions", "Impressions auctioned and sold.")?;
    impressions.sum(&[("state", "offered")], shards.iter().map(|shard| &shard.impressions))?;
    impressions.sum(&[("state", "no_rate")], shards.iter().map(|shard| &shard.unpriced))?;
    impressions.sum(&[("state", "sold")], shards.iter().map(|shard| &shard.sold))?;
    let help = "Matches of campaigns and impressions beyond exchange.direct.matches_max.";
    page.counters("exchange_direct_matches_left_out", help)?
        .sum(&[], shards.iter().map(|shard| &shard.direct_left_out))
}

pub(super) fn expose_enrichments(
    generation: &Generation,
    page: &mut MetricsPage<'_>,
) -> fmt::Result {
    let help = "Enrichments of auctions by outcome.";
    let mut outcomes = page.counters("exchange_enrichments", help)?;
    for (name, metrics) in generation.enrichments() {
        for outcome in EnrichmentOutcome::ALL {
            let labels = [("enrichment", name), ("outcome", outcome.label())];
            let counters = metrics.iter().map(|shard| &shard.outcomes[outcome as usize]);
            outcomes.sum(&labels, counters)?;
        }
    }
    let help = "Age of the data that was added to requests.";
    let mut ages = page.histograms("exchange_enrichment_age_seconds", help)?;
    for (name, metrics) in generation.enrichments() {
        ages.sum(&[("enrichment", name)], metrics.iter().map(|shard| &shard.age))?;
    }
    Ok(())
}

fn expose_phases(shards: &PerShard<ExchangeMetrics>, page: &mut MetricsPage<'_>) -> fmt::Result {
    let mut phases =
        page.histograms("exchange_phase_seconds", "Time in each phase of an auction.")?;
    phases.sum(&[("phase", "receive")], shards.iter().map(|shard| &shard.receive))?;
    phases.sum(&[("phase", "parse")], shards.iter().map(|shard| &shard.parse))?;
    phases.sum(&[("phase", "ask")], shards.iter().map(|shard| &shard.ask))?;
    phases.sum(&[("phase", "collect")], shards.iter().map(|shard| &shard.collect))?;
    phases.sum(&[("phase", "clear")], shards.iter().map(|shard| &shard.clear))?;
    phases.sum(&[("phase", "answer")], shards.iter().map(|shard| &shard.answer))?;
    phases.sum(&[("phase", "total")], shards.iter().map(|shard| &shard.total))?;
    let help = "Time by which answers missed arrival + tmax; only misses are recorded.";
    page.histograms("exchange_overshoot_seconds", help)?
        .sum(&[], shards.iter().map(|shard| &shard.overshoot))
}
