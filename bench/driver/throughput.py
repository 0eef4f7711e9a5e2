"""Auctions per CPU-second of the server: programs in turn, under the same load, round by round.

Owns the window, the search for a load that leaves the testbed idle time, and the medians.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from driver import figures, machine
from driver.machine import Reading
from driver.programs import Bench, Fleet, FleetOptions, Load, Server, fleet, hammer, serving

WARM_UP_S = 2
PROBE_S = 3

# A gentle start: the handshakes of all connections for a full load take longer than an auction, and
# this overload could trip the breakers of healthy DSPs.
START = Load(1, in_flight=2)

# With more, an answer could not arrive within the requests' 250 ms.
LATENCY_MS_MAX = 150
ATTEMPTS_MAX = 12

# With a larger share of lost calls, a round did visibly less than the others.
CALLS_LOST_MAX = 0.01

Say = Callable[[str], None]


@dataclass(frozen=True)
class Scenario:
    """The DSPs, the programs to compare, and the share of the floor to reach."""

    name: str
    title: str
    fleet: FleetOptions
    target: float
    peers: bool = False

    def programs(self, peers: Sequence[str]) -> list[str]:
        """The programs of each round, in order; the floor and Vickrey always."""
        return ["floor", "vickrey", *(peers if self.peers else ())]


@dataclass(frozen=True)
class Rounds:
    """The number and length of measurements, and whether to search for a valid load."""

    count: int
    seconds: int
    search: bool
    latency_ms: int = 0


def measure(bench: Bench, server: Server, dsps: Fleet | Sequence[Fleet], load: Load) -> dict:
    """One window: from before the first request of the load to after its last answer."""
    fleets = [dsps] if isinstance(dsps, Fleet) else dsps
    return window_of(bench, server, fleets, lambda: hammer(bench, server.url, load))


def window_of(
    bench: Bench, server: Server, dsps: Sequence[Fleet], load_it: Callable[[], dict]
) -> dict:
    """The same for any `load_it`, which returns the hammer's report."""
    fleets = [each.child.pid for each in dsps]
    cores = (bench.server_core, bench.testbed_core)
    before = machine.read(server.child.pid, fleets, cores)
    report = load_it()
    after = machine.read(server.child.pid, fleets, cores)
    return window(before, after, report)


def window(before: Reading, after: Reading, report: dict) -> dict:
    """The figure of one window, and the figures that show whether it is valid. Shares are of one
    core, from 0 to 1; `others` is neither the server's nor the testbed's."""
    wall_s = after.at_s - before.at_s
    cpu_s = after.server.cpu_s - before.server.cpu_s
    user_s = after.server.user_s - before.server.user_s
    system_s = after.server.system_s - before.server.system_s
    counts = report["counts"]
    auctions = counts["ok_bid"] + counts["no_bid"] + counts["nbr"]
    server_busy = cpu_s / wall_s
    fleet_busy = (after.fleet.cpu_s - before.fleet.cpu_s) / wall_s
    # The hammer's share is of its own run, which equals the window except for its start.
    hammer_busy = report["generator_busy_ppm"] / 1e6
    server_core = figures.busy_share(before.server_core, after.server_core)
    testbed_core = figures.busy_share(before.testbed_core, after.testbed_core)
    return {
        "auctions": auctions,
        "errors": counts["sent"] + counts["unsent"] - auctions,
        "no_bid": counts["no_bid"],
        "wall_s": round(wall_s, 3),
        "cpu_s": round(cpu_s, 4),
        "auctions_per_cpu_s": round(auctions / cpu_s, 1) if cpu_s > 0 else 0.0,
        "system_share": round(system_s / (user_s + system_s), 3) if user_s + system_s > 0 else 0.0,
        "answers_per_s": round(report["answers_per_s"], 1),
        "latency_us": report["latency_us"],
        "counts": counts,
        "statuses": report.get("statuses", {}),
        "server_threads_s": {
            kind: round(cpu_s - before.server_threads.get(kind, 0.0), 4)
            for kind, cpu_s in after.server_threads.items()
        },
        # After the requests' `tmax`, if the load was given one.
        "overshoot_hammer_us": report["overshoot_us"],
        "server_busy": round(server_busy, 3),
        "server_core_busy": round(server_core, 3),
        "server_core_others": round(max(0.0, server_core - server_busy), 3),
        "server_core_stolen": round(figures.steal_share(before.server_core, after.server_core), 3),
        "fleet_busy": round(fleet_busy, 3),
        "hammer_busy": round(hammer_busy, 3),
        "testbed_core_busy": round(testbed_core, 3),
        "testbed_core_others": round(max(0.0, testbed_core - fleet_busy - hammer_busy), 3),
        "void": figures.is_void(testbed_core),
    }


def one_round(bench: Bench, program: str, dsps: Fleet, seconds: int, number: int) -> dict:
    """A fresh server, warmed up, measured, and ended."""
    with serving(bench, program, dsps) as server:
        hammer(bench, server.url, START)
        hammer(bench, server.url, Load(WARM_UP_S))
        before = server.metrics()
        measured = measure(bench, server, dsps, Load(seconds))
        after = server.metrics()
        calls = figures.sums_by(after, "vickrey_exchange_dsp_calls_total", "outcome")
        counts = figures.since(before, after)
        asked = figures.asked_share(counts, measured["auctions"], dsps.options.dsps)
        server.child.stop()
        said = figures.name_value_pairs(server.child.stderr.read_text())
    lost = {name: int(n) for name, n in said.items() if name in ("failed", "late")}
    lost |= {name: n for name, n in calls.items() if n and name not in ("answered", "no_bid")}
    head = {"program": program, "round": number, "asked": asked}
    return head | measured | {"calls_lost": lost}


