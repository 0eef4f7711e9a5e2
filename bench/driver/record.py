"""The cost of the record per auction, and the effect of a slow disk.

Rounds with and without a record alternate, off, on, on, off, at one rate, and each is reported as a
share of its neighbour, so that other effects of the machine are in both. The log's thread is
reported apart from the shards. strace slows the disk for that thread alone by delaying each of its
syncs; the shards' system calls are not traced. Every run observes the shard's thread, to
distinguish a stall of the exchange from one of the machine.
"""

import shutil
import signal
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from driver import figures, stalls, variants
from driver.programs import (
    Argv,
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
from driver.scenarios import DSPS, TMAX_MS
from driver.throughput import PROBE_S, START, WARM_UP_S, Rounds, Say, line, measure
from driver.variants import SHARDS, Variant, one_round

# Share of the closed loop without a record.
SHARE = 0.5
SLOW_SHARE = 0.6

# Limit as a share of the shards' CPU time.
COST_MAX = 0.03

# Added to each sync.
SLOW_MS = 200
# Equal runs differ by this share in their percentiles.
UNCHANGED = 0.10

LOG_THREAD = "log"
SHARD_THREAD = "shard-0"
RECORD = Terms(record=True)

OFF = Variant("off", "off", FleetOptions(DSPS))
ON = Variant("on", "off", FleetOptions(DSPS), terms=RECORD)


def record(bench: Bench, rounds: Rounds, open_seconds: int, say: Say) -> dict:
    """The cost first, then the slow disk."""
    closed = one_round(bench, OFF, (rounds.latency_ms, PROBE_S, None), 0)
    say(f"  closed loop       {line(closed)}")
    pace = max(1, int(SHARE * closed["answers_per_s"]))
    measured = []
    for number in range(1, rounds.count + 1):
        for variant in (OFF, ON, ON, OFF):
            terms = (rounds.latency_ms, rounds.seconds, pace)
            measured.append(one_round(bench, variant, terms, number))
            say(f"  round {number}  {line(measured[-1])}")
    rate_per_s = max(1, int(SLOW_SHARE * closed["answers_per_s"]))
    runs, skipped = [], []
    if shutil.which("strace") is None:
        skipped.append("strace is not installed: no disk was made slow")
    else:
        for name in ("off", "on", "on, slow disk", "on, slow disk", "on", "off"):
            runs.append({"name": name} | one_run(bench, name, (rate_per_s, open_seconds)))
            say(f"  {run_line(runs[-1])}")
    return conclude(pace, rate_per_s, measured, runs) | {"skipped": skipped}


def one_run(bench: Bench, name: str, load: tuple[int, int]) -> dict:
    """An open loop, and its latency; with delayed syncs if the name says so."""
    rate_per_s, seconds = load
    terms = Terms() if name == "off" else RECORD
    with fleet(bench, FleetOptions(DSPS)) as dsps, serving(bench, "vickrey", dsps, terms) as server:
        hammer(bench, server.url, START)
        hammer(bench, server.url, Load(WARM_UP_S))
        before = server.metrics()

        shard = thread_of(server.child.pid, SHARD_THREAD)

        def loaded() -> dict:
            with stalls.watched(server.child.pid, shard) as seen:
                measured = measure(bench, server, dsps, Load(seconds, rate_per_s, TMAX_MS))
            return measured | {"stalls": seen.as_dict()}

        if name == "on, slow disk":
            with slowed(bench, server) as syncs:
                measured = loaded()
            held_up = syncs()
        else:
            measured, held_up = loaded(), 0
        counts = figures.since(before, server.metrics())
    auctions = int(figures.total(counts, "vickrey_exchange_auctions_total"))
    return measured | {
        "syncs_held_up": held_up,
        "overshoot_exchange_us": figures.overshoot_us(counts, auctions),
    }


@contextmanager
def slowed(bench: Bench, server: Server) -> Iterator[Callable[[], int]]:
    """Delays the log thread's syncs; the number of delayed ones is known after the block."""
    out = bench.folder / "slow.txt"
    thread = thread_of(server.child.pid, LOG_THREAD)
    argv: Argv = ["strace", "-o", out, "-p", str(thread), "-e", "trace=fdatasync"]
    argv += ["-e", f"inject=fdatasync:delay_enter={1000 * SLOW_MS}"]
    with Child(bench, "strace", argv, bench.testbed_core) as child:
        child.wait_for(child.stderr, r"(attached)")
        yield lambda: out.read_text().count("fdatasync(")
        child.stop(signal.SIGINT)


def thread_of(pid: int, name: str) -> int:
    """The thread of a process that has this name."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == name:
            return int(task.name)
    raise Failed(f"no thread of the exchange is called `{name}`")


def conclude(pace: int, rate_per_s: int, measured: list[dict], runs: list[dict]) -> dict:
    """Each pair's ratio, their median, and the percentiles of the runs."""
    found = pairs(measured)
    shares = [pair["shards_cost"] for pair in found]
    cost = statistics.median(shares)
    return {
        "name": "record",
        "kind": "record",
        "title": f"auctions among {DSPS} DSPs with a record and without",
        "rate_per_s": pace,
        "share": SHARE,
        "target": COST_MAX,
        "pairs": found,
        "shards_cost": cost,
        "cost_met": cost <= COST_MAX,
        "rounds": measured,
        "slow_ms": SLOW_MS,
        "slow_rate_per_s": rate_per_s,
        "runs": runs,
        "p999_unchanged": unchanged(runs),
        "void": any(each["void"] for each in [*measured, *runs]),
        "problems": [problem for each in measured for problem in variants.problems(each)]
        + run_problems(runs),
    }


def pairs(measured: Sequence[dict]) -> list[dict]:
    """Pairs each round with a record with the adjacent one without: off, on, then on, off. The
    additional CPU time per auction, of the shards and of the whole process, and the log thread's
    part, in microseconds."""
    found = []
    for first, second in zip(measured[::2], measured[1::2], strict=True):
        on, off = sorted((first, second), key=lambda each: each["program"] == "off")
        found.append(
            {
                "round": on["round"],
                "off_us": shards_us(off),
                "on_us": shards_us(on),
                "shards_cost": (figures.ratio(shards_us(on), shards_us(off)) or 0.0) - 1,
                "process_cost": (figures.ratio(process_us(on), process_us(off)) or 0.0) - 1,
                "log_us": thread_us(on, LOG_THREAD),
            }
        )
    return found


def thread_us(each: dict, kind: str) -> float:
    """CPU time of such threads per auction."""
    return 1e6 * each["server_threads_s"].get(kind, 0.0) / each["auctions"]


def shards_us(each: dict) -> float:
    return thread_us(each, SHARDS)


def process_us(each: dict) -> float:
    return 1e6 * each["cpu_s"] / each["auctions"]


def unchanged(runs: Sequence[dict]) -> bool | None:
    """Whether p99.9 is unchanged with the slow disk. None if no disk was slowed."""
    slow, usual = (
        [run["latency_us"]["p999"] for run in runs if run["name"] == name]
        for name in ("on, slow disk", "on")
    )
    if not slow or not usual:
        return None
    return statistics.median(slow) <= max(*usual, (1 + UNCHANGED) * statistics.median(usual))


def run_problems(runs: Sequence[dict]) -> list[str]:
    """Failures, regardless of the times."""
    found = [f"{run['name']}: {run['errors']} requests went wrong" for run in runs if run["errors"]]
    return found + [
        f"{run['name']}: no sync was held up"
        for run in runs
        if run["name"] == "on, slow disk" and not run["syncs_held_up"]
    ]


def run_line(run: dict) -> str:
    """A run, as a line of progress."""
    times = run["latency_us"]
    return (
        f"{run['name']:<14} p50 {times['p50']} µs, p99 {times['p99']} µs, p99.9 {times['p999']} µs; "
        f"{run['syncs_held_up']} syncs held up; testbed core {run['testbed_core_busy']:.0%}; "
        f"shard {stalls_text(run)}"
    )


def stalls_text(run: dict) -> str:
    """What the shard's thread waited for, besides requests."""
    seen = run["stalls"]
    blocked = [f"{call} {ms:.0f} ms" for call, ms in seen["blocked_ms"].items()]
    blocked_text = f"blocked in {', '.join(blocked)}" if blocked else "never blocked"
    return (
        f"{blocked_text}, without a core for {seen['ready_ms']:.0f} ms; "
        f"the looker late by {seen['looker_late_ms']:.0f} ms"
    )
