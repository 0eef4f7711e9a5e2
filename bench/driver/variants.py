"""One feature at a time: notices, TLS, gzip; each compared with the same run without it.

A variant is a row: a program, its DSPs, its configuration, and its base row. Rounds go through all
of them in turn, as those of throughput do, but at one rate: a row with slower answers would do less
in a closed loop, and an idle core works in smaller, dearer batches.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from driver import figures, throughput
from driver.programs import (
    Bench,
    Child,
    Failed,
    FleetOptions,
    Load,
    Server,
    Terms,
    fleet,
    hammer,
    serving,
)
from driver.throughput import (
    PROBE_S,
    START,
    WARM_UP_S,
    Rounds,
    Say,
    line,
    measure,
    not_asked,
)

# Beacons are called at the exchange's own address, so this name need not resolve.
BEACONS = "http://bench.example/n/"

# How long subscribers may take to connect.
SUBSCRIBE_S = 20

# Threads that take part in auctions; the exchange's others serve delivery and operators.
SHARDS = "shard"


@dataclass(frozen=True)
class Variant:
    """One row."""

    name: str
    # The row to compare with; its own name if it is a base itself.
    base: str
    fleet: FleetOptions
    program: str = "vickrey"
    terms: Terms = Terms()
    beacons: str | None = None
    insecure: bool = False
    # The floor's row with the same DSPs. None without one.
    floor: str | None = None
    # Clients of the live feed that subscribe to every auction.
    subscribers: int = 0


@dataclass(frozen=True)
class Comparison:
    """A scenario of such rows."""

    name: str
    title: str
    notes: tuple[str, ...]
    variants: tuple[Variant, ...]
    # The row whose closed loop is the capacity, and the share of it offered to all.
    paced_by: str
    share: float
    # Minimum share of the base, by row.
    targets: dict[str, float]


# Most CPU of notices, as shares of an auction's.
NOTICES_MAX = 0.12
NOTICES_MAX_HTTP2 = 0.06


def notices() -> Comparison:
    """No notices; the winner's, over both versions of HTTP; and all losers' too. Beacons in all
    answers are called."""
    recorded = Terms(record=True)
    terms = replace(
        recorded,
        exchange=(
            f'[exchange.notices]\nurl = "{BEACONS}"\nmode = "final"\n'
            'networks_allowed = ["127.0.0.0/8"]\n'
        ),
    )
    two, two_off = (replace(each, dsp='http = "2"\n') for each in (terms, recorded))
    winners = FleetOptions(50, profile="notices = true\nloss_notices = false\n")
    losers = replace(winners, profile="notices = true\n")

    def off(name: str, fleet: FleetOptions, terms: Terms) -> Variant:
        return Variant(name, name, fleet, terms=terms, insecure=True)

    def on(name: str, base: str, fleet: FleetOptions, terms: Terms) -> Variant:
        return Variant(name, base, fleet, "vickrey", terms, BEACONS, True)

    return Comparison(
        "notices",
        "win and billing notices, and those of loss, among 50 DSPs",
        (
            "Requests take insecure ads, for the notices are not https.",
            "Without notices the bids carry the same URLs, and they are passed through. The record "
            "is on in all rows, for notices need it.",
            "With them, `nurl` is called after the answer and `burl` once the beacon is called, "
            "which the hammer does for every answer with a bid, on the connection of the answer; "
            "the server's time includes serving the beacon, the log's commits and the calls to DSPs.",
            "`nurl alone` leaves the beacons uncalled.",
            "12 % of an auction's CPU is a share of 0.893, and 6 % one of 0.943.",
        ),
        (
            off("off", winners, recorded),
            Variant("nurl alone", "off", winners, "vickrey", terms, None, True),
            on("nurl and burl", "off", winners, terms),
            off("off, HTTP/2", winners, two_off),
            on("nurl and burl, HTTP/2", "off, HTTP/2", winners, two),
            off("off, lurl in bids", losers, recorded),
            on("and all lurl", "off, lurl in bids", losers, terms),
        ),
        "off",
        0.5,
        {
            "nurl and burl": round(1 / (1 + NOTICES_MAX), 3),
            "nurl and burl, HTTP/2": round(1 / (1 + NOTICES_MAX_HTTP2), 3),
        },
    )


def codings() -> Comparison:
    """TLS to DSPs, answers in gzip, and both, compared with neither; each with a floor that has the
    same."""
    plain = FleetOptions(50, profile="# As they are.\n")
    zipped = replace(plain, profile='[[dsp.phase]]\nkind = "gzip"\n')
    as_is = Terms()
    gzip = Terms(dsp="gzip = true\n", floor=("--gzip",))
    rows: list[Variant] = []
    for name, floor, options, terms in (
        ("plain", "floor", plain, as_is),
        ("gzip", "floor, gzip", zipped, gzip),
        ("TLS", "floor, TLS", replace(plain, tls=True), as_is),
        ("TLS and gzip", "floor, TLS and gzip", replace(zipped, tls=True), gzip),
    ):
        rows.append(Variant(floor, "floor", options, "floor", terms))
        rows.append(Variant(name, "plain", options, terms=terms, floor=floor))
    return Comparison(
        "tls-gzip",
        "TLS to DSPs and answers in gzip, among 50 DSPs",
        (
            "Each floor has the codings of the row after it: it asks for gzip and inflates every "
            "answer, and speaks TLS by the same library, provider and versions. What the exchange "
            "adds is the difference of the two rows' µs; the dearer the codings, the nearer to 1 "
            "their ratio.",
            "Connections to DSPs are kept alive, so handshakes are part of the warm-up.",
        ),
        tuple(rows),
        "plain",
        0.3,
        {},
    )


def run(bench: Bench, comparison: Comparison, rounds: Rounds, say: Say) -> dict:
    """Every variant in turn, round by round, at a share of the core's capacity."""
    (paced_by,) = (each for each in comparison.variants if each.name == comparison.paced_by)
    closed = one_round(bench, paced_by, (rounds.latency_ms, PROBE_S, None), 0)
    say(f"  closed loop           {line(closed)}")
    rate_per_s = max(1, int(comparison.share * closed["answers_per_s"]))
    measured: list[dict] = []
    for number in range(1, rounds.count + 1):
        for variant in comparison.variants:
            pace = (rounds.latency_ms, rounds.seconds, rate_per_s)
            measured.append(one_round(bench, variant, pace, number))
            say(f"  round {number} at {rate_per_s:>4}/s    {line(measured[-1])}")
    return conclude(comparison, rounds.latency_ms, rate_per_s, measured)


