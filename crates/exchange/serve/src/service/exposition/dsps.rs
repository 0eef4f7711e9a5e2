//! Metrics by DSP and seat: calls, guards and wins.

use std::fmt;

use exchange_core::guard::{BreakerState, GuardStatus};
use exchange_core::record::CallOutcome;
use exchange_core::{NotAsked, ResponseFate};
use runtime::metrics::MetricsPage;

use crate::generation::{DspInForce, Generation};
use crate::guards::Guards;

pub(super) fn expose(
    generation: &Generation,
    guards: &Guards,
    page: &mut MetricsPage<'_>,
) -> fmt::Result {
    expose_calls(generation, page)?;
    expose_guards(generation, guards, page)
}

fn expose_calls(generation: &Generation, page: &mut MetricsPage<'_>) -> fmt::Result {
    let mut calls = page.counters("exchange_dsp_calls", "Calls to DSPs by outcome.")?;
    for (id, shards) in generation.dsp_metrics() {
        for outcome in CallOutcome::ALL {
            let labels = [("dsp", id), ("outcome", outcome.label())];
            calls.sum(&labels, shards.iter().map(|dsp| &dsp.outcomes[outcome as usize]))?;
        }
    }
    let mut responses =
        page.counters("exchange_dsp_responses", "Responses with a body, by content.")?;
    for (id, shards) in generation.dsp_metrics() {
        for fate in ResponseFate::ALL {
            let labels = [("dsp", id), ("content", fate.label())];
            responses.sum(&labels, shards.iter().map(|dsp| &dsp.responses[fate as usize]))?;
        }
    }
    let help = "Bids ignored because their response had more bids than the limit.";
    let mut surplus = page.counters("exchange_dsp_surplus_bids", help)?;
    for (id, shards) in generation.dsp_metrics() {
        surplus.sum(&[("dsp", id)], shards.iter().map(|dsp| &dsp.surplus_bids))?;
    }
    let help = "Requests for which a DSP was not asked, by reason.";
    let mut not_asked = page.counters("exchange_dsp_not_asked", help)?;
    for (id, shards) in generation.dsp_metrics() {
        for reason in NotAsked::ALL {
            let labels = [("dsp", id), ("reason", reason.label())];
            not_asked.sum(&labels, shards.iter().map(|dsp| &dsp.not_asked[reason as usize]))?;
        }
    }
    let help = "Calls repeated because the DSP had closed an idle connection.";
    let mut retries = page.counters("exchange_dsp_retries", help)?;
    for (id, shards) in generation.dsp_metrics() {
        retries.sum(&[("dsp", id)], shards.iter().map(|dsp| &dsp.retries))?;
    }
    let help = "Responses that arrived after their auction had closed; read and discarded.";
    let mut drained = page.counters("exchange_dsp_late_answers", help)?;
    for (id, shards) in generation.dsp_metrics() {
        drained.sum(&[("dsp", id)], shards.iter().map(|dsp| &dsp.drained))?;
    }
    let help = "HTTP/2 streams reset because their auction had closed.";
    let mut reset = page.counters("exchange_dsp_streams_reset", help)?;
    for (id, shards) in generation.dsp_metrics() {
        reset.sum(&[("dsp", id)], shards.iter().map(|dsp| &dsp.streams_reset))?;
    }
    let mut opened = page.counters("exchange_dsp_connections_opened", "Connections opened.")?;
    for (id, shards) in generation.dsp_metrics() {
        opened.sum(&[("dsp", id)], shards.iter().map(|dsp| &dsp.opened))?;
    }
    let mut open = page.gauges("exchange_dsp_connections", "Connections open.")?;
    for (id, shards) in generation.dsp_metrics() {
        open.sum(&[("dsp", id)], shards.iter().map(|dsp| &dsp.open))?;
    }
    let mut latency =
        page.histograms("exchange_dsp_latency_seconds", "Time from request to response, by DSP.")?;
    for (id, shards) in generation.dsp_metrics() {
        latency.sum(&[("dsp", id)], shards.iter().map(|dsp| &dsp.latency))?;
    }
    Ok(())
}

fn expose_guards(
    generation: &Generation,
    guards: &Guards,
    page: &mut MetricsPage<'_>,
) -> fmt::Result {
    let of = |(id, dsp): (_, &DspInForce)| Some((id, guards.status(dsp.guard)?));
    let dsps = generation.dsp_ids().zip(&generation.dsps);
    let known: Vec<(&str, GuardStatus)> = dsps.filter_map(of).collect();
    let help = "State of a DSP's breaker: 0 closed, 1 throttled, 2 paused.";
    let mut states = page.gauges("exchange_dsp_breaker_state", help)?;
    for (id, status) in &known {
        let state = match status.state {
            BreakerState::Closed => 0,
            BreakerState::Throttled { .. } => 1,
            BreakerState::Paused => 2,
        };
        states.value(&[("dsp", *id)], state)?;
    }
    let mut in_flight = page.gauges("exchange_dsp_in_flight", "Calls in flight, by DSP.")?;
    for (id, status) in &known {
        let calls = i64::try_from(status.in_flight).unwrap_or(i64::MAX);
        in_flight.value(&[("dsp", *id)], calls)?;
    }
    Ok(())
}

pub(super) fn expose_seats(generation: &Generation, page: &mut MetricsPage<'_>) -> fmt::Result {
    let seats = || {
        let direct = generation.direct.iter().map(|direct| &direct.seats);
        let counted = generation.dsps.iter().map(|dsp| &dsp.seats).chain(direct);
        generation.config.market.dsps.iter().zip(counted).flat_map(|(rules, counted)| {
            let named = rules.seats.iter().zip(counted);
            named.map(move |(seat, shards)| (&*rules.id, &**seat, shards))
        })
    };
    let mut wins = page.counters("exchange_seat_wins", "Impressions won, by seat.")?;
    for (dsp, seat, shards) in seats() {
        wins.sum(&[("dsp", dsp), ("seat", seat)], shards.iter().map(|seat| &seat.wins))?;
    }
    let help = "Amounts that seats owe, in the exchange's currency.";
    let mut revenue = page.counters("exchange_seat_revenue", help)?;
    for (dsp, seat, shards) in seats() {
        let owed = shards.iter().map(|seat| &seat.revenue_nanos);
        revenue.sum_of_nanos(&[("dsp", dsp), ("seat", seat)], owed)?;
    }
    Ok(())
}
