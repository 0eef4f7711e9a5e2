"""Hits of the cache over HTTP/1.1: requests per CPU-second at one offered rate, beside bare hyper, nginx,
Varnish and Traffic Server; and the latency of hits while misses, purges and evictions storm.

Owns both scenarios' figures and their tables.
"""

import json
import statistics
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from driver import cache_peers
from driver.cache_peers import CacheServer
from driver.programs import Argv, Bench, Child, Failed
from driver.throughput import Rounds, Say

# Offered, on so many connections.
RATE_PER_S = 40_000
CONNECTIONS = 16
SIZES = (1024, 0)
OWN, FLOOR = "vickrey", "hyper"
# The least share of bare hyper, and the least multiples of the proxies.
TARGETS = {FLOOR: 0.85, "nginx": 1.4, "varnish": 2.0, "trafficserver": 2.0}

# Of the hits whose latency is measured; and of the load beside them.
STORM_HITS_PER_S = 4_000
STORM_LOAD_PER_S = 1_000
PURGES_PER_S = 200
STORM_MAX = 2.0
SMALL = 'memory = "8MiB"\nobject_max = "1MiB"'
# Of the bodies that evict each other.
CHURN_BYTES = 20_000
# A disk whose index is written several times a second, and whose oldest files go.
DISK = SMALL + '\n[cache.disk]\ndirectory = "{}"\nsize = "64MiB"\nwrite_all = true'
STORMS = ("misses", "purges", "evictions", "disk", "slow syncs")
# Those with a disk, and those that purge.
ON_DISK, PURGING = ("disk", "slow syncs"), ("purges", "slow syncs")


def cache_http(bench: Bench, rounds: Rounds, say: Say) -> dict:
    """Every cache in turn, round by round."""
    gaps = cache_peers.install()
    names = [OWN, FLOOR, *cache_peers.proxies()]
    measured = []
    with cache_peers.origin(bench) as origin_url:
        for number in range(1, rounds.count + 1):
            for size in SIZES:
                for name in names:
                    found = {"round": number} | one_round(bench, name, origin_url, size, rounds.seconds)
                    measured.append(found)
                    say(f"  round {number}  {name:<14} {size:>5} B  {found['per_cpu_s']:>9,.0f} per CPU-second")
    return conclude(names, measured, gaps)


def one_round(bench: Bench, name: str, origin_url: str, size: int, seconds: int) -> dict:
    """A fresh cache, warmed up, then measured."""
    with cache_peers.cache(bench, name, origin_url, bytes_=size) as server:
        offered = ["--rate", RATE_PER_S, "--connections", CONNECTIONS, "--bytes", size]
        hammer(bench, server, [*offered, "--duration", "1s"])
        before = server.cpu_s()
        report = hammer(bench, server, [*offered, "--duration", f"{seconds}s"])
        cpu_s = server.cpu_s() - before
    counts = report["counts"]
    valid = round(report["answers_per_s"] * report["duration_s"])
    return {
        "cache": name,
        "bytes": size,
        "answers": valid,
        "errors": counts["sent"] + counts["unsent"] - valid,
        "rate": report["answers_per_s"],
        "cpu_s": round(cpu_s, 4),
        "per_cpu_s": valid / cpu_s if cpu_s > 0 else 0.0,
        "latency_us": report["latency_us"] or {},
        "problems": report["problems"],
        "hammer_busy": report["generator_busy_ppm"] / 1e6,
    }


def hammer(bench: Bench, server: CacheServer, arguments: Sequence[object], name: str = "hammer") -> dict:
    """One load to its end, without a warm-up of its own: its report."""
    with hammering(bench, server, arguments, name) as (child, file):
        child.process.wait(120)
        if not file.exists():
            raise Failed(f"hammer made no report: {child.said()}")
        return json.loads(file.read_text())


@contextmanager
def hammering(bench: Bench, server: CacheServer, arguments: Sequence[object], name: str) -> Iterator[tuple]:
    """A load that runs meanwhile."""
    file = bench.folder / f"{name}.json"
    file.unlink(missing_ok=True)
    argv: Argv = [bench.programs / "vickrey", "hammer", "cache", "--url", server.url, "--json", file]
    argv += ["--warm-up", "0s", *map(str, arguments)]
    with Child(bench, name, argv, bench.testbed_core) as child:
        yield child, file


