"""The pacer on the wire: bid requests per CPU-second of the server, beside an echo of its frames and
the Go peer, and the latency of batches in open loops.

All threads of a server run on one core, the load on the other. Owns these figures and their table.
"""

import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from driver import figures
from driver.programs import Bench, Child, Failed
from driver.throughput import Rounds, Say

Table = Callable[..., str]

CAMPAIGNS = 10_000
CONNECTIONS = 32
BATCH = 10
WARM_UP_S = 8  # Shards get money for 10,000 new campaigns within some seconds.
SECRET = "of the bench"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

# Targets: bid requests per CPU-second and share of the echo; our own nanoseconds above the echo.
RATE_MIN = 5_000_000
SHARE_MIN = {1: 0.7, 4: 0.6}
OWN_NS_MAX = 58.0
LATENCY_US_MAX = {"p999": 2_000, "max": 10_000}
OPEN_RATE = 1_000_000
OPEN_SHARE = 0.8
# One and two shards at the same rate: requests per CPU-second of two, of those of one.
SCALED_RATE = 1_500_000
SCALED_SHARE_MIN = 0.9

CONFIG = """\
[admin]
listen = "127.0.0.1:0"

[runtime]
shards = {shards}

[record]
directory = "{folder}/record"
durable.commit_after = "5ms"

[budgets]
directory = "{folder}/budgets"
campaigns = "{folder}/campaigns.toml"
campaigns_max = 20000
slice_span = "1s"
# Some minutes at this rate.
reservations_max = 268435456

[pacer]
listen = "127.0.0.1:0"

[[pacer.client]]
id = "dsp-1"
secret = "{secret}"
accounts = ["acme"]
"""


@dataclass(frozen=True)
class Shape:
    """What is in flight."""

    depth: int
    candidates: int = 1


SHAPES = (Shape(1), Shape(4), Shape(16), Shape(4, candidates=4))


def campaign_file(count: int, budget: str) -> str:
    """Campaigns of one account with the default strategy, in flight for weeks."""
    now = datetime.now(UTC)
    start, end = (f"{now + timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}" for days in (-10, 30))
    account = '[[account]]\nid = "acme"\ncurrency = "USD"\ntime_zone = "UTC"\n'
    return account + "".join(
        f'[[campaign]]\nid = "c{number}"\naccount = "acme"\nbudget = "{budget}"\n'
        f'start = "{start}"\nend = "{end}"\n'
        for number in range(count)
    )


@dataclass
class Target:
    """A running server."""

    child: Child
    address: str
    campaigns: Path | None = None
    resident_last_kib: int = 0

    def resident_kib(self) -> int:
        """Resident memory."""
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        self.resident_last_kib = int(line.split()[1])
        return self.resident_last_kib

    def cpu_s(self) -> float:
        """Processor time so far, of all its threads."""
        stat = Path(f"/proc/{self.child.pid}/stat").read_text()
        return sum(figures.user_system_ticks(stat)) / TICKS_PER_S


@contextmanager
def pacer(bench: Bench, shards: int = 1, cores: str | None = None) -> Iterator[Target]:
    """A pacer with empty books, on the server's core or on these."""
    with tempfile.TemporaryDirectory(prefix="pacer-", dir=bench.folder) as folder:
        campaigns = Path(folder) / "campaigns.toml"
        campaigns.write_text(campaign_file(CAMPAIGNS, "100000.00"))
        config = Path(folder) / "vickrey.toml"
        config.write_text(CONFIG.format(folder=folder, secret=SECRET, shards=shards))
        argv = [bench.programs / "vickrey", "serve", "--config", config]
        if cores is not None:
            argv = ["taskset", "-c", cores, *argv]
        with Child(bench, "pacer", argv, bench.server_core) as child:
            address = child.wait_for(child.stderr, r"pacing bidders at ([^\s,]+)", 60.0)
            yield Target(child, address, campaigns)


@contextmanager
def echo(bench: Bench) -> Iterator[Target]:
    """The echo of frames."""
    argv = [bench.programs / "pacer-echo", "serve"]
    with Child(bench, "pacer-echo", argv, bench.server_core) as child:
        yield Target(child, child.wait_for(child.stdout, r"listening on (\S+)\n"))


@contextmanager
def go_pacer(bench: Bench) -> Iterator[Target]:
    """The Go peer; its budgets are in memory, and nothing is durable."""
    argv = ["env", "GOMAXPROCS=1", bench.programs / "go-pacer", "-listen", "127.0.0.1:0"]
    argv += ["-campaigns", str(CAMPAIGNS), "-account", "acme", "-refuse-ppm", "0"]
    with Child(bench, "go-pacer", argv, bench.server_core) as child:
        yield Target(child, child.wait_for(child.stdout, r"listening on (\S+)\n"))


