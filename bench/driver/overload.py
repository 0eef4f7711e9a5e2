"""More requests than one shard can hold auctions for: how many are answered in time all the same.

The closed-loop maximum, then open loops at multiples of it over a thousand connections. In time is by
the hammer's clock, from the moment at which a request was meant to leave.
"""

import time

from driver import figures
from driver.programs import (
    CONFIG,
    Bench,
    Fleet,
    FleetOptions,
    Load,
    Server,
    Terms,
    fleet,
    hammer,
    serving,
)
from driver.throughput import START, WARM_UP_S, Say, line, measure

# Few are asked, so that the testbed's core has time to spare; many are configured, each of which the
# exchange considers for each request, so that an auction costs what it would among more.
ASKED, CONFIGURED = 8, 3000

CONNECTIONS = 1000
TMAX_MS = 100

# Multiples of the closed-loop maximum, and what of it, or of what is offered, is to be answered in
# time. Refusing costs too.
STEPS = (
    (0.8, "offered", 0.98),
    (1.0, "maximum", 0.90),
    (2.0, "maximum", 0.90),
    (4.0, "maximum", 0.75),
)

REFUSAL_MS_MAX = 10
RECOVERY_S = 1.0


def configuration(tables: str) -> str:
    """A file in which `tables` are asked, and others that are considered and never asked."""
    url = tables.partition('url = "')[2].partition('"')[0]
    others = "".join(
        f'[[dsp]]\nid = "idle-{place}"\nurl = "{url}"\nsample = "1ppm"\n\n'
        for place in range(CONFIGURED)
    )
    return CONFIG + tables + others


def overload(bench: Bench, seconds: int, say: Say) -> dict:
    """The maximum, each multiple of it, and the exchange a second later."""
    with fleet(bench, FleetOptions(ASKED)) as dsps:
        # What breakers keep from being asked would look like capacity.
        text = configuration(dsps.configuration(Terms(dsp="breaker = false\n")))
        with serving(bench, "vickrey", dsps, file_text=text) as server:
            hammer(bench, server.url, START)
            hammer(bench, server.url, Load(WARM_UP_S))
            closed = {"program": "vickrey"} | measure(bench, server, dsps, Load(seconds))
            say(f"  closed loop       {line(closed)}")
            most_per_s = closed["answers_per_s"]
            runs = [step(bench, (server, dsps), most_per_s, seconds, each) for each in STEPS]
            for run in runs:
                say(f"  {run_line(run)}")
            time.sleep(RECOVERY_S)
            again = step(bench, (server, dsps), most_per_s, seconds, STEPS[0])
            again["name"] = f"0.8 times, {RECOVERY_S:.0f} s later"
            runs.append(again)
            say(f"  {run_line(again)}")
    return conclude(closed, runs)


def step(
    bench: Bench,
    served: tuple[Server, Fleet],
    most_per_s: float,
    seconds: int,
    target: tuple[float, str, float],
) -> dict:
    """An open loop at a multiple of the maximum."""
    (server, dsps), times = served, target[0]
    rate_per_s = max(1, int(times * most_per_s))
    before = server.metrics()
    load = Load(seconds, rate_per_s, TMAX_MS, connections=CONNECTIONS)
    measured = measure(bench, server, dsps, load)
    counted = figures.since(before, server.metrics())
    refused = figures.sums_by(counted, "vickrey_requests_refused_total", "reason")
    own = {"name": f"{times:g} times", "rate_per_s": rate_per_s, "refused": refused}
    return measured | own | verdict(measured, seconds, (rate_per_s, most_per_s), target)


def verdict(
    measured: dict, seconds: int, rates: tuple[float, float], target: tuple[float, str, float]
) -> dict:
    """What was in time, as a share of what was offered or of the maximum, and what that meets."""
    (offered, most), (_, share_of, least) = rates, target
    in_time_per_s = measured["counts"]["in_time"] / seconds
    share = in_time_per_s / (offered if share_of == "offered" else most)
    refusal = measured["statuses"].get("503", {}).get("latency_us", {"p50": 0, "p99": 0})
    return {
        "in_time_per_s": round(in_time_per_s, 1),
        "share_of": share_of,
        "share": round(share, 3),
        "target": least,
        "refusal_us": refusal,
        "met": {"in time": share >= least, "refusals": refusal["p99"] <= 1000 * REFUSAL_MS_MAX},
    }


def run_line(run: dict) -> str:
    """A run, for who watches."""
    void = ", VOID" if run["void"] else ""
    return (
        f"{run['name']:<20} {run['rate_per_s']}/s, in time {run['in_time_per_s']:.0f}/s "
        f"({run['share']:.3f} of the {run['share_of']}, target {run['target']}), refusal p99 "
        f"{run['refusal_us']['p99']} µs, testbed core {run['testbed_core_busy']:.0%}{void}"
    )


def conclude(closed: dict, runs: list[dict]) -> dict:
    """What each run met, and all of them."""
    return {
        "name": "overload",
        "kind": "overload",
        "title": f"one shard, {ASKED} DSPs asked of {ASKED + CONFIGURED}, {CONNECTIONS} connections",
        "closed_loop": closed,
        "tmax_ms": TMAX_MS,
        "runs": runs,
        "met": all(is_met for run in runs for is_met in run["met"].values()),
        "void": any(run["void"] for run in runs),
        "problems": [problem for run in runs for problem in problems(run)],
    }


def problems(run: dict) -> list[str]:
    """What is wrong whatever the figures are: a refusal is an answer, anything else is not."""
    counts = run["counts"]
    kinds = ("client_errors", "bad_answers", "timeouts", "connect_errors", "broken", "abandoned")
    return [f"{run['name']}: {counts[kind]} {kind}" for kind in kinds if counts[kind]]
