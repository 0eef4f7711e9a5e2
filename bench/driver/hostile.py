"""The cost of hostile DSPs to the healthy ones beside them: the same open loop without them, with
them, and with them and breakers; and over each version of HTTP, the cost of a single DSP that
answers late, or stops reading.

Owns the split of the testbed's profile file, the runs, and the targets.
"""

import re
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from driver import figures
from driver.figures import Sample
from driver.programs import (
    Bench,
    Fleet,
    FleetOptions,
    Load,
    Terms,
    configuration,
    fleet,
    hammer,
    serving,
)
from driver.scenarios import TMAX_MS
from driver.throughput import START, Say, line, measure

PROFILES = Path(__file__).resolve().parents[2] / "deploy/testbed/hostile.toml"

# Healthy DSPs take tens of milliseconds, so a closed loop reaches its maximum only with far more
# auctions in flight than the cores can process at once.
CAPACITY_IN_FLIGHT = 96
CAPACITY_S = 8

# Time for the breakers to react under the load that is then measured.
SETTLE_S = 3

BREAKER_OFF = "breaker = false\n"

HEALTHY, HOSTILE = "dsp", "hostile"

# Answers long after the deadline.
LATE = """[[dsp]]
bids = "30%"
latency = { min = "400ms", median = "500ms", p99 = "600ms" }
"""

TARGETS = {
    "overshoot_p999_us": 1000.0,
    "overshoot_max_us": 10_000.0,
    "lost": 0,
    "failed": 0,
    "healthy_bids_counted": 0.999,
    "healthy_throughput": 0.95,
}


def fleets_of(profiles: str) -> tuple[FleetOptions, FleetOptions]:
    """The healthy DSPs of a profile file and, separately, those with a faulty phase, so that each
    side has its own counts. Notices are omitted: no server delivers them here, and they are not
    https, which the reference request requires of everything in an ad."""
    profiles = re.sub(r"(?m)^notices = true\n", "", profiles)
    head, *groups = re.split(r"(?m)^(?=\[\[dsp\]\])", profiles)
    sides = []
    for name, is_sick in ((HEALTHY, False), (HOSTILE, True)):
        chosen = [group for group in groups if ("[[dsp.phase]]" in group) == is_sick]
        counts = [re.search(r"(?m)^count = (\d+)$", group) for group in chosen]
        dsps = sum(int(count[1]) if count else 1 for count in counts)
        if dsps == 0:
            raise ValueError(f"the profile file has no {name} DSPs")
        sides.append(FleetOptions(dsps, profiles=head + "".join(chosen), name=name))
    return sides[0], sides[1]


@dataclass(frozen=True)
class Run:
    """An open loop beside hostile DSPs, if any; `base` names the run without them."""

    name: str
    base: str
    healthy: FleetOptions
    sick: FleetOptions | None = None
    # Whether there is a DSP that never reads, too.
    deaf: bool = False
    terms: Terms = Terms(dsp=BREAKER_OFF)


def hostile(bench: Bench, seconds: int, share: float, say: Say) -> dict:
    """The DSPs of the profile file: without the hostile ones, with them, with breakers."""
    healthy, sick = fleets_of(PROFILES.read_text())
    runs = (
        Run("without", "without", healthy),
        Run("breaker off", "without", healthy, sick),
        Run("breaker on", "without", healthy, sick, terms=Terms()),
    )
    title = f"{sick.dsps} hostile DSPs beside {healthy.dsps}"
    return open_loops(bench, ("hostile", title, runs), (seconds, share), say)


def one_of_fifty(bench: Bench, seconds: int, share: float, say: Say) -> dict:
    """A single sick DSP, over each version of HTTP."""
    title = "one DSP of fifty answers late, or stops reading"
    return open_loops(bench, ("hostile-one", title, one_sick_runs()), (seconds, share), say)


