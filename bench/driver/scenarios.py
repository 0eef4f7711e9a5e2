"""Measurements besides throughput: latency and the deadline, memory, system calls.

Each function returns one entry of the results: a `name`, a `kind`, its figures, and `problems`,
which are failures regardless of the figures.
"""

import math
import shutil
import time

from driver import figures, machine
from driver.programs import (
    SYSCALLS,
    Bench,
    FleetOptions,
    Load,
    fleet,
    hammer,
    hammering,
    perf_events,
    perfed,
    serving,
    straced,
)
from driver.throughput import WARM_UP_S, Say, line, measure

# Share of the closed-loop maximum.
OPEN_LOOP_SHARE = 0.6

# `tmax` of the reference request.
TMAX_MS = 250

# Limit of the time past the deadline at the 99.9th percentile.
OVERSHOOT_MS_MAX = 1

# One answer in a thousand comes after the deadline, so one in twenty auctions among 50 DSPs waits
# for it to the end.
LATE_PPM = 1000

MEMORY_EVERY_S = 10.0
MEMORY_MIB_MAX = 100

DSPS = 50

# strace makes a server twenty times slower; with more in flight, auctions would reach their
# deadline.
STRACED_IN_FLIGHT = 4


def latency(bench: Bench, seconds: int, say: Say) -> dict:
    """The closed-loop maximum, then an open loop at a share of it: with prompt DSPs, and with some
    answers that never come, because otherwise no auction would reach its deadline."""
    with fleet(bench, FleetOptions(DSPS)) as dsps, serving(bench, "vickrey", dsps) as server:
        hammer(bench, server.url, Load(WARM_UP_S))
        closed = {"program": "vickrey"} | measure(bench, server, dsps, Load(min(seconds, 10)))
    say(f"  closed loop       {line(closed)}")
    rate_per_s = max(1, int(OPEN_LOOP_SHARE * closed["answers_per_s"]))
    runs = []
    for name, late_ppm in (("prompt", 0), ("some late", LATE_PPM)):
        runs.append({"name": name} | open_loop(bench, rate_per_s, late_ppm, seconds))
        runs[-1]["met"] = is_in_time(runs[-1])
        say(f"  {latency_line(rate_per_s, runs[-1])}")
    return {
        "name": "latency",
        "kind": "latency",
        "title": f"open loop at {OPEN_LOOP_SHARE:.0%} of the most, {seconds} s, {DSPS} DSPs",
        "closed_loop": closed,
        "rate_per_s": rate_per_s,
        "tmax_ms": TMAX_MS,
        "overshoot_target_ms": OVERSHOOT_MS_MAX,
        "runs": runs,
        "void": any(run["void"] for run in runs),
        "problems": [problem for run in runs for problem in latency_problems(run)],
    }


def is_in_time(run: dict) -> bool:
    """Whether nearly all answers were in time, by both clocks, and every request was answered."""
    return (
        figures.worst_overshoot_us(run, "p999") <= 1000 * OVERSHOOT_MS_MAX and run["errors"] == 0
    )


def latency_line(rate_per_s: int, run: dict) -> str:
    """A run, as a line of progress."""
    times = run["latency_us"]
    over = [run[f"overshoot_{clock}_us"]["p999"] for clock in ("exchange", "hammer")]
    void = ", VOID" if run["void"] else ""
    return (
        f"{run['name']:<9} {rate_per_s}/s, p50 {times['p50']} µs, p99.9 {times['p999']} µs; past "
        f"the deadline p99.9 {over[0]:.0f} and {over[1]} µs (exchange, hammer); "
        f"{run['bids']['not_counted']} prompt answers not counted, testbed core "
        f"{run['testbed_core_busy']:.0%}{void}"
    )


def latency_problems(run: dict) -> list[str]:
    """Errors, and bids that came in time and did not count; a void run proves neither."""
    if run["void"]:
        return []
    missed = run["bids"]["not_counted"]
    found = [f"{run['name']}: {run['errors']} requests went wrong"] if run["errors"] else []
    return found + ([f"{run['name']}: {missed} prompt answers were not counted"] if missed else [])


def open_loop(bench: Bench, rate_per_s: int, late_ppm: int, seconds: int) -> dict:
    """A constant rate after a closed loop, which opens connections no faster than it gets answers;
    and the counts of DSPs and exchange, both since their start."""
    with fleet(bench, FleetOptions(DSPS, late_ppm=late_ppm)) as dsps:
        with serving(bench, "vickrey", dsps) as server:
            hammer(bench, server.url, Load(WARM_UP_S))
            before = server.metrics()
            measured = measure(bench, server, dsps, Load(seconds, rate_per_s, TMAX_MS))
            after = server.metrics()
        totals = dsps.totals()
    counts = figures.since(before, after)
    auctions = int(figures.total(counts, "vickrey_exchange_auctions_total"))
    return measured | {
        "late_ppm": late_ppm,
        "overshoot_exchange_us": figures.overshoot_us(counts, auctions),
        "calls_in_window": figures.sums_by(counts, "vickrey_exchange_dsp_calls_total", "outcome"),
        "bids": counted(totals, figures.sums_by(after, "vickrey_exchange_dsp_calls_total", "outcome")),
    }