def line(measured: dict) -> str:
    """A round, as a line of progress."""
    void = ", VOID" if measured["void"] else ""
    errors = f", {measured['errors']} errors" if measured["errors"] else ""
    return (
        f"{measured['program']:<16} {measured['auctions_per_cpu_s']:>8.0f}/CPU-s "
        f"{measured['answers_per_s']:>8.0f}/s, server {measured['server_busy']:.0%}, "
        f"testbed core {measured['testbed_core_busy']:.0%} "
        f"(others {measured['testbed_core_others']:.0%}){errors}{void}"
    )


def all_rounds(
    bench: Bench, options: FleetOptions, programs: list[str], rounds: Rounds, say: Say
) -> list[dict]:
    """Every program in turn, repeatedly; ends early at a void round if a load is being searched
    for."""
    measured: list[dict] = []
    with fleet(bench, options) as dsps:
        if rounds.search:
            # The floor loads the testbed most; a short round of it settles most loads.
            probe = one_round(bench, programs[0], dsps, PROBE_S, 0)
            say(f"  probe at {options.latency_ms:>3} ms    {line(probe)}")
            if probe["void"]:
                return [probe]
        for number in range(1, rounds.count + 1):
            for program in programs:
                measured.append(one_round(bench, program, dsps, rounds.seconds, number))
                say(f"  round {number} at {options.latency_ms:>3} ms  {line(measured[-1])}")
                if rounds.search and measured[-1]["void"]:
                    return measured
    return measured


def settle(
    bench: Bench, rounds: Rounds, measure_at: Callable[[int, bool], list[dict]]
) -> tuple[int, list[dict]]:
    """Measures with rising latencies of the DSPs until no round is void, and returns the last
    latency. `measure_at` gets the latency, and whether a void round may end it early."""
    latency_ms = rounds.latency_ms
    for attempt in range(ATTEMPTS_MAX):
        measured = measure_at(latency_ms, rounds.search)
        worst = max(measured, key=lambda each: each["testbed_core_busy"])
        if not worst["void"] or not rounds.search:
            break
        own_busy = worst["fleet_busy"] + worst["hammer_busy"]
        next_ms = figures.next_latency_ms(
            latency_ms, bench.in_flight, worst["answers_per_s"], own_busy
        )
        if next_ms > LATENCY_MS_MAX or attempt == ATTEMPTS_MAX - 1:
            # Rounds that are void at any load are measured all the same, and marked void.
            measured = measure_at(latency_ms, False)
            break
        latency_ms = next_ms
    return latency_ms, measured


def run(bench: Bench, scenario: Scenario, peers: Sequence[str], rounds: Rounds, say: Say) -> dict:
    """The scenario, its DSPs slowed until no round is void."""
    programs = scenario.programs(peers)

    def measure_at(latency_ms: int, search: bool) -> list[dict]:
        options = replace(scenario.fleet, latency_ms=latency_ms)
        return all_rounds(bench, options, programs, replace(rounds, search=search), say)

    latency_ms, measured = settle(bench, rounds, measure_at)
    options = replace(scenario.fleet, latency_ms=latency_ms)
    return conclude(scenario, options, bench.in_flight, measured)


def conclude(
    scenario: Scenario, options: FleetOptions, in_flight: int, measured: list[dict]
) -> dict:
    """Medians over the rounds, and their ratios to the floor's."""
    figure: dict[str, dict] = {}
    for program in dict.fromkeys(each["program"] for each in measured):
        own = [each for each in measured if each["program"] == program]
        figure[program] = figures.spread([each["auctions_per_cpu_s"] for each in own])
    floor = figure["floor"]["median"]
    for each in figure.values():
        each["of_floor"] = figures.ratio(each["median"], floor)
    return {
        "name": scenario.name,
        "kind": "throughput",
        "title": scenario.title,
        "dsps": options.dsps,
        "bid_percent": options.bid_percent,
        "latency_ms": options.latency_ms,
        "in_flight": in_flight,
        "target": scenario.target,
        "void": any(each["void"] for each in measured),
        "auctions_per_cpu_s": figure,
        "notes": notes(options.dsps, measured),
        "rounds": measured,
        "problems": problems(measured),
    }


def notes(dsps: int, measured: list[dict]) -> list[str]:
    """Rounds that did less than their load requires, and so look cheaper than they are."""
    found = []
    for each in measured:
        # Lost calls include those of the warm-up, in which a server is slowest.
        share = sum(each["calls_lost"].values()) / (each["auctions"] * dsps)
        if share > CALLS_LOST_MAX:
            name = f"{each['program']}, round {each['round']}"
            found.append(f"{name}: {share:.0%} of calls to DSPs came to nothing")
    return found


def problems(measured: list[dict]) -> list[str]:
    """Failures, regardless of the figures."""
    found = []
    for each in measured:
        name = f"{each['program']}, round {each['round']}"
        if each["errors"]:
            meant = each["auctions"] + each["errors"]
            found.append(f"{name}: {each['errors']} of {meant} requests went wrong")
        found += not_asked(name, each)
    return found


def not_asked(name: str, each: dict) -> list[str]:
    """Whether a round was cheap because breakers kept it from calling DSPs."""
    if each["void"] or each["asked"] is None or each["asked"] >= figures.ASKED_MIN:
        return []
    return [f"{name}: DSPs were asked {each['asked']:.1%} of the time"]
