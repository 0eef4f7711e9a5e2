#!/usr/bin/env python3
"""Reproduces every figure of the exchange, beside the floor and the peers.

Owns the command line, the build, and the place of results. README.md explains the method.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from driver import (
    budget_auction,
    budgets,
    cache_core,
    cache_http,
    cache_shards,
    campaigns,
    cold,
    hostile,
    live,
    live_auctions,
    log,
    enrichment,
    lookup,
    lookup_soak,
    lookups,
    machine,
    multiplexed,
    overload,
    pacer_wire,
    pacing,
    record,
    reload,
    report,
    scenarios,
    throughput,
    variants,
)
from driver.programs import Bench, Failed, FleetOptions
from driver.throughput import Rounds, Scenario

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
PEERS = ("go", "go-marshal-once")
# Has examples of a map and of enrichments.
DEPLOY = Path(__file__).resolve().parent.parent / "deploy"
PROGRAMS = ("vickrey", "bench-cache", "bench-floor", "bench-log", "bench-ledger", "bench-live", "bench-lookup", "bench-pacer")
# Further programs of these packages.
TOOLS = ("pacer-echo",)

THROUGHPUT = {
    scenario.name: scenario
    for scenario in (
        Scenario("dsps-50", "30 % bid among 50 DSPs", FleetOptions(50), 0.80, peers=True),
        Scenario("dsps-10", "30 % bid among 10 DSPs", FleetOptions(10), 0.70, peers=True),
        Scenario("dsps-100", "30 % bid among 100 DSPs", FleetOptions(100), 0.70),
        Scenario("all-bid", "all of 50 DSPs bid", FleetOptions(50, bid_percent=100), 0.70),
    )
}
SCENARIOS = (
    *THROUGHPUT,
    "latency",
    "memory",
    "calls",
    "hostile",
    "hostile-one",
    "notices",
    "tls-gzip",
    "http2",
    "reload",
    "overload",
    "cold",
    "record",
    "log-commit",
    "log-read",
    "log-start",
    "budget-core",
    "budget-core-22m",
    "budget-store",
    "budget-auction",
    "budget-campaigns",
    "pacer-wire",
    "pacer-shards",
    "live",
    "live-auctions",
    "cache-core",
    "cache",
    "cache-shards",
    "cache-storms",
    "lookup-core",
    "lookup",
    "lookup-soak",
    "enrichment",
    "pacing",
)
# Groups of scenarios under one name.
GROUPS = {
    "log": ("log-commit", "log-read", "log-start"),
    "budgets": ("budget-core", "budget-core-22m", "budget-store", "budget-auction", "budget-campaigns"),
}

EPILOG = """\
scenarios (all of them, where none is named; about 40 minutes):
  dsps-50    auctions per CPU-second, 30 % of 50 DSPs bid; floor, vickrey, Go peers
  dsps-10    the same among 10 DSPs
  dsps-100   the same among 100 DSPs; floor, vickrey
  all-bid    all of 50 DSPs bid; floor, vickrey
  latency    open loop at 60 % of the closed-loop maximum; deadline, and whether every bid counted
  memory     resident set under load; --soak for ten minutes
  calls      system calls per auction, by strace and perf where they are installed
  hostile    open loop with ten hostile DSPs among fifty, breaker off, then on; without them
  hostile-one  one DSP of fifty answers late, or stops reading, over each version of HTTP
  notices    auctions per CPU-second with win, billing and loss notices, and without
  tls-gzip   the same with TLS to DSPs, gzip answers, both, neither; the floor beside each
  reload     open loop among 1,000 configured DSPs, reloaded every second; and left alone
  overload   open loops at 0.8 to 4 times the closed-loop maximum; what is answered in time
  cold       the first seconds of an exchange without a connection, plain and over TLS
  record     what an auction pays for its record; p99.9 on a disk made slow, by strace
  log-commit durable records by group commit; the same writes and syncs raw, and by fio
  log-read   verify and replay beside the same files read alone, out of the page cache and in it
  log-start  the first auction over 10 GiB of a log whose end is torn; needs that much disk
  log        the last three
  budget-core  what a shard pays to decide, reserve and settle; counters and a map beside it
  budget-core-22m  the same with 22 million open reservations
  budget-store durable batches of leases; the same bytes written and synced raw
  budget-auction    what an auction pays for accounts of seats, and for 100 direct campaigns
  budget-campaigns  100,000 campaigns: memory, reloads, and latency meanwhile
  budgets    the last four
  pacer-wire bid requests per CPU-second of the pacer, and latency of batches; an echo and a Go peer
  pacer-shards  the pacer with one and two shards, and its memory
  live       deliveries of the feed per CPU-second; a raw loop and NATS; latency, stalled, idle; bids on lots
  live-auctions  what a feed costs the auctions beside it, with one subscriber and with a hundred
  cache-core the cache's directory: lock, look-up and hit ratio beside other locks and caches; all cores
  cache      hits per CPU-second of the cache over HTTP; bare hyper, nginx, Varnish, Traffic Server
  cache-shards  the same with one to eight shards, beside bare hyper; needs two cores for each
  cache-storms  p99.9 of hits beside misses, purges and evictions
  lookup-core  records of look-ups read and merged, beside parsing alone; calls through a lane
  enrichment  three enrichments of each auction: a loop, and the server's CPU with and without them
  lookup     queries to simulated providers: limits kept and found, deadlines, polls, cost, memory
  lookup-soak  memory of look-ups once their stores are full; --soak for ten minutes
  pacing     what strategies buy on streams of 22 kinds, beside hindsight; --rounds is seeds

