"""The processes of a measurement: DSPs, servers, load, and tools that look at a server.

Owns their starts and ends: every one is a context manager, so none outlives the driver. Must not
know what is measured.
"""

import json
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from driver import figures
from driver.figures import Sample

START_S = 15.0
STOP_S = 15.0
POLL_S = 0.02

# All else is as a user would have it.
CONFIG = """\
[admin]
listen = "127.0.0.1:0"

[exchange]
listen = "127.0.0.1:0"

"""


# A program and its arguments.
Argv = list[str | Path]


class Failed(Exception):
    """A program did not start, ended early, or gave no result. Names it and quotes it."""


@dataclass(frozen=True)
class Bench:
    """Where programs are, where they write, and the core of each side."""

    programs: Path
    folder: Path
    server_core: int
    testbed_core: int
    in_flight: int


@dataclass(frozen=True)
class FleetOptions:
    """The simulated DSPs of a scenario."""

    dsps: int
    bid_percent: int = 30
    latency_ms: int = 0
    late_ppm: int = 0


@dataclass(frozen=True)
class Load:
    """What the hammer does: a closed loop, by default with as many in flight as all others have,
    or an open one where a rate is given."""

    seconds: int
    rate_per_s: int | None = None
    tmax_ms: int | None = None
    in_flight: int | None = None


class Child:
    """A process bound to a core, its output in files."""

    def __init__(self, bench: Bench, name: str, argv: Argv, core: int) -> None:
        self.name = name
        self.stdout, self.stderr = bench.folder / f"{name}.out", bench.folder / f"{name}.err"
        bound = ["taskset", "-c", str(core), *map(str, argv)]
        with self.stdout.open("wb") as out, self.stderr.open("wb") as err:
            # A group of its own: Ctrl-C ends the driver, and the driver ends the rest in order.
            self.process = subprocess.Popen(
                bound, stdin=subprocess.DEVNULL, stdout=out, stderr=err, process_group=0
            )
        self.pid = self.process.pid

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_for(self, file: Path, pattern: str) -> str:
        """The first group of `pattern`, once the process has written it."""
        deadline = time.monotonic() + START_S
        while True:
            ended = self.process.poll() is not None
            match = re.search(pattern, file.read_text(errors="replace"))
            if match:
                return match[1]
            if ended or time.monotonic() > deadline:
                raise Failed(f"{self.name} did not start: {self.said()}")
            time.sleep(POLL_S)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Ends it and waits; killed if it does not listen. Does nothing the second time."""
        if self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()

    def said(self) -> str:
        """The end of its output, for messages."""
        text = self.stderr.read_text(errors="replace") + self.stdout.read_text(errors="replace")
        return text.strip()[-400:] or "it said nothing"


@dataclass
class Fleet:
    """Running DSPs, and the files that tell servers of them."""

    child: Child
    options: FleetOptions
    tables: Path
    urls: Path

    def totals(self) -> dict[str, int]:
        """Ends the fleet, and says what it has counted."""
        self.child.stop()
        return figures.fleet_totals(self.child.stdout.read_text())


@contextmanager
def fleet(bench: Bench, options: FleetOptions) -> Iterator[Fleet]:
    """Simulated DSPs on the testbed's core."""
    tables, urls = bench.folder / "dsps.toml", bench.folder / "dsps.txt"
    latency = ",".join([str(options.latency_ms)] * 3)
    argv: Argv = [bench.programs / "vickrey", "dsp", "--core", str(bench.testbed_core)]
    argv += ["--count", str(options.dsps), "--bid-percent", str(options.bid_percent)]
    argv += ["--latency-ms", latency, "--late-ppm", str(options.late_ppm)]
    argv += ["--write-config", tables, "--write-urls", urls]
    with Child(bench, "fleet", argv, bench.testbed_core) as child:
        child.wait_for(child.stdout, r"(\d+) DSPs listen")
        yield Fleet(child, options, tables, urls)


@dataclass
class Server:
    """A running exchange, floor or peer."""

    child: Child
    url: str
    metrics_url: str | None = None

    def metrics(self) -> list[Sample]:
        """What it counts; nothing for those without metrics."""
        if self.metrics_url is None:
            return []
        with urllib.request.urlopen(self.metrics_url, timeout=10) as page:
            return figures.metrics(page.read().decode())


PROGRAMS = {
    "floor": ["bench-floor", "--listen", "127.0.0.1:0", "--dsps"],
    "vickrey": ["vickrey", "serve", "--shards", "1", "--config"],
    # A tmax above the requests' own: theirs alone ends auctions, as with the others.
    "go": ["go-exchange", "-listen", "127.0.0.1:0", "-tmax", "1s", "-dsps"],
    "go-marshal-once": [
        "go-exchange",
        "-listen",
        "127.0.0.1:0",
        "-tmax",
        "1s",
        "-marshal-once",
        "-dsps",
    ],
}


