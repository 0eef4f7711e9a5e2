"""The processes of a measurement: DSPs, servers, load, and tools that observe a server.

Owns their starts and ends: every one is a context manager, so none outlives the driver. Must not
know what is measured.
"""

import json
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from driver import figures
from driver.figures import Sample

START_S = 15.0
STOP_S = 15.0
POLL_S = 0.02

# All other keys have their defaults.
CONFIG = """\
[admin]
listen = "127.0.0.1:0"

[exchange]
listen = "127.0.0.1:0"

"""

# A closed loop fills a shard on purpose; refusals would look like capacity.
PATIENT = """\
[runtime.overload]
wait_max = "10s"

"""


# The exchange reads and stores a hundred thousand campaigns before the first auction.
CAMPAIGNS_START_S = 120.0

# A program and its arguments.
Argv = list[str | Path]


class Failed(Exception):
    """A program did not start, ended early, or gave no result. The message names and quotes it."""


@dataclass(frozen=True)
class Bench:
    """The programs, their output folder, and the core of each side."""

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
    # Lines of the single `[[dsp]]` of a profile file, which then describes the DSPs, except for
    # lateness.
    profile: str = ""
    # A complete profile file, which replaces all of the above.
    profiles: str = ""
    # Names the process, its files, and, followed by a number, the DSPs.
    name: str = "dsp"
    tls: bool = False

    def profile_file(self) -> str:
        """The profile file that describes them; empty if the command line does."""
        if self.profiles or not self.profile:
            return self.profiles
        latency = f'"{self.latency_ms}ms"'
        return (
            f'[[dsp]]\ncount = {self.dsps}\nbids = "{self.bid_percent}%"\n'
            f"latency = {{ min = {latency}, median = {latency}, p99 = {latency} }}\n"
            f"{self.profile}\n"
        )


@dataclass(frozen=True)
class Terms:
    """A server's configuration besides its defaults."""

    # TOML that follows `[exchange]`.
    exchange: str = ""
    # First lines of each `[[dsp]]`.
    dsp: str = ""
    # Whether to configure `[record]`, with a directory of its own.
    record: bool = False
    # Whether to configure `[live]`, which needs the record.
    live: bool = False
    # Pattern of account and campaign files; if given, `[budgets]` is configured, with books of its
    # own.
    campaigns: str = ""
    # More lines of `[budgets]`.
    budgets: str = ""
    # Arguments of the floor.
    floor: tuple[str, ...] = ()


NO_TERMS = Terms()


@dataclass(frozen=True)
class Load:
    """The hammer's load: a closed loop, by default with the usual number in flight, or an open loop
    if a rate is given."""

    seconds: int
    rate_per_s: int | None = None
    tmax_ms: int | None = None
    in_flight: int | None = None
    # Call the beacons in answers that begin with this URL.
    beacons: str | None = None
    # In an open loop: number of connections opened in advance and used in turn.
    connections: int | None = None
    # Requests accept http, because the simulated DSPs' notices are https only under TLS.
    insecure: bool = False