def hammer(bench: Bench, target: Target, *arguments: object) -> tuple[dict, float]:
    """The report of a load, and the server's CPU time meanwhile."""
    report = bench.folder / "pacer-load.json"
    argv = [bench.programs / "vickrey", "hammer", "pacer", "--address", target.address]
    argv += ["--json", report, "--connections", CONNECTIONS, "--batch", BATCH, *arguments]
    before = target.cpu_s()
    environment = {**os.environ, "VICKREY_PACER_SECRET": SECRET}
    argv = ["taskset", "-c", bench.testbed_core, *argv]
    done = subprocess.run(
        list(map(str, argv)), capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode != 0:
        raise Failed(f"hammer pacer: {(done.stderr + done.stdout).strip()[-400:]}")
    return json.loads(report.read_text()), target.cpu_s() - before


def closed(bench: Bench, target: Target, shape: Shape, seconds: int) -> dict:
    """A closed loop. The server's time is that of the same load, measured alone."""
    load = ["--depth", shape.depth, "--candidates", shape.candidates]
    hammer(bench, target, *load, "--warm-up", "0s", "--duration", f"{WARM_UP_S}s")
    report, cpu_s = hammer(bench, target, *load, "--warm-up", "0s", "--duration", f"{seconds}s")
    return {"per_cpu_s": report["requests"] / cpu_s, "report": report}


def floor(bench: Bench, target: Target, shape: Shape, seconds: int) -> dict:
    """The same with the echo."""
    argv = ["taskset", "-c", bench.testbed_core, bench.programs / "pacer-echo", "load"]
    argv += ["--address", target.address, "--connections", CONNECTIONS, "--batch", BATCH]
    argv += ["--depth", shape.depth, "--candidates", shape.candidates, "--seconds", seconds]
    before = target.cpu_s()
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"pacer-echo: {done.stderr.strip()[-400:]}")
    # One second more to warm up, at the same rate.
    rate = json.loads(done.stdout)["requests_per_s"]
    return {"per_cpu_s": rate * (seconds + 1) / (target.cpu_s() - before)}


def own_ns(per_cpu_s: float, of_echo: float) -> float:
    """Nanoseconds of a request above those of the echo."""
    return 1e9 / per_cpu_s - 1e9 / of_echo


def wire(bench: Bench, rounds: Rounds, has_peer: bool, say: Say) -> dict:
    """Rounds of echo and pacer in turn for each shape, then open loops."""
    measured = []
    for number in range(1, rounds.count + 1):
        for shape in SHAPES:
            with echo(bench) as target:
                of_echo = floor(bench, target, shape, rounds.seconds)["per_cpu_s"]
            with pacer(bench) as target:
                one = closed(bench, target, shape, rounds.seconds)
            row = {"round": number, "depth": shape.depth, "candidates": shape.candidates}
            row |= {"echo": of_echo, "pacer": one["per_cpu_s"]}
            row |= {"busy_ppm": one["report"]["generator_busy_ppm"]}
            row["go"] = None
            if has_peer and shape == Shape(4):
                with go_pacer(bench) as target:
                    row["go"] = closed(bench, target, shape, rounds.seconds)["per_cpu_s"]
            measured.append(row)
            say(
                f"  depth {shape.depth}, {shape.candidates} candidates: {row['pacer'] / 1e6:.2f} M/s, "
                f"echo {of_echo / 1e6:.2f} M/s, own {own_ns(row['pacer'], of_echo):.0f} ns"
            )
    rows = [row_of(shape, measured) for shape in SHAPES]
    usual = next(row for row in rows if (row["depth"], row["candidates"]) == (4, 1))
    latencies = open_loops(bench, usual["pacer"], rounds.seconds, say)
    return {
        "name": "pacer-wire",
        "kind": "pacer_wire",
        "title": f"{CAMPAIGNS} campaigns, {CONNECTIONS} connections, batches of {BATCH}",
        "rows": rows,
        "rounds": measured,
        "latencies": latencies,
        "problems": [],
    }


def row_of(shape: Shape, measured: Sequence[dict]) -> dict:
    """The medians of a shape, by pairs of the same round."""
    own = [
        row for row in measured if (row["depth"], row["candidates"]) == (shape.depth, shape.candidates)
    ]
    median = statistics.median
    peers = [row["go"] for row in own if row["go"] is not None]
    return {
        "depth": shape.depth,
        "candidates": shape.candidates,
        "echo": median(row["echo"] for row in own),
        "pacer": median(row["pacer"] for row in own),
        "share": median(row["pacer"] / row["echo"] for row in own),
        "own_ns": median(own_ns(row["pacer"], row["echo"]) for row in own),
        "go": median(peers) if peers else None,
    }


def open_loops(bench: Bench, most: float, seconds: int, say: Say) -> list[dict]:
    """Latency of batches at a rate. All threads of the server share one core."""
    found = []
    for name, rate in (("1 M/s", OPEN_RATE), ("0.8 of the maximum", int(most * OPEN_SHARE))):
        with pacer(bench) as target:
            load = ["--rate", rate, "--warm-up", f"{WARM_UP_S}s", "--duration", f"{seconds}s"]
            report, _ = hammer(bench, target, *load)
        latency = report["latency_us"]
        found.append({"load": name, "rate": rate, "answered": report["requests_per_s"]} | latency)
        say(f"  open loop at {rate}/s: p99.9 {latency['p999']} us, max {latency['max']} us")
    return found