@contextmanager
def serving(bench: Bench, program: str, dsps: Fleet) -> Iterator[Server]:
    """A fresh server over the fleet, with all its threads on the server's core."""
    file = dsps.urls
    if program == "vickrey":
        file = bench.folder / "vickrey.toml"
        file.write_text(CONFIG + dsps.tables.read_text())
    executable, *arguments = PROGRAMS[program]
    argv: Argv = [bench.programs / executable, *arguments, file]
    if executable == "go-exchange":
        argv = ["env", "GOMAXPROCS=1", *argv]
    with Child(bench, program, argv, bench.server_core) as child:
        if program == "vickrey":
            url = child.wait_for(child.stderr, r"taking bid requests at (http://[^\s,]+)")
            metrics = child.wait_for(child.stderr, r"metrics and health at (http://[^\s,]+)")
            yield Server(child, url, metrics)
        else:
            address = child.wait_for(child.stdout, r"listening on (\S+)\n")
            yield Server(child, f"http://{address}/openrtb2/auction")


class Hammer:
    """Load on its way."""

    def __init__(self, child: Child, json_file: Path, deadline_s: float) -> None:
        self.child, self.json_file, self.deadline_s = child, json_file, deadline_s

    def is_over(self, wait_s: float) -> bool:
        """Whether it ended within `wait_s`."""
        try:
            self.child.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def report(self) -> dict:
        """Its report, once it has ended."""
        if not self.is_over(max(0.0, self.deadline_s - time.monotonic())):
            raise Failed(f"hammer did not end in time: {self.child.said()}")
        if not self.json_file.exists():
            raise Failed(f"hammer made no report: {self.child.said()}")
        report = json.loads(self.json_file.read_text())
        if report["counts"]["ok_bid"] + report["counts"]["no_bid"] == 0:
            raise Failed(f"nothing was answered: {self.child.said()}")
        return report


@contextmanager
def hammering(bench: Bench, url: str, load: Load) -> Iterator[Hammer]:
    """The reference request, over and over, from the testbed's core. There is no warm-up: what
    it reports is all that it sent, so it can be set against what the server used meanwhile."""
    json_file = bench.folder / "hammer.json"
    json_file.unlink(missing_ok=True)
    argv: Argv = [bench.programs / "vickrey", "hammer", "exchange", "--url", url]
    argv += ["--reference", "--core", str(bench.testbed_core), "--json", json_file]
    argv += ["--warm-up", "0s", "--duration", f"{load.seconds}s"]
    if load.rate_per_s:
        argv += ["--rate", str(load.rate_per_s)]
    else:
        argv += ["--in-flight", str(load.in_flight or bench.in_flight)]
    argv += ["--tmax", f"{load.tmax_ms}ms"] if load.tmax_ms else []
    with Child(bench, "hammer", argv, bench.testbed_core) as child:
        yield Hammer(child, json_file, time.monotonic() + load.seconds + 60)


def hammer(bench: Bench, url: str, load: Load) -> dict:
    """Loads the server to the end, and gives the report."""
    with hammering(bench, url, load) as running:
        return running.report()


@contextmanager
def straced(bench: Bench, server: Server, out: Path) -> Iterator[None]:
    """Counts the system calls of the server into `out`, complete after the block."""
    argv: Argv = ["strace", "-c", "-f", "-o", out, "-p", str(server.child.pid)]
    with Child(bench, "strace", argv, bench.testbed_core) as child:
        child.wait_for(child.stderr, r"(attached)")
        yield
        child.stop(signal.SIGINT)


# Every system call, whatever its name.
SYSCALLS = "raw_syscalls:sys_enter"

PERF_EVENTS = (
    SYSCALLS,
    "context-switches",
    "page-faults",
    "instructions",
    "cycles",
    "cache-misses",
    "branch-misses",
)


def perf_events() -> list[str]:
    """The events that can be counted here; none without perf."""
    if shutil.which("perf") is None:
        return []

    def counts(event: str) -> bool:
        argv = ["perf", "stat", "-x,", "-e", event, "true"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
        return done.returncode == 0 and bool(figures.perf_counts(done.stderr))

    return [event for event in PERF_EVENTS if counts(event)]


@contextmanager
def perfed(bench: Bench, server: Server, events: list[str], out: Path) -> Iterator[None]:
    """Counts `events` of the server into `out`, complete after the block."""
    threads = len(list(Path(f"/proc/{server.child.pid}/task").iterdir()))
    argv: Argv = ["perf", "stat", "-x,", "-o", out, "-e", ",".join(events)]
    argv += ["-p", str(server.child.pid)]
    with Child(bench, "perf", argv, bench.testbed_core) as child:
        wait_until_open(child, len(events) * threads)
        yield
        child.stop(signal.SIGINT)


def wait_until_open(perf: Child, counters: int) -> None:
    """perf does not say when it counts; its descriptors do."""
    deadline = time.monotonic() + START_S
    links = Path(f"/proc/{perf.pid}/fd")
    while True:
        if perf.process.poll() is not None or time.monotonic() > deadline:
            raise Failed(f"perf does not count: {perf.said()}")
        try:
            opened = sum("perf_event" in str(link.readlink()) for link in links.iterdir())
        except FileNotFoundError:  # It closed one meanwhile.
            opened = 0
        if opened >= counters:
            return
        time.sleep(POLL_S)