class Child:
    """A process bound to a core, or to several as taskset lists them, with its output in files."""

    def __init__(self, bench: Bench, name: str, argv: Argv, core: int | str) -> None:
        self.name = name
        self.stdout, self.stderr = bench.folder / f"{name}.out", bench.folder / f"{name}.err"
        bound = ["taskset", "-c", str(core), *map(str, argv)]
        with self.stdout.open("wb") as out, self.stderr.open("wb") as err:
            # A process group of its own: Ctrl-C stops the driver, which stops the rest in order.
            self.process = subprocess.Popen(
                bound, stdin=subprocess.DEVNULL, stdout=out, stderr=err, process_group=0
            )
        self.pid = self.process.pid

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_for(self, file: Path, pattern: str, patience_s: float = START_S) -> str:
        """The first group of `pattern`, once the process has printed it."""
        deadline = time.monotonic() + patience_s
        while True:
            ended = self.process.poll() is not None
            match = re.search(pattern, file.read_text(errors="replace"))
            if match:
                return match[1]
            if ended or time.monotonic() > deadline:
                raise Failed(f"{self.name} did not start: {self.said()}")
            time.sleep(POLL_S)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stops it and waits, and kills it if it does not react. A second call does nothing."""
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
    """Running DSPs, and the files that describe them to servers."""

    child: Child
    options: FleetOptions
    tables: Path
    urls: Path
    authority: Path

    def totals(self) -> dict[str, int]:
        """Stops the fleet and returns its counts."""
        self.child.stop()
        return figures.fleet_totals(self.child.stdout.read_text())

    def notices(self) -> dict[str, dict[str, int]]:
        """Stops the fleet and returns its counts of notices."""
        self.child.stop()
        return figures.fleet_notices(self.child.stdout.read_text())

    def configuration(self, terms: Terms) -> str:
        """A `[[dsp]]` table of the exchange for each of them."""
        text = self.tables.read_text().replace("[[dsp]]\n", "[[dsp]]\n" + terms.dsp)
        name = self.options.name
        if name == FleetOptions.name:
            return text
        # Two fleets of one exchange must not share ids.
        return text.replace('id = "dsp-', f'id = "{name}-').replace('"seat-', f'"{name}-seat-')


@contextmanager
def fleet(bench: Bench, options: FleetOptions) -> Iterator[Fleet]:
    """Simulated DSPs on the testbed's core."""
    name = f"fleet-{options.name}"
    tables, urls, authority, profiles = (
        bench.folder / f"{name}.{kind}" for kind in ("toml", "txt", "pem", "profiles.toml")
    )
    argv: Argv = [bench.programs / "vickrey", "dsp", "--core", str(bench.testbed_core)]
    described = options.profile_file()
    if described:
        profiles.write_text(described)
        argv += ["--profiles", profiles]
    else:
        latency = ",".join([str(options.latency_ms)] * 3)
        argv += ["--count", str(options.dsps), "--bid-percent", str(options.bid_percent)]
        argv += ["--latency-ms", latency, "--late-ppm", str(options.late_ppm)]
    argv += ["--tls", "--write-ca", authority] if options.tls else []
    argv += ["--write-config", tables, "--write-urls", urls]
    with Child(bench, name, argv, bench.testbed_core) as child:
        child.wait_for(child.stdout, r"(\d+) DSPs? listen")
        yield Fleet(child, options, tables, urls, authority)


@dataclass
class Server:
    """A running exchange, floor or peer."""

    child: Child
    url: str
    metrics_url: str | None = None
    configuration: Path | None = None

    def metrics(self) -> list[Sample]:
        """Its metrics; empty for programs without any."""
        if self.metrics_url is None:
            return []
        with urllib.request.urlopen(self.metrics_url, timeout=10) as page:
            return figures.metrics(page.read().decode())


