"""The live feed: deliveries per CPU-second of the server, beside a raw loop that writes the same bytes
to the same sockets, and beside a NATS server; latency; stalled subscribers; idle ones.

All threads of a server run on one core, the load on the other. Owns these figures and their table.
"""

import json
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from driver import lots
from driver.programs import Bench, Child, Failed
from driver.throughput import Rounds, Say

Table = Callable[..., str]

BYTES = 200
WARM_UP_S = 2

# Targets: share of the raw loop, latency at half of the rate, growth with stalled subscribers, and
# memory of an idle one.
SHARE_MIN = 0.8
LATENCY_US_MAX = {"p99": 5_000, "p999": 20_000}
STALLED_SLACK_US = 1_000
STALLED_KIB_MAX = 64
IDLE = 10_000
IDLE_KIB_MAX = 8.0
RING_KIB = 16 * 1024

CONFIG = """\
[admin]
listen = "127.0.0.1:0"

[runtime]
shards = 1
connections_max = 20000
connections_per_caller_max = 20000

[record]
directory = "{folder}/record"

[live]
listen = "127.0.0.1:0"
trust_loopback = true
topics = ["news"]

[live.ring]
bytes = "16MiB"

[live.limits]
commands_per_s = 1000000
"""


@dataclass(frozen=True)
class Shape:
    """A load."""

    subscribers: int
    rate: int

    @property
    def name(self) -> str:
        return f"{self.subscribers} × {self.rate}/s"


SHAPES = (Shape(1_000, 200), Shape(100, 5_000))


@contextmanager
def floor(bench: Bench) -> Iterator[tuple[Child, str]]:
    """A live floor on the server's core."""
    with tempfile.TemporaryDirectory(prefix="live-", dir=bench.folder) as folder:
        config = Path(folder) / "vickrey.toml"
        config.write_text(CONFIG.format(folder=folder))
        argv = [bench.programs / "vickrey", "serve", "--config", config]
        with Child(bench, "live", argv, bench.server_core) as child:
            yield child, child.wait_for(child.stderr, r"the live floor is at (\S+)\n", 60.0)


@contextmanager
def raw(bench: Bench, shape: Shape, seconds: int) -> Iterator[tuple[Child, str]]:
    """The raw loop, with the same window."""
    argv = [bench.programs / "bench-live", "--subscribers", shape.subscribers]
    argv += ["--rate", shape.rate, "--bytes", BYTES, "--seconds", seconds + WARM_UP_S + 2]
    with Child(bench, "raw", list(map(str, argv)), bench.server_core) as child:
        yield child, child.wait_for(child.stdout, r"listening on (\S+)\n")


@contextmanager
def nats(bench: Bench) -> Iterator[tuple[Child, str]]:
    """A NATS server."""
    argv = ["env", "GOMAXPROCS=1", bench.programs / "go-nats", "serve"]
    with Child(bench, "go-nats", argv, bench.server_core) as child:
        yield child, child.wait_for(child.stdout, r"listening on (\S+)\n")


def load_nats(bench: Bench, target: tuple[Child, str], shape: Shape, seconds: int) -> dict:
    """The report of the peer's own load, which has the names of the hammer's."""
    child, address = target
    argv = ["taskset", "-c", bench.testbed_core, bench.programs / "go-nats", "load"]
    argv += ["--address", address, "--server", child.pid, "--bytes", BYTES, "--seconds", seconds]
    argv += ["--warm-up", WARM_UP_S, "--subscribers", shape.subscribers, "--rate", shape.rate]
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"go-nats load: {(done.stderr + done.stdout).strip()[-400:]}")
    report = json.loads(done.stdout)
    if report["gaps"] or report["closed"]:
        raise Failed(f"go-nats: subscribers missed messages: {done.stdout.strip()}")
    return report


def hammer(bench: Bench, target: tuple[Child, str], *arguments: object) -> dict:
    """The report of a load."""
    child, address = target
    report = bench.folder / "live-load.json"
    argv = ["taskset", "-c", bench.testbed_core, bench.programs / "vickrey", "hammer", "live"]
    argv += ["--address", address, "--server", child.pid, "--json", report, "--bytes", BYTES]
    argv += ["--warm-up", f"{WARM_UP_S}s", *arguments]
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"hammer live: {(done.stderr + done.stdout).strip()[-400:]}")
    return json.loads(report.read_text())


