"""The cost of hostile DSPs to the healthy ones beside them: the same open loop without them, with
them, and with them and breakers.

Owns the split of the testbed's profile file, the runs, and the targets.
"""

import re
from dataclasses import replace
from pathlib import Path

from driver import figures
from driver.figures import Sample
from driver.programs import Bench, Fleet, FleetOptions, Load, Terms, fleet, hammer, serving
from driver.scenarios import TMAX_MS
from driver.throughput import START, Say, line, measure

PROFILES = Path(__file__).resolve().parents[2] / "deploy/testbed/hostile.toml"

# Healthy DSPs take tens of milliseconds, so a closed loop reaches its maximum only with far more
# auctions in flight than the cores can process at once.
CAPACITY_IN_FLIGHT = 96
CAPACITY_S = 8

# Time for the breakers to react under the load that is then measured.
SETTLE_S = 3

BREAKER_OFF = "breaker = false\n"

HEALTHY, HOSTILE = "dsp", "hostile"

TARGETS = {
    "overshoot_p999_us": 1000.0,
    "overshoot_max_us": 10_000.0,
    "lost": 0,
    "failed": 0,
    "healthy_bids_counted": 0.999,
    "healthy_throughput": 0.95,
}


def fleets_of(profiles: str) -> tuple[FleetOptions, FleetOptions]:
    """The healthy DSPs of a profile file and, separately, those with a faulty phase, so that each
    side has its own counts. Notices are omitted: no server delivers them here, and they are not
    https, which the reference request requires of everything in an ad."""
    profiles = re.sub(r"(?m)^notices = true\n", "", profiles)
    head, *groups = re.split(r"(?m)^(?=\[\[dsp\]\])", profiles)
    sides = []
    for name, is_sick in ((HEALTHY, False), (HOSTILE, True)):
        chosen = [group for group in groups if ("[[dsp.phase]]" in group) == is_sick]
        counts = [re.search(r"(?m)^count = (\d+)$", group) for group in chosen]
        dsps = sum(int(count[1]) if count else 1 for count in counts)
        if dsps == 0:
            raise ValueError(f"the profile file has no {name} DSPs")
        sides.append(FleetOptions(dsps, profiles=head + "".join(chosen), name=name))
    return sides[0], sides[1]


def hostile(bench: Bench, seconds: int, share: float, say: Say) -> dict:
    """Capacity with the healthy DSPs alone, then an open loop at a share of it, three times."""
    healthy, sick = fleets_of(PROFILES.read_text())
    # Breakers must not mistake overload for faults: calls that are not made cost nothing.
    terms = Terms(dsp=BREAKER_OFF)
    with fleet(bench, healthy) as dsps, serving(bench, "vickrey", dsps, terms) as server:
        hammer(bench, server.url, START)
        load = Load(min(seconds, CAPACITY_S), in_flight=CAPACITY_IN_FLIGHT)
        closed = {"program": "vickrey"} | measure(bench, server, dsps, load)
    say(f"  closed loop       {line(closed)}")
    rate_per_s = max(1, int(share * closed["answers_per_s"]))
    load = Load(seconds, rate_per_s, TMAX_MS)
    runs = []
    for name, sides, breaker in (
        ("without", [healthy], False),
        ("breaker off", [healthy, sick], False),
        ("breaker on", [healthy, sick], True),
    ):
        runs.append({"name": name} | open_loop(bench, sides, breaker, load))
        runs[-1] |= against(runs[-1], runs[0], healthy.dsps)
        runs[-1]["met"] = verdicts(runs[-1])
        say(f"  {run_line(rate_per_s, runs[-1])}")
    return {
        "name": "hostile",
        "kind": "hostile",
        "title": f"{sick.dsps} hostile DSPs beside {healthy.dsps}, {seconds} s a run",
        "closed_loop": closed,
        "closed_loop_in_flight": CAPACITY_IN_FLIGHT,
        "share": share,
        "rate_per_s": rate_per_s,
        "tmax_ms": TMAX_MS,
        "targets": TARGETS,
        "runs": runs,
        "void": any(run["void"] for run in runs),
        "problems": [problem for run in runs for problem in problems(run)],
    }