def one_sick_runs() -> tuple[Run, ...]:
    """Without breakers: they would soon leave the DSP alone."""
    fleets, _ = fleets_of(PROFILES.read_text())
    profiles = fleets.profiles.replace(f"count = {fleets.dsps}", "count = 49")
    healthy = replace(fleets, dsps=49, profiles=profiles)
    late = FleetOptions(1, profiles=LATE, name=HOSTILE)
    runs = []
    for http in ("1.1", "2"):
        terms = Terms(dsp=f'{BREAKER_OFF}http = "{http}"\n')
        base = f"{http}, without"
        runs.append(Run(base, base, healthy, terms=terms))
        runs.append(Run(f"{http}, late", base, healthy, late, terms=terms))
        runs.append(Run(f"{http}, stops reading", base, healthy, deaf=True, terms=terms))
    return tuple(runs)


def open_loops(
    bench: Bench, plan: tuple[str, str, tuple[Run, ...]], pace: tuple[int, float], say: Say
) -> dict:
    """Capacity with the healthy DSPs alone, then each run as an open loop at a share of it."""
    (name, title, planned), (seconds, share) = plan, pace
    # Breakers must not mistake overload for faults: calls that are not made cost nothing.
    first = planned[0]
    with fleet(bench, first.healthy) as dsps, serving(bench, "vickrey", dsps, first.terms) as server:
        hammer(bench, server.url, START)
        load = Load(min(seconds, CAPACITY_S), in_flight=CAPACITY_IN_FLIGHT)
        closed = {"program": "vickrey"} | measure(bench, server, dsps, load)
    say(f"  closed loop       {line(closed)}")
    rate_per_s = max(1, int(share * closed["answers_per_s"]))
    load = Load(seconds, rate_per_s, TMAX_MS)
    runs: dict[str, dict] = {}
    for each in planned:
        run = {"name": each.name} | open_loop(bench, each, load)
        run |= against(run, runs.get(each.base, run), each.healthy.dsps)
        runs[each.name] = run | {"met": verdicts(run)}
        say(f"  {run_line(rate_per_s, runs[each.name])}")
    return {
        "name": name,
        "kind": "hostile",
        "title": f"{title}, {seconds} s a run",
        "closed_loop": closed,
        "closed_loop_in_flight": CAPACITY_IN_FLIGHT,
        "share": share,
        "rate_per_s": rate_per_s,
        "tmax_ms": TMAX_MS,
        "targets": TARGETS,
        "runs": list(runs.values()),
        "void": any(run["void"] for run in runs.values()),
        "problems": [problem for run in runs.values() for problem in problems(run)],
    }


@contextmanager
def deaf_dsp() -> Iterator[str]:
    """A DSP that takes every connection and never reads: what is sent to it fills the buffers of its
    kernel. Yields its table."""
    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        thread = threading.Thread(target=take_connections, args=(listener, is_over))
        thread.start()
        port = listener.getsockname()[1]
        try:
            yield f'[[dsp]]\nid = "{HOSTILE}-deaf"\nurl = "http://127.0.0.1:{port}/bid"\n'
        finally:
            is_over.set()
            thread.join()


def take_connections(listener: socket.socket, is_over: threading.Event) -> None:
    """Keeps each connection until its client closes it."""
    poll, connections = select.poll(), {}
    poll.register(listener, select.POLLIN)
    while not is_over.is_set():
        for descriptor, _ in poll.poll(100):
            if descriptor == listener.fileno():
                connection, _ = listener.accept()
                connections[connection.fileno()] = connection
                poll.register(connection, select.POLLRDHUP)
            else:
                poll.unregister(descriptor)
                connections.pop(descriptor).close()
    for connection in connections.values():
        connection.close()