def feed(bench: Bench, rounds: Rounds, has_nats: bool, say: Say) -> dict:
    """Rounds of raw loop, feed and NATS in turn for each shape, then half of the rate, stalled and
    idle subscribers."""
    measured = []
    for number in range(1, rounds.count + 1):
        for shape in SHAPES:
            load = ["--subscribers", shape.subscribers, "--duration", f"{rounds.seconds}s"]
            with raw(bench, shape, rounds.seconds) as target:
                of_raw = hammer(bench, target, *load, "--publishers", 0)
            with floor(bench) as target:
                own = hammer(bench, target, *load, "--rate", shape.rate)
            row = {"round": number, "shape": shape.name}
            row |= {"raw": of_raw["server"]["delivered_per_cpu_s"]}
            row |= {"live": own["server"]["delivered_per_cpu_s"], "reports": [of_raw, own]}
            row["nats"] = None
            if has_nats:
                with nats(bench) as target:
                    peer = load_nats(bench, target, shape, rounds.seconds)
                row["nats"] = peer["server"]["delivered_per_cpu_s"]
                row["reports"].append(peer)
            measured.append(row)
            beside = f"; NATS {row['nats']}" if has_nats else ""
            say(f"  {shape.name}: {row['live']} of {row['raw']} deliveries per CPU-second{beside}")
    return {
        "name": "live",
        "kind": "live",
        "title": f"messages with bodies of {BYTES} bytes, one shard, a window of 2 ms",
        "rows": [row_of(shape, measured) for shape in SHAPES],
        "rounds": measured,
        "latencies": [half(bench, shape, rounds.seconds, say) for shape in SHAPES],
        "stalled": stalled(bench, rounds.seconds, say),
        "idle": idle(bench, say),
        "ping_pong": lots.ping_pong(bench, rounds.seconds, say),
        "problems": [],
    }


def row_of(shape: Shape, measured: Sequence[dict]) -> dict:
    """The medians of a shape. The share is of the raw loop of the same round."""
    own = [row for row in measured if row["shape"] == shape.name]
    median = statistics.median
    peers = [row["nats"] for row in own if row["nats"] is not None]
    return {
        "shape": shape.name,
        "share": median(row["live"] / row["raw"] for row in own),
        "raw": median(row["raw"] for row in own),
        "live": median(row["live"] for row in own),
        "nats": median(peers) if peers else None,
    }