examples:
  bench/run.py                          everything
  bench/run.py --quick                  one short round of dsps-50, and calls: does it work?
  bench/run.py dsps-50 --rounds 5       one scenario, more rounds
  bench/run.py memory --soak            ten minutes of load
  bench/run.py hostile --open-seconds 5 does it work?

Needs two cores that nothing else uses. Exit codes: 0 measured (also where a target was missed or a
figure is void: both are stated), 1 requests went wrong, bids were not counted or reloads refused,
64 usage, 69 a program could not run, 130 interrupted; what was measured until then is kept.
"""


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("scenario", nargs="*", metavar="SCENARIO", help="what to measure [default: all]")
    add("--quick", action="store_true", help="one round of 3 s of dsps-50 without peers, and calls")
    add(
        "--rounds",
        type=positive,
        default=3,
        metavar="N",
        help="rounds of each program [default: 3]",
    )
    add("--seconds", type=positive, default=8, metavar="S", help="length of a round [default: 8]")
    add(
        "--open-seconds",
        type=positive,
        default=60,
        metavar="S",
        help="length of an open loop [default: 60]",
    )
    add(
        "--open-share",
        type=percentage,
        default=scenarios.OPEN_LOOP_SHARE,
        metavar="PERCENT",
        help="rate of hostile and reload, of the closed-loop maximum [default: 60]",
    )
    add(
        "--reload-seconds",
        type=positive,
        default=20,
        metavar="S",
        help="length of a run of reload and budget-campaigns [default: 20]",
    )
    add("--soak", action="store_true", help="memory over 600 s instead of 60 s")
    add("--soak-seconds", type=positive, metavar="S", help="memory over S seconds")
    add(
        "--in-flight",
        type=positive,
        default=32,
        metavar="N",
        help="requests in flight [default: 32]",
    )
    add(
        "--latency-ms",
        type=int,
        default=0,
        metavar="MS",
        help="least latency of the DSPs [default: 0]",
    )
    add(
        "--accept-void", action="store_true", help="measure at --latency-ms even if rounds are void"
    )
    add("--no-peers", action="store_true", help="leave the Go peers out")
    add("--server-core", type=int, default=0, metavar="CORE", help="core of servers [default: 0]")
    add(
        "--testbed-core",
        type=int,
        default=1,
        metavar="CORE",
        help="core of DSPs and load [default: 1]",
    )
    add(
        "--programs",
        type=Path,
        metavar="DIR",
        help="folder of built programs; nothing is built then",
    )
    add(
        "--out",
        type=Path,
        default=HERE / "runs",
        metavar="DIR",
        help="where results go [default: bench/runs]",
    )
    args = parser.parse_args()
    args.scenario = [name for each in args.scenario for name in GROUPS.get(each, (each,))]
    unknown = [name for name in args.scenario if name not in SCENARIOS]
    if unknown:
        refuse(f"no scenario `{unknown[0]}`; there are {', '.join((*SCENARIOS, *GROUPS))}")
    if not 0 <= args.latency_ms <= throughput.LATENCY_MS_MAX:
        refuse(
            f"--latency-ms {args.latency_ms}: at most {throughput.LATENCY_MS_MAX}, which leaves "
            "time before the deadline"
        )
    cores = {args.server_core, args.testbed_core}
    if len(cores) < 2 or not cores <= os.sched_getaffinity(0):
        allowed = sorted(os.sched_getaffinity(0))
        refuse(f"--server-core and --testbed-core must be two of the cores {allowed}")
    if shutil.which("taskset") is None:
        refuse("taskset is missing; it comes with util-linux")
    if args.quick:
        args.scenario, args.rounds, args.seconds = ["dsps-50", "calls"], 1, 3
        args.no_peers = args.accept_void = True
    return args


def positive(text: str) -> int:
    """A whole number above zero."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def percentage(text: str) -> float:
    """A share of 1 to 100 percent, from 0 to 1."""
    number = positive(text)
    if number > 100:
        raise ValueError(text)
    return number / 100


