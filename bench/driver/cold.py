"""The first seconds of an exchange without open connections, at a constant rate, with breakers.

Each round has a fresh fleet and a fresh server without warm-up. Owns the rate; the other scenarios
measure the time after this.
"""

from dataclasses import replace

from driver import figures
from driver.programs import NO_TERMS, Bench, FleetOptions, Load, fleet, hammer, serving
from driver.scenarios import DSPS, TMAX_MS
from driver.throughput import Rounds, Say, measure

RATE_PER_S = 500
SECONDS = 6
LATENCY_MS = 20


def cold(bench: Bench, rounds: Rounds, say: Say) -> dict:
    """Starts without TLS to DSPs, and with it."""
    options = FleetOptions(DSPS, latency_ms=LATENCY_MS)
    starts = []
    for number in range(1, rounds.count + 1):
        for name, is_tls in (("plain", False), ("TLS", True)):
            row = {"name": name, "round": number} | start(bench, replace(options, tls=is_tls))
            starts.append(row)
            say(f"  round {number}  {line(row)}")
    return {
        "name": "cold",
        "kind": "cold",
        "title": f"the first {SECONDS} s of an exchange, {DSPS} DSPs",
        "rate_per_s": RATE_PER_S,
        "seconds": SECONDS,
        "tmax_ms": TMAX_MS,
        "latency_ms": LATENCY_MS,
        "starts": starts,
        "void": False,
        "problems": [
            f"{row['name']}: {row['errors']} requests went wrong" for row in starts if row["errors"]
        ],
    }


def start(bench: Bench, options: FleetOptions) -> dict:
    """One start."""
    with fleet(bench, options) as dsps:
        with serving(bench, "vickrey", dsps, NO_TERMS) as server:
            before = server.metrics()
            load = Load(SECONDS, RATE_PER_S, TMAX_MS)
            measured = measure(bench, server, dsps, load)
            counts = figures.since(before, server.metrics())
    auctions = int(figures.total(counts, "vickrey_exchange_auctions_total"))
    calls = figures.sums_by(counts, "vickrey_exchange_dsp_calls_total", "outcome")
    measured |= {"overshoot_exchange_us": figures.overshoot_us(counts, auctions)}
    return {
        "auctions": auctions,
        "filled": int(figures.total(counts, "vickrey_exchange_auctions_total", outcome="filled")),
        "past_deadline": figures.past_deadline(measured),
        "most_past_us": figures.worst_overshoot_us(measured, "max"),
        "errors": measured["errors"],
        "opened": int(figures.total(counts, "vickrey_exchange_dsp_connections_opened_total")),
        "unsent": calls.get("unsent", 0),
        "late": calls.get("late", 0),
        "not_asked": int(figures.total(counts, "vickrey_exchange_dsp_not_asked_total", reason="breaker")),
    }


def line(row: dict) -> str:
    """A start, as a line of progress."""
    late = row["past_deadline"]
    return (
        f"{row['name']:<6} {row['filled']} of {row['auctions']} filled; past the deadline "
        f"{late['exchange']} by the exchange, {late['hammer']} by the hammer; {row['opened']} "
        f"connections; calls unsent {row['unsent']}, late {row['late']}, kept back by breakers "
        f"{row['not_asked']}"
    )
