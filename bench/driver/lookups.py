"""Look-ups over HTTP, of a farm of simulated providers: a provider that fails above a limit, one that hangs,
many clients that poll, what calls and known answers cost, and memory.

Owns the experiments of the scenario `lookup` and their targets. Counts are exact; times are of this client,
which is Python: they are upper bounds.
"""

import json
import socket
import statistics
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from driver import cache_peers, machine
from driver.programs import Argv, Bench, Child, Failed
from driver.throughput import Rounds, Say

# 50 queries that find blocks, and ask each for its places.
QUERIES, BLOCKS = 50, 106
CALLS = QUERIES * (1 + BLOCKS)
SERVICE_MS, PROVIDER_MAX = 20, 10
OVERSHOOT_MAX, ATTEMPTS_MAX, ELAPSED_MAX = 0.05, 1.1, 1.25
# One of so many hangs.
FARM, DEADLINE_MS, LATE_MS_MAX, REPEATED = 100, 500, 5.0, 20
# Clients with a query each, and then clients that poll.
CLIENTS, RECORDS, POLLERS = 300, 267, 1_000
# Of calls with one record, and of a known answer.
DISPATCH_QUERIES, DISPATCH_MIN, KNOWN, KNOWN_MIN = 200, 10_000, 20_000, 0.5
# Queries at a time, of so many records each.
MEMORY_QUERIES, MEMORY_RECORDS, MEMORY_BYTES = 1_000, 1_000, 64 << 20
THREADS = 8

SITES = """
[[key]]
name = "dataset"
[[key]]
name = "block"
[[key]]
name = "site"
[[provider]]
name = "rucio"
url = "{url}"
{limit}
[[provider.call]]
name = "blocks"
gives = ["block"]
path = "/dids/{{dataset}}/dids"
format = "ndjson"
typical = 106
fields = {{ name = "block.name" }}
[[provider.call.parameter]]
name = "dataset"
key = "dataset"
required = true
[[provider.call]]
name = "replicas"
gives = ["site"]
path = "/replicas"
format = "ndjson"
fields = {{ rse = "site.name" }}
[[provider.call.parameter]]
name = "block"
key = "block"
required = true
from = "rucio.blocks"
"""


@dataclass
class Farm:
    """Running providers, and the folder of the map that describes them."""

    child: Child
    folder: Path
    url: str

    def stats(self) -> list[dict]:
        """Stops them: what each has seen."""
        self.child.stop()
        return json.loads(self.child.stdout.read_text().splitlines()[-1])


@contextmanager
def farm(bench: Bench, *options: object) -> Iterator[Farm]:
    folder = bench.folder / "maps"
    folder.mkdir(exist_ok=True)
    argv: Argv = [bench.programs / "vickrey", "provider", "--json", "--map", folder / "farm.toml"]
    with Child(bench, "farm", argv + list(map(str, options)), bench.testbed_core) as child:
        url = child.wait_for(child.stdout, r'"urls":\["([^"]+)"')
        yield Farm(child, folder, url)


@contextmanager
def lookups(bench: Bench, of: Farm, keys: str = "") -> Iterator[tuple[int, int]]:
    """A server of the farm's map: its process and port."""
    file = bench.folder / "lookup.toml"
    file.write_text(
        f'[admin]\nlisten = "127.0.0.1:0"\n[lookup]\nlisten = "127.0.0.1:0"\nmaps = "{of.folder}/*.toml"\n{keys}\n'
    )
    argv: Argv = [bench.programs / "vickrey", "serve", "--shards", "1", "--config", file]
    with Child(bench, "lookup", argv, bench.server_core) as child:
        port = child.wait_for(child.stderr, r"look-ups are at 127\.0\.0\.1:(\d+)")
        yield child.pid, int(port)