def one_round(
    bench: Bench, variant: Variant, pace: tuple[int, int, int | None], number: int
) -> dict:
    """Fresh DSPs and a fresh server, warmed up, measured, and stopped. `pace` is the latency of
    DSPs in milliseconds, the measured seconds, and the rate of an open loop."""
    latency_ms, seconds, rate_per_s = pace
    options = replace(variant.fleet, latency_ms=latency_ms)
    with fleet(bench, options) as dsps:
        with serving(bench, variant.program, dsps, variant.terms) as server:
            load = Load(seconds, rate_per_s, beacons=variant.beacons, insecure=variant.insecure)
            gentle = replace(
                load, seconds=START.seconds, rate_per_s=None, in_flight=START.in_flight
            )
            hammer(bench, server.url, gentle)
            with subscribed(bench, server, variant.subscribers):
                hammer(bench, server.url, replace(load, seconds=WARM_UP_S))
                before = server.metrics()
                measured = measure(bench, server, dsps, load)
                after = server.metrics()
                counts = figures.since(before, after)
            server.child.stop()
            said = figures.name_value_pairs(server.child.stderr.read_text())
        called = dsps.notices()
    calls = figures.sums_by(counts, "vickrey_exchange_dsp_calls_total", "outcome")
    lost = {name: n for name, n in calls.items() if n and name not in ("answered", "no_bid")}
    lost |= {name: int(said[name]) for name in ("failed",) if said.get(name)}
    shards_s = measured["server_threads_s"].get(SHARDS, 0.0)
    return measured | {
        "program": variant.name,
        "round": number,
        "calls_lost": lost,
        "asked": figures.asked_share(counts, measured["auctions"], options.dsps),
        "shards_cpu_s": shards_s,
        "auctions_per_shard_cpu_s": round(measured["auctions"] / shards_s, 1) if shards_s else None,
        "connections": int(figures.total(after, "vickrey_exchange_dsp_connections")),
        "subscribers": variant.subscribers,
        "delivered": int(figures.total(counts, "vickrey_live_delivered_total")),
        "notices_seen_by_dsps": called,
        "notices_in_window": notices_of(counts),
        "reservations": reservations_of(counts),
        "bids_per_auction": figures.total(counts, "vickrey_exchange_bids_total") / measured["auctions"],
    }