def open_loop(bench: Bench, run: Run, load: Load) -> dict:
    """One run, and the counts of the healthy DSPs and the exchange, both since their start."""
    with ExitStack() as stack:
        fleets = [
            stack.enter_context(fleet(bench, side)) for side in (run.healthy, run.sick) if side
        ]
        tables = configuration(bench, fleets, run.terms)
        if run.deaf:
            own = "[[dsp]]\n" + run.terms.dsp
            tables += stack.enter_context(deaf_dsp()).replace("[[dsp]]\n", own)
        before, measured, after = one_window(bench, fleets, tables, load)
        totals, *hurt = (side.totals() for side in fleets)
    counts = figures.since(before, after)
    return measured | {
        "overshoot_exchange_us": figures.overshoot_us(
            counts, int(figures.total(counts, "vickrey_exchange_auctions_total"))
        ),
        "auctions_exchange": books_of_auctions(counts),
        "healthy": books_of_bids(totals, after),
        "healthy_calls_in_window": calls_of(counts, HEALTHY),
        "hostile_calls_in_window": calls_of(counts, HOSTILE),
        "hostile": hurt[0] if hurt else {"deaf": 1} if run.deaf else {},
    }


def one_window(
    bench: Bench, fleets: list[Fleet], tables: str, load: Load
) -> tuple[list[Sample], dict, list[Sample]]:
    """A fresh exchange with this configuration, warmed up under the load that is then measured."""
    with serving(bench, "vickrey", fleets, file_text=tables) as server:
        hammer(bench, server.url, START)
        hammer(bench, server.url, replace(load, seconds=SETTLE_S))
        before = server.metrics()
        measured = measure(bench, server, fleets, load)
        return before, measured, server.metrics()


def books_of_auctions(counts: list[Sample]) -> dict[str, int]:
    """The exchange's counts in the window: all requests, and those not answered as an auction."""
    outcomes = figures.sums_by(counts, "vickrey_exchange_auctions_total", "outcome")
    return {
        "all": sum(outcomes.values()),
        "abandoned": outcomes.get("abandoned", 0),
        "turned_away": outcomes.get("turned_away", 0),
        "panics": int(figures.total(counts, "vickrey_exchange_reactor_panics_total")),
    }


def books_of_bids(totals: dict[str, int], page: list[Sample]) -> dict:
    """Answers and bids of healthy DSPs, sent and counted, since the start of both sides. Answers
    count if they reached their auction. The share excludes answers after the close: the exchange
    reads late ones to their end and counts them, so the rest was lost in time, or came so late that
    its connection was gone. Bids are those in counted answers that were then judged. A late answer
    may be a bid or not, so the numbers of bids agree only if nothing was late."""
    calls = {outcome: each for outcome, each in calls_of(page, HEALTHY).items() if each}
    sent = totals["bid_answers"] + totals["no_bids"]
    late = figures.total_of(page, "vickrey_exchange_dsp_late_answers_total", f"{HEALTHY}-")
    counted = arrived(calls)
    judged = figures.total_of(page, "vickrey_exchange_dsp_responses_total", f"{HEALTHY}-", content="bids")
    return {
        "dsps": totals,
        "exchange_calls": calls,
        "answers_sent": sent,
        "answers_after_close": late,
        "answers_counted": counted,
        "answers_share": figures.ratio(counted, sent - late),
        "bids_sent": totals["bid_answers"],
        "bids_judged": judged,
    }


def arrived(calls: dict[str, int]) -> int:
    """Calls that were answered in time and correctly."""
    return calls.get("answered", 0) + calls.get("no_bid", 0)


def calls_of(samples: list[Sample], dsps: str) -> dict[str, int]:
    """Calls by outcome to the DSPs with this prefix."""
    chosen = [s for s in samples if s.labels.get("dsp", "").startswith(f"{dsps}-")]
    return figures.sums_by(chosen, "vickrey_exchange_dsp_calls_total", "outcome")