def open_loop(bench: Bench, sides: list[FleetOptions], breaker: bool, load: Load) -> dict:
    """One run, and the counts of the healthy DSPs and the exchange, both since their start."""
    terms = Terms() if breaker else Terms(dsp=BREAKER_OFF)
    hurt = {}
    with fleet(bench, sides[0]) as healthy:
        fleets: list[Fleet] = [healthy]
        if len(sides) > 1:
            with fleet(bench, sides[1]) as sick:
                fleets.append(sick)
                before, measured, after = one_window(bench, fleets, terms, load)
                hurt = sick.totals()
        else:
            before, measured, after = one_window(bench, fleets, terms, load)
        totals = healthy.totals()
    counts = figures.since(before, after)
    return measured | {
        "breaker": breaker,
        "overshoot_exchange_us": figures.overshoot_us(
            counts, int(figures.total(counts, "vickrey_exchange_auctions_total"))
        ),
        "auctions_exchange": books_of_auctions(counts),
        "healthy": books_of_bids(totals, after),
        "healthy_calls_in_window": calls_of(counts, HEALTHY),
        "hostile_calls_in_window": calls_of(counts, HOSTILE),
        "hostile": hurt,
    }


def one_window(
    bench: Bench, fleets: list[Fleet], terms: Terms, load: Load
) -> tuple[list[Sample], dict, list[Sample]]:
    """A fresh exchange, warmed up under the load that is then measured."""
    with serving(bench, "vickrey", fleets, terms) as server:
        hammer(bench, server.url, START)
        hammer(bench, server.url, replace(load, seconds=SETTLE_S))
        before = server.metrics()
        measured = measure(bench, server, fleets, load)
        return before, measured, server.metrics()


def books_of_auctions(counts: list[Sample]) -> dict[str, int]:
    """The exchange's counts in the window: all requests, and those not answered as an auction."""
    outcomes = figures.sums_by(counts, "vickrey_exchange_auctions_total", "outcome")
    return {
        "all": sum(outcomes.values()),
        "abandoned": outcomes.get("abandoned", 0),
        "turned_away": outcomes.get("turned_away", 0),
        "panics": int(figures.total(counts, "vickrey_exchange_reactor_panics_total")),
    }


def books_of_bids(totals: dict[str, int], page: list[Sample]) -> dict:
    """Answers and bids of healthy DSPs, sent and counted, since the start of both sides. Answers
    count if they reached their auction. The share excludes answers after the close: the exchange
    reads late ones to their end and counts them, so the rest was lost in time, or came so late that
    its connection was gone. Bids are those in counted answers that were then judged. A late answer
    may be a bid or not, so the numbers of bids agree only if nothing was late."""
    calls = {outcome: each for outcome, each in calls_of(page, HEALTHY).items() if each}
    sent = totals["bid_answers"] + totals["no_bids"]
    late = figures.total_of(page, "vickrey_exchange_dsp_late_answers_total", f"{HEALTHY}-")
    counted = arrived(calls)
    judged = figures.total_of(page, "vickrey_exchange_dsp_responses_total", f"{HEALTHY}-", content="bids")
    return {
        "dsps": totals,
        "exchange_calls": calls,
        "answers_sent": sent,
        "answers_after_close": late,
        "answers_counted": counted,
        "answers_share": figures.ratio(counted, sent - late),
        "bids_sent": totals["bid_answers"],
        "bids_judged": judged,
    }


def arrived(calls: dict[str, int]) -> int:
    """Calls that were answered in time and correctly."""
    return calls.get("answered", 0) + calls.get("no_bid", 0)


def calls_of(samples: list[Sample], dsps: str) -> dict[str, int]:
    """Calls by outcome to the DSPs with this prefix."""
    chosen = [s for s in samples if s.labels.get("dsp", "").startswith(f"{dsps}-")]
    return figures.sums_by(chosen, "vickrey_exchange_dsp_calls_total", "outcome")


