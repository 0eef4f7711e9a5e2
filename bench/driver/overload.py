"""More requests than one shard has time for: how many are still answered in time.

The closed-loop maximum, then open loops at multiples of it over a thousand connections. The
hammer's clock decides what is in time, from the intended time of a request.
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

# Few DSPs are called, so that the testbed's core has idle time; many are configured and considered
# for each request, so that an auction costs as much as with more calls.
ASKED, CONFIGURED = 8, 3000

CONNECTIONS = 1000
TMAX_MS = 100

# Multiples of the closed-loop maximum, and the share of it, or of the offered load, that must be
# answered in time. Refusals cost time, too.
STEPS = (
    (0.8, "offered", 0.98),
    (1.0, "maximum", 0.90),
    (2.0, "maximum", 0.90),
    (4.0, "maximum", 0.75),
)

REFUSAL_MS_MAX = 10
RECOVERY_S = 1.0


def configuration(tables: str) -> str:
    """A file in which the DSPs of `tables` are called, and others are considered but never
    called."""
    url = tables.partition('url = "')[2].partition('"')[0]
    others = "".join(
        f'[[dsp]]\nid = "idle-{place}"\nurl = "{url}"\nsample = "1ppm"\n\n'
        for place in range(CONFIGURED)
    )
    return CONFIG + tables + others


def overload(bench: Bench, seconds: int, say: Say) -> dict:
    """The maximum, each multiple of it, and the exchange one second later."""
    with fleet(bench, FleetOptions(ASKED)) as dsps:
        # Calls that breakers prevent would look like capacity.
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
    """The answers in time, as a share of the offered load or of the maximum, and the targets
    met."""
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
    """A run, as a line of progress."""
    void = ", VOID" if run["void"] else ""
    return (
        f"{run['name']:<20} {run['rate_per_s']}/s, in time {run['in_time_per_s']:.0f}/s "
        f"({run['share']:.3f} of the {run['share_of']}, target {run['target']}), refusal p99 "
        f"{run['refusal_us']['p99']} µs, testbed core {run['testbed_core_busy']:.0%}{void}"
    )


def conclude(closed: dict, runs: list[dict]) -> dict:
    """The targets that each run met, and that all met."""
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
    """Failures, regardless of the figures: a refusal is an answer, anything else is not."""
    counts = run["counts"]
    kinds = ("client_errors", "bad_answers", "timeouts", "connect_errors", "broken", "abandoned")
    return [f"{run['name']}: {counts[kind]} {kind}" for kind in kinds if counts[kind]]