def conclude(names: Sequence[str], measured: list[dict], gaps: list[str]) -> dict:
    """Medians, and each as a multiple within its round."""
    rows = []
    for size in SIZES:
        for name in names:
            own = [each for each in measured if (each["cache"], each["bytes"]) == (name, size)]
            rows.append(
                {
                    "cache": name,
                    "bytes": size,
                    "per_cpu_s": statistics.median(each["per_cpu_s"] for each in own),
                    "p50_us": statistics.median(each["latency_us"].get("p50", 0) for each in own),
                    "p999_us": statistics.median(each["latency_us"].get("p999", 0) for each in own),
                    "share": share(measured, name, size),
                }
            )
    return {
        "name": "cache",
        "kind": "cache_http",
        "title": f"hits of one hot object at {RATE_PER_S:,}/s offered, one core",
        "rows": rows,
        "rounds": measured,
        "gaps": gaps,
        "void": any(each["rate"] < 0.95 * RATE_PER_S for each in measured if each["cache"] in (OWN, FLOOR)),
        "problems": [
            f"{each['cache']}, {each['bytes']} B, round {each['round']}: {each['errors']} errors"
            for each in measured
            if each["errors"] > each["answers"] // 1_000 and each["cache"] in (OWN, FLOOR)
        ],
    }


def share(measured: Sequence[dict], name: str, size: int) -> float:
    """The median over rounds of Vickrey's figure as a multiple of this one's."""
    of = {(each["cache"], each["bytes"], each["round"]): each["per_cpu_s"] for each in measured}
    numbers = {each["round"] for each in measured}
    return statistics.median(
        of[OWN, size, number] / of[name, size, number] if of[name, size, number] else 0.0 for number in numbers
    )


def write(entry: dict, table: Callable[..., str], verdict: Callable[[bool, bool], str]) -> str:
    """Each cache's row, and what is asked of it."""
    rows = []
    for row in entry["rows"]:
        target = TARGETS.get(row["cache"])
        met = verdict(row["share"] >= target, entry["void"]) if target else "–"
        rows.append(
            [
                row["cache"],
                row["bytes"],
                f"{row['per_cpu_s']:,.0f}",
                f"{row['p50_us']:.0f}",
                f"{row['p999_us']:.0f}",
                f"{row['share']:.2f}" if target else "–",
                f"at least {target}: {met}" if target else "–",
            ]
        )
    head = ["cache", "bytes", "requests per CPU-second", "p50 us", "p99.9 us", "Vickrey is", "of it"]
    text = (
        f"An open loop of {RATE_PER_S:,}/s on {CONNECTIONS} connections, on a core of its own; CPU time is of all "
        "processes of the cache. Each body is checked. Bare hyper makes the same head and body anew. A proxy that "
        "cannot serve the rate runs at its most."
    )
    gaps = "".join(f" Left out: {gap}." for gap in entry["gaps"])
    return "\n\n".join([f"## {entry['name']}: {entry['title']}", table(head, rows), text + gaps]) + "\n"


def cache_storms(bench: Bench, rounds: Rounds, say: Say) -> dict:
    """Hits at a rate, beside each kind of other work; and beside hits of another client, so that the
    generator's core is as busy."""
    measured = []
    with cache_peers.origin(bench, "--surrogate-keys", "64") as origin_url:
        for number in range(1, rounds.count + 1):
            for storm in (None, *STORMS):
                found = {"round": number, "storm": storm} | one_storm(bench, storm, origin_url, rounds.seconds)
                measured.append(found)
                latency = found["latency_us"]
                say(f"  round {number}  {storm or 'quiet':<10} p50 {latency['p50']} us, p99.9 {latency['p999']} us")
    return conclude_storms(measured)


def one_storm(bench: Bench, storm: str | None, origin_url: str, seconds: int) -> dict:
    """A fresh cache that holds the hot object, and the load beside it."""
    folder = tempfile.mkdtemp(dir=bench.folder)
    keys = DISK.format(folder) if storm in ON_DISK else SMALL
    with cache_peers.cache(bench, OWN, origin_url, keys, slow_sync=storm == "slow syncs") as server:
        hits = ["--rate", STORM_HITS_PER_S, "--connections", CONNECTIONS]
        hammer(bench, server, [*hits, "--duration", "1s"])
        beside: list[object] = ["--rate", STORM_LOAD_PER_S, "--connections", 4, "--duration", f"{seconds + 1}s"]
        if storm == "misses":
            beside += ["--order", "new"]
        elif storm == "evictions" or storm in ON_DISK:
            beside += ["--order", "scan", "--keys", 100_000, "--bytes", CHURN_BYTES]
        with (
            hammering(bench, server, beside, "beside") as (child, file),
            AdminRequests(server, is_purging=storm in PURGING) as admin,
        ):
            report = hammer(bench, server, [*hits, "--duration", f"{seconds}s"])
            child.process.wait(60)
            other = json.loads(file.read_text())
    counts = report["counts"]
    return {
        "latency_us": report["latency_us"],
        "hits": counts["hits"],
        "errors": counts["sent"] + counts["unsent"] - counts["hits"] - counts["forwarded"] - counts["collapsed"],
        "others": other["counts"]["sent"],
        "other_hits": other["counts"]["hits"],
        "purges": admin.count if storm in PURGING else 0,
    }


