"""Budgets by themselves: a shard's cost per request, and the store's use of a disk.

The shard is compared with bare counters, which have no reservations, and with a map of reservations
behind a lock; the store with the same bytes, written and synced raw. Owns these figures and their
tables, not the cost per auction.
"""

import json
import statistics
import subprocess
from collections.abc import Callable, Sequence

from driver.log import TOOL_S, on_both_cores
from driver.programs import Bench, Failed
from driver.throughput import Say

Table = Callable[..., str]

# Limit in nanoseconds for each of the three.
CORE_NS_MAX = 40.0
STEPS = ("decide", "reserve", "settle")
KEEPERS = ("shard", "counters", "map")


def tool(bench: Bench, program: str, *arguments: object) -> list[dict]:
    """The output of a program, one line per measurement."""
    argv = on_both_cores(bench, program, *arguments)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TOOL_S, check=False)
    if done.returncode != 0:
        raise Failed(f"{program}: {done.stderr.strip()[-400:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


# Open reservations: some, and those of a million authorisations per second over 22 s.
OPEN = (16_384, 22_000_000)


def core(bench: Bench, rounds: int, opened: int, say: Say) -> dict:
    """The cost of deciding, reserving and settling among 10,000 campaigns."""
    lines = tool(bench, "bench-pacer", "--rounds", rounds, "--open", opened)
    entry = core_entry(lines)
    for row in entry["rows"]:
        say(f"  {row['who']:<9} {', '.join(f'{step} {row[step]:.1f} ns' for step in STEPS)}")
    return entry


def core_entry(lines: Sequence[dict]) -> dict:
    """The median of each keeper's rounds, and whether the shard is within its target."""
    rows = []
    for who in KEEPERS:
        own = [line for line in lines if line["who"] == who]
        figures = {step: statistics.median(line[f"{step}_ns"] for line in own) for step in STEPS}
        rows.append({"who": who, "allocations": sum(line["allocations"] for line in own)} | figures)
    shard = rows[0]
    is_met = all(shard[step] <= CORE_NS_MAX for step in STEPS) and shard["allocations"] == 0
    first = lines[0]
    return {
        "name": "budget-core-22m" if first["open"] == OPEN[1] else "budget-core",
        "kind": "budget_core",
        "title": f"one core, {first['campaigns']} campaigns, {first['open']} reservations open",
        "rows": rows,
        "rounds": list(lines),
        "is_met": is_met,
        "problems": [],
    }


def store(bench: Bench, rounds: int, say: Say) -> dict:
    """Batches of leases per second, and the same bytes written and synced raw."""
    lines = tool(bench, "bench-ledger", bench.folder / "ledger", "--rounds", rounds)
    rows = store_rows(lines)
    for row in rows:
        load = f"{row['leases']:>6} leases, {row['in_flight']:>2} under way"
        say(f"  {load}: {row['store']:.0f}/s, raw {row['raw']:.0f}/s")
    return {
        "name": "budget-store",
        "kind": "budget_store",
        "title": "durable batches of leases",
        "rows": rows,
        "rounds": lines,
        "problems": [],
    }


def store_rows(lines: Sequence[dict]) -> list[dict]:
    """Each load compared with raw syncs of as many bytes: one sync, and the two that a batch
    needs."""
    of_store = [line for line in lines if line["who"] == "store"]
    rows = []
    for leases, in_flight in sorted({(line["leases"], line["in_flight"]) for line in of_store}):
        load = (leases, in_flight)
        own = [line for line in of_store if (line["leases"], line["in_flight"]) == load]
        beside = [line for line in lines if line["leases"] == leases]
        raw, twice = (
            statistics.median(line["batches_per_s"] for line in beside if line["who"] == who)
            for who in ("raw", "raw, synced twice")
        )
        rows.append(
            {
                "leases": leases,
                "in_flight": in_flight,
                "store": statistics.median(line["batches_per_s"] for line in own),
                "commits": statistics.median(line["commits_per_s"] for line in own),
                "ms_p99": statistics.median(line["ms_p99"] for line in own),
                "raw": raw,
                "raw_twice": twice,
            }
        )
    return rows


def write_core(entry: dict, table: Table, verdict: Callable[[bool, bool], str]) -> str:
    """The keepers side by side, then every round."""
    head = ["who", *(f"{step}, ns" for step in STEPS), "allocations", "target"]
    rows = []
    for row in entry["rows"]:
        target = f"≤ {CORE_NS_MAX:.0f} each, none allocated: {verdict(entry['is_met'], False)}"
        target = target if row["who"] == "shard" else ""
        figures = [f"{row[step]:.1f}" for step in STEPS]
        rows.append([row["who"], *figures, row["allocations"], target])
    about = (
        "Requests for campaigns in no order, in batches of 1024; a reservation is settled once so many "
        "others are open, at three quarters of its amount. *Counters* are one atomic counter a "
        "campaign: the least that keeping a budget can cost, without reservations, expiry, or any "
        "defence against settling twice. *Map* keeps budgets and reservations in maps behind a lock.\n"
    )
    rounds = [
        [line["round"], line["who"], *(f"{line[f'{step}_ns']:.1f}" for step in STEPS)]
        for line in entry["rounds"]
    ]
    columns = ["round", "who", *(f"{step}, ns" for step in STEPS)]
    title = f"## {entry['name']}: {entry['title']}\n"
    return "\n".join([title, about, table(head, rows), table(columns, rounds)])


def write_store(entry: dict, table: Table) -> str:
    """Each load beside the raw disk."""
    head = ["leases a batch", "batches under way", "batches/s", "transactions/s", "p99, ms"]
    head += ["raw, one sync, /s", "raw, two syncs, /s"]
    rows = [
        [
            row["leases"],
            row["in_flight"],
            f"{row['store']:.0f}",
            f"{row['commits']:.0f}",
            f"{row['ms_p99']:.1f}",
            f"{row['raw']:.0f}",
            f"{row['raw_twice']:.0f}",
        ]
        for row in entry["rows"]
    ]
    about = (
        "A transaction of the store is two-phase: two syncs. The ledger needs one batch a second, "
        "whatever the number of campaigns; *raw* writes the bytes of the leases alone.\n"
    )
    return "\n".join([f"## {entry['name']}: {entry['title']}\n", about, table(head, rows)])