def half(bench: Bench, shape: Shape, seconds: int, say: Say) -> dict:
    """Latency at half of the rate, and the raw loop's."""
    slow = Shape(shape.subscribers, shape.rate // 2)
    load = ["--subscribers", slow.subscribers, "--duration", f"{seconds}s"]
    with raw(bench, slow, seconds) as target:
        of_raw = hammer(bench, target, *load, "--publishers", 0)["latency_us"]
    with floor(bench) as target:
        latency = hammer(bench, target, *load, "--rate", slow.rate)["latency_us"]
    say(
        f"  half of {shape.name}: p99 {latency['p99']} us, p99.9 {latency['p999']} us; "
        f"raw loop {of_raw['p99']} and {of_raw['p999']} us"
    )
    return {"shape": shape.name, "raw": of_raw} | latency


def stalled(bench: Bench, seconds: int, say: Say) -> dict:
    """The second shape with a tenth that reads nothing, beside the same without them."""
    found = {}
    for name, count in (("without", 0), ("with", 10)):
        load = ["--subscribers", 90, "--stalled", count, "--rate", 2_500]
        with floor(bench) as target:
            report = hammer(bench, target, *load, "--duration", f"{seconds}s")
        server = report["server"]
        grown = server["resident_peak_kib"] - server["resident_before_kib"]
        queues = server["send_queue_peak_bytes"] / 1024
        found[name] = {"p99": report["latency_us"]["p99"], "grown_kib": grown, "queues_kib": queues}
        say(f"  {name} stalled: p99 {found[name]['p99']} us, {grown} KiB, queues {queues:.0f} KiB")
    return found


def idle(bench: Bench, say: Say) -> dict:
    """Resident memory of subscribers that nothing happens to."""
    with floor(bench) as target:
        report = hammer(bench, target, "--subscribers", 1, "--rate", 1, "--duration", "1s")
        alone = report["server"]["resident_before_kib"]
        load = ["--subscribers", 1, "--stalled", IDLE, "--rate", 1, "--duration", "1s"]
        crowd = hammer(bench, target, *load)["server"]["resident_before_kib"]
    each = (crowd - alone) / IDLE
    say(f"  {IDLE} idle subscribers: {each:.1f} KiB each")
    return {"subscribers": IDLE, "each_kib": each}


def is_prompt(latency: dict) -> bool:
    """Whether a latency is within its limits."""
    return all(latency[name] <= most for name, most in LATENCY_US_MAX.items())


def write(entry: dict, table: Table, verdict: Callable[[bool, bool], str]) -> str:
    """Shapes beside the raw loop, then latencies, stalled and idle subscribers."""
    head = ["subscribers × messages", "raw loop", "feed", "of the raw loop", "0.8", "NATS"]
    rows = [
        [
            row["shape"],
            f"{row['raw']:.0f}",
            f"{row['live']:.0f}",
            f"{row['share']:.2f}",
            verdict(row["share"] >= SHARE_MIN, False),
            # Earlier runs had no such peer.
            "–" if row.get("nats") is None else f"{row['nats']:.0f}",
        ]
        for row in entry["rows"]
    ]
    about = (
        "Deliveries per CPU-second of the server, all of whose threads share one core: publishing, the "
        "log and broadcasting are in it. The raw loop only writes the same bytes to the same sockets, in "
        "the same window. NATS, where Go is installed, is a server of version 2.10 with its own load at the "
        "same rates and lengths of bodies. It writes no log, and its frames carry less than the feed's: the "
        "subject and the body, without position, time or publisher. A program that uses its whole core sends "
        "larger batches and still delivers everything, so its figure is close to the offered deliveries per "
        "second, subscribers × messages, and does not say how much more it could deliver."
    )
    latency_head = ["latency, us", "p99", "p99.9", "max", "5 and 20 ms", "raw loop p99", "p99.9"]
    latencies = [
        [
            f"half of {row['shape']}",
            row["p99"],
            row["p999"],
            row["max"],
            verdict(is_prompt(row), False),
            # Earlier runs did not measure it.
            row["raw"]["p99"] if "raw" in row else "–",
            row["raw"]["p999"] if "raw" in row else "–",
        ]
        for row in entry["latencies"]
    ]
    without, with_ = entry["stalled"]["without"], entry["stalled"]["with"]
    slack = max(without["p99"] * 0.1, STALLED_SLACK_US)
    grown = with_["grown_kib"] + with_["queues_kib"] - without["grown_kib"] - without["queues_kib"]
    is_calm = with_["p99"] <= without["p99"] + slack and grown <= RING_KIB + 10 * STALLED_KIB_MAX
    stalled_text = (
        f"90 subscribers × 2500/s: p99 {without['p99']} us; with 10 stalled ones {with_['p99']} us, and "
        f"{grown:.0f} KiB more of memory and send queues: {verdict(is_calm, False)}."
    )
    each = entry["idle"]["each_kib"]
    idle_text = (
        f"{entry['idle']['subscribers']} idle subscribers: {each:.1f} KiB each, at most {IDLE_KIB_MAX:.0f}: "
        f"{verdict(each <= IDLE_KIB_MAX, False)}."
    )
    # Earlier runs had no bidders.
    ping_pong = [lots.line(entry["ping_pong"], verdict)] if "ping_pong" in entry else []
    return (
        "\n\n".join(
            [
                f"## {entry['name']}: {entry['title']}",
                about,
                table(head, rows),
                table(latency_head, latencies),
                stalled_text,
                idle_text,
                *ping_pong,
            ]
        )
        + "\n"
    )
