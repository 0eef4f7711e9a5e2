"""The memory of look-ups under load for minutes: queries of which nothing is known, so that every store fills
up and replaces what it has.

Owns the scenario `lookup-soak` and its target: the resident set does not grow once the stores are full.
"""

import json
import time
from collections.abc import Callable

from driver import figures, machine
from driver.lookups import farm, lookups
from driver.programs import Argv, Bench, Child, Failed
from driver.throughput import Say

RATE, ITEMS, EVERY_S = 200, 100, 10.0
# Each store is full within seconds.
KEYS = 'cache = "16MiB"\nmerged = "16MiB"\nanswers = "16MiB"'
# Of the second half, over the first half of the rest: the first fifth fills the stores.
FILLING, GROWTH_MAX = 0.2, 0.05


def lookup_soak(bench: Bench, seconds: int, say: Say) -> dict:
    """The resident set of the server, every ten seconds or six times at least."""
    out = bench.folder / "lookup-soak.json"
    points: list[tuple[float, int]] = []
    with farm(bench, "--count", 2, "--items", ITEMS) as of, lookups(bench, of, KEYS) as (pid, port):
        argv: Argv = [bench.programs / "vickrey", "hammer", "lookup", "item group=g{n}", "--new"]
        argv += ["--url", f"http://127.0.0.1:{port}", "--rate", str(RATE), "--duration", f"{seconds}s"]
        argv += ["--warm-up", "0s", "--records", "0", "--json", out]
        began, every_s = time.monotonic(), min(EVERY_S, seconds / 6)
        with Child(bench, "hammer", argv, bench.testbed_core) as child:
            while child.process.poll() is None:
                points.append((time.monotonic() - began, machine.resident_kib(pid)))
                say(f"  {points[-1][0]:>5.0f} s  {points[-1][1] / 1024:.1f} MiB")
                time.sleep(max(0.0, began + len(points) * every_s - time.monotonic()))
    report = json.loads(out.read_text())["counts"]
    asked, answered = report["sent"] + report["unsent"], report["done"]
    if asked == 0:
        raise Failed("no query was sent")
    return {
        "name": "lookup-soak",
        "kind": "lookup_soak",
        "title": f"memory of look-ups, {RATE} new queries per second, {seconds} s",
        "asked": asked,
        "answered": answered,
        "growth": growth(points),
        "slope_kib_per_minute": round(60 * figures.slope(points[int(FILLING * len(points)) :]), 1),
        "samples": [{"at_s": round(at_s, 1), "kib": kib} for at_s, kib in points],
        "problems": [f"{asked - answered} queries went wrong"] if answered < asked else [],
    }


def growth(points: list[tuple[float, int]]) -> float:
    """The largest of the second half over the largest before it, without the time of filling, less one."""
    full = [kib for _, kib in points[int(FILLING * len(points)) :]]
    half = max(len(full) // 2, 1)
    return max(full[half:] or full) / max(full[:half]) - 1


def write(entry: dict, table: Callable[..., str], verdict: Callable[[bool, bool], str]) -> str:
    """The samples' ends, and whether the set grew."""
    samples = entry["samples"]
    rows = [
        ["queries, each with 2 calls and 100 records", f"{entry['asked']:,}", "", ""],
        ["answered completely", f"{entry['answered']:,}", "all", verdict(entry["answered"] == entry["asked"], False)],
        [
            f"resident set after {samples[0]['at_s']:.0f} s and {samples[-1]['at_s']:.0f} s",
            f"{samples[0]['kib'] / 1024:.0f} and {samples[-1]['kib'] / 1024:.0f} MiB",
            "",
            "",
        ],
        [
            "growth from the first half to the second, stores full",
            f"{entry['growth']:+.1%}",
            f"at most {GROWTH_MAX:+.0%}",
            verdict(entry["growth"] <= GROWTH_MAX, False),
        ],
    ]
    return f"## {entry['name']}: {entry['title']}\n\n{table(['what', 'figure', 'target', ''], rows)}\n"