def against(run: dict, base: dict, healthy: int) -> dict:
    """A run with healthy and hostile DSPs compared with the one without hostile ones: lost
    auctions, calls to the healthy DSPs, and throughput."""
    counts = run["counts"]
    calls = run["healthy_calls_in_window"]
    bids = calls.get("answered", 0) / run["wall_s"]
    base_bids = base["healthy_calls_in_window"].get("answered", 0) / base["wall_s"]
    return {
        # As a share of all calls that auctions could have made, and of those made.
        "healthy_asked": figures.ratio(sum(calls.values()), run["auctions"] * healthy),
        "healthy_in_time": figures.ratio(arrived(calls), sum(calls.values())),
        "lost": counts["sent"] - run["auctions_exchange"]["all"],
        "failed": run["errors"],
        "answers_of_base": figures.ratio(run["answers_per_s"], base["answers_per_s"]),
        "healthy_bids_of_base": figures.ratio(bids, base_bids),
        "auctions_per_cpu_s_of_base": figures.ratio(
            run["auctions_per_cpu_s"], base["auctions_per_cpu_s"]
        ),
    }


def verdicts(run: dict) -> dict[str, bool]:
    """The targets that a run met. Neither clock may show overshoot beyond the limit."""
    return {
        "overshoot_p999_us": figures.worst_overshoot_us(run, "p999")
        <= TARGETS["overshoot_p999_us"],
        "overshoot_max_us": figures.worst_overshoot_us(run, "max") <= TARGETS["overshoot_max_us"],
        "lost": run["lost"] == TARGETS["lost"],
        "failed": run["failed"] == TARGETS["failed"],
        "healthy_bids_counted": (run["healthy"]["answers_share"] or 0.0)
        >= TARGETS["healthy_bids_counted"],
        "healthy_throughput": min(run["answers_of_base"] or 0.0, run["healthy_bids_of_base"] or 0.0)
        >= TARGETS["healthy_throughput"],
        "auctions_per_cpu_s": (run["auctions_per_cpu_s_of_base"] or 0.0)
        >= TARGETS["healthy_throughput"],
    }


def run_line(rate_per_s: int, run: dict) -> str:
    """A run, as a line of progress."""
    hammer_us, exchange_us = run["overshoot_hammer_us"], run["overshoot_exchange_us"]
    late = figures.past_deadline(run)
    counted, asked = run["healthy"]["answers_share"] or 0, run["healthy_asked"] or 0
    of_base = run["auctions_per_cpu_s_of_base"] or 0
    void = ", VOID" if run["void"] else ""
    return (
        f"{run['name']:<12} {rate_per_s}/s, past the deadline p99.9 {exchange_us['p999']:.0f} and "
        f"{hammer_us['p999']} µs, at most {exchange_us['max']:.0f} and {hammer_us['max']} µs, "
        f"{late['exchange']} and {late['hammer']} auctions (exchange, hammer); lost {run['lost']}, "
        f"failed {run['failed']}; healthy answers counted "
        f"{counted:.3%}, asked {asked:.2%}; auctions per CPU-second "
        f"{run['auctions_per_cpu_s']:.0f}, {of_base:.2f} of without; server "
        f"{run['server_busy']:.0%}, testbed core {run['testbed_core_busy']:.0%}{void}"
    )


def problems(run: dict) -> list[str]:
    """Failures at any load: a void run proves nothing about the rest."""
    found = []
    if run["auctions_exchange"]["panics"]:
        found.append(f"{run['name']}: {run['auctions_exchange']['panics']} connections panicked")
    if run["void"]:
        return found
    if (run["healthy_asked"] or 0.0) < figures.ASKED_MIN:
        asked = run["healthy_asked"] or 0.0
        found.append(f"{run['name']}: healthy DSPs were asked {asked:.1%} of the time")
    if run["lost"]:
        found.append(f"{run['name']}: {run['lost']} requests are missing from the exchange's books")
    if run["failed"]:
        found.append(f"{run['name']}: {run['failed']} requests went wrong")
    return found