def shards(bench: Bench, rounds: Rounds, say: Say) -> dict:
    """One and two shards at the same rate, in turn. They share both cores with the load."""
    cores = f"{bench.server_core},{bench.testbed_core}"
    measured = []
    for number in range(1, rounds.count + 1):
        for count in (1, 2):
            with pacer(bench, count, cores) as target:
                load = ["--rate", SCALED_RATE, "--warm-up", "0s"]
                hammer(bench, target, *load, "--duration", f"{WARM_UP_S}s")
                resident = target.resident_kib()
                report, cpu_s = hammer(bench, target, *load, "--duration", f"{rounds.seconds}s")
                grown = target.resident_kib() - resident
            row = {"round": number, "shards": count, "per_cpu_s": report["requests"] / cpu_s}
            row |= {"authorised": report["decisions"]["authorised"], "grown_kib": grown}
            row["resident_mib"] = target.resident_last_kib / 1024
            measured.append(row)
            say(f"  {count} shards: {row['per_cpu_s'] / 1e6:.2f} M/s per CPU-second")
    median = statistics.median
    names = ("per_cpu_s", "resident_mib", "grown_kib", "authorised")
    rows = [
        {"shards": count}
        | {name: median(row[name] for row in measured if row["shards"] == count) for name in names}
        for count in (1, 2)
    ]
    return {
        "name": "pacer-shards",
        "kind": "pacer_shards",
        "title": f"one and two shards, {SCALED_RATE / 1e6} M bid requests/s",
        "rows": rows,
        "rounds": measured,
        "problems": [],
    }


def write_shards(entry: dict, table: Table, verdict: Callable[[bool, bool], str]) -> str:
    """A row for each number of shards."""
    one, two = entry["rows"]
    share = two["per_cpu_s"] / one["per_cpu_s"]
    head = ["shards", "M/s per CPU-second", "of one", "resident, MiB", "grown, KiB", "authorised"]
    rows = [
        [
            row["shards"],
            f"{row['per_cpu_s'] / 1e6:.2f}",
            f"{row['per_cpu_s'] / one['per_cpu_s']:.2f}",
            f"{row['resident_mib']:.0f}",
            f"{row['grown_kib']:.0f}",
            f"{row['authorised']:.0f}",
        ]
        for row in entry["rows"]
    ]
    about = (
        "Bid requests per CPU-second of the server at the same rate, an open loop. Server and load share "
        "both cores. *Grown* is resident memory while so many requests were authorised."
    )
    target = f"Target: two shards {SCALED_SHARE_MIN} of one, {verdict(share >= SCALED_SHARE_MIN, False)}."
    return "\n\n".join([f"## {entry['name']}: {entry['title']}", about, table(head, rows), target]) + "\n"


def write(entry: dict, table: Table, verdict: Callable[[bool, bool], str]) -> str:
    """Shapes beside the echo, then latencies."""
    head = ["in flight", "candidates", "echo, M/s", "pacer, M/s", "of the echo", "own ns", "Go, M/s"]
    rows = []
    for row in entry["rows"]:
        go = f"{row['go'] / 1e6:.2f}" if row["go"] else ""
        figures_of = [row["echo"] / 1e6, row["pacer"] / 1e6, row["share"]]
        cells = [f"{figure:.2f}" for figure in figures_of]
        rows.append([row["depth"], row["candidates"], *cells, f"{row['own_ns']:.0f}", go])
    usual = next(row for row in entry["rows"] if (row["depth"], row["candidates"]) == (4, 1))
    is_met = usual["pacer"] >= RATE_MIN and usual["share"] >= SHARE_MIN[1]
    about = (
        "Bid requests per CPU-second of the server, all of whose threads share one core; 30 % may be "
        "bid for, a tenth of the authorised ones is won and settled durably. The echo sends frames of "
        "the same length back. *Own* is what a request costs above the echo of the same round."
    )
    targets = (
        f"Targets at 4 in flight: {RATE_MIN / 1e6:.0f} M/s and {SHARE_MIN[1]} of the echo, "
        f"{verdict(is_met, False)}; own work at most {OWN_NS_MAX:.0f} ns, "
        f"{verdict(all(row['own_ns'] <= OWN_NS_MAX for row in entry['rows'][:3]), False)}."
    )
    head_of = ["open loop", "requests/s", "answered/s", "p50, us", "p99, us", "p99.9, us", "max, us"]
    names = ("rate", "answered", "p50", "p99", "p999", "max")
    loops = [[loop["load"], *(loop[name] for name in names)] for loop in entry["latencies"]]
    within = all(
        loop[name] <= most for loop in entry["latencies"] for name, most in LATENCY_US_MAX.items()
    )
    latency = f"Target: p99.9 below 2 ms and at most 10 ms, {verdict(within, False)}."
    parts = [f"## {entry['name']}: {entry['title']}", about, table(head, rows), targets]
    return "\n\n".join([*parts, table(head_of, loops), latency]) + "\n"