def refuse(problem: str) -> None:
    """Exits with an error that the user can fix."""
    print(f"error: {problem}", file=sys.stderr)
    sys.exit(64)


def build(folder: Path, peers: bool) -> list[str]:
    """Builds every program and links it into `folder`; returns the peers that are missing."""
    packages = [argument for name in PROGRAMS for argument in ("-p", name)]
    cargo = ["cargo", "build", "--release", "--locked", *packages]
    subprocess.run(cargo, cwd=REPOSITORY, check=True)
    # CARGO_TARGET_DIR, as cargo reads it: relative to cargo's working directory.
    target = REPOSITORY / os.environ.get("CARGO_TARGET_DIR", "target")
    for name in (*PROGRAMS, *TOOLS):
        (folder / name).symlink_to(target / "release" / name)
    if not peers:
        return ["the Go peers were not asked for"]
    if shutil.which("go") is None:
        return ["go is not installed: no Go peers"]
    for peer in ("go-das", "go-exchange", "go-pacer"):
        subprocess.run(
            ["go", "build", "-o", folder / peer, "."], cwd=HERE / "peers" / peer, check=True
        )
    # The only peer with dependencies, which may have to be downloaded.
    nats = ["go", "build", "-o", folder / "go-nats", "."]
    if subprocess.run(nats, cwd=HERE / "peers" / "go-nats", check=False).returncode != 0:
        return ["go-nats does not build: no NATS"]
    return []


class Results:
    """The results so far, on disk after every scenario, so that Ctrl-C loses at most one."""

    def __init__(self, out: Path, skipped: list[str]) -> None:
        started = datetime.now(UTC)
        self.page: dict = {
            "started_at": started.isoformat(timespec="seconds"),
            "machine": machine.describe(REPOSITORY),
            "skipped": skipped,
            "scenarios": [],
        }
        out.mkdir(parents=True, exist_ok=True)
        self.stem = out / f"{started:%Y%m%dT%H%M%SZ}-{machine.label(self.page['machine'])}"

    def add(self, entry: dict) -> None:
        """Adds one scenario and writes all results."""
        self.page["scenarios"].append(entry)
        self.stem.with_name(self.stem.name + ".json").write_text(
            json.dumps(self.page, indent=1) + "\n"
        )
        self.stem.with_name(self.stem.name + ".md").write_text(report.markdown(self.page))

    def problems(self) -> list[str]:
        """Failures of all scenarios."""
        return [problem for entry in self.page["scenarios"] for problem in entry["problems"]]