PROGRAMS = {
    "floor": ["bench-floor", "--listen", "127.0.0.1:0", "--dsps"],
    "vickrey": ["vickrey", "serve", "--shards", "1", "--config"],
    # A tmax above the requests': only theirs ends auctions, as with the others.
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


def configuration(bench: Bench, fleets: Sequence[Fleet], terms: Terms) -> str:
    """A configuration of the exchange for all of the fleets, with an empty log and empty books."""
    own = terms.exchange
    if terms.record:
        own += f'[record]\ndirectory = "{tempfile.mkdtemp(prefix="record-", dir=bench.folder)}"\n'
    if terms.live:
        own += '[live]\nlisten = "127.0.0.1:0"\ntrust_loopback = true\n'
    if terms.campaigns:
        books = tempfile.mkdtemp(prefix="budgets-", dir=bench.folder)
        own += f'[budgets]\ndirectory = "{books}"\ncampaigns = "{terms.campaigns}"\n'
        own += terms.budgets
    return PATIENT + CONFIG + own + "\n" + "".join(fleet.configuration(terms) for fleet in fleets)


def floor_arguments(fleets: Sequence[Fleet], terms: Terms) -> list[str]:
    """The floor's arguments for these fleets: the URLs say whether to use TLS, these name the
    authority to trust."""
    authorities = [f"--ca={fleet.authority}" for fleet in fleets if fleet.options.tls]
    return [*terms.floor, *authorities]


@contextmanager
def serving(
    bench: Bench,
    program: str,
    dsps: Fleet | Sequence[Fleet],
    terms: Terms = NO_TERMS,
    file_text: str | None = None,
) -> Iterator[Server]:
    """A fresh server for one or several fleets, with all its threads on the server's core;
    `file_text` is the exchange's whole configuration, if given."""
    fleets = [dsps] if isinstance(dsps, Fleet) else dsps
    file = bench.folder / ("vickrey.toml" if program == "vickrey" else "urls.txt")
    if program == "vickrey":
        file.write_text(file_text or configuration(bench, fleets, terms))
    else:
        file.write_text("".join(fleet.urls.read_text() for fleet in fleets))
    executable, *arguments = PROGRAMS[program]
    if program == "floor":
        arguments = [*floor_arguments(fleets, terms), *arguments]
    argv: Argv = [bench.programs / executable, *arguments, file]
    if executable == "go-exchange":
        argv = ["env", "GOMAXPROCS=1", *argv]
    with Child(bench, program, argv, bench.server_core) as child:
        if program == "vickrey":
            patience_s = CAMPAIGNS_START_S if terms.campaigns else START_S
            taking = r"taking bid requests at (http://[^\s,]+)"
            url = child.wait_for(child.stderr, taking, patience_s)
            metrics = child.wait_for(child.stderr, r"metrics and health at (http://[^\s,]+)")
            yield Server(child, url, metrics, file)
        else:
            address = child.wait_for(child.stdout, r"listening on (\S+)\n")
            yield Server(child, f"http://{address}/openrtb2/auction")


class Hammer:
    """A running load."""

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
        """Its report, after its end."""
        if not self.is_over(max(0.0, self.deadline_s - time.monotonic())):
            raise Failed(f"hammer did not end in time: {self.child.said()}")
        if not self.json_file.exists():
            raise Failed(f"hammer made no report: {self.child.said()}")
        report = json.loads(self.json_file.read_text())
        if report["counts"]["ok_bid"] + report["counts"]["no_bid"] == 0:
            raise Failed(f"nothing was answered: {self.child.said()}")
        return report


def insecure_requests(bench: Bench) -> Path:
    """A file with the reference request, changed to accept insecure ads. Only the hammer knows that
    request, so it is captured from it."""
    file = bench.folder / "insecure.jsonl"
    if file.exists():
        return file
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(START_S)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        argv: Argv = [bench.programs / "vickrey", "hammer", "exchange", "--url", url]
        argv += ["--reference", "--count", "1", "--warm-up", "0s", "--in-flight", "1"]
        with Child(bench, "sample", argv, bench.testbed_core):
            stream, _ = listener.accept()
            with stream, stream.makefile("rb") as reader:
                stream.settimeout(START_S)
                body = figures.http_body(reader)
                stream.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
    if body.count(b'"secure":1') != 1:
        raise Failed("the reference request asks for https in another way")
    file.write_bytes(body.replace(b'"secure":1', b'"secure":0') + b"\n")
    return file


@contextmanager
def hammering(bench: Bench, url: str, load: Load) -> Iterator[Hammer]:
    """Sends the reference request repeatedly from the testbed's core. There is no warm-up, so the
    report covers all that was sent, and can be compared with the server's use meanwhile."""
    json_file = bench.folder / "hammer.json"
    json_file.unlink(missing_ok=True)
    argv: Argv = [bench.programs / "vickrey", "hammer", "exchange", "--url", url]
    argv += ["--requests", insecure_requests(bench)] if load.insecure else ["--reference"]
    argv += ["--core", str(bench.testbed_core), "--json", json_file]
    argv += ["--warm-up", "0s", "--duration", f"{load.seconds}s"]
    if load.rate_per_s:
        argv += ["--rate", str(load.rate_per_s)]
        argv += ["--connections", str(load.connections)] if load.connections else []
    else:
        argv += ["--in-flight", str(load.in_flight or bench.in_flight)]
    argv += ["--tmax", f"{load.tmax_ms}ms"] if load.tmax_ms else []
    argv += ["--call-beacons", load.beacons] if load.beacons else []
    with Child(bench, "hammer", argv, bench.testbed_core) as child:
        yield Hammer(child, json_file, time.monotonic() + load.seconds + 60)


def hammer(bench: Bench, url: str, load: Load) -> dict:
    """Runs a load to its end, and returns the report."""
    with hammering(bench, url, load) as running:
        return running.report()


@contextmanager
def straced(bench: Bench, server: Server, out: Path) -> Iterator[None]:
    """Counts the server's system calls into `out`, which is complete after the block."""
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
    """Counts the server's `events` into `out`, which is complete after the block."""
    threads = len(list(Path(f"/proc/{server.child.pid}/task").iterdir()))
    argv: Argv = ["perf", "stat", "-x,", "-o", out, "-e", ",".join(events)]
    argv += ["-p", str(server.child.pid)]
    with Child(bench, "perf", argv, bench.testbed_core) as child:
        wait_until_open(child, len(events) * threads)
        yield
        child.stop(signal.SIGINT)


def wait_until_open(perf: Child, counters: int) -> None:
    """perf does not say when it begins to count; its descriptors show it."""
    deadline = time.monotonic() + START_S
    links = Path(f"/proc/{perf.pid}/fd")
    while True:
        if perf.process.poll() is not None or time.monotonic() > deadline:
            raise Failed(f"perf does not count: {perf.said()}")
        try:
            opened = sum("perf_event" in str(link.readlink()) for link in links.iterdir())
        except FileNotFoundError:  # It has closed one meanwhile.
            opened = 0
        if opened >= counters:
            return
        time.sleep(POLL_S)
