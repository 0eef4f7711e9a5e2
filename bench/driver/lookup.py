"""The rules of look-ups as loops: reading and merging records beside parsing alone, and a lane's calls.

No sockets. Owns the figures of `bench-lookup`; each is the median of all rounds, on one core.
"""

import json
import statistics
import subprocess
from collections.abc import Callable

from driver.programs import Bench, Failed
from driver.throughput import Rounds, Say

RECORDS_MIN = 500_000
CALLS_MIN = 10_000
TOOL_S = 600
KINDS = {
    "skipped": "serde_json, nothing kept",
    "values": "serde_json, to values",
    "read": "read to rows",
    "merged": "merged by name",
    "read and merged": "read and merged",
}


def lookup_core(bench: Bench, rounds: Rounds, say: Say) -> dict:
    """Both loops, in turn."""
    found: dict[str, list[float]] = {}
    for number in range(rounds.count):
        for line in tool(bench, "merge"):
            found.setdefault(line["kind"], []).append(line["records_per_second"])
        for line in tool(bench, "lane"):
            found.setdefault(line["kind"], []).append(line["calls_per_second"])
        say(f"  round {number + 1} of {rounds.count}")
    return {
        "name": "lookup-core",
        "kind": "lookup_core",
        "title": "records read and merged, and calls scheduled, as library loops",
        "figures": {kind: statistics.median(rates) for kind, rates in found.items()},
        "void": False,
        "problems": [],
    }


def tool(bench: Bench, command: str) -> list[dict]:
    """Its lines, on the server's core."""
    argv = ["taskset", "-c", str(bench.server_core), bench.programs / "bench-lookup", command]
    done = subprocess.run(
        list(map(str, argv)), capture_output=True, text=True, timeout=TOOL_S, check=False
    )
    if done.returncode != 0:
        raise Failed(f"bench-lookup {command}: {done.stderr.strip()[-400:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def write(entry: dict, table: Callable[..., str], verdict: Callable[[bool, bool], str]) -> str:
    """A row for each way, then the targets."""
    figures = entry["figures"]
    rows = [
        [text, f"{figures[kind]:,.0f}", f"{figures[kind] / figures['values']:.2f}"]
        for kind, text in KINDS.items()
    ]
    merged, lane = figures["read and merged"], figures["lane"]
    return "\n\n".join(
        [
            f"## {entry['name']}: {entry['title']}",
            "JSON records of eight members from two providers, per second of one core.",
            table(["way", "records per second", "of parsing to values"], rows),
            f"Read and merged: {merged:,.0f} records per second, at least {RECORDS_MIN:,}: "
            f"{verdict(merged >= RECORDS_MIN, False)}.",
            f"Calls through a lane, without the calls themselves: {lane:,.0f} per second, at least "
            f"{CALLS_MIN:,}: {verdict(lane >= CALLS_MIN, False)}.",
        ]
    ) + "\n"