def measure(args: argparse.Namespace, bench: Bench, results: Results) -> None:
    """The requested scenarios, in the order of the list."""
    peers = PEERS if (bench.programs / "go-exchange").exists() and not args.no_peers else ()
    rounds = Rounds(args.rounds, args.seconds, not args.accept_void, args.latency_ms)
    soak_s = args.soak_seconds or (600 if args.soak else 60)
    others: dict[str, Callable[[], dict]] = {
        "latency": lambda: scenarios.latency(bench, args.open_seconds, say),
        "memory": lambda: scenarios.memory(bench, soak_s, say),
        "calls": lambda: scenarios.calls(bench, 3, say),
        "hostile": lambda: hostile.hostile(bench, args.open_seconds, args.open_share, say),
        "hostile-one": lambda: hostile.one_of_fifty(bench, args.open_seconds, args.open_share, say),
        "notices": lambda: variants.run(bench, variants.notices(), rounds, say),
        "tls-gzip": lambda: variants.run(bench, variants.codings(), rounds, say),
        "http2": lambda: multiplexed.multiplexed(bench, rounds, say),
        "reload": lambda: reload.reload(bench, args.reload_seconds, args.open_share, say),
        "overload": lambda: overload.overload(bench, rounds.seconds, say),
        "cold": lambda: cold.cold(bench, rounds, say),
        "record": lambda: record.record(bench, rounds, args.open_seconds, say),
        "log-commit": lambda: log.commit(bench, rounds.count, say),
        "log-read": lambda: log.read_back(bench, rounds.count, say),
        "log-start": lambda: log.start(bench, rounds.count, say),
        "budget-core": lambda: budgets.core(bench, rounds.count, budgets.OPEN[0], say),
        "budget-core-22m": lambda: budgets.core(bench, rounds.count, budgets.OPEN[1], say),
        "budget-store": lambda: budgets.store(bench, rounds.count, say),
        "budget-auction": lambda: budget_auction.auction(bench, rounds, say),
        "budget-campaigns": lambda: campaigns.campaigns(bench, rounds, args.reload_seconds, say),
        "pacer-wire": lambda: pacer_wire.wire(bench, rounds, has_peer(bench, args, "go-pacer"), say),
        "pacer-shards": lambda: pacer_wire.shards(bench, rounds, say),
        "live": lambda: live.feed(bench, rounds, has_peer(bench, args, "go-nats"), say),
        "live-auctions": lambda: live_auctions.live_auctions(bench, rounds, say),
        "cache-core": lambda: cache_core.cache_core(bench, rounds, say),
        "cache": lambda: cache_http.cache_http(bench, rounds, say),
        "cache-shards": lambda: cache_shards.cache_shards(bench, rounds, say),
        "cache-storms": lambda: cache_http.cache_storms(bench, rounds, say),
        "lookup-core": lambda: lookup.lookup_core(bench, rounds, say),
        "lookup": lambda: lookups.lookup_service(bench, rounds, has_peer(bench, args, "go-das"), say),
        "lookup-soak": lambda: lookup_soak.lookup_soak(bench, soak_s, say),
        "enrichment": lambda: enrichment.enrichment(bench, DEPLOY, rounds, say),
        "pacing": lambda: pacing.pacing(bench, rounds.count, say),
    }
    for name in SCENARIOS:
        if args.scenario and name not in args.scenario:
            continue
        say(name)
        scenario = THROUGHPUT.get(name)
        entry = throughput.run(bench, scenario, peers, rounds, say) if scenario else others[name]()
        results.add(entry)
        if scenario:
            figure = entry["auctions_per_cpu_s"]
            shares = [f"{program} {each['of_floor']:.3f}" for program, each in figure.items()]
            say(f"  of the floor: {', '.join(shares)}{report.void(entry)}")


def has_peer(bench: Bench, args: argparse.Namespace, name: str) -> bool:
    """Whether to measure it."""
    return not args.no_peers and (bench.programs / name).exists()


def say(text: str) -> None:
    """Prints progress at once, even into a pipe."""
    print(text, flush=True)


def interrupt(*_: object) -> None:
    """SIGTERM ends the run as Ctrl-C does, with its children."""
    raise KeyboardInterrupt


def main() -> int:
    args = arguments()
    signal.signal(signal.SIGTERM, interrupt)
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
            folder = Path(temporary)
            programs = args.programs.resolve() if args.programs else folder
            skipped = [] if args.programs else build(folder, not args.no_peers)
            # Not on the server's core: the driver sleeps, but wakes up at times.
            os.sched_setaffinity(0, {args.testbed_core})
            results = Results(args.out, skipped)
            bench = Bench(programs, folder, args.server_core, args.testbed_core, args.in_flight)
            measure(args, bench, results)
            for problem in results.problems():
                say(f"problem: {problem}")
            say(f"written: {os.path.relpath(results.stem)}.json and .md")
            return 1 if results.problems() else 0
    except (Failed, OSError, subprocess.SubprocessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 69
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