@contextmanager
def subscribed(bench: Bench, server: Server, count: int) -> Iterator[None]:
    """So many clients on the testbed's core that read every auction from the feed."""
    if not count:
        yield
        return
    address = server.child.wait_for(server.child.stderr, r"the live floor is at (\S+)\n")
    argv = [bench.programs / "vickrey", "hammer", "live", "--address", address, "--topic", "auctions"]
    argv += ["--publishers", "0", "--subscribers", str(count), "--duration", "1h"]
    with Child(bench, "subscribers", argv, bench.testbed_core) as child:
        deadline = time.monotonic() + SUBSCRIBE_S
        while figures.total(server.metrics(), "vickrey_live_subscriptions") < count:
            if child.process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"the subscribers did not start: {child.said()}")
            time.sleep(0.1)
        yield


def notices_of(counts: list[figures.Sample]) -> dict[str, int]:
    """Notices that the exchange delivered, and those that failed."""
    outcomes = figures.sums_by(counts, "vickrey_exchange_notices_total", "outcome")
    delivered = outcomes.pop("delivered", 0)
    return {"delivered": delivered, "not_delivered": sum(outcomes.values())}


def reservations_of(counts: list[figures.Sample]) -> dict[str, int]:
    """Reservations and settlements; zeros without accounts."""
    outcomes = figures.sums_by(counts, "vickrey_exchange_reservations_total", "outcome")
    return {
        "reserved": outcomes.get("reserved", 0),
        "settled": outcomes.get("won", 0) + outcomes.get("won_late", 0),
        "refused": int(figures.total(counts, "vickrey_exchange_wins_refused_total")),
    }


def conclude(
    comparison: Comparison, latency_ms: int, rate_per_s: int, measured: list[dict]
) -> dict:
    """Medians over the rounds, and their ratios to those of their base rows, which come earlier."""
    rows: dict[str, dict] = {}
    notes = list(comparison.notes)
    for variant in comparison.variants:
        own = [each for each in measured if each["program"] == variant.name]
        if not own:
            continue
        row = figures.spread([each["auctions_per_cpu_s"] for each in own])
        shards = [each["auctions_per_shard_cpu_s"] or 0.0 for each in own]
        row["shards_median"] = figures.spread(shards)["median"]
        base = rows[variant.base] if variant.base != variant.name else row
        row["base"] = variant.base
        row["of_base"] = figures.ratio(row["median"], base["median"])
        row["shards_of_base"] = figures.ratio(row["shards_median"], base["shards_median"])
        row["floor"] = variant.floor
        floor = rows[variant.floor] if variant.floor else None
        row["of_floor"] = figures.ratio(row["median"], floor["median"]) if floor else None
        row["target"] = comparison.targets.get(variant.name)
        notes += throughput.notes(variant.fleet.dsps, own)
        rows[variant.name] = row
    return {
        "name": comparison.name,
        "kind": "variants",
        "title": comparison.title,
        "latency_ms": latency_ms,
        "rate_per_s": rate_per_s,
        "share": comparison.share,
        "paced_by": comparison.paced_by,
        "void": any(each["void"] for each in measured),
        "rows": rows,
        "notes": notes,
        "rounds": measured,
        "problems": [problem for each in measured for problem in problems(each)],
    }


def problems(each: dict) -> list[str]:
    """Failures, regardless of the figures."""
    name = f"{each['program']}, round {each['round']}"
    found = []
    if each["errors"]:
        found.append(f"{name}: {each['errors']} requests went wrong")
    found += not_asked(name, each)
    beacons = each["counts"]
    if beacons["beacons_failed"]:
        found.append(f"{name}: {beacons['beacons_failed']} of {beacons['beacons']} beacons failed")
    for kind, seen in each["notices_seen_by_dsps"].items():
        wrong = {name: seen[name] for name in ("malformed", "repeated", "overpriced") if seen[name]}
        found += [f"{name}: {n} {kind} were {what}" for what, n in wrong.items()]
    if each["notices_in_window"]["not_delivered"]:
        found.append(f"{name}: {each['notices_in_window']['not_delivered']} notices not delivered")
    return found