def against(run: dict, base: dict, healthy: int) -> dict:
    """A run with healthy and hostile DSPs compared with the one without hostile ones: lost
    auctions, calls to the healthy DSPs, and throughput."""
    counts = run["counts"]
    calls = run["healthy_calls_in_window"]
    bids = calls.get("answered", 0) / run["wall_s"]
    base_bids = base["healthy_calls_in_window"].get("answered", 0) / base["wall_s"]
    return {
        # As a share of all calls that auctions could have made, and of those made.
        "healthy_asked": figures.ratio(sum(calls.values()), run["auctions"] * healthy),
        "healthy_in_time": figures.ratio(arrived(calls), sum(calls.values())),
        "lost": counts["sent"] - run["auctions_exchange"]["all"],
        "failed": run["errors"],
        "answers_of_base": figures.ratio(run["answers_per_s"], base["answers_per_s"]),
        "healthy_bids_of_base": figures.ratio(bids, base_bids),
        "auctions_per_cpu_s_of_base": figures.ratio(
            run["auctions_per_cpu_s"], base["auctions_per_cpu_s"]
        ),
    }


def verdicts(run: dict) -> dict[str, bool]:
    """The targets that a run met. Neither clock may show overshoot beyond the limit."""
    return {
        "overshoot_p999_us": figures.worst_overshoot_us(run, "p999")
        <= TARGETS["overshoot_p999_us"],
        "overshoot_max_us": figures.worst_overshoot_us(run, "max") <= TARGETS["overshoot_max_us"],
        "lost": run["lost"] == TARGETS["lost"],
        "failed": run["failed"] == TARGETS["failed"],
        "healthy_bids_counted": (run["healthy"]["answers_share"] or 0.0)
        >= TARGETS["healthy_bids_counted"],
        "healthy_throughput": min(run["answers_of_base"] or 0.0, run["healthy_bids_of_base"] or 0.0)
        >= TARGETS["healthy_throughput"],
        "auctions_per_cpu_s": (run["auctions_per_cpu_s_of_base"] or 0.0)
        >= TARGETS["healthy_throughput"],
    }


def run_line(rate_per_s: int, run: dict) -> str:
    """A run, as a line of progress."""
    hammer_us, exchange_us = run["overshoot_hammer_us"], run["overshoot_exchange_us"]
    late = figures.past_deadline(run)
    counted, asked = run["healthy"]["answers_share"] or 0, run["healthy_asked"] or 0
    of_base = run["auctions_per_cpu_s_of_base"] or 0
    void = ", VOID" if run["void"] else ""
    return (
        f"{run['name']:<12} {rate_per_s}/s, past the deadline p99.9 {exchange_us['p999']:.0f} and "
        f"{hammer_us['p999']} µs, at most {exchange_us['max']:.0f} and {hammer_us['max']} µs, "
        f"{late['exchange']} and {late['hammer']} auctions (exchange, hammer); lost {run['lost']}, "
        f"failed {run['failed']}; healthy answers counted "
        f"{counted:.3%}, asked {asked:.2%}; auctions per CPU-second "
        f"{run['auctions_per_cpu_s']:.0f}, {of_base:.2f} of without; server "
        f"{run['server_busy']:.0%}, testbed core {run['testbed_core_busy']:.0%}{void}"
    )


def problems(run: dict) -> list[str]:
    """Failures at any load: a void run proves nothing about the rest."""
    found = []
    if run["auctions_exchange"]["panics"]:
        found.append(f"{run['name']}: {run['auctions_exchange']['panics']} connections panicked")
    if run["void"]:
        return found
    if (run["healthy_asked"] or 0.0) < figures.ASKED_MIN:
        asked = run["healthy_asked"] or 0.0
        found.append(f"{run['name']}: healthy DSPs were asked {asked:.1%} of the time")
    if run["lost"]:
        found.append(f"{run['name']}: {run['lost']} requests are missing from the exchange's books")
    if run["failed"]:
        found.append(f"{run['name']}: {run['failed']} requests went wrong")
    return found