class Client:
    """One kept connection."""

    def __init__(self, port: int) -> None:
        self.stream = socket.create_connection(("127.0.0.1", port))
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def raw(self, method: str, target: str, body: str = "") -> tuple[int, bytes]:
        """The status and body of an answer with a length."""
        head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        self.stream.sendall(head.encode())
        read = b""
        while b"\r\n\r\n" not in read:
            read += self.more()
        head, _, rest = read.partition(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        while len(rest) < int(length[15:]):
            rest += self.more()
        return int(head.split()[1]), rest

    def more(self) -> bytes:
        read = self.stream.recv(1 << 20)
        if not read:
            raise Failed("the server closed a connection")
        return read

    def ask(self, query: str, **parameters: object) -> dict:
        """The answer to a query, once it is there."""
        status, body = self.raw("GET", target(query, **parameters))
        if status != 200:
            raise Failed(f"{query}: {status} {body[:200]!r}")
        return json.loads(body)

    def begin(self, query: str) -> str:
        """The id of a query."""
        status, body = self.raw("POST", "/lookup", json.dumps({"query": query, "limit": 0}))
        if status not in (200, 202):
            raise Failed(f"{query}: {status} {body[:200]!r}")
        return json.loads(body)["id"]

    def end(self, query_id: str, limit: int = 0) -> dict:
        """The answer to a query that has begun."""
        while True:
            _, body = self.raw("GET", f"/lookup/{query_id}?wait=30s&limit={limit}")
            answer = json.loads(body)
            if answer["status"] not in ("queued", "running"):
                return answer


def target(query: str, **parameters: object) -> str:
    """The path of a query."""
    return "/lookup?" + urllib.parse.urlencode({"query": query} | parameters)


def spread(count: int, work: Callable[[int], None], threads: int = THREADS) -> None:
    """Does work for each number, on several threads; its failure is the caller's."""
    numbers, failed = iter(range(count)), []
    lock = threading.Lock()

    def run() -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None or failed:
                return
            try:
                work(number)
            except Exception as error:  # noqa: BLE001
                failed.append(error)

    running = [threading.Thread(target=run) for _ in range(min(threads, count))]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if failed:
        raise failed[0]


def of_thread(port: int) -> Callable[[], Client]:
    """Each thread's own connection."""
    own = threading.local()

    def client() -> Client:
        if not hasattr(own, "client"):
            own.client = Client(port)
        return own.client

    return client


def overloaded(bench: Bench, limit: str) -> dict:
    """Queries with many steps, to a provider that fails above so many calls at a time."""
    options = ["--concurrency", PROVIDER_MAX, "--latency", f"{SERVICE_MS}ms", "--blocks", BLOCKS]
    with farm(bench, *options) as of:
        (of.folder / "farm.toml").write_text(SITES.format(url=of.url, limit=limit))
        with lookups(bench, of) as (_, port):
            client = Client(port)
            began = time.monotonic()
            ids = [client.begin(f"site dataset=/a/b/c{number}") for number in range(QUERIES)]
            answers = [client.end(query) for query in ids]
            elapsed = time.monotonic() - began
        stats = of.stats()[0]
    return {
        "failures": sum(answer["status"] != "done" for answer in answers),
        "attempts": stats["requests"],
        "overshot": stats["overloaded"],
        "concurrent_max": stats["concurrent_max"],
        "elapsed_s": elapsed,
    }


def das(bench: Bench) -> dict:
    """The same queries, by the design of das2go."""
    options = ["--concurrency", PROVIDER_MAX, "--latency", f"{SERVICE_MS}ms", "--blocks", BLOCKS]
    with farm(bench, *options) as of:
        argv: Argv = [bench.programs / "go-das", "-url", of.url, "-queries", str(QUERIES), "-blocks", str(BLOCKS)]
        with Child(bench, "go-das", argv, bench.server_core) as child:
            child.process.wait(600)
            found = json.loads(child.stdout.read_text())
        stats = of.stats()[0]
    return {
        "failures": found["lacking"],
        "attempts": stats["requests"],
        "overshot": stats["overloaded"],
        "concurrent_max": stats["concurrent_max"],
        "elapsed_s": found["elapsed_s"],
    }


def hanging(bench: Bench) -> list[float]:
    """How late partial answers come, in milliseconds: one of the providers hangs."""
    late = []
    with (
        farm(bench, "--count", FARM, "--items", 10, "--fault", "hang", "--faulty", 1) as of,
        lookups(bench, of) as (_, port),
    ):
        client = Client(port)
        client.ask("item group=warm", timeout=f"{DEADLINE_MS}ms")
        for number in range(REPEATED):
            began = time.monotonic()
            answer = client.ask(f"item group=g{number}", timeout=f"{DEADLINE_MS}ms", limit=1)
            late.append((time.monotonic() - began) * 1_000 - DEADLINE_MS)
            sources = answer["rows"][0]["from"]
            if answer["status"] != "partial" or len(sources) != FARM - 1:
                raise Failed(f"{answer['status']}, from {len(sources)} providers")
    return late


def polled(bench: Bench) -> dict:
    """Clients with a query each, and clients that poll: how long they wait."""
    with (
        farm(bench, "--count", 3, "--items", RECORDS, "--latency", "5ms") as of,
        lookups(bench, of) as (_, port),
    ):
        client, waits, polls, ids = of_thread(port), [], [], []

        def query(number: int) -> None:
            began = time.monotonic()
            answer = client().ask(f"item group=g{number}", limit=RECORDS)
            waits.append((time.monotonic() - began) * 1_000)
            if answer["status"] != "done" or len(answer["rows"]) != RECORDS:
                raise Failed(f"{answer['status']} with {len(answer['rows'])} records")
            ids.append(answer["id"])

        def poll(number: int) -> None:
            began = time.monotonic()
            answer = client().end(ids[number % len(ids)], 10)
            polls.append((time.monotonic() - began) * 1_000)
            if answer["total"] != RECORDS or len(answer["rows"]) != 10:
                raise Failed(f"a page of {len(answer['rows'])} of {answer['total']}")

        spread(CLIENTS, query, CLIENTS)
        client = of_thread(port)
        spread(10 * POLLERS, poll, POLLERS)
    return {"records": CLIENTS * RECORDS, "waits_ms": waits, "polls_ms": polls}


def dispatched(bench: Bench) -> float:
    """Calls with one record per CPU-second of the server."""
    with (
        farm(bench, "--count", FARM, "--items", 1) as of,
        lookups(bench, of) as (pid, port),
    ):
        client = of_thread(port)
        ask = lambda number: client().ask(f"item group=g{number}", limit=0)
        spread(THREADS, lambda number: ask(-number - 1))
        before = machine.process_times(pid).cpu_s
        spread(DISPATCH_QUERIES, ask)
        return DISPATCH_QUERIES * FARM / (machine.process_times(pid).cpu_s - before)


def known(bench: Bench) -> dict:
    """A known answer per CPU-second of the server, and the same bytes of bare hyper."""
    query = "item group=g"
    with farm(bench, "--items", 10) as of, lookups(bench, of) as (pid, port):
        client = Client(port)
        for _ in range(3):
            _, body = client.raw("GET", target(query))
        own = per_cpu_s(pid, port, target(query))
    with cache_peers.cache(bench, "hyper", "", bytes_=len(body)) as bare:
        return {"bytes": len(body), "own": own, "bare": per_cpu_s(bare.child.pid, bare.port, "/0")}


def per_cpu_s(pid: int, port: int, path: str) -> float:
    """Requests for a path per CPU-second of a server."""
    client = of_thread(port)

    def get(_: int) -> None:
        status, _ = client().raw("GET", path)
        if status != 200:
            raise Failed(f"{path}: {status}")

    spread(1_000, get)
    before = machine.process_times(pid).cpu_s
    spread(KNOWN, get)
    return KNOWN / (machine.process_times(pid).cpu_s - before)


def memory(bench: Bench) -> dict:
    """How far the resident set grows with many answers at a time, and their bytes."""
    with (
        farm(bench, "--count", 1, "--items", MEMORY_RECORDS, "--latency", "1s") as of,
        lookups(bench, of) as (pid, port),
    ):
        client = Client(port)
        client.ask("item group=warm", limit=0)
        before = machine.resident_kib(pid)
        ids = [client.begin(f"item group=g{number}") for number in range(MEMORY_QUERIES)]
        answers = [client.end(query) for query in ids]
        if any(answer["total"] != MEMORY_RECORDS for answer in answers):
            raise Failed("an answer lacks records")
        grown = (machine.resident_kib(pid) - before) * 1024
        _, page = client.raw("GET", f"/lookup/{ids[0]}?limit={MEMORY_RECORDS}")
    return {"grown": grown, "answers": len(page) * MEMORY_QUERIES}


def lookup_service(bench: Bench, rounds: Rounds, has_peer: bool, say: Say) -> dict:
    """Every experiment; those with times as often as there are rounds."""
    limits = {"known": f"concurrency = {PROVIDER_MAX}", "unknown": ""}
    found: dict = {"overloaded": {name: [] for name in limits}, "known": [], "dispatched": [], "late_ms": []}
    for number in range(1, rounds.count + 1):
        for name, limit in limits.items():
            found["overloaded"][name].append(overloaded(bench, limit))
            say(f"  round {number}  limit {name}: {found['overloaded'][name][-1]}")
        found["late_ms"] += hanging(bench)
        found["dispatched"].append(dispatched(bench))
        found["known"].append(known(bench))
        say(f"  round {number}  {found['dispatched'][-1]:,.0f} calls, {found['known'][-1]['own']:,.0f} answers")
    found["das"] = das(bench) if has_peer else None
    found["polled"] = polled(bench)
    found["memory"] = memory(bench)
    return {
        "name": "lookup",
        "kind": "lookup_service",
        "title": "queries to simulated providers over HTTP",
        "found": found,
        "void": False,
        "problems": [],
    }


def quantile(values: Sequence[float], share: float) -> float:
    """A quantile, of those that occurred."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def write(entry: dict, table: Callable[..., str], verdict: Callable[[bool, bool], str]) -> str:
    """A row for each target."""
    found = entry["found"]
    least_s = CALLS * SERVICE_MS / 1_000 / PROVIDER_MAX
    rows = []
    for name, all_runs in found["overloaded"].items():
        failures = max(run["failures"] for run in all_runs)
        overshot = max(run["overshot"] for run in all_runs)
        attempts = max(run["attempts"] for run in all_runs) / CALLS
        elapsed = statistics.median(run["elapsed_s"] for run in all_runs) / least_s
        overshot_max = 0 if name == "known" else OVERSHOOT_MAX * CALLS
        for what, figure, asked, met in (
            ("queries that lack something", failures, "0", failures == 0),
            ("calls above the limit", overshot, f"at most {overshot_max:,.0f}", overshot <= overshot_max),
            ("attempts of calls", f"{attempts:.3f}", f"at most {ATTEMPTS_MAX}", attempts <= ATTEMPTS_MAX),
            ("elapsed of the least", f"{elapsed:.2f}", f"at most {ELAPSED_MAX}", elapsed <= ELAPSED_MAX),
        ):
            rows.append([f"{CALLS:,} calls, limit {name}: {what}", figure, asked, verdict(met, False)])
    if peer := found["das"]:
        figures = f"{peer['failures']} of {QUERIES} lack something, {peer['overshot']:,} above the limit, "
        figures += f"{peer['elapsed_s'] / least_s:.2f} of the least time"
        rows.append([f"{CALLS:,} calls, das2go's design", figures, "–", "–"])
    late = quantile(found["late_ms"], 0.5)
    rows.append(
        [
            f"one of {FARM} hangs: answer after the deadline, median (p95 {quantile(found['late_ms'], 0.95):.1f} ms)",
            f"{late:.1f} ms",
            f"at most {LATE_MS_MAX:.0f} ms",
            verdict(late <= LATE_MS_MAX, False),
        ]
    )
    calls = statistics.median(found["dispatched"])
    asked = f"at least {DISPATCH_MIN:,}"
    rows.append(["calls per CPU-second", f"{calls:,.0f}", asked, verdict(calls >= DISPATCH_MIN, False)])
    shares = [each["own"] / each["bare"] for each in found["known"]]
    share, own = statistics.median(shares), statistics.median(each["own"] for each in found["known"])
    rows.append(
        [
            f"known answers per CPU-second, {found['known'][0]['bytes']:,} bytes: {own:,.0f}; of bare hyper",
            f"{share:.2f}",
            f"at least {KNOWN_MIN}",
            verdict(share >= KNOWN_MIN, False),
        ]
    )
    waits, polls = found["polled"]["waits_ms"], found["polled"]["polls_ms"]
    # A wrong answer would have ended the experiment.
    clients = f"{CLIENTS} clients, {found['polled']['records']:,} records: p99"
    for what, of in ((clients, waits), (f"{POLLERS:,} clients that poll: p99", polls)):
        rows.append([what, f"{quantile(of, 0.99):,.0f} ms", "all right", "met"])
    grown, answers = found["memory"]["grown"], found["memory"]["answers"]
    most = 2 * answers + MEMORY_BYTES
    rows.append(
        [
            f"{MEMORY_QUERIES:,} answers of {MEMORY_RECORDS:,} records: memory beyond, of {answers / 2**20:,.0f} MiB",
            f"{grown / 2**20:,.0f} MiB",
            f"at most {most / 2**20:,.0f} MiB",
            verdict(grown <= most, False),
        ]
    )
    return "\n\n".join(
        [
            f"## {entry['name']}: {entry['title']}",
            "One shard and one client, each on a core of its own. The least time of the calls is their number times "
            f"{SERVICE_MS} ms, divided by {PROVIDER_MAX} at a time.",
            table(["what", "figure", "target", ""], rows),
        ]
    ) + "\n"
