"""Hits of one hot object over HTTP/1.1 with more and more shards: what each costs, beside bare hyper with as
many threads. For machines with many cores.

Owns the figures and their table.
"""

import itertools
import json
import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from driver import cache_peers
from driver.cache_core import cores_of_machine
from driver.programs import Argv, Bench, Child, Failed
from driver.throughput import Rounds, Say

SHARDS = (1, 2, 4, 8)
# Offered to each shard, on so many connections.
RATE_PER_S = 40_000
CONNECTIONS = 16
BYTES = 1024
OWN, FLOOR = "vickrey", "hyper"
SHARE_MIN = 0.95


def cache_shards(bench: Bench, rounds: Rounds, say: Say) -> dict:
    """Each number of shards in turn, round by round. Every shard has a core, and so has its load."""
    cores = sorted(cores_of_machine())
    pairs = list(zip(cores[::2], cores[1::2], strict=False))
    counts = [count for count in SHARDS if count <= len(pairs)]
    measured = []
    with cache_peers.origin(bench) as origin_url:
        for number in range(1, rounds.count + 1):
            for count, name in itertools.product(counts, (OWN, FLOOR)):
                found = one_round(bench, name, origin_url, pairs[:count], rounds.seconds)
                measured.append({"round": number} | found)
                say(f"  round {number}  {count} x {name:<8} {found['per_cpu_s']:>9,.0f} per CPU-second")
    return conclude(counts, measured)


def one_round(
    bench: Bench, name: str, origin_url: str, pairs: Sequence[tuple[int, int]], seconds: int
) -> dict:
    """A fresh cache, warmed up, then measured."""
    server_cores, load_cores = zip(*pairs, strict=True)
    with cache_peers.cache(bench, name, origin_url, cores=server_cores) as server:
        load(bench, server.url, load_cores, 1)
        before = server.cpu_s()
        reports = load(bench, server.url, load_cores, seconds)
        cpu_s = server.cpu_s() - before
    answers = sum(round(report["answers_per_s"] * report["duration_s"]) for report in reports)
    counts = [report["counts"] for report in reports]
    return {
        "cache": name,
        "shards": len(pairs),
        "rate": sum(report["answers_per_s"] for report in reports),
        "errors": sum(each["sent"] + each["unsent"] for each in counts) - answers,
        "per_cpu_s": answers / cpu_s if cpu_s > 0 else 0.0,
        "p999_us": max((report["latency_us"] or {}).get("p999", 0) for report in reports),
    }


def load(bench: Bench, url: str, cores: Sequence[int], seconds: int) -> list[dict]:
    """The same load from each of these cores: their reports."""
    with ExitStack() as running:
        begun = []
        for core in cores:
            file = bench.folder / f"hammer-{core}.json"
            file.unlink(missing_ok=True)
            argv: Argv = [bench.programs / "vickrey", "hammer", "cache", "--url", url, "--json", file]
            offered = ["--rate", RATE_PER_S, "--connections", CONNECTIONS, "--bytes", BYTES]
            argv += [*map(str, offered), "--warm-up", "0s", "--duration", f"{seconds}s"]
            begun.append((running.enter_context(Child(bench, f"hammer-{core}", argv, core)), file))
        for child, file in begun:
            child.process.wait(120)
            if not file.exists():
                raise Failed(f"hammer made no report: {child.said()}")
        return [json.loads(file.read_text()) for _, file in begun]


def conclude(counts: Sequence[int], measured: list[dict]) -> dict:
    """Medians, and each as a share of one shard's in its round."""
    rows = []
    for name in (OWN, FLOOR):
        one = {each["round"]: each["per_cpu_s"] for each in measured if (each["cache"], each["shards"]) == (name, 1)}
        for count in counts:
            own = [each for each in measured if (each["cache"], each["shards"]) == (name, count)]
            rows.append(
                {
                    "cache": name,
                    "shards": count,
                    "rate": statistics.median(each["rate"] for each in own),
                    "per_cpu_s": statistics.median(each["per_cpu_s"] for each in own),
                    "p999_us": statistics.median(each["p999_us"] for each in own),
                    "of_linear": statistics.median(each["per_cpu_s"] / one[each["round"]] for each in own),
                }
            )
    return {
        "name": "cache-shards",
        "kind": "cache_shards",
        "title": f"hits of one hot object, {RATE_PER_S:,}/s for each shard, one to {max(counts)} shards",
        "rows": rows,
        "rounds": measured,
        "void": any(each["rate"] < 0.95 * RATE_PER_S * each["shards"] for each in measured),
        "problems": [
            f"{each['cache']}, {each['shards']} shards, round {each['round']}: {each['errors']} errors"
            for each in measured
            if each["errors"] > 0
        ],
    }


def write(entry: dict, table: Callable[..., str], verdict: Callable[[bool, bool], str]) -> str:
    """Each number of shards, and whether the last is as good as the first."""
    head = ["cache", "shards", "requests per second", "per CPU-second", "p99.9 us", "of linear", "target"]
    last = max(row["shards"] for row in entry["rows"])
    rows = []
    for row in entry["rows"]:
        is_judged = row["cache"] == OWN and row["shards"] == last
        met = verdict(row["of_linear"] >= SHARE_MIN, entry["void"])
        figures = [f"{row['rate']:,.0f}", f"{row['per_cpu_s']:,.0f}", f"{row['p999_us']:.0f}"]
        judged = f"at least {SHARE_MIN}: {met}" if is_judged else "–"
        rows.append([row["cache"], row["shards"], *figures, f"{row['of_linear']:.2f}", judged])
    text = (
        "Each shard has a core, and a generator on the next one that offers it the same open loop. Linear is the "
        "cost of a request with one shard. Bare hyper shares nothing between its threads, so that its share of "
        "linear is the machine's."
    )
    return "\n\n".join([f"## {entry['name']}: {entry['title']}", table(head, rows), text]) + "\n"