class AdminRequests:
    """Requests to the admin listener at a steady rate: purges by prefix and surrogate key that concern all
    but the hot object, or as many that do nothing, so that their clients cost the same."""

    def __init__(self, server: CacheServer, *, is_purging: bool) -> None:
        self.admin, self.base, self.is_purging = server.admin, server.url, is_purging
        self.count = 0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self) -> "AdminRequests":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self.thread.join()

    def run(self) -> None:
        """Until the end."""
        started = time.monotonic()
        while not self.is_over.wait(max(0.0, started + self.count / PURGES_PER_S - time.monotonic())):
            urllib.request.urlopen(self.request(), timeout=10).close()
            self.count += 1

    def request(self) -> urllib.request.Request:
        """The next one."""
        if not self.is_purging:
            return urllib.request.Request(f"{self.admin}/health/live")
        is_prefix = self.count % 2 == 0
        body = {"prefix": f"{self.base}x{self.count}"} if is_prefix else {"surrogate_key": f"none-{self.count}"}
        request = urllib.request.Request(f"{self.admin}/v1/cache/purges", json.dumps(body).encode())
        request.add_header("content-type", "application/json")
        return request


def conclude_storms(measured: list[dict]) -> dict:
    """Medians of p99.9, and each as a multiple of the quiet one of its round."""

    def p999(storm: str | None, number: int) -> float:
        fits = (each for each in measured if (each["storm"], each["round"]) == (storm, number))
        return next(fits)["latency_us"]["p999"]

    numbers = sorted({each["round"] for each in measured})
    rows = [
        {
            "storm": storm,
            "p50_us": statistics.median(each["latency_us"]["p50"] for each in measured if each["storm"] == storm),
            "p999_us": statistics.median(p999(storm, number) for number in numbers),
            "multiple": statistics.median(p999(storm, number) / p999(None, number) for number in numbers),
        }
        for storm in (None, *STORMS)
    ]
    return {
        "name": "cache-storms",
        "kind": "cache_storms",
        "title": f"hits at {STORM_HITS_PER_S:,}/s beside misses, purges, evictions and a disk, one core",
        "rows": rows,
        "rounds": measured,
        "void": False,
        "problems": [
            f"{each['storm'] or 'quiet'}, round {each['round']}: {each['errors']} errors"
            for each in measured
            if each["errors"] > 0
        ],
    }


def write_storms(entry: dict, table: Callable[..., str], verdict: Callable[[bool, bool], str]) -> str:
    """Each storm's row."""
    rows = [
        [
            row["storm"] or "quiet",
            f"{row['p50_us']:.0f}",
            f"{row['p999_us']:.0f}",
            f"{row['multiple']:.2f}" if row["storm"] else "–",
            verdict(row["multiple"] <= STORM_MAX, entry["void"]) if row["storm"] else "–",
        ]
        for row in entry["rows"]
    ]
    head = ["beside", "p50 us", "p99.9 us", "of quiet", f"at most {STORM_MAX:.0f}"]
    text = (
        f"Open loop; latency from the intended time. Beside it, another client at {STORM_LOAD_PER_S:,}/s: hits "
        f"of the same object (quiet, and with {PURGES_PER_S} purges per second by prefix and surrogate key; in the "
        "other rows, as many requests to the admin listener do nothing), new keys, or a scan of "
        f"{CHURN_BYTES:,}-byte bodies through 8 MiB. On the disk the same scan is written to 64 MiB of files: five "
        "indexes a second, and as many files removed; slow syncs are that and the purges, with each sync "
        f"{cache_peers.SLOW_SYNC_MS} ms longer. Both clients and the origin share a core, so that the generator's "
        "own delays are in every row; so do the threads of the cache and of its disk."
    )
    return "\n\n".join([f"## {entry['name']}: {entry['title']}", table(head, rows), text]) + "\n"