def counted(dsps: dict[str, int], calls: dict[str, int]) -> dict:
    """Checks that every prompt answer counted. A late answer of the DSPs may be a bid or not, so
    bids and no-bids are compared together; without late ones, separately."""
    prompt = dsps["requests"] - dsps["late"] - dsps["malformed"]
    arrived = calls["answered"] + calls["no_bid"]
    return {
        "dsps": dsps,
        "exchange_calls": calls,
        "prompt": prompt,
        "counted": arrived,
        "not_counted": prompt - arrived,
    }


def memory(bench: Bench, seconds: int, say: Say) -> dict:
    """The resident set of the exchange under a closed loop, sampled after a warm-up."""
    points: list[tuple[float, int]] = []
    with fleet(bench, FleetOptions(DSPS)) as dsps, serving(bench, "vickrey", dsps) as server:
        hammer(bench, server.url, Load(WARM_UP_S))
        began = time.monotonic()
        with hammering(bench, server.url, Load(seconds)) as running:
            # Early samples catch the ramp of a short soak; later ones come every ten seconds.
            every_s = min(MEMORY_EVERY_S, seconds / 6)
            while not running.is_over(max(0.0, began + len(points) * every_s - time.monotonic())):
                points.append((time.monotonic() - began, machine.resident_kib(server.child.pid)))
                say(f"  {points[-1][0]:>5.0f} s  {points[-1][1] / 1024:.1f} MiB")
            report = running.report()
    resident = [kib for _, kib in points]
    counts = report["counts"]
    auctions = counts["ok_bid"] + counts["no_bid"] + counts["nbr"]
    errors = counts["sent"] + counts["unsent"] - auctions
    return {
        "name": "memory",
        "kind": "memory",
        "title": f"resident set under {bench.in_flight} in flight, {DSPS} DSPs, {seconds} s",
        "target_mib": MEMORY_MIB_MAX,
        "auctions": auctions,
        "errors": errors,
        "first_kib": resident[0],
        "last_kib": resident[-1],
        "max_kib": max(resident),
        "slope_kib_per_minute": round(60 * figures.slope(points), 1),
        "samples": [{"at_s": round(at_s, 1), "kib": kib} for at_s, kib in points],
        "problems": [f"{errors} requests went wrong"] if errors else [],
    }


def calls(bench: Bench, seconds: int, say: Say) -> dict:
    """System calls per auction, beside the floor's: by name from strace, and as a total from perf,
    which does not slow the server down, with the other events that this machine can count."""
    strace, events = shutil.which("strace") is not None, perf_events()
    skipped = [] if strace else ["strace is not installed: no calls by name"]
    skipped += [] if events else ["perf is not installed or may not count: no events"]
    programs: dict[str, dict] = {}
    for program in ("floor", "vickrey"):
        with fleet(bench, FleetOptions(DSPS)) as dsps, serving(bench, program, dsps) as server:
            hammer(bench, server.url, Load(WARM_UP_S))
            found: dict[str, dict] = {}
            if events:
                out = bench.folder / "perf.csv"
                with perfed(bench, server, events, out):
                    report = hammer(bench, server.url, Load(seconds))
                found["perf"] = per_auction(figures.perf_counts(out.read_text()), report)
            if strace:
                out = bench.folder / "strace.txt"
                with straced(bench, server, out):
                    report = hammer(bench, server.url, Load(seconds, in_flight=STRACED_IN_FLIGHT))
                found["strace"] = per_auction(figures.strace_calls(out.read_text()), report)
        programs[program] = found
        say(f"  {program:<8} " + "; ".join(brief(tool, found[tool]) for tool in found))
    for message in skipped:
        say(f"  skipped: {message}")
    return {
        "name": "calls",
        "kind": "calls",
        "title": f"system calls and events per auction, {DSPS} DSPs",
        "programs": programs,
        "skipped": skipped,
        "problems": [],
    }


def per_auction(counts: dict, report: dict) -> dict:
    """Counts divided by the auctions that the hammer saw answered."""
    auctions = report["counts"]["ok_bid"] + report["counts"]["no_bid"]
    return {
        "auctions": auctions,
        "answers_per_s": round(report["answers_per_s"], 1),
        "per_auction": {name: round(n / auctions, 3) for name, n in counts.items()},
    }


def brief(tool: str, found: dict) -> str:
    """A tool's total, as a line of progress."""
    each = found["per_auction"]
    total = each.get(SYSCALLS, math.nan) if tool == "perf" else sum(each.values())
    return f"{tool}: {total:.1f} calls per auction at {found['answers_per_s']:.0f}/s"
